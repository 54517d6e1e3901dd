"""Signer and verifier ports. The kernel signs nothing itself: adapters live in identity and ledger."""

from __future__ import annotations

from typing import Protocol


class Signer(Protocol):
    """One private key. MUST sign plain Ed25519 (RFC 8032); MUST NOT reveal the key."""

    @property
    def keyid(self) -> str:
        """The OpenSSH ``SHA256:`` fingerprint of the public key."""
        ...

    @property
    def public_raw(self) -> bytes:
        """The 32 raw public key bytes."""
        ...

    def sign(self, message: bytes) -> bytes:
        """64 signature bytes over exactly these bytes."""
        ...


class Verifier(Protocol):
    """Checks signatures. MUST refuse non-canonical S, small-order keys and small-order R."""

    def verify(self, public_raw: bytes, signature: bytes, message: bytes) -> None:
        """Return if the signature is good.

        :raises VerificationError: ``unverified.signature``.
        """
        ...
