"""Excuses: checks that may fail, by name and for a while. Pure.

An excuse is looked at only where a check would count. One that has ended excuses nothing, and is said to have ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from evaluator.documents import Excuse, Policy

ANY: Final = "*"


def excuse_of(policy: Policy, evaluator: str, check: str) -> str | None:
    """The id of the excuse under which a check of an evaluator does not count; None for none."""
    return next(
        (excuse.id for excuse in policy.excuses if holds(excuse, policy.as_of) and _names(excuse, evaluator, check)),
        None,
    )


def holds(excuse: Excuse, as_of: str | None) -> bool:
    """Whether an excuse is still good on a day; one that ends needs a day to be judged on."""
    return excuse.expires is None or (as_of is not None and as_of <= excuse.expires)


def ended(policy: Policy, evaluator: str) -> Iterator[Excuse]:
    """The excuses of an evaluator that have ended."""
    return (item for item in policy.excuses if item.evaluator == evaluator and not holds(item, policy.as_of))


def may_end(excuses: Iterable[Excuse]) -> bool:
    """Whether any excuse can end, so that the day matters."""
    return any(excuse.expires is not None for excuse in excuses)


def _names(excuse: Excuse, evaluator: str, check: str) -> bool:
    if excuse.evaluator != evaluator:
        return False
    bare = check.removeprefix(f"{evaluator}:")
    return any(is_like(name, pattern) for pattern in excuse.checks for name in (check, bare))


def is_like(name: str, pattern: str) -> bool:
    """Whether a name is what a pattern says: ``*`` stands for any characters, everything else for itself."""
    first, *others = pattern.split(ANY)
    if not others:
        return name == pattern
    *middle, last = others
    if not name.startswith(first) or not name[len(first) :].endswith(last) or len(name) < len(first) + len(last):
        return False
    place, end = len(first), len(name) - len(last)
    for part in middle:
        found = name.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True
