"""The authority over one ledger: its genesis, its root and the keys in force, followed record by record. Pure.

Authority comes from the root's SSH signature over a statement's text, never from the envelope around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, tee
from types import MappingProxyType
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from savant.contracts.document import Document, accept
from savant.contracts.envelope import PAYLOAD_TYPE, pae, parse_envelope
from savant.contracts.errors import Conflict, RefusedInput, Unverifiable, VerificationError
from savant.contracts.registry import Registry
from savant.contracts.scalars import as_set
from savant.contracts.signing import Signer, Verifier
from savant.ledger.checkpoint import origin_of
from savant.ledger.documents import Continues, Genesis, KeyEntry, Keyring, Recovery, Role, RootStatement
from savant.ledger.keyring import ValidKeys, open_keys, replace_keys, verify_role
from savant.ledger.record import NO_PREVIOUS, Statement, accept_body, accept_inline, line_digest, parse_statement
from savant.ledger.report import Pin
from savant.ledger.sshkey import PublicKey, parse_public_line
from savant.ledger.sshsig import verify_sshsig

GENESIS_NAMESPACE: Final = "genesis-v1@savant"
KEYRING_NAMESPACE: Final = "keyring-v1@savant"
RECOVERY_NAMESPACE: Final = "recovery-v1@savant"

_NAMESPACES: Final[Mapping[type[Document], str]] = MappingProxyType(
    {Keyring: KEYRING_NAMESPACE, Recovery: RECOVERY_NAMESPACE}
)
_genesis_registry: Final = Registry((RootStatement,))
_statement_registry: Final = Registry((Genesis, Keyring, Recovery))


class Authority(msgspec.Struct, frozen=True):
    """What is known for certain about a ledger after some of its records."""

    ledger: str
    genesis: Genesis
    root: PublicKey
    keys: ValidKeys

    @property
    def origin(self) -> str:
        """The origin of its checkpoints."""
        return self.genesis.origin


def genesis_document(
    nonce: str, root_key: str, entries: Iterable[KeyEntry], continues: Continues | None = None
) -> Genesis:
    """The genesis document of a new ledger."""
    return Genesis(
        nonce=nonce, origin=origin_of(nonce), root_key=root_key, keyring=as_set(entries), continues=continues
    )


def open_genesis_statement(statement: RootStatement, verifier: Verifier) -> tuple[Genesis, PublicKey, ValidKeys]:
    """The genesis that a root signed, its root, and the keys of epoch 0.

    :raises RefusedInput: a document, key or signature that is malformed; ``refused.origin``.
    :raises VerificationError: ``unverified.sshsig-key``, ``unverified.signature``, ``unverified.possession``.
    """
    raw = statement.statement.encode("utf-8")
    genesis = accept(raw, Genesis).document
    root = parse_public_line(genesis.root_key)
    verify_sshsig(statement.sshsig, raw, namespace=GENESIS_NAMESPACE, public=root, verifier=verifier)
    if genesis.origin != origin_of(genesis.nonce):
        raise RefusedInput("refused.origin", "The origin of the ledger does not carry its nonce.")
    keys = open_keys(genesis.keyring, epoch=0, root=root, nonce=genesis.nonce, verifier=verifier)
    return genesis, root, keys


def open_genesis(line: bytes, verifier: Verifier) -> tuple[Authority, Statement]:
    """The authority that the first line establishes, and its statement.

    :raises RefusedInput: for a malformed line; ``refused.genesis`` when it is not the beginning of a ledger.
    :raises VerificationError: a signature, role or position that is wrong.
    """
    payload, keyid, signature = parse_envelope(line)
    statement = parse_statement(payload)
    position = statement.predicate.ledger
    is_beginning = (position.id, position.seq, position.prev, position.epoch) == (None, 0, NO_PREVIOUS, 0)
    body = accept_body(statement, _genesis_registry, None) if is_beginning else None
    if body is None:
        raise RefusedInput("refused.genesis", "The first record is not the beginning of a ledger.")
    genesis, root, keys = open_genesis_statement(cast("RootStatement", body.document), verifier)
    entry = keys.key_of(keyid, 0)
    verify_role(entry.role, statement.predicate.body_kind)
    if statement.predicate.role != entry.role:
        raise VerificationError("unverified.role", "The first record is signed by a key of another role.")
    verifier.verify(bytes.fromhex(entry.public_key), signature, pae(PAYLOAD_TYPE, payload))
    return Authority(line_digest(line), genesis, root, keys), statement


def root_statements(lines: Iterable[bytes]) -> Iterator[tuple[int, str, RootStatement]]:
    """What the root signed in a ledger: the record's number, the digest of the line before it, the statement.

    Nothing is verified. Errors as parsing a line.
    """
    previous = NO_PREVIOUS
    for seq, line in enumerate(lines):
        payload, _, _ = parse_envelope(line)
        statement = accept_inline(parse_statement(payload), RootStatement)
        if statement is not None:
            yield seq, previous, statement
        previous = line_digest(line)


def authority_of(lines: Iterable[bytes], verifier: Verifier) -> Authority:
    """The authority over a ledger at the end of its lines; only what its root signed is verified.

    :raises RefusedInput: a malformed line or statement. :raises VerificationError: a statement that does not verify.
    :raises Unverifiable: ``unverifiable.no-ledger`` without a line.
    """
    authority: Authority | None = None
    before, after = tee(lines)
    for line in islice(before, 1):
        authority = open_genesis(line, verifier)[0]
    if authority is None:
        raise Unverifiable(
            "unverifiable.no-ledger",
            "The ledger holds no record.",
            untouched="Nothing was written.",
            fix="Name a ledger or a bundle that has records: --ledger PATH",
        )
    for seq, previous, statement in root_statements(after):
        if seq > 0:
            authority = advance(authority, statement, seq=seq, prev=previous, verifier=verifier)
    return authority


def advance(authority: Authority, statement: RootStatement, *, seq: int, prev: str, verifier: Verifier) -> Authority:
    """The authority after a root statement at record ``seq``, whose previous line has the digest ``prev``.

    :raises RefusedInput: a malformed statement; ``refused.root-statement`` for a kind that cannot stand here; a keyring
        that breaks a rule (:func:`savant.ledger.keyring.replace_keys`).
    :raises VerificationError: a signature that is not the root's; ``unverified.foreign-statement`` for one that was
        made for another ledger or another place.
    """
    raw = statement.statement.encode("utf-8")
    document = _statement_registry.accept(raw).document
    namespace = _NAMESPACES.get(type(document))
    if namespace is None:
        raise RefusedInput("refused.root-statement", "A second genesis cannot stand inside a ledger.")
    verify_sshsig(statement.sshsig, raw, namespace=namespace, public=authority.root, verifier=verifier)
    if isinstance(document, Keyring):
        _verify_place(document.ledger == authority.ledger)
        keys = replace_keys(
            authority.keys,
            document.entries,
            epoch=document.epoch,
            seq=seq,
            root=authority.root,
            nonce=authority.genesis.nonce,
            verifier=verifier,
        )
        return replace(authority, keys=keys)
    recovery = cast("Recovery", document)
    _verify_place((recovery.ledger, recovery.store_size, recovery.store_last) == (authority.ledger, seq, prev))
    return authority


def _verify_place(is_here: bool) -> None:
    if not is_here:
        raise VerificationError(
            "unverified.foreign-statement", "The root statement was made for another ledger or another place in it."
        )


def verify_pin(authority: Authority, pin: Pin | None) -> None:
    """Return if the ledger is the one that a person's configuration names, or if it names none.

    :raises Conflict: ``conflict.foreign-ledger``.
    """
    if pin is not None and (
        pin.ledger not in (None, authority.ledger) or pin.root_keyid not in (None, authority.root.keyid)
    ):
        raise Conflict(
            "conflict.foreign-ledger",
            f"This is the ledger {authority.ledger}, not the one your configuration names.",
            untouched="Nothing was read into a run or written.",
            fix="If the ledger was replaced on purpose, remove its pin from your configuration.",
        )


def own_signers(authority: Authority, signers: Mapping[Role, Signer], seq: int) -> Mapping[Role, Signer]:
    """The signers, if each has a key of its role that is valid for record ``seq``.

    :raises RefusedInput: ``refused.foreign-key``.
    """
    for role, signer in signers.items():
        keys = [bytes.fromhex(entry.public_key) for entry in authority.keys.keys_of(role, seq)]
        if signer.public_raw not in keys:
            raise RefusedInput(
                "refused.foreign-key",
                f"The {role} key {signer.keyid} is not in the keyring of this ledger.",
                untouched="Nothing was appended.",
                fix="Use the keys that belong to this ledger, or let the root add this key.",
            )
    return MappingProxyType(dict(signers))
