"""What tests of cassettes compare: the documents of runs, and every byte of a folder."""

from __future__ import annotations

from pathlib import Path

from driver.history import RunHistory, read_runs
from savant.cli.kinds import registry
from savant.ledger.sqlitestore import SqliteStore
from savant.store.objects import FileObjectStore
from tests.e2e.conftest import Shop


def histories(shop: Shop) -> list[RunHistory]:
    """Every run of the ledger, oldest first."""
    directory = shop.path / ".git" / "savant"
    store = SqliteStore(directory)
    with FileObjectStore(directory / "objects") as objects:
        runs = list(read_runs(store.lines(0, store.tail().size), registry(), objects))
    store.close()
    return runs


def documents(run: RunHistory) -> list[tuple[str, str, str]]:
    """Every document of a run in ledger order, without the ledger's own."""
    return [(e.role, e.kind, e.body.digest) for e in run.entries if not e.kind.startswith("savant.ledger.")]


def everything(folder: Path) -> bytes:
    """Every byte of every file."""
    return b"\0".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
