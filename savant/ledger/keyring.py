"""Keys and roles: who may sign what, and when. Pure.

Validity is by sequence number, never by clock. Raw keys are compared, so one key under two names is still one key: it
may serve one role only, and the root's key none.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, get_args

import msgspec

from savant.contracts.envelope import from_base64, to_base64
from savant.contracts.errors import RefusedInput, VerificationError
from savant.contracts.scalars import as_set
from savant.contracts.signing import Signer, Verifier
from savant.ledger.documents import KeyEntry, Role
from savant.ledger.edwards import check_public_key
from savant.ledger.sshkey import PublicKey, fingerprint

ROLES: Final[tuple[Role, ...]] = get_args(Role)
"""Every online role."""

ANY_ROLE: Final = frozenset(ROLES)

SIGNERS_BY_KIND: Final[Mapping[str, frozenset[Role]]] = MappingProxyType(
    {
        "savant.admission.": frozenset[Role]({"admission"}),
        "savant.admission.verification": frozenset[Role]({"verify"}),
        "savant.candidateapply.": frozenset[Role]({"apply"}),
        "savant.candidateapply.verification-record": frozenset[Role]({"verify"}),
        "savant.commandprovider.": frozenset[Role]({"provider-host"}),
        "savant.driver.": frozenset[Role]({"driver"}),
        "savant.evaluator.": frozenset[Role]({"evaluator"}),
        "savant.identity.": frozenset[Role]({"driver"}),
        "savant.ledger.intent": ANY_ROLE,
        "savant.ledger.root-statement": frozenset[Role]({"log"}),
        "savant.ledger.run-close": frozenset[Role]({"log"}),
        "savant.ledger.run-open": frozenset[Role]({"log"}),
        "savant.providerport.": frozenset[Role]({"provider-host"}),
        "savant.runner.": frozenset[Role]({"runner"}),
        "savant.synthesis.": frozenset[Role]({"driver"}),
    }
)
"""Which roles may sign which kind. A whole kind name (without ``/vN``) wins over a package prefix (with the dot).

Genesis, keyring and recovery are no records of their own: they are the text of a root statement.
"""


@functools.lru_cache(maxsize=512)
def signers_of(kind: str) -> frozenset[Role]:
    """The roles that may sign a document kind such as ``savant.runner.receipt/v1``; empty for a kind nobody may."""
    name = kind.partition("/")[0]
    package = ".".join(name.split(".")[:2]) + "."
    return SIGNERS_BY_KIND.get(name) or SIGNERS_BY_KIND.get(package) or frozenset()


def verify_role(role: Role, kind: str) -> None:
    """Return if the role may sign the kind.

    :raises VerificationError: ``unverified.role``.
    """
    if role not in signers_of(kind):
        raise VerificationError("unverified.role", f"The role {role!r} may not sign {kind}.")


def possession_message(nonce: str, role: Role, from_seq: int) -> bytes:
    """The bytes that a key signs to show that its holder wants it in this role of this ledger."""
    return b"savant.key-possession/v1\n%b\n%b\n%d\n" % (nonce.encode("ascii"), role.encode("ascii"), from_seq)


def key_entry(signer: Signer, role: Role, *, nonce: str, from_seq: int) -> KeyEntry:
    """A keyring entry with proof of possession, valid from a record on."""
    return KeyEntry(
        role=role,
        public_key=signer.public_raw.hex(),
        keyid=signer.keyid,
        from_seq=from_seq,
        until_seq=None,
        possession=to_base64(signer.sign(possession_message(nonce, role, from_seq))),
    )


class ValidKeys(msgspec.Struct, frozen=True):
    """The keys of one epoch. Made only by :func:`open_keys` and :func:`replace_keys`."""

    epoch: int
    entries: tuple[KeyEntry, ...]
    _by_keyid: Mapping[str, tuple[KeyEntry, ...]]

    def key_of(self, keyid: str, seq: int) -> KeyEntry:
        """The entry that a key id means at a record.

        :raises VerificationError: ``unverified.unknown-key``, ``unverified.key-expired``.
        """
        entries = self._by_keyid.get(keyid)
        if entries is None:
            raise VerificationError("unverified.unknown-key", f"The key {keyid} is not in the keyring.")
        for entry in entries:
            if is_valid_at(entry, seq):
                return entry
        raise VerificationError("unverified.key-expired", f"The key {keyid} is not valid for record {seq}.")

    def keys_of(self, role: Role, seq: int) -> tuple[KeyEntry, ...]:
        """Every entry of a role that is valid at a record."""
        return tuple(entry for entry in self.entries if entry.role == role and is_valid_at(entry, seq))

    def log_key(self, seq: int) -> bytes:
        """The one raw log key at a record: it signs the checkpoints.

        :raises VerificationError: ``unverified.log-key`` unless there is exactly one.
        """
        entries = self.keys_of("log", seq)
        if len(entries) != 1:
            raise VerificationError("unverified.log-key", f"{len(entries)} log keys are valid at record {seq}; one is.")
        return bytes.fromhex(entries[0].public_key)


def is_valid_at(entry: KeyEntry, seq: int) -> bool:
    """Whether the entry covers a record."""
    return entry.from_seq <= seq and (entry.until_seq is None or seq <= entry.until_seq)


def open_keys(entries: Iterable[KeyEntry], *, epoch: int, root: PublicKey, nonce: str, verifier: Verifier) -> ValidKeys:
    """The keys of an epoch, after every rule that one keyring must keep.

    :raises RefusedInput: ``refused.keyid``, ``refused.weak-key``, ``refused.shared-key``, ``refused.key-range``,
        ``refused.base64``.
    :raises VerificationError: ``unverified.possession``.
    """
    entries = as_set(entries)
    owners: dict[str, str] = {root.raw.hex(): "root"}
    by_keyid: dict[str, tuple[KeyEntry, ...]] = {}
    for entry in entries:
        raw = bytes.fromhex(entry.public_key)
        if entry.keyid != fingerprint(raw):
            raise RefusedInput("refused.keyid", f"The key id {entry.keyid} is not the fingerprint of its key.")
        check_public_key(raw)
        if owners.setdefault(entry.public_key, entry.role) != entry.role:
            raise RefusedInput("refused.shared-key", f"One key serves {owners[entry.public_key]} and {entry.role}.")
        if entry.until_seq is not None and entry.until_seq < entry.from_seq:
            raise RefusedInput("refused.key-range", f"The key {entry.keyid} ends before it begins.")
        try:
            verifier.verify(raw, from_base64(entry.possession), possession_message(nonce, entry.role, entry.from_seq))
        except VerificationError as error:
            raise VerificationError(
                "unverified.possession", f"Nobody proved to hold the {entry.role} key {entry.keyid}."
            ) from error
        by_keyid[entry.keyid] = (*by_keyid.get(entry.keyid, ()), entry)
    return ValidKeys(epoch, entries, MappingProxyType(by_keyid))


def replace_keys(
    old: ValidKeys,
    entries: Iterable[KeyEntry],
    *,
    epoch: int,
    seq: int,
    root: PublicKey,
    nonce: str,
    verifier: Verifier,
) -> ValidKeys:
    """The keys after the keyring record at ``seq``: nothing forgotten, nothing changed in the past.

    :raises RefusedInput: ``refused.keyring-epoch``, ``refused.keyring-forgets``, ``refused.keyring-backdated``, and
        everything of :func:`open_keys`.
    :raises VerificationError: ``unverified.possession``.
    """
    if epoch != old.epoch + 1:
        raise RefusedInput("refused.keyring-epoch", f"Epoch {epoch} does not follow epoch {old.epoch}.")
    new = open_keys(entries, epoch=epoch, root=root, nonce=nonce, verifier=verifier)
    kept = {(entry.public_key, entry.from_seq): entry for entry in new.entries}
    known = {(entry.public_key, entry.from_seq) for entry in old.entries}
    for entry in old.entries:
        again = kept.get((entry.public_key, entry.from_seq))
        if again is None or again.role != entry.role:
            raise RefusedInput("refused.keyring-forgets", f"The new keyring leaves out the key {entry.keyid}.")
        if again.until_seq != entry.until_seq and (
            entry.until_seq is not None or again.until_seq is None or again.until_seq < seq
        ):
            raise RefusedInput("refused.keyring-backdated", f"The new keyring changes the past of {entry.keyid}.")
    for entry in new.entries:
        if (entry.public_key, entry.from_seq) not in known and entry.from_seq <= seq:
            raise RefusedInput("refused.keyring-backdated", f"The new key {entry.keyid} would sign the past.")
    return new
