"""Conversations in a cassette: what both sides said is answered again, line by line, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from savant.contracts.effects import Cancellation
from savant.contracts.errors import PortError
from savant.process.cassette import Player, Recorder
from savant.process.cassettefolder import open_cassette
from savant.process.conversation import escaped, unescaped
from savant.process.port import Channel, Command, Ended, Limits, Talk
from savant.process.posix import SupervisedRunner

SECRET = b"hunter2-hunter2"
ROOMY = Limits(wall_ms=30_000, stdout_bytes=1 << 16, stderr_bytes=1 << 16, grace_ms=200)

AGENT = r"""
import os, sys
sys.stdout.write(os.getcwd() + " {cwd} {cwd!}\n")
sys.stdout.flush()
for line in sys.stdin:
    word = line.strip()
    if word == "quit":
        break
    with open("log", "a") as file:
        file.write(word + "\n")
    sys.stdout.write("heard " + word + "\n")
    sys.stdout.flush()
"""


class Mask:
    """Takes one secret out."""

    def redact(self, data: bytes, *, truncated: bool = False) -> bytes:
        return data.replace(SECRET, b"[redacted]")

    redact_values = redact


class Desk:
    """A place to record and to play, with fresh folders for each call."""

    def __init__(self, root: Path, inner: SupervisedRunner) -> None:
        self.root, self.inner, self.made = root, inner, 0
        (root / "agent.py").write_text(AGENT)

    def command(self) -> Command:
        self.made += 1
        cwd, home = self.root / f"cwd-{self.made}", self.root / f"home-{self.made}"
        cwd.mkdir()
        home.mkdir()
        argv = ("/usr/bin/env", "python3", "-IB", str(self.root / "agent.py"))
        env = (("HOME", str(home)), ("PATH", "/usr/local/bin:/usr/bin:/bin"))
        return Command(argv=argv, cwd=cwd, env=env, limits=ROOMY)

    def record(self, *lines: bytes) -> tuple[Ended, list[bytes | None], Command]:
        """A cassette of one conversation that says these lines."""
        recorder = Recorder(self.inner, self.root / "cassette")
        recorder.describe({}, personal=(), attachments={}, redaction=Mask())
        command, heard = self.command(), []
        ended = recorder.converse(command, saying(lines, heard))
        assert recorder.finish()
        return ended, heard, command

    def player(self) -> Player:
        made = Player(open_cassette(self.root / "cassette"), Mask())
        made.describe({})
        return made


def saying(lines: Sequence[bytes], heard: list[bytes | None]) -> Talk:
    """Hear a greeting, then say each line and hear the answer."""

    def talk(channel: Channel) -> None:
        heard.append(channel.receive(30_000))
        for line in lines:
            channel.send(line)
            heard.append(channel.receive(30_000))

    return talk


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedRunner]:
    with SupervisedRunner(tmp_path_factory.mktemp("scratch")) as made:
        yield made


@pytest.fixture
def desk(tmp_path: Path, runner: SupervisedRunner) -> Desk:
    return Desk(tmp_path, runner)


def test_a_conversation_is_played_without_a_process(desk: Desk) -> None:
    """The same lines come, with the paths of the new call, and the changes are made; no machine's path is kept."""
    ended, heard, command = desk.record(b"one", b"two {home}")
    assert heard == [b"%b {cwd} {cwd!}" % bytes(command.cwd), b"heard one", b"heard two {home}"]
    kept = b"".join(path.read_bytes() for path in (desk.root / "cassette").rglob("*") if path.is_file())
    assert bytes(command.cwd) not in kept
    again, replayed = desk.command(), list[bytes | None]()
    player = desk.player()
    played = player.converse(again, saying((b"one", b"two {home}"), replayed))
    assert replayed == [b"%b {cwd} {cwd!}" % bytes(again.cwd), b"heard one", b"heard two {home}"]
    assert (played.verdict, played.exit_status, player.left) == ("exited", 0, 0)
    assert played.stdout == b"".join(line + b"\n" for line in replayed if line is not None)
    assert (again.cwd / "log").read_text() == "one\ntwo {home}\n"
    assert ended.stdout.replace(bytes(command.cwd), bytes(again.cwd)) == played.stdout


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((b"one", b"three"), "line 4 of the conversation is another one"),
        ((b"one",), "more was said in it"),
        ((b"one", b"two", b"three"), "line 6 of the conversation is another one"),
    ],
)
def test_another_conversation_is_a_miss(desk: Desk, lines: tuple[bytes, ...], words: str) -> None:
    """Other lines, fewer and more are no replay, and the first miss stays."""
    desk.record(b"one", b"two")
    player = desk.player()
    with pytest.raises(PortError) as caught:
        player.converse(desk.command(), saying(lines, []))
    assert caught.value.code == "port.cassette-miss"
    assert words in caught.value.message
    assert player.missed is caught.value


def test_what_is_waited_for_in_vain_is_a_miss(desk: Desk) -> None:
    """Whoever waits where the host spoke, or where nothing more was said, waits for something that was not recorded."""
    desk.record(b"one")

    def waiting(channel: Channel) -> None:
        channel.receive(1000)
        channel.receive(1000)

    with pytest.raises(PortError, match="was the host's"):
        desk.player().converse(desk.command(), waiting)

    def endless(channel: Channel) -> None:
        saying((b"one",), [])(channel)
        while channel.is_open:
            channel.receive(1000)

    with pytest.raises(PortError, match="goes on"):
        desk.player().converse(desk.command(), endless)


def test_the_end_of_the_command_is_played(desk: Desk) -> None:
    """A command that had ended takes nothing more and says nothing more."""
    seen: list[object] = []

    def talk(channel: Channel) -> None:
        channel.receive(30_000)
        channel.send(b"quit")
        while channel.is_open:
            channel.receive(30_000)
        seen.append((channel.receive(0), channel.send(b"late")))

    recorder = Recorder(desk.inner, desk.root / "cassette")
    recorder.describe({}, personal=(), attachments={}, redaction=Mask())
    recorder.converse(desk.command(), talk)
    assert recorder.finish()
    desk.player().converse(desk.command(), talk)
    assert seen == [(None, False)] * 2


def test_a_call_without_conversation_is_another_call(desk: Desk) -> None:
    """One that was talked to is not one that had an input, and the other way round."""
    desk.record(b"one")
    with pytest.raises(PortError) as caught:
        desk.player().run(desk.command())
    assert "stdin" in caught.value.message
    recorder = Recorder(desk.inner, desk.root / "plain")
    recorder.describe({}, personal=(), attachments={}, redaction=Mask())
    recorder.run(desk.command())
    assert recorder.finish()
    player = Player(open_cassette(desk.root / "plain"), Mask())
    with pytest.raises(PortError, match="nothing was said"):
        player.converse(desk.command(), saying((), []))


def test_no_secret_of_either_side_is_kept(desk: Desk) -> None:
    """What the host says and what it hears is kept without credentials, and is still the same conversation."""
    desk.record(b"say " + SECRET)
    kept = b"".join(path.read_bytes() for path in (desk.root / "cassette").rglob("*") if path.is_file())
    assert SECRET not in kept
    assert b"[redacted]" in kept
    player, heard = desk.player(), list[bytes | None]()
    player.converse(desk.command(), saying((b"say " + SECRET,), heard))
    assert heard[1] == b"heard say [redacted]"
    assert set(player.redacted[1]) == {"files", "stdin", "stdout"}


def test_commands_before_the_description_are_talked_to(desk: Desk, cancel: Cancellation) -> None:
    """A recorder that was told nothing yet only passes on."""
    heard: list[bytes | None] = []
    recorder = Recorder(desk.inner, desk.root / "cassette")
    assert recorder.converse(desk.command(), saying((b"one",), heard), cancel).verdict == "exited"
    assert heard[1:] == [b"heard one"]
    assert not (desk.root / "cassette").exists()


@given(st.lists(st.sampled_from([b"{cwd}", b"{home}", b"{cwd!}", b"{home!!}", b"{", b"!", b"}", b"x"])).map(b"".join))
def test_escaping_is_undone(data: bytes) -> None:
    """What looks like a private path and is none comes back as it was; a path takes its word's place."""
    assert unescaped(escaped(data), cwd=b"/c", home=b"/h") == data
    assert unescaped(b"{cwd}/" + escaped(data), cwd=b"/c", home=b"/h") == b"/c/" + data
