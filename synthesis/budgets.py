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
    :param tokens: what the provider reported, in and out; None where it did not report both.
    :param cost_microunits: the same for money.
    :param reserved_tokens: what the budgets count where ``tokens`` is None: the worst case that was set aside.
    :param reserved_cost_microunits: the same for money.
    """

    operation: Operation
    duration_ms: int | None
    deadline_ms: int
    tokens: int | None
    cost_microunits: int | None
    reserved_tokens: int = 0
    reserved_cost_microunits: int = 0


class Consumption(msgspec.Struct, frozen=True):
    """The sums over a run's calls; those that reported no tokens or no cost are counted by their worst case."""

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
    """The consumption of a run's calls.

    An open intent counts its whole deadline, and a call that reported nothing what was set aside for it: a crash buys
    neither time nor tokens.
    """
    calls = tuple(records)
    return Consumption(
        calls=len(calls),
        wall_clock_ms=sum(c.deadline_ms if c.duration_ms is None else c.duration_ms for c in calls),
        tokens=sum(c.reserved_tokens if c.tokens is None else c.tokens for c in calls),
        cost_microunits=sum(
            c.reserved_cost_microunits if c.cost_microunits is None else c.cost_microunits for c in calls
        ),
        calls_without_tokens=sum(c.tokens is None for c in calls),
        calls_without_cost=sum(c.cost_microunits is None for c in calls),
    )


def tripped(
    budgets: Budgets, consumption: Consumption, *, next_tokens: int = 0, next_cost_microunits: int = 0
) -> Breaker | None:
    """The breaker that forbids another provider call, or None. A limit of N trips at N, not at N - 1.

    Tokens and cost trip earlier, before a call that could exceed the limit: what was consumed and the worst case of
    the next call have to fit together, and filling the limit exactly is allowed.

    :param next_tokens: the most that the next call can use, in and out.
    :param next_cost_microunits: the same for money.

    The order is fixed: calls, wall clock, tokens, cost.
    """
    limits: tuple[tuple[Breaker, int | None, int, int], ...] = (
        ("calls", budgets.provider_calls, consumption.calls, 0),
        ("wall-clock", budgets.wall_clock_ms, consumption.wall_clock_ms, 0),
        ("tokens", budgets.tokens, consumption.tokens, next_tokens),
        ("cost", budgets.cost_microunits, consumption.cost_microunits, next_cost_microunits),
    )
    for breaker, granted, consumed, reserved in limits:
        if granted is not None and (consumed >= granted or consumed + reserved > granted):
            return breaker
    return None
