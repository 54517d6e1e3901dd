"""Effects as ports: time, randomness and concurrent tasks come in, they are never reached for.

Each port has an in-memory twin in :mod:`savant.contracts.twins` that passes the same conformance suite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec

from savant.contracts.errors import UsageError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Clock(Protocol):
    """Time. MUST NOT be used for identity: documents have no clock."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the Unix epoch. May step backwards."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds that never go backwards, from an arbitrary zero."""
        ...


class Entropy(Protocol):
    """Randomness for run ids and keys. MUST be unpredictable in production."""

    def token(self, size_bytes: int) -> bytes:
        """Fresh random bytes, exactly so many.

        :raises UsageError: ``usage.token-size`` for fewer than one byte.
        """
        ...


def check_token_size(size_bytes: int) -> None:
    """Return if an :class:`Entropy` may be asked for so many bytes.

    :raises UsageError: ``usage.token-size``.
    """
    if size_bytes < 1:
        raise UsageError("usage.token-size", f"A token has at least one byte, not {size_bytes}.")


class Cancellation(Protocol):
    """Asks a running call to stop. Idempotent, callable from any thread."""

    def is_set(self) -> bool:
        """Whether somebody asked."""
        ...

    def set(self) -> None:
        """Ask."""
        ...

    def wait(self, timeout_ms: int) -> bool:
        """Wait until somebody asked, at most so long; whether they did."""
        ...


class Returned(msgspec.Struct, Generic[T_co], frozen=True):
    """A task ended with a value."""

    value: T_co


class Raised(msgspec.Struct, frozen=True):
    """A task ended with an exception."""

    error: BaseException


class Task(Protocol[T_co]):
    """A call that was started."""

    def outcome(self, timeout_ms: int) -> Returned[T_co] | Raised | None:
        """What it ended with, waiting at most so long; None while it runs. Late results are the caller's to drop."""
        ...


class Tasks(Protocol):
    """Starts calls that run beside the caller."""

    def start(self, call: Callable[[], T]) -> Task[T]:
        """Start the call. What it raises becomes its outcome. An adapter MUST NOT block until the call ends; the
        in-memory twin does, and is for calls that end by themselves.
        """
        ...

    def cancellation(self) -> Cancellation:
        """A fresh cancellation, not set."""
        ...
