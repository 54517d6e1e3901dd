"""The locks of the agents name versions and hashes, and no place on any network."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

AGENTS = Path(__file__).resolve().parents[2] / "tools" / "agents"
NPM = sorted(path.relative_to(AGENTS).as_posix() for path in AGENTS.rglob("package-lock.json"))
PIP = sorted(path.name for path in (AGENTS / "examples").glob("*.lock"))
KINDS = ("dependencies", "optionalDependencies", "devDependencies")
EXACT = re.compile(r"\d+\.\d+\.\d+(-[0-9a-z.-]+)?")


def addresses(value: object, at: str = "") -> list[str]:
    """The places in a lock where an address stands, other than the links a package shows to people."""
    match value:
        case str() if "://" in value and not at.endswith(".funding.url") and ".funding[]" not in at:
            return [at]
        case dict():
            return [found for key, item in value.items() for found in addresses(item, f"{at}.{key}")]
        case list():
            return [found for item in value for found in addresses(item, f"{at}[]")]
        case _:
            return []


def is_fixed(entry: dict[str, Any]) -> bool:
    """Whether an entry names one content by one version and a hash."""
    return EXACT.fullmatch(entry["version"]) is not None and entry["integrity"].startswith("sha512-")


def test_there_are_locks() -> None:
    """Both suites, and each example in Python."""
    assert NPM == ["examples/package-lock.json", "package-lock.json"]
    assert PIP == ["aider.lock", "llm.lock", "mini-swe-agent.lock"]


@pytest.mark.parametrize("name", NPM)
def test_an_npm_lock_holds_versions_and_hashes_only(name: str) -> None:
    """Every entry has one version and a hash, no entry says where it came from, and what is asked for is exact."""
    lock = json.loads((AGENTS / name).read_text("utf-8"))
    project = json.loads((AGENTS / name).with_name("package.json").read_text("utf-8"))
    entries = dict(lock["packages"])
    root = entries.pop("")
    assert all(root.get(kind) == project.get(kind) for kind in KINDS)
    asked = {package: version for kind in KINDS for package, version in project.get(kind, {}).items()}
    assert all(EXACT.fullmatch(version) for version in asked.values())
    assert {entries[f"node_modules/{package}"]["version"] for package in asked} == set(asked.values())
    assert [key for key, entry in entries.items() if not is_fixed(entry)] == []
    assert addresses(lock) == []
    assert '"resolved"' not in (AGENTS / name).read_text("utf-8")


def test_an_address_would_be_found() -> None:
    """The check sees what it looks for, and lets the links for people pass."""
    lock = {"packages": {"a": {"resolved": "scheme://host/a.tgz", "funding": {"url": "scheme://host"}}}}
    assert addresses(lock) == [".packages.a.resolved"]
    assert not is_fixed({"version": "^1.0.0", "integrity": "sha512-x"})
    assert not is_fixed({"version": "1.0.0", "integrity": ""})


@pytest.mark.parametrize("name", PIP)
def test_a_pip_lock_holds_versions_and_hashes_only(name: str) -> None:
    """Every requirement is pinned and followed by its hashes."""
    lines = [line for line in (AGENTS / "examples" / name).read_text("utf-8").splitlines() if not line.startswith("#")]
    pins = [line for line in lines if not line.startswith("    --hash=sha256:")]
    assert pins
    assert [line for line in pins if re.fullmatch(r"[a-z0-9.-]+==[^ ;]+( ; .*)? \\", line) is None] == []
    assert not any(mark in line for line in lines for mark in ("://", "--index", " @ "))
    assert all(after.startswith("    --hash") for line, after in pairwise(lines) if "==" in line)
