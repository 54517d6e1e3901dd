"""The project's configuration: read strictly, and every refusal names file, key and fix."""

from __future__ import annotations

import pytest
from msgspec import structs

from driver.built_ins import BUILT_IN, MAX_BUNDLE_BYTES, built_in_checks
from driver.config import (
    DEFAULT_BUDGETS,
    DEFAULT_CALL,
    JUNIT_REPORT,
    MAX_CAPTURE_BYTES,
    MAX_REPORT_CAPTURE_BYTES,
    ProjectConfig,
    check_config,
    driver_policy,
    evaluator_policy,
    read_config,
    split_command,
)
from driver.documents import CallLimit
from evaluator.findings import check_name
from evaluator.policy import verify_policy
from savant.contracts.document import seal
from savant.contracts.errors import RefusedInput, UsageError
from synthesis.documents import Budgets

FULL = """
domain = "example.org/shop"
reuse = ["tools/venv"]
environment = ["LANG"]
forbidden = ["secrets/**"]

[budgets]
retries = 5
replans = 0
calls = 3
wall_clock_minutes = 2
tokens = 1000
cost_microunits = 7
call_tokens_in = 300
call_tokens_out = 40

[[check]]
id = "unit"
command = "pytest -q"
rule = "all-pass"
required = false
timeout_s = 9

[[check]]
id = "lint"
command = ["ruff", "check", "with space"]
report = "out/report.xml"

[[check]]
id = "part"
command = "python -m pytest"
directory = "parts/one"
rule = "must-fix"
must_fix = ["tests/test_a.py::TestA::test_b[x::1]", "part:tests.test_a::test_c"]
repeats = 2
max_output_bytes = 1000
max_result_bytes = 2000

[[check]]
id = "types"
command = "checker --sarif"
format = "sarif"
rule = "no-new"

[[excuse]]
id = "slow-disk"
check = "unit"
names = ["tests.io::*", "tests.disk::test_sync"]
reason = "The disk of the build machine is slow."
expires = 2030-06-01

[[excuse]]
id = "old"
check = "lint"
names = ["*"]
reason = "It never worked."

[[prepare]]
id = "web"
command = "npm ci"
locks = ["package.json", "package-lock.json"]
outputs = ["web/m"]
network = "open"
timeout_s = 7
directory = "web"

[[normaliser]]
id = "fmt"
command = "ruff format ."
patterns = ["*.pyi", "*.py"]
"""
MINIMAL = b'domain = "d"\n'
CHECK = "domain = 'd'\n[[check]]\nid = 'b'\ncommand = 'x'\n"


def test_everything_that_a_project_may_write_is_read() -> None:
    """Each key arrives where it belongs; units are milliseconds in documents."""
    config = read_config(FULL.encode())
    assert (config.domain, config.toolchain, config.environment) == ("example.org/shop", ("tools/venv",), ("LANG",))
    assert (config.forbidden, config.origin) == (("secrets/**",), "repository")
    assert config.budgets == Budgets(
        retries=5, replans=0, provider_calls=3, wall_clock_ms=120_000, tokens=1000, cost_microunits=7
    )
    assert config.call == CallLimit(tokens_in=300, tokens_out=40)
    assert read_config(MINIMAL).call == DEFAULT_CALL
    unit, lint, part, types = config.checks
    assert (unit.id, unit.rule, unit.required, unit.timeout_ms) == ("unit", "all-pass", False, 9_000)
    assert unit.argv == ("pytest", "-q", f"--junit-xml={JUNIT_REPORT}")
    assert (unit.result_format, unit.report_path) == ("junit", JUNIT_REPORT)
    assert (lint.argv, lint.rule, lint.required) == (("ruff", "check", "with space"), "no-regression", True)
    assert (lint.result_format, lint.report_path) == ("junit", "out/report.xml")
    assert (part.directory, part.report_path) == ("parts/one", f"parts/one/{JUNIT_REPORT}")
    assert part.argv[-1] == f"--junit-xml={JUNIT_REPORT}"
    assert (part.rule, part.repeats, part.max_capture_bytes, part.max_bundle_bytes) == ("must-fix", 2, 1_000, 2_000)
    assert set(part.must_fix) == {
        check_name("part", "tests.test_a.TestA", "test_b[x::1]"),
        "part:tests.test_a::test_c",
    }
    assert (types.result_format, types.report_path, types.rule) == ("sarif", None, "no-new")
    assert (unit.max_capture_bytes, types.max_capture_bytes) == (MAX_CAPTURE_BYTES, MAX_REPORT_CAPTURE_BYTES)
    assert (unit.directory, unit.repeats, unit.must_fix, unit.max_bundle_bytes) == (None, 0, (), MAX_BUNDLE_BYTES)
    slow, old = config.excuses
    assert (slow.id, slow.evaluator, slow.expires) == ("slow-disk", "unit", "2030-06-01")
    assert (slow.checks, slow.reason) == (
        ("tests.disk::test_sync", "tests.io::*"),
        "The disk of the build machine is slow.",
    )
    assert (old.checks, old.expires) == (("*",), None)
    (step,) = config.prepares
    assert (step.argv, step.locks, step.outputs) == (("npm", "ci"), ("package-lock.json", "package.json"), ("web/m",))
    assert (step.network, step.timeout_ms, step.directory) == ("open", 7_000, "web")
    assert evaluator_policy(config, ()).prepares == (step,)
    (fmt,) = config.normalisers
    assert (fmt.argv, fmt.patterns, fmt.timeout_ms) == (("ruff", "format", "."), ("*.py", "*.pyi"), 120_000)
    verify_policy(evaluator_policy(config, (), as_of="2029-01-01"))


def test_the_day_counts_only_where_an_excuse_can_end() -> None:
    """So the session of a project without such an excuse is the same on every day."""
    lasting = read_config(FULL.replace("expires = 2030-06-01", "").encode())
    assert evaluator_policy(lasting, (), as_of="2029-01-01") == evaluator_policy(lasting, (), as_of="2031-01-01")
    assert evaluator_policy(lasting, (), as_of="2029-01-01").as_of is None
    assert evaluator_policy(read_config(FULL.encode()), (), as_of="2029-01-01").as_of == "2029-01-01"


def test_the_least_is_a_domain() -> None:
    """Everything else has the same defaults as no configuration at all."""
    config = read_config(MINIMAL)
    assert config == ProjectConfig(domain="d", origin="repository")
    assert config.budgets == DEFAULT_BUDGETS


STEP = 'domain = "d"\n[[prepare]]\nid = "a"\ncommand = "x"\n'


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("", "domain"),
        ('domain = ""', "domain"),
        ("domain = 1", "domain"),
        ('domain = "d"\nextra = 1', "extra"),
        ('domain = "d"\n[budgets]\nretries = -1', "budgets.retries"),
        ('domain = "d"\n[budgets]\nretries = "2"', "budgets.retries"),
        ('domain = "d"\n[budgets]\ncalls = 0', "budgets.calls"),
        ('domain = "d"\n[budgets]\nmoney = 1', "budgets.money"),
        ('domain = "d"\nenvironment = ["A=B"]', "environment.0"),
        ('domain = "d"\nforbidden = ["a/**", "../x"]', "forbidden.1"),
        ('domain = "d"\nforbidden = ["!a"]', "forbidden.0"),
        ('domain = "d"\nreuse = ["/usr"]', "reuse.0"),
        ('domain = "d"\nreuse = [".venv", "../other"]', "reuse.1"),
        ('domain = "d"\n[[check]]\ncommand = "x"', "check.0.id"),
        ('domain = "d"\n[[check]]\nid = "a:b"\ncommand = "x"', "check.0.id"),
        ('domain = "d"\n[[check]]\nid = "a"', "check.0.command"),
        ('domain = "d"\n[[check]]\nid = "a"\ncommand = " "', "check.0.command"),
        ('domain = "d"\n[[check]]\nid = "a"\ncommand = "\'"', "check.0.command"),
        ('domain = "d"\n[[check]]\nid = "a"\ncommand = []', "check.0.command"),
        ('domain = "d"\n[[check]]\nid = "a"\ncommand = "x"\nrule = "lenient"', "check.0.rule"),
        ('domain = "d"\n[[check]]\nid = "a"\ncommand = "x"\ntimeout_s = 0', "check.0.timeout_s"),
        ('domain = "d"\n[[check]]\nid = "a"\ncommand = "x"\nreport = "../r.xml"', "check.0.report"),
        ('domain = "d"\n[[check]]\nid = "a"\ncommand = "x"\n[[check]]\nid = "a"\ncommand = "y"', "check.1.id"),
        ('domain = "d"\n[[check]]\nid = "scope"\ncommand = "x"', "check.0.id"),
        ('domain = "d"\n[[check]]\nid = "forbidden-paths"\ncommand = "x"', "check.0.id"),
        ('domain = "d"\n[[check]]\nid = "a"\ncommand = "x"\ndirectory = "/usr"', "check.0.directory"),
        ('domain = "d"\n[[check]]\nid = "a"\ncommand = "x"\nformat = "xml"', "check.0.format"),
        ('domain = "d"\n[[check]]\nid = "a"\ncommand = "x"\nformat = "junit"', "check.0"),
        ('domain = "d"\n[[check]]\nid = "a"\ncommand = "x"\nrule = "must-fix"', "check.0"),
        ('domain = "d"\n[[check]]\nid = "a"\ncommand = "pytest"\nmust_fix = ["b"]', "check.0"),
        ('domain = "d"\n[[check]]\nid = "a"\ncommand = "x"\nrule = "must-fix"\nmust_fix = ["b"]', "check.0"),
        ('domain = "d"\n[[check]]\nid = "a"\ncommand = "x"\nrepeats = 21', "check.0.repeats"),
        ('domain = "d"\n[[check]]\nid = "a"\ncommand = "x"\nmax_result_bytes = 0', "check.0.max_result_bytes"),
        ('domain = "d"\n[[excuse]]\nid = "a"\ncheck = "b"\nnames = ["*"]\nreason = "r"', "excuse.0.check"),
        (f"{CHECK}[[excuse]]\nid = 'a'\ncheck = 'b'\nnames = []\nreason = 'r'", "excuse.0.names"),
        (f"{CHECK}[[excuse]]\nid = 'a'\ncheck = 'b'\nnames = ['*']\nreason = ''", "excuse.0.reason"),
        (
            f"{CHECK}[[excuse]]\nid = 'a'\ncheck = 'b'\nnames = ['*']\nreason = 'r'\nexpires = '2030-02-31'",
            "excuse.0.expires",
        ),
        (
            CHECK + "[[excuse]]\nid = 'a'\ncheck = 'b'\nnames = ['*']\nreason = 'r'\n" * 2,
            "excuse.1.id",
        ),
        (STEP, "prepare.0.locks"),
        (f'{STEP}locks = []\noutputs = ["o"]', "prepare.0.locks"),
        (f'{STEP}locks = ["a\\\\b"]\noutputs = ["o"]', "prepare.0.locks.0"),
        (f'{STEP}locks = ["l"]\noutputs = ["../o"]', "prepare.0.outputs.0"),
        (f'{STEP}locks = ["l"]\noutputs = ["o"]\ndirectory = "/d"', "prepare.0.directory"),
        (f'{STEP}locks = ["l"]\noutputs = ["o"]\nnetwork = "all"', "prepare.0.network"),
        (f'{STEP}locks = ["l"]\noutputs = ["o", "o/p"]', "prepare.0"),
        ('domain = "d"\n[[normaliser]]\nid = "a"\ncommand = "x"\npatterns = ["a\\\\b"]', "normaliser.0.patterns.0"),
        ('domain = "d"\n[[normaliser]]\nid = "a"\ncommand = "\'"', "normaliser.0.command"),
        (
            'domain = "d"\n[[normaliser]]\nid = "a"\ncommand = "x"\n[[normaliser]]\nid = "a"\ncommand = "x"',
            "normaliser.1.id",
        ),
    ],
)
def test_a_refusal_names_file_key_and_fix(text: str, key: str) -> None:
    """A person finds the line from the message alone, and knows what to do about it."""
    with pytest.raises(RefusedInput) as caught:
        read_config(text.encode())
    error = caught.value
    assert error.code == "refused.config"
    assert error.message.startswith(".savant/config.toml at the base ")
    assert f" {key}" in error.message
    assert error.fix == "Correct .savant/config.toml and commit it."
    assert error.untouched == "No provider was called and nothing was written."


@pytest.mark.parametrize(
    "raw",
    [b"domain = ", b"\xff", b"domain = " + b"[" * 5_000, b"domain = " + b"1" * 5_000, b'domain = "d"\ndomain = "e"'],
)
def test_what_is_not_toml_is_refused(raw: bytes) -> None:
    """Half a line, no UTF-8, deep nesting, a huge number, a key twice: one refusal, never a crash."""
    with pytest.raises(RefusedInput) as caught:
        read_config(raw)
    assert caught.value.code == "refused.config"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("pytest -q", "pytest"),
        ("/opt/bin/pytest", "pytest"),
        ("python3 -m mypy src", "mypy-src"),
        ("make test lint all", "make-test-lint"),
        ("grep -q 2 a.py", "grep-2"),
        ("x" * 200, "x" * 80),
        ("./(odd) --x", "odd"),
        ("/…", "check"),
    ],
)
def test_a_check_has_a_name_of_its_command(command: str, expected: str) -> None:
    """The first words without options, in characters that a name may have."""
    assert check_config(command, rule="all-pass").id == expected


@pytest.mark.parametrize(
    ("argv", "report"),
    [
        (("pytest",), JUNIT_REPORT),
        (("py.test", "x"), JUNIT_REPORT),
        (("python", "-m", "pytest", "-q"), JUNIT_REPORT),
        (("python", "-m"), None),
        (("pytest", "--junitxml=own.xml"), None),
        (("make", "pytest"), None),
    ],
)
def test_pytest_is_asked_for_a_report(argv: tuple[str, ...], report: str | None) -> None:
    """Unless it writes one of its own; any other command is judged by its exit status."""
    made = check_config(argv, rule="no-regression")
    assert made.report_path == report
    assert made.result_format == ("exit-status" if report is None else "junit")
    assert made.argv[: len(argv)] == argv


@pytest.mark.parametrize(
    ("report", "expected"), [("out.xml", "junit"), ("out.sarif", "sarif"), ("a/out.tap", "tap"), (None, "exit-status")]
)
def test_a_report_is_read_as_its_name_says(report: str | None, expected: str) -> None:
    """Whoever names the format is believed instead."""
    assert check_config("tool", rule="no-new", report_path=report).result_format == expected
    assert check_config("tool", rule="no-new", report_path=report, result_format="tap").result_format == "tap"


def test_pytest_may_be_judged_by_its_exit_status() -> None:
    """Where its owner says so, it is asked for no report."""
    made = check_config("pytest -q", rule="all-pass", result_format="exit-status")
    assert (made.argv, made.report_path, made.result_format) == (("pytest", "-q"), None, "exit-status")


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("unit", "unit"),
        ("a b", check_name("unit", "a b")),
        ("tests/test_a.py::test_b", "unit:tests.test_a::test_b"),
        ("test_a.py::TestA::test_b", "unit:test_a.TestA::test_b"),
        ("unit:test_a::test_b", "unit:test_a::test_b"),
        ("test_a.py::test_b[a/b.py::1]", check_name("unit", "test_a", "test_b[a/b.py::1]")),
        ("test_a.py", "unit:test_a.py"),
        ("E501::src/a.py#0123456789ab", check_name("unit", "E501", "src/a.py#0123456789ab")),
    ],
)
def test_what_must_be_fixed_is_named_as_its_tool_does(told: str, name: str) -> None:
    """A node id of pytest, or the name that a check has in the output, with or without that of the command."""
    assert check_config("pytest", rule="must-fix", id_="unit", must_fix=[told]).must_fix == (name,)


def test_a_command_is_split_without_a_shell() -> None:
    """Quotes group; nothing is expanded; an empty or open one is a usage error."""
    assert split_command("a 'b c' $HOME \"d\" | e") == ("a", "b c", "$HOME", "d", "|", "e")
    assert split_command(["a b", ""]) == ("a b", "")
    for bad in ("", "  ", "'open", [], [""]):
        with pytest.raises(UsageError) as caught:
            split_command(bad)
        assert caught.value.code == "usage.command"


def test_the_scope_check_always_runs() -> None:
    """So does custody; with forbidden paths there is a third built-in. None of them can be taken away."""
    assert [c.id for c in built_in_checks(())] == ["scope", "custody"]
    assert {c.id for c in built_in_checks(("b", "a"))} < set(BUILT_IN)
    assert built_in_checks(("b", "a"))[2].patterns == ("a", "b")


def test_what_a_person_adds_only_tightens() -> None:
    """Every check of the project stays as it is; an equal one is one, a different one of that name runs beside it."""
    config = read_config(MINIMAL + b'[[check]]\nid = "pytest"\ncommand = "pytest -q"\n')
    own = evaluator_policy(config, ())
    same = check_config("pytest -q", rule="no-regression")
    assert evaluator_policy(config, (same,)) == own
    strict = [check_config("pytest -q", rule="all-pass"), check_config("scope", rule="all-pass")]
    both = evaluator_policy(config, (*strict, *strict))
    assert set(own.evaluators) < set(both.evaluators)
    assert {c.id: c.rule for c in both.evaluators if c.id not in BUILT_IN} == {
        "pytest": "no-regression",
        "pytest-2": "all-pass",
        "scope-2": "all-pass",
    }
    verify_policy(both)


def test_the_driver_policy_holds_the_deadline_and_the_mode() -> None:
    """Each call has the deadline; every member is in the document, so a change changes the session."""
    made = driver_policy(ledger_mode="record", call_deadline_ms=5)
    assert {made.interpretation_deadline_ms, made.planning_deadline_ms, made.generation_deadline_ms} == {5}
    assert made.ledger_mode == "record"
    assert seal(made).digest != seal(structs.replace(made, ledger_mode="enforce")).digest
