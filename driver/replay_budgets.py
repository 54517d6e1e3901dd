"""The step of a replay that decides the budgets again: what was consumed and set aside before each call."""

from __future__ import annotations

from typing import Final

from driver.calls import next_breaker, uses_of
from driver.documents import Accounting, CallLimit
from driver.history import RunHistory
from driver.replay_evidence import Evidence, differs, not_shown
from synthesis.documents import Transition

BUDGETS: Final = frozenset({"calls", "wall-clock", "tokens", "cost"})
"""The breakers that follow from what was consumed."""

_UNLIMITED: Final = Accounting(model="", call=CallLimit(tokens_in=0, tokens_out=0), price=None)


def budgets_hold(evidence: Evidence) -> str:
    """Before each call the budgets allowed it; where one ended the session, it was used up."""
    history, budgets = evidence.history, evidence.session.document.budgets
    recorded = history.last(Accounting)
    if recorded is None and (budgets.tokens is not None or budgets.cost_microunits is not None):
        raise not_shown("tokens or money are limited, and the run recorded no accounting")
    accounting = _UNLIMITED if recorded is None else recorded.document
    calls = 0
    for place, entry in enumerate(history.entries):
        step = entry.body.document
        if not isinstance(step, Transition) or step.command not in {"RecordCall", "TripBreaker"}:
            continue
        is_call = step.command == "RecordCall"
        if not is_call and step.argument not in BUDGETS:
            continue
        earlier = RunHistory(history.run_id, history.entries[:place])
        breaker, _, _ = next_breaker(budgets, accounting, uses_of(earlier))
        if is_call and breaker is not None:
            raise differs("budgets", f"record {entry.seq} makes a call that the budget of {breaker} forbids")
        if not is_call and breaker != step.argument:
            raise differs("budgets", f"record {entry.seq} says that the budget of {step.argument} forbids a call")
        calls += is_call
    return f"{calls} calls within their budgets"
