"""The rules of admission, one function each, in a fixed order. Pure: facts and a policy in, reasons and conditions out.

Every rule looks at the request's scope (what really changed) and says which paths it decides. A refusing rule gives
reasons; an asking one gives a condition whose id is the rule's, so that it stays the same from run to run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from admission.codes import condition, reason
from admission.documents import Condition, Owned, Policy, Reason, ScopeEntry
from admission.facts import Facts, can_expire, matches, new_executables, new_links, operation_of, sizes
from admission.staging import FIXED, OWNERS_RULE, STAGEABLE, stages
from runner.change import CONTROL_FOLDER, is_policy_path
from runner.promise import is_promised
from savant.contracts.digest import digest
from savant.contracts.errors import RefusedInput
from savant.files.paths import to_raw
from savant.files.patterns import PatternSet, parse
from synthesis.documents import IntendedChange

_MAX_OWNER_WORDS: Final = 120
_IS_NAME: Final = re.compile(r"[A-Za-z0-9._:@/+-]+")

Refusing = Callable[[Facts], Iterator[Reason]]
Asking = Callable[[Facts], Iterator[Condition]]


RESERVED: Final = STAGEABLE | FIXED
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
        *(() if policy.extends is None else policy.extends.allow),
        *(text for exemption in policy.exceptions for text in exemption.patterns),
        *(text for rule in (*policy.refuse, *policy.ask) for text in rule.patterns),
        *(text for companion in policy.companions for text in (*companion.when, *companion.need)),
        *(change.pattern for change in (*(request.promise or ()), *request.amendment)),
    )
    for text in patterns:
        try:
            parse(text)
        except RefusedInput as error:
            yield reason("admission.unreadable", "readable", None, str(error))
    for id_ in sorted(repeated_ids(policy)):
        yield reason("admission.unreadable", id_, None, "Two rules have this id.")
    if request.as_of is None and can_expire(policy):
        yield reason("admission.unreadable", "readable", None, "An exception can end, and the request names no day.")


def _empty(facts: Facts) -> Iterator[Reason]:
    if not facts.request.scope:
        yield reason("admission.scope.empty", "empty-change")


def _unsupported(facts: Facts) -> Iterator[Reason]:
    for entry in facts.request.scope:
        if entry.kind == "gitlink-change":
            yield reason("admission.operation.unsupported", "supported-operations", entry.path)


def _outside_promise(facts: Facts) -> Iterator[Reason]:
    request = facts.request
    amendment = request.amendment if facts.policy.amendment == "ask" else ()
    for entry in _unpromised(facts, amendment):
        yield reason("admission.scope.outside-promise", "promise", entry.path, f"{entry.kind} was not promised")


def _unpromised(facts: Facts, amendment: tuple[IntendedChange, ...]) -> list[ScopeEntry]:
    """The entries outside the plan's promise and what it was widened by; none where nothing was promised."""
    scope, promise = facts.request.scope, facts.request.promise
    if promise is None:
        return []
    sources = frozenset(e.source for e in scope if e.kind == "rename" and e.source is not None)
    return [entry for entry in scope if not is_promised(operation_of(entry), (*promise, *amendment), sources)]


def _outside_policy(facts: Facts) -> Iterator[Reason]:
    extends = facts.policy.extends
    allowed = [
        PatternSet.parse(texts) for texts in (facts.policy.allow, *(() if extends is None else (extends.allow,)))
    ]
    for entry in facts.seen("allow"):
        if not all(patterns.matches(to_raw(entry.path)) for patterns in allowed):
            yield reason("admission.scope.outside-policy", "allow", entry.path)


def _disguised(facts: Facts) -> Iterator[Reason]:
    for entry in facts.request.scope:
        raw = to_raw(entry.path)
        if is_policy_path(raw) and raw.partition(b"/")[0] != CONTROL_FOLDER:
            yield reason("admission.scope.disguised-rules", "disguised-rules", entry.path)


def _refused_paths(facts: Facts) -> Iterator[Reason]:
    # In the order of the paths, and of the rules for each: what a person reads first is the first path.
    found = {
        (rule.id, entry.path): rule.reason
        for rule in facts.policy.refuse
        for entry in facts.seen(rule.id)
        if matches(rule, entry)
    }
    for entry in facts.request.scope:
        for rule in facts.policy.refuse:
            if (rule.id, entry.path) in found:
                yield reason("admission.scope.refused", rule.id, entry.path, rule.reason)


def _too_large(facts: Facts) -> Iterator[Reason]:
    for name, count, _, refuse in sizes(facts):
        if count > refuse:
            yield reason("admission.limit.exceeded", f"limit-{name}", None, f"{count} {name}, {refuse} are allowed")


def _no_check(facts: Facts) -> Iterator[Reason]:
    if facts.policy.no_required_check == "refuse" and _is_unmeasured(facts):
        yield reason("admission.check.none", "no-required-check")


def _is_unmeasured(facts: Facts) -> bool:
    """Whether no required check measured the candidate, and an exception does not hide all of it."""
    is_hidden = bool(facts.request.scope) and not facts.seen("no-required-check")
    return facts.request.required_checks == 0 and not is_hidden


def _links(facts: Facts) -> Iterator[Reason]:
    if facts.policy.new_links == "refuse":
        for path in new_links(facts.seen("new-links")):
            yield reason("admission.link.refused", "new-links", path)


def _executables(facts: Facts) -> Iterator[Reason]:
    if facts.policy.new_executables == "refuse":
        for path in new_executables(facts.seen("new-executables")):
            yield reason("admission.executable.refused", "new-executables", path)


def _secrets(facts: Facts) -> Iterator[Reason]:
    if facts.policy.secrets == "refuse":
        for path in _with_secrets(facts):
            yield reason("admission.secret.refused", "secrets", path)


def _with_secrets(facts: Facts) -> list[str]:
    return [entry.path for entry in facts.seen("secrets") if entry.added_secrets]


REFUSING: Final[tuple[Refusing, ...]] = (
    _empty,
    _unsupported,
    _outside_promise,
    _outside_policy,
    _disguised,
    _refused_paths,
    _secrets,
    _links,
    _executables,
    _too_large,
    _no_check,
)
"""The refusing rules, in the order of their reasons."""


def _ask_paths(facts: Facts) -> Iterator[Condition]:
    for rule in facts.policy.ask:
        paths = [entry.path for entry in facts.seen(rule.id) if matches(rule, entry)]
        if paths:
            yield condition(rule.id, "admission.ask.path", paths, rule.reason)


def _ask_custody(facts: Facts) -> Iterator[Condition]:
    if not facts.request.custody:
        return
    stage = stages(facts.policy)
    asked = {path for found in _ask_paths(facts) if stage.get(found.id, "enforce") == "enforce" for path in found.paths}
    seen = {entry.path for entry in facts.seen("custody")}
    paths = [path for path in facts.request.custody if path in seen and path not in asked]
    if paths:
        why = "It changes files that judge: they were judged with, as they are on the base."
        yield condition("custody", "admission.ask.custody", paths, why)


def _ask_amendment(facts: Facts) -> Iterator[Condition]:
    paths = [entry.path for entry in _unpromised(facts, ())]
    if paths:
        why = "It changes what the plan had not promised: the promise was widened, once, before the seal."
        yield condition("amendment", "admission.ask.amendment", paths, why)


def _ask_companions(facts: Facts) -> Iterator[Condition]:
    for rule in facts.policy.companions:
        when, need = PatternSet.parse(rule.when), PatternSet.parse(rule.need)
        found = [entry for entry in facts.seen(rule.id) if when.matches(to_raw(entry.path))]
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
    if facts.policy.no_required_check == "ask" and _is_unmeasured(facts):
        yield condition("no-required-check", "admission.ask.no-required-check", (), "No required check is configured.")


def _ask_links(facts: Facts) -> Iterator[Condition]:
    paths = new_links(facts.seen("new-links"))
    if paths and facts.policy.new_links == "ask":
        yield condition("new-links", "admission.ask.new-link", paths, "It adds or repoints a link.")


def _ask_executables(facts: Facts) -> Iterator[Condition]:
    paths = new_executables(facts.seen("new-executables"))
    if paths and facts.policy.new_executables == "ask":
        yield condition("new-executables", "admission.ask.new-executable", paths, "It adds an executable file.")


def _ask_secrets(facts: Facts) -> Iterator[Condition]:
    paths = _with_secrets(facts)
    if paths and facts.policy.secrets == "ask":
        yield condition("secrets", "admission.ask.secret", paths, "A line that was added looks like a secret.")


def _ask_owners(facts: Facts) -> Iterator[Condition]:
    if facts.policy.codeowners == "ignore":
        return
    seen = {entry.path for entry in facts.seen(OWNERS_RULE)}
    for owned in facts.request.owners:
        paths = [path for path in owned.paths if path in seen]
        if paths:
            why = _why_owners(owned, facts.request.requester)
            yield condition(
                owners_condition(owned.owners), "admission.ask.owners", paths, why, reviewers=owned.reviewers
            )


def owners_condition(owners: tuple[str, ...]) -> str:
    """The id of the condition that asks for one of these owners; another one for each set of owners."""
    words = "+".join(owners)
    if len(words) > _MAX_OWNER_WORDS or "+" in "".join(owners) or not _IS_NAME.fullmatch(words):
        words = digest("\n".join(owners).encode("utf-8")).partition(":")[2][:16]
    return f"{OWNERS_RULE}:{words}"


def _why_owners(owned: Owned, requester: str) -> str:
    names = ", ".join(owned.owners)
    if not requester:
        return f"Owned by {names}. Who asked is not known, so nobody counts: run again with --requester NAME."
    if owned.reviewers is None:
        return f"Owned by {names}. The base lists no people, so anybody but the requester may stand for them."
    if not owned.reviewers:
        return f"Owned by {names}. Nobody in .savant/people.toml but the requester stands for them: list somebody."
    return f"Owned by {names}. One of these must have seen it: {', '.join(owned.reviewers)}."


ASKING: Final[tuple[Asking, ...]] = (
    _ask_paths,
    _ask_amendment,
    _ask_custody,
    _ask_companions,
    _ask_size,
    _ask_check,
    _ask_links,
    _ask_executables,
    _ask_secrets,
    _ask_owners,
)
"""The asking rules."""
