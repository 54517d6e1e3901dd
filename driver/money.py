"""Tokens and money of provider calls: what a call cost, what it may cost at most, what the budgets count. Pure.

All arithmetic is on integers. Money is in millionths of a currency unit (microunits), a price in microunits for a
million tokens, and a cost is rounded up once, at the end: a budget is never exceeded by rounding.

What a budget counts for a call is what the provider reported. Where it reported nothing, the budget counts the worst
case that was set aside for the call: a crash buys no tokens. The worst case of the next call is the configured limit of
one call, or what an earlier call of the run really used, if that was more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from driver.documents import Accounting, CallLimit, Price
from providerport.port import Usage
from savant.contracts.canonical import MAX_INTEGER
from savant.contracts.errors import UsageError
from synthesis.budgets import CallRecord
from synthesis.documents import Operation

MILLION: Final = 1_000_000
"""Tokens that a price is for; microunits in a currency unit."""

_AMOUNT: Final = re.compile(r"(\d{1,9})(?:\.(\d{1,6}))?")


class Reservation(msgspec.Struct, frozen=True):
    """What is set aside for one call; ``cost_microunits`` is None where neither price nor an earlier cost is known."""

    tokens_in: int
    tokens_out: int
    cost_microunits: int | None

    @property
    def tokens(self) -> int:
        """Tokens in and out together."""
        return self.tokens_in + self.tokens_out


class CallUse(msgspec.Struct, frozen=True):
    """One call as its records show it.

    :param duration_ms: None while only its intent is recorded.
    :param model: what the provider said its model is; empty for none.
    :param usage: as reported; None where nothing was.
    """

    operation: Operation
    deadline_ms: int
    duration_ms: int | None
    model: str
    usage: Usage | None


class Tally(msgspec.Struct, frozen=True):
    """The calls of a run as the budgets count them, and what the next one has to set aside."""

    records: tuple[CallRecord, ...]
    next_call: Reservation


def parse_amount(text: str) -> int:
    """An amount of money, such as ``1.50``, in microunits: digits, and at most six more after a point.

    :raises UsageError: ``usage.amount``.
    """
    found = _AMOUNT.fullmatch(text) if text.isascii() else None
    if found is None:
        raise UsageError(
            "usage.amount",
            f"{text[:40]!r} is no amount of money.",
            fix="Write it as 2 or 2.50, without a sign, with at most six digits after the point.",
        )
    whole, part = found.groups(default="")
    return int(whole) * MILLION + int(part.ljust(6, "0"))


def format_amount(microunits: int) -> str:
    """An amount for a person: the inverse of :func:`parse_amount`, with at least two digits after the point."""
    whole, part = divmod(microunits, MILLION)
    return f"{whole}.{f'{part:06}'.rstrip('0').ljust(2, '0')}"


def find_price(prices: Mapping[str, Price], *, model: str, provider: str) -> Price | None:
    """The price of a model; of the provider, by its name, where it names no model; None where there is none."""
    return prices.get(model or provider)


def cost_of(usage: Usage, price: Price) -> int | None:
    """The cost of a call in microunits, rounded up; None unless tokens in and out are known."""
    if usage.tokens_in is None or usage.tokens_out is None:
        return None
    cached = usage.tokens_cached or 0
    total = (
        max(usage.tokens_in - cached, 0) * price.input_microunits
        + cached * price.cached_microunits
        + usage.tokens_out * price.output_microunits
    )
    return min(-(-total // MILLION), MAX_INTEGER)


def priced(usage: Usage | None, model: str, accounting: Accounting | None) -> int | None:
    """The cost of a call by the price in force; None where tokens are unknown, or a price of this model is."""
    if usage is None or accounting is None or accounting.price is None or model != accounting.model:
        return None
    return cost_of(usage, accounting.price)


def worst_case(call: CallLimit, price: Price | None) -> Reservation:
    """What a call within a limit can use at most: every token read anew or from the cache, whichever costs more."""
    if price is None:
        return Reservation(call.tokens_in, call.tokens_out, None)
    reading = max(price.input_microunits, price.cached_microunits)
    total = call.tokens_in * reading + call.tokens_out * price.output_microunits
    return Reservation(call.tokens_in, call.tokens_out, min(-(-total // MILLION), MAX_INTEGER))


def tally(accounting: Accounting, uses: Iterable[CallUse]) -> Tally:
    """The calls so far as the budgets count them, in order, and what the next one has to set aside."""
    limit, largest_cost = accounting.call, 0
    records = []
    for use in uses:
        records.append(_record(use, accounting, _reserve(limit, accounting.price, largest_cost)))
        if use.usage is not None:
            limit = CallLimit(
                tokens_in=max(limit.tokens_in, use.usage.tokens_in or 0),
                tokens_out=max(limit.tokens_out, use.usage.tokens_out or 0),
            )
            largest_cost = max(largest_cost, use.usage.cost_microunits or 0)
    return Tally(tuple(records), _reserve(limit, accounting.price, largest_cost))


def _reserve(limit: CallLimit, price: Price | None, largest_cost: int) -> Reservation:
    worst = worst_case(limit, price)
    cost = max(worst.cost_microunits or 0, largest_cost)
    return worst if cost == 0 else Reservation(worst.tokens_in, worst.tokens_out, cost)


def _record(use: CallUse, accounting: Accounting, reserved: Reservation) -> CallRecord:
    usage = use.usage or Usage()
    known = (usage.tokens_in, usage.tokens_out)
    cost = usage.cost_microunits
    if cost is None:
        cost = priced(use.usage, use.model, accounting)
    return CallRecord(
        operation=use.operation,
        duration_ms=use.duration_ms,
        deadline_ms=use.deadline_ms,
        tokens=None if usage.tokens_in is None or usage.tokens_out is None else usage.tokens_in + usage.tokens_out,
        cost_microunits=cost,
        reserved_tokens=sum(
            most if told is None else told
            for told, most in zip(known, (reserved.tokens_in, reserved.tokens_out), strict=True)
        ),
        reserved_cost_microunits=reserved.cost_microunits or 0,
    )
