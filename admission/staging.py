"""Staged enforcement: what a rule that is not enforced yet would have decided. Pure.

A rule is written down, watched (``audit``), spoken about (``warn``) and then enforced. What the first two find is in
the decision and decides nothing; what ``warn`` finds is a limitation as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from admission.documents import Condition, Enforcement, Observed, Policy, Reason
from savant.contracts.scalars import as_set
from synthesis.documents import Limitation

OWNERS_RULE: Final = "required-reviewers"
"""The rule behind every condition for owners; each of those has an id of its own."""

STAGEABLE: Final = frozenset(
    {
        "allow",
        "custody",
        "limit-added-lines",
        "limit-deletions",
        "limit-files",
        "new-executables",
        "new-links",
        "no-required-check",
        OWNERS_RULE,
        "secrets",
    }
)
"""The built-in rules that a policy may stage, or make exceptions of."""

FIXED: Final = frozenset(
    {
        "amendment",
        "conditions",
        "disguised-rules",
        "empty-change",
        "envelope",
        "promise",
        "readable",
        "supported-operations",
    }
)
"""The built-in rules that always hold."""

MAX_SHOWN: Final = 3
"""How many paths a sentence names."""


class Judged(msgspec.Struct, frozen=True):
    """What the rules found: what decides, and what is only observed."""

    refusals: tuple[Reason, ...]
    conditions: tuple[Condition, ...]
    observed: tuple[Observed, ...]


def stages(policy: Policy) -> Mapping[str, Enforcement]:
    """How far each rule is enforced that the policy says it of; the fixed ones always are."""
    found: dict[str, Enforcement] = {}
    for rule in (*policy.refuse, *policy.ask):
        found[rule.id] = rule.enforcement
    for pair in policy.companions:
        found[pair.id] = pair.enforcement
    for row in policy.staged:
        if row.rule in STAGEABLE:
            found[row.rule] = row.enforcement
    return found


def stage(policy: Policy, refusals: Iterable[Reason], conditions: Iterable[Condition]) -> Judged:
    """The findings of every rule, told apart by how far each rule is enforced."""
    by_rule = stages(policy)
    refused, asked = tuple(refusals), tuple(conditions)
    observed: list[Observed] = []
    groups: dict[tuple[str, str, str], list[str]] = {}
    for found in refused:
        paths = groups.setdefault((found.rule, found.code, found.detail), [])
        paths.extend(() if found.path is None else (found.path,))
    for (rule, code, why), paths in groups.items():
        observed.extend(_observed(by_rule.get(rule, "enforce"), rule, code, paths, why))
    for condition in asked:
        stage_ = by_rule.get(rule_of(condition), "enforce")
        observed.extend(_observed(stage_, condition.id, condition.code, condition.paths, condition.reason))
    return Judged(
        tuple(found for found in refused if by_rule.get(found.rule, "enforce") == "enforce"),
        tuple(found for found in asked if by_rule.get(rule_of(found), "enforce") == "enforce"),
        as_set(observed),
    )


def rule_of(condition: Condition) -> str:
    """The rule that a condition comes from: its id, but for the owners of paths."""
    return OWNERS_RULE if condition.code == "admission.ask.owners" else condition.id


def _observed(enforcement: Enforcement, rule: str, code: str, paths: Iterable[str], why: str) -> Iterator[Observed]:
    if enforcement != "enforce":
        yield Observed(rule=rule, code=code, enforcement=enforcement, paths=as_set(paths), reason=why)


def warnings(observed: Iterable[Observed]) -> Iterator[Limitation]:
    """A limitation for each finding of a rule that warns."""
    for found in observed:
        if found.enforcement == "warn":
            where = f" ({some(found.paths)})" if found.paths else ""
            text = f"The rule {found.rule} only warns: {found.reason}{where}"
            yield Limitation(source="admission.warning", text=text, blocking=False)


def exceptions(policy: Policy, hidden: Mapping[str, tuple[str, ...]], as_of: str | None) -> Iterator[Limitation]:
    """What the policy's exceptions did, in words.

    :param hidden: by the id of an exception, the paths that it hides from its rule, or would if it had not ended.
    """
    for exemption in policy.exceptions:
        paths = hidden.get(exemption.id, ())
        if not paths:
            continue
        ends = "" if exemption.expires is None else f" It holds until {exemption.expires}."
        if exemption.expires is not None and as_of is not None and as_of > exemption.expires:
            text = f"The exception {exemption.id} ended on {exemption.expires}: {exemption.rule} decides {some(paths)}."
        else:
            text = f"Exception {exemption.id}: {exemption.rule} does not see {some(paths)}. {exemption.reason}{ends}"
        yield Limitation(source="admission.exception", text=text, blocking=False)


def some(paths: Iterable[str]) -> str:
    """The first paths, and how many there are beside them."""
    listed = tuple(paths)
    rest = len(listed) - MAX_SHOWN
    return ", ".join(listed[:MAX_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
