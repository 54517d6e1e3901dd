"""Tokens and money in words: numbers for what is known, ``unknown`` for the rest, ``notional`` for what nobody pays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from driver.money import format_amount

if TYPE_CHECKING:
    from driver.money import CallUse

UNKNOWN: Final = "unknown"


def known(parts: Sequence[str | None], unknown: int = 0) -> str:
    """What is known, and how many calls are not: ``unknown`` alone where nothing is."""
    told = [part for part in parts if part is not None]
    if not told:
        return UNKNOWN
    return " + ".join([*told, f"{unknown} {UNKNOWN}"] if unknown else told)


def count(value: int | None) -> str | None:
    """A number of tokens."""
    return None if value is None else f"{value:,}"


def money(paid: int | None, notional: int | None) -> list[str | None]:
    """An amount that somebody pays, and one that a subscription pays; nothing paid is not worth a word beside it."""
    is_paid = paid is not None and (paid > 0 or notional is None)
    return [
        format_amount(paid or 0) if is_paid else None,
        None if notional is None else f"{format_amount(notional)} notional",
    ]


def calls_words(uses: Sequence[CallUse]) -> str:
    """What the calls of a run used, in one line; empty where no call reported anything."""
    told = [use.usage for use in uses if use.usage is not None]
    if not told:
        return ""

    def words(member: str) -> str:
        values = [value for usage in told if (value := getattr(usage, member)) is not None]
        return known([count(sum(values)) if values else None], len(uses) - len(values))

    costs = [(usage.cost_microunits, usage.is_notional) for usage in told if usage.cost_microunits is not None]
    paid = [cost for cost, is_notional in costs if not is_notional]
    notional = [cost for cost, is_notional in costs if is_notional]
    amounts = money(sum(paid) if paid else None, sum(notional) if notional else None)
    cost = known(amounts, len(uses) - len(costs))
    return f"usage: tokens in {words('tokens_in')}, out {words('tokens_out')}; cost {cost}"
