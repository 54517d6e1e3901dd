"""Usage by run, provider, model and day: sums of what was reported, and counts of what was not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from savant.store.database import RunDatabase, RunRow
from savant.store.rows import ClaimRow, ConfigurationRow, SessionRow, TemplateRow, UsageRow
from savant.store.usage import GROUPINGS, Grouping, UsageTotal, usage_by, usage_total

DAY_MS = 24 * 60 * 60 * 1000
RUNS = ("a", "b", "c")
CLAIMS = {"claude": "large", "codex": "", "recipe": ""}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[RunDatabase]:
    """Three runs of one session whose configuration names an agent; run a began first."""
    with RunDatabase(tmp_path / "runs.db") as database:
        database.upsert(
            TemplateRow("agent/claude@1", "agent", "claude", "1"),
            ConfigurationRow("config", "agent/claude@1", "claude", "agent", "large", "{}"),
            *(ClaimRow(name, None, name, "agent", model, True) for name, model in CLAIMS.items()),
            SessionRow("session", "config", "unbound", "sha1:0", "fix it", "{}"),
            *(
                replace(RunRow(name, at, "fix it", "sha1:0", None, None, at, at), session_digest="session")
                for at, name in enumerate(RUNS)
            ),
        )
        yield database


def call(seq: int, **members: object) -> UsageRow:
    row = UsageRow(seq, "a", f"request-{seq}", "claude", "generation", 0, outcome="completed")
    return replace(row, **members)


def put(database: RunDatabase, *calls: UsageRow) -> None:
    database.select("delete from usage")
    database.upsert(*calls)


def test_what_was_not_reported_is_counted_and_not_summed(database: RunDatabase) -> None:
    """A group in which nobody reported has no sum; one call that did gives it one, and the others are counted."""
    put(database, call(1), call(2))
    (row,) = usage_by(database, "run")
    assert row == UsageTotal("a", 2, None, None, None, None, None, None, None, 2, 2, 2, 2, 2)
    put(database, call(1), call(2, tokens_in=5, tokens_out=0, cost_microunits=7, is_notional=False))
    (row,) = usage_by(database, "run")
    assert (row.tokens_in, row.tokens_out, row.tokens_cached, row.cost_microunits) == (5, 0, None, 7)
    assert (row.unknown_in, row.unknown_out, row.unknown_cached, row.unknown_cost, row.unknown_priced) == (
        1,
        1,
        2,
        1,
        2,
    )
    assert row.notional_microunits is None


def test_what_a_subscription_pays_stands_apart(database: RunDatabase) -> None:
    """Notional costs are never added to costs that somebody pays, reported or by price."""
    put(
        database,
        call(1, cost_microunits=10, priced_microunits=11, is_notional=False),
        call(2, cost_microunits=100, priced_microunits=110, is_notional=True),
        call(3, cost_microunits=1_000, is_notional=None),
    )
    (row,) = usage_by(database, "provider")
    assert (row.key, row.cost_microunits, row.notional_microunits) == ("claude", 1_010, 100)
    assert (row.priced_microunits, row.notional_priced_microunits, row.unknown_priced) == (11, 110, 1)


def test_groups_and_their_order(database: RunDatabase) -> None:
    """Runs and days newest first, providers and models by name; the models that nobody named are one group."""
    put(
        database,
        call(1, run_id="a", capabilities_digest="codex", at_ms=DAY_MS - 1),
        call(2, run_id="b", capabilities_digest="recipe", at_ms=DAY_MS),
        call(3, run_id="c", capabilities_digest="claude", at_ms=3 * DAY_MS),
        call(4, run_id="b", capabilities_digest="codex", at_ms=DAY_MS),
    )
    groups = {by: [(row.key, row.calls) for row in usage_by(database, by)] for by in GROUPINGS}
    assert groups == {
        "run": [("c", 1), ("b", 2), ("a", 1)],
        "provider": [("claude", 1), ("codex", 2), ("recipe", 1)],
        "model": [("", 3), ("large", 1)],
        "day": [("1970-01-04", 1), ("1970-01-02", 2), ("1970-01-01", 1)],
    }
    assert [row.key for row in usage_by(database, "day", since_ms=DAY_MS)] == ["1970-01-04", "1970-01-02"]
    assert [row.calls for row in usage_by(database, "day", since_ms=DAY_MS + 1)] == [1]


def test_a_call_that_never_ended_belongs_to_the_configured_provider(database: RunDatabase) -> None:
    """Nobody said who answered; the run's configuration says who was asked. Without one, nobody is named."""
    put(database, call(1, capabilities_digest=None, outcome=None))
    assert [(row.key, row.unknown_in) for row in usage_by(database, "provider")] == [("claude", 1)]
    assert [row.key for row in usage_by(database, "model")] == ["large"]
    database.select("update runs set session_digest = null")
    assert [row.key for row in usage_by(database, "provider")] == [""]


def test_nothing_yet(database: RunDatabase) -> None:
    """Without calls there is no row and no total, which is not a total of nothing."""
    assert [usage_by(database, by) for by in GROUPINGS] == [()] * 4
    assert usage_total(database) is None
    put(database, call(1, at_ms=5))
    total = usage_total(database)
    assert total is not None
    assert (total.calls, total.tokens_in) == (1, None)
    assert usage_total(database, since_ms=6) is None


NUMBERS = st.none() | st.integers(0, 2**53 - 1)
CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "run_id": st.sampled_from(RUNS),
            "capabilities_digest": st.sampled_from(sorted(CLAIMS)),
            "at_ms": st.integers(0, 3 * DAY_MS),
            "tokens_in": NUMBERS,
            "tokens_out": NUMBERS,
            "tokens_cached": NUMBERS,
            "cost_microunits": NUMBERS,
            "priced_microunits": NUMBERS,
            "is_notional": st.sampled_from((None, False, True)),
        }
    ),
    max_size=8,
)
KEY: dict[Grouping, Callable[[UsageRow], str]] = {
    "run": lambda row: row.run_id,
    "provider": lambda row: row.capabilities_digest or "",
    "model": lambda row: CLAIMS[row.capabilities_digest or ""],
    "day": lambda row: f"1970-01-{row.at_ms // DAY_MS + 1:02}",
}


def test_every_sum_is_what_adding_by_hand_gives(database: RunDatabase) -> None:
    """For any calls, any grouping and any day: the sums, and the counts of what is not in them."""

    def total(values: list[int | None]) -> int | None:
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    def paid(rows: list[UsageRow], member: str, *, notional: bool) -> int | None:
        return total([getattr(row, member) for row in rows if bool(row.is_notional) is notional])

    @given(CALLS, st.integers(0, 3 * DAY_MS))
    def check(drawn: list[dict[str, object]], since_ms: int) -> None:
        rows = [call(seq, **members) for seq, members in enumerate(drawn)]
        put(database, *rows)
        seen = [row for row in rows if row.at_ms >= since_ms]
        for by in GROUPINGS:
            expected = {}
            for key in {KEY[by](row) for row in seen}:
                group = [row for row in seen if KEY[by](row) == key]
                every = {name: [getattr(row, name) for row in group] for name in UsageRow.__struct_fields__}
                sums = [total(every[name]) for name in ("tokens_in", "tokens_out", "tokens_cached")]
                money = [
                    paid(group, name, notional=notional)
                    for name in ("cost_microunits", "priced_microunits")
                    for notional in (False, True)
                ]
                unknown = [
                    every[name].count(None)
                    for name in ("tokens_in", "tokens_out", "tokens_cached", "cost_microunits", "priced_microunits")
                ]
                expected[key] = UsageTotal(key, len(group), *sums, *money, *unknown)  # type: ignore[arg-type]
            assert {row.key: row for row in usage_by(database, by, since_ms=since_ms)} == expected

    check()
