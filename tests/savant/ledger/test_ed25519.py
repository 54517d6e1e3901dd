"""The Ed25519 adapter: it accepts honest signatures only."""

from __future__ import annotations

import pytest

from savant.contracts.errors import VerificationError
from savant.contracts.twins import CountingEntropy
from savant.ledger import Ed25519Signer, Ed25519Verifier
from savant.ledger.edwards import ORDER

# RFC 8032 section 7.1, test 2.
SEED = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
PUBLIC = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
SIGNATURE = (
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)


def refused(public: bytes, signature: bytes, message: bytes) -> None:
    with pytest.raises(VerificationError) as caught:
        Ed25519Verifier().verify(public, signature, message)
    assert caught.value.code == "unverified.signature"


def test_the_vector_of_rfc_8032() -> None:
    """Key, signature and verification are those of the RFC."""
    signer = Ed25519Signer(SEED)
    assert signer.public_raw.hex() == PUBLIC
    assert signer.sign(b"\x72").hex() == SIGNATURE
    Ed25519Verifier().verify(bytes.fromhex(PUBLIC), bytes.fromhex(SIGNATURE), b"\x72")


def test_another_message_key_or_signature_is_refused() -> None:
    """Each of the three counts."""
    signer, other = (Ed25519Signer.generate(CountingEntropy(seed)) for seed in (b"a", b"b"))
    signature = signer.sign(b"message")
    Ed25519Verifier().verify(signer.public_raw, signature, b"message")
    refused(signer.public_raw, signature, b"massage")
    refused(other.public_raw, signature, b"message")
    refused(signer.public_raw, signature[:-1], b"message")
    refused(signer.public_raw, signature + b"\0", b"message")
    refused(signer.public_raw, bytes([signature[0] ^ 1]) + signature[1:], b"message")


def test_a_malleated_signature_is_refused() -> None:
    """S + L verifies in sloppy code; here a signature has one spelling."""
    signer = Ed25519Signer(SEED)
    signature = signer.sign(b"message")
    larger = int.from_bytes(signature[32:], "little") + ORDER
    refused(signer.public_raw, signature[:32] + larger.to_bytes(32, "little"), b"message")


@pytest.mark.parametrize(
    ("message", "public", "signature"),
    [
        # ed25519-speccheck 0 to 3: small-order A, small-order R, mixed order with small R; OpenSSL accepts 0 to 3.
        (
            "8c93255d71dcab10e8f379c26200f3c7bd5f09d9bc3068d3ef4edeb4853022b6",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a" + "00" * 32,
        ),
        (
            "9bd9f44f4dcc75bd531b56b2cd280b0bb38fc1cd6d1230e14861d861de092e79",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
            "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43"  # noqa: ISC004
            "a5bb704786be79fc476f91d3f3f89b03984d8068dcf1bb7dfc6637b45450ac04",
        ),
    ],
)
def test_small_order_keys_are_refused_though_openssl_accepts_them(message: str, public: str, signature: str) -> None:
    """Vectors that the library underneath calls good."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), bytes.fromhex(message))
    refused(bytes.fromhex(public), bytes.fromhex(signature), bytes.fromhex(message))


def test_a_signer_never_shows_its_key() -> None:
    """Its text is its key id."""
    signer = Ed25519Signer(SEED)
    assert repr(signer) == f"Ed25519Signer({signer.keyid})"
    assert SEED.hex() not in repr(signer)
    assert signer.keyid.startswith("SHA256:")


def test_the_verifier_forgets_keys_rather_than_grow() -> None:
    """After hundreds of keys the first still verifies."""
    verifier = Ed25519Verifier()
    signers = [Ed25519Signer.generate(CountingEntropy(b"%d" % n)) for n in range(300)]
    for signer in (*signers, signers[0]):
        verifier.verify(signer.public_raw, signer.sign(b"m"), b"m")
    assert len(verifier._keys) <= 256


@pytest.mark.parametrize("count", [0, 1, 31, 32, 200])
def test_many_at_once_get_the_same_answers(count: int) -> None:
    """In order, whatever the number of threads."""
    signer = Ed25519Signer(SEED)
    items = [(signer.public_raw, signer.sign(b"%d" % n), b"%d" % (n if n % 7 else n + 1)) for n in range(count)]
    errors = Ed25519Verifier().check_many(items)
    assert [error is None for error in errors] == [bool(n % 7) for n in range(count)]
    assert {error.code for error in errors if error is not None} <= {"unverified.signature"}
