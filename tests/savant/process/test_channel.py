"""Conversations with real commands: nothing waits for ever, nothing is lost, and nothing of the command is left."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from savant.contracts.effects import Cancellation
from savant.contracts.errors import PortError, UsageError
from savant.process.port import Channel, Command, Limits, Sandbox
from savant.process.posix import SupervisedRunner

ROOMY = Limits(wall_ms=60_000, stdout_bytes=1 << 24, stderr_bytes=1 << 20, grace_ms=5000)
Make = Callable[..., Command]

ECHO = "import sys\nfor line in sys.stdin.buffer:\n    sys.stdout.buffer.write(line)\n    sys.stdout.buffer.flush()\n"
LOUD = """
import sys
for number in range(300):
    sys.stdout.write("x" * 10_000 + "\\n")
sys.stdout.flush()
sys.stdout.write(str(len(sys.stdin.readline())) + "\\n")
"""
CHILD = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""


def test_both_sides_may_talk_at_once(runner: SupervisedRunner, python: Make) -> None:
    """A command that writes megabytes before it reads gets a megabyte meanwhile; neither side waits for the other."""
    heard: list[int] = []

    def talk(channel: Channel) -> None:
        assert channel.send(b"y" * 1_000_000)
        while (line := channel.receive(60_000)) is not None:
            heard.append(len(line))
            if len(heard) == 300:
                heard.append(int(channel.receive(60_000) or 0))
                return

    ended = runner.converse(python(LOUD, limits=ROOMY), talk)
    assert ended.verdict == "exited"
    assert heard == [10_000] * 300 + [1_000_001]


def test_bytes_arrive_as_they_were_sent(runner: SupervisedRunner, python: Make) -> None:
    """Every byte but the end of a line goes both ways, whatever pieces it comes in; half a line is none."""
    data = bytes(byte for byte in range(256) if byte != 10) * 2000
    heard: list[bytes | None] = []

    def talk(channel: Channel) -> None:
        for line in (data, b"", b"\r"):
            channel.send(line)
            heard.append(channel.receive(60_000))

    ended = runner.converse(python(ECHO + "sys.stdout.write('half')", limits=ROOMY), talk)
    assert heard == [data, b"", b"\r"]
    assert ended.stdout == data + b"\n\n\r\nhalf"


def test_nothing_is_left_of_a_command_that_ignores_the_end(
    runner: SupervisedRunner, python: Make, cancel: Cancellation
) -> None:
    """It ignores the end of its input and SIGTERM, and left a child in another session: all are killed, and counted."""
    limits = structs.replace(ROOMY, grace_ms=100)
    ended = runner.converse(python(CHILD, limits=limits), lambda channel: _expect(channel.receive(60_000), b"ready"))
    assert (ended.verdict, ended.signal, ended.survivors, ended.remaining) == ("signaled", 9, 1, 0)
    assert "went on when all was said" in ended.detail

    def cancelling(channel: Channel) -> None:
        _expect(channel.receive(60_000), b"ready")
        cancel.set()
        while channel.is_open:  # whoever goes on talking is not waited for
            channel.receive(60_000)

    ended = runner.converse(python(CHILD, limits=limits), cancelling, cancel)
    assert (ended.verdict, ended.survivors, ended.remaining) == ("cancelled", 1, 0)


def test_a_last_word_is_heard_after_a_cancellation(
    runner: SupervisedRunner, python: Make, cancel: Cancellation
) -> None:
    """Between the cancellation and the end there is time to say so and to hear an answer."""
    heard: list[bytes | None] = []

    def talk(channel: Channel) -> None:
        cancel.set()
        channel.send(b"stop")
        heard.append(channel.receive(5000))

    ended = runner.converse(python(ECHO, limits=ROOMY), talk, cancel)
    assert heard == [b"stop"]
    assert ended.verdict in {"cancelled", "exited"}  # it may be quicker than we


def test_a_command_that_reads_nothing_does_not_hold_us(runner: SupervisedRunner, python: Make) -> None:
    """What is sent to a command whose time is over is not taken."""
    taken: list[bool] = []
    limits = structs.replace(ROOMY, wall_ms=300, grace_ms=0)
    ended = runner.converse(
        python("import time; time.sleep(600)", limits=limits),
        lambda channel: taken.append(channel.send(b"x" * 50_000_000)),
    )
    assert (ended.verdict, taken) == ("timed-out", [False])


def test_a_closed_output_is_the_end(runner: SupervisedRunner, python: Make) -> None:
    """A command that closes its output and goes on has said all; one that closes its input takes nothing."""
    heard: list[object] = []

    def talk(channel: Channel) -> None:
        heard.extend((channel.receive(60_000), channel.receive(60_000), channel.is_open, channel.send(b"x")))

    code = "import os, sys; print('x', flush=True); os.close(0); os.close(1); import time; time.sleep(600)"
    ended = runner.converse(python(code, limits=structs.replace(ROOMY, grace_ms=50)), talk)
    assert heard == [b"x", None, False, False]
    assert (ended.verdict, ended.signal) == ("signaled", 15)


def test_standard_error_is_a_file_as_ever(runner: SupervisedRunner, python: Make) -> None:
    """It is kept, and bounded as for every command."""
    code = "import sys; sys.stderr.write('e' * int(sys.argv[1])); sys.stderr.flush(); sys.stdin.read()"
    limits = structs.replace(ROOMY, stderr_bytes=100)
    ended = runner.converse(python(code, "100", limits=limits), lambda _: None)
    assert (ended.verdict, ended.stderr) == ("exited", b"e" * 100)

    def waiting(channel: Channel) -> None:
        while channel.is_open:
            channel.receive(60_000)

    ended = runner.converse(python(code, "101", limits=limits), waiting)
    assert (ended.verdict, ended.stderr_truncated) == ("output-limit", True)


def test_a_closed_runner_ends_a_conversation(runner: SupervisedRunner, python: Make) -> None:
    """Closing it from another thread ends the command, and whoever talks hears the end."""

    def talk(channel: Channel) -> None:
        channel.send(b"x")
        _expect(channel.receive(60_000), b"x")
        closing = threading.Thread(target=runner.close)
        closing.start()
        while channel.is_open:
            channel.receive(60_000)

    with pytest.raises(PortError) as caught:
        runner.converse(python(ECHO, limits=ROOMY), talk)
    assert caught.value.code == "port.supervisor-lost"
    with pytest.raises(UsageError):
        runner.converse(python(ECHO, limits=ROOMY), talk)


def test_no_descriptor_is_lost(runner: SupervisedRunner, python: Make) -> None:
    """After a conversation, and after one that failed, as many are open as before."""
    runner.converse(python(ECHO, limits=ROOMY), lambda _: None)
    before = len(list(Path("/proc/self/fd").iterdir()))
    runner.converse(python(ECHO, limits=ROOMY), lambda _: None)
    with pytest.raises(ZeroDivisionError):
        runner.converse(python(ECHO, limits=ROOMY), lambda _: [][1 // 0])
    runner.converse(python(ECHO, limits=ROOMY), lambda _: None)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("level", ["S1", "S2", "S3"])
def test_it_is_contained_like_any_other(runner: SupervisedRunner, level: str) -> None:
    """The level is had, and the sockets of the conversation are the only thing that reaches outside."""
    if runner.level < level:
        pytest.skip(f"{level} cannot be had here: {[missing.name for missing in runner.offer().missing]}")
    heard: list[bytes | None] = []

    def talk(channel: Channel) -> None:
        channel.send(b"hello")
        heard.append(channel.receive(60_000))

    command = Command(
        argv=("/usr/bin/env", "cat"),
        cwd=Path("/usr"),
        env=(("PATH", "/usr/bin:/bin"),),
        limits=ROOMY,
        sandbox=Sandbox(level=level, network=False),  # type: ignore[arg-type]
    )
    ended = runner.converse(command, talk)
    assert (ended.verdict, ended.exit_status, ended.level, heard) == ("exited", 0, level, [b"hello"])


def _expect(found: object, expected: object) -> None:
    assert found == expected
