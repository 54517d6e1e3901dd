"""``usage``: what provider calls used and cost, by run, provider, model or day. What is unknown is never a number."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from savant.cli.amounts import UNKNOWN, count, known, money
from savant.cli.options import format_option, repository_option
from savant.cli.render import Output, table

if TYPE_CHECKING:
    from savant.store.rows import UsageRow
    from savant.store.usage import Grouping, UsageTotal

NAMELESS = "(not named)"


@click.command(
    "usage",
    help="Show the tokens and the cost of provider calls: as reported, and by the prices of your config.toml. What was "
    "not reported is unknown; what a subscription pays is notional.",
)
@click.option(
    "--by",
    "grouping",
    type=click.Choice(["run", "provider", "model", "day"]),
    default="run",
    help="What to add up (default: run).",
)
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Calls of that day and later (UTC).")
@repository_option
@format_option
def usage(grouping: Grouping, since: dt.datetime | None, repo: str, format_: str) -> int:
    """Print usage, brought up to the end of the ledger first."""
    from savant.cli.lookup import ledger_store, update_index
    from savant.cli.workbench import Workbench
    from savant.store.usage import usage_by, usage_total

    output = Output(as_json=format_ == "json")
    since_ms = 0 if since is None else max(int(since.replace(tzinfo=dt.UTC).timestamp() * 1000), 0)
    rows: tuple[UsageTotal, ...] = ()
    total: UsageTotal | None = None
    with Workbench(repo) as bench:
        if bench.has_ledger():
            with ledger_store(bench) as store:
                update_index(bench, store)
            rows = usage_by(bench.database, grouping, since_ms=since_ms)
            total = usage_total(bench.database, since_ms=since_ms)
    members = {
        "by": grouping,
        "since": None if since is None else since.strftime("%Y-%m-%d"),
        "rows": [as_members(row) for row in rows],
        "total": None if total is None else as_members(total),
    }
    output.document("usage", "ok", 0, members)
    if output.as_json:
        return 0
    if total is None:
        output.say("No provider call yet." if since is None else "No provider call since then.")
        return 0
    output.say(*table(_table(grouping, rows, total)))
    return 0


def as_members(row: UsageTotal) -> dict[str, Any]:
    """A row for programs: every member by its name; the key is null where nobody is named."""
    return {**msgspec.structs.asdict(row), "key": row.key or None}


def _table(grouping: Grouping, rows: tuple[UsageTotal, ...], total: UsageTotal) -> Iterator[tuple[str, ...]]:
    yield (grouping, "calls", "tokens in", "cached", "tokens out", "cost reported", "cost by price")
    for row in rows:
        key = row.key[:12] if grouping == "run" else row.key
        yield (key or NAMELESS, *_cells(row))
    if len(rows) > 1:
        yield ("total", *_cells(total))


def _cells(row: UsageTotal) -> tuple[str, ...]:
    return (
        str(row.calls),
        known([count(row.tokens_in)], row.unknown_in),
        known([count(row.tokens_cached)], row.unknown_cached),
        known([count(row.tokens_out)], row.unknown_out),
        known(money(row.cost_microunits, row.notional_microunits), row.unknown_cost),
        known(money(row.priced_microunits, row.notional_priced_microunits), row.unknown_priced),
    )


def call_members(row: UsageRow) -> dict[str, Any]:
    """One call for programs."""
    return {
        "operation": row.operation,
        "outcome": row.outcome,
        "failure_kind": row.failure_kind,
        "duration_ms": row.duration_ms,
        "tokens_in": row.tokens_in,
        "tokens_out": row.tokens_out,
        "tokens_cached": row.tokens_cached,
        "cost_microunits": row.cost_microunits,
        "priced_microunits": row.priced_microunits,
        "notional": row.is_notional,
    }


def call_words(call: dict[str, Any]) -> str:
    """One call for a person."""
    ended = call["failure_kind"] or call["outcome"] or "never ended"
    cost = call["cost_microunits"] if call["cost_microunits"] is not None else call["priced_microunits"]
    if call["tokens_in"] is None and call["tokens_out"] is None and cost is None:
        return f"call {call['operation']}: {ended}; usage {UNKNOWN}"
    paid = money(None, cost) if call["notional"] else money(cost, None)
    how = " by price" if call["cost_microunits"] is None and cost is not None else ""
    tokens_in, tokens_out = (known([count(call[name])]) for name in ("tokens_in", "tokens_out"))
    return f"call {call['operation']}: {ended}; tokens in {tokens_in}, out {tokens_out}; cost {known(paid)}{how}"
