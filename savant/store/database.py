"""The run database: an index of runs for people to find them by. Rebuildable, and never read to decide.

The ledger is the truth. This file may be deleted at any time; ``rebuild`` from the ledger's records brings it back. It
lists one row per run: when it started, what it was for, the commit it started from, how it ended and with
which candidate, and where its records lie in the ledger.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Self, TypeVar

import msgspec
from msgspec.structs import astuple

from savant.contracts.errors import PortError, UsageError

T = TypeVar("T")

_VERSION: Final = 1
_WAIT_S: Final = 5.0
_SCHEMA: Final = (
    """create table run (
        run_id text primary key, started_at_ms integer not null, objective text not null, base_commit text not null,
        disposition text, candidate_digest text, ledger_first_seq integer not null, ledger_last_seq integer
    ) without rowid""",
    "create index run_by_start on run (started_at_ms, run_id)",
    f"pragma user_version = {_VERSION}",
)


class RunRow(msgspec.Struct, frozen=True):
    """One run as the index shows it."""

    run_id: str
    started_at_ms: int
    """Wall clock, milliseconds since the Unix epoch."""
    objective: str
    base_commit: str
    disposition: str | None
    """How it ended; None while it has not."""
    candidate_digest: str | None
    ledger_first_seq: int
    ledger_last_seq: int | None


_COLUMNS: Final = ", ".join(RunRow.__struct_fields__)
_UPSERT: Final = (
    f"insert into run ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?) on conflict (run_id) do update set "  # noqa: S608
    + ", ".join(f"{name} = excluded.{name}" for name in RunRow.__struct_fields__[1:])
)
_SELECT: Final = f"select {_COLUMNS} from run"  # noqa: S608 - the names of our own class


class RunDatabase:
    """The index in a SQLite file. Safe between threads and processes, which wait for each other up to five seconds.

    :raises PortError: ``port.run-database`` from every method when the file cannot be used; delete it and rebuild.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
        except (sqlite3.Error, OSError) as error:
            raise self._failed(error) from error
        try:
            self._do(_prepare)
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back the file."""
        with self._lock:
            self._database.close()

    def upsert(self, *rows: RunRow) -> None:
        """Add runs, or replace what was known about them, in one transaction."""

        def write(database: sqlite3.Connection) -> None:
            database.execute("begin immediate")
            database.executemany(_UPSERT, [astuple(row) for row in rows])

        self._do(write)

    def clear(self) -> None:
        """Forget every run, to be rebuilt from the ledger."""
        self._do(lambda database: database.execute("delete from run"))

    def rebuild(self, rows: Iterable[RunRow]) -> None:
        """Replace everything by these runs, in one transaction."""
        values = [astuple(row) for row in rows]

        def write(database: sqlite3.Connection) -> None:
            database.execute("begin immediate")
            database.execute("delete from run")
            database.executemany(_UPSERT, values)

        self._do(write)

    def list(self, *, limit: int = 100) -> tuple[RunRow, ...]:
        """The newest runs, newest first; runs of one millisecond in descending order of their ids."""
        return self._select("order by started_at_ms desc, run_id desc limit ?", limit)

    def latest(self) -> RunRow:
        """The newest run.

        :raises UsageError: ``usage.no-run`` when there is none.
        """
        found = self.list(limit=1)
        if not found:
            raise UsageError("usage.no-run", "There is no run yet.", fix="Start one with `savant synthesis-run`.")
        return found[0]

    def find(self, prefix: str) -> RunRow:
        """The one run whose id is this text or begins with it; an exact id wins.

        :raises UsageError: ``usage.unknown-run``, ``usage.ambiguous-run``.
        """
        found = self._select("where substr(run_id, 1, ?) = ? order by run_id limit 11", len(prefix), prefix)
        if found and prefix and (found[0].run_id == prefix or len(found) == 1):
            return found[0]
        if not found or not prefix:
            raise UsageError(
                "usage.unknown-run", f"No run's id begins with {prefix[:200]!r}.", fix="List them with `savant runs`."
            )
        ids = ", ".join(row.run_id for row in found[:10])
        raise UsageError(
            "usage.ambiguous-run", f"{prefix!r} begins the ids of several runs: {ids}.", fix="Write more of the id."
        )

    def _select(self, clause: str, *values: str | int) -> tuple[RunRow, ...]:
        rows = self._do(lambda database: database.execute(f"{_SELECT} {clause}", values).fetchall())
        return tuple(RunRow(*row) for row in rows)

    def _do(self, act: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                with self._database:
                    return act(self._database)
            except sqlite3.Error as error:
                raise self._failed(error) from error

    def _failed(self, error: Exception) -> PortError:
        return PortError(
            "port.run-database",
            f"The run database {str(self._path)!r} cannot be used: {error}.",
            untouched="The ledger is the truth and is not affected.",
            fix="Delete the file; it is rebuilt from the ledger.",
        )


def _prepare(database: sqlite3.Connection) -> None:
    database.execute("pragma synchronous = normal")
    database.execute("begin immediate")
    version = database.execute("pragma user_version").fetchone()[0]
    if version == 0:
        for statement in _SCHEMA:
            database.execute(statement)
    elif version != _VERSION:
        raise sqlite3.DatabaseError(f"it has the unknown version {version}")
