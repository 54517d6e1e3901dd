"""What every process runner must do, as checks that run against any of them.

Each check gets a runner that was made for it and an empty folder, and closes the runner. A runner of real
processes needs ``/bin/sh``; the in-memory twin is made with :data:`SHELL`, which acts the same scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec.structs import replace

from savant.contracts.effects import Cancellation
from savant.contracts.errors import PortError, SavantError, UsageError, VerificationError
from savant.process.port import Channel, Command, Ended, Level, Limits, Offer, ProcessRunner, Sandbox, Talk
from savant.process.scripted import Program, Scripted

_ROOMY: Final = Limits(wall_ms=60_000, stdout_bytes=1000, stderr_bytes=1000)

_SCRIPTS: Final[Mapping[str, Callable[[Command], Scripted]]] = MappingProxyType(
    {
        "exit 0": lambda _: Scripted(),
        "exit 7": lambda _: Scripted(exit_status=7),
        "kill -9 $$": lambda _: Scripted(signal=9),
        "echo out; echo err >&2": lambda _: Scripted(stdout=b"out\n", stderr=b"err\n"),
        "exec cat": lambda command: Scripted(stdout=command.stdin),
        "exec cat >&2": lambda command: Scripted(stderr=command.stdin),
        "exec sleep 600": lambda _: Scripted(duration_ms=None),
        "echo $A-$HOME": lambda command: Scripted(stdout=f"{dict(command.env).get('A', '')}-\n".encode()),
        "sleep 600 & exit 0": lambda _: Scripted(survivors=1),
        "cat; exit 7": lambda _: Scripted(exit_status=7, answers=lambda line: (line,)),
        "echo hello; exit 3": lambda _: Scripted(exit_status=3, stdout=b"hello\n"),
        'echo "$@"': lambda command: Scripted(stdout=" ".join(command.argv[4:]).encode() + b"\n"),
    }
)

SHELL: Final[Mapping[str, Program]] = MappingProxyType({"/bin/sh": lambda command: _SCRIPTS[command.argv[2]](command)})
"""The programs that the in-memory twin needs to pass."""

Check: TypeAlias = Callable[[ProcessRunner, Path, Cancellation], None]
"""Raises ``VerificationError`` if the runner does not conform; the cancellation is fresh."""


def _shell(script: str, cwd: Path, *arguments: str, limits: Limits = _ROOMY, stdin: bytes = b"") -> Command:
    return Command(argv=("/bin/sh", "-c", script, *arguments), cwd=cwd, env=(("A", "b"),), limits=limits, stdin=stdin)


def _expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise VerificationError("unverified.conformance", f"{what} is {found!r} and should be {expected!r}.")


def _expect_end(ended: Ended, **expected: object) -> None:
    for name, value in expected.items():
        _expect(name, getattr(ended, name), value)


def _expect_error(code: str, call: Callable[[], object]) -> None:
    try:
        call()
    except SavantError as error:
        _expect("the code", error.code, code)
    else:
        raise VerificationError("unverified.conformance", f"{code} was expected and nothing was raised.")


def _exits(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    _expect_end(runner.run(_shell("exit 0", cwd)), verdict="exited", exit_status=0, signal=None, is_success=True)
    _expect_end(runner.run(_shell("exit 7", cwd)), verdict="exited", exit_status=7, signal=None, is_success=False)


def _signaled(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    _expect_end(runner.run(_shell("kill -9 $$", cwd)), verdict="signaled", exit_status=None, signal=9)


def _keeps_outputs_apart(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    ended = runner.run(_shell("echo out; echo err >&2", cwd))
    _expect_end(ended, stdout=b"out\n", stderr=b"err\n", stdout_truncated=False, stderr_truncated=False)


def _delivers_input(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    data = bytes(range(256)) * 3
    _expect_end(runner.run(_shell("exec cat", cwd, stdin=data)), verdict="exited", stdout=data)
    _expect_end(runner.run(_shell("exec cat", cwd)), verdict="exited", stdout=b"")


def _bounds_output(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    full = runner.run(_shell("exec cat", cwd, stdin=b"x" * 1000))
    _expect_end(full, verdict="exited", stdout=b"x" * 1000, stdout_truncated=False)
    over = runner.run(_shell("exec cat", cwd, stdin=b"x" * 1001))
    _expect_end(over, verdict="output-limit", stdout=b"x" * 1000, stdout_truncated=True, stderr_truncated=False)
    over = runner.run(_shell("exec cat >&2", cwd, stdin=b"x" * 1001))
    _expect_end(over, verdict="output-limit", stderr=b"x" * 1000, stdout_truncated=False, stderr_truncated=True)


def _gives_exactly_the_environment(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    _expect_end(runner.run(_shell("echo $A-$HOME", cwd)), stdout=b"b-\n")


def _passes_arguments_verbatim(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    ended = runner.run(_shell('echo "$@"', cwd, "sh", "a b", "$HOME", "*", "'"))
    _expect_end(ended, stdout=b"a b $HOME * '\n")


def _times_out(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    limits = Limits(wall_ms=50, stdout_bytes=0, stderr_bytes=0)
    ended = runner.run(_shell("exec sleep 600", cwd, limits=limits))
    _expect_end(ended, verdict="timed-out", exit_status=None, signal=15, is_quiescent=True, is_success=False)


def _tells_a_spawn_error(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    ended = runner.run(Command(argv=("/nonexistent/program",), cwd=cwd, env=(), limits=_ROOMY))
    _expect_end(ended, verdict="spawn-error", exit_status=None, signal=None, is_quiescent=True)
    _expect_end(runner.run(_shell("exit 0", cwd)), verdict="exited")


def _ends_survivors(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    ended = runner.run(_shell("sleep 600 & exit 0", cwd))
    # At S3 the end of the namespace takes them along uncounted.
    _expect_end(ended, verdict="exited", exit_status=0, survivors=0 if ended.level == "S3" else 1, remaining=0)
    _expect_end(runner.run(_shell("exit 0", cwd)), survivors=0)


def _does_not_start_what_was_cancelled(runner: ProcessRunner, cwd: Path, cancellation: Cancellation) -> None:
    _expect_end(runner.run(_shell("exit 0", cwd), cancellation), verdict="exited")
    cancellation.set()
    ended = runner.run(_shell("exit 0", cwd), cancellation)
    _expect_end(ended, verdict="cancelled", exit_status=None, signal=None, is_quiescent=True)


def _refuses_a_level_it_has_not(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    plain = _shell("exit 0", cwd)
    demanding = Command(argv=plain.argv, cwd=cwd, env=(), limits=_ROOMY, sandbox=Sandbox(level="S3", network=False))
    if runner.level != "S3":
        _expect_error("port.sandbox-level", lambda: runner.run(demanding))
    _expect_end(runner.run(plain), verdict="exited")


def _converses(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    heard: list[bytes | None] = []

    def talk(channel: Channel) -> None:
        for line in (b"one", b"", b"x" * 400):
            _expect("whether a line is taken", channel.send(line), True)
            heard.append(channel.receive(60_000))
        heard.append(channel.receive(0))
        _expect("whether it goes on", channel.is_open, True)
        _expect_error("usage.bad-line", lambda: channel.send(b"a\nb"))

    ended = runner.converse(_shell("cat; exit 7", cwd), talk)
    _expect("what was heard", heard, [b"one", b"", b"x" * 400, None])
    said = b"one\n\n" + b"x" * 400 + b"\n"
    _expect_end(ended, verdict="exited", exit_status=7, stdout=said, stdout_truncated=False, is_quiescent=True)
    _expect_error("usage.bad-command", lambda: runner.converse(_shell("exit 0", cwd, stdin=b"x"), talk))


def _tells_the_end_of_a_conversation(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    heard: list[object] = []

    def talk(channel: Channel) -> None:
        while channel.is_open:
            heard.append(channel.receive(60_000))
        heard.append(channel.send(b"too late"))

    _expect_end(runner.converse(_shell("echo hello; exit 3", cwd), talk), verdict="exited", exit_status=3)
    _expect("what was heard", [said for said in heard if said is not None], [b"hello", False])
    heard.clear()
    absent = Command(argv=("/nonexistent/program",), cwd=cwd, env=(), limits=_ROOMY)
    _expect_end(runner.converse(absent, talk), verdict="spawn-error", stdout=b"")
    _expect("what was heard", heard[-1:], [False])


def _bounds_a_conversation(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    limits = replace(_ROOMY, line_bytes=100)

    def talk_of(*lengths: int) -> Talk:
        def talk(channel: Channel) -> None:
            for length in lengths:
                channel.send(b"x" * length)
                channel.receive(60_000)

        return talk

    full = runner.converse(_shell("cat; exit 7", cwd, limits=limits), talk_of(*[99] * 10))
    _expect_end(full, verdict="exited", stdout=(b"x" * 99 + b"\n") * 10, stdout_truncated=False)
    over = runner.converse(_shell("cat; exit 7", cwd, limits=limits), talk_of(*[99] * 10, 0))
    _expect_end(over, verdict="output-limit", stdout=(b"x" * 99 + b"\n") * 10, stdout_truncated=True)
    long = runner.converse(_shell("cat; exit 7", cwd, limits=limits), talk_of(100, 101))
    _expect_end(long, verdict="output-limit", stdout_truncated=False, is_quiescent=True)


def _ends_what_goes_on_when_all_was_said(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    limits = replace(_ROOMY, grace_ms=50)
    ended = runner.converse(_shell("exec sleep 600", cwd, limits=limits), lambda _: None)
    _expect_end(ended, verdict="signaled", exit_status=None, signal=15, is_quiescent=True)


def _times_out_in_a_conversation(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    limits = Limits(wall_ms=50, stdout_bytes=0, stderr_bytes=0)
    ended = runner.converse(_shell("exec sleep 600", cwd, limits=limits), _hear_all)
    _expect_end(ended, verdict="timed-out", exit_status=None, signal=15, is_quiescent=True)


def _cancels_a_conversation(runner: ProcessRunner, cwd: Path, cancellation: Cancellation) -> None:
    limits = replace(_ROOMY, grace_ms=50)

    def talk(channel: Channel) -> None:
        cancellation.set()
        channel.receive(0)

    ended = runner.converse(_shell("exec sleep 600", cwd, limits=limits), talk, cancellation)
    _expect_end(ended, verdict="cancelled", exit_status=None, signal=15, is_quiescent=True)
    calls: list[Channel] = []
    ended = runner.converse(_shell("exit 0", cwd), calls.append, cancellation)
    _expect_end(ended, verdict="cancelled", exit_status=None, signal=None)
    _expect("the conversations that were begun", calls, [])


def _raises_what_the_talk_raises(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    def talk(_: Channel) -> None:
        raise PortError("port.disk", "No.")

    _expect_error("port.disk", lambda: runner.converse(_shell("exec sleep 600", cwd), talk))
    _expect_end(runner.run(_shell("exit 0", cwd)), verdict="exited", survivors=0)


def _hear_all(channel: Channel) -> None:
    while channel.is_open:
        channel.receive(60_000)


def _refuses_when_closed(runner: ProcessRunner, cwd: Path, _: Cancellation) -> None:
    _expect_end(runner.run(_shell("exit 0", cwd)), verdict="exited")
    runner.close()
    runner.close()
    _expect_error("usage.runner-closed", lambda: runner.run(_shell("exit 0", cwd)))


CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "exits": _exits,
        "signaled": _signaled,
        "keeps outputs apart": _keeps_outputs_apart,
        "delivers input": _delivers_input,
        "bounds output": _bounds_output,
        "gives exactly the environment": _gives_exactly_the_environment,
        "passes arguments verbatim": _passes_arguments_verbatim,
        "times out": _times_out,
        "tells a spawn error": _tells_a_spawn_error,
        "ends survivors": _ends_survivors,
        "does not start what was cancelled": _does_not_start_what_was_cancelled,
        "refuses a level it has not": _refuses_a_level_it_has_not,
        "converses": _converses,
        "tells the end of a conversation": _tells_the_end_of_a_conversation,
        "bounds a conversation": _bounds_a_conversation,
        "ends what goes on when all was said": _ends_what_goes_on_when_all_was_said,
        "times out in a conversation": _times_out_in_a_conversation,
        "cancels a conversation": _cancels_a_conversation,
        "raises what the talk raises": _raises_what_the_talk_raises,
        "refuses when closed": _refuses_when_closed,
    }
)
"""The checks, by what they say."""


class _Contained:
    """A runner whose commands get a sandbox where they do not demand one."""

    def __init__(self, runner: ProcessRunner, sandbox: Sandbox) -> None:
        self._runner = runner
        self._sandbox = sandbox

    @property
    def level(self) -> Level:
        return self._runner.level

    def offer(self) -> Offer:
        return self._runner.offer()

    def run(self, command: Command, cancellation: Cancellation | None = None) -> Ended:
        ended = self._runner.run(self._contained(command), cancellation)
        _expect("the level", ended.level, self._contained(command).sandbox.level)
        return ended

    def converse(self, command: Command, talk: Talk, cancellation: Cancellation | None = None) -> Ended:
        ended = self._runner.converse(self._contained(command), talk, cancellation)
        _expect("the level", ended.level, self._contained(command).sandbox.level)
        return ended

    def _contained(self, command: Command) -> Command:
        return replace(command, sandbox=self._sandbox) if command.sandbox == Sandbox() else command

    def close(self) -> None:
        self._runner.close()


def verify(
    name: str, runner: ProcessRunner, cwd: Path, cancellation: Cancellation, sandbox: Sandbox | None = None
) -> None:
    """Run one check against a fresh runner, and close it.

    :param sandbox: what its commands demand; it must let them write to ``cwd``.
    :raises VerificationError: ``unverified.conformance`` if the runner does not conform.
    :raises UsageError: ``usage.unknown-check``.
    :raises PortError: if the runner itself fails.
    """
    check = CHECKS.get(name)
    if check is None:
        raise UsageError("usage.unknown-check", f"There is no check {name!r}.")
    try:
        check(runner if sandbox is None else _Contained(runner, sandbox), cwd, cancellation)
    except PortError as error:
        raise PortError(error.code, f"While checking '{name}': {error.message}", retryable=error.retryable) from error
    finally:
        runner.close()
