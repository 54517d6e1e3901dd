"""The SQLite store: WAL, ``synchronous=FULL``, ``BEGIN IMMEDIATE``, on a local disk, with the head in a second file.

SQLite drops a damaged tail quietly, so a rolled-back store looks healthy: that is what the head file is for. Every
pragma is read back, because SQLite ignores what it does not know. An open failure is an error; there is no fallback.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from savant.contracts.digest import raw_digest
from savant.contracts.errors import Conflict, PortError, RefusedInput, Unverifiable
from savant.files.atomic import read_optional, write_atomic
from savant.files.tree import disk_error
from savant.ledger.port import Tail

DATABASE_NAME: Final = "ledger.sqlite3"
HEAD_NAME: Final = "ledger-head.json"
FORMAT_VERSION: Final = 1
MAX_HEAD_BYTES: Final = 128 * 1024
BUSY_TIMEOUT_MS: Final = 30_000
NETWORK_FILE_SYSTEMS: Final = frozenset(
    {"9p", "afs", "ceph", "cifs", "coda", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs"}
    | {"lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs"}
)
"""File systems without the shared memory and locks that WAL needs."""

_PRAGMAS: Final[Mapping[str, tuple[str, object]]] = MappingProxyType(
    {
        "journal_mode": ("wal", "wal"),
        "synchronous": ("full", 2),
        "trusted_schema": ("off", 0),
        "cell_size_check": ("on", 1),
        "wal_autocheckpoint": ("2000", 2000),
        **({"fullfsync": ("on", 1), "checkpoint_fullfsync": ("on", 1)} if sys.platform == "darwin" else {}),
    }
)
_SCHEMA: Final = """
CREATE TABLE record (
    seq INTEGER PRIMARY KEY, line BLOB NOT NULL, b3 BLOB NOT NULL UNIQUE, authority INTEGER NOT NULL
) STRICT;
CREATE INDEX record_authority ON record (seq) WHERE authority = 1;
CREATE TABLE checkpoint (size INTEGER PRIMARY KEY, note TEXT NOT NULL) STRICT;
"""
_PAGE_BYTES: Final = 2048
"""Half of SQLite's usual page: an append of a usual record writes a fifth less to the log."""

_BATCH: Final = 256


class SqliteStore:
    """Implements :class:`savant.ledger.port.Store` and its own transaction, in one directory.

    One connection, used by one thread at a time; other threads and processes wait for the transaction to end.
    """

    def __init__(self, directory: Path, *, create: bool = False) -> None:
        """Open the ledger of a directory, or make the directory and an empty one.

        :raises Unverifiable: ``unverifiable.no-ledger``, ``unverifiable.ledger-version``.
        :raises RefusedInput: ``refused.network-disk``, ``refused.ledger-link``.
        :raises PortError: ``port.ledger``, ``port.ledger-busy``, ``port.ledger-pragma``.
        """
        self.directory = directory
        self._database = directory / DATABASE_NAME
        self._head = directory / HEAD_NAME
        self._lock = threading.RLock()
        self._read: bytes | None = None
        self._read_state: tuple[int, int, int, int] | None = None
        if create:
            _make_directory(directory)
        if self._database.is_symlink() or self._head.is_symlink():
            raise RefusedInput("refused.ledger-link", f"A file of the ledger in {directory} is a link.")
        if not create and not self._database.exists():
            raise Unverifiable(
                "unverifiable.no-ledger", f"There is no ledger in {directory}.", fix="Run: savant synthesis-run"
            )
        verify_local_disk(directory)
        with _translated(self._database):
            self._connection = sqlite3.connect(
                self._database, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(create=create)
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self, *, create: bool) -> None:
        if create:
            self._connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")
        for name, (value, expected) in _PRAGMAS.items():
            self._connection.execute(f"PRAGMA {name}={value}")
            actual = self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            if actual != expected:
                raise PortError("port.ledger-pragma", f"SQLite answers {name}={actual!r} instead of {expected!r}.")
        if create:
            self._connection.execute("BEGIN IMMEDIATE")
            if self._version() == 0:
                for statement in _SCHEMA.split(";"):
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version={FORMAT_VERSION}")
            self._connection.execute("COMMIT")
        if self._version() != FORMAT_VERSION:
            raise Unverifiable(
                "unverifiable.ledger-version",
                f"The ledger has format {self._version()}; this version reads {FORMAT_VERSION}.",
            )

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def transaction(self) -> Iterator[SqliteStore]:
        """Exclusive over threads and processes; an exception rolls back."""
        with self._lock, _translated(self._database):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def tail(self) -> Tail:
        """The last record and the size."""
        row = self._connection.execute("SELECT seq, line FROM record ORDER BY seq DESC LIMIT 1").fetchone()
        return Tail(0, b"") if row is None else Tail(row[0] + 1, row[1])

    def line(self, seq: int) -> bytes | None:
        """One line."""
        row = self._connection.execute("SELECT line FROM record WHERE seq = ?", (seq,)).fetchone()
        return None if row is None else bytes(row[0])

    def insert(self, seq: int, line: bytes, *, is_authority: bool) -> None:
        """Add a record."""
        try:
            self._connection.execute(
                "INSERT INTO record (seq, line, b3, authority) VALUES (?, ?, ?, ?)",
                (seq, line, raw_digest(line), int(is_authority)),
            )
        except sqlite3.IntegrityError as error:
            raise Conflict("conflict.record-exists", f"Record {seq} is already there.") from error

    def last_checkpoint(self) -> tuple[int, str] | None:
        """The largest checkpoint."""
        row = self._connection.execute("SELECT size, note FROM checkpoint ORDER BY size DESC LIMIT 1").fetchone()
        return None if row is None else (row[0], row[1])

    def insert_checkpoint(self, size: int, note: str) -> None:
        """Add a checkpoint."""
        row = self._connection.execute("SELECT note FROM checkpoint WHERE size = ?", (size,)).fetchone()
        if row is None:
            self._connection.execute("INSERT INTO checkpoint (size, note) VALUES (?, ?)", (size, note))
        elif row[0] != note:
            raise Conflict("conflict.checkpoint-exists", f"Another checkpoint of size {size} is already there.")

    def void_checkpoint(self, size: int) -> None:
        """Forget a checkpoint of lost records."""
        self._connection.execute("DELETE FROM checkpoint WHERE size = ?", (size,))

    def read_head(self) -> bytes | None:
        """The saved head. It is read again only when the file is another one or was changed since."""
        state = self._head_state()
        if state != self._read_state or state is None:
            self._read = read_optional(self._head, max_bytes=MAX_HEAD_BYTES)
            self._read_state = state
        return self._read

    def _head_state(self) -> tuple[int, int, int, int] | None:
        try:
            found = self._head.lstat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise disk_error(error, f"Cannot read {str(self._head)!r}") from error
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def write_head(self, raw: bytes) -> None:
        """Replace the saved head at once and durably."""
        write_atomic(self._head, raw)

    def lines(self, start: int, stop: int) -> Iterator[bytes]:
        """The lines of a range, a few hundred at a time and with no transaction left open between them."""
        while start < stop:
            with self._lock, _translated(self._database):
                rows = self._connection.execute(
                    "SELECT seq, line FROM record WHERE seq >= ? AND seq < ? ORDER BY seq LIMIT ?",
                    (start, stop, _BATCH),
                ).fetchall()
            if not rows:
                return
            for _, line in rows:
                yield line
            start = rows[-1][0] + 1

    def checkpoints(self) -> Iterator[tuple[int, str]]:
        """All checkpoints, likewise."""
        above = -1
        while True:
            with self._lock, _translated(self._database):
                rows = self._connection.execute(
                    "SELECT size, note FROM checkpoint WHERE size > ? ORDER BY size LIMIT ?", (above, _BATCH)
                ).fetchall()
            if not rows:
                return
            yield from rows
            above = rows[-1][0]

    def authority_records(self, start: int) -> tuple[int, ...]:
        """Root statements from ``start`` on."""
        with self._lock, _translated(self._database):
            rows = self._connection.execute(
                "SELECT seq FROM record WHERE authority = 1 AND seq >= ? ORDER BY seq", (start,)
            ).fetchall()
        return tuple(seq for (seq,) in rows)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._connection.close()


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise PortError("port.ledger-busy", f"Another process holds the ledger {path}.", retryable=True) from error
        raise PortError("port.ledger", f"The ledger {path} failed: {error}") from error
    except sqlite3.Error as error:
        raise PortError("port.ledger", f"The ledger {path} failed: {error}") from error


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise PortError("port.ledger", f"The ledger directory {directory} cannot be made: {error}") from error


def verify_local_disk(directory: Path, mounts: Path = Path("/proc/self/mounts")) -> None:
    """Return unless the directory is known to be on a network disk; a system without a mount table is not judged.

    :raises RefusedInput: ``refused.network-disk``.
    """
    try:
        table = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    kind = file_system_of(table, directory.resolve())
    if kind in NETWORK_FILE_SYSTEMS:
        raise RefusedInput(
            "refused.network-disk",
            f"{directory} is on {kind}; a ledger needs a local disk.",
            untouched="Nothing was written.",
            fix="Configure a ledger directory on a local disk.",
        )


def file_system_of(table: str, path: Path) -> str:
    """The type of the file system that holds an absolute path, by a mount table; empty when it names none."""
    found, kind = -1, ""
    for line in table.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(_unescape(fields[1]))
        if (path == point or point in path.parents) and len(point.parts) >= found:
            found, kind = len(point.parts), fields[2]
    return kind


def _unescape(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
