"""SSH signatures (OpenSSH ``PROTOCOL.sshsig``): parse, verify, and make with an in-memory key.

A namespace names the purpose, so that a signature for one thing never counts for another. The armour has one spelling:
the one ``ssh-keygen -Y sign`` writes. The key inside a signature proves nothing by itself; a caller always says which
key it expects.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from savant.contracts.envelope import SIGNATURE_BYTES, from_base64, to_base64
from savant.contracts.errors import RefusedInput, VerificationError
from savant.contracts.signing import Signer, Verifier
from savant.ledger.sshkey import ED25519, PublicKey, WireReader, parse_public_blob, wire_string

MAGIC: Final = b"SSHSIG"
VERSION: Final = 1
BEGIN: Final = "-----BEGIN SSH SIGNATURE-----\n"
END: Final = "-----END SSH SIGNATURE-----\n"
MAX_ARMOUR_CHARACTERS: Final = 16_384
_COLUMNS: Final = 70
_USER_PRESENT: Final = 0x01
_CODE: Final = "refused.sshsig"

HASHES: Final[Mapping[bytes, Callable[[bytes], bytes]]] = MappingProxyType(
    {
        b"sha256": lambda data: hashlib.sha256(data).digest(),
        b"sha512": lambda data: hashlib.sha512(data).digest(),
    }
)


class SshSignature(msgspec.Struct, frozen=True):
    """A parsed signature. ``flags`` and ``counter`` are what a security key added, else None."""

    public: PublicKey
    namespace: str
    hash_name: bytes
    signature: bytes
    flags: int | None
    counter: int | None


def parse_sshsig(armoured: str) -> SshSignature:
    """The signature in its armour. Nothing is verified.

    :raises RefusedInput: ``refused.sshsig``, ``refused.ssh-key``, ``refused.base64``.
    """
    if len(armoured) > MAX_ARMOUR_CHARACTERS or not armoured.startswith(BEGIN) or not armoured.endswith(END):
        raise RefusedInput(_CODE, "Not an armoured SSH signature.")
    blob = from_base64(armoured[len(BEGIN) : -len(END)].replace("\n", ""))
    if armour(blob) != armoured:
        raise RefusedInput(_CODE, "The armour is not spelt the way ssh-keygen writes it.")
    reader = WireReader(blob, _CODE)
    if reader.take(len(MAGIC)) != MAGIC or reader.number() != VERSION:
        raise RefusedInput(_CODE, "Not an SSH signature of version 1.")
    public = parse_public_blob(reader.string())
    namespace, reserved, hash_name, inner = (reader.string() for _ in range(4))
    reader.end()
    if reserved or hash_name not in HASHES or not namespace.isascii() or not namespace:
        raise RefusedInput(_CODE, "The namespace, the reserved field or the hash is not one we accept.")
    return _parse_inner(inner, public, namespace.decode("ascii"), hash_name)


def _parse_inner(inner: bytes, public: PublicKey, namespace: str, hash_name: bytes) -> SshSignature:
    reader = WireReader(inner, _CODE)
    algorithm, signature = reader.string(), reader.string()
    flags: int | None = None
    counter: int | None = None
    if public.application is not None:
        flags, counter = reader.take(1)[0], reader.number()
    reader.end()
    if algorithm != public.algorithm or len(signature) != SIGNATURE_BYTES:
        raise RefusedInput(_CODE, "The signature is not of the type of its key.")
    return SshSignature(public, namespace, hash_name, signature, flags, counter)


def verify_sshsig(
    armoured: str, message: bytes, *, namespace: str, public: PublicKey, verifier: Verifier
) -> SshSignature:
    """The signature, if this key made it over this message for this purpose.

    A security key must have seen a touch (the user-presence flag).

    :raises RefusedInput: as :func:`parse_sshsig`.
    :raises VerificationError: ``unverified.sshsig-key``, ``unverified.sshsig-namespace``, ``unverified.presence``,
        ``unverified.signature``.
    """
    parsed = parse_sshsig(armoured)
    if parsed.public != public:
        raise VerificationError("unverified.sshsig-key", f"Signed by {parsed.public.keyid}, not by {public.keyid}.")
    if parsed.namespace != namespace:
        raise VerificationError(
            "unverified.sshsig-namespace", f"Signed for {parsed.namespace!r}, but {namespace!r} is needed."
        )
    signed = signed_bytes(namespace, parsed.hash_name, message)
    if public.application is not None:
        if parsed.flags is None or parsed.counter is None or not parsed.flags & _USER_PRESENT:
            raise VerificationError("unverified.presence", "The security key was not touched for this signature.")
        signed = (
            hashlib.sha256(public.application).digest()
            + struct.pack(">BI", parsed.flags, parsed.counter)
            + hashlib.sha256(signed).digest()
        )
    verifier.verify(public.raw, parsed.signature, signed)
    return parsed


def sign_sshsig(signer: Signer, namespace: str, message: bytes) -> str:
    """An armoured signature, byte for byte what ``ssh-keygen -Y sign -n NAMESPACE`` gives for the same key."""
    hash_name = b"sha512"
    inner = wire_string(ED25519) + wire_string(signer.sign(signed_bytes(namespace, hash_name, message)))
    return armour(
        MAGIC
        + struct.pack(">I", VERSION)
        + wire_string(PublicKey(signer.public_raw).blob)
        + wire_string(namespace.encode("ascii"))
        + wire_string(b"")
        + wire_string(hash_name)
        + wire_string(inner)
    )


def signed_bytes(namespace: str, hash_name: bytes, message: bytes) -> bytes:
    """The bytes that the key signs for a message."""
    return (
        MAGIC
        + wire_string(namespace.encode("ascii"))
        + wire_string(b"")
        + wire_string(hash_name)
        + wire_string(HASHES[hash_name](message))
    )


def armour(blob: bytes) -> str:
    """The text form: base64 in lines of 70 between the two marks."""
    text = to_base64(blob)
    lines = (text[at : at + _COLUMNS] + "\n" for at in range(0, len(text), _COLUMNS))
    return BEGIN + "".join(lines) + END
