"""The rules of admission, one function each, in a fixed order. Pure: facts and a policy in, reasons and conditions out.

Every rule looks at the request's scope (what really changed) and says which paths it decides. A refusing rule gives
reasons; an asking one gives a condition whose id is the rule's, so that it stays the same from run to run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from admission.documents import Condition, PathRule, Policy, Reason, Request, ScopeEntry
from runner.change import CONTROL_FOLDER, is_policy_path, required_kinds
from runner.documents import CandidateOperation
from runner.promise import is_promised
from savant.contracts.errors import RefusedInput
from savant.contracts.scalars import as_set
from savant.files.paths import to_raw
from savant.files.patterns import PatternSet, parse

REASONS: Final = MappingProxyType(
    {
        "admission.lineage": "A check of the sealed chain failed, so nothing can be decided.",
        "admission.unreadable": "A path, a pattern or a rule's id is not one that can be decided with.",
        "admission.scope.empty": "The candidate changes nothing.",
        "admission.operation.unsupported": "The candidate moves a submodule, which cannot be applied.",
        "admission.scope.outside-promise": "A path changed that the plan did not promise.",
        "admission.scope.outside-policy": "A path changed that the policy does not allow.",
        "admission.scope.disguised-rules": "A path looks like .savant on some file system, and is not it.",
        "admission.scope.refused": "A path changed that a rule of the policy refuses.",
        "admission.limit.exceeded": "The change is larger than the policy allows.",
        "admission.check.none": "No required check is configured, and the policy refuses that.",
        "admission.link.refused": "The candidate adds or repoints a link, and the policy refuses that.",
        "admission.executable.refused": "The candidate adds an executable file, and the policy refuses that.",
        "admission.acknowledgement.unknown": "An acknowledgement names a condition that does not exist.",
        "admission.acknowledgement.stale": "An acknowledgement is for another decision or candidate.",
        "admission.acknowledgement.stranger": "The people listed at the base have no such key under that name.",
        "admission.acknowledgement.self": "The requester acknowledged, and the policy refuses that.",
        "admission.acknowledgement.repeated": "A condition was acknowledged more than once.",
        "admission.waiting": "A condition is not acknowledged yet.",
        "admission.acknowledged": "Every condition was acknowledged, exactly.",
        "admission.within": "Every change lies inside promise and policy.",
    }
)
"""Every reason code of a decision, with its meaning."""

CONDITIONS: Final = MappingProxyType(
    {
        "admission.ask.path": "A rule of the policy asks for a person on these paths.",
        "admission.ask.companion": "A file changed without the file that goes with it.",
        "admission.ask.limit": "The change is larger than the policy lets pass without a person.",
        "admission.ask.no-required-check": "No required check is configured: nothing measured the candidate.",
        "admission.ask.new-link": "The candidate adds or repoints a link.",
        "admission.ask.new-executable": "The candidate adds an executable file.",
    }
)
"""Every condition code, with its meaning."""


class Facts(msgspec.Struct, frozen=True):
    """What the rules look at."""

    request: Request
    policy: Policy


Refusing = Callable[[Facts], Iterator[Reason]]
Asking = Callable[[Facts], Iterator[Condition]]


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


RESERVED: Final = frozenset(
    {
        "limit-files",
        "limit-added-lines",
        "limit-deletions",
        "no-required-check",
        "new-links",
        "new-executables",
        "supported-operations",
        "promise",
        "allow",
        "empty-change",
        "disguised-rules",
        "conditions",
        "envelope",
        "readable",
    }
)
"""Ids that the built-in rules use; no rule of a policy may be called so."""


def repeated_ids(policy: Policy) -> frozenset[str]:
    """The ids that name more than one rule of a policy, or a built-in one: acknowledging them would be ambiguous."""
    seen: set[str] = set(RESERVED)
    repeated: set[str] = set()
    ids = (*(rule.id for rule in (*policy.refuse, *policy.ask)), *(rule.id for rule in policy.companions))
    for id_ in ids:
        (repeated if id_ in seen else seen).add(id_)
    return frozenset(repeated)


def check_readable(facts: Facts) -> Iterator[Reason]:
    """Why the rules cannot be applied at all; nothing for documents that Savant made."""
    request, policy = facts.request, facts.policy
    for entry in request.scope:
        for path in (entry.path, entry.source):
            try:
                to_raw(path or "-")
            except RefusedInput as error:
                yield reason("admission.unreadable", "readable", None, str(error))
    patterns = (
        *policy.allow,
        *(text for rule in (*policy.refuse, *policy.ask) for text in rule.patterns),
        *(text for companion in policy.companions for text in (*companion.when, *companion.need)),
        *(change.pattern for change in request.promise or ()),
    )
    for text in patterns:
        try:
            parse(text)
        except RefusedInput as error:
            yield reason("admission.unreadable", "readable", None, str(error))
    for id_ in sorted(repeated_ids(policy)):
        yield reason("admission.unreadable", id_, None, "Two rules have this id.")


def _empty(facts: Facts) -> Iterator[Reason]:
    if not facts.request.scope:
        yield reason("admission.scope.empty", "empty-change")


def _unsupported(facts: Facts) -> Iterator[Reason]:
    for entry in facts.request.scope:
        if entry.kind == "gitlink-change":
            yield reason("admission.operation.unsupported", "supported-operations", entry.path)


def _outside_promise(facts: Facts) -> Iterator[Reason]:
    promise = facts.request.promise
    if promise is None:
        return
    sources = frozenset(e.source for e in facts.request.scope if e.kind == "rename" and e.source is not None)
    for entry in facts.request.scope:
        if not is_promised(operation_of(entry), promise, sources):
            yield reason("admission.scope.outside-promise", "promise", entry.path, f"{entry.kind} was not promised")


def _outside_policy(facts: Facts) -> Iterator[Reason]:
    allowed = PatternSet.parse(facts.policy.allow)
    for entry in facts.request.scope:
        if not allowed.matches(to_raw(entry.path)):
            yield reason("admission.scope.outside-policy", "allow", entry.path)


def _disguised(facts: Facts) -> Iterator[Reason]:
    for entry in facts.request.scope:
        raw = to_raw(entry.path)
        if is_policy_path(raw) and raw.partition(b"/")[0] != CONTROL_FOLDER:
            yield reason("admission.scope.disguised-rules", "disguised-rules", entry.path)


def _refused_paths(facts: Facts) -> Iterator[Reason]:
    for entry in facts.request.scope:
        for rule in facts.policy.refuse:
            if matches(rule, entry):
                yield reason("admission.scope.refused", rule.id, entry.path, rule.reason)


def _too_large(facts: Facts) -> Iterator[Reason]:
    for name, count, _, refuse in sizes(facts):
        if count > refuse:
            yield reason("admission.limit.exceeded", f"limit-{name}", None, f"{count} {name}, {refuse} are allowed")


def _no_check(facts: Facts) -> Iterator[Reason]:
    if facts.request.required_checks == 0 and facts.policy.no_required_check == "refuse":
        yield reason("admission.check.none", "no-required-check")


def _links(facts: Facts) -> Iterator[Reason]:
    if facts.policy.new_links == "refuse":
        yield from (reason("admission.link.refused", "new-links", path) for path in new_links(facts.request.scope))


def _executables(facts: Facts) -> Iterator[Reason]:
    if facts.policy.new_executables == "refuse":
        for path in new_executables(facts.request.scope):
            yield reason("admission.executable.refused", "new-executables", path)


REFUSING: Final[tuple[Refusing, ...]] = (
    _empty,
    _unsupported,
    _outside_promise,
    _outside_policy,
    _disguised,
    _refused_paths,
    _links,
    _executables,
    _too_large,
    _no_check,
)
"""The refusing rules, in the order of their reasons."""


def _ask_paths(facts: Facts) -> Iterator[Condition]:
    for rule in facts.policy.ask:
        paths = [entry.path for entry in facts.request.scope if matches(rule, entry)]
        if paths:
            yield condition(rule.id, "admission.ask.path", paths, rule.reason)


def _ask_companions(facts: Facts) -> Iterator[Condition]:
    for rule in facts.policy.companions:
        when, need = PatternSet.parse(rule.when), PatternSet.parse(rule.need)
        found = [entry for entry in facts.request.scope if when.matches(to_raw(entry.path))]
        gone = all(entry.after is None for entry in found)
        # Removing the lock does not bring it along, unless what it locks goes too.
        brought = (need.matches(to_raw(entry.path)) for entry in facts.request.scope if gone or entry.after is not None)
        if found and not any(brought):
            yield condition(rule.id, "admission.ask.companion", [entry.path for entry in found], rule.reason)


def _ask_size(facts: Facts) -> Iterator[Condition]:
    for name, count, ask, _ in sizes(facts):
        if count > ask:
            yield condition(
                f"limit-{name}", "admission.ask.limit", (), f"{count} {name}; above {ask} a person is asked."
            )


def _ask_check(facts: Facts) -> Iterator[Condition]:
    if facts.request.required_checks == 0 and facts.policy.no_required_check == "ask":
        yield condition("no-required-check", "admission.ask.no-required-check", (), "No required check is configured.")


def _ask_links(facts: Facts) -> Iterator[Condition]:
    paths = new_links(facts.request.scope)
    if paths and facts.policy.new_links == "ask":
        yield condition("new-links", "admission.ask.new-link", paths, "It adds or repoints a link.")


def _ask_executables(facts: Facts) -> Iterator[Condition]:
    paths = new_executables(facts.request.scope)
    if paths and facts.policy.new_executables == "ask":
        yield condition("new-executables", "admission.ask.new-executable", paths, "It adds an executable file.")


ASKING: Final[tuple[Asking, ...]] = (
    _ask_paths,
    _ask_companions,
    _ask_size,
    _ask_check,
    _ask_links,
    _ask_executables,
)
"""The asking rules."""


def sizes(facts: Facts) -> tuple[tuple[str, int, int, int], ...]:
    """``(what, how many, ask above, refuse above)`` of a request. A rename is one file and deletes nothing."""
    scope, limits = facts.request.scope, facts.policy.limits
    moved = {entry.source for entry in scope if entry.kind == "rename"}
    stays = [entry for entry in scope if entry.kind != "delete" or entry.path not in moved]
    deletions = sum(1 for entry in stays if entry.kind == "delete")
    return (
        ("files", len(stays), limits.files_ask, limits.files_refuse),
        ("added-lines", sum(e.added_lines for e in scope), limits.added_lines_ask, limits.added_lines_refuse),
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


def reason(code: str, rule: str, path: str | None = None, detail: str = "") -> Reason:
    """A reason; without words of its own it says what the code means."""
    return Reason(code=code, rule=rule, path=path, detail=detail or REASONS[code])


def condition(id_: str, code: str, paths: Sequence[str], why: str) -> Condition:
    """A condition over a set of paths."""
    return Condition(id=id_, code=code, paths=as_set(paths), reason=why, reviewers=None)
