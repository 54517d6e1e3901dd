"""Digests. ``blake3:`` and 64 hex digits over exact bytes; SHA-256 only where another format defines it.

File content is plain BLAKE3 of the raw bytes, so ``b3sum`` reproduces it.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

from blake3 import blake3

PREFIX = "blake3:"
RAW_BYTES = 32


class Hasher(Protocol):
    """An incremental hash."""

    def update(self, data: bytes | memoryview, /) -> object:
        """Feed bytes."""
        ...

    def digest(self) -> bytes:
        """The 32 bytes so far."""
        ...


def new_hasher() -> Hasher:
    """An incremental BLAKE3."""
    return blake3()


def raw_digest(data: bytes | memoryview) -> bytes:
    """BLAKE3 of the bytes, 32 raw bytes."""
    return blake3(data).digest()


def digest(data: bytes | memoryview) -> str:
    """BLAKE3 of the bytes, as ``blake3:<64 hex>``."""
    return PREFIX + blake3(data).hexdigest()


def to_text(raw: bytes) -> str:
    """The written form of 32 raw digest bytes."""
    return PREFIX + raw.hex()


def to_raw(text: str) -> bytes:
    """The 32 raw bytes of a written digest (already validated by its type)."""
    return bytes.fromhex(text[len(PREFIX) :])


def sha256_hex(data: bytes) -> str:
    """SHA-256 as 64 hex digits, for ``subject.digest`` and RFC 6962 trees."""
    return hashlib.sha256(data).hexdigest()
