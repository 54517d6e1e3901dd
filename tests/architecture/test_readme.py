"""What the documentation tells people to type exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from savant.cli.app import ALIASES, COMMANDS

FENCE = re.compile(r"^```[a-z]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MAKE = re.compile(r"(?:^|&& *|; *)make ((?:[a-z][a-z-]* ?)+)", re.MULTILINE)
SAVANT = re.compile(r"(?:^|&& *|\$ *|; *)savant ([a-z][a-z-]*)", re.MULTILINE)
TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
PAGES = ("README.md", "CONTRIBUTING.md")


def typed(root: Path, page: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """What the pattern finds in the page's code blocks, without comments."""
    for block in FENCE.findall((root / page).read_text("utf-8")):
        yield from pattern.findall(re.sub(r"\s+#.*", "", block))


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_in_the_documentation_exists(root: Path, page: str) -> None:
    """``make x`` in a code block is a target of the Makefile."""
    targets = set(TARGET.findall((root / "Makefile").read_text("utf-8")))
    named = {word for words in typed(root, page, MAKE) for word in words.split()}
    assert "test" in named
    assert named <= targets


def test_every_command_in_the_documentation_exists(root: Path) -> None:
    """``savant x`` in a code block is a command."""
    named = {word for page in PAGES for word in typed(root, page, SAVANT)}
    assert named <= set(COMMANDS) | set(ALIASES)


def test_every_documented_target_is_in_the_help(root: Path) -> None:
    """A target that has no line of help is for the Makefile itself."""
    text = (root / "Makefile").read_text("utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony
    helped = set(re.findall(r"^([a-z][a-z-]*):.*## \S", text, re.MULTILINE))
    assert set(phony[1].split()) == helped


def test_ci_runs_what_a_person_runs(root: Path) -> None:
    """The entry of CI is made of targets, fails on the first failure, and runs the whole suite."""
    lines = (root / ".ci" / "run").read_text("utf-8").splitlines()
    targets = set(TARGET.findall((root / "Makefile").read_text("utf-8")))
    called = [line.split()[1] for line in lines if line.startswith("make ")]
    assert {"test", "check-static"} <= set(called) <= targets
    assert "set -euo pipefail" in lines
    assert (root / ".ci" / "run").stat().st_mode & 0o111
