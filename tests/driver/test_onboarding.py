"""Onboarding: what is found, and that what ``init`` writes is read back as what was meant."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.config import DEFAULT_BUDGETS, ProjectConfig, evaluator_policy, read_config
from driver.onboarding import FORMATTERS, Reader, config_toml, find_checks, find_normalisers
from evaluator.policy import verify_policy


def reader(files: Mapping[str, bytes]) -> Reader:
    return files.get


FOUND: dict[str, tuple[Mapping[str, bytes], str]] = {
    "pytest in pyproject": ({"pyproject.toml": b"[tool.pytest.ini_options]\n"}, "pytest -q"),
    "pytest.ini": ({"pytest.ini": b""}, "pytest -q"),
    "conftest": ({"conftest.py": b""}, "pytest -q"),
    "unittest": ({"tests/__init__.py": b""}, "python -m unittest discover -s tests -t ."),
    "npm": ({"package.json": b'{"scripts": {"test": "jest"}}'}, "npm test --silent"),
    "go": ({"go.mod": b""}, "go test ./..."),
    "cargo": ({"Cargo.toml": b""}, "cargo test --quiet --offline"),
    "make": ({"Makefile": b"all:\n\ntest: all\n\ttrue\n"}, "make test"),
    "ruff": ({"ruff.toml": b""}, "ruff check --output-format sarif ."),
    "ruff in pyproject": ({"pyproject.toml": b"[tool.ruff]\n"}, "ruff check --output-format sarif ."),
}


@pytest.mark.parametrize("case", sorted(FOUND))
def test_a_test_command_is_found_by_its_file(case: str) -> None:
    """One file, one check, which may not get worse."""
    files, command = FOUND[case]
    (found,) = find_checks(reader(files))
    assert (found.command, found.rule) == (command, "no-new" if found.id == "ruff" else "no-regression")


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"pyproject.toml": b"[project]\nname = 'x'\n"},
        {"pyproject.toml": b"tool = 3\n"},
        {"pyproject.toml": b"not toml ["},
        {"pyproject.toml": b"x = " + b"[" * 5_000},
        {"pyproject.toml": b"\xff"},
        {"package.json": b'{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'},
        {"package.json": b'{"scripts": []}'},
        {"package.json": b'{"scripts": {"test": 3}}'},
        {"package.json": b"[]"},
        {"package.json": b"[" * 100_000},
        {"package.json": b"\xff"},
        {"Makefile": b"tests:\n\ttrue\n"},
    ],
)
def test_nothing_is_found_where_nothing_is(files: Mapping[str, bytes]) -> None:
    """No tests, a placeholder, and files that are not what their name says: no check and no error."""
    assert find_checks(reader(files)) == ()


def test_all_of_them_come_in_a_fixed_order() -> None:
    """Pytest stands before unittest, which it replaces; linters come last."""
    files: dict[str, bytes] = {}
    for more, _ in FOUND.values():
        files.update(more)
    assert [check.id for check in find_checks(reader(files))] == [
        "pytest",
        "npm-test",
        "go-test",
        "cargo-test",
        "make-test",
        "ruff",
    ]


def test_known_formatters_of_the_hooks_are_found() -> None:
    """Each once, in the order of the file; unknown hooks are left out."""
    hooks = b"repos:\n- hooks:\n  - id: black\n  - id: unknown\n  - id: ruff-format\n    args: []\n  - id: black\n"
    assert find_normalisers(reader({".pre-commit-config.yaml": hooks})) == (
        FORMATTERS["black"],
        FORMATTERS["ruff-format"],
    )
    assert find_normalisers(reader({})) == ()


def test_what_init_writes_is_read_back() -> None:
    """With every check and every formatter: the same commands, rules and patterns; the defaults are the defaults."""
    files: dict[str, bytes] = {}
    for more, _ in FOUND.values():
        files.update(more)
    checks = find_checks(reader(files))
    config = read_config(config_toml("example.org/x", checks, tuple(FORMATTERS.values())).encode())
    assert config.domain == "example.org/x"
    assert config.budgets == DEFAULT_BUDGETS
    assert [(c.id, c.rule) for c in config.checks] == [(c.id, c.rule) for c in checks]
    assert [" ".join(c.argv[: len(f.command.split())]) for c, f in zip(config.checks, checks, strict=True)] == [
        f.command for f in checks
    ]
    assert {c.id: c.result_format for c in config.checks if c.result_format not in ("exit-status", "junit")} == {
        "ruff": "sarif"
    }
    assert {n.id: set(n.patterns) for n in config.normalisers} == {f.id: set(f.patterns) for f in FORMATTERS.values()}
    verify_policy(evaluator_policy(config, ()))


def test_what_init_writes_without_a_check_is_the_default() -> None:
    """Nothing found: the file says so in a comment and changes nothing but the domain."""
    text = config_toml("d", (), ())
    assert "No test command was found" in text
    assert read_config(text.encode()) == ProjectConfig(domain="d", origin="repository")


@given(st.text(min_size=1, max_size=50))
def test_any_folder_name_makes_a_domain(name: str) -> None:
    """Quotes, control characters, emoji: the domain that is read is the one that was given."""
    assert read_config(config_toml(name, (), ()).encode()).domain == name


def test_a_folder_name_that_is_no_text_still_makes_a_file() -> None:
    """A lone surrogate, as of a name that is not UTF-8, becomes a question mark."""
    assert read_config(config_toml("a\udce5b", (), ()).encode()).domain == "a?b"


def test_looking_imports_nothing_heavy() -> None:
    """``doctor`` looks at a project without pydantic."""
    program = "import sys, driver.onboarding; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
