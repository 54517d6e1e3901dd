"""The documents that the ledger itself writes.

What a root key authorises (genesis, keyring, recovery) is the *text* inside a :class:`RootStatement`: the canonical
bytes of that document, with an SSH signature over exactly this text. The envelope around it is signed by ``log`` and
adds nothing to its authority.
"""

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta

from savant.contracts.document import Document, Part
from savant.contracts.envelope import Base64, KeyId
from savant.contracts.scalars import Count, Digest, Milliseconds, Name, NonEmptyText, Positive, Set, Sha256, Text

Role: TypeAlias = Literal["driver", "provider-host", "runner", "evaluator", "admission", "apply", "verify", "log"]
"""The online roles. The root is none of them: it signs statements, never envelopes."""

Nonce: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}(?!\n)$", description="128 random bits, hex")]
RawKey: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}(?!\n)$", description="32 public key bytes, hex")]
SshPublicKey: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(ssh-ed25519|sk-ssh-ed25519@openssh\.com) [A-Za-z0-9+/]{60,2000}={0,2}(?!\n)$",
        description="an OpenSSH public key without a comment",
    ),
]
Armoured: TypeAlias = Annotated[str, Meta(min_length=1, max_length=16_384, description="an armoured SSH signature")]
Origin: TypeAlias = Annotated[str, Meta(pattern=r"^[!-*,-~]{1,200}(?!\n)$", description="a checkpoint origin")]
NoteText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=65_536, description="a signed note")]
ModeName: TypeAlias = Literal["off", "record", "enforce"]


class KeyEntry(Part, frozen=True, kw_only=True):
    """One key of one role, valid for the records ``from_seq`` to ``until_seq`` (inclusive; null: no end yet).

    ``possession`` is that key's own signature over :func:`savant.ledger.keyring.possession_message`.
    """

    role: Role
    public_key: RawKey
    keyid: KeyId
    from_seq: Count
    until_seq: Count | None
    possession: Base64


class Continues(Part, frozen=True, kw_only=True):
    """The ledger that a new one takes over from: its id, size and tree root."""

    ledger: Digest
    size: Positive
    root: Sha256


class Genesis(Document, frozen=True, kw_only=True, tag="savant.ledger.genesis/v1"):
    """The beginning of a ledger: who is its root, the keys of epoch 0, and the origin of its checkpoints."""

    nonce: Nonce
    origin: Origin
    root_key: SshPublicKey
    keyring: Set[KeyEntry]
    continues: Continues | None


class Keyring(Document, frozen=True, kw_only=True, tag="savant.ledger.keyring/v1"):
    """All keys from the next record on: every earlier entry again, possibly ended, and new ones."""

    ledger: Digest
    epoch: Positive
    entries: Set[KeyEntry]


class Recovery(Document, frozen=True, kw_only=True, tag="savant.ledger.recovery/v1"):
    """What was lost: the head that was known, the store that is left, and why appending goes on from there.

    ``lost_size`` and ``lost_last`` are the head that was saved; null when the head itself was lost.
    """

    ledger: Digest
    store_size: Positive
    store_last: Digest
    lost_size: Positive | None
    lost_last: Digest | None
    reason: NonEmptyText


class RootStatement(Document, frozen=True, kw_only=True, tag="savant.ledger.root-statement/v1"):
    """The canonical text of a genesis, keyring or recovery document, and the root's SSH signature over it."""

    statement: NonEmptyText
    sshsig: Armoured


class Intent(Document, frozen=True, kw_only=True, tag="savant.ledger.intent/v1"):
    """An effect is about to happen. Without an outcome after it, it is in doubt."""

    operation: Name
    subject_digest: Digest | None
    deadline_ms: Milliseconds | None
    detail: Text


class RunOpen(Document, frozen=True, kw_only=True, tag="savant.ledger.run-open/v1"):
    """A run begins, under this ledger mode."""

    mode: ModeName


class RunClose(Document, frozen=True, kw_only=True, tag="savant.ledger.run-close/v1"):
    """A run ended. ``records`` counts its records before this one, ``failed_appends`` what could not be recorded."""

    disposition: Name
    records: Count
    failed_appends: Count


class Head(Document, frozen=True, kw_only=True, tag="savant.ledger.head/v1"):
    """What the ledger was when its last checkpoint was signed. Kept beside the store, never a record."""

    ledger: Digest
    size: Positive
    last: Digest
    checkpoint: NoteText


DOCUMENTS: Final[tuple[type[Document], ...]] = (
    Genesis,
    Keyring,
    Recovery,
    RootStatement,
    Intent,
    RunOpen,
    RunClose,
    Head,
)
"""Every document kind of this package."""
