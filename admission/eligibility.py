"""Whether a promise could be admitted at all, judged before anything is spent on generation. Pure.

Only what is *certainly* refused counts: a promised pattern every path of which a refusing rule matches, a single path
that the policy does not allow, or nothing but unsupported kinds. A promise that is merely wider than the policy is not
refused: the envelope will be narrower.
"""

from __future__ import annotations

from typing import Final

from admission.documents import PathRule, Policy, Reason
from admission.staging import stages
from savant.files.patterns import PatternSet
from synthesis.documents import IntendedChange, Plan

_UNCERTAIN: Final = frozenset("*?[%")
"""A pattern with one of these may stand for several paths, or for one that is spelt otherwise."""


def judge_promise(plan: Plan, policy: Policy) -> tuple[Reason, ...]:
    """The reasons for which parts of a plan's promise are certainly refused; empty when it may go on."""
    return tuple(
        reason
        for step in plan.steps
        for change in step.intended_changes
        if (reason := _judge(change, policy)) is not None
    )


def _judge(change: IntendedChange, policy: Policy) -> Reason | None:
    if change.operations == ("gitlink-change",):
        return Reason(
            code="admission.operation.unsupported",
            rule="supported-operations",
            path=None,
            detail=f"The plan promises to move a submodule at {change.pattern!r}, which is not supported.",
        )
    if _is_certain(policy, "allow") and is_one_path(change.pattern) and not _is_allowed(change.pattern, policy):
        return Reason(
            code="admission.scope.outside-policy",
            rule="allow",
            path=None,
            detail=f"The plan promises {change.pattern!r}, which the policy does not allow.",
        )
    for rule in policy.refuse:
        kinds = not rule.operations or set(change.operations) <= set(rule.operations)
        if kinds and _is_certain(policy, rule.id) and is_covered(change.pattern, rule.patterns):
            return _refused(change, rule)
    return None


def _is_certain(policy: Policy, rule: str) -> bool:
    """Whether a rule certainly refuses what it decides: it is enforced, and there is no exception of it."""
    is_excepted = any(exemption.rule == rule for exemption in policy.exceptions)
    return stages(policy).get(rule, "enforce") == "enforce" and not is_excepted


def _is_allowed(pattern: str, policy: Policy) -> bool:
    floor = () if policy.extends is None else (policy.extends.allow,)
    return all(PatternSet.parse(allow).matches(_raw(pattern)) for allow in (policy.allow, *floor))


def _refused(change: IntendedChange, rule: PathRule) -> Reason:
    return Reason(
        code="admission.scope.refused",
        rule=rule.id,
        path=None,
        detail=f"The plan promises {change.pattern!r}, which the policy refuses: {rule.reason}",
    )


def is_covered(pattern: str, rules: tuple[str, ...]) -> bool:
    """Whether every path that a promised pattern can match is certainly matched by one of the rules' patterns."""
    if pattern in rules or "**" in rules:
        return True
    if is_one_path(pattern):
        return PatternSet.parse(rules).matches(_raw(pattern))
    if "/" not in pattern:  # a base name at any depth: only a rule about that name anywhere covers it
        bare = PatternSet.parse(rule for rule in rules if "/" not in rule)
        return not _UNCERTAIN & set(pattern) and bare.matches(pattern.encode("utf-8"))
    folders = (rule.removesuffix("**") for rule in rules if rule.endswith(("/**", "/")))
    return any(
        not _UNCERTAIN & set(folder) and pattern.removeprefix("/").startswith(folder.removeprefix("/"))
        for folder in folders
    )


def is_one_path(pattern: str) -> bool:
    """Whether the pattern is the text of one path: anchored, without wildcards and escapes."""
    return "/" in pattern and not pattern.endswith("/") and not _UNCERTAIN & set(pattern)


def _raw(pattern: str) -> bytes:
    return pattern.removeprefix("/").encode("utf-8")
