"""From state to request and from result to command: pure, and never a transition.

A request names exactly what the machine expects next. Before a result becomes a command, every binding is checked
again from bytes: request, result and receipt are what they claim, they belong together, and they belong to this very
state. What the state machine then says about the command is its own business.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, assert_never

import msgspec
from msgspec import structs

from providerport.documents import AuditReport, AuditTask, GenerationClaim, Prior, Receipt, Request, Result
from providerport.outcome import Payload, check_result, payload_digest, payload_of
from savant.contracts.document import Sealed, accept, digest_of
from savant.contracts.errors import RefusedInput, UsageError, VerificationError
from savant.contracts.scalars import as_set
from synthesis.commands import Command, RecordInterpretation, RecordPlan, RecordPlanReview
from synthesis.documents import (
    Attempt,
    Interpretation,
    Limitation,
    Operation,
    Plan,
    PlanReview,
    Session,
    State,
)
from synthesis.machine import Refusal
from synthesis.table import OPERATION_PHASES, REFUSALS, RefusalCode

Parent: TypeAlias = Session | Interpretation | Plan | Attempt
"""The document that an operation starts from."""


class ObservationLimits(msgspec.Struct, frozen=True):
    """How many lines a provider may say, and how many UTF-8 bytes they may have together."""

    max_observations: int
    max_observation_bytes: int


class _Expected(msgspec.Struct, frozen=True):
    """What a state expects of a call for one operation."""

    parent_type: type[Parent]
    parent_digest: str | None
    generation: int | None
    attempt_number: int | None


def _expected(state: State, operation: Operation) -> _Expected:
    match operation:
        case "interpretation":
            return _Expected(Session, digest_of(state.session), None, None)
        case "planning":
            return _Expected(Interpretation, state.interpretation_digest, state.expected_generation, None)
        case "review-observation":
            return _Expected(Plan, state.plan_digest, state.generation, None)
        case "generation":
            return _Expected(Plan, state.plan_digest, state.generation, state.expected_attempt)
        case "evaluation-observation":
            return _Expected(Attempt, state.attempt_digest, state.generation, state.attempt_number)
        case _:
            assert_never(operation)


def build_request(
    state: State,
    operation: Operation,
    *,
    parent: Parent,
    deadline_ms: int,
    limits: ObservationLimits,
    prior: Prior | None,
    scope: Iterable[str],
    audit: AuditTask | None = None,
) -> Request:
    """The request for an operation that is due in this state.

    :param parent: the document the operation starts from; its digest is the state's.
    :param prior: on a retry or a replan, what failed before; the digests it names are the state's.
    :param scope: path patterns; sorted here.
    :param audit: the task of an evaluation-observation, and of nothing else.
    :raises UsageError: ``usage.request-phase``, ``usage.request-parent``, ``usage.request-prior`` or
        ``usage.request-audit``.
    """
    if state.phase != OPERATION_PHASES[operation]:
        raise UsageError("usage.request-phase", f"A call for {operation} is not due in phase {state.phase}.")
    expected = _expected(state, operation)
    if type(parent) is not expected.parent_type or digest_of(parent) != expected.parent_digest:
        raise UsageError("usage.request-parent", f"The given document is not what {operation} starts from.")
    if prior is not None and _is_foreign(state, prior):
        raise UsageError("usage.request-prior", "The prior findings are not of this state's review and attempt.")
    if (audit is not None) is not (operation == "evaluation-observation"):
        raise UsageError("usage.request-audit", f"A task of an audit is for an audit, and only; this is {operation}.")
    session = state.session
    return Request(
        operation=operation,
        session_digest=digest_of(session),
        repository_domain=session.repository_domain,
        base_commit=session.base_commit,
        base_manifest_digest=session.base_manifest_digest,
        parent_digest=digest_of(parent),
        generation=expected.generation,
        attempt_number=expected.attempt_number,
        scope=as_set(scope),
        deadline_ms=deadline_ms,
        max_observations=limits.max_observations,
        max_observation_bytes=limits.max_observation_bytes,
        prior=prior,
        session=parent if isinstance(parent, Session) else None,
        interpretation=parent if isinstance(parent, Interpretation) else None,
        plan=parent if isinstance(parent, Plan) else None,
        attempt=parent if isinstance(parent, Attempt) else None,
        audit=audit,
    )


def _is_foreign(state: State, prior: Prior) -> bool:
    named = (
        (prior.plan_review_digest, state.plan_review_digest),
        (prior.attempt_digest, state.attempt_digest),
        (prior.evaluation_digest, state.evaluation_digest),
    )
    return any(digest is not None and digest != current for digest, current in named)


class _Refused(Exception):
    def __init__(self, code: RefusalCode, detail: str = "") -> None:
        self.code: RefusalCode = code
        self.message = f"{REFUSALS[code]} {detail}".rstrip()


def verified_payload(
    state: State, request: Sealed[Request], result: Sealed[Result], receipt: Sealed[Receipt]
) -> Payload | Refusal:
    """The payload of a completed call, every binding checked again; it is data, not yet a command.

    The way to read a generation's claim and an audit's report.
    """
    try:
        return _verified(state, request, result, receipt)
    except _Refused as refused:
        return Refusal(state, refused.code, refused.message)


def to_command(
    state: State, request: Sealed[Request], result: Sealed[Result], receipt: Sealed[Receipt]
) -> Command | Refusal:
    """The command that records a completed interpretation, planning or review call.

    A generation is recorded by the runner, which makes the attempt; an audit's report is data. Both are
    refused as ``not-a-command``.
    """
    payload = verified_payload(state, request, result, receipt)
    match payload:
        case Refusal():
            return payload
        case Interpretation():
            return RecordInterpretation(payload)
        case Plan():
            return RecordPlan(payload)
        case PlanReview():
            return RecordPlanReview(payload)
        case GenerationClaim() | AuditReport():
            return Refusal(state, "not-a-command", REFUSALS["not-a-command"])
        case _:
            assert_never(payload)


def _verified(state: State, request: Sealed[Request], result: Sealed[Result], receipt: Sealed[Receipt]) -> Payload:
    try:
        asked = accept(request.raw, Request, declared_digest=request.digest)
        answered = accept(result.raw, Result, declared_digest=result.digest)
        received = accept(receipt.raw, Receipt, declared_digest=receipt.digest)
    except (RefusedInput, VerificationError) as error:
        raise _Refused("malformed-document", error.message) from error
    same = (asked.document, answered.document, received.document) == (
        request.document,
        result.document,
        receipt.document,
    )
    if not same:
        raise _Refused("malformed-document", "The bytes hold another document.")
    if received.document.request_digest != asked.digest or received.document.result_digest != answered.digest:
        raise _Refused("foreign-request", "The receipt is of another call.")
    problem = check_result(asked, answered.document)
    if problem is not None:
        raise _Refused("foreign-request", problem)
    _check_state(state, asked.document)
    payload = payload_of(answered.document)
    if payload is None:
        raise _Refused("not-completed", f"({answered.document.outcome})")
    if (received.document.outcome, received.document.payload_digest) != ("completed", payload_digest(payload)):
        raise _Refused("foreign-request", "The receipt is of another payload.")
    return payload


def _check_state(state: State, request: Request) -> None:
    session = state.session
    bound = (session.repository_domain, session.base_commit, session.base_manifest_digest)
    if request.session_digest != digest_of(session) or bound != (
        request.repository_domain,
        request.base_commit,
        request.base_manifest_digest,
    ):
        raise _Refused("foreign-session")
    if state.phase != OPERATION_PHASES[request.operation]:
        raise _Refused("wrong-phase", f"({request.operation} in {state.phase})")
    expected = _expected(state, request.operation)
    if request.parent_digest != expected.parent_digest:
        raise _Refused(_FOREIGN[expected.parent_type])
    if request.generation != expected.generation:
        raise _Refused("wrong-generation")
    if request.attempt_number != expected.attempt_number:
        raise _Refused("wrong-number")


_FOREIGN: dict[type[Parent], RefusalCode] = {
    Session: "foreign-session",
    Interpretation: "foreign-interpretation",
    Plan: "foreign-plan",
    Attempt: "foreign-attempt",
}


class Governed(msgspec.Struct, frozen=True):
    """What the authored records say about a task; the host puts it into every interpretation."""

    applicable_intent: tuple[str, ...] = ()
    binding_invariants: tuple[str, ...] = ()
    relevant_contracts: tuple[str, ...] = ()
    authority_boundaries: tuple[str, ...] = ()
    known_failure_modes: tuple[str, ...] = ()
    forbidden_fixes: tuple[str, ...] = ()
    limitations: tuple[Limitation, ...] = ()


def complete_interpretation(interpretation: Interpretation, session: Session, governed: Governed) -> Interpretation:
    """The interpretation with the governed records first and every proof obligation of the session in it.

    A provider may add and never omit: what it said that the records do not say is kept, after them. Its objective is
    not repaired; the machine refuses another one.
    """
    lists = {
        member: tuple(dict.fromkeys((*getattr(governed, member), *getattr(interpretation, member))))
        for member in Governed.__struct_fields__
    }
    obligations = as_set((*session.proof_obligations, *interpretation.required_proof_obligations))
    return structs.replace(interpretation, **lists, required_proof_obligations=obligations)
