"""The names of what happened in an accepted transition. Events are told, never read back to decide."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

Event: TypeAlias = Literal[
    "call-recorded",
    "interpretation-recorded",
    "planning-started",
    "plan-recorded",
    "plan-reviewed",
    "attempt-started",
    "attempt-recorded",
    "evaluation-recorded",
    "retry-scheduled",
    "replan-scheduled",
    "evaluator-unavailable",
    "breaker-tripped",
    "escalated",
    "aborted",
    "resume-validated",
    "drift-observed",
    "session-terminated",
]
"""What a transition says happened, in order; ``session-terminated`` is last and comes with the receipt."""

EVENTS: Final[tuple[Event, ...]] = get_args(Event)
"""Every event, in the order of its declaration."""
