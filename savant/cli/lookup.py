"""Finding a run: by the index, which is rebuilt from the ledger when it does not know it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from driver.documents import Receipt as RunReceipt
from driver.history import RunHistory, read_runs
from runner.content import CandidateTree
from runner.documents import Candidate
from runner.snapshot import BaseSnapshot
from savant.cli.workbench import Workbench
from savant.contracts.document import Sealed
from savant.contracts.errors import UsageError
from savant.ledger.sqlitestore import SqliteStore
from savant.store.database import RunRow
from synthesis.documents import Session

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
        try:
            row = _find(bench, prefix)
        except UsageError:
            rebuild_index(bench, store)
            row = _find(bench, prefix)
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


def _find(bench: Workbench, prefix: str) -> RunRow:
    return bench.database.latest() if prefix == LATEST else bench.database.find(prefix.lower())


def rebuild_index(bench: Workbench, store: SqliteStore) -> None:
    """Make the index of runs anew from the ledger."""
    runs = read_runs(store.lines(0, store.tail().size), bench.registry, bench.store)
    bench.database.rebuild(row_of(history) for history in runs)


def row_of(history: RunHistory) -> RunRow:
    """The index row of a run's records."""
    session, receipt = history.last(Session), history.last(RunReceipt)
    candidate = history.last(Candidate)
    return RunRow(
        run_id=history.run_id,
        started_at_ms=history.entries[0].observed.at_ms,
        objective="" if session is None else session.document.objective,
        base_commit="" if session is None else session.document.base_commit,
        disposition=None if receipt is None else receipt.document.disposition,
        candidate_digest=None if candidate is None else candidate.digest,
        ledger_first_seq=history.entries[0].seq,
        ledger_last_seq=history.entries[-1].seq,
    )


def candidate_of(history: RunHistory) -> Sealed[Candidate]:
    """The candidate that the run ended with.

    :raises Unverifiable: ``unverifiable.run-incomplete``.
    """
    return history.need(Candidate)


def candidate_tree(bench: Workbench, candidate: Candidate) -> tuple[BaseSnapshot, CandidateTree]:
    """The base and the candidate over it, every content verified when it is read."""
    base = BaseSnapshot.take(bench.repository, candidate.base_commit, cache=bench.cache)
    return base, CandidateTree(base, candidate, bench.store)
