"""The documents of O5B, application. Where the target lies is an observation of the record, not part of a document."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from admission.documents import EnvelopeEntry, VerificationStatus
from runner.documents import PathChange
from savant.contracts.document import Document
from savant.contracts.scalars import Digest, GitId, NonEmptyText, PathText, Text

Disposition: TypeAlias = Literal["applied", "mismatch-kept", "mismatch-restored"]
OnMismatch: TypeAlias = Literal["keep", "restore"]
JournalPhase: TypeAlias = Literal["creating", "writing"]


class Request(Document, frozen=True, kw_only=True, tag="savant.candidateapply.request/v1"):
    """Exactly what may be written: the admitted candidate's three digests and its envelope."""

    admission_receipt_digest: Digest
    decision_digest: Digest
    candidate_digest: Digest
    base_commit: GitId
    input_digest: Digest
    change_digest: Digest
    final_digest: Digest
    envelope: tuple[EnvelopeEntry, ...]
    target: Literal["created", "existing"]
    on_mismatch: OnMismatch


class Receipt(Document, frozen=True, kw_only=True, tag="savant.candidateapply.receipt/v1"):
    """What was written, with the digests recomputed over the whole target from the file system. Never rewritten."""

    request_digest: Digest
    decision_digest: Digest
    candidate_digest: Digest
    disposition: Disposition
    input_digest: Digest
    observed_final_digest: Digest
    observed_change_digest: Digest
    applied_paths: tuple[PathText, ...]
    detail: Text


class VerificationRecord(Document, frozen=True, kw_only=True, tag="savant.candidateapply.verification-record/v1"):
    """One verification bound to one application. There may be many; none rewrites the application's receipt."""

    application_receipt_digest: Digest
    decision_digest: Digest
    candidate_digest: Digest
    verification_digest: Digest
    status: VerificationStatus
    observed_change_digest: Digest | None


class UndoReceipt(Document, frozen=True, kw_only=True, tag="savant.candidateapply.undo-receipt/v1"):
    """The base was restored in the target of one application, byte for byte."""

    application_receipt_digest: Digest
    candidate_digest: Digest
    restored_digest: Digest
    restored_paths: tuple[PathText, ...]


class Journal(Document, frozen=True, kw_only=True, tag="savant.candidateapply.journal/v1"):
    """What is being written where. It exists while a target may be half-written; never a record of the ledger.

    ``writes`` is the change in this direction: an undo's is the application's turned round. ``receipt_digest`` is the
    application that an undo undoes. In the phase ``creating`` the target is being made and holds nothing of the
    candidate yet; ``entry`` is the entry under ``worktrees/`` that it gets, empty for a target that existed before.
    """

    action: Literal["apply", "undo"]
    phase: JournalPhase
    target: NonEmptyText
    entry: Text
    request: Request
    receipt_digest: Digest | None
    expected_before: Digest
    expected_after: Digest
    writes: tuple[PathChange, ...]


class Marker(Document, frozen=True, kw_only=True, tag="savant.candidateapply.marker/v1"):
    """A target that an application has consumed, until it is undone."""

    target: NonEmptyText
    candidate_digest: Digest
    request_digest: Digest


DOCUMENTS: Final[tuple[type[Document], ...]] = (Request, Receipt, VerificationRecord, UndoReceipt, Journal, Marker)
