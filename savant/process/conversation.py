"""A conversation as a cassette keeps it: the lines of both sides, in the order in which the host gave and took them.

It is kept as bytes: a first line that says what follows, then ``>`` and a line that the host sent, or ``<`` and one
that it received, and at last ``.`` if the command ended before the host had said all, or ``+`` if it went on. Private
paths stand as ``{cwd}`` and ``{home}``; where somebody wrote these words, a ``!`` is added, and taken away again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from savant.contracts.errors import PortError
from savant.process.channel import refuse_line_end
from savant.process.port import Channel, Talk

HEAD: Final = b"savant conversation 1"
GIVEN: Final = b">"
TAKEN: Final = b"<"
_ENDED: Final = b"."
_WENT_ON: Final = b"+"
_MAX_WAITS: Final = 1000
"""How often somebody may wait in vain for what the cassette does not hold."""

_WORD: Final = re.compile(rb"\{(cwd|home)(!*)\}")

Spelling: TypeAlias = Callable[[bytes], bytes]


def escaped(data: bytes) -> bytes:
    """The bytes with the words that stand for private paths made into others."""
    return _WORD.sub(rb"{\1\2!}", data)


def unescaped(data: bytes, *, cwd: bytes, home: bytes) -> bytes:
    """The bytes as they were, with the private paths of this call."""
    paths = {b"cwd": cwd, b"home": home}
    return _WORD.sub(
        lambda found: b"{%b%b}" % (found[1], found[2][1:]) if found[2] else paths[found[1]],
        data,
    )


class Listener:
    """Listens to a conversation while it is held."""

    def __init__(self) -> None:
        self._lines: list[tuple[bytes, bytes]] = []
        self._went_on = False

    def listening(self, talk: Talk) -> Talk:
        """The same conversation, listened to."""

        def heard(channel: Channel) -> None:
            talk(_Heard(channel, self._lines))
            self._went_on = channel.is_open

        return heard

    def transcript(self, given: Spelling, taken: Spelling) -> bytes:
        """What was said, each side's lines as they may be kept."""
        spelt = [mark + (given if mark == GIVEN else taken)(line) for mark, line in self._lines]
        return b"\n".join((HEAD, *spelt, _WENT_ON if self._went_on else _ENDED))


class _Heard:
    """A channel whose lines are written down."""

    def __init__(self, channel: Channel, lines: list[tuple[bytes, bytes]]) -> None:
        self._channel = channel
        self._lines = lines

    @property
    def is_open(self) -> bool:
        return self._channel.is_open

    def send(self, line: bytes) -> bool:
        is_taken = self._channel.send(line)
        if is_taken:
            self._lines.append((GIVEN, line))
        return is_taken

    def receive(self, timeout_ms: int) -> bytes | None:
        line = self._channel.receive(timeout_ms)
        if line is not None:
            self._lines.append((TAKEN, line))
        return line


class Replay:
    """A channel that answers from a transcript.

    :param given: how the host's lines are kept, to compare them.
    :param taken: gives a line of the command back as it was.
    :param missed: makes the error for a line that was not recorded, from a word about it.
    """

    def __init__(self, transcript: bytes, given: Spelling, taken: Spelling, missed: Callable[[str], PortError]) -> None:
        head, *lines = transcript.split(b"\n")
        self.is_one = head == HEAD and bool(lines)
        """Whether the bytes are a transcript."""
        self._went_on = lines[-1:] == [_WENT_ON]
        self._lines: Sequence[bytes] = lines[:-1]
        self._given, self._taken, self._missed = given, taken, missed
        self._at = 0
        self._waits = 0

    @property
    def is_open(self) -> bool:
        """Whether something may still come."""
        return self._at < len(self._lines) or self._went_on

    @property
    def left(self) -> int:
        """How many lines were not asked for."""
        return len(self._lines) - self._at

    def send(self, line: bytes) -> bool:
        """Compare a line with the recorded one; False where the command had ended."""
        refuse_line_end(line)
        if not self.is_open:
            return False
        if not self.left or self._lines[self._at] != GIVEN + self._given(line):
            raise self._missed(f"line {self._at + 1} of the conversation is another one")
        self._at += 1
        return True

    def receive(self, timeout_ms: int) -> bytes | None:
        """The next recorded line of the command; no time passes."""
        if not self.left:
            self._waits += timeout_ms > 0
            if self._waits > _MAX_WAITS:
                raise self._missed("the conversation goes on where the recorded one ended")
            return None
        mark, line = self._lines[self._at][:1], self._lines[self._at][1:]
        if mark != TAKEN:
            raise self._missed(f"line {self._at + 1} of the conversation was the host's and is waited for")
        self._at += 1
        return self._taken(line)
