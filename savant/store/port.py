"""The port of the content-addressed store: bytes by their own BLAKE3 digest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from savant.contracts.digest import PREFIX, RAW_BYTES
from savant.contracts.errors import RefusedInput, Unverifiable, UsageError, VerificationError

MAX_OBJECT_BYTES: Final = 1 << 30
"""The largest object that :meth:`ObjectStore.get` returns unless the caller says otherwise."""


class ObjectStore(Protocol):
    """Bytes by their digest (``blake3:<64 hex>``).

    MUST be create-only: an object that is there is never replaced. MUST recompute the digest whenever bytes come in
    or go out. MUST be durable when ``put`` or ``put_many`` returns. MUST be safe for many threads and processes at
    once. MUST NOT believe, repair or delete a damaged object: that is the caller's to report.

    Errors: ``usage.digest`` (not a digest); ``unverified.object`` (damaged); ``unverifiable.object-missing``;
    ``refused.too-large``; ``port.disk``.
    """

    def put(self, raw: bytes) -> str:
        """Keep the bytes; their digest. Putting what is there already checks it and changes nothing."""
        ...

    def put_many(self, items: Iterable[bytes]) -> list[str]:
        """As :meth:`put` for many, in order, made durable together: cheaper than one by one."""
        ...

    def get(self, digest: str, *, max_bytes: int = MAX_OBJECT_BYTES) -> bytes:
        """The bytes with this digest, recomputed."""
        ...

    def has(self, digest: str) -> bool:
        """Whether something is stored under this digest; only :meth:`get` says that it is intact."""
        ...

    def digests(self) -> Iterator[str]:
        """Every digest that something is stored under, in order."""
        ...

    def remove(self, digest: str) -> bool:
        """Remove an object that the caller knows to be unused; whether it was there. For garbage collection only."""
        ...


def hex_of(digest: str) -> str:
    """The 64 hex digits of a digest.

    :raises UsageError: ``usage.digest``.
    """
    hex_ = digest.removeprefix(PREFIX)
    if len(digest) != len(PREFIX) + len(hex_) or len(hex_) != 2 * RAW_BYTES or hex_.strip("0123456789abcdef"):
        raise UsageError("usage.digest", f"{digest[:100]!r} is not a digest like blake3:<64 hex digits>.")
    return hex_


def damaged(digest: str, why: str) -> VerificationError:
    """The error for an object that is not what its name says."""
    return VerificationError(
        "unverified.object",
        f"The stored object {digest} {why}.",
        fix="Restore it from an exported copy, or run again what produced it in a fresh store.",
    )


def absent(digest: str) -> Unverifiable:
    """The error for an object that is not there."""
    return Unverifiable("unverifiable.object-missing", f"The object {digest} is not in the store.")


def too_large(digest: str, max_bytes: int) -> RefusedInput:
    """The error for an object above the caller's limit."""
    return RefusedInput("refused.too-large", f"The object {digest} is larger than {max_bytes} bytes.")
