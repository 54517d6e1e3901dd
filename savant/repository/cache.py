"""What builds of manifests found out, remembered in SQLite by git's object ids; and the twin in memory.

The tables are ``tree(format, oid -> digest)``, ``node(digest -> bytes)`` and ``blob(format, oid -> digest, size)``. A
row of ``tree`` or ``blob`` carries a check over itself and a node is its own check, so damage makes a row unknown and
never wrong. Whoever can write the file can forge a row; that is why verification, gate and replay use no cache at all.

The database only saves work: when it cannot be opened, read or written, it answers that it knows nothing and says so
in ``limitations``, once. It uses write-ahead logging, so readers and one writer do not wait for each other.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self, TypeVar

from savant.contracts.digest import RAW_BYTES, raw_digest
from savant.repository.build import Learned
from savant.repository.objects import ObjectFormat

T = TypeVar("T")

_VERSION: Final = 1
_WAIT_MS: Final = 2000
_VARIABLES: Final = 500
"""Ids per statement; SQLite promises at least 999 variables."""

_SCHEMA: Final = (
    """create table tree (
        format text not null, oid text not null, digest blob not null, proof blob not null, primary key (format, oid)
    ) without rowid""",
    """create table blob (
        format text not null, oid text not null, digest blob not null, size integer not null, proof blob not null,
        primary key (format, oid)
    ) without rowid""",
    "create table node (digest blob primary key, raw blob not null) without rowid",
    f"pragma user_version = {_VERSION}",
)


class SqliteManifestCache:
    """A :class:`~savant.repository.build.ManifestCache` in a file, made when it is missing. Safe between threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._limitations: list[str] = []
        self._database: sqlite3.Connection | None = None
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._database = _open(path)
        except (sqlite3.Error, OSError) as error:
            self._limitations.append(f"The manifest cache {path} is not used: {error}.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back the file. Afterwards the cache knows nothing and stores nothing."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    @property
    def limitations(self) -> tuple[str, ...]:
        """Why this cache could not help, if it could not."""
        return tuple(self._limitations)

    def trees(self, format_: ObjectFormat, oids: Iterable[bytes]) -> dict[bytes, bytes]:
        """The digests of those trees that are known."""
        query = "select oid, digest, 0, proof from tree where format = ? and oid in ({})"
        return self._rows(query, b"tree", format_, list(oids))

    def blobs(self, format_: ObjectFormat, oids: Iterable[bytes]) -> dict[bytes, bytes]:
        """The content digests of those blobs that are known."""
        query = "select oid, digest, size, proof from blob where format = ? and oid in ({})"
        return self._rows(query, b"blob", format_, list(oids))

    def node(self, digest: bytes) -> bytes | None:
        """The bytes of a node, if they are there and have this digest."""
        row = self._try(lambda db: db.execute("select raw from node where digest = ?", (digest,)).fetchone(), None)
        if row is None or not isinstance(row[0], bytes) or raw_digest(row[0]) != digest:
            return None
        return row[0]

    def store(self, format_: ObjectFormat, learned: Learned) -> None:
        """Remember all of this in one transaction; rows that turned out to be damaged are replaced."""
        trees = [
            (format_, oid.decode(), digest, _proof(b"tree", format_, oid, digest, 0))
            for oid, digest in learned.trees.items()
        ]
        blobs = [
            (format_, oid.decode(), digest, size, _proof(b"blob", format_, oid, digest, size))
            for oid, (digest, size) in learned.blobs.items()
        ]

        def write(database: sqlite3.Connection) -> None:
            with database:
                database.execute("begin immediate")
                database.executemany("insert or replace into node values (?, ?)", list(learned.nodes.items()))
                database.executemany("insert or replace into blob values (?, ?, ?, ?, ?)", blobs)
                database.executemany("insert or replace into tree values (?, ?, ?, ?)", trees)

        self._try(write, None)

    def _rows(self, query: str, table: bytes, format_: ObjectFormat, oids: list[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}

        def read(database: sqlite3.Connection) -> None:
            for start in range(0, len(oids), _VARIABLES):
                part = [oid.decode() for oid in oids[start : start + _VARIABLES]]
                marks = ", ".join("?" * len(part))
                for oid, digest, size, proof in database.execute(query.format(marks), (format_, *part)):
                    if _is_row(table, format_, oid, digest, size, proof):
                        found[oid.encode()] = digest

        self._try(read, None)
        return found

    def _try(self, act: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """Do it, or say why not and leave the file alone from then on."""
        with self._lock:
            if self._database is None:
                return otherwise
            try:
                return act(self._database)
            except sqlite3.Error as error:
                self._limitations.append(f"The manifest cache {self._path} is not used: {error}.")
                self._database.close()
                self._database = None
                return otherwise


def _open(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=_WAIT_MS / 1000, isolation_level=None, check_same_thread=False)
    try:
        with suppress(sqlite3.OperationalError):  # somebody else is just doing the same; either mode is right
            database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = normal")
        with database:
            database.execute("begin immediate")
            version = database.execute("pragma user_version").fetchone()[0]
            if version == 0:
                for statement in _SCHEMA:
                    database.execute(statement)
            elif version != _VERSION:
                raise sqlite3.DatabaseError(f"it has the unknown version {version}")
    except BaseException:
        database.close()
        raise
    return database


def _proof(table: bytes, format_: ObjectFormat, oid: bytes, digest: bytes, size: int) -> bytes:
    return raw_digest(b"\0".join((table, format_.encode(), oid, b"%d" % size, digest)))[:8]


def _is_row(table: bytes, format_: ObjectFormat, oid: object, digest: object, size: object, proof: object) -> bool:
    return (
        isinstance(oid, str)
        and isinstance(digest, bytes)
        and isinstance(size, int)
        and len(digest) == RAW_BYTES
        and proof == _proof(table, format_, oid.encode(), digest, size)
    )


class MemoryManifestCache:
    """The twin of :class:`SqliteManifestCache` in memory."""

    def __init__(self) -> None:
        self._trees: dict[tuple[str, bytes], bytes] = {}
        self._blobs: dict[tuple[str, bytes], bytes] = {}
        self._nodes: dict[bytes, bytes] = {}

    @property
    def limitations(self) -> tuple[str, ...]:
        """Nothing: memory does not fail."""
        return ()

    def trees(self, format_: ObjectFormat, oids: Iterable[bytes]) -> dict[bytes, bytes]:
        """The digests of those trees that are known."""
        return {oid: self._trees[format_, oid] for oid in oids if (format_, oid) in self._trees}

    def blobs(self, format_: ObjectFormat, oids: Iterable[bytes]) -> dict[bytes, bytes]:
        """The content digests of those blobs that are known."""
        return {oid: self._blobs[format_, oid] for oid in oids if (format_, oid) in self._blobs}

    def node(self, digest: bytes) -> bytes | None:
        """The bytes of a node, if they are there and have this digest."""
        raw = self._nodes.get(digest)
        return raw if raw is not None and raw_digest(raw) == digest else None

    def store(self, format_: ObjectFormat, learned: Learned) -> None:
        """Remember all of this."""
        self._nodes.update(learned.nodes.items())
        self._blobs.update({(format_, oid): digest for oid, (digest, _) in learned.blobs.items()})
        self._trees.update({(format_, oid): digest for oid, digest in learned.trees.items()})
