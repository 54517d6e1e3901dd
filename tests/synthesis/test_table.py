"""The table's own promises: it is whole, immutable and consistent with the vocabularies."""

from __future__ import annotations

from typing import get_args

import pytest

from synthesis.documents import Breaker, Operation, Outcome, Phase, TerminalReason
from synthesis.events import EVENTS
from synthesis.table import (
    BREAKER_REASONS,
    COMMAND_NAMES,
    FAILURE_REASONS,
    OPERATION_PHASES,
    REFUSALS,
    TABLE,
    TERMINAL_PHASES,
    RefusalCode,
)

ARROWS = [arrow for row in TABLE.values() for words in row.values() for arrow in words.values()]


def test_every_phase_has_a_row_and_only_terminal_rows_are_empty() -> None:
    """No phase was forgotten, and nothing leads out of an end."""
    assert tuple(TABLE) == get_args(Phase)
    assert {phase for phase, row in TABLE.items() if not row} == TERMINAL_PHASES


def test_every_command_is_somewhere_and_nothing_else_is() -> None:
    """Each command class has at least one arrow."""
    assert {name for row in TABLE.values() for name in row} == COMMAND_NAMES


def test_every_terminal_reason_has_an_arrow() -> None:
    """Each reason in the vocabulary can be reached, and no arrow names another."""
    reasons = {reason for arrow in ARROWS for reason in (arrow.reason, arrow.otherwise)} - {None}
    assert reasons == set(get_args(TerminalReason))


def test_every_arrow_either_ends_with_a_reason_or_goes_on_without() -> None:
    """Arrows into terminal phases have a reason; arrows that consume a budget say why it would end otherwise."""
    for arrow in ARROWS:
        assert (arrow.target in TERMINAL_PHASES) == (arrow.reason is not None)
        assert (arrow.consumes is not None) == (arrow.otherwise is not None)
        assert arrow.consumes is None or arrow.target == arrow.consumes
        assert not arrow.listed or arrow.consumes == "retry"


def test_the_vocabularies_are_covered() -> None:
    """Every failure, breaker, operation and refusal code has its entry, and every event can happen."""
    assert set(FAILURE_REASONS) == set(get_args(Outcome)) - {"completed"}
    assert set(BREAKER_REASONS) == set(get_args(Breaker))
    assert set(OPERATION_PHASES) == set(get_args(Operation))
    assert set(REFUSALS) == set(get_args(RefusalCode))
    told = {event for arrow in ARROWS for event in arrow.events}
    assert told | {"retry-scheduled", "replan-scheduled", "session-terminated"} == set(EVENTS)


def test_the_table_cannot_be_changed() -> None:
    """Neither the rows nor the words nor the arrows can be assigned."""
    with pytest.raises(TypeError):
        TABLE["created"] = {}  # type: ignore[index]
    with pytest.raises(TypeError):
        TABLE["created"]["Abort"] = {}  # type: ignore[index]
    with pytest.raises(TypeError):
        TABLE["created"]["Abort"][""] = ARROWS[0]  # type: ignore[index]
    with pytest.raises(AttributeError):
        ARROWS[0].target = "failed"  # type: ignore[misc]
