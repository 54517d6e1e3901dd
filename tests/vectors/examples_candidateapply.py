"""One example document of each kind of application: the candidate of admission's examples, applied, seen and undone."""

from __future__ import annotations

from admission.documents import Decision, Verification
from admission.documents import Receipt as AdmissionReceipt
from admission.documents import Request as AdmissionRequest
from candidateapply.documents import Journal, Marker, Receipt, Request, UndoReceipt, VerificationRecord
from candidateapply.plan import in_order
from runner.documents import PathChange
from savant.contracts.document import Document, digest_of, kind_of
from tests.vectors.examples_admission import examples as admission_examples


def examples() -> dict[str, Document]:
    """The documents by kind: they fit each other and admission's examples."""
    by_type = {type(document): document for document in admission_examples().values()}
    asked, decision, admitted = by_type[AdmissionRequest], by_type[Decision], by_type[AdmissionReceipt]
    assert isinstance(asked, AdmissionRequest)
    assert isinstance(decision, Decision)
    request = Request(
        admission_receipt_digest=digest_of(admitted),
        decision_digest=digest_of(decision),
        candidate_digest=decision.candidate_digest,
        base_commit=asked.base_commit,
        input_digest=asked.input_digest,
        change_digest=asked.change_digest,
        final_digest=asked.final_digest,
        envelope=decision.envelope,
        target="created",
        on_mismatch="keep",
    )
    receipt = Receipt(
        request_digest=digest_of(request),
        decision_digest=request.decision_digest,
        candidate_digest=request.candidate_digest,
        disposition="applied",
        input_digest=request.input_digest,
        observed_final_digest=request.final_digest,
        observed_change_digest=request.change_digest,
        applied_paths=tuple(entry.path for entry in asked.scope),
        detail="",
    )
    verification = Verification(
        decision_digest=request.decision_digest,
        candidate_digest=request.candidate_digest,
        application_receipt_digest=digest_of(receipt),
        status="scope-compliant",
        head_commit=request.base_commit,
        observed_final_digest=request.final_digest,
        observed_change_digest=request.change_digest,
        violations=(),
    )
    record = VerificationRecord(
        application_receipt_digest=digest_of(receipt),
        decision_digest=request.decision_digest,
        candidate_digest=request.candidate_digest,
        verification_digest=digest_of(verification),
        status=verification.status,
        observed_change_digest=verification.observed_change_digest,
    )
    undone = UndoReceipt(
        application_receipt_digest=digest_of(receipt),
        candidate_digest=request.candidate_digest,
        restored_digest=request.input_digest,
        restored_paths=receipt.applied_paths,
    )
    target = "/home/ada/shop-savant-3f2a91c0"
    journal = Journal(
        action="apply",
        phase="creating",
        target=target,
        entry="/home/ada/shop/.git/worktrees/shop-savant-3f2a91c0",
        request=request,
        receipt_digest=None,
        expected_before=request.input_digest,
        expected_after=request.final_digest,
        writes=in_order(PathChange(path=e.path, before=e.before, after=e.after) for e in asked.scope),
    )
    marker = Marker(target=target, candidate_digest=request.candidate_digest, request_digest=digest_of(request))
    documents: tuple[Document, ...] = (request, receipt, record, undone, journal, marker)
    return {kind_of(document): document for document in documents}
