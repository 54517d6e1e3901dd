"""Finding a run: by the index, which is rebuilt from the ledger when it does not know it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from driver.history import RunHistory, read_runs
from driver.index import Lines, follow
from runner.content import CandidateTree
from runner.documents import Candidate
from runner.snapshot import BaseSnapshot
from savant.cli.workbench import Workbench
from savant.contracts.document import Sealed
from savant.contracts.errors import UsageError
from savant.ledger.sqlitestore import SqliteStore
from savant.store.database import RunRow

LATEST = "latest"


class FoundRun(msgspec.Struct, frozen=True):
    """A run's row in the index and its records."""

    row: RunRow
    history: RunHistory


@contextmanager
def ledger_store(bench: Workbench) -> Iterator[SqliteStore]:
    """The ledger's store, for reading.

    :raises Unverifiable: ``unverifiable.no-ledger``.
    """
    bench.need_ledger()
    store = SqliteStore(bench.directory)
    try:
        yield store
    finally:
        store.close()


def find_run(bench: Workbench, prefix: str) -> FoundRun:
    """The run of an id prefix, or the latest one, with its records read from the ledger.

    :raises UsageError: ``usage.no-run``, ``usage.unknown-run``, ``usage.ambiguous-run``.
    :raises Unverifiable: ``unverifiable.no-ledger``; what the ledger cannot show.
    """
    with ledger_store(bench) as store:
        update_index(bench, store)
        row = bench.database.latest() if prefix == LATEST else bench.database.find(prefix.lower())
        last = store.tail().size if row.ledger_last_seq is None else row.ledger_last_seq + 1
        found = read_runs(
            store.lines(row.ledger_first_seq, max(last, store.tail().size)),
            bench.registry,
            bench.store,
            only=row.run_id,
            first_seq=row.ledger_first_seq,
        )
        history = next(iter(found), None)
    if history is None:
        raise UsageError("usage.unknown-run", f"The ledger holds no records of run {row.run_id[:12]}.")
    return FoundRun(row, history)


def update_index(bench: Workbench, store: SqliteStore) -> None:
    """Bring the run database up to the end of the ledger.

    :raises PortError: ``port.run-database``.
    :raises SavantError: when a record that is new cannot be accepted.
    """
    follow(bench.database, Lines(store.tail().size, store.lines), bench.registry, bench.store)


def candidate_of(history: RunHistory) -> Sealed[Candidate]:
    """The candidate that the run ended with.

    :raises Unverifiable: ``unverifiable.run-incomplete``.
    """
    return history.need(Candidate)


def candidate_tree(bench: Workbench, candidate: Candidate) -> tuple[BaseSnapshot, CandidateTree]:
    """The base and the candidate over it, every content verified when it is read."""
    base = BaseSnapshot.take(bench.repository, candidate.base_commit, cache=bench.cache)
    return base, CandidateTree(base, candidate, bench.store)
