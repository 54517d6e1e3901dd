"""Money: exact integers, rounded up once, and a worst case that no call within its limit exceeds."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.documents import Accounting, CallLimit, Price
from driver.money import (
    CallUse,
    Reservation,
    cost_of,
    find_price,
    format_amount,
    parse_amount,
    priced,
    tally,
    worst_case,
)
from providerport.port import Usage
from savant.contracts.canonical import MAX_INTEGER
from savant.contracts.errors import UsageError
from synthesis.budgets import consume, tripped
from synthesis.documents import Budgets

PRICE = Price(input_microunits=3_000_000, cached_microunits=300_000, output_microunits=15_000_000)
LIMIT = CallLimit(tokens_in=1_000, tokens_out=100)
COUNTS = st.integers(0, 10**7)
PRICES = st.builds(Price, input_microunits=COUNTS, cached_microunits=COUNTS, output_microunits=COUNTS)
KNOWN = st.none() | st.integers(0, 3_000)
USAGES = st.none() | st.builds(Usage, KNOWN, KNOWN, KNOWN, KNOWN)
ACCOUNTINGS = st.builds(
    Accounting,
    model=st.just("m"),
    call=st.builds(CallLimit, tokens_in=st.integers(0, 2_000), tokens_out=st.integers(0, 2_000)),
    price=st.none() | PRICES,
)


def use(usage: Usage | None, model: str = "m") -> CallUse:
    return CallUse("generation", 10, 5, model, usage)


def accounting(**members: Any) -> Accounting:
    return Accounting(**{"model": "m", "call": LIMIT, "price": PRICE, **members})


@pytest.mark.parametrize(
    ("text", "microunits"),
    [("0", 0), ("2", 2_000_000), ("2.5", 2_500_000), ("0.000001", 1), ("999999999.999999", 999_999_999_999_999)],
)
def test_amounts_are_exact(text: str, microunits: int) -> None:
    """What a person writes is kept to the last digit."""
    assert parse_amount(text) == microunits


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1.", ".5", "1.0000001", "1e3", "1,5", " 1", "1\n", "nan", "٣", "1" * 10]
)
def test_what_is_no_amount(text: str) -> None:
    """Signs, exponents, other digits, too many digits: refused by name, with an example."""
    with pytest.raises(UsageError) as caught:
        parse_amount(text)
    assert caught.value.code == "usage.amount"
    assert "2.50" in caught.value.fix


@given(st.integers(0, 10**15 - 1))
def test_an_amount_that_was_written_is_read_back(microunits: int) -> None:
    """Formatting loses nothing, and shows two digits at least."""
    text = format_amount(microunits)
    assert parse_amount(text) == microunits
    assert len(text.partition(".")[2]) >= 2


def test_a_price_is_the_models_or_the_unnamed_providers() -> None:
    """The model decides; a provider that names no model is looked up by its own name."""
    prices = {"m": PRICE, "command": PRICE}
    assert find_price(prices, model="m", provider="claude") == PRICE
    assert find_price(prices, model="", provider="command") == PRICE
    assert find_price(prices, model="other", provider="command") is None


def test_a_cost_by_hand() -> None:
    """A thousand read, of which 400 from the cache, and ten written: 1.8 + 0.12 + 0.15 thousandths."""
    assert cost_of(Usage(1_000, 10, None, 400), PRICE) == 2_070
    assert cost_of(Usage(1_000, 10), PRICE) == 3_150
    assert cost_of(Usage(1, 0), Price(input_microunits=1, cached_microunits=0, output_microunits=0)) == 1
    assert cost_of(Usage(0, 0), PRICE) == 0
    assert cost_of(Usage(None, 10), PRICE) is None
    assert cost_of(Usage(10, None), PRICE) is None
    assert cost_of(Usage(MAX_INTEGER, 0), PRICE) == MAX_INTEGER


@given(COUNTS, COUNTS, st.integers(0, 10**7), PRICES)
def test_a_cost_is_rounded_up_once(tokens_in: int, tokens_out: int, cached: int, price: Price) -> None:
    """It is the exact cost, or the next whole microunit above it."""
    cached = min(cached, tokens_in)
    cost = cost_of(Usage(tokens_in, tokens_out, None, cached), price)
    assert cost is not None
    exact = (
        Fraction(tokens_in - cached) * price.input_microunits
        + Fraction(cached) * price.cached_microunits
        + Fraction(tokens_out) * price.output_microunits
    ) / 1_000_000
    assert exact <= cost < exact + 1


@given(st.data(), PRICES, COUNTS, COUNTS)
def test_no_call_within_its_limit_costs_more_than_the_worst_case(
    data: st.DataObject, price: Price, most_in: int, most_out: int
) -> None:
    """Whatever of the limit is used, cached or not, the worst case covers it; the full limit needs all of it."""
    worst = worst_case(CallLimit(tokens_in=most_in, tokens_out=most_out), price)
    tokens_in, tokens_out = data.draw(st.integers(0, most_in)), data.draw(st.integers(0, most_out))
    cached = data.draw(st.integers(0, tokens_in))
    cost = cost_of(Usage(tokens_in, tokens_out, None, cached), price)
    assert cost is not None
    assert worst.cost_microunits is not None
    assert tokens_in + tokens_out <= worst.tokens
    assert cost <= worst.cost_microunits
    fullest = max(cost_of(Usage(most_in, most_out, None, n), price) or 0 for n in (0, most_in))
    assert fullest == worst.cost_microunits


def test_without_a_price_the_worst_cost_is_unknown() -> None:
    """It is not free."""
    assert worst_case(LIMIT, None) == Reservation(1_000, 100, None)
    assert worst_case(LIMIT, PRICE) == Reservation(1_000, 100, 4_500)


def test_a_price_is_for_its_model_alone() -> None:
    """A call that another model answered has no price; nor has one that reported nothing, or without accounting."""
    assert priced(Usage(1_000, 10), "m", accounting()) == 3_150
    assert priced(Usage(1_000, 10), "other", accounting()) is None
    assert priced(Usage(1_000, 10), "m", accounting(price=None)) is None
    assert priced(Usage(1_000, 10), "m", None) is None
    assert priced(None, "m", accounting()) is None


def test_what_the_budgets_count_of_a_call() -> None:
    """What was reported; by price where only tokens were; the worst case of what was not."""

    def counted(usage: Usage | None, **members: Any) -> tuple[int, int]:
        total = consume(tally(accounting(**members), [use(usage)]).records)
        return total.tokens, total.cost_microunits

    assert counted(Usage(10, 5, 99)) == (15, 99)
    assert counted(Usage(10, 5)) == (15, 105)
    assert counted(None) == (1_100, 4_500)
    assert counted(Usage(None, 5)) == (1_005, 4_500)
    assert counted(Usage(10, None)) == (110, 4_500)
    assert counted(Usage(0, 0, 0)) == (0, 0)
    assert counted(None, price=None) == (1_100, 0)


def test_a_call_that_used_more_raises_what_the_next_one_sets_aside() -> None:
    """The configured limit was wrong: the largest call so far is believed from then on, in each of its parts."""
    more = [use(Usage(2_000, 1, 9_000)), use(Usage(1, 300, 1)), use(None)]
    assert tally(accounting(), []).next_call == Reservation(1_000, 100, 4_500)
    assert tally(accounting(), more[:1]).next_call == Reservation(2_000, 100, 9_000)
    assert tally(accounting(), more).next_call == Reservation(2_000, 300, 10_500)
    assert tally(accounting(price=None), more).next_call == Reservation(2_000, 300, 9_000)
    assert tally(accounting(price=None), more[2:]).next_call == Reservation(1_000, 100, None)
    assert tally(accounting(), more).records[2].reserved_tokens == 2_300


@given(ACCOUNTINGS, st.lists(USAGES, max_size=6), st.integers(1, 20_000), st.integers(1, 200_000))
def test_a_budget_holds_while_calls_keep_within_what_is_set_aside(
    accounted: Accounting, wanted: list[Usage | None], tokens: int, cost: int
) -> None:
    """Calls are made until the breaker trips: when none used more than was set aside, no sum exceeds its limit."""
    budgets = Budgets(
        retries=0, replans=0, provider_calls=None, wall_clock_ms=None, tokens=tokens, cost_microunits=cost
    )
    made: list[CallUse] = []
    for usage in wanted:
        tallied = tally(accounted, made)
        aside = tallied.next_call
        breaker = tripped(
            budgets,
            consume(tallied.records),
            next_tokens=aside.tokens,
            next_cost_microunits=aside.cost_microunits or 0,
        )
        if breaker is not None:
            break
        made.append(use(usage))
        one = consume(tally(accounted, made).records[-1:])
        if one.tokens > aside.tokens or one.cost_microunits > (aside.cost_microunits or 0):
            return  # it broke its promise: nothing that was set aside can hold it
    total = consume(tally(accounted, made).records)
    assert total.tokens <= tokens
    assert total.cost_microunits <= cost
