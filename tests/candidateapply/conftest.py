"""Fixtures of the tests of application."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.candidateapply.kit import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A real repository and an admitted candidate with every kind of operation."""
    with World.make(tmp_path) as made:
        yield made
