"""Which rule decided each path of a decision. Pure; the words behind ``savant admit --explain``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from admission.documents import Decision, Policy, Request

Verdict = Literal["allowed", "asks", "acknowledged", "refused"]


@dataclass(frozen=True, slots=True)
class PathExplanation:
    """One path, its change, and the rule that decided it."""

    path: str
    kind: str
    verdict: Verdict
    rule: str
    why: str


def explain(request: Request, decision: Decision, policy: Policy) -> list[PathExplanation]:
    """An explanation per path of the scope, and per rule where several decide; refusals before conditions."""
    return [found for entry in request.scope for found in _explain(entry.path, entry.kind, decision, policy)]


def _explain(path: str, kind: str, decision: Decision, policy: Policy) -> Iterator[PathExplanation]:
    refusals = [reason for reason in decision.reasons if reason.path == path]
    for reason in refusals:
        yield PathExplanation(path, kind, "refused", reason.rule, reason.detail)
    acknowledged = {item.condition: item.by for item in decision.acknowledged}
    asking = [condition for condition in decision.conditions if path in condition.paths]
    for condition in asking:
        by = acknowledged.get(condition.id)
        words = condition.reason if by is None else f"{condition.reason} Acknowledged by {by}."
        yield PathExplanation(path, kind, "asks" if by is None else "acknowledged", condition.id, words)
    if not refusals and not asking:
        where = "the starter policy" if policy.origin == "starter" else ".savant/policy.toml"
        yield PathExplanation(path, kind, "allowed", "allow", f"Promised, and allowed by {where}.")
