"""Which rule decided each path of a decision. Pure; the words behind ``savant admit --explain``.

Rules about the whole candidate (its size, a missing check) decide no path; they are among the decision's reasons and
conditions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from admission.documents import Decision, Policy, Request

Verdict = Literal["allowed", "asks", "acknowledged", "refused", "warns", "audited", "undecided"]


class PathExplanation(msgspec.Struct, frozen=True):
    """One path, its change, and the rule that decided it."""

    path: str
    kind: str
    verdict: Verdict
    rule: str
    why: str


def explain(request: Request, decision: Decision, policy: Policy) -> list[PathExplanation]:
    """An explanation per path of the scope, and per rule where several decide; refusals before conditions."""
    if decision.outcome == "uncertifiable":
        first = decision.reasons[0]
        return [PathExplanation(e.path, e.kind, "undecided", first.rule, first.detail) for e in request.scope]
    where = "the starter policy" if policy.origin == "starter" else ".savant/policy.toml"
    words = f"Not promised beforehand; allowed by {where}." if request.promise is None else ""
    allowed = words or f"Promised, and allowed by {where}."
    return [found for entry in request.scope for found in _explain(entry.path, entry.kind, decision, allowed)]


def _explain(path: str, kind: str, decision: Decision, allowed: str) -> Iterator[PathExplanation]:
    refusals = [reason for reason in decision.reasons if reason.path == path]
    for reason in refusals:
        yield PathExplanation(path, kind, "refused", reason.rule, reason.detail)
    acknowledged = {item.condition: item.by for item in decision.acknowledged}
    asking = [condition for condition in decision.conditions if path in condition.paths]
    for condition in asking:
        by = acknowledged.get(condition.id)
        words = condition.reason if by is None else f"{condition.reason} Acknowledged by {by}."
        yield PathExplanation(path, kind, "asks" if by is None else "acknowledged", condition.id, words)
    for observed in decision.observed:
        if path in observed.paths:
            verdict: Verdict = "warns" if observed.enforcement == "warn" else "audited"
            yield PathExplanation(path, kind, verdict, observed.rule, f"Not enforced: {observed.reason}")
    if not refusals and not asking:
        yield PathExplanation(path, kind, "allowed", "allow", allowed)
