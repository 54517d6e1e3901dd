"""Staged enforcement and exceptions: what is only watched decides nothing, and what ended holds no longer."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from admission.codes import CONDITIONS, REASONS
from admission.decide import decide
from admission.documents import Decision, Enforcement, Exemption, PathRule, Policy, Request, Staged
from admission.explain import explain
from admission.policy import starter_policy
from admission.staging import FIXED, STAGEABLE, some
from savant.contracts.document import Sealed, seal
from savant.contracts.scalars import as_set
from tests.admission.kit import Tree, conditions, f, judge, link, make_request, refusals, with_limits, x

BASE: Tree = {b"a.py": f(b"a\n"), b"b.py": f(b"b\n"), b"tests/test_a.py": f(b"t\n")}
FIX: Tree = {**BASE, b"a.py": f(b"z\n")}


def staged_one(policy: Policy, rule: str, enforcement: Enforcement) -> Policy:
    return structs.replace(policy, staged=(Staged(rule=rule, enforcement=enforcement),))


def staged(policy: Policy, **rules: Enforcement) -> Policy:
    rows = (Staged(rule=rule.replace("_", "-"), enforcement=enforcement) for rule, enforcement in rules.items())
    return structs.replace(policy, staged=as_set(rows))


def ruled(enforcement: Enforcement, where: str = "ask") -> Policy:
    rule = PathRule(id="own", patterns=("a.py",), operations=(), reason="It is mine.", enforcement=enforcement)
    return structs.replace(starter_policy("repository"), **{where: (rule,)})


def excepted(policy: Policy, rule: str, *patterns: str, expires: str | None = None) -> Policy:
    exemption = Exemption(id="once", rule=rule, patterns=as_set(patterns), reason="We know it.", expires=expires)
    return structs.replace(policy, exceptions=(exemption,))


def on_day(request: Sealed[Request], policy: Policy, as_of: str | None) -> Decision:
    return decide(seal(structs.replace(request.document, as_of=as_of)), seal(policy))


@pytest.mark.parametrize("where", ["ask", "refuse"])
def test_a_rule_is_watched_then_spoken_about_then_enforced(where: str) -> None:
    """Audit is recorded and says nothing; warn is a limitation with the path; enforce decides."""
    audit, warn, enforce = (judge(BASE, FIX, policy=ruled(stage, where)) for stage in ("audit", "warn", "enforce"))
    assert (audit.outcome, warn.outcome) == ("admitted", "admitted")
    assert enforce.outcome == ("waiting" if where == "ask" else "refused")
    assert (audit.limitations, enforce.limitations, enforce.observed) == ((), (), ())
    assert [limit.text for limit in warn.limitations] == ["The rule own only warns: It is mine. (a.py)"]
    for decision, stage in ((audit, "audit"), (warn, "warn")):
        (found,) = decision.observed
        assert (found.rule, found.enforcement, found.paths, found.reason) == ("own", stage, ("a.py",), "It is mine.")
        assert decision.conditions == ()


BUILT_IN: dict[str, tuple[dict[str, Any], Tree]] = {
    "allow": ({"allow": ("b.py",)}, FIX),
    "new-links": ({"new_links": "refuse"}, {**BASE, b"l": link(b"a.py")}),
    "new-executables": ({"new_executables": "refuse"}, {**BASE, b"e": x(b"e\n")}),
    "no-required-check": ({"no_required_check": "refuse"}, FIX),
}


@pytest.mark.parametrize("rule", BUILT_IN)
@pytest.mark.parametrize("enforcement", ["audit", "warn"])
def test_a_built_in_rule_is_staged_like_any_other(rule: str, enforcement: Enforcement) -> None:
    """Enforced it refuses; staged it is only observed, in the same words."""
    members, after = BUILT_IN[rule]
    policy = structs.replace(starter_policy("repository"), **members)
    options: dict[str, Any] = {"checks": ()} if rule == "no-required-check" else {}
    assert judge(BASE, after, policy=policy, **options).outcome == "refused"
    decision = judge(BASE, after, policy=staged_one(policy, rule, enforcement), **options)
    assert decision.outcome == "admitted"
    assert [(found.rule, found.enforcement) for found in decision.observed] == [(rule, enforcement)]
    assert len(decision.limitations) == (enforcement == "warn")


def test_a_limit_is_staged_for_both_of_its_numbers() -> None:
    """Neither the number that asks nor the one that refuses decides; both are recorded."""
    policy = with_limits(starter_policy("repository"), files_ask=0, files_refuse=0)
    assert judge(BASE, FIX, policy=policy).outcome == "refused"
    decision = judge(BASE, FIX, policy=staged(policy, limit_files="audit"))
    assert decision.outcome == "admitted"
    assert {found.code for found in decision.observed} == {"admission.ask.limit", "admission.limit.exceeded"}


@pytest.mark.parametrize("rule", sorted(FIXED))
def test_what_always_holds_cannot_be_staged(rule: str) -> None:
    """A document that says so anyway changes nothing: an empty change is still refused."""
    policy = structs.replace(starter_policy("repository"), staged=(Staged(rule=rule, enforcement="audit"),))
    assert refusals(judge(BASE, BASE, policy=policy)) == [("admission.scope.empty", None)]


def test_the_built_in_rules_are_told_apart() -> None:
    """None is both stageable and fixed."""
    assert not STAGEABLE & FIXED


def test_an_exception_hides_paths_from_one_rule() -> None:
    """What it hides is said, with its reason; another path, and another rule, decide as before."""
    policy = excepted(ruled("enforce"), "own", "a.py")
    assert judge(BASE, FIX, policy=ruled("enforce")).outcome == "waiting"
    decision = judge(BASE, FIX, policy=policy)
    assert decision.outcome == "admitted"
    assert [limit.text for limit in decision.limitations] == ["Exception once: own does not see a.py. We know it."]
    assert judge(BASE, {**BASE, b"b.py": f(b"y\n")}, policy=policy).limitations == ()
    assert judge(BASE, FIX, policy=excepted(ruled("enforce"), "own", "b.py")).outcome == "waiting"
    assert judge(BASE, FIX, policy=excepted(ruled("enforce"), "new-links", "a.py")).outcome == "waiting"


def test_an_exception_holds_until_its_day_and_that_day_included() -> None:
    """Before and on the day it hides; on the next the rule decides again and the limitation says why."""
    policy = excepted(ruled("enforce"), "own", "a.py", expires="2026-03-31")
    request = make_request(BASE, FIX, policy=policy)
    outcomes = {day: on_day(request, policy, day) for day in ("2026-03-30", "2026-03-31", "2026-04-01")}
    assert [decision.outcome for decision in outcomes.values()] == ["admitted", "admitted", "waiting"]
    assert outcomes["2026-03-31"].limitations[-1].text.endswith("It holds until 2026-03-31.")
    assert outcomes["2026-04-01"].limitations[-1].text == ("The exception once ended on 2026-03-31: own decides a.py.")


def test_what_can_end_needs_a_day() -> None:
    """A request without one cannot be decided with such a policy; nobody guesses the day."""
    policy = excepted(ruled("enforce"), "own", "a.py", expires="2026-03-31")
    request = make_request(BASE, FIX, policy=policy)
    assert refusals(on_day(request, policy, None)) == [("admission.unreadable", None)]
    assert on_day(request, policy, "2026-01-01").outcome == "admitted"


@pytest.mark.parametrize("rule", sorted(BUILT_IN))
def test_an_exception_of_a_built_in_rule(rule: str) -> None:
    """The rule does not see the paths; with every path hidden it decides nothing."""
    members, after = BUILT_IN[rule]
    policy = structs.replace(starter_policy("repository"), **members)
    options: dict[str, Any] = {"checks": ()} if rule == "no-required-check" else {}
    assert judge(BASE, after, policy=policy, **options).outcome == "refused"
    assert judge(BASE, after, policy=excepted(policy, rule, "**"), **options).outcome == "admitted"
    assert judge(BASE, after, policy=excepted(policy, rule, "elsewhere"), **options).outcome == "refused"


def test_an_exception_of_a_limit_is_not_counted() -> None:
    """A generated file of any size may be hidden from the limit of lines, and the others still count."""
    policy = with_limits(starter_policy("repository"), added_lines_ask=2, added_lines_refuse=2)
    after = {**FIX, b"gen.py": f(b"1\n2\n3\n")}
    assert judge(BASE, after, policy=policy).outcome == "refused"
    assert judge(BASE, after, policy=excepted(policy, "limit-added-lines", "gen.py")).outcome == "admitted"
    more = {**after, b"b.py": f(b"1\n2\n3\n")}
    assert judge(BASE, more, policy=excepted(policy, "limit-added-lines", "gen.py")).outcome == "refused"


def test_a_bad_pattern_of_an_exception_cannot_be_decided_with() -> None:
    """As for every other pattern."""
    assert refusals(judge(BASE, FIX, policy=excepted(ruled("audit"), "own", "!x"))) == [("admission.unreadable", None)]


def test_the_explanation_names_what_is_only_watched() -> None:
    """Beside the rule that allowed the path, and for no other path."""
    both = {**FIX, b"b.py": f(b"y\n")}
    for stage, verdict in (("audit", "audited"), ("warn", "warns")):
        policy = ruled(stage)  # type: ignore[arg-type]
        request = make_request(BASE, both, policy=policy)
        rows = explain(request.document, decide(request, seal(policy)), policy)
        assert [(row.path, row.verdict, row.rule) for row in rows] == [
            ("a.py", verdict, "own"),
            ("a.py", "allowed", "allow"),
            ("b.py", "allowed", "allow"),
        ]


def test_a_sentence_names_three_paths() -> None:
    """And counts the others."""
    assert some(("a", "b", "c")) == "a, b, c"
    assert some(("a", "b", "c", "d", "e")) == "a, b, c and 2 more"


STAGES = st.sampled_from(get_args(Enforcement))
AFTER: Tree = {**FIX, b"l": link(b"a.py"), b"e": x(b"e\n"), b"tests/test_a.py": f(b"u\n"), b"ci/x.yml": f(b"x\n")}


@given(stages=st.dictionaries(st.sampled_from(sorted(STAGEABLE)), STAGES), data=st.data())
def test_staging_only_ever_loosens_and_forgets_nothing(stages: dict[str, Enforcement], data: st.DataObject) -> None:
    """Whatever is staged: each finding of the enforced policy is decided on or observed, and nothing new is found."""
    enforced = structs.replace(starter_policy("repository"), new_links="refuse", no_required_check="ask")
    policy = structs.replace(
        enforced,
        staged=as_set(Staged(rule=rule, enforcement=stage) for rule, stage in stages.items()),
        ask=as_set(structs.replace(rule, enforcement=data.draw(STAGES)) for rule in enforced.ask),
    )
    full = judge(BASE, AFTER, policy=enforced, checks=())
    decision = judge(BASE, AFTER, policy=policy, checks=())
    observed = {found.rule for found in decision.observed}
    assert conditions(decision) | (observed - {"new-links"}) == conditions(full)
    assert conditions(decision).isdisjoint(observed)
    assert ("new-links" in observed) == (decision.outcome != "refused")
    assert {found.code for found in decision.observed} <= {*REASONS, *CONDITIONS}
    assert sum(limit.source == "admission.warning" for limit in decision.limitations) == sum(
        found.enforcement == "warn" for found in decision.observed
    )
