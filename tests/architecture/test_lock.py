"""The lock names versions and hashes, no place on any network, and everything that the project asks for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PIN = re.compile(r"(?P<name>[a-z0-9]+(?:-[a-z0-9]+)*)==(?P<version>[^ ;\\]+)(?: ; [^\\]+)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?P<more> \\)?")
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(?:[<>=!~].*)?")


@pytest.fixture
def lines(root: Path) -> list[str]:
    """The lock without its heading."""
    text = (root / "requirements" / "dev.lock").read_text("utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_the_lock_holds_no_address(root: Path) -> None:
    """Where packages come from is the installing machine's business."""
    text = (root / "requirements" / "dev.lock").read_text("utf-8")
    for mark in ("://", "--index", "--extra-index", "--find-links", "--trusted-host", " @ ", "-e ", "file:"):
        assert mark not in text


def test_every_version_is_pinned_and_hashed(lines: list[str]) -> None:
    """A line is a pin or a hash; each pin is followed by its hashes, and the last of them ends it."""
    expecting_hash = False
    for line in lines:
        if expecting_hash:
            found = HASH.fullmatch(line)
            assert found, line
            expecting_hash = found["more"] is not None
        else:
            assert PIN.fullmatch(line), line
            expecting_hash = True
    assert lines
    assert not expecting_hash


def test_everything_that_the_project_asks_for_is_locked(lines: list[str], project: dict[str, Any]) -> None:
    """Run-time dependencies, tools and the build backend are all in the lock."""
    locked = {found["name"] for line in lines if (found := PIN.fullmatch(line))}
    asked = (
        project["project"]["dependencies"] + project["dependency-groups"]["dev"] + project["build-system"]["requires"]
    )
    names = set()
    for requirement in asked:
        found = REQUIREMENT.fullmatch(requirement)
        assert found, requirement
        names.add(re.sub(r"[-_.]+", "-", found[1]).lower())
    assert {"pydantic", "pytest", "uv-build"} <= names <= locked
