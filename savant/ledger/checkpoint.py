"""Checkpoints: C2SP signed notes (``signed-note``, ``tlog-checkpoint``) over a tree size and root.

::

    savant-synthesis.invalid/ledger/<nonce>      origin: carries the ledger's nonce, also the key name
    1234                                         size, decimal
    <base64 of the 32-byte root>
                                                 an empty line ends the signed text
    — <origin> <base64 of key id (4 bytes) || Ed25519 signature>

There are no extension lines. Lines of other signers (witnesses) may follow and are kept; a line of the log's own name
and key id appears exactly once. Go's ``x/mod/sumdb/note`` and the C2SP witnesses read this format.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import msgspec

from savant.contracts.canonical import MAX_INTEGER
from savant.contracts.envelope import SIGNATURE_BYTES, from_base64, to_base64
from savant.contracts.errors import RefusedInput, VerificationError
from savant.contracts.signing import Signer, Verifier
from savant.ledger.merkle import HASH_BYTES

ORIGIN_PREFIX: Final = "savant-synthesis.invalid/ledger/"
"""The ``.invalid`` domain says that no such host exists; the nonce after it makes the origin unique."""

ALGORITHM_ED25519: Final = b"\x01"
KEY_ID_BYTES: Final = 4
MAX_NOTE_CHARACTERS: Final = 65_536
MAX_SIGNATURES: Final = 100
_DASH: Final = "\u2014 "
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,15}")
_NAME: Final = re.compile(r"[^\s+]+")
_CODE: Final = "refused.checkpoint"


class NoteSignature(msgspec.Struct, frozen=True):
    """One signature line: who, the 4-byte key id, and the bytes after it."""

    name: str
    key_id: bytes
    signature: bytes


class Checkpoint(msgspec.Struct, frozen=True):
    """A tree head. ``root`` is 32 raw bytes; ``note`` the whole signed text, ``signatures`` its parsed lines."""

    origin: str
    size: int
    root: bytes
    note: str
    signatures: tuple[NoteSignature, ...]


def origin_of(nonce: str) -> str:
    """The origin line of the ledger with this nonce."""
    return ORIGIN_PREFIX + nonce


def note_key_id(name: str, public_raw: bytes) -> bytes:
    """The 4-byte key id of an Ed25519 note key."""
    return hashlib.sha256(name.encode("utf-8") + b"\n" + ALGORITHM_ED25519 + public_raw).digest()[:KEY_ID_BYTES]


def vkey(name: str, public_raw: bytes) -> str:
    """The verifier key text ``name+hex(key id)+base64(0x01 || key)``."""
    return f"{name}+{note_key_id(name, public_raw).hex()}+{to_base64(ALGORITHM_ED25519 + public_raw)}"


def parse_vkey(text: str) -> tuple[str, bytes]:
    """``(name, public key)`` of a verifier key.

    :raises RefusedInput: ``refused.vkey``, ``refused.base64``.
    """
    name, _, rest = text.partition("+")
    _, _, encoded = rest.partition("+")
    raw = from_base64(encoded)
    public_raw = raw[1:]
    if _NAME.fullmatch(name) is None or raw[:1] != ALGORITHM_ED25519 or len(public_raw) != HASH_BYTES:
        raise RefusedInput("refused.vkey", "Not an Ed25519 note verifier key.")
    if vkey(name, public_raw) != text:
        raise RefusedInput("refused.vkey", "The key id of the verifier key is not the one of its key.")
    return name, public_raw


def checkpoint_text(origin: str, size: int, root: bytes) -> str:
    """The signed text."""
    return f"{origin}\n{size}\n{to_base64(root)}\n"


def sign_checkpoint(signer: Signer, origin: str, size: int, root: bytes) -> Checkpoint:
    """A checkpoint with the log's signature."""
    text = checkpoint_text(origin, size, root)
    key_id = note_key_id(origin, signer.public_raw)
    signature = signer.sign(text.encode("utf-8"))
    note = f"{text}\n{_DASH}{origin} {to_base64(key_id + signature)}\n"
    return Checkpoint(origin, size, root, note, (NoteSignature(origin, key_id, signature),))


def parse_checkpoint(note: str) -> Checkpoint:
    """The checkpoint of a signed note. Nothing is verified.

    :raises RefusedInput: ``refused.checkpoint``, ``refused.base64``.
    """
    text, separator, signatures = note.rpartition("\n\n")
    lines = text.split("\n")
    if len(note) > MAX_NOTE_CHARACTERS or not separator or len(lines) != 3:
        raise RefusedInput(_CODE, "A checkpoint is three lines, an empty line and signatures.")
    origin, size, root_text = lines
    if _NAME.fullmatch(origin) is None or _SIZE.fullmatch(size) is None or int(size) > MAX_INTEGER:
        raise RefusedInput(_CODE, "The origin or the size of the checkpoint is malformed.")
    root = from_base64(root_text)
    if len(root) != HASH_BYTES:
        raise RefusedInput(_CODE, "The root of the checkpoint is not a SHA-256.")
    return Checkpoint(origin, int(size), root, note, _parse_signatures(signatures))


def _parse_signatures(block: str) -> tuple[NoteSignature, ...]:
    if not block.endswith("\n"):
        raise RefusedInput(_CODE, "The last line of the checkpoint is cut.")
    lines = block[:-1].split("\n")
    if len(lines) > MAX_SIGNATURES:
        raise RefusedInput(_CODE, "The checkpoint has too many signatures.")
    parsed: list[NoteSignature] = []
    for line in lines:
        name, space, encoded = line.removeprefix(_DASH).partition(" ")
        if not line.startswith(_DASH) or not space or _NAME.fullmatch(name) is None:
            raise RefusedInput(_CODE, "A signature line of the checkpoint is malformed.")
        raw = from_base64(encoded)
        if len(raw) <= KEY_ID_BYTES:
            raise RefusedInput(_CODE, "A signature of the checkpoint is too short.")
        parsed.append(NoteSignature(name, raw[:KEY_ID_BYTES], raw[KEY_ID_BYTES:]))
    return tuple(parsed)


def verify_checkpoint(note: str, *, origin: str, public_raw: bytes, verifier: Verifier) -> Checkpoint:
    """The checkpoint, if it is of this origin and signed by this log key, exactly once.

    :raises RefusedInput: as :func:`parse_checkpoint`.
    :raises VerificationError: ``unverified.origin``, ``unverified.checkpoint-key``, ``unverified.signature``.
    """
    checkpoint = parse_checkpoint(note)
    if checkpoint.origin != origin:
        raise VerificationError("unverified.origin", f"The checkpoint is of {checkpoint.origin!r}, not of {origin!r}.")
    key_id = note_key_id(origin, public_raw)
    own = [s.signature for s in checkpoint.signatures if (s.name, s.key_id) == (origin, key_id)]
    if len(own) != 1 or len(own[0]) != SIGNATURE_BYTES:
        raise VerificationError("unverified.checkpoint-key", "The checkpoint is not signed once by this log key.")
    text = checkpoint_text(checkpoint.origin, checkpoint.size, checkpoint.root)
    verifier.verify(public_raw, own[0], text.encode("utf-8"))
    return checkpoint
