"""The append path: the only code that makes records and checkpoints.

Reading the head, building, signing, inserting and committing are one transaction. A checkpoint is signed only after the
lines in the store were hashed again and led to the root of the previous one. The saved head moves forward at each
checkpoint, inside the store's lock, and it is written only for records that are already committed: so after a crash the
store may be longer than the head, never shorter. A store that is shorter or different refuses to append.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Final

from savant.contracts.document import Document, Sealed, kind_of
from savant.contracts.envelope import parse_envelope
from savant.contracts.errors import (
    CommittedButIncomplete,
    Conflict,
    SavantError,
    Unverifiable,
    UsageError,
    VerificationError,
)
from savant.contracts.registry import Registry
from savant.contracts.signing import Signer
from savant.ledger.authority import Authority, advance, open_genesis, own_signers, verify_pin
from savant.ledger.checkpoint import Checkpoint, parse_checkpoint, sign_checkpoint, verify_checkpoint
from savant.ledger.documents import Head, Recovery, Role, RootStatement, RunClose
from savant.ledger.head import (
    HeadProblem,
    check_head,
    encode_head,
    is_superseded,
    parse_head,
    recovery_document,
    recovery_in,
)
from savant.ledger.keyring import verify_role
from savant.ledger.merkle import Frontier, leaf_hash
from savant.ledger.port import ManyVerifier, Source, Store, Tail, Transaction
from savant.ledger.record import (
    Bodies,
    Draft,
    Observed,
    Position,
    RecordRef,
    accept_inline,
    line_digest,
    make_line,
    must_reference,
    parse_statement,
)
from savant.ledger.report import Pin, VerificationReport
from savant.ledger.verify import verify_ledger

CHECKPOINT_EVERY: Final = 256
"""Records between two checkpoints, at most."""


_COVERED_AT_ONCE: Final = (RunClose, RootStatement)
"""Documents that a checkpoint follows without waiting for the next one."""


class Mode(Enum):
    """What a failed append means for a run."""

    OFF = "off"
    """Nothing is recorded: display only, no resume and no apply."""
    RECORD = "record"
    """Sign and append; a failure is counted and shown in the terminal receipt."""
    ENFORCE = "enforce"
    """No effect without a durable record before it: a failure stops the run."""


class Ledger:
    """One ledger, open for appending. Safe from any thread; other processes may append to the same store."""

    def __init__(
        self,
        store: Store,
        signers: Mapping[Role, Signer],
        *,
        verifier: ManyVerifier,
        bodies: Bodies | None = None,
        pin: Pin | None = None,
        is_recovering: bool = False,
    ) -> None:
        """Open an existing ledger.

        :param signers: the keys at hand by role; each must be in the keyring for its role.
        :param bodies: where bodies go that do not fit into a line; without it they are refused.
        :param pin: what the person's configuration says about this ledger.
        :param is_recovering: do not compare with the saved head yet; every append still does.
        :raises Unverifiable: ``unverifiable.no-ledger``, ``unverifiable.key-missing``.
        :raises RefusedInput: ``refused.foreign-key``; a malformed genesis or root statement.
        :raises VerificationError: a genesis or root statement that does not verify.
        :raises Conflict: ``conflict.foreign-ledger``, ``conflict.ledger-shorter``, ``conflict.ledger-different``,
            ``conflict.head-missing``, ``conflict.head-damaged``.
        """
        self._store = store
        self._verifier = verifier
        self._bodies = bodies
        self._lock = threading.RLock()
        self._frontier = Frontier()
        self._seen_head: bytes | None = None
        self._checkpointed = 0
        with self._transaction() as transaction:
            first = transaction.line(0)
            if first is None:
                raise Unverifiable(
                    "unverifiable.no-ledger", "The ledger holds no record.", fix="Create it: savant synthesis-run"
                )
            tail = transaction.tail()
            self._authority, _ = open_genesis(first, verifier)
            self._known_size = 1
            verify_pin(self._authority, pin)
            self._follow_authority(tail.size)
            self._signers = own_signers(self._authority, signers, tail.size)
            if not is_recovering:
                self._verify_head(transaction, tail)

    @property
    def ledger_id(self) -> str:
        """The digest of the genesis line."""
        return self._authority.ledger

    @property
    def authority(self) -> Authority:
        """The genesis, the root and the keys in force."""
        return self._authority

    @property
    def pin(self) -> Pin:
        """What a person's configuration should remember of this ledger."""
        return Pin(ledger=self._authority.ledger, root_keyid=self._authority.root.keyid)

    def append(
        self,
        role: Role,
        body: Sealed[Document],
        *,
        run: str | None,
        observed: Observed,
        candidate_raw: bytes | None = None,
    ) -> RecordRef:
        """Sign a document as a role and add it durably. A checkpoint follows every 256 records and each run-close.

        :param candidate_raw: the bytes of the sealed candidate document that the body is about.
        :raises VerificationError: ``unverified.role``, and for root statements what they break.
        :raises Unverifiable: ``unverifiable.key-missing`` when this role's key is not here.
        :raises Conflict: ``conflict.ledger-shorter``, ``conflict.ledger-different``, ``conflict.head-missing``.
        :raises RefusedInput: ``refused.record-too-large``.
        :raises PortError: when the store fails; nothing was appended.
        :raises CommittedButIncomplete: ``incomplete.checkpoint``: the record is there, its checkpoint is not.
        """
        verify_role(role, kind_of(body.document))
        if isinstance(body.document, RootStatement) and recovery_in(body.document) is not None:
            raise UsageError("usage.recovery", "A recovery is appended by recover().")
        with self._lock:
            with self._transaction() as transaction:
                tail = transaction.tail()
                self._verify_head(transaction, tail)
                reference, authority = self._insert(transaction, tail, role, body, run, observed, candidate_raw)
            self._committed(reference, authority)
            is_due = reference.seq + 1 - self._checkpointed >= CHECKPOINT_EVERY
            if is_due or isinstance(body.document, _COVERED_AT_ONCE):
                self._follow_up(reference)
            return reference

    def _follow_up(self, reference: RecordRef) -> None:
        try:
            self.checkpoint()
        except SavantError as error:
            raise CommittedButIncomplete(
                "incomplete.checkpoint",
                f"Record {reference.seq} is kept, but its checkpoint failed: {error.message}",
                fix="The next command makes the checkpoint; do not repeat this one.",
            ) from error

    def checkpoint(self) -> Checkpoint:
        """A checkpoint that covers every record, newly signed or the last one. Ask before a verdict is returned.

        :raises VerificationError: ``unverified.consistency`` when the lines no longer lead to the last checkpoint.
        :raises Conflict: as :meth:`append`; ``conflict.ledger-gap`` when a record is missing in the middle.
        :raises PortError: when the store fails.
        """
        with self._lock, self._transaction() as transaction:
            tail = transaction.tail()
            self._verify_head(transaction, tail)
            raw = transaction.read_head()
            return self._checkpoint(transaction, tail, None if raw is None else parse_head(raw))

    def recovery_statement(self, reason: str) -> Sealed[Recovery]:
        """The document whose exact bytes the root has to sign before this store may be appended to again."""
        with self._transaction() as transaction:
            return recovery_document(self.ledger_id, transaction.tail(), transaction.read_head(), reason)

    def recover(self, body: Sealed[RootStatement], *, observed: Observed) -> RecordRef:
        """Append a root-signed recovery, forget the checkpoints of what was lost, and make a new one.

        :raises VerificationError: ``unverified.foreign-statement`` when it does not name the present store and head.
        :raises Conflict: ``conflict.nothing-lost`` when the store extends its head.
        :raises CommittedButIncomplete: ``incomplete.checkpoint``.
        """
        with self._lock:
            with self._transaction() as transaction:
                tail, raw = transaction.tail(), transaction.read_head()
                if self._head_problem(transaction, tail, raw) is None:
                    raise Conflict("conflict.nothing-lost", "The ledger holds everything that its head names.")
                recovery = recovery_in(body.document)
                if (
                    recovery is None
                    or recovery != recovery_document(self.ledger_id, tail, raw, recovery.reason).document
                ):
                    raise VerificationError(
                        "unverified.foreign-statement", "The recovery does not name this store and this head."
                    )
                reference, authority = self._insert(transaction, tail, "log", body, None, observed, None)
                self._void_lost(transaction, tail)
            self._committed(reference, authority)
            self._follow_up(reference)
            return reference

    def _void_lost(self, transaction: Transaction, tail: Tail) -> None:
        """Forget the checkpoints that the lines in the store do not lead to."""
        frontier = Frontier()
        lines = self._store.lines(0, tail.size)
        for size, note in list(self._store.checkpoints()):
            while frontier.size < size and (line := next(lines, None)) is not None:
                frontier.append(leaf_hash(line))
            if frontier.size != size or parse_checkpoint(note).root != frontier.root():
                transaction.void_checkpoint(size)
        self._frontier = Frontier()

    def verify(self, registry: Registry, pin: Pin | None = None) -> VerificationReport:
        """Verify everything that is in the store now."""
        return verify_store(self._store, registry, pin, verifier=self._verifier, bodies=self._bodies)

    def close(self) -> None:
        """Close the store. Idempotent."""
        self._store.close()

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        with self._lock, self._store.transaction() as transaction:
            yield transaction

    def _insert(
        self,
        transaction: Transaction,
        tail: Tail,
        role: Role,
        body: Sealed[Document],
        run: str | None,
        observed: Observed,
        candidate_raw: bytes | None,
    ) -> tuple[RecordRef, Authority]:
        if tail.size != self._known_size:
            self._follow_authority(tail.size)
        authority = self._authority
        signer = self._signer(role, tail.size)
        previous = line_digest(tail.line)
        statement = body.document if isinstance(body.document, RootStatement) else None
        if statement is not None:
            authority = advance(authority, statement, seq=tail.size, prev=previous, verifier=self._verifier)
        position = Position(id=self._authority.ledger, seq=tail.size, prev=previous, epoch=self._authority.keys.epoch)
        draft = Draft(position, role, run, observed, body, candidate_raw, must_reference(len(body.raw)))
        line = make_line(draft, signer, self._bodies)
        transaction.insert(tail.size, line, is_authority=statement is not None)
        return RecordRef(tail.size, line_digest(line)), authority

    def _committed(self, reference: RecordRef, authority: Authority) -> None:
        self._known_size = reference.seq + 1
        self._authority = authority

    def _signer(self, role: Role, seq: int) -> Signer:
        signer = self._signers.get(role)
        if signer is None:
            raise Unverifiable(
                "unverifiable.key-missing",
                f"The {role} key of this ledger is not here.",
                untouched="Nothing was appended.",
                fix="Run where the key is, or let the root add a new one.",
            )
        self._authority.keys.key_of(signer.keyid, seq)
        return signer

    def _follow_authority(self, size: int) -> None:
        """Apply the root statements that others appended up to ``size``."""
        for seq in self._store.authority_records(self._known_size):
            before, line = self._store.lines(seq - 1, seq + 1)
            payload, _, _ = parse_envelope(line)
            statement = accept_inline(parse_statement(payload), RootStatement)
            if statement is None:
                raise Conflict("conflict.ledger-different", f"Record {seq} is not the root statement it is marked as.")
            self._authority = advance(
                self._authority, statement, seq=seq, prev=line_digest(before), verifier=self._verifier
            )
        self._known_size = size

    def _verify_head(self, transaction: Transaction, tail: Tail) -> None:
        raw = transaction.read_head()
        if raw is not None and raw == self._seen_head and tail.size >= self._checkpointed:
            return
        problem = self._head_problem(transaction, tail, raw)
        if problem is not None and not is_superseded(raw, tail):
            raise problem.conflict()
        head = None if raw is None or problem is not None else parse_head(raw)
        if head is None:  # only a genesis so far, or a recovery that a crash cut off from its checkpoint
            self._checkpoint(transaction, tail, None)
        else:
            self._seen_head, self._checkpointed = raw, head.size

    def _head_problem(self, transaction: Transaction, tail: Tail, raw: bytes | None) -> HeadProblem | None:
        head = None if raw is None else parse_head(raw)
        at_head = None if head is None else transaction.line(head.size - 1)
        return check_head(raw, self.ledger_id, tail, at_head)

    def _checkpoint(self, transaction: Transaction, tail: Tail, head: Head | None) -> Checkpoint:
        """Sign for records that are committed already: nothing was inserted in this transaction yet."""
        if tail.size != self._known_size:
            self._follow_authority(tail.size)
        last = self._last_checkpoint(transaction, head)
        self._extend(0 if last is None else last.size, tail, last)
        checkpoint = last
        if checkpoint is None or checkpoint.size != tail.size:
            signer = self._signer("log", tail.size - 1)
            checkpoint = sign_checkpoint(signer, self._authority.origin, tail.size, self._frontier.root())
        transaction.insert_checkpoint(checkpoint.size, checkpoint.note)
        raw = encode_head(self.ledger_id, tail, checkpoint.note)
        if raw != self._seen_head:
            transaction.write_head(raw)
        self._seen_head, self._checkpointed = raw, tail.size
        return checkpoint

    def _last_checkpoint(self, transaction: Transaction, head: Head | None) -> Checkpoint | None:
        """The largest checkpoint we signed: the store's, or the head's when a crash kept it from the store."""
        stored = transaction.last_checkpoint()
        notes = [] if stored is None else [stored[1]]
        if head is not None:
            notes.append(head.checkpoint)
        return max((self._open_checkpoint(note) for note in notes), key=lambda c: c.size, default=None)

    def _open_checkpoint(self, note: str) -> Checkpoint:
        seq = max(parse_checkpoint(note).size - 1, 0)
        authority = self._authority
        return verify_checkpoint(
            note, origin=authority.origin, public_raw=authority.keys.log_key(seq), verifier=self._verifier
        )

    def _extend(self, last_size: int, tail: Tail, last: Checkpoint | None) -> None:
        """Hash the lines that are new to this process, and compare the root at the last checkpoint on the way."""
        if self._frontier.size > last_size:  # a recovery voided what was hashed before
            self._frontier = Frontier()
        frontier = self._frontier
        for line in self._store.lines(frontier.size, tail.size):
            if frontier.size == last_size:
                _verify_root(frontier, last)
            frontier.append(leaf_hash(line))
        if frontier.size == last_size:
            _verify_root(frontier, last)
        if frontier.size != tail.size:
            raise Conflict("conflict.ledger-gap", "A record in the middle of the ledger is missing.")


def verify_store(
    store: Store, registry: Registry, pin: Pin | None, *, verifier: ManyVerifier, bodies: Bodies | None = None
) -> VerificationReport:
    """Verify what a store holds now; records that arrive meanwhile are not looked at."""
    with store.transaction() as transaction:
        size, raw = transaction.tail().size, transaction.read_head()
        checkpoints = tuple(store.checkpoints())
    head = None if raw is None else parse_head(raw)
    return verify_ledger(store.lines(0, size), checkpoints, head, registry, pin, verifier=verifier, bodies=bodies)


def verify_source(
    source: Source, registry: Registry, pin: Pin | None, *, verifier: ManyVerifier, bodies: Bodies | None = None
) -> VerificationReport:
    """Verify everything that a source holds."""
    raw = source.read_head()
    lines = source.lines(0, source.tail().size)
    head = None if raw is None else parse_head(raw)
    return verify_ledger(lines, source.checkpoints(), head, registry, pin, verifier=verifier, bodies=bodies)


def _verify_root(frontier: Frontier, last: Checkpoint | None) -> None:
    if last is not None and frontier.root() != last.root:
        raise VerificationError(
            "unverified.consistency", f"The lines no longer lead to the checkpoint of size {last.size}."
        )
