"""DSSE 1.0 envelopes with exactly one Ed25519 signature, as one canonical JSON line.

``PAE(type, body) = "DSSEv1" SP len(type) SP type SP len(body) SP body``. The payload is the exact bytes that were
signed, in strict base64 (standard alphabet, padded, one spelling). The key id is the OpenSSH ``SHA256:`` fingerprint.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated, Final, NoReturn

import msgspec
from msgspec import Meta

from savant.contracts import canonical
from savant.contracts.document import Part
from savant.contracts.errors import InternalError, RefusedInput

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
SIGNATURE_BYTES: Final = 64

_HEAD: Final = b'{"payload":'
_TAIL: Final = re.compile(
    rb',"payloadType":"'
    + re.escape(PAYLOAD_TYPE.encode("ascii"))
    + rb'","signatures":\[\{"keyid":"(SHA256:[A-Za-z0-9+/]{43})","sig":("[A-Za-z0-9+/]{86}==")\}\]\}'
)
_TAIL_BYTES: Final = len(f',"payloadType":"{PAYLOAD_TYPE}","signatures":[{{"keyid":"","sig":""}}]}}') + 50 + 88

_base64: Final = msgspec.json.Decoder(bytes)
_to_base64: Final = msgspec.json.Encoder()

KeyId = Annotated[str, Meta(pattern=r"^SHA256:[A-Za-z0-9+/]{43}(?!\n)$")]
Base64 = Annotated[str, Meta(pattern=r"^[A-Za-z0-9+/]*={0,2}(?!\n)$")]


class Signature(Part, frozen=True, kw_only=True):
    """One signature over the PAE."""

    keyid: KeyId
    sig: Base64


class Envelope(Part, frozen=True, kw_only=True, rename="camel"):
    """A DSSE envelope; ``payload_type`` is written ``payloadType``."""

    payload: Base64
    payload_type: str
    signatures: tuple[Signature, ...]


def pae(payload_type: str, body: bytes) -> bytes:
    """The pre-authentication encoding: the bytes that are signed."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(body), body)


def to_base64(raw: bytes) -> str:
    """Standard, padded base64."""
    return base64.b64encode(raw).decode("ascii")


def from_base64(text: str) -> bytes:
    """The bytes of strict base64.

    :raises RefusedInput: ``refused.base64`` for any other spelling of the same bytes.
    """
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RefusedInput("refused.base64", f"Not base64: {error}") from error
    if to_base64(raw) != text:
        raise RefusedInput("refused.base64", "Base64 in a spelling that is not the canonical one.")
    return raw


def encode_envelope(body: bytes, *, keyid: str, signature: bytes) -> bytes:
    """The line (without its newline) that carries the body and one signature over its PAE.

    :raises InternalError: ``internal.signature-size`` when the signature has not 64 bytes.
    """
    if len(signature) != SIGNATURE_BYTES:
        raise InternalError("internal.signature-size", f"A signature has 64 bytes, this one {len(signature)}.")
    return canonical.encode_struct(
        Envelope(
            payload=to_base64(body),
            payload_type=PAYLOAD_TYPE,
            signatures=(Signature(keyid=keyid, sig=to_base64(signature)),),
        )
    )


def parse_envelope(line: bytes) -> tuple[bytes, str, bytes]:
    """``(body, keyid, signature)`` of a line. The signature is not checked here.

    :raises RefusedInput: ``refused.malformed``, ``refused.not-canonical``, ``refused.base64``,
        ``refused.payload-type``, ``refused.signature-count``, ``refused.signature-size``.
    """
    parts = _parse_layout(line)
    if parts is None:
        _refuse(line)
    return parts


def _parse_layout(line: bytes) -> tuple[bytes, str, bytes] | None:
    """The parts of a line that is laid out byte for byte as :func:`encode_envelope` does it, else None.

    Every accepted line has this one layout, so there is no need to decode JSON to take it apart.
    """
    tail = _TAIL.fullmatch(line[-_TAIL_BYTES:])
    if tail is None or not line.startswith(_HEAD):
        return None
    payload = line[len(_HEAD) : -_TAIL_BYTES]
    keyid, sig = tail.groups()
    try:
        body, signature = _base64.decode(payload), _base64.decode(sig)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if _to_base64.encode(body) != payload or _to_base64.encode(signature) != sig:
        return None
    return body, keyid.decode("ascii"), signature


def _refuse(line: bytes) -> NoReturn:
    """Say what is wrong with a line that has another layout."""
    envelope = canonical.decode(line, Envelope)
    if envelope.payload_type != PAYLOAD_TYPE:
        raise RefusedInput("refused.payload-type", f"Payload type {envelope.payload_type!r} is not {PAYLOAD_TYPE}.")
    if len(envelope.signatures) != 1:
        raise RefusedInput("refused.signature-count", f"{len(envelope.signatures)} signatures; exactly one is allowed.")
    signature = from_base64(envelope.signatures[0].sig)
    if len(signature) != SIGNATURE_BYTES:
        raise RefusedInput("refused.signature-size", f"A signature has 64 bytes, this one {len(signature)}.")
    from_base64(envelope.payload)
    raise InternalError("internal.envelope-layout", "A sound envelope has another layout.")  # pragma: no cover
