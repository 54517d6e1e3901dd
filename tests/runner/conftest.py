"""Fixtures of the runner's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.snapshot import BaseSnapshot
from tests.runner.kit import FILES, take


@pytest.fixture
def snapshot(tmp_path: Path) -> Iterator[BaseSnapshot]:
    """The snapshot of a real repository that holds FILES."""
    repository, taken = take(tmp_path / "repository", FILES)
    with repository:
        yield taken


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir(mode=0o700)
    return folder
