"""Budgets: what was granted is in the session, what was consumed is derived, and nobody keeps a counter to reset.

Retries, replans and calls are derived from the state; time, tokens and cost from the ledger's records of the calls.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from synthesis.documents import Breaker, Budgets, Operation, State


class Spent(msgspec.Struct, frozen=True):
    """What a state has consumed of what its session granted."""

    retries: int
    replans: int
    calls: int


class CallRecord(msgspec.Struct, frozen=True):
    """One provider call as the ledger knows it.

    :param operation: what it was for.
    :param duration_ms: how long it took; None while only its intent is recorded.
    :param deadline_ms: how long it might take.
    :param tokens: what the provider reported, in and out; None where it reported none.
    :param cost_microunits: the same for money.
    """

    operation: Operation
    duration_ms: int | None
    deadline_ms: int
    tokens: int | None
    cost_microunits: int | None


class Consumption(msgspec.Struct, frozen=True):
    """The sums over a run's calls. ``calls_without_tokens`` and ``calls_without_cost`` reported nothing."""

    calls: int
    wall_clock_ms: int
    tokens: int
    cost_microunits: int
    calls_without_tokens: int
    calls_without_cost: int


def spent(state: State) -> Spent:
    """What a state has consumed: granted minus left."""
    granted = state.session.budgets
    return Spent(granted.retries - state.retries_left, granted.replans - state.replans_left, state.calls)


def consume(records: Iterable[CallRecord]) -> Consumption:
    """The consumption of a run's calls. An open intent counts its whole deadline: a crash buys no time."""
    calls = tuple(records)
    return Consumption(
        calls=len(calls),
        wall_clock_ms=sum(c.deadline_ms if c.duration_ms is None else c.duration_ms for c in calls),
        tokens=sum(c.tokens or 0 for c in calls),
        cost_microunits=sum(c.cost_microunits or 0 for c in calls),
        calls_without_tokens=sum(c.tokens is None for c in calls),
        calls_without_cost=sum(c.cost_microunits is None for c in calls),
    )


def tripped(budgets: Budgets, consumption: Consumption) -> Breaker | None:
    """The breaker that forbids another provider call, or None. A limit of N trips at N, not at N - 1.

    The order is fixed: calls, wall clock, tokens, cost.
    """
    limits: tuple[tuple[Breaker, int | None, int], ...] = (
        ("calls", budgets.provider_calls, consumption.calls),
        ("wall-clock", budgets.wall_clock_ms, consumption.wall_clock_ms),
        ("tokens", budgets.tokens, consumption.tokens),
        ("cost", budgets.cost_microunits, consumption.cost_microunits),
    )
    for breaker, granted, consumed in limits:
        if granted is not None and consumed >= granted:
            return breaker
    return None
