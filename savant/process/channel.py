"""Our end of a conversation with a command under the supervisor: a :class:`savant.process.port.Channel` over sockets.

Reading and writing go on together, so neither side waits for the other for ever. While somebody waits here, the end of
the command, a cancellation and the limits are looked at too.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from savant.contracts.effects import Cancellation
from savant.contracts.errors import UsageError
from savant.process.port import Limits

POLL_MS: Final = 10
"""How often a cancellation is looked at."""
_CHUNK: Final = 65_536


def refuse_line_end(line: bytes) -> None:
    """Refuse a line that has an end in it.

    :raises UsageError: ``usage.bad-line``.
    """
    if b"\n" in line:
        raise UsageError("usage.bad-line", "A line of a conversation cannot hold the end of a line.")


class SocketChannel:
    """A conversation over two sockets of ours, which are closed by :meth:`finish`.

    :param sending: the other end is the command's standard input; likewise ``receiving``.
    :param ending: readable once the supervisor says that the command has ended, or is gone itself.
    :param tell: sends the supervisor a frame about the running command.
    """

    def __init__(
        self,
        sending: socket.socket,
        receiving: socket.socket,
        ending: socket.socket,
        limits: Limits,
        cancellation: Cancellation | None,
        tell: Callable[[dict[str, Any]], None],
    ) -> None:
        sending.setblocking(False)
        receiving.setblocking(False)
        self._sending, self._receiving, self._ending = sending, receiving, ending
        self._limits, self._cancellation, self._tell = limits, cancellation, tell
        self._said = bytearray()
        self._part = bytearray()
        self._lines: deque[bytes] = deque()
        self._has_ended = self._is_over = self._is_truncated = False
        self._cancelled_at: float | None = None
        self._has_told = False

    @property
    def is_open(self) -> bool:
        """Whether something may still come."""
        return bool(self._lines) or not self._is_over

    @property
    def said(self) -> tuple[bytes, bool]:
        """What the command sent, at most its limit, and whether there was more."""
        return bytes(self._said), self._is_truncated

    def send(self, line: bytes) -> bool:
        """Send one line; the contract is :meth:`savant.process.port.Channel.send`'s."""
        refuse_line_end(line)
        data = memoryview(line + b"\n")
        while data:
            if self._is_over:
                return False
            if not self._wait(None, writing=True):
                continue
            try:
                data = data[self._sending.send(data) :]
            except BlockingIOError:
                continue
            except OSError:
                return False
        return True

    def receive(self, timeout_ms: int) -> bytes | None:
        """The next line; the contract is :meth:`savant.process.port.Channel.receive`'s."""
        until = time.monotonic() + timeout_ms / 1000
        while not self._lines and not self._is_over:
            left = until - time.monotonic()
            self._wait(max(left, 0.0))
            if left <= 0:
                break
        return self._lines.popleft() if self._lines else None

    def finish(self) -> None:
        """End standard input and wait for the end of the command, which is asked for where it does not come."""
        self._sending.close()
        until = time.monotonic() + self._limits.grace_ms / 1000
        while not self._has_ended:
            if self._cancellation is not None and self._cancellation.is_set():
                self._say({"op": "cancel"})
            left = until - time.monotonic()
            if left <= 0:
                self._say({"op": "end", "reason": "", "detail": "ended by us, because it went on when all was said"})
            self._wait(None if self._has_told else left)
        self._take()
        self._receiving.close()

    def _say(self, frame: dict[str, Any]) -> None:
        if not self._has_told:
            self._has_told = True
            self._tell(frame)

    def _wait(self, timeout_s: float | None, *, writing: bool = False) -> bool:
        """Wait until something happens, or for the time; whether there is room to write."""
        poll = select.poll()
        poll.register(self._ending, select.POLLIN)
        if not self._is_over:
            poll.register(self._receiving, select.POLLIN)
        if writing:
            poll.register(self._sending, select.POLLOUT)
        timeout_ms = None if timeout_s is None else int(timeout_s * 1000) + (timeout_s > 0)
        if self._cancellation is not None and not self._has_told:
            timeout_ms = POLL_MS if timeout_ms is None else min(POLL_MS, timeout_ms)
        ready = {fd for fd, _ in poll.poll(timeout_ms)}
        self._attend()
        if self._receiving.fileno() in ready or self._ending.fileno() in ready:
            self._has_ended = self._has_ended or self._ending.fileno() in ready
            self._take()
        return writing and self._sending.fileno() in ready

    def _attend(self) -> None:
        """Leave time for a last word after a cancellation, and no more."""
        if self._cancellation is None or self._has_told or not self._cancellation.is_set():
            return
        now = time.monotonic()
        if self._cancelled_at is None:
            self._cancelled_at = now
        if now - self._cancelled_at >= self._limits.grace_ms / 1000:
            self._say({"op": "cancel"})

    def _take(self) -> None:
        """Take what has come; when the command has ended that is all there will be."""
        while not self._is_over:
            try:
                chunk = self._receiving.recv(_CHUNK)
            except BlockingIOError:
                self._is_over = self._has_ended
                return
            except OSError:
                chunk = b""
            if not chunk:
                self._is_over = True
            self._keep(chunk)
            if not self._has_ended:
                return

    def _keep(self, chunk: bytes) -> None:
        room = self._limits.stdout_bytes - len(self._said)
        self._said += chunk[:room]
        *ends, rest = chunk.split(b"\n")
        longest = len(self._part) + len(ends[0] if ends else rest)
        if ends:
            self._lines.append(bytes(self._part) + ends[0])
            self._lines.extend(ends[1:])
            self._part.clear()
            longest = max(longest, *map(len, ends), len(rest))
        self._part += rest
        if len(chunk) > room:
            self._is_truncated = True
            self._refuse(f"wrote more than {self._limits.stdout_bytes} bytes on standard output")
        elif self._limits.line_bytes is not None and longest > self._limits.line_bytes:
            self._refuse(f"sent a line of more than {self._limits.line_bytes} bytes")

    def _refuse(self, detail: str) -> None:
        self._is_over = True
        self._lines.clear()
        self._say({"op": "end", "reason": "output-limit", "detail": detail})
