"""Replay: the records and documents of a session give its state again, or the first index that lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from savant.contracts.document import digest_of, seal
from savant.contracts.errors import SavantError, Unverifiable, VerificationError
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
from synthesis.documents import State, Transition
from synthesis.machine import Transitioned, start, transition
from synthesis.replay import command_of, document_of, fold, transition_document


class Recording:
    """Runs commands and keeps what a ledger would keep."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.session = world.session()
        self.state: State = start(self.session)
        self.transitions: list[Transition] = []
        self.stored: dict[str, bytes] = {}

    def lookup(self, digest: str) -> bytes:
        try:
            return self.stored[digest]
        except KeyError:
            raise Unverifiable("unverifiable.missing-object", f"{digest} is not stored.") from None

    def run(self, make: Callable[[State], Command]) -> Command:
        command = make(self.state)
        outcome = transition(self.state, command)
        assert isinstance(outcome, Transitioned), outcome
        record = transition_document(self.state, command, outcome.state, len(self.transitions), outcome.events)
        carried = document_of(command)
        if carried is not None:
            sealed = seal(carried)
            self.stored[sealed.digest] = sealed.raw
        self.transitions.append(seal(record).document)
        self.state = outcome.state
        return command


@pytest.fixture
def recording(world: Any) -> Recording:
    """A whole session: a retry, a revised plan, a resume, then success."""
    made = Recording(world)
    steps: list[Callable[[State], Command]] = [
        lambda _: RecordCall("interpretation"),
        lambda s: RecordInterpretation(world.interpretation(s)),
        lambda s: RecordPlan(world.plan(s)),
        lambda s: RecordPlanReview(world.review(s, "revise")),
        lambda _: StartPlanning(),
        lambda s: Resume(world.observed(s)),
        lambda s: RecordPlan(world.plan(s)),
        lambda s: RecordPlanReview(world.review(s)),
        lambda _: StartAttempt(),
        lambda s: RecordAttempt(world.attempt(s, "timed-out")),
        lambda _: StartAttempt(),
        lambda s: RecordAttempt(world.attempt(s)),
        lambda s: RecordEvaluation(world.evaluation(s)),
    ]
    for step in steps:
        made.run(step)
    assert made.state.phase == "succeeded"
    return made


def test_a_folded_session_is_the_session(recording: Recording) -> None:
    """Session, transitions and documents alone give the same state, at every prefix."""
    assert fold(recording.session, recording.transitions, recording.lookup) == recording.state
    for length, record in enumerate(recording.transitions, start=1):
        folded = fold(recording.session, recording.transitions[:length], recording.lookup)
        assert digest_of(folded) == record.state_digest
    assert fold(recording.session, [], recording.lookup) == start(recording.session)


@pytest.mark.parametrize(
    "ending",
    [TripBreaker("tokens"), EvaluatorUnavailable("evaluator.gone"), Escalate("driver.asks"), Abort("person.stopped")],
)
def test_commands_that_carry_a_word_come_back(world: Any, recording: Recording, ending: Command) -> None:
    """The word in the transition is enough to rebuild the command."""
    shorter = Recording(world)
    for record in recording.transitions[:-1]:
        shorter.stored = recording.stored
        again = command_of(record, recording.lookup)
        shorter.run(lambda _, again=again: again)  # type: ignore[misc]  # a default has no inferred type
    assert shorter.run(lambda _: ending) == command_of(shorter.transitions[-1], recording.lookup)
    assert fold(shorter.session, shorter.transitions, recording.lookup) == shorter.state


@pytest.mark.parametrize(
    ("index", "changes", "says"),
    [
        (0, {"index": 1}, "index"),
        (2, {"session_digest": "blake3:" + "0" * 64}, "session_digest"),
        (3, {"phase_before": "planned"}, "phase_before"),
        (4, {"phase_after": "retry"}, "phase_after"),
        (6, {"events": ("plan-recorded", "extra")}, "events"),
        (7, {"state_digest": "blake3:" + "0" * 64}, "state_digest"),
        (5, {"argument": "tokens"}, "argument"),
        (8, {"command": "StartPlanning"}, "wrong-phase"),
        (8, {"command": "Start"}, "not a command"),
        (8, {"argument_digest": "blake3:" + "0" * 64}, "not a command"),
        (1, {"argument_digest": None}, "not a command"),
        (0, {"argument_digest": "blake3:" + "0" * 64}, "not a command"),
        (0, {"argument": "planning"}, "wrong-argument"),
    ],
)
def test_a_changed_record_is_found_at_its_index(
    recording: Recording, index: int, changes: dict[str, Any], says: str
) -> None:
    """Whatever member of a transition was changed, the fold stops there and says what differs."""
    lied = list(recording.transitions)
    lied[index] = structs.replace(lied[index], **changes)
    with pytest.raises(VerificationError) as error:
        fold(recording.session, lied, recording.lookup)
    assert error.value.code == "unverified.state-fold"
    assert f"transition {index}:" in error.value.message
    assert says in error.value.message


def test_a_removed_or_repeated_record_is_found(recording: Recording) -> None:
    """A gap, a repeat and a swap diverge at the place where they begin."""
    whole = recording.transitions
    for lied, index in (
        (whole[:3] + whole[4:], 3),
        (whole[:3] + whole[2:], 3),
        ([whole[0], whole[2], whole[1], *whole[3:]], 1),
    ):
        with pytest.raises(VerificationError) as error:
            fold(recording.session, lied, recording.lookup)
        assert error.value.code == "unverified.state-fold"
        assert f"transition {index}:" in error.value.message


def test_documents_are_verified_when_they_are_read(recording: Recording) -> None:
    """Swapped or damaged stored bytes diverge where they are used; a missing document is the lookup's own error."""
    digest = recording.transitions[2].argument_digest
    assert digest is not None
    good = recording.stored[digest]
    for bad in (good + b" ", b"{}", recording.stored[recording.transitions[6].argument_digest or ""]):
        recording.stored[digest] = bad
        with pytest.raises(VerificationError) as error:
            fold(recording.session, recording.transitions, recording.lookup)
        assert error.value.code == "unverified.state-fold"
        assert "transition 2:" in error.value.message
    del recording.stored[digest]
    with pytest.raises(SavantError) as missing:
        fold(recording.session, recording.transitions, recording.lookup)
    assert missing.value.code == "unverifiable.missing-object"


def test_another_session_does_not_fold(recording: Recording) -> None:
    """The same records under an enlarged budget diverge at the first of them."""
    budgets = structs.replace(recording.session.budgets, retries=99)
    with pytest.raises(VerificationError) as error:
        fold(structs.replace(recording.session, budgets=budgets), recording.transitions, recording.lookup)
    assert "transition 0:" in error.value.message
