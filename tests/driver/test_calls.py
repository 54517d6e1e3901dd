"""Provider calls: announced durably before they begin, recorded when they end, counted by every budget."""

from __future__ import annotations

import pytest

from driver.step import Run
from providerport.documents import Capabilities, Observations, Receipt, Request, Result
from providerport.port import Usage
from providerport.scripted import ANSWERS_INTERPRETATION, Answer, Block, Fail, Verbatim
from savant.contracts.document import accept
from savant.contracts.errors import PortError
from savant.ledger.documents import Intent
from tests.driver.sessionkit import GOOD, World, script, threaded
from tests.driver.test_loop import WorldOf


def asked(run: Run) -> None:
    from driver.step import interpret

    interpret(run)


def test_the_intent_stands_before_the_call_and_the_result_after_it(world: WorldOf) -> None:
    """Request, intent with the deadline, then capabilities, result and receipt; the receipt's record is observed."""
    w = world(script(interpretations=[Answer(ANSWERS_INTERPRETATION.payload, Usage(3, 4, 5))], reports_usage=True))
    run = Run(w.inputs(), w.ports())
    asked(run)
    order = [type(e.body.document) for e in w.entries if e.role == "provider-host"]
    assert order == [Request, Intent, Capabilities, Result, Receipt]
    (request,), (intent,) = w.history.all(Request), w.all(Intent)
    assert (intent.operation, intent.subject_digest) == ("provider.interpretation", request.digest)
    assert intent.deadline_ms == request.document.deadline_ms
    seen = next(e.observed for e in w.entries if isinstance(e.body.document, Receipt))
    assert (seen.tokens_in, seen.tokens_out, seen.cost_microunits, seen.duration_ms) == (3, 4, 5, 0)
    assert run.calls.receipts == [w.history.need(Receipt).digest]


def test_what_a_provider_says_is_kept_by_digest(world: WorldOf) -> None:
    """Its lines go to the object store; the record of the receipt names them."""

    def loud(call: object) -> object:
        call.observer.note("thinking")  # type: ignore[attr-defined]
        return ANSWERS_INTERPRETATION.payload(call)  # type: ignore[operator, arg-type]

    w = world(script(interpretations=[Answer(loud)]))  # type: ignore[arg-type]
    asked(Run(w.inputs(), w.ports()))
    seen = next(e.observed for e in w.entries if isinstance(e.body.document, Receipt))
    (attachment,) = seen.attachments
    assert attachment.name == "observations"
    kept = accept(w.objects.get(attachment.digest), Observations)
    assert [item.text for item in kept.document.items] == ["thinking"]


@pytest.mark.parametrize("step", [Fail("unavailable", "crash"), Verbatim(lambda _: "prose"), Block()])
def test_a_call_that_fails_is_recorded_and_counted(world: WorldOf, step: object) -> None:
    """One receipt and one count for each call, whatever came of it."""
    w = world(script(interpretations=[step]))  # type: ignore[list-item]
    run = Run(w.inputs(), w.ports())
    asked(run)
    assert run.host.state.calls == 1
    assert len(w.all(Receipt)) == 1
    assert w.all(Receipt)[0].payload_digest is None


def test_a_call_past_its_deadline_is_ended(world: WorldOf) -> None:
    """A blocked provider on a real thread is told to end; its call is recorded as timed out."""
    from savant.process.effects import SystemClock

    w = world(script(interpretations=[Block()]), driver={"interpretation_deadline_ms": 50}, **threaded())
    w.clock = SystemClock()  # type: ignore[assignment]
    run, disposition = w.session_run()
    assert disposition == "provider-stopped"
    assert "timed-out" in run.trace.stopped_by
    assert [(r.outcome, r.failure_kind) for r in w.all(Receipt)] == [("timed-out", "timeout")]


def test_no_call_begins_without_its_intent(world: WorldOf) -> None:
    """When the intent cannot be recorded, the provider is not called."""
    provider = script(GOOD)
    w = world(provider)
    run = Run(w.inputs(), w.ports())
    w.ledger.fails_at = 2  # the transition that counts the call, the request
    with pytest.raises(PortError):
        asked(run)
    assert provider.calls() == 0
    assert w.all(Intent) == []


def test_usage_that_is_half_reported_is_counted_as_far_as_it_goes(world: WorldOf) -> None:
    """What is known of a call counts, and the next one sets as much aside; nothing reported counts nothing."""
    for usage, limit, calls in ((Usage(None, 10, None), 19, 1), (Usage(10, None, None), 30, 3), (None, 1, 3)):
        provider = script(GOOD, interpretations=[Answer(ANSWERS_INTERPRETATION.payload, usage)])
        w: World = world(provider, budgets={"tokens": limit})
        w.session_run()
        assert provider.calls() == calls
