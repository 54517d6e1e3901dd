"""The saved head: what a store must still hold. Pure.

A store that is shorter than its head, or different from it, lost something or was rolled back. Appending would launder
the loss under a fresh checkpoint, so it is refused until the root signs a recovery that names exactly that head.
"""

from __future__ import annotations

from typing import Final

import msgspec

from savant.contracts.canonical import encode_struct
from savant.contracts.document import Sealed, accept, seal
from savant.contracts.envelope import parse_envelope
from savant.contracts.errors import Conflict, RefusedInput
from savant.ledger.documents import Head, Recovery, RootStatement
from savant.ledger.port import Tail
from savant.ledger.record import accept_inline, line_digest, parse_statement

_UNTOUCHED: Final = "Nothing was appended."
_FIX: Final = "Find out what happened, then let the root key sign a recovery statement for this ledger."


class HeadProblem(msgspec.Struct, frozen=True):
    """Why a store may not be appended to: a code without its family, and a sentence."""

    code: str
    message: str

    def conflict(self) -> Conflict:
        """The refusal."""
        return Conflict(f"conflict.{self.code}", self.message, untouched=_UNTOUCHED, fix=_FIX)


def parse_head(raw: bytes) -> Head | None:
    """The saved head, or None when its file is damaged."""
    try:
        return accept(raw, Head).document
    except RefusedInput:
        return None


def encode_head(ledger: str, tail: Tail, note: str) -> bytes:
    """The bytes of the head file for a store that ends so."""
    return encode_struct(Head(ledger=ledger, size=tail.size, last=line_digest(tail.line), checkpoint=note))


def check_head(raw: bytes | None, ledger: str, tail: Tail, line_at_head: bytes | None) -> HeadProblem | None:
    """What is wrong with a store, seen from its saved head; None when it extends the head.

    :param raw: the head file, None when there is none: fine only while the genesis stands alone.
    :param line_at_head: the line that the head calls the last one, None when the store lacks it.
    """
    if raw is None:
        return HeadProblem("head-missing", "The saved head of the ledger is gone.") if tail.size > 1 else None
    head = parse_head(raw)
    if head is None:
        return HeadProblem("head-damaged", "The saved head of the ledger is damaged.")
    if head.ledger != ledger:
        return HeadProblem("foreign-ledger", "The saved head belongs to another ledger.")
    if tail.size < head.size:
        return HeadProblem("ledger-shorter", f"The ledger has {tail.size} records, but {head.size} were there before.")
    if line_at_head is None or line_digest(line_at_head) != head.last:
        return HeadProblem("ledger-different", f"Record {head.size - 1} is not the one that was there before.")
    return None


def recovery_document(ledger: str, tail: Tail, raw: bytes | None, reason: str) -> Sealed[Recovery]:
    """What the root has to sign before a store that ends so, beside this head file, may grow again."""
    head = None if raw is None else parse_head(raw)
    return seal(
        Recovery(
            ledger=ledger,
            store_size=tail.size,
            store_last=line_digest(tail.line),
            lost_size=None if head is None else head.size,
            lost_last=None if head is None else head.last,
            reason=reason,
        )
    )


def recovery_in(statement: RootStatement) -> Recovery | None:
    """The recovery that a root statement carries, or None when it carries something else."""
    try:
        return accept(statement.statement.encode("utf-8"), Recovery).document
    except RefusedInput:
        return None


def is_superseded(raw: bytes | None, tail: Tail) -> bool:
    """Whether the last record is a recovery that names exactly this head (its checkpoint did not follow yet)."""
    payload, _, _ = parse_envelope(tail.line)
    body = accept_inline(parse_statement(payload), RootStatement)
    recovery = None if body is None else recovery_in(body)
    if recovery is None:
        return False
    head = None if raw is None else parse_head(raw)
    lost = (None, None) if head is None else (head.size, head.last)
    return (recovery.lost_size, recovery.lost_last) == lost
