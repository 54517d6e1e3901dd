"""From a value of the wire to the document that it stands for: the host sets every identity and digest itself. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from commandprovider.wire import WireAudit, WireInterpretation, WirePlan, WireReview
from providerport.documents import (
    AuditFinding,
    AuditReport,
    AuditVerdict,
    Citation,
    GenerationClaim,
    Request,
    Result,
)
from savant.contracts.document import Sealed
from savant.contracts.errors import RefusedInput
from savant.contracts.scalars import as_set
from synthesis.documents import (
    IntendedChange,
    Interpretation,
    Limitation,
    Plan,
    PlanReview,
    PlanStep,
    ReviewFinding,
)


def interpretation_of(request: Request, wire: WireInterpretation, limitations: Sequence[Limitation]) -> Interpretation:
    """The canonical interpretation; identity, objective and obligations are the session's."""
    session = request.session
    if session is None:
        raise RefusedInput("refused.request", "An interpretation request carries the session.")
    return Interpretation(
        session_digest=request.session_digest,
        objective=session.objective,
        applicable_intent=wire.applicable_intent,
        binding_invariants=wire.binding_invariants,
        relevant_contracts=wire.relevant_contracts,
        authority_boundaries=wire.authority_boundaries,
        known_failure_modes=wire.known_failure_modes,
        forbidden_fixes=wire.forbidden_fixes,
        required_proof_obligations=session.proof_obligations,
        assumptions=wire.assumptions,
        unresolved_questions=wire.unresolved_questions,
        source_references=(),
        limitations=tuple(limitations),
    )


def plan_of(request: Request, wire: WirePlan, *, promise: Literal["declared", "none"]) -> Plan:
    """The canonical plan; its interpretation and generation are the request's."""
    if request.generation is None:
        raise RefusedInput("refused.request", "A planning request carries the generation.")
    return Plan(
        interpretation_digest=request.parent_digest,
        generation=request.generation,
        promise=promise,
        steps=tuple(
            PlanStep(
                id=step.id,
                description=step.description,
                intended_changes=tuple(
                    IntendedChange(pattern=change.pattern, operations=as_set(change.operations))
                    for change in step.intended_changes
                ),
                symbols=step.symbols,
                expected_evidence=step.expected_evidence,
                discharges=as_set(step.discharges),
                declares_gate_changes=step.declares_gate_changes,
            )
            for step in wire.steps
        ),
        assumptions=wire.assumptions,
        risks=wire.risks,
        stop_conditions=wire.stop_conditions,
    )


def review_of(request: Request, wire: WireReview, *, reviewer: str) -> PlanReview:
    """The canonical review of the request's plan."""
    return PlanReview(
        plan_digest=request.parent_digest,
        findings=tuple(
            ReviewFinding(id=f.id, severity=f.severity, step=f.step, text=f.text, citation=f.citation)
            for f in wire.findings
        ),
        reviewers=(reviewer,),
        outcome=wire.outcome,
    )


def audit_of(request: Request, wire: WireAudit) -> AuditReport:
    """The canonical report on the request's candidate."""
    if request.audit is None:
        raise RefusedInput("refused.request", "An evaluation-observation request carries the audit's task.")
    return AuditReport(
        candidate_digest=request.audit.candidate_digest,
        findings=tuple(
            AuditFinding(
                id=finding.id,
                severity=finding.severity,
                text=finding.text,
                citations=tuple(
                    Citation(
                        path=cited.path,
                        side=cited.side,
                        line=cited.line,
                        end_line=cited.line if cited.end_line is None else cited.end_line,
                        text=cited.text,
                    )
                    for cited in finding.citations
                ),
            )
            for finding in wire.findings
        ),
        verdicts=tuple(
            AuditVerdict(finding=verdict.finding, verdict=verdict.verdict, severity=verdict.severity, text=verdict.text)
            for verdict in wire.verdicts
        ),
    )


def result_of(
    request: Sealed[Request],
    *,
    interpretation: Interpretation | None = None,
    plan: Plan | None = None,
    review: PlanReview | None = None,
    generation: GenerationClaim | None = None,
    audit: AuditReport | None = None,
) -> Result:
    """A completed result for a request."""
    return Result(
        request_digest=request.digest,
        operation=request.document.operation,
        outcome="completed",
        failure_kind=None,
        detail="",
        interpretation=interpretation,
        plan=plan,
        review=review,
        generation=generation,
        audit=audit,
    )
