"""The floor under a policy: a central policy that a repository may only tighten. Pure.

The floor is a policy file at the base that ``extends`` names by its digest. Both hold, so the stricter value of each
key is in force; a key that the repository wrote looser than its floor is refused by name, and one that it left out has
the stricter of the default and the floor. What a floor does not write it does not demand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import structs

from admission.documents import CompanionRule, Enforcement, Extends, PathRule, Policy, Staged
from admission.staging import STAGEABLE
from savant.contracts.errors import RefusedInput
from savant.contracts.scalars import as_set

Refuse = Callable[[str, str], RefusedInput]
"""The refusal of a key, given what is wrong with it."""

_CHOICE: Final = ("allow", "ask", "refuse")
_LEVELS: Final = ("S0", "S1", "S2", "S3")
STAGES: Final[tuple[Enforcement, ...]] = ("audit", "warn", "enforce")

SCALES: Final = MappingProxyType(
    {
        "no_required_check": _CHOICE,
        "new_links": _CHOICE,
        "new_executables": _CHOICE,
        "secrets": _CHOICE,
        "codeowners": ("ignore", "ask"),
        "amendment": ("ask", "refuse"),
        "self_acknowledgement": ("allow", "refuse"),
        "gate_accepts_starter": (True, False),
        "sandbox.recipe": _LEVELS,
        "sandbox.command": _LEVELS,
        "sandbox.agent": _LEVELS,
        "sandbox.check": _LEVELS,
        "gate.mode": ("report", "declared", "all"),
        "gate.custody": ("A", "B", "C"),
        "gate.evaluate": (False, True),
    }
)
"""The values of each key, from the loosest to the strictest; the loosest demands nothing."""

LIMITS: Final = ("files", "added_lines", "deletions")

DEMANDS: Final = MappingProxyType(
    {
        "allow": "allow",
        "limit-files": "limits.files",
        "limit-added-lines": "limits.added_lines",
        "limit-deletions": "limits.deletions",
        "no-required-check": "no_required_check",
        "new-links": "new_links",
        "new-executables": "new_executables",
        "secrets": "secrets",
        "required-reviewers": "codeowners",
    }
)
"""The key that gives each built-in rule something to demand; ``custody`` needs none."""


class Written(msgspec.Struct, frozen=True):
    """A policy as a file gives it, and the keys that the file wrote, dotted."""

    policy: Policy
    keys: frozenset[str]


def stand_on(own: Written, floor: Written, *, bundle: str, bundle_digest: str, refuse: Refuse) -> Policy:
    """The policy in force where a repository's own stands on a floor.

    :param refuse: makes the refusal of a key of the repository's file.
    :raises RefusedInput: as ``refuse`` makes it, for the first key that is looser than the floor.
    """
    policy = own.policy
    for key, scale in SCALES.items():
        policy = _put(policy, key, _stricter(own, floor, key, scale, refuse))
    refusing, asking, companions = _rules(own, floor, refuse)
    held = {rule.id for rule in (*own.policy.refuse, *own.policy.ask)} | {c.id for c in own.policy.companions}
    from_floor = {rule.id for rule in (*floor.policy.refuse, *floor.policy.ask)} | {
        companion.id for companion in floor.policy.companions
    }
    for number, exemption in enumerate(own.policy.exceptions):
        if exemption.rule in from_floor or exemption.rule in demanded(floor):
            raise refuse(
                f"exception.{number}.rule", f"makes an exception of {exemption.rule!r}, which the floor demands"
            )
    return structs.replace(
        policy,
        refuse=refusing,
        ask=asking,
        companions=companions,
        limits=structs.replace(policy.limits, **dict(_limits(own, floor, refuse))),
        staged=as_set(_staged(own, floor, refuse)),
        extends=Extends(
            bundle=bundle,
            bundle_digest=bundle_digest,
            rules=as_set(from_floor - held),
            allow=floor.policy.allow,
        ),
    )


def demanded(floor: Written) -> frozenset[str]:
    """The built-in rules to which a floor gives something to demand, or whose enforcement it names."""
    rules = {rule for rule, key in DEMANDS.items() if key in floor.keys and not _is_loosest(floor.policy, key)}
    return frozenset(rules | {rule for rule in STAGEABLE if f"enforcement.{rule}" in floor.keys})


def value_of(policy: Policy, key: str) -> Any:
    """The value of a dotted key."""
    value: Any = policy
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _is_loosest(policy: Policy, key: str) -> bool:
    return key in SCALES and value_of(policy, key) == SCALES[key][0]


def _put(policy: Policy, key: str, value: Any) -> Policy:
    name, _, member = key.partition(".")
    inner = structs.replace(getattr(policy, name), **{member: value}) if member else value
    return structs.replace(policy, **{name: inner})


def _stricter(own: Written, floor: Written, key: str, scale: tuple[Any, ...], refuse: Refuse) -> Any:
    mine = value_of(own.policy, key)
    least = value_of(floor.policy, key) if key in floor.keys else scale[0]
    if scale.index(mine) >= scale.index(least):
        return mine
    if key in own.keys:
        raise refuse(key, f"is {_word(mine)}, looser than the floor's {_word(least)}")
    return least


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _limits(own: Written, floor: Written, refuse: Refuse) -> Iterator[tuple[str, int]]:
    for name in LIMITS:
        key = f"limits.{name}"
        for member in (f"{name}_ask", f"{name}_refuse"):
            mine, most = getattr(own.policy.limits, member), getattr(floor.policy.limits, member)
            if key not in floor.keys:
                most = mine
            if mine > most and key in own.keys:
                raise refuse(key, f"has {mine}, more than the floor's {most}")
            yield member, min(mine, most)


def _staged(own: Written, floor: Written, refuse: Refuse) -> Iterator[Staged]:
    theirs = {row.rule: row.enforcement for row in floor.policy.staged}
    asked = demanded(floor)
    for row in own.policy.staged:
        least = theirs.get(row.rule, "enforce") if row.rule in asked else "audit"
        if STAGES.index(row.enforcement) < STAGES.index(least):
            raise refuse(f"enforcement.{row.rule}", f"is {row.enforcement!r}, looser than the floor's {least!r}")
        yield row


def _rules(
    own: Written, floor: Written, refuse: Refuse
) -> tuple[tuple[PathRule, ...], tuple[PathRule, ...], tuple[CompanionRule, ...]]:
    """The rules of both. A rule of the repository with the id of a floor's takes its place if it is as strict."""
    mine, theirs = own.policy, floor.policy
    strict = {rule.id: rule for rule in mine.refuse}
    paths = strict | {rule.id: rule for rule in mine.ask}
    pairs = {companion.id: companion for companion in mine.companions}
    for where, rules in (("refuse", theirs.refuse), ("ask", theirs.ask)):
        for rule in rules:
            held = (strict if where == "refuse" else paths).get(rule.id)
            if (rule.id in paths or rule.id in pairs) and (held is None or not _covers(held, rule)):
                raise refuse(_place(mine, rule.id), "is not as strict as the floor's rule of that id")
    for companion in theirs.companions:
        pair = pairs.get(companion.id)
        if (companion.id in paths or pair is not None) and (pair is None or not _pairs(pair, companion)):
            raise refuse(
                _place(mine, companion.id), f"is looser than the floor's rule {companion.id!r}, or another one"
            )
    return (
        as_set((*mine.refuse, *(rule for rule in theirs.refuse if rule.id not in paths))),
        as_set((*mine.ask, *(rule for rule in theirs.ask if rule.id not in paths))),
        as_set((*mine.companions, *(c for c in theirs.companions if c.id not in pairs))),
    )


def _place(policy: Policy, id_: str) -> str:
    for name, rules in (("refuse", policy.refuse), ("ask", policy.ask)):
        if any(rule.id == id_ for rule in rules):
            return f"{name}: {id_!r}"
    return f"companion: {id_!r}"


def _covers(mine: PathRule, theirs: PathRule) -> bool:
    """Whether a rule decides at least what another does."""
    kinds = not mine.operations or (bool(theirs.operations) and set(mine.operations) >= set(theirs.operations))
    paths = set(mine.patterns) >= set(theirs.patterns)
    return kinds and paths and _is_as_enforced(mine.enforcement, theirs.enforcement)


def _pairs(mine: CompanionRule, theirs: CompanionRule) -> bool:
    """Whether a companion rule asks at least where another does."""
    asks = set(mine.when) >= set(theirs.when) and set(mine.need) <= set(theirs.need)
    return asks and _is_as_enforced(mine.enforcement, theirs.enforcement)


def _is_as_enforced(mine: Enforcement, theirs: Enforcement) -> bool:
    return STAGES.index(mine) >= STAGES.index(theirs)
