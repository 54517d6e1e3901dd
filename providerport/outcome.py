"""What an untrusted answer amounts to: pure checks of results, descriptions and failures against the request.

Everything a provider hands over is encoded and accepted again from its own bytes before anybody reads a member, so a
value that breaks its declared type never gets further than this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar, cast, get_args

from providerport.documents import AuditReport, Capabilities, GenerationClaim, Request, Result
from savant.contracts import canonical
from savant.contracts.digest import digest
from savant.contracts.document import Document, Sealed, accept, seal
from savant.contracts.errors import InternalError, RefusedInput
from synthesis.documents import (
    FailureKind,
    Interpretation,
    Limitation,
    Operation,
    Outcome,
    Plan,
    PlanReview,
)

D = TypeVar("D", bound=Document)

Payload: TypeAlias = Interpretation | Plan | PlanReview | GenerationClaim | AuditReport
"""What a completed call answers with."""

PAYLOAD_MEMBERS: Final[Mapping[Operation, str]] = MappingProxyType(
    {
        "interpretation": "interpretation",
        "planning": "plan",
        "review-observation": "review",
        "generation": "generation",
        "evaluation-observation": "audit",
    }
)
"""The one member of a result that holds the payload of each operation."""

OPERATIONS: Final[tuple[Operation, ...]] = get_args(Operation)
"""Every operation, in the order of a run."""

OUTCOMES: Final[frozenset[str]] = frozenset(get_args(Outcome))
FAILURE_KINDS: Final[frozenset[str]] = frozenset(get_args(FailureKind))

MAX_DETAIL_CHARACTERS: Final = 4_096
"""How much of a provider's own words about a failure a result keeps."""


def result_of(
    call: Sealed[Request],
    outcome: Outcome,
    *,
    failure_kind: FailureKind | None = None,
    detail: str = "",
    payload: Payload | None = None,
) -> Result:
    """A result for a request, its payload in the operation's member.

    :raises InternalError: ``internal.payload`` when the payload is not of the operation's type.
    """
    result = Result(
        request_digest=call.digest,
        operation=call.document.operation,
        outcome=outcome,
        failure_kind=failure_kind,
        detail=clean(detail, MAX_DETAIL_CHARACTERS),
        interpretation=payload if isinstance(payload, Interpretation) else None,
        plan=payload if isinstance(payload, Plan) else None,
        review=payload if isinstance(payload, PlanReview) else None,
        generation=payload if isinstance(payload, GenerationClaim) else None,
        audit=payload if isinstance(payload, AuditReport) else None,
    )
    if payload is not payload_of(result):
        raise InternalError("internal.payload", f"{type(payload).__name__} does not answer {result.operation}.")
    return result


def payload_of(result: Result) -> Payload | None:
    """What is in the member of the result's operation."""
    return cast("Payload | None", getattr(result, PAYLOAD_MEMBERS[result.operation]))


def payload_digest(payload: Payload) -> str:
    """The digest of a payload's canonical bytes: a document's name, or the digest of a claim."""
    return digest(canonical.encode_struct(payload))


def clean(text: str, limit: int) -> str:
    """The text cut to so many characters, lone surrogates replaced by ``?``."""
    return text[:limit].encode("utf-8", "replace").decode("utf-8")


def failure_of(call: Sealed[Request], outcome: str, failure_kind: str, detail: str) -> Result:
    """The result of a declared failure; words outside the vocabularies make it ``invalid-output``."""
    if outcome not in OUTCOMES or outcome == "completed" or failure_kind not in FAILURE_KINDS:
        return malformed(call, "The provider declared a failure outside the vocabularies.")
    return result_of(call, cast("Outcome", outcome), failure_kind=cast("FailureKind", failure_kind), detail=str(detail))


def malformed(call: Sealed[Request], why: str) -> Result:
    """The result of an answer that is not one."""
    return result_of(call, "invalid-output", failure_kind="malformed-output", detail=why)


def accepted_capabilities(described: object) -> Sealed[Capabilities] | None:
    """A description accepted from its own bytes; None when it is not one."""
    return _again(described, Capabilities)


def accepted_result(call: Sealed[Request], answer: object) -> Sealed[Result]:
    """An answer accepted from its own bytes and checked against its request, or the ``invalid-output`` that it is."""
    sealed = _again(answer, Result)
    if sealed is None:
        return seal(malformed(call, "The answer is not a result document."))
    problem = check_result(call, sealed.document)
    return sealed if problem is None else seal(malformed(call, problem))


def _again(value: object, type_: type[D]) -> Sealed[D] | None:
    if type(value) is not type_:
        return None
    try:
        return accept(canonical.encode_struct(value), type_)
    except (InternalError, RefusedInput):
        return None


def check_result(call: Sealed[Request], result: Result) -> str | None:
    """Why a result does not answer a request, as a sentence; None when it does.

    A payload is there exactly when the call completed, in the operation's member alone, and names the parents that
    the request names.
    """
    request = call.document
    if result.request_digest != call.digest:
        return "The result names another request."
    if result.operation != request.operation:
        return "The result names another operation."
    present = {member for member in PAYLOAD_MEMBERS.values() if getattr(result, member) is not None}
    if result.outcome != "completed":
        return "A result that is not completed carries a payload." if present else None
    if present != {PAYLOAD_MEMBERS[request.operation]}:
        return "A completed result carries exactly the payload of its operation."
    if result.failure_kind is not None:
        return "A completed result carries a failure kind."
    match payload_of(result):
        case Interpretation(session_digest=named):
            return _names(named, request.session_digest, "interpretation", "session")
        case Plan(interpretation_digest=named, generation=generation):
            if generation != request.generation:
                return "The plan has another generation than the request."
            return _names(named, request.parent_digest, "plan", "interpretation")
        case PlanReview(plan_digest=named):
            return _names(named, request.parent_digest, "review", "plan")
        case AuditReport() as report:
            return _audits(report, request)
        case _:
            return None


def _audits(report: AuditReport, request: Request) -> str | None:
    """Why a report answers no such task, as a sentence; None when it does."""
    task = request.audit
    if task is None:
        return "The request carries no task of an audit."
    if report.candidate_digest != task.candidate_digest:
        return "The audit is of another candidate."
    ids = [finding.id for finding in report.findings]
    examined = [verdict.finding for verdict in report.verdicts]
    if len(set(ids)) != len(ids) or len(set(examined)) != len(examined):
        return "The audit says two things about one finding."
    known = {} if task.audited is None else {finding.id: finding.severity for finding in task.audited.findings}
    if set(examined) - known.keys():
        return "A verdict is about a finding that nobody made."
    for verdict in report.verdicts:
        if (verdict.verdict == "adjusted") is (verdict.severity is None):
            return "A severity belongs to an adjusted finding, and only."
    return None


def _names(named: str, expected: str, what: str, parent: str) -> str | None:
    return None if named == expected else f"The {what} names another {parent}."


UNDESCRIBED: Final = Limitation(
    source="providerport.describe", text="The provider did not describe itself.", blocking=True
)
"""In the receipt of a call whose provider gave no usable description."""


def undescribed() -> Sealed[Capabilities]:
    """What a receipt binds when a provider gave no usable description: nothing known, nothing claimed."""
    return seal(
        Capabilities(
            provider="unknown",
            provider_kind="unknown",
            model="",
            identity_digest=digest(b""),
            operations=(),
            reports_usage=False,
        )
    )
