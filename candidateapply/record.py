"""Verification of a target, bound to one application as a record of its own. It never rewrites a receipt."""

from __future__ import annotations

from pathlib import Path

import msgspec

from admission.documents import Decision, Verification
from admission.verify import verify_target
from candidateapply.documents import Receipt, VerificationRecord
from candidateapply.observing import Observed, observe
from runner.documents import Candidate
from runner.snapshot import BaseSnapshot
from savant.contracts.document import Document, Sealed, digest_of, seal
from savant.contracts.errors import PortError, RefusedInput, Unverifiable, VerificationError
from savant.repository.git import Repository


class Verified(msgspec.Struct, frozen=True):
    """What was seen, and the record that binds it to an application."""

    verification: Sealed[Verification]
    record: Sealed[VerificationRecord]


def verify_application(
    decision: Sealed[Decision],
    candidate: Sealed[Candidate],
    receipt: Sealed[Receipt],
    base: BaseSnapshot,
    target: Path,
    *,
    git: Path,
) -> Verified:
    """Look at a target independently: every byte read again, HEAD asked again.

    :raises RefusedInput: ``refused.verify-lineage`` when receipt, decision and candidate do not belong together.
    """
    _refuse_lineage(decision, candidate, receipt, base)
    observed = _observe(target, base)
    verification = seal(
        verify_target(
            decision,
            candidate,
            receipt.digest,
            base=base.manifest,
            observed=None if observed is None else observed.manifest,
            observed_change_digest=None if observed is None else observed.change.digest,
            head_commit=_head(target, git),
        )
    )
    return Verified(
        verification,
        seal(
            VerificationRecord(
                application_receipt_digest=receipt.digest,
                decision_digest=decision.digest,
                candidate_digest=candidate.digest,
                verification_digest=verification.digest,
                status=verification.document.status,
                observed_change_digest=verification.document.observed_change_digest,
            )
        ),
    )


def _refuse_lineage(
    decision: Sealed[Decision], candidate: Sealed[Candidate], receipt: Sealed[Receipt], base: BaseSnapshot
) -> None:
    sealed: tuple[Sealed[Document], ...] = (decision, candidate, receipt)
    named = (receipt.document.decision_digest, receipt.document.candidate_digest, decision.document.candidate_digest)
    if (
        any(item.digest != digest_of(item.document) for item in sealed)
        or named != (decision.digest, candidate.digest, candidate.digest)
        or base.manifest.digest != candidate.document.input_digest
    ):
        raise RefusedInput(
            "refused.verify-lineage",
            "Receipt, decision, candidate and base do not belong together.",
            untouched="Nothing was recorded.",
            fix="savant show says what was applied where.",
        )


def _observe(target: Path, base: BaseSnapshot) -> Observed | None:
    try:
        return observe(target, base)
    except (PortError, RefusedInput, Unverifiable, VerificationError):
        return None


def _head(target: Path, git: Path) -> str | None:
    try:
        with Repository.open(target, git=git) as opened:
            return opened.resolve_commit("HEAD")
    except (PortError, RefusedInput):
        return None
