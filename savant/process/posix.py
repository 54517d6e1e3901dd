"""The process runner for POSIX: the client of one supervisor process (:mod:`savant.process.supervisor`).

The supervisor is started with the first command and serves until the runner is closed or this process dies, however
it dies. Standard input, output and error are regular files that have no name any more: a program may be fast, slow or
keep them open, nothing is lost and nobody waits, and there is nothing to clean up. A command that is talked to has two
pairs of sockets instead of the first two; everything else is the same for it.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

import msgspec
from msgspec.structs import asdict

from savant.contracts.effects import Cancellation
from savant.contracts.errors import PortError, UsageError
from savant.process.channel import POLL_MS, SocketChannel
from savant.process.plan import Plan
from savant.process.port import (
    Command,
    Ended,
    Level,
    Limits,
    Missing,
    Offer,
    Talk,
    cancelled_before_start,
    refuse_input,
    refuse_level,
)
from savant.process.streams import Streams
from savant.process.supervisor import LAST_WORDS_S, SWEEP_S, receive_frame, send_frame

START: Final = (
    "import os, sys; sys.path.append(sys.argv[1]); from supervisor import start; "
    "os._exit(start(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))"
)
"""Imports the supervisor instead of running its file, because only an import takes the compiled code from the cache."""
_START_S: Final = 30.0

_TRIED: Final[dict[tuple[str, Level], Ended | Missing]] = {}
"""What came of trying a level, for this process: the system does not change under it."""


class SupervisedRunner:
    """Runs commands through a supervisor; a :class:`~savant.process.port.ProcessRunner`.

    :param scratch: a folder of ours for the streams, made if missing. It needs room for the output limits.
    :param containment: ``group`` does without subreaper and pidfd, as on a system that has none.
    :param at_most: it offers no level above this one.

    Thread-safe. After a fork the child starts a supervisor of its own. A context manager that closes at its end.
    """

    def __init__(self, scratch: Path, *, containment: Literal["auto", "group"] = "auto", at_most: Level = "S3") -> None:
        self._scratch = scratch
        self._at_most: Level = at_most
        self._containment = containment
        self._turn = threading.Lock()
        self._session: _Session | None = None
        self._closed = False

    @property
    def level(self) -> Level:
        """The level of the offer."""
        return self.offer().level

    def offer(self) -> Offer:
        """What this system can give; each level is tried once for the process, the strongest first.

        :raises PortError: ``port.spawn``, ``port.disk``.
        """
        from savant.process.offering import find_offer

        return find_offer(self._at_most, self._tried)

    def _tried(self, level: Level) -> Ended | Missing:
        """What came of a command at this level; tried once for the process."""
        known = _TRIED.get((self._containment, level))
        if known is None:
            from savant.process.host import look, look_around
            from savant.process.offering import try_level

            known = _TRIED[self._containment, level] = try_level(level, self._run_in_turn, look(), look_around)
        return known

    def run(self, command: Command, cancellation: Cancellation | None = None) -> Ended:
        """Run the command until nothing of it is left; the contract is :meth:`ProcessRunner.run`'s."""
        self._refuse_level(command.sandbox.level)
        return self._run_in_turn(command, cancellation)

    def converse(self, command: Command, talk: Talk, cancellation: Cancellation | None = None) -> Ended:
        """Run the command and talk to it; the contract is :meth:`ProcessRunner.converse`'s."""
        refuse_input(command)
        self._refuse_level(command.sandbox.level)
        return self._run_in_turn(command, cancellation, talk)

    def _refuse_level(self, level: Level) -> None:
        if level != "S0":
            refuse_level(level, self._at_most)
            if isinstance(missing := self._tried(level), Missing):
                raise PortError(
                    "port.sandbox-level",
                    f"The command demands sandbox level {level}. {missing.why}",
                    untouched="The command was not started.",
                    fix=missing.fix,
                )

    def _run_in_turn(
        self, command: Command, cancellation: Cancellation | None = None, talk: Talk | None = None
    ) -> Ended:
        while not self._turn.acquire(timeout=-1 if cancellation is None else POLL_MS / 1000):
            if cancellation is not None and cancellation.is_set():
                return cancelled_before_start(command.sandbox.level)
        try:
            if self._closed:
                raise UsageError("usage.runner-closed", "The process runner is closed.")
            if cancellation is not None and cancellation.is_set():
                return cancelled_before_start(command.sandbox.level)
            plan = _planned(command)
            stdin = command.stdin if talk is None else None
            with Streams(self._scratch, stdin, plan.blobs, has_report=plan.has_report) as streams:
                return self._run(command, plan, streams, cancellation, talk)
        finally:
            self._turn.release()

    def _run(
        self,
        command: Command,
        plan: Plan,
        streams: Streams,
        cancellation: Cancellation | None,
        talk: Talk | None,
    ) -> Ended:
        session = self._started()
        if self._closed:
            # Closed while we started, and close() may not have seen the new session.
            self._drop(session)
            raise UsageError("usage.runner-closed", "The process runner is closed.")
        said = None
        try:
            if session.order(plan, command.limits, streams.theirs):
                if talk is None:
                    session.watch(cancellation)
                else:
                    said = _converse(session, command.limits, streams, talk, cancellation)
            frame = session.ended()
        except BaseException:
            # Interrupted here: the end of the session ends the command too, and is waited for.
            self._drop(session)
            raise
        if frame is None:
            self._drop(session)
            raise PortError(
                "port.supervisor-lost",
                "The supervisor ended while a command was running; the command was ended with it.",
                retryable=not self._closed,
                fix="Run it again.",
            )
        stdout, stdout_truncated = said or streams.output(1, command.limits.stdout_bytes)
        stderr, stderr_truncated = streams.output(2, command.limits.stderr_bytes)
        ended = Ended(
            stdout=stdout,
            stdout_truncated=stdout_truncated,
            stderr=stderr,
            stderr_truncated=stderr_truncated,
            level=command.sandbox.level,
            layers=tuple(sorted(frame.pop("layers"))),
            **{name: value for name, value in frame.items() if name != "op"},
        )
        if not plan.has_report:
            return ended
        from savant.process.sandbox import tell

        return tell(ended, streams.report())

    def warm(self) -> None:
        """Begin to start the supervisor, so that it is up when the first command comes.

        Cheap: it does not wait. A runner that was only warmed is closed like any other.
        """
        with self._turn:
            if not self._closed:
                self._spawned()

    def _started(self) -> _Session:
        session = self._spawned()
        try:
            session.await_ready()
        except BaseException:
            self._drop(session)
            raise
        return session

    def _spawned(self) -> _Session:
        if self._session is not None and self._session.owner != os.getpid():
            self._session.forget()
            self._session = None
        if self._session is None:
            self._session = _Session.start(self._containment)
        return self._session

    def _drop(self, session: _Session) -> None:
        session.close()
        if self._session is session:
            self._session = None

    def close(self) -> None:
        """End whatever runs, and the supervisor; idempotent."""
        self._closed = True
        session = self._session
        if session is not None and session.owner == os.getpid():
            session.hang_up()
        with self._turn:
            session = self._session
            if session is not None and session.owner == os.getpid():
                self._drop(session)

    def __enter__(self) -> Self:
        """The runner itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


def _planned(command: Command) -> Plan:
    """The plan for a command; whoever runs at S0 only does not load what the other levels need."""
    if command.sandbox.level == "S0":
        return Plan(argv=command.argv, env=command.env, cwd=str(command.cwd))
    from savant.process.host import look
    from savant.process.sandbox import plan

    return plan(command, look())


def _converse(
    session: _Session, limits: Limits, streams: Streams, talk: Talk, cancellation: Cancellation | None
) -> tuple[bytes, bool]:
    """Talk to the command that was ordered until it has ended; what it sent, and whether that was cut."""
    sending, receiving = streams.take_sockets()
    with sending, receiving:
        channel = SocketChannel(sending, receiving, session.sock, limits, cancellation, session.tell)
        talk(channel)
        channel.finish()
        return channel.said


class _Session(msgspec.Struct):
    """One supervisor process and the socket to it."""

    owner: int
    sock: socket.socket
    process: subprocess.Popen[bytes]
    ready: bool = False

    @classmethod
    def start(cls, containment: str) -> _Session:
        """Start a supervisor; it is ready when :meth:`await_ready` returns.

        :raises PortError: ``port.spawn``.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            arguments = [str(Path(__file__).parent), str(theirs.fileno()), str(os.getpid()), containment]
            try:
                process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-X", "utf8", "-c", START, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={},
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise PortError("port.spawn", f"The process supervisor cannot be started: {error}.") from error
        return cls(os.getpid(), ours, process)

    def await_ready(self) -> None:
        """Wait until the supervisor takes commands, once.

        :raises PortError: ``port.spawn``.
        """
        if self.ready:
            return
        try:
            self.ready = self._wait(int(_START_S * 1000)) and receive_frame(self.sock)[0] is not None
        except ConnectionError:
            self.ready = False
        if not self.ready:
            raise PortError("port.spawn", "The process supervisor did not come up.", retryable=True)

    def order(self, plan: Plan, limits: Limits, streams: tuple[int, ...]) -> bool:
        """Have the supervisor start a command; False if it is gone."""
        order = {
            "op": "run",
            "argv": plan.argv,
            "cwd": plan.cwd,
            "env": plan.env,
            "limits": asdict(limits),
            "layers": plan.layers,
            "contain": plan.contain,
            "wrappers": plan.wrappers,
        }
        try:
            send_frame(self.sock, order, streams)
        except ConnectionError:
            return False
        return True

    def watch(self, cancellation: Cancellation | None) -> None:
        """Wait for the end of the command, and pass a cancellation on."""
        while cancellation is not None and not self._wait(POLL_MS):
            if cancellation.is_set():
                self.tell({"op": "cancel"})
                return

    def tell(self, frame: dict[str, Any]) -> None:
        """Tell the supervisor something about the running command, if it is still there."""
        with suppress(ConnectionError):
            send_frame(self.sock, frame)

    def ended(self) -> dict[str, Any] | None:
        """How the command ended, as the supervisor says; None if it is gone."""
        return receive_frame(self.sock)[0]

    def _wait(self, timeout_ms: int) -> bool:
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(timeout_ms))

    def hang_up(self) -> None:
        """Tell the supervisor, and whoever waits for it, that this is the end."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up and wait until the supervisor has ended everything."""
        self.hang_up()
        self.sock.close()
        try:
            _await_end(self.process, LAST_WORDS_S + 2 * SWEEP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def forget(self) -> None:
        """Let go of a session that belongs to the process we were forked from."""
        self.sock.close()
        self.process.returncode = 0


def _await_end(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Wait for a process of ours; through its descriptor where there are such, because ``wait`` naps between looks.

    :raises subprocess.TimeoutExpired: when it did not end in time.
    """
    try:
        fd = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        process.wait(timeout_s)
        return
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.poll(timeout_s * 1000)
    finally:
        os.close(fd)
    process.wait(0)
