"""Verification of a whole ledger as a stream, in flat memory. Pure: lines, checkpoints, head and pin come in.

Every check is named and ends as ``pass``, ``fail`` (with the first record and code) or ``not-shown`` (nothing was there
to check, or what it needs was not handed in). The outcome follows from them:

- ``failed``: a check failed;
- ``incomplete``: none failed, but something was not shown (a body elsewhere, a tail that no checkpoint covers);
- ``self-consistent``: everything passed, and nobody outside vouched for it, because no pin was given;
- ``verified``: everything passed, under a pinned root key or ledger id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from savant.contracts.document import Document, Sealed
from savant.contracts.envelope import PAYLOAD_TYPE, pae, parse_envelope
from savant.contracts.errors import RefusedInput, SavantError, VerificationError
from savant.contracts.registry import Registry
from savant.ledger.authority import Authority, advance, open_genesis
from savant.ledger.checkpoint import Checkpoint, verify_checkpoint
from savant.ledger.documents import Head, RootStatement
from savant.ledger.keyring import verify_role
from savant.ledger.merkle import Frontier, leaf_hash
from savant.ledger.port import ManyVerifier, SignedBytes
from savant.ledger.record import (
    MAX_LINE_BYTES,
    NO_PREVIOUS,
    Bodies,
    Statement,
    accept_body,
    line_digest,
    parse_statement,
)
from savant.ledger.report import (
    CHECKS,
    CheckName,
    CheckResult,
    Notes,
    Outcome,
    Pin,
    PinnedCheckpoint,
    VerificationReport,
    outcome_of,
)

__all__ = ["CHECKS", "CheckName", "CheckResult", "Outcome", "Pin", "PinnedCheckpoint", "VerificationReport"]
__all__ += ["split_lines", "verify_ledger"]

_SIGNATURES_AT_ONCE: Final = 256


class _Walk:
    """The state of one pass over the lines."""

    def __init__(
        self,
        checkpoints: Iterable[tuple[int, str]],
        head: Head | None,
        registry: Registry,
        pin: Pin,
        verifier: ManyVerifier,
        bodies: Bodies | None,
    ) -> None:
        self.notes = Notes()
        self.authority: Authority | None = None
        self.frontier = Frontier()
        self.previous = NO_PREVIOUS
        self.covered = 0
        self.recoveries: list[int] = []
        self._checkpoints = iter(checkpoints)
        self._next = next(self._checkpoints, None)
        self._last_size = 0
        self._signed: list[tuple[int, SignedBytes]] = []
        self._head = head
        self._registry = registry
        self._pin = pin
        self._verifier = verifier
        self._bodies = bodies
        self._claimed = {claim.size for claim in (head, pin.checkpoint) if claim is not None}

    def line(self, line: bytes) -> None:
        seq = self.frontier.size
        digest = line_digest(line)
        self._record(seq, line)
        self.frontier.append(leaf_hash(line))
        self.previous = digest
        if seq + 1 in self._claimed or (self._next is not None and self._next[0] <= seq + 1):
            self._heads(digest)

    def _record(self, seq: int, line: bytes) -> None:
        notes = self.notes
        notes.done("bytes")
        try:
            if len(line) > MAX_LINE_BYTES:
                raise RefusedInput("refused.record-too-large", f"A line has {len(line)} bytes.")
            payload, keyid, signature = parse_envelope(line)
        except RefusedInput as error:
            notes.fail("bytes", seq, error.code, error.message)
            return
        if seq == 0:
            self._genesis(line)
        if self.authority is not None:
            self._follow(self.authority, seq, payload, keyid, signature)

    def _genesis(self, line: bytes) -> None:
        notes = self.notes
        try:
            self.authority, _ = open_genesis(line, self._verifier)
        except (RefusedInput, VerificationError) as error:
            notes.fail("signatures" if error.code.startswith("unverified.") else "schema", 0, error.code, error.message)
            return
        pin, authority = self._pin, self.authority
        if pin.names_a_ledger:
            notes.done("pin")
        if pin.ledger is not None and pin.ledger != authority.ledger:
            notes.fail("pin", 0, "unverified.foreign-ledger", f"This is {authority.ledger}, not {pin.ledger}.")
        if pin.root_keyid is not None and pin.root_keyid != authority.root.keyid:
            notes.fail(
                "pin", 0, "unverified.foreign-root", f"The root is {authority.root.keyid}, not {pin.root_keyid}."
            )

    def _follow(self, authority: Authority, seq: int, payload: bytes, keyid: str, signature: bytes) -> None:
        notes = self.notes
        role = None
        notes.done("roles", "schema")
        try:
            entry = authority.keys.key_of(keyid, seq)
        except VerificationError as error:
            notes.fail("roles", seq, error.code, error.message)
        else:
            role = entry.role
            signed = bytes.fromhex(entry.public_key), signature, pae(PAYLOAD_TYPE, payload)
            self._signed.append((seq, signed))
            if len(self._signed) >= _SIGNATURES_AT_ONCE:
                self._signatures()
        try:
            statement = parse_statement(payload)
        except RefusedInput as error:
            notes.fail("schema", seq, error.code, error.message)
            return
        notes.done("chain")
        self._chain(authority, seq, statement)
        predicate = statement.predicate
        try:
            if role is not None and predicate.role != role:
                raise VerificationError("unverified.role", f"A key of {role!r} signed as {predicate.role!r}.")
            verify_role(predicate.role, predicate.body_kind)
        except VerificationError as error:
            notes.fail("roles", seq, error.code, error.message)
        body = self._body(seq, statement)
        if seq > 0 and body is not None and isinstance(body.document, RootStatement):
            self._root_statement(authority, seq, body.document)

    def _signatures(self) -> None:
        """Check the signatures that were put off: many at once are faster than one now and then."""
        items, self._signed = self._signed, []
        if items:
            self.notes.done("signatures")
        errors = self._verifier.check_many([item for _, item in items])
        for (seq, _), error in zip(items, errors, strict=True):
            if error is not None:
                self.notes.fail("signatures", seq, error.code, error.message)

    def _chain(self, authority: Authority, seq: int, statement: Statement) -> None:
        notes, position = self.notes, statement.predicate.ledger
        expected_id = authority.ledger if seq else None
        if position.id != expected_id:
            notes.fail("chain", seq, "unverified.foreign-record", f"Made for ledger {position.id}.")
        elif position.seq != seq:
            notes.fail("chain", seq, "unverified.sequence", f"Record {position.seq} stands at place {seq}.")
        elif position.prev != self.previous:
            notes.fail("chain", seq, "unverified.link", "The record before it is not the one it was made after.")
        elif position.epoch != authority.keys.epoch:
            notes.fail("chain", seq, "unverified.epoch", f"Epoch {position.epoch} instead of {authority.keys.epoch}.")

    def _body(self, seq: int, statement: Statement) -> Sealed[Document] | None:
        notes = self.notes
        by_reference = statement.predicate.body_ref
        if by_reference:
            notes.done("bodies")
        try:
            body = accept_body(statement, self._registry, self._bodies)
        except (RefusedInput, VerificationError) as error:
            notes.fail("bodies" if by_reference else "schema", seq, error.code, error.message)
            return None
        except SavantError as error:
            notes.missing("bodies", seq, "unverifiable.body-missing", error.message)
            return None
        if body is None:
            notes.missing("bodies", seq, "unverifiable.body-elsewhere", "The body lies outside and was not handed in.")
        return body

    def _root_statement(self, authority: Authority, seq: int, statement: RootStatement) -> None:
        try:
            self.authority = advance(authority, statement, seq=seq, prev=self.previous, verifier=self._verifier)
        except VerificationError as error:
            self.notes.fail("signatures", seq, error.code, error.message)
        except RefusedInput as error:
            self.notes.fail("schema", seq, error.code, error.message)
        else:
            if self.authority.keys is authority.keys:
                self.recoveries.append(seq)

    def _heads(self, digest: str) -> None:
        """Compare everything that was said about the tree at its present size."""
        notes, size = self.notes, self.frontier.size
        while self._next is not None and self._next[0] <= size:
            declared, note = self._next
            self._next = next(self._checkpoints, None)
            self._checkpoint(declared, note)
        pinned = self._pin.checkpoint
        if pinned is not None and pinned.size == size and pinned.root != self.frontier.root():
            notes.fail("consistency", size - 1, "unverified.pinned-root", "The tree is not the one that was pinned.")
        head = self._head
        if head is not None and head.size == size:
            self._saved_head(head, digest)

    def _saved_head(self, head: Head, digest: str) -> None:
        notes, size = self.notes, self.frontier.size
        if head.last != digest:
            notes.fail("head", size - 1, "unverified.head-differs", "The saved head names another record.")
        if self.authority is None:
            return
        try:
            checkpoint = self._open_checkpoint(self.authority, head.checkpoint, size)
        except (RefusedInput, VerificationError) as error:
            notes.fail("head", size - 1, error.code, error.message)
            return
        if checkpoint.root != self.frontier.root():
            notes.fail("head", size - 1, "unverified.root", "The checkpoint in the saved head has another root.")

    def _checkpoint(self, declared: int, note: str) -> None:
        notes, size = self.notes, self.frontier.size
        notes.done("checkpoint")
        if declared != size or declared <= self._last_size:
            notes.fail("checkpoint", size - 1, "unverified.checkpoint-order", "Checkpoints are not in order of size.")
            return
        if self.authority is None:
            notes.fail("checkpoint", size - 1, "unverified.no-genesis", "No genesis says whose checkpoint this is.")
            return
        try:
            checkpoint = self._open_checkpoint(self.authority, note, size)
        except (RefusedInput, VerificationError) as error:
            notes.fail("checkpoint", size - 1, error.code, error.message)
            return
        if self._last_size:
            notes.done("consistency")
        self._last_size = size
        is_last = self._next is None
        name: CheckName = "tree" if is_last else "consistency"
        notes.done(name)
        if checkpoint.root != self.frontier.root():
            notes.fail(name, size - 1, "unverified.root", f"The checkpoint of size {size} has another root.")
        else:
            self.covered = size

    def _open_checkpoint(self, authority: Authority, note: str, size: int) -> Checkpoint:
        checkpoint = verify_checkpoint(
            note, origin=authority.origin, public_raw=authority.keys.log_key(size - 1), verifier=self._verifier
        )
        if checkpoint.size != size:
            raise VerificationError(
                "unverified.checkpoint-size", f"A checkpoint of size {checkpoint.size} was filed under {size}."
            )
        return checkpoint

    def finish(self) -> VerificationReport:
        notes, size = self.notes, self.frontier.size
        self._signatures()
        if size == 0:
            notes.fail("chain", None, "unverified.empty", "The ledger holds no record.")
        if self._next is not None:
            notes.fail("checkpoint", size, "unverified.truncated", f"A checkpoint covers {self._next[0]} records.")
        elif self._last_size == 0:
            notes.fail("checkpoint", None, "unverified.no-checkpoint", "No checkpoint covers the ledger.")
        elif self._last_size < size:
            notes.missing(
                "checkpoint", self._last_size, "unverifiable.uncovered-tail", "No checkpoint covers the last records."
            )
        self._finish_head(size)
        pinned = self._pin.checkpoint
        if pinned is not None:
            notes.done("consistency")
            if pinned.size > size:
                notes.fail("consistency", size, "unverified.rolled-back", f"{pinned.size} records were pinned.")
        if self._pin.names_a_ledger and self.authority is None:
            notes.fail("pin", None, "unverified.foreign-ledger", "No genesis could be compared with the pin.")
        checks = tuple(notes.result(name) for name in CHECKS)
        authority = self.authority
        return VerificationReport(
            outcome=outcome_of(checks, self._pin),
            ledger=None if authority is None else authority.ledger,
            root_keyid=None if authority is None else authority.root.keyid,
            records=size,
            covered=self.covered,
            last=self.previous if size else None,
            root=self.frontier.root(),
            recoveries=tuple(self.recoveries),
            checks=checks,
        )

    def _finish_head(self, size: int) -> None:
        notes, head = self.notes, self._head
        if head is None:
            notes.fail("head", None, "unverified.head-missing", "The saved head of the ledger is missing.")
            return
        notes.done("head")
        if head.size > size:
            notes.fail("head", size, "unverified.shorter-than-head", f"The saved head names {head.size} records.")
        if self.authority is not None and head.ledger != self.authority.ledger:
            notes.fail("head", None, "unverified.foreign-head", "The saved head belongs to another ledger.")


def verify_ledger(
    lines: Iterable[bytes],
    checkpoints: Iterable[tuple[int, str]],
    head: Head | None,
    registry: Registry,
    pin: Pin | None,
    *,
    verifier: ManyVerifier,
    bodies: Bodies | None = None,
) -> VerificationReport:
    """Check every record, link, key, signature, root and head.

    :param lines: the records in order, without newlines.
    :param checkpoints: ``(size, note)`` in order of size.
    :param head: the saved head; None is a failure, because an attacker would remove it.
    :param pin: what is known from elsewhere; without it the best outcome is ``self-consistent``.
    :param bodies: where large bodies are; without it they are not shown.
    """
    walk = _Walk(checkpoints, head, registry, pin or Pin(), verifier, bodies)
    for line in lines:
        walk.line(line)
    return walk.finish()


def split_lines(data: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of chunks of a ``.intoto.jsonl`` file; each must end with a newline.

    :raises RefusedInput: ``refused.unterminated-line``, ``refused.record-too-large``.
    """
    rest = b""
    for chunk in data:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        if len(rest) > MAX_LINE_BYTES:
            raise RefusedInput("refused.record-too-large", "A line is longer than a record may be.")
    if rest:
        raise RefusedInput("refused.unterminated-line", "The last line does not end with a newline.")
