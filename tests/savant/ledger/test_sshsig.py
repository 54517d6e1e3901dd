"""SSH signatures: purpose, key and message count; security keys need a touch."""

from __future__ import annotations

import hashlib
import struct

import pytest

from savant.contracts.errors import RefusedInput, SavantError, VerificationError
from savant.ledger import Ed25519Signer, Ed25519Verifier
from savant.ledger.sshkey import ED25519, SK_ED25519, PublicKey, wire_string
from savant.ledger.sshsig import MAGIC, armour, parse_sshsig, sign_sshsig, signed_bytes, verify_sshsig

SIGNER = Ed25519Signer(b"\x03" * 32)
PUBLIC = PublicKey(SIGNER.public_raw)
SECURITY = PublicKey(SIGNER.public_raw, b"ssh:")
SIGNED = sign_sshsig(SIGNER, "purpose", b"message")


def verify(text: str, message: bytes = b"message", namespace: str = "purpose", public: PublicKey = PUBLIC) -> None:
    verify_sshsig(text, message, namespace=namespace, public=public, verifier=Ed25519Verifier())


def blob(
    *,
    magic: bytes = MAGIC,
    version: int = 1,
    public: bytes = PUBLIC.blob,
    namespace: bytes = b"purpose",
    reserved: bytes = b"",
    hash_name: bytes = b"sha512",
    algorithm: bytes = ED25519,
    signature: bytes | None = None,
    tail: bytes = b"",
    end: bytes = b"",
) -> str:
    if signature is None:
        known = hash_name if hash_name in {b"sha256", b"sha512"} else b"sha512"
        signature = SIGNER.sign(signed_bytes("purpose", known, b"message"))
    inner = wire_string(algorithm) + wire_string(signature) + tail
    parts = (public, namespace, reserved, hash_name, inner)
    return armour(magic + struct.pack(">I", version) + b"".join(wire_string(part) for part in parts) + end)


def touched(flags: int, *, counter: int = 9, application: bytes = b"ssh:") -> str:
    """What a security key would return."""
    body = hashlib.sha256(signed_bytes("purpose", b"sha512", b"message")).digest()
    message = hashlib.sha256(application).digest() + struct.pack(">BI", flags, counter) + body
    return blob(
        public=SECURITY.blob,
        algorithm=SK_ED25519,
        signature=SIGNER.sign(message),
        tail=struct.pack(">BI", flags, counter),
    )


def test_a_signature_verifies_for_its_key_purpose_and_message() -> None:
    """And names what it is."""
    verify(SIGNED)
    verify(blob(hash_name=b"sha256"))
    assert blob() == SIGNED
    parsed = parse_sshsig(SIGNED)
    assert (parsed.public, parsed.namespace, parsed.hash_name, parsed.flags) == (PUBLIC, "purpose", b"sha512", None)


@pytest.mark.parametrize(
    ("message", "namespace", "public", "code"),
    [
        (b"massage", "purpose", PUBLIC, "unverified.signature"),
        (b"message", "other", PUBLIC, "unverified.sshsig-namespace"),
        (b"message", "purpose", PublicKey(Ed25519Signer(b"\x04" * 32).public_raw), "unverified.sshsig-key"),
        (b"message", "purpose", SECURITY, "unverified.sshsig-key"),
    ],
)
def test_another_message_purpose_or_key_is_refused(
    message: bytes, namespace: str, public: PublicKey, code: str
) -> None:
    """Each with its own code."""
    with pytest.raises(VerificationError) as caught:
        verify(SIGNED, message, namespace, public)
    assert caught.value.code == code


def test_a_security_key_counts_when_it_was_touched() -> None:
    """The presence flag is demanded; flags and counter are signed."""
    verify(touched(1), public=SECURITY)
    verify(touched(5), public=SECURITY)
    with pytest.raises(VerificationError) as caught:
        verify(touched(0), public=SECURITY)
    assert caught.value.code == "unverified.presence"
    with pytest.raises(VerificationError) as caught:
        verify(touched(1, application=b"ssh:other"), public=SECURITY)
    assert caught.value.code == "unverified.signature"


@pytest.mark.parametrize(
    "text",
    [
        "",
        SIGNED.replace("BEGIN", "START"),
        SIGNED.removesuffix("\n"),
        SIGNED.replace("\n", "\n\n", 1),
        SIGNED.replace("\n-----END", "A\n-----END"),
        "-----BEGIN SSH SIGNATURE-----\n" + "A" * 20_000 + "\n-----END SSH SIGNATURE-----\n",
        blob(magic=b"SSHSIH"),
        blob(version=2),
        blob(namespace=b""),
        blob(namespace="ü".encode()),
        blob(reserved=b"x"),
        blob(hash_name=b"md5"),
        blob(algorithm=b"ssh-rsa"),
        blob(algorithm=SK_ED25519),
        blob(signature=b"x" * 63),
        blob(tail=b"x"),
        blob(end=b"x"),
        blob(public=SECURITY.blob, algorithm=SK_ED25519),
        blob(public=wire_string(b"ssh-rsa") + wire_string(SIGNER.public_raw)),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    """One spelling, one version, two hashes, no left-over bytes."""
    with pytest.raises(RefusedInput):
        parse_sshsig(text)


def test_every_byte_of_the_armour_counts() -> None:
    """A flipped character is refused or does not verify; never another meaning."""
    for at in range(0, len(SIGNED), 7):
        other = SIGNED[:at] + ("A" if SIGNED[at] != "A" else "B") + SIGNED[at + 1 :]
        with pytest.raises(SavantError):
            verify(other)
