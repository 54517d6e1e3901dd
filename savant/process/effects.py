"""The real clock, randomness and tasks behind the ports of :mod:`savant.contracts.effects`.

Tasks are daemon threads: a call that ignores its cancellation cannot keep the program from ending. What such a call
returns after its caller gave up is dropped with the task. Foreign commands are not tasks; the supervisor starts them.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from savant.contracts.effects import Cancellation, Raised, Returned, Task, check_token_size

T = TypeVar("T")

_NS_PER_MS = 1_000_000


def _seconds(timeout_ms: int) -> float:
    return min(max(timeout_ms, 0) / 1000, threading.TIMEOUT_MAX)


class SystemClock:
    """The operating system's clocks."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the Unix epoch."""
        return time.time_ns() // _NS_PER_MS

    def monotonic_ms(self) -> int:
        """``CLOCK_MONOTONIC``: stands while the machine sleeps."""
        return time.monotonic_ns() // _NS_PER_MS


class SystemEntropy:
    """The operating system's generator."""

    def token(self, size_bytes: int) -> bytes:
        """Fresh random bytes.

        :raises UsageError: ``usage.token-size`` for fewer than one byte.
        """
        check_token_size(size_bytes)
        return secrets.token_bytes(size_bytes)


class ThreadCancellation:
    """A cancellation that crosses threads."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def is_set(self) -> bool:
        """Whether somebody asked."""
        return self._event.is_set()

    def set(self) -> None:
        """Ask."""
        self._event.set()

    def wait(self, timeout_ms: int) -> bool:
        """Wait until somebody asked, at most so long; whether they did."""
        return self._event.wait(_seconds(timeout_ms))


class ThreadTask(Generic[T]):
    """A call on a daemon thread of its own, started when it is made."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._ended = threading.Event()
        self._outcome: Returned[T] | Raised | None = None
        threading.Thread(target=self._run, name="savant-task", daemon=True).start()

    def outcome(self, timeout_ms: int) -> Returned[T] | Raised | None:
        """What it ended with, waiting at most so long; None while it runs."""
        self._ended.wait(_seconds(timeout_ms))
        return self._outcome

    def _run(self) -> None:
        try:
            self._outcome = Returned(self._call())
        except BaseException as error:  # noqa: BLE001 - an outcome is a value, whatever ended the call
            self._outcome = Raised(error)
        finally:
            self._ended.set()


class ThreadTasks:
    """Starts each call on a daemon thread."""

    def start(self, call: Callable[[], T]) -> Task[T]:
        """Start the call and return at once."""
        return ThreadTask(call)

    def cancellation(self) -> Cancellation:
        """A fresh cancellation, not set."""
        return ThreadCancellation()
