"""The admission policy as commented TOML: what ``savant init`` writes, and a person reviews."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from admission.documents import Enforcement, Policy, Sandboxes
from savant.contracts.containment import LEVEL_WORDS


def policy_toml(policy: Policy) -> str:
    """The policy as commented TOML; reading it gives the same policy, of origin ``repository``.

    One that stands on a floor is written as it tightens that floor: reading it needs the floor's file.
    """
    return "\n".join((*_choices(policy), *_tables(policy), *_rules(policy))).rstrip() + "\n"


def _choices(policy: Policy) -> Iterator[str]:
    yield "# Savant: what may be applied to this repository. Read from the base revision of a run:"
    yield "# an uncommitted edit of this file is not in force. A plain name matches at any depth."
    if policy.extends is not None:
        yield "\n# The floor that this policy stands on, and may only tighten."
        bundle = f"bundle = {_text(policy.extends.bundle)}, digest = {_text(policy.extends.bundle_digest)}"
        yield f"extends = {{ {bundle} }}"
    yield "\n# Paths a candidate may touch at all, inside what its plan promised."
    yield f"allow = {_list(policy.allow)}"
    yield "\n# No required check configured: ask a person, refuse, or allow."
    yield f"no_required_check = {_text(policy.no_required_check)}"
    yield f"new_links = {_text(policy.new_links)}"
    yield f"new_executables = {_text(policy.new_executables)}"
    yield "# Secrets in added lines: what looks like a key, a token or a password."
    yield f"secrets = {_text(policy.secrets)}"
    yield "# Must an owner of a changed path (CODEOWNERS at the base) have seen it? .savant/people.toml says who that"
    yield "# is; whoever asked for a change never counts as one: ignore or ask."
    yield f"codeowners = {_text(policy.codeowners)}"
    yield "# A change outside the promise: plan again (refuse), or widen the promise once and ask a person (ask)."
    yield f"amendment = {_text(policy.amendment)}"
    yield "# May whoever asked for a change also acknowledge its conditions? It is marked as such."
    yield f"self_acknowledgement = {_text(policy.self_acknowledgement)}"
    yield "# Does the gate accept candidates that were judged under the built-in starter policy?"
    yield f"gate_accepts_starter = {_bool(policy.gate_accepts_starter)}"


def _tables(policy: Policy) -> Iterator[str]:
    limits, gate = policy.limits, policy.gate
    yield "\n# Sizes: above the first a person is asked, above the second it is refused."
    yield "[limits]"
    yield f"files = [{limits.files_ask}, {limits.files_refuse}]"
    yield f"added_lines = [{limits.added_lines_ask}, {limits.added_lines_refuse}]"
    yield f"deletions = [{limits.deletions_ask}, {limits.deletions_refuse}]"
    yield ""
    yield "# The least that contains each kind of command: full, reduced, weak or none. Below it a run refuses to start"
    yield "# unless a person passes --allow-unsandboxed. Every command gets the most that can be had anyway."
    yield "# check: and formatters. Those that this repository names need reduced until a person trusted them."
    yield "[sandbox]"
    for name in Sandboxes.__struct_fields__:
        yield f"{name} = {_text(LEVEL_WORDS[getattr(policy.sandbox, name)])}"
    yield ""
    yield "# The gate in CI, by the policy of the branch that a change goes to. mode: report stops nothing and says so,"
    yield "# declared judges commits that say they are governed, all judges every commit. custody: A, B (evaluator and"
    yield "# admission keys in CI) or C (B and a witness). evaluate: run the checks again in CI."
    yield "[gate]"
    yield f"mode = {_text(gate.mode)}"
    yield f"custody = {_text(gate.custody)}"
    yield f"evaluate = {_bool(gate.evaluate)}"
    if policy.staged:
        yield "\n# Built-in rules that are not enforced yet: audit records, warn says it as well."
        yield "[enforcement]"
        for row in policy.staged:
            yield f"{row.rule} = {_text(row.enforcement)}"


def _rules(policy: Policy) -> Iterator[str]:
    from_floor = frozenset(() if policy.extends is None else policy.extends.rules)
    for name, words, rules in (
        ("refuse", 'Never applied. Any rule may say enforcement = "audit" or "warn".', policy.refuse),
        ("ask", "Applied once a person acknowledged it.", policy.ask),
    ):
        yield f"\n# {words}"
        for rule in rules:
            if rule.id in from_floor:
                continue
            yield f"[[{name}]]\nid = {_text(rule.id)}\npatterns = {_list(rule.patterns)}"
            if rule.operations:
                yield f"operations = {_list(rule.operations)}"
            yield from _stage(rule.enforcement)
            yield f"reason = {_text(rule.reason)}\n"
    yield "# When the first changes, one of the second must change too, else a person is asked."
    for companion in policy.companions:
        if companion.id in from_floor:
            continue
        yield f"[[companion]]\nid = {_text(companion.id)}"
        yield f"when = {_list(companion.when)}\nneed = {_list(companion.need)}"
        yield from _stage(companion.enforcement)
        yield f"reason = {_text(companion.reason)}\n"
    if policy.exceptions:
        yield "# Exceptions: what a rule does not see, until a day and that day included."
    for exemption in policy.exceptions:
        yield f"[[exception]]\nid = {_text(exemption.id)}\nrule = {_text(exemption.rule)}"
        yield f"patterns = {_list(exemption.patterns)}"
        if exemption.expires is not None:
            yield f"expires = {exemption.expires}"
        yield f"reason = {_text(exemption.reason)}\n"


def _stage(enforcement: Enforcement) -> Iterator[str]:
    if enforcement != "enforce":
        yield f"enforcement = {_text(enforcement)}"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _text(value: str) -> str:
    """A TOML basic string. JSON's escapes are TOML's, except that TOML knows no surrogate pairs and escapes DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _list(values: Iterable[str]) -> str:
    return "[" + ", ".join(_text(value) for value in values) + "]"
