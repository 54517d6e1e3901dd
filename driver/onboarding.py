"""What a project has, found by looking at its files, and the commented ``.savant/config.toml`` that follows. Pure."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

Reader = Callable[[str], bytes | None]
"""The bytes of a file of the project, None when there is none."""


class FoundCheck(msgspec.Struct, frozen=True):
    """A check command that the project seems to have, what it was seen in, and how it is read if not by default."""

    id: str
    command: str
    rule: str
    seen_in: str
    format: str = ""


class FoundNormaliser(msgspec.Struct, frozen=True):
    """A formatter that the project's pre-commit configuration names."""

    id: str
    command: str
    patterns: tuple[str, ...]


FORMATTERS: Final[Mapping[str, FoundNormaliser]] = MappingProxyType(
    {
        "ruff-format": FoundNormaliser("ruff-format", "ruff format --no-cache .", ("*.py", "*.pyi")),
        "black": FoundNormaliser("black", "black -q .", ("*.py", "*.pyi")),
        "prettier": FoundNormaliser("prettier", "prettier --write .", ("*.js", "*.ts", "*.css", "*.json")),
        "gofmt": FoundNormaliser("gofmt", "gofmt -w .", ("*.go",)),
    }
)
"""Pre-commit hook ids and the formatter each stands for."""

_HOOK: Final = re.compile(rb"^\s*-?\s*id:\s*([A-Za-z0-9_-]+)\s*$", re.MULTILINE)
_MAKE_TEST: Final = re.compile(rb"^test\s*:", re.MULTILINE)
_MAX_CHECKS: Final = 8


def find_checks(read: Reader) -> tuple[FoundCheck, ...]:
    """The test commands of a project, in a fixed order; of linters only what is new counts."""
    return tuple(_checks(read))[:_MAX_CHECKS]


def _checks(read: Reader) -> Iterator[FoundCheck]:
    pyproject = _toml(read("pyproject.toml"))
    tool = pyproject.get("tool")
    tools: dict[str, object] = tool if isinstance(tool, dict) else {}
    if "pytest" in tools or read("pytest.ini") is not None or read("conftest.py") is not None:
        yield FoundCheck("pytest", "pytest -q", "no-regression", "pytest configuration")
    elif read("tests/__init__.py") is not None:
        yield FoundCheck("unittest", "python -m unittest discover -s tests -t .", "no-regression", "tests/__init__.py")
    package = _json(read("package.json"))
    scripts = package.get("scripts")
    if (
        isinstance(scripts, dict)
        and isinstance(scripts.get("test"), str)
        and "no test specified" not in scripts["test"]
    ):
        yield FoundCheck("npm-test", "npm test --silent", "no-regression", "package.json")
    if read("go.mod") is not None:
        yield FoundCheck("go-test", "go test ./...", "no-regression", "go.mod")
    if read("Cargo.toml") is not None:
        yield FoundCheck("cargo-test", "cargo test --quiet --offline", "no-regression", "Cargo.toml")
    makefile = read("Makefile")
    if makefile is not None and _MAKE_TEST.search(makefile):
        yield FoundCheck("make-test", "make test", "no-regression", "Makefile")
    if "ruff" in tools or read("ruff.toml") is not None:
        yield FoundCheck("ruff", "ruff check --output-format sarif .", "no-new", "ruff configuration", "sarif")


def find_normalisers(read: Reader) -> tuple[FoundNormaliser, ...]:
    """The formatters that the pre-commit configuration names and that are known here."""
    hooks = read(".pre-commit-config.yaml") or b""
    names = dict.fromkeys(match.group(1).decode("ascii") for match in _HOOK.finditer(hooks))
    return tuple(FORMATTERS[name] for name in names if name in FORMATTERS)


def config_toml(domain: str, checks: tuple[FoundCheck, ...], normalisers: tuple[FoundNormaliser, ...]) -> str:
    """The commented configuration that ``savant init`` writes."""
    lines = [
        "# Savant: how changes to this repository are judged. Read from the base revision of a run:",
        "# an uncommitted edit of this file is not in force.",
        "",
        "# The name of this repository in every receipt. Confirm it; it is never taken from a remote.",
        f"domain = {_text(domain)}",
        "",
        "# Folders of the checkout that checks may reuse.",
        'reuse = [".venv", "node_modules"]',
        "",
        "# Names of environment variables that checks may see.",
        "environment = []",
        "",
        "# Paths that no candidate may touch (patterns); a candidate that does is sent back to its author.",
        "forbidden = []",
        "",
        "[budgets]",
        "retries = 2",
        "replans = 1",
        "calls = 12",
        "wall_clock_minutes = 20",
        "# Tokens and money can be limited where the provider reports its usage. Before each call its worst case is",
        "# set aside: the most that one call may read and write.",
        "# tokens = 500000",
        "# cost_microunits = 2000000  # 2.00",
        "# call_tokens_in = 200000",
        "# call_tokens_out = 32000",
        "",
        "# Checks. rule: no-regression compares with the base, so a red test on the base blocks nothing;",
        "# all-pass demands that everything passes.",
    ]
    for check in checks:
        lines += [
            "[[check]]",
            f"id = {_text(check.id)}  # seen in {check.seen_in}",
            f"command = {_text(check.command)}",
            f"rule = {_text(check.rule)}",
            *([f"format = {_text(check.format)}"] if check.format else []),
            "",
        ]
    if not checks:
        lines += [
            "# No test command was found. Without a required check every candidate waits for a person.",
            "# [[check]]",
            '# id = "tests"',
            '# command = "pytest -q"',
            "",
        ]
    for normaliser in normalisers:
        patterns = ", ".join(_text(pattern) for pattern in normaliser.patterns)
        lines += [
            "# A formatter from the pre-commit configuration, run before the seal.",
            "[[normaliser]]",
            f"id = {_text(normaliser.id)}",
            f"command = {_text(normaliser.command)}",
            f"patterns = [{patterns}]",
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


def _text(value: str) -> str:
    """A TOML basic string: as in JSON, but without surrogate pairs and a bare DEL, which TOML does not know."""
    clean = value.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml(raw: bytes | None) -> dict[str, object]:
    try:
        return tomllib.loads((raw or b"").decode("utf-8"))
    except (ValueError, RecursionError):
        return {}


def _json(raw: bytes | None) -> dict[str, object]:
    try:
        value = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
