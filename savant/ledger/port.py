"""The ports of the ledger: where lines, checkpoints and the saved head are kept, and who checks many signatures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

import msgspec

from savant.contracts.errors import VerificationError
from savant.contracts.signing import Verifier

SignedBytes: TypeAlias = tuple[bytes, bytes, bytes]
"""Raw public key, signature, message."""


class Tail(msgspec.Struct, frozen=True):
    """The end of a store: how many records, and the last line (empty when there is none)."""

    size: int
    line: bytes


class Transaction(Protocol):
    """Exclusive access. What was inserted is durable when the block ends without an exception, else it never was."""

    def tail(self) -> Tail:
        """The last record and the size."""
        ...

    def line(self, seq: int) -> bytes | None:
        """One line, or None when there is no such record."""
        ...

    def insert(self, seq: int, line: bytes, *, is_authority: bool) -> None:
        """Add a record; ``is_authority`` marks root statements so that they are found again quickly.

        :raises Conflict: ``conflict.record-exists``.
        """
        ...

    def last_checkpoint(self) -> tuple[int, str] | None:
        """``(size, note)`` of the largest checkpoint."""
        ...

    def insert_checkpoint(self, size: int, note: str) -> None:
        """Add a checkpoint; adding the same one again changes nothing."""
        ...

    def void_checkpoint(self, size: int) -> None:
        """Forget a checkpoint of records that were lost. Only a recovery may ask for it."""
        ...

    def read_head(self) -> bytes | None:
        """The saved head, or None when there is none."""
        ...

    def write_head(self, raw: bytes) -> None:
        """Replace the saved head at once and durably; it is kept apart from the records."""
        ...


class Source(Protocol):
    """A ledger to be read as it is, by one reader; nobody appends to it meanwhile."""

    def tail(self) -> Tail:
        """The last record and the size."""
        ...

    def line(self, seq: int) -> bytes | None:
        """One line, or None when there is no such record."""
        ...

    def lines(self, start: int, stop: int) -> Iterator[bytes]:
        """The lines that exist from ``start`` up to, not including, ``stop``, in order, in bounded memory."""
        ...

    def checkpoints(self) -> Iterator[tuple[int, str]]:
        """``(size, note)`` in order of size."""
        ...

    def read_head(self) -> bytes | None:
        """The saved head, or None when there is none."""
        ...


class Store(Protocol):
    """A place for one ledger.

    MUST let one transaction run at a time, over all threads and processes. MUST be durable when a transaction ends.
    MUST NOT keep records in memory when the disk fails. Every method may raise :class:`PortError`
    (``port.ledger-busy`` is retryable).
    """

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin an exclusive transaction."""
        ...

    def lines(self, start: int, stop: int) -> Iterator[bytes]:
        """The lines that exist from ``start`` up to, not including, ``stop``, in order, in bounded memory."""
        ...

    def checkpoints(self) -> Iterator[tuple[int, str]]:
        """``(size, note)`` in order of size."""
        ...

    def authority_records(self, start: int) -> tuple[int, ...]:
        """The sequence numbers, from ``start`` on, of the root statements."""
        ...

    def close(self) -> None:
        """Let go of the files. Idempotent."""
        ...


class ManyVerifier(Verifier, Protocol):
    """A verifier that may check many signatures at once. MUST give the same answers as one by one."""

    def check_many(self, items: Sequence[SignedBytes]) -> Sequence[VerificationError | None]:
        """What is wrong with each, None where it is good; in order."""
        ...
