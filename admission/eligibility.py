"""Whether a promise could be admitted at all, judged before anything is spent on generation. Pure.

Only what is *certainly* refused counts: a promised pattern every path of which a refusing rule matches, or nothing but
unsupported kinds. A promise that is merely wider than the policy is not refused: the envelope will be narrower.
"""

from __future__ import annotations

from typing import Final

from admission.documents import PathRule, Policy, Reason
from savant.files.patterns import PatternSet
from synthesis.documents import IntendedChange, Plan

_WILDCARDS: Final = frozenset("*?[")


def judge_promise(plan: Plan, policy: Policy) -> tuple[Reason, ...]:
    """The reasons for which parts of a plan's promise are certainly refused; empty when it may go on."""
    return tuple(
        reason
        for step in plan.steps
        for change in step.intended_changes
        if (reason := _judge(change, policy)) is not None
    )


def _judge(change: IntendedChange, policy: Policy) -> Reason | None:
    if "gitlink-change" in change.operations:
        return Reason(
            code="admission.operation.unsupported",
            rule="supported-operations",
            path=None,
            detail=f"The plan promises to move a submodule at {change.pattern!r}, which is not supported.",
        )
    for rule in policy.refuse:
        kinds = not rule.operations or set(change.operations) <= set(rule.operations)
        if kinds and is_covered(change.pattern, rule.patterns):
            return _refused(change, rule)
    return None


def _refused(change: IntendedChange, rule: PathRule) -> Reason:
    return Reason(
        code="admission.scope.refused",
        rule=rule.id,
        path=None,
        detail=f"The plan promises {change.pattern!r}, which the policy refuses: {rule.reason}",
    )


def is_covered(pattern: str, rules: tuple[str, ...]) -> bool:
    """Whether every path that a promised pattern can match is certainly matched by one of the rules' patterns."""
    if pattern in rules:
        return True
    if not _WILDCARDS & set(pattern):
        return PatternSet.parse(rules).matches(pattern.encode("utf-8"))
    return any(
        rule.endswith("/**") and not _WILDCARDS & set(rule[:-3]) and pattern.startswith(rule[:-2]) for rule in rules
    )
