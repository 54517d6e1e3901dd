"""What looks like a secret, and what only seems to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.checks import secrets
from evaluator.checks.change import ChangedFile, changed_files
from evaluator.checks.secrets import MAX_LINE, check_secrets, find_secrets
from tests.evaluator.kit import Bench, built_in

RANDOM = "q7Zr2Lw9Xk4Vb6Nm1Tc8"
FORMS = {
    "private key": "-----BEGIN OPENSSH PRIVATE KEY-----",
    "AWS access key": "AKIA" + "Q7ZR2LW9XK4VB6NM",
    "GitHub token": "ghp_" + RANDOM + RANDOM,
    "GitLab token": "glpat-" + RANDOM,
    "Slack token": "xoxb-" + RANDOM,
    "Google API key": "AIza" + (RANDOM * 2)[:35],
    "Stripe key": "sk_live_" + RANDOM,
    "Anthropic key": "sk-ant-api03-" + RANDOM,
    "OpenAI key": "sk-proj-" + RANDOM,
    "PyPI token": "pypi-AgE" + RANDOM * 3,
    "npm token": "npm_" + (RANDOM * 2)[:36],
    "web token": f"eyJ{RANDOM}.eyJ{RANDOM}.{RANDOM}",
}


def forms(text: str) -> list[str]:
    return [secret.form for secret in find_secrets([(1, text.encode())])]


@pytest.mark.parametrize("form", FORMS)
def test_each_known_form(form: str) -> None:
    """A credential of a known form is found in the middle of a line, with its first characters only."""
    (found,) = (item for item in find_secrets([(7, f"x = '{FORMS[form]}'".encode())]) if item.form == form)
    assert (found.line, found.masked) == (7, FORMS[form][:4] + "…")


@pytest.mark.parametrize(
    "line",
    [
        f"password = '{RANDOM}'",
        f'"api_key": "{RANDOM}"',
        f"DB_SECRET={RANDOM}",
        f"github_token: {RANDOM}",
        f"apiKey := {RANDOM}",
    ],
)
def test_a_random_value_under_a_telling_name(line: str) -> None:
    """In any notation; the name is told and the value is not."""
    (found,) = find_secrets([(1, line.encode())])
    assert found.form.startswith("value of ")
    assert RANDOM not in found.form + found.masked


@pytest.mark.parametrize(
    "line",
    [
        "password = os.environ['PASSWORD']",
        "token = get_token_from_the_keyring()",
        "password = 'correct horse battery staple'",
        "secret = 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1'",
        "api_key = 'your-api-key-0123456789abc'",
        "AKIAIOSFODNN7EXAMPLE",
        f"checksum = '{RANDOM}'",
        "token_path = '/home/user/a1/b2/c3/d4/e5/f6'",
        "token_class = 'django.contrib.auth2.tokens'",
        "task-force-of-the-risk-assessment-team",
        "",
    ],
)
def test_what_is_none(line: str) -> None:
    """References, names, paths, placeholders, and random values under names that say nothing."""
    assert forms(line) == []


def test_a_secret_far_inside_a_long_line_is_found_once() -> None:
    """Long lines are looked at in windows that overlap."""
    for at in (0, MAX_LINE - 20, MAX_LINE - 600, MAX_LINE, 3 * MAX_LINE):
        assert forms("-" * at + FORMS["GitHub token"] + "-" * MAX_LINE) == ["GitHub token"]


def test_hostile_lines_take_no_more_time_than_their_length() -> None:
    """A megabyte of what each expression begins with ends; the test's own limit is the proof."""
    for unit in ("password", "eyJ0.", "-----BEGIN ", "a" * 40, "api_key = ", "sk-"):
        assert find_secrets([(1, (unit * (1_000_000 // len(unit))).encode())]) == ()


@given(st.lists(st.binary(max_size=80), max_size=5))
def test_any_bytes_can_be_looked_at(lines: list[bytes]) -> None:
    """What is found says where, and no more than four characters of the value."""
    for secret in find_secrets(list(enumerate(lines, 1))):
        assert 1 <= secret.line <= len(lines)
        assert len(secret.masked) <= 5


@given(
    st.lists(st.one_of(st.binary(max_size=60), st.sampled_from([form.encode() for form in FORMS.values()])), max_size=9)
)
def test_lines_without_a_mark_hold_nothing(lines: list[bytes]) -> None:
    """What is found is what each line gives when it is looked at whole, in the same order."""
    numbered = [(number, line.replace(b"\n", b"")) for number, line in enumerate(lines, 1)]
    assert find_secrets(numbered) == tuple(found for item in numbered for found in secrets._in_line(*item))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_a_mark(form: str) -> None:
    """Upper or lower case where the form allows it; a line of each is looked at."""
    assert secrets._marked([b"", FORMS[form].encode(), b"x"]) == [1]


def files(bench: Bench, changes: dict[str, str | None]) -> list[ChangedFile]:
    candidate, tree = bench.tree(changes)
    return list(changed_files(candidate.operations, bench.snapshot, tree))


def test_only_added_lines_are_looked_at(project: Bench) -> None:
    """What was there before is not the candidate's; an exempted path is left out."""
    config = built_in("secrets", "secrets")
    token = f"token = '{FORMS['GitHub token']}'\n"
    seen = check_secrets(config, files(project, {"calc.py": "x = 1\n" + token, "tests/data.txt": token}))
    assert [(f.path, f.line) for f in seen.findings] == [
        ("calc.py", 2),
        ("calc.py", 2),
        ("tests/data.txt", 1),
        ("tests/data.txt", 1),
    ]
    assert all(FORMS["GitHub token"] not in f.message for f in seen.findings)
    exempt = built_in("secrets", "secrets", patterns=("tests/**",))
    assert check_secrets(exempt, files(project, {"tests/data.txt": token})).status == "passed"
    assert check_secrets(config, files(project, {"README.md": None})).status == "passed"
