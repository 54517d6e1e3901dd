"""In-memory twins of the effect ports: a clock that stands, bytes that repeat, tasks that run at once.

They pass the conformance suite of the real adapters (``tests/conformance/test_effects.py``) and make everything built
on the ports deterministic. They are for tests and for replay; the composition root never builds them for a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from savant.contracts.digest import raw_digest
from savant.contracts.effects import Cancellation, Raised, Returned, Task, check_token_size
from savant.contracts.errors import UsageError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class FixedClock:
    """A clock that moves only when told to.

    :param now_ms: the wall clock at the start, milliseconds since the Unix epoch.
    :param monotonic_ms: the monotonic clock at the start.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000, monotonic_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms

    def now_ms(self) -> int:
        """The wall clock."""
        return self._now_ms

    def monotonic_ms(self) -> int:
        """The monotonic clock."""
        return self._monotonic_ms

    def advance(self, duration_ms: int) -> None:
        """Let time pass on both clocks.

        :raises UsageError: ``usage.clock-backwards`` for a negative duration; see :meth:`set_wall`.
        """
        if duration_ms < 0:
            raise UsageError("usage.clock-backwards", f"A clock cannot advance by {duration_ms} ms.")
        self._now_ms += duration_ms
        self._monotonic_ms += duration_ms

    def set_wall(self, now_ms: int) -> None:
        """Step the wall clock, as an administrator would; the monotonic clock does not move."""
        self._now_ms = now_ms


class CountingEntropy:
    """Bytes that look random and are the same in every process: BLAKE3 of the seed, the call's number and the block.

    :param seed: two twins with different seeds give different bytes.
    """

    def __init__(self, seed: bytes = b"") -> None:
        self._seed = seed
        self._calls = 0

    def token(self, size_bytes: int) -> bytes:
        """The bytes of the next call."""
        check_token_size(size_bytes)
        self._calls += 1
        head = b"%d:%b:%d:" % (len(self._seed), self._seed, self._calls)
        blocks = (raw_digest(head + b"%d" % block) for block in range(-(-size_bytes // 32)))
        return b"".join(blocks)[:size_bytes]


class InlineCancellation:
    """A flag that nobody else can set while the caller waits: waiting returns at once."""

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        """Whether somebody asked."""
        return self._is_set

    def set(self) -> None:
        """Ask."""
        self._is_set = True

    def wait(self, timeout_ms: int) -> bool:
        """Whether somebody asked; the timeout has no effect."""
        del timeout_ms
        return self._is_set


class EndedTask(msgspec.Struct, Generic[T_co], frozen=True):
    """A task that ended before it was handed out."""

    ended: Returned[T_co] | Raised

    def outcome(self, timeout_ms: int) -> Returned[T_co] | Raised | None:
        """What it ended with; the timeout has no effect."""
        del timeout_ms
        return self.ended


class InlineTasks:
    """Runs each call in ``start``, on the caller's thread: for calls that end by themselves."""

    def start(self, call: Callable[[], T]) -> Task[T]:
        """Run the call to its end."""
        try:
            value = call()
        except BaseException as error:  # noqa: BLE001 - an outcome is a value, whatever ended the call
            return EndedTask(Raised(error))
        return EndedTask(Returned(value))

    def cancellation(self) -> Cancellation:
        """A fresh cancellation, not set."""
        return InlineCancellation()
