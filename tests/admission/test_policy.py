"""The admission policy: what the starter does to real changes, and its TOML."""

from __future__ import annotations

import tomllib
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from admission.documents import (
    CompanionRule,
    Enforcement,
    Exemption,
    GatePolicy,
    Outcome,
    PathRule,
    Policy,
    Sandboxes,
    Staged,
)
from admission.policy import CHANGED, LOCKS, MANIFESTS, MAX_POLICY_BYTES, policy_toml, read_policy, starter_policy
from admission.rules import RESERVED
from savant.contracts.document import seal
from savant.contracts.errors import RefusedInput
from savant.contracts.scalars import as_set
from savant.files.patterns import PatternSet
from tests.admission.kit import Tree, command_check, conditions, f, judge, link, refusals, submodule, x

BASE: Tree = {
    b"app.py": f(b"a = 1\n"),
    b"tests/test_app.py": f(b"def test_a(): assert 1\n"),
    b"pyproject.toml": f(b"[project]\n"),
    b"uv.lock": f(b"version = 1\n"),
    b"package.json": f(b"{}\n"),
    b"package-lock.json": f(b"{}\n\n"),
    b".savant/policy.toml": f(b"allow = ['**']\n"),
    b".github/workflows/ci.yml": f(b"on: push\n"),
    b"vendor/lib": submodule("1"),
    b"run.sh": f(b"echo\n"),
    b"latest": link(b"app.py"),
}
FIX: Tree = {**BASE, b"app.py": f(b"a = 2\n")}


def with_files(tree: Tree, files: dict[bytes, tuple[str, bytes] | None]) -> Tree:
    merged = {**tree, **files}
    return {path: value for path, value in merged.items() if value is not None}


SCENARIOS: dict[str, tuple[dict[bytes, tuple[str, bytes] | None], Outcome, set[str]]] = {
    "a fix": ({}, "admitted", set()),
    "a fix and a new test": ({b"tests/test_new.py": f(b"def test_b(): pass\n")}, "admitted", set()),
    "an edited test": ({b"tests/test_app.py": f(b"pass\n")}, "waiting", {"existing-tests"}),
    "a removed test": ({b"tests/test_app.py": None}, "waiting", {"existing-tests"}),
    "a test moved out of the way": (
        {b"tests/test_app.py": None, b"old.txt": BASE[b"tests/test_app.py"]},
        "waiting",
        {"existing-tests"},
    ),
    "a new conftest.py": ({b"tests/conftest.py": f(b"collect = 0\n")}, "waiting", {"test-configuration"}),
    "a deep conftest.py": ({b"src/pkg/conftest.py": f(b"collect = 0\n")}, "waiting", {"test-configuration"}),
    "an edited workflow": ({b".github/workflows/ci.yml": f(b"on: never\n")}, "waiting", {"ci"}),
    "a new workflow": ({b".github/workflows/x.yml": f(b"on: push\n")}, "waiting", {"ci"}),
    "a manifest and its lock": (
        {b"pyproject.toml": f(b"[project]\nname = 'x'\n"), b"uv.lock": f(b"version = 2\n")},
        "waiting",
        {"dependencies"},
    ),
    "a manifest without its lock": (
        {b"pyproject.toml": f(b"[project]\nname = 'x'\n")},
        "waiting",
        {"dependencies", "lock-python"},
    ),
    "a manifest, and its lock removed": (
        {b"package.json": f(b"{ }\n"), b"package-lock.json": None},
        "waiting",
        {"dependencies", "lock-node"},
    ),
    "a manifest removed with its lock": (
        {b"package.json": None, b"package-lock.json": None},
        "waiting",
        {"dependencies"},
    ),
    "a lock alone": ({b"uv.lock": f(b"version = 3\n")}, "waiting", {"dependencies"}),
    "a pytest.ini that hides": ({b".pytest.ini": f(b"[pytest]\n")}, "waiting", {"test-configuration"}),
    "a pytest.toml that hides": ({b"pytest.toml": f(b"[pytest]\n")}, "waiting", {"test-configuration"}),
    "a path file": ({b"src/x.pth": f(b"import os\n")}, "waiting", {"test-configuration"}),
    "a makefile read before Makefile": ({b"GNUmakefile": f(b"all:\n")}, "waiting", {"build"}),
    "a compose file": ({b"compose.yml": f(b"services: {}\n")}, "waiting", {"containers"}),
    "another package index": ({b".npmrc": f(b"registry=x\n")}, "waiting", {"dependencies"}),
    "rules for an agent, deeper": ({b"pkg/.cursor/rules/x.md": f(b"x\n")}, "waiting", {"agent-instructions"}),
    "people": ({b".savant/people.toml": f(b"person = []\n")}, "refused", set()),
    "agents told something": ({b"AGENTS.md": f(b"be bold\n")}, "waiting", {"agent-instructions"}),
    "a Makefile": ({b"Makefile": f(b"all:\n")}, "waiting", {"build"}),
    "a Dockerfile": ({b"deploy/Dockerfile": f(b"FROM x\n")}, "waiting", {"containers"}),
    "owners": ({b".github/CODEOWNERS": f(b"* @x\n")}, "waiting", {"ci", "owners"}),
    "a migration": ({b"shop/migrations/0001.py": f(b"pass\n")}, "waiting", {"migrations"}),
    "a new link": ({b"new": link(b"app.py")}, "waiting", {"new-links"}),
    "a repointed link": ({b"latest": link(b"run.sh")}, "waiting", {"new-links"}),
    "a file made a link": ({b"run.sh": link(b"app.py")}, "waiting", {"new-links"}),
    "a link removed": ({b"latest": None}, "admitted", set()),
    "a link made a file": ({b"latest": f(b"x\n")}, "admitted", set()),
    "a new executable": ({b"go.sh": x(b"go\n")}, "waiting", {"new-executables"}),
    "a file made executable": ({b"run.sh": x(b"echo\n")}, "waiting", {"new-executables"}),
    "the rules": ({b".savant/policy.toml": f(b"allow = []\n")}, "refused", set()),
    "new rules": ({b".savant/x.toml": f(b"\n")}, "refused", set()),
    "rules under another spelling": ({b".Savant/policy.toml": f(b"\n")}, "refused", set()),
    "submodules declared": ({b".gitmodules": f(b"[submodule]\n")}, "refused", set()),
    "a moved submodule": ({b"vendor/lib": submodule("2")}, "refused", set()),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_the_starter_policy_does(name: str) -> None:
    """Each change beside an innocent fix has the outcome and the conditions that the documentation promises."""
    files, outcome, asked = SCENARIOS[name]
    decision = judge(BASE, with_files(FIX, files))
    assert (decision.outcome, conditions(decision)) == (outcome, asked)


def test_a_file_called_savant_is_refused_where_there_are_no_rules() -> None:
    """The folder of the rules cannot be taken by a link or a file."""
    before = {b"app.py": f(b"a = 1\n")}
    assert judge(before, {**before, b"b.py": f(b"\n")}).outcome == "admitted"
    for taken in (f(b"\n"), link(b"app.py")):
        assert refusals(judge(before, {**before, b".savant": taken})) == [("admission.scope.refused", ".savant")]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (b".savant/policy.toml", "admission.scope.refused"),
        (b".SAVANT/policy.toml", "admission.scope.disguised-rules"),
        (b".gitmodules", "admission.scope.refused"),
        (b"vendor/lib", "admission.operation.unsupported"),
    ],
)
def test_a_refusal_names_its_path(path: bytes, code: str) -> None:
    """The reason is about exactly the path that is refused."""
    content = submodule("3") if path == b"vendor/lib" else f(b"changed\n")
    assert refusals(judge(BASE, {**FIX, path: content})) == [(code, path.decode())]


def test_without_a_required_check_a_person_is_asked() -> None:
    """Neither no check nor an optional one is a measurement."""
    assert judge(BASE, FIX).outcome == "admitted"
    for checks in ((), (command_check(required=False),)):
        decision = judge(BASE, FIX, checks=checks)
        assert (decision.outcome, conditions(decision)) == ("waiting", {"no-required-check"})


def test_the_starter_says_that_it_is_the_starter() -> None:
    """Its decision names it as a limitation; a repository's own policy is none."""
    assert [limit.source for limit in judge(BASE, FIX).limitations] == ["admission.policy"]
    assert judge(BASE, FIX, policy=starter_policy("repository")).limitations == ()


def test_the_starter_is_written_and_read_the_same() -> None:
    """What ``init`` writes is what is in force without it, but for its origin."""
    assert read_policy(policy_toml(starter_policy()).encode()) == starter_policy("repository")
    assert starter_policy() == structs.replace(starter_policy("repository"), origin="starter")


def test_the_starter_is_well_formed() -> None:
    """Its ids are unique and free, each manifest and lock is asked about, and it survives its own encoding."""
    policy = seal(starter_policy()).document
    ids = [rule.id for rule in (*policy.refuse, *policy.ask)] + [rule.id for rule in policy.companions]
    assert len(set(ids)) == len(ids)
    assert not RESERVED & set(ids)
    dependencies = PatternSet.parse(next(rule for rule in policy.ask if rule.id == "dependencies").patterns)
    assert all(dependencies.matches(name.replace("*", "x").encode()) for name in (*MANIFESTS, *LOCKS))
    assert "create" not in CHANGED
    assert get_args(Outcome)[0] == "admitted"


WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)


@given(
    words=WORDS,
    patterns=st.lists(st.sampled_from(("src/**", "*.py", "a b/", "[!x]", "caf%C3%A9", "ü/*"))),
    enforcement=st.sampled_from(get_args(Enforcement)),
    expires=st.none() | st.dates().map(str),
)
def test_any_policy_survives_its_toml(
    words: str, patterns: list[str], enforcement: Enforcement, expires: str | None
) -> None:
    """Quotes, control characters, emoji and line ends in a rule's words are written so that they are read again."""
    rule = PathRule(
        id="own",
        patterns=as_set(["*", *patterns]),
        operations=as_set(("create", "delete")),
        reason=words,
        enforcement=enforcement,
    )
    pair = CompanionRule(id="pair", when=("a",), need=("b",), reason=words, enforcement=enforcement)
    once = Exemption(id="once", rule="own", patterns=rule.patterns, reason=words, expires=expires)
    policy = structs.replace(starter_policy("repository"), refuse=as_set([rule]), no_required_check="refuse")
    policy = structs.replace(policy, gate_accepts_starter=True, ask=(), companions=(pair,), exceptions=(once,))
    policy = structs.replace(
        policy,
        secrets="ask",
        codeowners="ask",
        amendment="ask",
        gate=GatePolicy(mode="declared", custody="B", evaluate=False),
        staged=as_set(Staged(rule=rule, enforcement=enforcement) for rule in ("allow", "required-reviewers")),
    )
    assert read_policy(policy_toml(policy).encode()) == policy


def test_an_empty_policy_is_the_defaults_without_rules() -> None:
    """What is left out has the starter's value; no rule is invented."""
    empty = read_policy(b"")
    assert empty == structs.replace(starter_policy("repository"), refuse=(), ask=(), companions=())


RULE = 'id = "a"\npatterns = ["x"]\nreason = "r"\n'
WRONG: dict[str, tuple[str, str]] = {
    "unknown key": ("alow = ['**']\n", "alow"),
    "unknown table": ("[limit]\nfiles = [1, 2]\n", "limit"),
    "not a list": ('allow = "**"\n', "allow"),
    "an empty allow": ("allow = []\n", "allow"),
    "not a pattern": ('allow = ["src/**", "!x"]\n', "allow"),
    "not a choice": ('new_links = "maybe"\n', "new_links"),
    "not a choice of two": ('self_acknowledgement = "ask"\n', "self_acknowledgement"),
    "not a truth": ("gate_accepts_starter = 1\n", "gate_accepts_starter"),
    "one limit": ("[limits]\nfiles = [1]\n", "limits.files"),
    "a negative limit": ("[limits]\nfiles = [-1, 2]\n", "limits.files.0"),
    "a limit that is no number": ("[limits]\nfiles = [true, 2]\n", "limits.files.0"),
    "limits the wrong way round": ("[limits]\ndeletions = [3, 2]\n", "deletions"),
    "a rule without id": ('[[refuse]]\npatterns = ["x"]\nreason = "r"\n', "refuse.0.id"),
    "a rule with an odd id": (f"[[refuse]]\n{RULE.replace('a', 'a b', 1)}", "refuse.0.id"),
    "a rule without words": ('[[ask]]\nid = "a"\npatterns = ["x"]\n', "ask.0.reason"),
    "an unknown operation": (f'[[ask]]\n{RULE}operations = ["chmod"]\n', "ask.0.operations"),
    "a bad pattern in a rule": (
        f"[[ask]]\n{RULE}[[ask]]\n{RULE.replace('a', 'b', 1).replace('x', '/')}",
        "ask.1.patterns",
    ),
    "a bad refusing pattern": (f"[[refuse]]\n{RULE.replace('x', 'a//b')}", "refuse.0.patterns"),
    "two of one name": (f"[[ask]]\n{RULE}[[refuse]]\n{RULE}", "'a'"),
    "a built-in name": (f"[[ask]]\n{RULE.replace('a', 'new-links', 1)}", "'new-links'"),
    "a bad companion": (
        '[[companion]]\nid = "a"\nwhen = ["x"]\nneed = ["^[", "["]\nreason = "r"\n',
        "companion.0.need",
    ),
    "a companion without need": ('[[companion]]\nid = "a"\nwhen = ["x"]\nreason = "r"\n', "companion.0.need"),
    "an unknown stage": (f'[[ask]]\n{RULE}enforcement = "off"\n', "ask.0.enforcement"),
    "staging what always holds": ('[enforcement]\npromise = "warn"\n', "'promise'"),
    "staging a rule by the table": (f'[enforcement]\na = "warn"\n[[ask]]\n{RULE}', "'a'"),
    "an exception of nothing": (
        '[[exception]]\nid = "e"\nrule = "b"\npatterns = ["x"]\nreason = "r"\n',
        "exception.0.rule",
    ),
    "an exception of what always holds": (
        '[[exception]]\nid = "e"\nrule = "promise"\npatterns = ["x"]\nreason = "r"\n',
        "exception.0.rule",
    ),
    "an exception without words": (
        '[[exception]]\nid = "e"\nrule = "new-links"\npatterns = ["x"]\n',
        "exception.0.reason",
    ),
    "an exception with a bad pattern": (
        '[[exception]]\nid = "e"\nrule = "new-links"\npatterns = ["!x"]\nreason = "r"\n',
        "exception.0.patterns",
    ),
    "an exception that ends in words": (
        '[[exception]]\nid = "e"\nrule = "new-links"\npatterns = ["x"]\nreason = "r"\nexpires = "soon"\n',
        "exception.0.expires",
    ),
    "an exception that ends at an hour": (
        '[[exception]]\nid = "e"\nrule = "new-links"\npatterns = ["x"]\nreason = "r"\nexpires = 2026-01-01T09:00:00\n',
        "exception.0.expires",
    ),
    "two exceptions of one name": (
        '[[exception]]\nid = "e"\nrule = "new-links"\npatterns = ["x"]\nreason = "r"\n' * 2,
        "'e'",
    ),
    "an unknown gate": ('[gate]\nmode = "strict"\n', "gate.mode"),
    "a floor without digest": ('extends = { bundle = ".savant/f.toml" }\n', "extends.digest"),
    "no TOML": ("allow = \n", "the file"),
    "a huge number": ("[limits]\nfiles = [" + "1" * 5000 + ", 2]\n", "the file"),
    "deep nesting": ("allow = " + "[" * 100_000, "the file"),
    "too many bytes": ("#" * (MAX_POLICY_BYTES + 1), "the file"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_policy_is_refused_by_file_key_and_fix(name: str) -> None:
    """The message names the file and the key, and says what to do; nothing was called or written."""
    text, key = WRONG[name]
    with pytest.raises(RefusedInput) as error:
        read_policy(text.encode())
    assert error.value.code == "refused.policy"
    assert ".savant/policy.toml" in str(error.value)
    assert key in str(error.value)
    assert ".savant/policy.toml" in error.value.fix
    assert error.value.untouched


def test_a_policy_demands_more_containment_and_never_less() -> None:
    """In the words that people read; what is not written is the starter's."""
    written = read_policy(b'[sandbox]\nrecipe = "weak"\nagent = "full"\n').sandbox
    assert written == Sandboxes(recipe="S1", command="S0", agent="S3", check="S0")
    assert read_policy(b"").sandbox == starter_policy().sandbox
    for agent in ("none", "weak"):
        with pytest.raises(RefusedInput) as error:
            read_policy(f'[sandbox]\nagent = "{agent}"\n'.encode())
        assert "agent: no policy may demand less than reduced" in str(error.value)
    with pytest.raises(RefusedInput) as error:
        read_policy(b'[sandbox]\nagent = "S3"\n')
    assert "sandbox.agent" in str(error.value)


def test_a_policy_that_is_not_utf8_is_refused() -> None:
    """The same words in UTF-8 are a policy."""
    text = '[[ask]]\nid = "a"\npatterns = ["x"]\nreason = "ü"\n'
    assert isinstance(read_policy(text.encode()), Policy)
    with pytest.raises(RefusedInput) as error:
        read_policy(text.encode("latin-1"))
    assert error.value.code == "refused.policy"


def test_the_toml_says_what_each_part_does() -> None:
    """Every table and key of the file has a comment above it or beside its neighbours, and the file is valid TOML."""
    text = policy_toml(starter_policy())
    assert set(tomllib.loads(text)) == {
        "allow",
        "no_required_check",
        "new_links",
        "new_executables",
        "secrets",
        "codeowners",
        "amendment",
        "self_acknowledgement",
        "gate_accepts_starter",
        "limits",
        "sandbox",
        "gate",
        "refuse",
        "ask",
        "companion",
    }
    assert text.count("# ") >= 8
