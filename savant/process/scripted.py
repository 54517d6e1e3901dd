"""The in-memory twin of the process runner: programs are Python values, the rules of the port are the same.

For tests of whoever runs commands. It keeps to :class:`~savant.process.port.ProcessRunner` and passes
:mod:`savant.process.conformance`: limits, cancellation and refusals act as they do on real processes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from savant.contracts.effects import Cancellation
from savant.contracts.errors import UsageError
from savant.process.port import Command, Ended, Level, Missing, Offer, Verdict, cancelled_before_start, refuse_level


class Scripted(msgspec.Struct, frozen=True, kw_only=True):
    """What a program does when nobody stops it.

    :param exit_status: unless ``signal`` says that a signal ends it.
    :param duration_ms: how long it claims to run; None: until it is cancelled or its time is over.
    :param survivors: descendants it leaves behind. Likewise ``remaining``: those that cannot be ended.
    """

    exit_status: int = 0
    signal: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    duration_ms: int | None = 1
    survivors: int = 0
    remaining: int = 0


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
        refuse_level(command.sandbox.level, self._level)
        with self._turn:
            if self._closed:
                raise UsageError("usage.runner-closed", "The process runner is closed.")
            if cancellation is not None and cancellation.is_set():
                return cancelled_before_start(command.sandbox.level)
            self.commands.append(command)
            program = self._programs.get(command.argv[0])
            if program is None:
                return self._ended(
                    command, Scripted(duration_ms=0), "spawn-error", "execute: No such file or directory"
                )
            acted = program if isinstance(program, Scripted) else program(command)
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


def _layer(level: Level) -> str:
    return f"scripted-{level.lower()}"
