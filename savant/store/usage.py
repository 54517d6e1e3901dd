"""Usage by run, provider, model or day: sums over calls. What nobody reported is counted, never summed."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from savant.store.database import RunDatabase

Grouping: TypeAlias = Literal["run", "provider", "model", "day"]

_KEYS: Final[Mapping[Grouping, str]] = MappingProxyType(
    {
        "run": "u.run_id",
        "provider": "coalesce(c.provider, p.provider)",
        "model": "coalesce(c.model, p.model, '')",
        "day": "date(u.at_ms / 1000, 'unixepoch')",
    }
)
"""What a group is named by. A call that never ended has no claim; its run's configuration says who was asked."""

GROUPINGS: Final[tuple[Grouping, ...]] = tuple(_KEYS)


class UsageTotal(msgspec.Struct, frozen=True):
    """The calls of one group. A sum is over the calls that reported it, None when no call did.

    :param key: the run, provider, model or day (UTC); empty for a provider that is not known or names no model.
    :param tokens_in: cached ones included; ``tokens_cached`` are those of them that came from a cache.
    :param cost_microunits: as reported, of the calls that are paid one by one; ``notional_microunits``: as reported, of
        the calls that a subscription pays.
    :param priced_microunits: by the price in force, of the calls that are paid one by one;
        ``notional_priced_microunits``: of the calls that a subscription pays.
    :param unknown_in: calls that did not report it; likewise ``unknown_out``, ``unknown_cached``, ``unknown_cost`` and,
        for want of tokens or of a price, ``unknown_priced``.
    """

    key: str
    calls: int
    tokens_in: int | None
    tokens_out: int | None
    tokens_cached: int | None
    cost_microunits: int | None
    notional_microunits: int | None
    priced_microunits: int | None
    notional_priced_microunits: int | None
    unknown_in: int
    unknown_out: int
    unknown_cached: int
    unknown_cost: int
    unknown_priced: int


_QUERY: Final = """
select {key} as name, count(*),
    sum(u.tokens_in), sum(u.tokens_out), sum(u.tokens_cached),
    sum(case when not coalesce(u.is_notional, 0) then u.cost_microunits end),
    sum(case when u.is_notional then u.cost_microunits end),
    sum(case when not coalesce(u.is_notional, 0) then u.priced_microunits end),
    sum(case when u.is_notional then u.priced_microunits end),
    sum(u.tokens_in is null), sum(u.tokens_out is null), sum(u.tokens_cached is null),
    sum(u.cost_microunits is null), sum(u.priced_microunits is null)
from usage u
    join runs r on r.run_id = u.run_id
    left join provider_claims c on c.capabilities_digest = u.capabilities_digest
    left join sessions s on s.session_digest = r.session_digest
    left join provider_configurations p on p.config_digest = s.config_digest
where u.at_ms >= ?
group by name order by {order}
"""

_ORDER: Final[Mapping[str, str]] = MappingProxyType({"run": "max(r.started_at_ms) desc, name", "day": "name desc"})


def usage_by(database: RunDatabase, grouping: Grouping, *, since_ms: int = 0) -> tuple[UsageTotal, ...]:
    """The usage of the calls that began at ``since_ms`` or later, grouped.

    Runs come newest first, days newest first, everything else by name.
    """
    query = _QUERY.format(key=_KEYS[grouping], order=_ORDER.get(grouping, "name"))
    return tuple(UsageTotal(row[0] or "", *row[1:]) for row in database.select(query, since_ms))


def usage_total(database: RunDatabase, *, since_ms: int = 0) -> UsageTotal | None:
    """The usage of every call that began at ``since_ms`` or later; None when there is none."""
    rows = database.select(_QUERY.format(key="''", order="name"), since_ms)
    return UsageTotal(*rows[0]) if rows else None
