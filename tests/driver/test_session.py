"""The session host: the one place that moves a session, and its records."""

from __future__ import annotations

import pytest

from driver.session import SessionHost
from providerport.scripted import minimal_interpretation, minimal_plan
from savant.contracts.document import digest_of, seal
from savant.contracts.errors import PortError
from synthesis.commands import Abort, RecordCall, RecordInterpretation, RecordPlan, StartAttempt
from synthesis.documents import Interpretation, Receipt, Transition
from tests.driver.sessionkit import World, script
from tests.driver.test_loop import WorldOf


@pytest.fixture
def w(world: WorldOf) -> World:
    return world(script())


def host_of(w: World) -> SessionHost:
    return SessionHost(w.inputs().session, w.ports().recorder)


def test_an_accepted_command_is_recorded_with_what_it_carries(w: World) -> None:
    """First the document, then the transition that binds the states before and after it."""
    host = host_of(w)
    before = host.digest
    assert host.send(RecordCall("interpretation")) is None
    carried = minimal_interpretation(host.session.document)
    middle = host.digest
    assert host.send(RecordInterpretation(carried)) is None
    assert host.state.phase == "planning"
    documents = [entry.body.document for entry in w.entries]
    assert [type(d) for d in documents] == [Transition, Interpretation, Transition]
    first, second = (d for d in documents if isinstance(d, Transition))
    assert before != middle
    assert (first.state_digest, second.state_digest) == (middle, host.digest)
    assert second.argument_digest == digest_of(carried)
    assert (second.phase_before, second.phase_after) == ("created", "planning")
    assert (first.index, second.index, host.transitions) == (0, 1, 2)


def test_a_refused_command_changes_and_records_nothing(w: World) -> None:
    """The very same state; the same host accepts a right command afterwards."""
    host = host_of(w)
    state = host.state
    refusal = host.send(StartAttempt())
    assert refusal is not None
    assert refusal.code == "wrong-phase"
    assert host.state is state
    foreign = minimal_plan(minimal_interpretation(host.session.document))
    assert host.send(RecordPlan(foreign)) is not None
    assert (host.transitions, w.entries) == (0, [])
    assert host.send(RecordCall("interpretation")) is None


def test_the_end_of_a_session_is_recorded_with_its_receipt(w: World) -> None:
    """A terminal transition is followed by the one receipt; nothing moves it any more."""
    host = host_of(w)
    assert host.send(Abort("person.asked")) is None
    (receipt,) = w.all(Receipt)
    assert (receipt.reason, receipt) == ("explicitly-aborted", host.state.receipt)
    refusal = host.send(Abort("person.asked"))
    assert refusal is not None
    assert refusal.code == "terminal-session"
    assert len(w.all(Receipt)) == 1


@pytest.mark.parametrize("good", [0, 1])
def test_a_transition_without_its_record_does_not_happen(w: World, good: int) -> None:
    """Under enforce the state stays what the ledger says, whether the document or the transition was lost."""
    host = host_of(w)
    before = digest_of(host.state)
    w.ledger.fails_at = good
    with pytest.raises(PortError):
        host.send(RecordInterpretation(minimal_interpretation(host.session.document)))
    assert seal(host.state).digest == before
    assert w.all(Transition) == []
