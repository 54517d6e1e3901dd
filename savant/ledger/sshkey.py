"""OpenSSH public keys: the wire blob, the one-line text and the ``SHA256:`` fingerprint that names a key everywhere.

Two types are known: ``ssh-ed25519`` and ``sk-ssh-ed25519@openssh.com`` (a security key; RFC 4253 section 6.6 and
OpenSSH ``PROTOCOL.u2f``). Every text has one spelling: re-encoding the parsed key gives the same characters.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from typing import Final

import msgspec

from savant.contracts.envelope import from_base64, to_base64
from savant.contracts.errors import RefusedInput
from savant.ledger.edwards import POINT_BYTES, is_plain_point

ED25519: Final = b"ssh-ed25519"
SK_ED25519: Final = b"sk-ssh-ed25519@openssh.com"
_MAX_APPLICATION_BYTES: Final = 1024


class PublicKey(msgspec.Struct, frozen=True):
    """A public key as SSH knows it. ``application`` is set for security keys only (usually ``ssh:``)."""

    raw: bytes
    application: bytes | None = None

    @property
    def algorithm(self) -> bytes:
        """The SSH name of the key type."""
        return ED25519 if self.application is None else SK_ED25519

    @property
    def blob(self) -> bytes:
        """The SSH wire encoding."""
        tail = b"" if self.application is None else wire_string(self.application)
        return wire_string(self.algorithm) + wire_string(self.raw) + tail

    @property
    def keyid(self) -> str:
        """The fingerprint that ``ssh-keygen -l`` prints."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).rstrip(b"=").decode("ascii")

    @property
    def line(self) -> str:
        """``<type> <base64>``, without a comment."""
        return f"{self.algorithm.decode('ascii')} {to_base64(self.blob)}"


def fingerprint(raw: bytes) -> str:
    """The key id of a plain Ed25519 key of 32 raw bytes."""
    return PublicKey(raw).keyid


def wire_string(data: bytes) -> bytes:
    """An SSH ``string``: u32 length, then the bytes."""
    return struct.pack(">I", len(data)) + data


class WireReader:
    """Reads SSH wire data from the front; every short read is refused.

    :raises RefusedInput: with the code given, from every method.
    """

    def __init__(self, data: bytes, code: str) -> None:
        self._data = data
        self._at = 0
        self._code = code

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        end = self._at + count
        if end > len(self._data):
            raise RefusedInput(self._code, "The SSH data ends too early.")
        part = self._data[self._at : end]
        self._at = end
        return part

    def number(self) -> int:
        """The next u32."""
        (value,) = struct.unpack(">I", self.take(4))
        return int(value)

    def string(self) -> bytes:
        """The next ``string``."""
        return self.take(self.number())

    def end(self) -> None:
        """Refuse anything that is left."""
        if self._at != len(self._data):
            raise RefusedInput(self._code, "The SSH data goes on after its end.")


def parse_public_blob(blob: bytes) -> PublicKey:
    """The key of an SSH wire blob.

    :raises RefusedInput: ``refused.ssh-key`` for another type, a wrong size, an unsound point or left-over bytes.
    """
    reader = WireReader(blob, "refused.ssh-key")
    algorithm = reader.string()
    if algorithm not in (ED25519, SK_ED25519):
        raise RefusedInput(
            "refused.ssh-key",
            "Only ed25519 and ed25519-sk keys are accepted.",
            fix="Make one with: ssh-keygen -t ed25519",
        )
    raw = reader.string()
    application = reader.string() if algorithm == SK_ED25519 else None
    reader.end()
    if not is_plain_point(raw) or len(application or b"") > _MAX_APPLICATION_BYTES:
        raise RefusedInput("refused.ssh-key", f"Not a sound Ed25519 key of {POINT_BYTES} bytes.")
    return PublicKey(raw, application)


def parse_public_line(text: str) -> PublicKey:
    """The key of ``<type> <base64>`` with an optional comment, as in an ``.pub`` file.

    :raises RefusedInput: ``refused.ssh-key``, ``refused.base64``.
    """
    words = text.strip().split(" ", 2)
    if len(words) < 2:
        raise RefusedInput("refused.ssh-key", "A public key is written as: type base64 [comment].")
    key = parse_public_blob(from_base64(words[1]))
    if key.algorithm != words[0].encode("utf-8"):
        raise RefusedInput("refused.ssh-key", "The key type before the key is not the type inside it.")
    return key
