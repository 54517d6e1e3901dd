"""The in-memory twin of the SQLite store. For tests; it survives nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from savant.contracts.errors import Conflict
from savant.ledger.port import Tail


class MemoryStore:
    """Implements :class:`savant.ledger.port.Store` and its own transaction."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[int, bytes] = {}
        self._authority: set[int] = set()
        self._checkpoints: dict[int, str] = {}
        self._head: bytes | None = None

    @contextmanager
    def transaction(self) -> Iterator[MemoryStore]:
        """Exclusive; an exception undoes everything."""
        with self._lock:
            before = (dict(self._lines), set(self._authority), dict(self._checkpoints))
            try:
                yield self
            except BaseException:
                self._lines, self._authority, self._checkpoints = before
                raise

    def tail(self) -> Tail:
        """The last record and the size."""
        last = max(self._lines, default=-1)
        return Tail(last + 1, self._lines.get(last, b""))

    def line(self, seq: int) -> bytes | None:
        """One line."""
        return self._lines.get(seq)

    def insert(self, seq: int, line: bytes, *, is_authority: bool) -> None:
        """Add a record."""
        if seq in self._lines or line in self._lines.values():
            raise Conflict("conflict.record-exists", f"Record {seq} is already there.")
        self._lines[seq] = line
        if is_authority:
            self._authority.add(seq)

    def last_checkpoint(self) -> tuple[int, str] | None:
        """The largest checkpoint."""
        return max(self._checkpoints.items(), default=None)

    def insert_checkpoint(self, size: int, note: str) -> None:
        """Add a checkpoint."""
        if self._checkpoints.setdefault(size, note) != note:
            raise Conflict("conflict.checkpoint-exists", f"Another checkpoint of size {size} is already there.")

    def void_checkpoint(self, size: int) -> None:
        """Forget a checkpoint of lost records."""
        self._checkpoints.pop(size, None)

    def read_head(self) -> bytes | None:
        """The saved head."""
        return self._head

    def write_head(self, raw: bytes) -> None:
        """Replace the saved head."""
        self._head = raw

    def lines(self, start: int, stop: int) -> Iterator[bytes]:
        """The lines of a range."""
        return iter([line for seq, line in sorted(self._lines.items()) if start <= seq < stop])

    def checkpoints(self) -> Iterator[tuple[int, str]]:
        """All checkpoints."""
        return iter(sorted(self._checkpoints.items()))

    def authority_records(self, start: int) -> tuple[int, ...]:
        """Root statements from ``start`` on."""
        return tuple(sorted(seq for seq in self._authority if seq >= start))

    def close(self) -> None:
        """Nothing to let go of."""
