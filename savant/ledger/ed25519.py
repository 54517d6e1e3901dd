"""The Ed25519 adapter: strict verification and an in-memory signer, over ``cryptography`` (imported when one is made).

OpenSSL refuses ``S >= L`` but accepts keys and ``R`` of small order; this adapter refuses those too, so every verifier
that an auditor may use gives the same answer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from savant.contracts.effects import Entropy
from savant.contracts.envelope import SIGNATURE_BYTES
from savant.contracts.errors import VerificationError
from savant.ledger.edwards import POINT_BYTES, is_canonical_scalar, is_plain_point
from savant.ledger.port import SignedBytes
from savant.ledger.sshkey import fingerprint

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

SEED_BYTES: Final = 32
_KEPT_KEYS: Final = 256
_MAX_THREADS: Final = 4
_MIN_PER_THREAD: Final = 16


class Ed25519Verifier:
    """Implements :class:`savant.ledger.port.ManyVerifier`; keeps a few parsed public keys. Safe from any thread."""

    def __init__(self) -> None:
        from cryptography.exceptions import InvalidSignature

        self._bad: tuple[type[Exception], ...] = (InvalidSignature, ValueError)
        self._keys: dict[bytes, Ed25519PublicKey] = {}

    def verify(self, public_raw: bytes, signature: bytes, message: bytes) -> None:
        """Return if the signature is good.

        :raises VerificationError: ``unverified.signature``.
        """
        if (
            len(signature) != SIGNATURE_BYTES
            or not is_canonical_scalar(signature[POINT_BYTES:])
            or not is_plain_point(signature[:POINT_BYTES])
        ):
            raise VerificationError("unverified.signature", "The signature is not a canonical Ed25519 signature.")
        try:
            self._key(public_raw).verify(signature, message)
        except self._bad as error:
            raise VerificationError(
                "unverified.signature", "The signature does not belong to these bytes and this key."
            ) from error

    def check_many(self, items: Sequence[SignedBytes]) -> list[VerificationError | None]:
        """What is wrong with each signature, None where it is good; in order.

        The library lets go of the interpreter while it computes, so a few threads share a long list. None of them
        outlives the call.
        """
        workers = min(_cores(), _MAX_THREADS, len(items) // _MIN_PER_THREAD)
        if workers <= 1:
            return self._check(items)
        from concurrent.futures import ThreadPoolExecutor

        share = -(-len(items) // workers)
        with ThreadPoolExecutor(workers) as pool:
            shares = pool.map(self._check, [items[at : at + share] for at in range(0, len(items), share)])
            return [result for part in shares for result in part]

    def _check(self, items: Sequence[SignedBytes]) -> list[VerificationError | None]:
        results: list[VerificationError | None] = []
        for public_raw, signature, message in items:
            try:
                self.verify(public_raw, signature, message)
            except VerificationError as error:
                results.append(error)
            else:
                results.append(None)
        return results

    def _key(self, public_raw: bytes) -> Ed25519PublicKey:
        key = self._keys.get(public_raw)
        if key is None:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

            if not is_plain_point(public_raw):
                raise VerificationError("unverified.signature", "The public key is not a sound Ed25519 key.")
            key = Ed25519PublicKey.from_public_bytes(public_raw)
            if len(self._keys) >= _KEPT_KEYS:
                self._keys.clear()
            self._keys[public_raw] = key
        return key


def _cores() -> int:
    """How many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return (os.cpu_count() or 1) if affinity is None else len(affinity(0))


class Ed25519Signer:
    """A private key in memory; implements :class:`savant.contracts.signing.Signer`. It never shows its key.

    :param seed: 32 secret bytes (RFC 8032).
    """

    __slots__ = ("_key", "_keyid", "_public")

    def __init__(self, seed: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self._public = self._key.public_key().public_bytes_raw()
        self._keyid = fingerprint(self._public)

    @classmethod
    def generate(cls, entropy: Entropy) -> Ed25519Signer:
        """A fresh key from 32 random bytes."""
        return cls(entropy.token(SEED_BYTES))

    @property
    def keyid(self) -> str:
        """The OpenSSH ``SHA256:`` fingerprint of the public key."""
        return self._keyid

    @property
    def public_raw(self) -> bytes:
        """The 32 raw public key bytes."""
        return self._public

    def sign(self, message: bytes) -> bytes:
        """64 signature bytes over exactly these bytes."""
        return self._key.sign(message)

    def __repr__(self) -> str:
        """The key id, never the key."""
        return f"{type(self).__name__}({self._keyid})"
