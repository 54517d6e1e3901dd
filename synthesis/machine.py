"""The pure machine of O1: ``transition(state, command)`` is the only way from one state to the next.

There is no I/O and no clock. A command is either accepted, which gives a new state and the events that say what
happened, or refused, which gives a typed refusal holding the very same state object. Every transition into a terminal
phase makes exactly one receipt with one reason. No text that a provider wrote chooses a phase: the table is read by
the words of closed vocabularies alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar, assert_never

import msgspec
from msgspec import structs

from savant.contracts.document import Document, Sealed, digest_of, seal
from savant.contracts.errors import InternalError
from savant.contracts.scalars import Code, as_set
from synthesis.commands import (
    Abort,
    Command,
    Escalate,
    EvaluatorUnavailable,
    RecordAttempt,
    RecordCall,
    RecordEvaluation,
    RecordInterpretation,
    RecordPlan,
    RecordPlanReview,
    Resume,
    StartAttempt,
    StartPlanning,
    TripBreaker,
)
from synthesis.documents import (
    Attempt,
    Check,
    Evaluation,
    Interpretation,
    Limitation,
    ObservedIdentities,
    Plan,
    PlanReview,
    Receipt,
    Session,
    State,
    TerminalReason,
)
from synthesis.events import Event
from synthesis.table import COMMANDS, REFUSALS, TABLE, TERMINAL_PHASES, Arrow, RefusalCode

D = TypeVar("D", bound=Document)

UNLIMITED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "provider_calls": "No limit was set on provider calls.",
        "wall_clock_ms": "No limit was set on wall-clock time.",
        "tokens": "No limit was set on tokens.",
        "cost_microunits": "No limit was set on cost.",
    }
)
"""What a receipt says about each budget that is null."""


class Transitioned(msgspec.Struct, frozen=True):
    """A command was accepted."""

    state: State
    events: tuple[Event, ...]


class Refusal(msgspec.Struct, frozen=True):
    """A command was refused; ``state`` is the very object that came in."""

    state: State
    code: RefusalCode
    message: str


class _Judged(msgspec.Struct, frozen=True):
    word: str = ""
    changes: Mapping[str, Any] = msgspec.field(default_factory=dict)
    limitations: tuple[Limitation, ...] = ()
    drifted: tuple[str, ...] = ()


class _Refused(Exception):
    def __init__(self, code: RefusalCode, detail: str = "") -> None:
        self.code: RefusalCode = code
        self.message = f"{REFUSALS[code]} {detail}".rstrip()


def start(session: Session) -> State:
    """The first state of a session: phase ``created``, full budgets.

    :raises InternalError: ``internal.unsealable`` when the session breaks its own type.
    """
    return State(
        session=seal(session).document,
        phase="created",
        interpretation_digest=None,
        generation=0,
        expected_generation=None,
        plan_digest=None,
        plan_review_digest=None,
        attempt_number=0,
        expected_attempt=None,
        attempt_digest=None,
        evaluation_digest=None,
        candidate_digest=None,
        retries_left=session.budgets.retries,
        replans_left=session.budgets.replans,
        calls=0,
        receipt=None,
    )


def transition(state: State, command: Command) -> Transitioned | Refusal:
    """The state after a command, or why the command is refused. Total: it raises nothing for any command."""
    try:
        return _transition(state, command)
    except _Refused as refused:
        return Refusal(state, refused.code, refused.message)


def _transition(state: State, command: Command) -> Transitioned:
    name = type(command).__name__
    if type(command) not in COMMANDS:
        raise _Refused("unknown-command", f"({name})")
    if state.phase in TERMINAL_PHASES:
        raise _Refused("terminal-session", f"({name} in {state.phase})")
    words = TABLE[state.phase].get(name)
    if words is None:
        raise _Refused("wrong-phase", f"({name} in {state.phase})")
    judged = _judge(state, command)
    arrow = words.get(judged.word)
    if arrow is None:
        raise _Refused("wrong-argument", f"({name} {judged.word!r} in {state.phase})")
    return _follow(state, arrow, judged)


def _follow(state: State, arrow: Arrow, judged: _Judged) -> Transitioned:
    changed = structs.replace(state, **judged.changes)
    reason = arrow.reason
    if arrow.consumes is not None:
        left = f"{'retries' if arrow.consumes == 'retry' else 'replans'}_left"
        granted: int = getattr(state, left)
        if granted > 0 and (not arrow.listed or judged.word in state.session.retryable_outcomes):
            scheduled: Event = "retry-scheduled" if arrow.consumes == "retry" else "replan-scheduled"
            spent = structs.replace(changed, phase=arrow.target, **{left: granted - 1})
            return Transitioned(spent, (*arrow.events, scheduled))
        reason = arrow.otherwise
    if reason is not None:
        return Transitioned(_terminate(changed, arrow, reason, judged), (*arrow.events, "session-terminated"))
    return Transitioned(structs.replace(changed, phase=arrow.target or state.phase), arrow.events)


def _terminate(state: State, arrow: Arrow, reason: TerminalReason, judged: _Judged) -> State:
    budgets = state.session.budgets
    unlimited = tuple(
        Limitation(source="session.budgets", text=text, blocking=False)
        for member, text in UNLIMITED.items()
        if getattr(budgets, member) is None
    )
    receipt = Receipt(
        session_digest=digest_of(state.session),
        reason=reason,
        plan_digest=state.plan_digest,
        attempt_digest=state.attempt_digest,
        evaluation_digest=state.evaluation_digest,
        candidate_digest=state.candidate_digest,
        retries_consumed=budgets.retries - state.retries_left,
        replans_consumed=budgets.replans - state.replans_left,
        calls_consumed=state.calls,
        drifted=judged.drifted,
        limitations=(*judged.limitations, *unlimited),
    )
    phase = "succeeded" if arrow.target == "succeeded" else "failed"
    return structs.replace(state, phase=phase, expected_generation=None, expected_attempt=None, receipt=receipt)


def _judge(state: State, command: Command) -> _Judged:
    match command:
        case RecordCall(operation):
            return _call(state, operation)
        case RecordInterpretation(interpretation):
            return _interpretation(state, _sealed(interpretation))
        case RecordPlan(plan):
            return _plan(state, _sealed(plan))
        case RecordPlanReview(review):
            return _review(state, _sealed(review))
        case StartPlanning():
            return _Judged(changes={"expected_generation": state.generation + 1})
        case StartAttempt():
            return _Judged(changes={"expected_attempt": state.attempt_number + 1})
        case RecordAttempt(attempt):
            return _attempt(state, _sealed(attempt))
        case RecordEvaluation(evaluation):
            return _evaluation(state, _sealed(evaluation))
        case EvaluatorUnavailable(reason) | Escalate(reason) | Abort(reason):
            return _Judged(limitations=(_reason(type(command).__name__, reason),))
        case TripBreaker(breaker):
            return _Judged(word=breaker)
        case Resume(observed):
            drifted = drift(state.session, _sealed(observed).document)
            return _Judged(word="drifted" if drifted else "unchanged", drifted=drifted)
        case _:
            assert_never(command)


def _sealed(document: D) -> Sealed[D]:
    try:
        return seal(document)
    except InternalError as error:
        raise _Refused("malformed-document", error.message) from error


def _reason(source: str, reason: str) -> Limitation:
    try:
        return Limitation(source=f"command.{source}", text=msgspec.convert(reason, Code, strict=True), blocking=True)
    except msgspec.ValidationError as error:
        raise _Refused("malformed-reason", f"({reason!r})") from error


def _same(code: RefusalCode, declared: object, current: object) -> None:
    if declared != current:
        raise _Refused(code, f"(it names {declared}, current is {current})")


def _call(state: State, operation: str) -> _Judged:
    granted = state.session.budgets.provider_calls
    if granted is not None and state.calls >= granted:
        raise _Refused("call-budget-exhausted", f"({state.calls} of {granted})")
    return _Judged(word=operation, changes={"calls": state.calls + 1})


def _interpretation(state: State, sealed: Sealed[Interpretation]) -> _Judged:
    interpretation = sealed.document
    _same("foreign-session", interpretation.session_digest, digest_of(state.session))
    if interpretation.objective != state.session.objective:
        raise _Refused("wrong-objective")
    missing = set(state.session.proof_obligations) - set(interpretation.required_proof_obligations)
    if missing:
        raise _Refused("missing-obligation", f"({len(missing)} left out)")
    return _Judged(changes={"interpretation_digest": sealed.digest, "expected_generation": 1})


def _plan(state: State, sealed: Sealed[Plan]) -> _Judged:
    plan = sealed.document
    _same("foreign-interpretation", plan.interpretation_digest, state.interpretation_digest)
    _same("wrong-generation", plan.generation, state.expected_generation)
    return _Judged(
        changes={
            "generation": plan.generation,
            "expected_generation": None,
            "plan_digest": sealed.digest,
            "plan_review_digest": None,
        }
    )


def _review(state: State, sealed: Sealed[PlanReview]) -> _Judged:
    review = sealed.document
    _same("foreign-plan", review.plan_digest, state.plan_digest)
    if review.outcome == "converged" and any(finding.severity == "blocking" for finding in review.findings):
        raise _Refused("blocking-finding")
    return _Judged(word=review.outcome, changes={"plan_review_digest": sealed.digest})


def _attempt(state: State, sealed: Sealed[Attempt]) -> _Judged:
    attempt = sealed.document
    _same("foreign-plan", attempt.plan_digest, state.plan_digest)
    _same("wrong-generation", attempt.generation, state.generation)
    _same("wrong-number", attempt.number, state.expected_attempt)
    digests = (attempt.input_digest, attempt.change_digest, attempt.final_digest)
    if attempt.outcome == "completed":
        whole = None not in digests and attempt.failure_kind is None
    else:
        whole = digests == (None, None, None)
    if not whole:
        raise _Refused("candidate-mismatch", f"({attempt.outcome})")
    return _Judged(
        word=attempt.outcome,
        changes={
            "attempt_number": attempt.number,
            "expected_attempt": None,
            "attempt_digest": sealed.digest,
            "evaluation_digest": None,
            "candidate_digest": None,
        },
    )


def _evaluation(state: State, sealed: Sealed[Evaluation]) -> _Judged:
    evaluation = sealed.document
    _same("foreign-attempt", evaluation.attempt_digest, state.attempt_digest)
    below = check_floor(evaluation)
    if evaluation.recommendation == "accept" and below:
        raise _Refused("below-floor", f"({below[0]})")
    return _Judged(
        word=evaluation.recommendation,
        changes={"evaluation_digest": sealed.digest, "candidate_digest": evaluation.candidate_digest},
        limitations=evaluation.limitations,
    )


def check_floor(evaluation: Evaluation) -> tuple[str, ...]:
    """What keeps an evaluation from being acceptable, whatever a policy says; empty when nothing does.

    A required check may have passed, been skipped, be red exactly as it was on the base (``still-failing`` with a
    failed base), be flaky, or be excused by name. Anything else, and every blocking limitation, is below the floor.
    """
    checks = (f"{check.evaluator}: {check.check}" for check in evaluation.checks if _is_below(check))
    blocks = (f"limitation: {limit.source}" for limit in evaluation.limitations if limit.blocking)
    return (*checks, *blocks)


def _is_below(check: Check) -> bool:
    if not check.required or check.comparison == "flaky" or check.excuse is not None:
        return False
    if check.comparison == "regressed" or check.status == "unavailable":
        return True
    was_red = check.comparison == "still-failing" and check.base_status == "failed"
    return check.status == "failed" and not was_red


def drift(session: Session, observed: ObservedIdentities) -> tuple[str, ...]:
    """The names of the identities that are not what the session is bound to, as a set value."""
    return as_set(
        member
        for member in ObservedIdentities.__struct_fields__
        if getattr(observed, member) != getattr(session, member)
    )
