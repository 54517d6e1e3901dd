"""The commands of O1. A command is a request to the machine; only :func:`synthesis.machine.transition` accepts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

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


@dataclass(frozen=True, slots=True)
class RecordCall:
    """A provider call is about to be made; refused when the call budget is spent."""

    operation: Operation


@dataclass(frozen=True, slots=True)
class RecordInterpretation:
    """The provider's interpretation, completed by the host."""

    interpretation: Interpretation


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """A plan for the expected generation."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class RecordPlanReview:
    """The review of the current plan."""

    review: PlanReview


@dataclass(frozen=True, slots=True)
class StartPlanning:
    """Begin the next generation."""


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Begin the next attempt."""


@dataclass(frozen=True, slots=True)
class RecordAttempt:
    """The outcome of the expected attempt."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class RecordEvaluation:
    """The evaluation of the current attempt's candidate."""

    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class EvaluatorUnavailable:
    """No evaluation can be had; ``reason`` is a dotted code."""

    reason: str


@dataclass(frozen=True, slots=True)
class TripBreaker:
    """A precommitted limit was reached."""

    breaker: Breaker


@dataclass(frozen=True, slots=True)
class Escalate:
    """A person must decide; ``reason`` is a dotted code."""

    reason: str


@dataclass(frozen=True, slots=True)
class Abort:
    """Somebody stopped the work; ``reason`` is a dotted code."""

    reason: str


@dataclass(frozen=True, slots=True)
class Resume:
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
