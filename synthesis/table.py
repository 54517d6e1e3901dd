"""The table of the O1 machine, as data: phase, command, word, and where the arrow leads.

Every phase has a row; the rows of the terminal phases are empty. A command that is not in a row is refused there. The
*word* is what a command's document or argument decides by: an outcome, a recommendation, a breaker, an operation;
``""`` where nothing is to be decided. :mod:`synthesis.machine` is the one reader, :mod:`synthesis.diagram` draws it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from synthesis.commands import Command
from synthesis.documents import Breaker, Operation, Outcome, Phase, TerminalReason
from synthesis.events import Event

PHASES: Final[tuple[Phase, ...]] = get_args(Phase)
"""Every phase, in the order in which a session may first reach it."""

TERMINAL_PHASES: Final[frozenset[Phase]] = frozenset({"succeeded", "failed"})
"""The phases that refuse every command."""

COMMANDS: Final[tuple[type, ...]] = get_args(Command)
"""Every command class."""

COMMAND_NAMES: Final[frozenset[str]] = frozenset(command.__name__ for command in COMMANDS)
"""What a transition document may name; a command's name is its class's."""

OPERATION_PHASES: Final[Mapping[Operation, Phase]] = MappingProxyType(
    {
        "interpretation": "created",
        "planning": "planning",
        "review-observation": "reviewing",
        "generation": "attempting",
        "evaluation-observation": "evaluating",
    }
)
"""The phase in which a provider may be called for an operation."""

FAILURE_REASONS: Final[Mapping[Outcome, TerminalReason]] = MappingProxyType(
    {
        "unavailable": "provider-unavailable",
        "timed-out": "provider-timed-out",
        "cancelled": "provider-cancelled",
        "invalid-output": "invalid-provider-output",
        "unsupported-capability": "unsupported-capability",
    }
)
"""Why a session ends when a generation failed so and is not retried."""

BREAKER_REASONS: Final[Mapping[Breaker, TerminalReason]] = MappingProxyType(
    {
        "change-cap": "change-cap-exceeded",
        "oscillation": "oscillation-detected",
        "stagnation": "stagnated",
        "provider-failures": "provider-failures-repeated",
        "tokens": "token-budget-exhausted",
        "cost": "cost-budget-exhausted",
        "wall-clock": "wall-clock-exhausted",
        "calls": "call-budget-exhausted",
    }
)
"""Why a session ends when a breaker trips."""


class Arrow(msgspec.Struct, frozen=True):
    """Where one word leads.

    :param target: the next phase; None when the phase stays.
    :param events: what happened, before anything that following the arrow adds.
    :param reason: why the session ends, for an arrow into a terminal phase.
    :param consumes: the budget that gives one unit; the arrow then leads to ``failed`` when none is left.
    :param otherwise: why the session ends when that unit cannot be had.
    :param listed: the unit is only given when the session lists the word among its retryable outcomes.
    """

    target: Phase | None
    events: tuple[Event, ...]
    reason: TerminalReason | None = None
    consumes: Literal["retry", "replan"] | None = None
    otherwise: TerminalReason | None = None
    listed: bool = False


Row: TypeAlias = Mapping[str, Mapping[str, Arrow]]
"""Command name to word to arrow."""


def _end(reason: TerminalReason, *events: Event) -> Arrow:
    return Arrow("failed", events, reason=reason)


def _spend(
    budget: Literal["retry", "replan"], otherwise: TerminalReason, event: Event, *, listed: bool = False
) -> Arrow:
    return Arrow(budget, (event,), consumes=budget, otherwise=otherwise, listed=listed)


_ANYWHERE: Final[Row] = {
    "TripBreaker": {breaker: _end(reason, "breaker-tripped") for breaker, reason in BREAKER_REASONS.items()},
    "Escalate": {"": _end("escalated", "escalated")},
    "Abort": {"": _end("explicitly-aborted", "aborted")},
    "Resume": {
        "unchanged": Arrow(None, ("resume-validated",)),
        "drifted": _end("identity-drift-refused", "drift-observed"),
    },
}
"""What every phase that is not terminal accepts."""

_OWN: Final[Mapping[Phase, Row]] = {
    "created": {
        "RecordInterpretation": {"": Arrow("planning", ("interpretation-recorded", "planning-started"))},
    },
    "planning": {
        "RecordPlan": {"": Arrow("reviewing", ("plan-recorded",))},
    },
    "reviewing": {
        "RecordPlanReview": {
            "converged": Arrow("planned", ("plan-reviewed",)),
            "revise": _spend("replan", "plan-not-converged", "plan-reviewed"),
            "escalate": _end("escalated", "plan-reviewed"),
        },
    },
    "planned": {
        "StartAttempt": {"": Arrow("attempting", ("attempt-started",))},
    },
    "attempting": {
        "RecordAttempt": {
            "completed": Arrow("evaluating", ("attempt-recorded",)),
            **{
                outcome: _spend("retry", reason, "attempt-recorded", listed=True)
                for outcome, reason in FAILURE_REASONS.items()
            },
        },
    },
    "evaluating": {
        "RecordEvaluation": {
            "accept": Arrow("succeeded", ("evaluation-recorded",), reason="candidate-ready-for-admission"),
            "retry-generation": _spend("retry", "retry-budget-exhausted", "evaluation-recorded"),
            "replan": _spend("replan", "replan-budget-exhausted", "evaluation-recorded"),
            "architect-review": _end("architect-review-required", "evaluation-recorded"),
            "abort": _end("explicitly-aborted", "evaluation-recorded"),
        },
        "EvaluatorUnavailable": {"": _end("evaluator-unavailable", "evaluator-unavailable")},
    },
    "retry": {
        "StartAttempt": {"": Arrow("attempting", ("attempt-started",))},
    },
    "replan": {
        "StartPlanning": {"": Arrow("planning", ("planning-started",))},
    },
}


def _calls(phase: Phase) -> Row:
    words: dict[str, Arrow] = {
        operation: Arrow(None, ("call-recorded",)) for operation, at in OPERATION_PHASES.items() if at == phase
    }
    return {"RecordCall": words} if words else {}


def _row(phase: Phase) -> Row:
    if phase in TERMINAL_PHASES:
        return MappingProxyType({})
    commands = {**_OWN[phase], **_calls(phase), **_ANYWHERE}
    return MappingProxyType({name: MappingProxyType(dict(words)) for name, words in commands.items()})


TABLE: Final[Mapping[Phase, Row]] = MappingProxyType({phase: _row(phase) for phase in PHASES})
"""The whole machine."""

RefusalCode: TypeAlias = Literal[
    "unknown-command",
    "terminal-session",
    "wrong-phase",
    "wrong-argument",
    "malformed-document",
    "malformed-reason",
    "call-budget-exhausted",
    "foreign-session",
    "foreign-interpretation",
    "foreign-plan",
    "foreign-attempt",
    "foreign-request",
    "wrong-objective",
    "missing-obligation",
    "wrong-generation",
    "wrong-number",
    "candidate-mismatch",
    "blocking-finding",
    "below-floor",
    "not-completed",
    "not-a-command",
]
"""Why a command was refused. The last two and ``foreign-request`` come from the mapping of provider results."""

REFUSALS: Final[Mapping[RefusalCode, str]] = MappingProxyType(
    {
        "unknown-command": "It is not one of the machine's commands.",
        "terminal-session": "The session has ended; it accepts nothing more.",
        "wrong-phase": "The current phase has no such command.",
        "wrong-argument": "The current phase has that command, but not with that word.",
        "malformed-document": "A document breaks its own declared type, or its bytes are not its digest's.",
        "malformed-reason": "A reason is a dotted code.",
        "call-budget-exhausted": "Every granted provider call was made; the calls breaker is due.",
        "foreign-session": "A document belongs to another session, or to another base of it.",
        "foreign-interpretation": "A document belongs to another interpretation.",
        "foreign-plan": "A document belongs to another plan.",
        "foreign-attempt": "A document belongs to another attempt.",
        "foreign-request": "A result or receipt belongs to another request.",
        "wrong-objective": "The interpretation changes the objective.",
        "missing-obligation": "The interpretation leaves out a proof obligation of the session.",
        "wrong-generation": "The plan or attempt has another generation than the reserved one.",
        "wrong-number": "The attempt has another number than the reserved one.",
        "candidate-mismatch": "A completed attempt names all three candidate digests, a failed one none.",
        "blocking-finding": "A review with a blocking finding cannot say converged.",
        "below-floor": "A required check failed, regressed or could not be made, or a limitation blocks.",
        "not-completed": "Only a completed call has a payload.",
        "not-a-command": "The operation's payload is data; the host records it by other means.",
    }
)
"""What each code means, as a sentence."""
