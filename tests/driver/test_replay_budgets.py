"""Budgets decided again from the records: calls that were forbidden, and refusals that were not due."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from driver.documents import Accounting, CallLimit
from driver.history import RunHistory
from driver.replay_budgets import budgets_hold
from driver.replay_evidence import Evidence
from providerport.port import Usage
from providerport.scripted import ANSWERS_INTERPRETATION, Answer
from savant.contracts.errors import Unverifiable, VerificationError
from savant.ledger.ed25519 import Ed25519Verifier
from synthesis.documents import Session, Transition
from tests.driver.runkit import changed, replace_body, without
from tests.driver.sessionkit import GOOD, planning, script
from tests.driver.test_loop import WorldOf

ASIDE = Accounting(model="", call=CallLimit(tokens_in=100, tokens_out=10), price=None)


def again(history: RunHistory) -> str:
    return budgets_hold(Evidence(history, None, None, Ed25519Verifier()))


def granted(history: RunHistory, **members: Any) -> RunHistory:
    """The history of a session with other budgets."""
    budgets = history.need(Session).document.budgets
    return replace_body(history, Session, changed(budgets=structs.replace(budgets, **members)))


def recorded(world: WorldOf, **budgets: Any) -> RunHistory:
    """A run whose two first calls used 60 tokens each, and the third none that it told of."""
    w = world(
        script(
            GOOD,
            interpretations=[Answer(ANSWERS_INTERPRETATION.payload, Usage(50, 10))],
            plans=[Answer(planning().payload, Usage(60, 0))],
            reports_usage=True,
        ),
        budgets=budgets,
    )
    w.accounting = ASIDE
    w.session_run()
    return w.history


def test_a_run_within_its_budgets(world: WorldOf) -> None:
    """Every call was allowed when it was made; with one token less the third would not have been."""
    history = recorded(world, tokens=230)
    assert again(history) == "3 calls within their budgets"
    with pytest.raises(VerificationError) as caught:
        again(granted(history, tokens=229))
    assert "the budget of tokens forbids" in caught.value.message
    with pytest.raises(VerificationError) as caught:
        again(granted(history, provider_calls=2))
    assert "the budget of calls forbids" in caught.value.message


def test_a_run_that_a_budget_ended(world: WorldOf) -> None:
    """The refusal was due; with one token more it would not have been."""
    history = recorded(world, tokens=229)
    assert again(history) == "2 calls within their budgets"
    with pytest.raises(VerificationError) as caught:
        again(granted(history, tokens=230))
    assert "says that the budget of tokens forbids a call" in caught.value.message


def test_breakers_that_follow_from_something_else(world: WorldOf) -> None:
    """A breaker that no sum decides is the machine's business."""
    history = recorded(world, tokens=229)
    other = replace_body(history, Transition, changed(argument="stagnation"))
    assert history.all(Transition)[-1].document.command == "TripBreaker"
    assert again(granted(other, tokens=999)) == "2 calls within their budgets"


def test_what_is_not_there_is_not_shown(world: WorldOf) -> None:
    """Limits without the accounting that they were kept by cannot be decided again; without limits none is needed."""
    history = without(recorded(world, tokens=230), Accounting)
    for member in ("tokens", "cost_microunits"):
        with pytest.raises(Unverifiable):
            again(granted(history, **{"tokens": None, member: 230}))
    assert again(granted(history, tokens=None)) == "3 calls within their budgets"
