"""What a run may spend: the price of its model as the person wrote it, and its budgets in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from driver.documents import Price
from driver.money import find_price, format_amount
from savant.cli.person import read_person

if TYPE_CHECKING:
    from savant.cli.places import Places
    from savant.cli.provision import Provision
    from synthesis.documents import Budgets


class Spending(msgspec.Struct, frozen=True):
    """What a provider says of its model and usage, and what the person says a million tokens of it cost."""

    reports_usage: bool
    model: str
    price: Price | None


def spending_of(places: Places, provision: Provision) -> Spending:
    """How the calls of a provider are counted. The person's configuration is read only where usage is reported.

    :raises RefusedInput: ``refused.person-config``.
    """
    claim = provision.factory().describe()
    if not claim.reports_usage:
        return Spending(reports_usage=False, model=claim.model, price=None)
    prices = {
        name: Price(
            input_microunits=row.input_per_mtok,
            cached_microunits=row.cached_per_mtok,
            output_microunits=row.output_per_mtok,
        )
        for name, row in read_person(places).prices.items()
    }
    price = find_price(prices, model=claim.model, provider=claim.provider)
    return Spending(reports_usage=True, model=claim.model, price=price)


def budget_words(budgets: Budgets) -> str:
    """The budgets of a run in one line, and which of them are not limited."""
    tokens, money = budgets.tokens, budgets.cost_microunits
    limited = [f"{budgets.retries} retries", f"{budgets.replans} replans", f"{budgets.provider_calls} calls"]
    limited += [] if tokens is None else [f"{tokens} tokens"]
    limited += [] if money is None else [f"cost {format_amount(money)}"]
    unlimited = [name for name, limit in (("tokens", tokens), ("cost", money)) if limit is None]
    return f"budgets: {', '.join(limited)}" + (f"; not limited: {', '.join(unlimited)}" if unlimited else "")
