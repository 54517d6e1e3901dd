"""Budgets: consumption is derived, and each limit trips at N and not at N - 1."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthesis.budgets import CallRecord, Consumption, Spent, consume, spent, tripped
from synthesis.commands import RecordCall, RecordEvaluation
from synthesis.documents import Budgets

UNLIMITED = Budgets(retries=0, replans=0, provider_calls=None, wall_clock_ms=None, tokens=None, cost_microunits=None)

records = st.builds(
    CallRecord,
    operation=st.just("generation"),
    duration_ms=st.none() | st.integers(0, 1000),
    deadline_ms=st.integers(0, 1000),
    tokens=st.none() | st.integers(0, 1000),
    cost_microunits=st.none() | st.integers(0, 1000),
    reserved_tokens=st.integers(0, 1000),
    reserved_cost_microunits=st.integers(0, 1000),
)


def used(**members: int) -> Consumption:
    zero = dict.fromkeys(Consumption.__struct_fields__, 0)
    return Consumption(**{**zero, **members})


def limited(**members: int) -> Budgets:
    rest = {name: getattr(UNLIMITED, name) for name in Budgets.__struct_fields__}
    return Budgets(**{**rest, **members})


@pytest.mark.parametrize(
    ("limit", "member", "breaker"),
    [
        ("provider_calls", "calls", "calls"),
        ("wall_clock_ms", "wall_clock_ms", "wall-clock"),
        ("tokens", "tokens", "tokens"),
        ("cost_microunits", "cost_microunits", "cost"),
    ],
)
@pytest.mark.parametrize("granted", [1, 7])
def test_each_limit_trips_at_n_and_not_before(limit: str, member: str, breaker: str, granted: int) -> None:
    """N - 1 is still inside the limit, N is the end of it; without a limit nothing trips."""
    budgets = limited(**{limit: granted})
    assert tripped(budgets, used(**{member: granted - 1})) is None
    assert tripped(budgets, used(**{member: granted})) == breaker
    assert tripped(budgets, used(**{member: granted + 1})) == breaker
    assert tripped(UNLIMITED, used(**{member: granted})) is None


def test_a_limit_of_nothing_allows_nothing() -> None:
    """Zero trips before the first call."""
    assert tripped(limited(tokens=0), used()) == "tokens"


def test_the_first_tripped_limit_is_named_in_a_fixed_order() -> None:
    """Calls before wall clock before tokens before cost."""
    every = limited(provider_calls=1, wall_clock_ms=1, tokens=1, cost_microunits=1)
    assert tripped(every, used(calls=1, wall_clock_ms=1, tokens=1, cost_microunits=1)) == "calls"
    assert tripped(every, used(wall_clock_ms=1, tokens=1, cost_microunits=1)) == "wall-clock"
    assert tripped(every, used(tokens=1, cost_microunits=1)) == "tokens"
    assert tripped(every, used(cost_microunits=1)) == "cost"


def test_an_open_intent_counts_its_deadline_and_what_was_not_reported_is_counted() -> None:
    """A crash buys no time, and a call without usage is visible as such."""
    calls = [
        CallRecord("planning", 40, 1000, 7, None),
        CallRecord("generation", None, 1000, None, 5),
        CallRecord("generation", 0, 1000, 3, 5),
    ]
    assert consume(calls) == Consumption(
        calls=3, wall_clock_ms=1040, tokens=10, cost_microunits=10, calls_without_tokens=1, calls_without_cost=1
    )


@given(st.lists(records, max_size=8), records)
def test_consumption_never_shrinks(earlier: list[CallRecord], later: CallRecord) -> None:
    """One more call never makes any sum smaller, so a tripped breaker stays tripped."""
    before, after = consume(earlier), consume([*earlier, later])
    for member in Consumption.__struct_fields__:
        assert getattr(after, member) >= getattr(before, member)


def test_what_a_state_spent_is_granted_minus_left(world: Any) -> None:
    """Nothing is stored: the numbers come from the session and the state."""
    state = world.at("evaluating")
    assert spent(state) == Spent(0, 0, 0)
    state = world.accept(state, RecordCall("evaluation-observation"))
    state = world.accept(state, RecordEvaluation(world.evaluation(state, "retry-generation")))
    assert spent(state) == Spent(retries=1, replans=0, calls=1)


@pytest.mark.parametrize(
    ("limit", "reserved", "breaker"),
    [("tokens", "next_tokens", "tokens"), ("cost_microunits", "next_cost_microunits", "cost")],
)
def test_a_call_that_could_exceed_a_limit_is_forbidden(limit: str, reserved: str, breaker: str) -> None:
    """Consumed and set aside have to fit together; filling the limit exactly is allowed, one more is not."""
    budgets = limited(**{limit: 10})
    assert tripped(budgets, used(**{limit: 4}), **{reserved: 6}) is None
    assert tripped(budgets, used(**{limit: 4}), **{reserved: 7}) == breaker
    assert tripped(budgets, used(), **{reserved: 10}) is None
    assert tripped(budgets, used(), **{reserved: 11}) == breaker
    assert tripped(budgets, used(**{limit: 10}), **{reserved: 0}) == breaker
    assert tripped(UNLIMITED, used(**{limit: 10}), **{reserved: 10**9}) is None


def test_a_call_that_reported_nothing_counts_what_was_set_aside() -> None:
    """A crash buys no tokens; what was reported, be it nothing at all, is believed."""
    silent = CallRecord("generation", 1, 1, None, None, reserved_tokens=30, reserved_cost_microunits=9)
    told = CallRecord("generation", 1, 1, 0, 0, reserved_tokens=30, reserved_cost_microunits=9)
    assert (consume([silent]).tokens, consume([silent]).cost_microunits) == (30, 9)
    assert (consume([told]).tokens, consume([told]).cost_microunits) == (0, 0)
    assert (consume([silent, told]).calls_without_tokens, consume([silent, told]).calls_without_cost) == (1, 1)
