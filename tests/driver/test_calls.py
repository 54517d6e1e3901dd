"""Provider calls: announced durably before they begin, recorded when they end, counted by every budget."""

from __future__ import annotations

import pytest
from msgspec import structs

from driver.calls import explain, uses_of
from driver.config import DEFAULT_BUDGETS
from driver.documents import Accounting, CallLimit, Price
from driver.history import RunHistory
from driver.money import Reservation, tally
from driver.step import Run
from providerport.documents import Capabilities, Observations, Receipt, Request, Result
from providerport.port import Usage
from providerport.scripted import ANSWERS_INTERPRETATION, Answer, Block, Fail, Verbatim
from savant.contracts.document import accept
from savant.contracts.errors import PortError
from savant.ledger.documents import Intent
from synthesis.budgets import consume
from synthesis.documents import Breaker
from tests.driver.sessionkit import GOOD, World, planning, script, threaded
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


ASIDE = Accounting(
    model="",
    call=CallLimit(tokens_in=100, tokens_out=10),
    price=Price(input_microunits=1_000_000, cached_microunits=0, output_microunits=1_000_000),
)


@pytest.mark.parametrize(
    ("member", "least", "reason", "words"),
    [
        ("tokens", 230, "token-budget-exhausted", "Of 229 tokens, 120 are used; the next call may use 110"),
        (
            "cost_microunits",
            230,
            "cost-budget-exhausted",
            "Of 0.000229, 0.00012 is spent; the next call may cost 0.00011",
        ),
    ],
)
def test_the_worst_case_is_set_aside_before_a_call(
    world: WorldOf, member: str, least: int, reason: str, words: str
) -> None:
    """Two calls used 60 each: the third is made when its worst case still fits, and not when one is missing."""
    for granted, expected in ((least - 1, reason), (least, "candidate-ready-for-admission")):
        provider = script(
            GOOD,
            interpretations=[Answer(ANSWERS_INTERPRETATION.payload, Usage(50, 10))],
            plans=[Answer(planning().payload, Usage(60, 0))],
            reports_usage=True,
        )
        w = world(provider, budgets={member: granted})
        w.accounting = ASIDE
        result = w.whole()
        assert result.receipt.document.reason == expected
        is_refused = expected == reason
        assert provider.calls() == (2 if is_refused else 3)
        assert any(line.startswith(words) for line in w.progress.lines) is is_refused
        assert result.detail.startswith(words) is is_refused
        assert [a.price for a in w.all(Accounting)] == [ASIDE.price]


def test_a_silent_call_uses_up_what_was_set_aside(world: WorldOf) -> None:
    """Nothing reported is not nothing used: the second call finds no room."""
    for usage, calls in ((None, 1), (Usage(0, 0), 3)):
        provider = script(
            GOOD,
            interpretations=[Answer(ANSWERS_INTERPRETATION.payload, usage)],
            plans=[Answer(planning().payload, Usage(0, 0))],
            reports_usage=True,
        )
        w = world(provider, budgets={"tokens": 219})
        w.accounting = ASIDE
        w.whole()
        assert provider.calls() == calls


def test_the_accounting_is_recorded_where_it_decides_something(world: WorldOf) -> None:
    """A run without limits and without a price has none to record; a limit or a price makes it count."""
    for budgets, price, recorded in (({}, None, 0), ({"tokens": 10**9}, None, 1), ({}, ASIDE.price, 1)):
        w = world(script(GOOD), budgets=budgets)
        w.accounting = structs.replace(ASIDE, price=price)
        w.whole()
        assert len(w.all(Accounting)) == recorded


def test_what_was_consumed_follows_from_the_records(world: WorldOf) -> None:
    """The calls as the driver held them, and as the ledger shows them, are the same: nobody keeps a counter."""
    provider = script(
        GOOD,
        interpretations=[Fail("unavailable", "overloaded"), Answer(ANSWERS_INTERPRETATION.payload, Usage(3, 4, 5, 1))],
        reports_usage=True,
    )
    w = world(provider)
    run, _ = w.session_run()
    assert len(run.calls.uses) == 1
    assert uses_of(w.history) == tuple(run.calls.uses)
    w = world(script(GOOD, interpretations=[Answer(ANSWERS_INTERPRETATION.payload, Usage(3, 4, 5, 1, True))]))
    run, _ = w.session_run()
    assert len(run.calls.uses) == 3
    assert uses_of(w.history) == tuple(run.calls.uses)


def test_a_call_that_never_ended_is_consumed_too(world: WorldOf) -> None:
    """A killed run's open intent is a call without an end: its deadline and its worst case count."""
    w = world(script(GOOD))
    run = Run(w.inputs(), w.ports())
    asked(run)
    opened = next(n for n, e in enumerate(w.entries) if isinstance(e.body.document, Intent))
    history = RunHistory("a" * 32, list(w.entries[: opened + 1]))
    (use,) = uses_of(history)
    assert (use.operation, use.duration_ms, use.usage) == ("interpretation", None, None)
    assert use.deadline_ms == w.inputs().driver_policy.document.interpretation_deadline_ms
    total = consume(tally(ASIDE, [use]).records)
    assert (total.wall_clock_ms, total.tokens) == (use.deadline_ms, 110)


def test_other_breakers_need_no_words() -> None:
    """The reason of a receipt says it already."""
    others: tuple[Breaker, ...] = ("calls", "wall-clock", "cost")
    for breaker in others:
        assert explain(breaker, DEFAULT_BUDGETS, consume([]), Reservation(0, 0, None)) == ""
