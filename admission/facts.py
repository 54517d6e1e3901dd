"""What the rules of admission look at: the scope of a request under a policy, less what an exception hides. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from admission.documents import Exemption, PathRule, Policy, Request, ScopeEntry
from runner.change import required_kinds
from runner.documents import CandidateOperation
from savant.files.paths import to_raw
from savant.files.patterns import PatternSet


class Facts(msgspec.Struct, frozen=True):
    """A request and the policy that it is judged by."""

    request: Request
    policy: Policy

    def seen(self, rule: str) -> tuple[ScopeEntry, ...]:
        """The scope as one rule sees it: without the paths that an exception in force hides from it."""
        hiding = [e for e in self.policy.exceptions if e.rule == rule and is_in_force(e, self.request.as_of)]
        if not hiding:
            return self.request.scope
        hidden = PatternSet.parse(pattern for exemption in hiding for pattern in exemption.patterns)
        return tuple(entry for entry in self.request.scope if not hidden.matches(to_raw(entry.path)))


def hidden_paths(facts: Facts) -> dict[str, tuple[str, ...]]:
    """By the id of an exception, the changed paths that match it, whether it is in force or not."""
    return {
        exemption.id: tuple(entry.path for entry in facts.request.scope if patterns.matches(to_raw(entry.path)))
        for exemption in facts.policy.exceptions
        for patterns in (PatternSet.parse(exemption.patterns),)
    }


def is_in_force(exemption: Exemption, as_of: str | None) -> bool:
    """Whether an exception holds on a day; its last day is the one it names. One that can end needs a day."""
    return exemption.expires is None or (as_of is not None and as_of <= exemption.expires)


def can_expire(policy: Policy) -> bool:
    """Whether a decision under the policy depends on the day."""
    return any(exemption.expires is not None for exemption in policy.exceptions)


def operation_of(entry: ScopeEntry) -> CandidateOperation:
    """The operation of a scope entry."""
    return CandidateOperation(
        path=entry.path,
        kind=entry.kind,
        source=entry.source,
        before=entry.before,
        after=entry.after,
        policy_change=False,
    )


def matches(rule: PathRule, entry: ScopeEntry) -> bool:
    """Whether a path rule decides an entry.

    A label does not hide what it stands on: a rule about ``create`` decides a rename and a copy too, one about
    ``mode-change`` also a ``modify`` that sets the executable bit. A rename's source is a ``delete`` of its own.
    """
    if not PatternSet.parse(rule.patterns).matches(to_raw(entry.path)):
        return False
    return not rule.operations or not {entry.kind, *required_kinds(operation_of(entry))}.isdisjoint(rule.operations)


def sizes(facts: Facts) -> tuple[tuple[str, int, int, int], ...]:
    """``(what, how many, ask above, refuse above)`` of a request. A rename is one file and deletes nothing."""
    limits = facts.policy.limits
    moved = {entry.source for entry in facts.request.scope if entry.kind == "rename"}

    def stays(rule: str) -> list[ScopeEntry]:
        return [entry for entry in facts.seen(rule) if entry.kind != "delete" or entry.path not in moved]

    deletions = sum(1 for entry in stays("limit-deletions") if entry.kind == "delete")
    added = sum(entry.added_lines for entry in facts.seen("limit-added-lines"))
    return (
        ("files", len(stays("limit-files")), limits.files_ask, limits.files_refuse),
        ("added-lines", added, limits.added_lines_ask, limits.added_lines_refuse),
        ("deletions", deletions, limits.deletions_ask, limits.deletions_refuse),
    )


def new_links(scope: Sequence[ScopeEntry]) -> list[str]:
    """The paths that are a new or repointed link afterwards."""
    return [
        e.path
        for e in scope
        if e.after is not None
        and e.after.mode == "symlink"
        and (e.before is None or e.before.content_digest != e.after.content_digest or e.before.mode != "symlink")
    ]


def new_executables(scope: Sequence[ScopeEntry]) -> list[str]:
    """The paths that are executable afterwards and were not before; moving one along is nothing new."""
    return [
        e.path
        for e in scope
        if e.after is not None
        and e.after.mode == "executable"
        and e.kind != "rename"
        and (e.before is None or e.before.mode != "executable")
    ]
