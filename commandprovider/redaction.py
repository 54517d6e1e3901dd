r"""Taking secrets out of bytes: by value, wherever they stand, and by name, where a name says what follows. Pure.

A value is found as it is and in the spellings that programs give it: inside JSON (also twice, also with ``\/``),
percent-encoded, in hexadecimal, and in base64 at every offset of the text around it. A value that somebody hides on
purpose (reversed, encrypted, spelt in pieces) cannot be found by anybody who looks at bytes; what keeps it in is the
sandbox. Streams are redacted whole, so no value is cut by a chunk's edge.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from savant.contracts.errors import UsageError

MARK: Final = "redacted-by-savant"
"""The word in everything that stands for a secret; see :meth:`Redactor.is_marked`."""

MIN_SECRET_BYTES: Final = 8
"""A shorter value would be found in ordinary text."""

MIN_LINE_BYTES: Final = 16
"""A line of a private key is a secret of its own from this length on."""

MIN_CUT_BYTES: Final = 4
"""The shortest beginning of a secret that is taken off the end of a stream that was cut."""

_SHORTEST_MARKER: Final = b"[***]"
_ANONYMOUS: Final = f"[{MARK}]".encode()
_OPEN: Final = f"[{MARK}".encode()
_KEY_BLOCK: Final = b"-----BEGIN"
_SPACE: Final = 0x20
_UNRESERVED: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
"""What an address holds as it is (RFC 3986, section 2.3)."""

_ROUNDS: Final = 8
_WORDS: Final = (
    rb"(?:api[_-]?key|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?(?:key|access[_-]?key))?|token|password|passwd"
    rb"|private[_-]?key|credentials?)"
)
_KEPT: Final = rb"(?!\[" + MARK.encode() + rb")"

_BY_NAME: Final = (
    # NAME=value of an environment, quoted or not
    rb"((?<![A-Za-z0-9_])[A-Z0-9_]{0,64}(?i:" + _WORDS + rb")=[\"']?)" + _KEPT + rb"[^\s\"'&;]{8,}",
    # "name": "value" in JSON (also inside a JSON string) and in Python's spelling
    rb"((?i:[\"'][a-z0-9_.-]{0,64}(?:"
    + _WORDS
    + rb"|authorization|cookie)\\*[\"'])\s{0,8}:\s{0,8}\\*[\"'])"
    + _KEPT
    + rb"[^\"'\\\r\n]{8,}",
    # Name: value of a header
    rb"((?i:(?<![\w-])(?:(?:proxy-)?authorization|(?:x-|x-goog-)?api-key|(?:set-)?cookie))[ \t]{0,8}:[ \t]{0,8})"
    + _KEPT
    + rb"[^\s\"'][^\r\n\"']{7,}",
    rb"((?i:\bbearer)[ \t]{1,8})" + _KEPT + rb"[A-Za-z0-9._~+/=-]{8,}",
    # user:password@ and ?key=value of an address
    rb"(://[^\s/:@\"']{0,256}:)" + _KEPT + rb"[^\s/@\"']{1,1024}(?=@)",
    rb"((?i:[?&](?:key|" + _WORDS + rb"|access_token)=))" + _KEPT + rb"[^\s&#\"']{8,}",
)


@cache
def _named() -> tuple[re.Pattern[bytes], ...]:
    """The patterns, compiled when something is first looked at."""
    return tuple(re.compile(pattern) for pattern in _BY_NAME)


class Redactor:
    """Takes secrets out. Safe to use from any thread; its representation shows names only.

    :param values: label and secret; a label is what a reader sees instead (a variable's or a file's name).
    :raises UsageError: ``usage.short-secret`` for a value of fewer than :data:`MIN_SECRET_BYTES`.
    """

    __slots__ = ("_spellings", "labels")

    def __init__(self, values: Iterable[tuple[str, bytes]] = ()) -> None:
        found: dict[bytes, str] = {}
        labels = []
        for label, value in values:
            for part in _parts(label, value):
                for spelling in spellings(part):
                    found.setdefault(spelling, label)
            labels.append(label)
        self.labels: tuple[str, ...] = tuple(dict.fromkeys(labels))
        """What the secrets are called."""
        longest_first = sorted(found, key=lambda s: (-len(s), s))
        self._spellings = tuple(
            (spelling, found[spelling], _marker(found[spelling], found)) for spelling in longest_first
        )

    def __repr__(self) -> str:
        """The labels, never a value."""
        return f"Redactor({', '.join(self.labels)})"

    def find(self, data: bytes) -> str | None:
        """The label of a secret that the bytes hold in one of its spellings; None when they hold none."""
        return next((label for spelling, label, _ in self._spellings if spelling in data), None)

    def redact_values(self, data: bytes, *, truncated: bool = False) -> bytes:
        """The bytes without any secret; unchanged when they held none.

        :param truncated: the bytes were cut at a limit, so the beginning of a secret may stand at their end.
        """
        if truncated:
            data = self._without_cut(data)
        for _ in range(_ROUNDS):
            before = data
            for spelling, _label, marker in self._spellings:
                if spelling in data:
                    data = data.replace(spelling, marker)
            if data is before:
                return data
        return self._without(data)

    def redact(self, data: bytes, *, truncated: bool = False) -> bytes:
        """The bytes without any secret and without whatever follows a name that says it is one.

        For messages, standard error and recordings. Not for an answer: there a name is the author's own text.
        """
        if not data:
            return data
        data = self.redact_values(data, truncated=truncated)
        for pattern in _named():
            data = pattern.sub(rb"\1" + _ANONYMOUS, data)
        return self.redact_values(data)

    def redact_text(self, text: str) -> str:
        """As :meth:`redact`, for text; lone surrogates are replaced."""
        return self.redact(text.encode("utf-8", "replace")).decode("utf-8", "replace")

    @staticmethod
    def is_marked(data: bytes) -> bool:
        """Whether something was taken out of these bytes, by this or another redactor."""
        return _OPEN in data

    def _without_cut(self, data: bytes) -> bytes:
        longest, marker = 0, b""
        for spelling, _label, mark in self._spellings:
            for size in range(min(len(spelling) - 1, len(data)), max(longest, MIN_CUT_BYTES - 1), -1):
                if data.endswith(spelling[:size]):
                    longest, marker = size, mark
                    break
        return data[: len(data) - longest] + marker if longest else data

    def _without(self, data: bytes) -> bytes:
        """The bytes with every secret removed and nothing put in its place: for text that rebuilds one from markers."""
        while any(spelling in data for spelling, _, _ in self._spellings):
            for spelling, _, _ in self._spellings:
                data = data.replace(spelling, b"")
        return data


def spellings(value: bytes) -> tuple[bytes, ...]:
    """Every spelling of a secret that is looked for, the secret itself first."""
    return tuple(dict.fromkeys((value, *_json(value), *_percent(value), *_hex(value), *_base64(value))))


def _parts(label: str, value: bytes) -> Iterator[bytes]:
    """The secret without white space around it, and the long lines of a private key."""
    whole = value.strip()
    if len(whole) < MIN_SECRET_BYTES:
        raise UsageError(
            "usage.short-secret",
            f"The value of {label} has fewer than {MIN_SECRET_BYTES} bytes; it cannot be told from ordinary text.",
            fix=f"Correct the value of {label}.",
        )
    yield whole
    if whole.startswith(_KEY_BLOCK):
        lines = (line.strip() for line in whole.splitlines())
        yield from (line for line in lines if len(line) >= MIN_LINE_BYTES and not line.startswith(b"-----"))


def _marker(label: str, found: Iterable[bytes]) -> bytes:
    shown = "".join(c if c.isascii() and (c.isalnum() or c in "._/-~") else "_" for c in label)
    marker = f"[{MARK}:{shown}]".encode()
    return _SHORTEST_MARKER if any(spelling in marker for spelling in found) else marker


def _json(value: bytes) -> Iterator[bytes]:
    text = value.decode("utf-8", "surrogateescape")
    for ascii_only in (True, False):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        for spelled in (once, once.replace("/", "\\/"), json.dumps(once, ensure_ascii=ascii_only)[1:-1]):
            yield spelled.encode("utf-8", "surrogateescape")


def _percent(value: bytes) -> Iterator[bytes]:
    """As in an address: everything encoded, but ``/`` where a path may hold it; in forms a space is a plus."""
    for also, space in ((b"", b"%20"), (b"/", b"%20"), (b"", b"+")):
        for form in (b"%%%02X", b"%%%02x"):
            yield b"".join(
                space if byte == _SPACE else bytes((byte,)) if byte in _UNRESERVED + also else form % byte
                for byte in value
            )


def _hex(value: bytes) -> Iterator[bytes]:
    spelled = value.hex().encode("ascii")
    yield spelled
    yield spelled.upper()


def _base64(value: bytes) -> Iterator[bytes]:
    """What base64 makes of the value whatever stands before and behind it, in both alphabets."""
    for offset in range(3):
        raw = base64.b64encode(bytes(offset) + value)
        first, last = -(-offset * 8 // 6), (offset + len(value)) * 8 // 6
        inner = raw[first:last]
        yield inner
        yield inner.translate(_URL_ALPHABET)


_URL_ALPHABET: Final = bytes.maketrans(b"+/", b"-_")
