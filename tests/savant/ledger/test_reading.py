"""Reading a ledger leaves no trace on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from savant.contracts.errors import RefusedInput, Unverifiable
from savant.contracts.twins import CountingEntropy
from savant.ledger import create_ledger
from savant.ledger.reading import WAL_NAME, open_copy
from savant.ledger.sqlitestore import DATABASE_NAME


@pytest.fixture
def directory(kit: Any, tmp_path: Path) -> Path:
    ledger = create_ledger(
        tmp_path / "ledger", kit.signers(), kit.root(), entropy=CountingEntropy(), observed=kit.observed
    )
    kit.fill(ledger, 4)
    return tmp_path / "ledger"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def content(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}


def test_the_copy_holds_what_was_committed_and_the_original_stays(directory: Path, scratch: Path) -> None:
    """Also what lies in the write-ahead log of a process that still runs; the copy vanishes."""
    before = content(directory)
    assert WAL_NAME in before
    with open_copy(directory, scratch) as store:
        assert len(list(store.lines(0, 99))) == 5
        assert len(list(scratch.iterdir())) == 1
    assert list(scratch.iterdir()) == []
    assert content(directory) == before


def test_links_and_missing_ledgers_are_refused(directory: Path, scratch: Path, tmp_path: Path) -> None:
    """No link is followed, and nothing is made where there is nothing."""
    with pytest.raises(Unverifiable), open_copy(tmp_path / "none", scratch):
        pytest.fail("there is no ledger")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / DATABASE_NAME).symlink_to(directory / DATABASE_NAME)
    with pytest.raises(RefusedInput) as caught, open_copy(tmp_path / "other", scratch):
        pytest.fail("a link was followed")
    assert caught.value.code == "refused.ledger-link"
    assert list(scratch.iterdir()) == []
