"""The commands of O1. A command is a request to the machine; only :func:`synthesis.machine.transition` accepts it."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from synthesis.documents import (
    Attempt,
    Breaker,
    Evaluation,
    Interpretation,
    ObservedIdentities,
    Operation,
    Plan,
    PlanReview,
)


class RecordCall(msgspec.Struct, frozen=True):
    """A provider call is about to be made; refused when the call budget is spent."""

    operation: Operation


class RecordInterpretation(msgspec.Struct, frozen=True):
    """The provider's interpretation, completed by the host."""

    interpretation: Interpretation


class RecordPlan(msgspec.Struct, frozen=True):
    """A plan for the expected generation."""

    plan: Plan


class RecordPlanReview(msgspec.Struct, frozen=True):
    """The review of the current plan."""

    review: PlanReview


class StartPlanning(msgspec.Struct, frozen=True):
    """Begin the next generation."""


class StartAttempt(msgspec.Struct, frozen=True):
    """Begin the next attempt."""


class RecordAttempt(msgspec.Struct, frozen=True):
    """The outcome of the expected attempt."""

    attempt: Attempt


class RecordEvaluation(msgspec.Struct, frozen=True):
    """The evaluation of the current attempt's candidate."""

    evaluation: Evaluation


class EvaluatorUnavailable(msgspec.Struct, frozen=True):
    """No evaluation can be had; ``reason`` is a dotted code."""

    reason: str


class TripBreaker(msgspec.Struct, frozen=True):
    """A precommitted limit was reached."""

    breaker: Breaker


class Escalate(msgspec.Struct, frozen=True):
    """A person must decide; ``reason`` is a dotted code."""

    reason: str


class Abort(msgspec.Struct, frozen=True):
    """Somebody stopped the work; ``reason`` is a dotted code."""

    reason: str


class Resume(msgspec.Struct, frozen=True):
    """Continue after a stop, if every identity is what it was."""

    observed: ObservedIdentities


Command: TypeAlias = (
    RecordCall
    | RecordInterpretation
    | RecordPlan
    | RecordPlanReview
    | StartPlanning
    | StartAttempt
    | RecordAttempt
    | RecordEvaluation
    | EvaluatorUnavailable
    | TripBreaker
    | Escalate
    | Abort
    | Resume
)
