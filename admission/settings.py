"""What is in force in a policy, and where each value comes from. Pure; the words behind ``savant policy show``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from admission.documents import Enforcement, Policy
from admission.floor import LIMITS, SCALES, Written, value_of
from admission.staging import STAGEABLE, stages
from savant.contracts.containment import LEVEL_WORDS

Origin: TypeAlias = Literal["policy", "floor", "default", "starter"]
"""Written in ``.savant/policy.toml``, demanded by the floor, left out there, or all of it built in."""


class Setting(msgspec.Struct, frozen=True):
    """One key, its value as TOML has it, and where that comes from."""

    key: str
    value: str
    origin: Origin


class RuleSetting(msgspec.Struct, frozen=True):
    """One rule: its id, what it does, how far it is enforced, where it comes from."""

    id: str
    effect: Literal["refuse", "ask", "companion", "built-in"]
    enforcement: Enforcement
    origin: Origin


def settings(policy: Policy, own: Written | None) -> Iterator[Setting]:
    """Every key with one value.

    :param own: the repository's file by itself; None under the starter.
    """
    floor_allow = None if policy.extends is None else policy.extends.allow
    yield Setting("allow", _words(policy.allow), _origin(own, "allow", is_own=True))
    if floor_allow is not None:
        yield Setting("allow", _words(floor_allow), "floor")
    for key in SCALES:
        value = value_of(policy, key)
        shown = LEVEL_WORDS[value] if key.startswith("sandbox.") else value
        text = str(shown).lower() if isinstance(shown, bool) else str(shown)
        yield Setting(key, text, _origin(own, key, is_own=own is None or value_of(own.policy, key) == value))
    for name in LIMITS:
        numbers = [getattr(policy.limits, f"{name}_{what}") for what in ("ask", "refuse")]
        mine = [getattr(policy.limits if own is None else own.policy.limits, f"{name}_{w}") for w in ("ask", "refuse")]
        key = f"limits.{name}"
        yield Setting(key, f"{numbers[0]}, {numbers[1]}", _origin(own, key, is_own=mine == numbers))


def rule_settings(policy: Policy, own: Written | None) -> Iterator[RuleSetting]:
    """Every rule, the refusing ones first, the built-in ones last."""
    from_floor = frozenset(() if policy.extends is None else policy.extends.rules)
    origin: Origin = "starter" if own is None else "policy"
    for rule in policy.refuse:
        yield RuleSetting(rule.id, "refuse", rule.enforcement, "floor" if rule.id in from_floor else origin)
    for rule in policy.ask:
        yield RuleSetting(rule.id, "ask", rule.enforcement, "floor" if rule.id in from_floor else origin)
    for pair in policy.companions:
        yield RuleSetting(pair.id, "companion", pair.enforcement, "floor" if pair.id in from_floor else origin)
    by_rule = stages(policy)
    for id_ in sorted(STAGEABLE):
        key = f"enforcement.{id_}"
        yield RuleSetting(id_, "built-in", by_rule.get(id_, "enforce"), _origin(own, key, is_own=True))


def _origin(own: Written | None, key: str, *, is_own: bool) -> Origin:
    if own is None:
        return "starter"
    if not is_own:
        return "floor"
    return "policy" if key in own.keys else "default"


def _words(patterns: tuple[str, ...]) -> str:
    return ", ".join(patterns)
