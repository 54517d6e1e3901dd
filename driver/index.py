"""From the ledger's records to the rows of the run database: a fold, one record after the other.

The database remembers how far the ledger was read. :func:`follow` reads the rest, so it makes no difference whether a
run wrote its rows itself, a later command caught up after a crash, or everything is read again from the first record:
the rows are the same. A ledger that is another one, or shorter, or different at that place, is read from its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from driver.history import Record, read_records
from driver.indexing import KINDS, index_entry
from savant.contracts.registry import Registry
from savant.ledger.record import Bodies, line_digest
from savant.store.database import RunDatabase, Writer
from savant.store.rows import Position, RunRow


class Lines(msgspec.Struct, frozen=True):
    """A ledger as it is read: its size, and its lines from one number up to, not including, another."""

    size: int
    between: Callable[[int, int], Iterator[bytes]]

    def digest(self, seq: int) -> str | None:
        """The digest of one line; None when there is none."""
        line = next(self.between(seq, seq + 1), None)
        return None if line is None else line_digest(line)


def follow(database: RunDatabase, lines: Lines, registry: Registry, bodies: Bodies) -> int:
    """Bring the database up to the ledger's end; how many records of runs were read. One transaction: all or nothing.

    :raises SavantError: when a record or a body cannot be accepted; ``port.run-database``.
    """
    last = lines.digest(lines.size - 1) if lines.size else None
    here = database.position()
    if last is None or (here is not None and (here.next_seq, here.last_line) == (lines.size, last)):
        return 0
    with database.writing() as writer:
        return _read(writer, lines, _start(writer, lines), registry, bodies)


def rebuild(database: RunDatabase, lines: Lines, registry: Registry, bodies: Bodies) -> int:
    """Forget every row and read the whole ledger; how many records of runs were read. One transaction, as above.

    :raises SavantError: as :func:`follow`.
    """
    with database.writing() as writer:
        writer.clear()
        return _read(writer, lines, 0, registry, bodies)


def _read(writer: Writer, lines: Lines, start: int, registry: Registry, bodies: Bodies) -> int:
    runs: dict[str, RunRow] = {}
    read = 0
    for record in read_records(lines.between(start, lines.size), registry, bodies, kinds=KINDS, first_seq=start):
        run = replace(_run_of(writer, runs, record), ledger_last_seq=record.seq)
        if record.entry is not None:
            run = index_entry(writer, run, record.entry, bodies)
        runs[record.run_id] = run
        read += 1
    writer.put(*runs.values())
    first, last = lines.digest(0), lines.digest(lines.size - 1)
    if first is not None and last is not None:
        writer.set_position(Position(first, lines.size, last))
    return read


def _start(writer: Writer, lines: Lines) -> int:
    """The first record to read; nothing is kept of a ledger that is not the one that was read before."""
    here = writer.position()
    if (
        here is not None
        and here.next_seq <= lines.size
        and lines.digest(0) == here.ledger
        and lines.digest(here.next_seq - 1) == here.last_line
    ):
        return here.next_seq
    writer.clear()
    return 0


def _run_of(writer: Writer, runs: dict[str, RunRow], record: Record) -> RunRow:
    """The run of a record as it is known so far. A new one is put at once: other rows name it."""
    run = runs.get(record.run_id) or writer.get(RunRow, record.run_id)
    if run is None:
        run = RunRow(
            run_id=record.run_id,
            started_at_ms=record.observed.at_ms,
            objective="",
            base_commit="",
            disposition=None,
            candidate_digest=None,
            ledger_first_seq=record.seq,
            ledger_last_seq=record.seq,
        )
        writer.put(run)
    return run
