"""The run database: runs, sessions, providers, plans, usage and messages, for people to ask about.

It is never read to decide: the ledger is the truth. This file may be deleted at any time; reading the ledger again
(:mod:`driver.index`) brings it back, row for row. It is SQLite in WAL mode with foreign keys on and typed tables;
``PRAGMA user_version`` counts its :mod:`migrations <savant.store.schema>`. A file that cannot be used is an error with
a fix: it is never replaced behind the person's back.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import msgspec
from msgspec.structs import astuple

from savant.contracts.errors import PortError, UsageError
from savant.store.rows import (
    ClaimRow,
    ConfigurationRow,
    MessageRow,
    PlanRow,
    Position,
    RunRow,
    SessionRow,
    TemplateRow,
    UsageRow,
)
from savant.store.schema import TABLES, VERSION, migrate

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RunDatabase", "RunRow", "Writer"]

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)

_WAIT_S: Final = 5.0

_PLACES: Final[Mapping[type[msgspec.Struct], tuple[str, tuple[str, ...]]]] = MappingProxyType(
    {
        TemplateRow: ("provider_templates", ("template_id",)),
        ConfigurationRow: ("provider_configurations", ("config_digest",)),
        ClaimRow: ("provider_claims", ("capabilities_digest",)),
        SessionRow: ("sessions", ("session_digest",)),
        RunRow: ("runs", ("run_id",)),
        PlanRow: ("plan_documents", ("run_id", "plan_digest")),
        UsageRow: ("usage", ("seq",)),
        MessageRow: ("messages", ("seq", "number")),
    }
)
"""Kind of row: its table and the columns that name a row. The columns of a table are the members of its class."""

_BOOLEANS: Final = frozenset({"reports_usage", "is_notional"})
"""SQLite keeps them as 0 and 1."""


class Writer:
    """One transaction on the database: everything that is put is there when it ends well, or nothing is."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def position(self) -> Position | None:
        """How far the ledger was read; None when it was not."""
        row = self._database.execute("select ledger, next_seq, last_line from ledger_position").fetchone()
        return None if row is None else Position(*row)

    def set_position(self, position: Position) -> None:
        """Say how far the ledger was read."""
        self._database.execute("insert or replace into ledger_position values (1, ?, ?, ?)", astuple(position))

    def put(self, *rows: msgspec.Struct) -> None:
        """Add rows, or replace what was known under their names."""
        for row in rows:
            self._database.execute(_upsert(type(row)), astuple(row))

    def get(self, kind: type[R], *key: str | int) -> R | None:
        """The row of this name, or None."""
        names = _PLACES[kind][1]
        clause = " and ".join(f"{name} = ?" for name in names)
        return next(iter(_read(self._database, kind, f"where {clause}", *key)), None)

    def open_call(self, run_id: str, request_digest: str) -> UsageRow | None:
        """The newest call of a run for a request that has not ended, or None."""
        clause = "where run_id = ? and request_digest = ? and outcome is null order by seq desc limit 1"
        return next(iter(_read(self._database, UsageRow, clause, run_id, request_digest)), None)

    def clear(self) -> None:
        """Forget everything, to be read from the ledger again."""
        for table in TABLES:
            self._database.execute(f"delete from {table}")  # noqa: S608 - a name of ours


class RunDatabase:
    """The database in its file. Safe between threads and processes, which wait for each other up to five seconds.

    :raises PortError: ``port.run-database`` from every method when the file cannot be used; ``fix`` says what to do.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.is_symlink():
                raise OSError("it is a link")
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

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """One transaction; an exception undoes it. Other writers wait."""
        with self._lock:
            self._do(lambda database: database.execute("begin immediate"))
            try:
                yield Writer(self._database)
                self._database.execute("commit")
            except sqlite3.Error as error:
                self._undo()
                raise self._failed(error) from error
            except BaseException:
                self._undo()
                raise

    def position(self) -> Position | None:
        """How far the ledger was read; None when it was not."""
        return self._do(lambda database: Writer(database).position())

    def rows(self, kind: type[R]) -> tuple[R, ...]:
        """Every row of a kind, in the order of their names."""
        names = ", ".join(_PLACES[kind][1])
        return self._do(lambda database: tuple(_read(database, kind, f"order by {names}")))

    def upsert(self, *rows: msgspec.Struct) -> None:
        """Add rows, or replace what was known under their names, in one transaction."""
        with self.writing() as writer:
            writer.put(*rows)

    def clear(self) -> None:
        """Forget everything; the next reading of the ledger brings it back."""
        with self.writing() as writer:
            writer.clear()

    def select(self, query: str, *values: str | int) -> list[tuple[Any, ...]]:
        """The rows of a query of ours (:mod:`savant.store.usage`); never one that a person wrote."""
        return self._do(lambda database: database.execute(query, values).fetchall())

    def calls(self, run_id: str) -> tuple[UsageRow, ...]:
        """The provider calls of a run, in order."""
        return self._do(lambda database: tuple(_read(database, UsageRow, "where run_id = ? order by seq", run_id)))

    def list(self, *, limit: int = 100) -> tuple[RunRow, ...]:
        """The newest runs, newest first; runs of one millisecond in descending order of their ids."""
        return self._runs("order by started_at_ms desc, run_id desc limit ?", limit)

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
        found = self._runs("where substr(run_id, 1, ?) = ? order by run_id limit 11", len(prefix), prefix)
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

    def _runs(self, clause: str, *values: str | int) -> tuple[RunRow, ...]:
        return self._do(lambda database: tuple(_read(database, RunRow, clause, *values)))

    def _do(self, act: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                return act(self._database)
            except (sqlite3.Error, OSError) as error:
                self._undo()
                raise self._failed(error) from error

    def _undo(self) -> None:
        if self._database.in_transaction:
            self._database.execute("rollback")

    def _failed(self, error: Exception) -> PortError:
        problem, fix, is_retryable = _explain(error, self._path)
        return PortError(
            "port.run-database",
            f"The run database {str(self._path)!r} cannot be used: {problem}.",
            retryable=is_retryable,
            untouched="The ledger is the truth and is not affected; the file was left as it is.",
            fix=fix,
        )


def _prepare(database: sqlite3.Connection) -> None:
    mode = database.execute("pragma journal_mode = wal").fetchone()[0]
    if mode != "wal":
        raise sqlite3.OperationalError(f"its disk allows no write-ahead log (the journal is {mode!r})")
    database.execute("pragma synchronous = normal")
    database.execute("pragma foreign_keys = on")
    if database.execute("pragma user_version").fetchone()[0] != VERSION:
        database.execute("begin immediate")
        migrate(database)
        database.execute("commit")


def _upsert(kind: type[msgspec.Struct]) -> str:
    table, key = _PLACES[kind]
    names = kind.__struct_fields__
    changes = ", ".join(f"{name} = excluded.{name}" for name in names if name not in key) or f"{key[0]} = {key[0]}"
    marks = ", ".join("?" * len(names))
    return (
        f"insert into {table} ({', '.join(names)}) values ({marks}) "  # noqa: S608 - the names of our own classes
        f"on conflict ({', '.join(key)}) do update set {changes}"
    )


def _read(database: sqlite3.Connection, kind: type[R], clause: str, *values: str | int) -> Iterator[R]:
    names = kind.__struct_fields__
    query = f"select {', '.join(names)} from {_PLACES[kind][0]} {clause}"  # noqa: S608 - the names of our own classes
    flags = [name in _BOOLEANS for name in names]
    for row in database.execute(query, values).fetchall():
        yield kind(*(bool(v) if flag and v is not None else v for v, flag in zip(row, flags, strict=True)))


def _explain(error: Exception, path: Path) -> tuple[str, str, bool]:
    """What is wrong, what helps, and whether trying again may."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another command is using it", "Try again when that one has ended.", True
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM) or isinstance(error, OSError):
        return (
            str(error),
            f"Make {path.parent} a folder that you may write to; or delete {path.name} if it is damaged.",
            False,
        )
    if primary in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return str(error), f"Make room on the disk of {path.parent}.", False
    return str(error), f"Delete {path}; it is rebuilt from the ledger by the next command that reads it.", False
