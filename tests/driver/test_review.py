"""The deterministic reviewer: what blocks a plan before anything is spent on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from admission.policy import starter_policy
from driver.review import REVIEWER, is_inside, review_plan
from providerport.scripted import minimal_interpretation, minimal_plan
from savant.contracts.document import digest_of
from savant.files.patterns import PatternSet
from synthesis.documents import Plan, PlanReview
from tests.vectors.examples import SESSION

POLICY = starter_policy()
INTERPRETATION = minimal_interpretation(SESSION)


def plan_of(*patterns: str, operations: tuple[str, ...] = ("modify",)) -> Plan:
    return minimal_plan(INTERPRETATION, patterns=patterns, operations=operations)  # type: ignore[arg-type]


def reviewed(
    plan: Plan,
    *,
    scope: tuple[str, ...] = (),
    policy: Any = POLICY,
    obligations: Any = None,
    judges: Callable[[str], bool] = lambda _: False,
) -> PlanReview:
    interpretation = INTERPRETATION
    if obligations is not None:
        interpretation = structs.replace(INTERPRETATION, required_proof_obligations=obligations)
    made = review_plan(plan, digest_of(plan), interpretation, policy, scope, judges)
    assert (made.plan_digest, made.reviewers) == (digest_of(plan), (REVIEWER,))
    blocking = any(finding.severity == "blocking" for finding in made.findings)
    assert made.outcome == ("revise" if blocking else "converged")
    return made


def blocking(review: PlanReview) -> list[str]:
    return [finding.id for finding in review.findings if finding.severity == "blocking"]


def test_a_plan_inside_policy_and_scope_converges() -> None:
    """The positive control of every refusal below: no finding at all."""
    assert reviewed(plan_of("src/a.py", "src/b/**"), scope=("src/**",)).findings == ()
    assert reviewed(plan_of("**")).findings == ()


def test_a_promise_that_the_policy_certainly_refuses_is_sent_back_with_the_rule() -> None:
    """One finding for each refused promise, citing the rule; a wider promise is only narrowed later."""
    made = reviewed(plan_of(".savant/config.toml", ".savant/**", "src/**"))
    assert blocking(made) == ["refused-1", "refused-2"]
    assert {finding.citation for finding in made.findings} == {"savant-rules"}
    narrow = structs.replace(POLICY, allow=("src/**",))
    assert blocking(reviewed(plan_of("docs/x.md"), policy=narrow)) == ["refused-1"]
    assert blocking(reviewed(plan_of("**"), policy=narrow)) == []
    assert blocking(reviewed(plan_of("sub", operations=("gitlink-change",)))) == ["refused-1"]


def test_a_step_that_changes_what_judges_by_name_declares_it() -> None:
    """Undeclared it is sent back, so that the provider can declare it; declared, or under a wide promise, it is not."""
    judges = {"tests/test_a.py"}.__contains__
    assert blocking(reviewed(plan_of("tests/test_a.py", "src/a.py"), judges=judges)) == ["custody-undeclared"]
    assert blocking(reviewed(plan_of("/tests/test_a.py"), judges=judges)) == ["custody-undeclared"]
    assert blocking(reviewed(plan_of("tests/**", "tests/test_b.py"), judges=judges)) == []
    plan = plan_of("tests/test_a.py")
    declared = structs.replace(plan, steps=tuple(structs.replace(s, declares_gate_changes=True) for s in plan.steps))
    assert blocking(reviewed(declared, judges=judges)) == []


def test_a_promise_of_nothing_is_no_plan() -> None:
    """Without any intended change there is nothing to hold a candidate to."""
    assert blocking(reviewed(plan_of())) == ["promise-empty"]


def test_a_change_from_before_the_plan_promises_nothing_and_says_so() -> None:
    """An import converges with an information, unless the task has a scope: that would go unheeded."""
    imported = structs.replace(plan_of(), promise="none")
    made = reviewed(imported)
    assert [(f.id, f.severity) for f in made.findings] == [("promise-none", "info")]
    assert blocking(reviewed(imported, scope=("src/**",))) == ["scope-unpromised"]


def test_two_steps_with_one_name_are_sent_back() -> None:
    """Findings name steps, so names must tell them apart."""
    plan = plan_of("src/a.py")
    twice = structs.replace(plan, steps=plan.steps * 2)
    assert blocking(reviewed(twice)) == ["step-repeated"]
    other = structs.replace(plan.steps[0], id="step-2")
    assert blocking(reviewed(structs.replace(plan, steps=(*plan.steps, other)))) == []


@pytest.mark.parametrize("pattern", ["src/../x", "src/[", "a\\b", "%2", "!src", "x**/y", "src//a"])
def test_a_promise_that_is_no_pattern_is_sent_back(pattern: str) -> None:
    """It could never be compared with a change, so it goes back to its author and not to the evaluators."""
    for scope in ((), ("src/**",)):
        made = reviewed(plan_of(pattern), scope=scope)
        assert "pattern-bad" in blocking(made)
        assert "scope-left" not in blocking(made)


def test_an_obligation_needs_a_step_that_discharges_it() -> None:
    """Every one that no step discharges is named."""
    plan = structs.replace(
        plan_of("src/a.py"), steps=(structs.replace(plan_of("src/a.py").steps[0], discharges=("A",)),)
    )
    made = reviewed(plan, obligations=("A", "B"))
    assert [(f.id, f.text) for f in made.findings] == [("obligation-open", "No step discharges the obligation: B")]
    assert reviewed(plan, obligations=("A",)).findings == ()


@pytest.mark.parametrize(
    ("pattern", "scope", "expected"),
    [
        ("src/a.py", ("src/a.py",), True),
        ("src/a.py", ("src/*.py",), True),
        ("src/a.py", ("*.py",), True),
        ("src/deep/**", ("src/**",), True),
        ("src/*.py", ("src/**",), True),
        ("**", ("**",), True),
        ("Makefile", ("Makefile",), True),
        ("src/a.py", ("src/b.py", "src/a.py"), True),
        ("README.md", ("src/**",), False),
        ("**", ("src/**",), False),
        ("srcs/a.py", ("src/**",), False),
        ("src", ("src/**",), False),
        ("src/*.py", ("src/a.py",), False),
        ("*.py", ("src/**",), False),
        ("src/**", ("s?c/**",), False),
        ("src/**", ("src/*",), False),
        ("src/deep/a.py", ("src/",), True),
        ("/src/a.py", ("src/**",), True),
        ("/Makefile", ("Makefile",), True),
        ("Makefile", ("/Makefile",), False),
        ("Makefile", ("/**",), True),
        ("a%2A", ("?*",), False),
        ("src/", ("src/*",), False),
    ],
)
def test_a_promise_is_inside_the_scope_or_not(pattern: str, scope: tuple[str, ...], expected: bool) -> None:
    """In doubt it is not."""
    assert is_inside(pattern, scope) is expected
    assert blocking(reviewed(plan_of(pattern), scope=scope)) == ([] if expected else ["scope-left"])


COMPONENTS = st.sampled_from(["src", "srcs", "a", "*", "**", "a*", "?"])
PATTERNS = st.builds(
    lambda parts, before, after: before + "/".join(parts) + after,
    st.lists(COMPONENTS, min_size=1, max_size=3),
    st.sampled_from(["", "/"]),
    st.sampled_from(["", "/"]),
)
PATHS = st.lists(st.sampled_from(["src", "srcs", "a", "ab", "b"]), min_size=1, max_size=4).map("/".join)


@given(PATTERNS, st.lists(PATTERNS, min_size=1, max_size=3), PATHS)
def test_inside_means_that_every_matched_path_is_in_scope(pattern: str, scope: list[str], path: str) -> None:
    """Whatever an inside promise matches, the scope matches too: the scope cannot be left through a pattern."""
    raw = path.encode()
    if is_inside(pattern, tuple(scope)) and PatternSet.parse((pattern,)).matches(raw):
        assert PatternSet.parse(scope).matches(raw)
