"""The in-memory twin of the process runner: programs are Python values, the rules of the port are the same.

For tests of whoever runs commands. It keeps to :class:`~savant.process.port.ProcessRunner` and passes
:mod:`savant.process.conformance`: limits, cancellation and refusals act as they do on real processes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from savant.contracts.effects import Cancellation
from savant.contracts.errors import UsageError
from savant.process.channel import refuse_line_end
from savant.process.port import (
    Command,
    Ended,
    Level,
    Limits,
    Missing,
    Offer,
    Talk,
    Verdict,
    cancelled_before_start,
    refuse_input,
    refuse_level,
)


class Scripted(msgspec.Struct, frozen=True, kw_only=True):
    """What a program does when nobody stops it.

    :param exit_status: unless ``signal`` says that a signal ends it.
    :param duration_ms: how long it claims to run; None: until it is cancelled or its time is over.
    :param survivors: descendants it leaves behind. Likewise ``remaining``: those that cannot be ended.
    :param answers: for one that is talked to: the lines it sends for each line it gets. It sends the lines of
        ``stdout`` first, and with ``answers`` it ends when nothing more is said to it, else at once.
    """

    exit_status: int = 0
    signal: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    duration_ms: int | None = 1
    survivors: int = 0
    remaining: int = 0
    answers: Callable[[bytes], Iterable[bytes]] | None = None


Program: TypeAlias = Scripted | Callable[[Command], Scripted]
"""Fixed behaviour, or a function of the command, which may also change files as the real program would."""


class ScriptedRunner:
    """Runs scripted programs; a :class:`~savant.process.port.ProcessRunner`.

    :param programs: by absolute path of the executable; any other path is a ``spawn-error``.
    :param level: the containment it claims to offer.

    ``commands`` lists what was run, in order. It really waits only for a program without a duration.
    """

    def __init__(self, programs: Mapping[str, Program], *, level: Level = "S0") -> None:
        self.commands: list[Command] = []
        self._programs = dict(programs)
        self._level: Level = level
        self._turn = threading.Lock()
        self._closed = False

    @property
    def level(self) -> Level:
        """What it was made with."""
        return self._level

    def offer(self) -> Offer:
        """Its level, with a layer of that name; it has no reason for not offering more."""
        missing = () if self._level == "S3" else (Missing("more", "It was made so.", ""),)
        return Offer(self._level, (_layer(self._level),), missing)

    def run(self, command: Command, cancellation: Cancellation | None = None) -> Ended:
        """Act as the program would; the contract is :meth:`ProcessRunner.run`'s."""
        return self._act(command, None, cancellation)

    def converse(self, command: Command, talk: Talk, cancellation: Cancellation | None = None) -> Ended:
        """Act as the program would; the contract is :meth:`ProcessRunner.converse`'s."""
        refuse_input(command)
        return self._act(command, talk, cancellation)

    def _act(self, command: Command, talk: Talk | None, cancellation: Cancellation | None) -> Ended:
        refuse_level(command.sandbox.level, self._level)
        with self._turn:
            if self._closed:
                raise UsageError("usage.runner-closed", "The process runner is closed.")
            if cancellation is not None and cancellation.is_set():
                return cancelled_before_start(command.sandbox.level)
            self.commands.append(command)
            program = self._programs.get(command.argv[0])
            if program is None:
                nothing = Scripted(duration_ms=0)
                if talk is not None:
                    talk(_Channel(nothing, command.limits))
                return self._ended(command, nothing, "spawn-error", "execute: No such file or directory")
            acted = program if isinstance(program, Scripted) else program(command)
            if talk is None:
                return self._judged(command, acted, cancellation)
            channel = _Channel(acted, command.limits)
            talk(channel)
            return self._talked(command, channel, cancellation)

    def _talked(self, command: Command, channel: _Channel, cancellation: Cancellation | None) -> Ended:
        acted = replace(channel.acted, stdout=bytes(channel.said))
        if channel.excess:
            return self._ended(command, acted, "output-limit", channel.excess)
        if acted.duration_ms is None and channel.has_waited:
            return self._ended(command, acted, "timed-out", f"still running after {command.limits.wall_ms} ms")
        if acted.duration_ms is None and cancellation is not None and cancellation.is_set():
            return self._ended(command, acted, "cancelled", "cancelled while it was running")
        if acted.duration_ms is None:
            acted = replace(acted, signal=15)
            return self._ended(command, acted, "signaled", "ended by us, because it went on when all was said")
        return self._judged(command, acted, cancellation)

    def _judged(self, command: Command, acted: Scripted, cancellation: Cancellation | None) -> Ended:
        limits = command.limits
        for output, limit, words in (
            (acted.stdout, limits.stdout_bytes, "output"),
            (acted.stderr, limits.stderr_bytes, "error"),
        ):
            if len(output) > limit:
                return self._ended(command, acted, "output-limit", f"wrote more than {limit} bytes on standard {words}")
        if acted.duration_ms is None and cancellation is not None and cancellation.wait(limits.wall_ms):
            return self._ended(command, acted, "cancelled", "cancelled while it was running")
        if acted.duration_ms is None or acted.duration_ms > limits.wall_ms:
            return self._ended(command, acted, "timed-out", f"still running after {limits.wall_ms} ms")
        return self._ended(command, acted, "exited" if acted.signal is None else "signaled", "")

    def _ended(self, command: Command, acted: Scripted, verdict: Verdict, detail: str) -> Ended:
        limits = command.limits
        by_us = verdict in {"timed-out", "cancelled"}
        lived = verdict != "spawn-error"
        level = command.sandbox.level
        return Ended(
            verdict=verdict,
            exit_status=acted.exit_status if lived and not by_us and acted.signal is None else None,
            signal=(15 if by_us else acted.signal) if lived else None,
            stdout=acted.stdout[: limits.stdout_bytes],
            stderr=acted.stderr[: limits.stderr_bytes],
            stdout_truncated=len(acted.stdout) > limits.stdout_bytes,
            stderr_truncated=len(acted.stderr) > limits.stderr_bytes,
            duration_ms=limits.wall_ms if acted.duration_ms is None else min(acted.duration_ms, limits.wall_ms),
            cpu_ms=0,
            max_rss_bytes=0,
            # The end of a namespace takes them along uncounted.
            survivors=0 if level == "S3" and not by_us else acted.survivors,
            remaining=acted.remaining,
            level=level,
            detail=detail,
            layers=(_layer(level),) if lived else (),
        )

    def close(self) -> None:
        """Refuse every later command; idempotent."""
        with self._turn:
            self._closed = True


class _Channel:
    """A conversation with a program that answers at once."""

    def __init__(self, acted: Scripted, limits: Limits) -> None:
        self.acted = acted
        self.said = bytearray()
        self.excess = ""
        self.has_waited = False
        self._limits = limits
        self._lines: deque[bytes] = deque()
        self._hear(acted.stdout.splitlines())

    @property
    def _goes_on(self) -> bool:
        is_there = self.acted.answers is not None or self.acted.duration_ms is None
        return is_there and not self.excess and not self.has_waited

    @property
    def is_open(self) -> bool:
        return bool(self._lines) or self._goes_on

    def send(self, line: bytes) -> bool:
        refuse_line_end(line)
        if not self._goes_on:
            return False
        if self.acted.answers is not None:
            self._hear(self.acted.answers(line))
        return True

    def receive(self, timeout_ms: int) -> bytes | None:
        if not self._lines:
            # Nobody is there who could still say something: the time of the program is over, or ours is.
            self.has_waited = self._goes_on and timeout_ms >= self._limits.wall_ms
            return None
        return self._lines.popleft()

    def _hear(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self.said += line + b"\n"
            longest = self._limits.line_bytes
            if len(self.said) > self._limits.stdout_bytes:
                self.excess = f"wrote more than {self._limits.stdout_bytes} bytes on standard output"
            elif longest is not None and len(line) > longest:
                self.excess = f"sent a line of more than {longest} bytes"
            else:
                self._lines.append(line)
                continue
            self._lines.clear()
            return


def _layer(level: Level) -> str:
    return f"scripted-{level.lower()}"
