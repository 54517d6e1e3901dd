"""A promise is judged before generation: only what is certainly refused is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from admission.documents import Exemption, Extends, PathRule, Policy, Staged
from admission.eligibility import is_covered, judge_promise
from admission.policy import starter_policy
from savant.contracts.scalars import as_set
from savant.files.patterns import PatternSet
from synthesis.documents import IntendedChange, OperationKind, Plan, PlanStep
from tests.admission.kit import KINDS


def plan(*changes: tuple[str, tuple[OperationKind, ...]]) -> Plan:
    return Plan(
        interpretation_digest="blake3:" + "0" * 64,
        generation=1,
        promise="declared",
        steps=tuple(
            PlanStep(
                id=f"step-{number}",
                description="",
                intended_changes=(IntendedChange(pattern=pattern, operations=as_set(operations)),),
                symbols=(),
                expected_evidence=(),
                discharges=(),
                declares_gate_changes=False,
            )
            for number, (pattern, operations) in enumerate(changes)
        ),
        assumptions=(),
        risks=(),
        stop_conditions=(),
    )


@pytest.mark.parametrize(
    ("pattern", "operations", "rule"),
    [
        ("src/app.py", ("modify",), None),
        ("**", KINDS, None),
        (".savant/policy.toml", ("modify",), "savant-rules"),
        (".savant/**", ("create",), "savant-rules"),
        (".savant/", ("create",), "savant-rules"),
        (".savant/records/*.toml", ("create",), "savant-rules"),
        ("/.savant", ("create",), "savant-rules"),
        (".gitmodules", ("create",), "submodules"),
        ("sub/.gitmodules", ("create",), "submodules"),
        ("lib", ("gitlink-change",), "supported-operations"),
        ("lib/**", ("gitlink-change", "modify"), None),
        (".github/**", ("modify",), None),
    ],
)
def test_what_the_starter_certainly_refuses(
    pattern: str, operations: tuple[OperationKind, ...], rule: str | None
) -> None:
    """The rules, submodules and nothing else; what asks is not refused, what is merely wide is not either."""
    assert judge_promise(plan(("src/**", ("modify",))), starter_policy()) == ()
    found = judge_promise(plan(("src/**", ("modify",)), (pattern, operations)), starter_policy())
    assert [reason.rule for reason in found] == ([] if rule is None else [rule])
    assert all(repr(pattern) in reason.detail for reason in found)


def test_a_rule_about_some_kinds_refuses_only_a_promise_of_nothing_else() -> None:
    """A promise that may still be kept in another way goes on."""
    rule = PathRule(
        id="own", patterns=("docs/**",), operations=as_set(("create", "delete")), reason="r", enforcement="enforce"
    )
    policy = structs.replace(starter_policy(), refuse=(rule,))
    assert judge_promise(plan(("docs/a.md", ("modify",))), policy) == ()
    assert judge_promise(plan(("docs/a.md", ("create", "modify"))), policy) == ()
    assert [r.rule for r in judge_promise(plan(("docs/a.md", ("create",))), policy)] == ["own"]


def test_a_rule_that_is_staged_or_excepted_refuses_nothing_for_certain() -> None:
    """Admission decides it, when there is a candidate; another rule and another exception change nothing."""

    def found(rule: PathRule, policy: Policy) -> list[str]:
        made = structs.replace(policy, refuse=(rule,))
        return [reason.rule for reason in judge_promise(plan(("docs/a.md", ("modify",))), made)]

    rule = PathRule(id="own", patterns=("docs/**",), operations=(), reason="r", enforcement="enforce")
    once = Exemption(id="e", rule="own", patterns=("docs/a.md",), reason="r", expires="2026-01-01")
    assert found(rule, starter_policy()) == ["own"]
    assert found(structs.replace(rule, enforcement="warn"), starter_policy()) == []
    assert found(rule, structs.replace(starter_policy(), exceptions=(once,))) == []
    other = structs.replace(once, rule="new-links")
    assert found(rule, structs.replace(starter_policy(), exceptions=(other,))) == ["own"]


def test_the_floor_allows_too_or_nobody_does() -> None:
    """A single path outside its list is certainly refused, unless the rule is staged."""
    floor = Extends(bundle=".savant/f.toml", bundle_digest="blake3:" + "0" * 64, rules=(), allow=("src/**",))
    policy = structs.replace(starter_policy(), extends=floor)
    promise = plan(("src/a.py", ("modify",)), ("docs/a.md", ("modify",)))
    assert [reason.code for reason in judge_promise(promise, policy)] == ["admission.scope.outside-policy"]
    staged = structs.replace(policy, staged=(Staged(rule="allow", enforcement="audit"),))
    assert judge_promise(promise, staged) == ()


def test_one_path_that_the_policy_does_not_allow_is_refused() -> None:
    """A pattern of several paths is not: some of them may be allowed."""
    policy = structs.replace(starter_policy(), allow=("src/**",))
    for pattern, refused in (("src/a.py", False), ("docs/a.md", True), ("/Makefile", True), ("docs/*", False)):
        found = judge_promise(plan((pattern, ("modify",))), policy)
        assert [r.code for r in found] == (["admission.scope.outside-policy"] if refused else []), pattern


@pytest.mark.parametrize(
    ("pattern", "rules", "covered"),
    [
        ("a/b.py", ("a/**",), True),
        ("a/b.py", ("**",), True),
        ("*.py", ("**",), True),
        ("*.py", ("*.py",), True),
        ("*.py", ("a/**",), False),
        ("a/*.py", ("a/",), True),
        ("/a/*.py", ("a/**",), True),
        ("a/b/**", ("/a/b/**",), True),
        ("ab/**", ("a/**",), False),
        ("a/**", ("a/b/**",), False),
        ("a/**", ("*/**",), False),
        ("Makefile", ("Makefile",), True),
        ("Makefile", ("Make*",), True),
        ("Makefile", ("/Makefile",), False),
        ("/Makefile", ("Makefile",), True),
        ("/Makefile", ("/Makefile",), True),
        ("%41", ("A",), False),
        ("a/%41", ("a/A",), False),
        ("a/%41", ("a/**",), True),
        ("caf\u00e9/x", ("caf\u00e9/x",), True),
        ("a/b", (), False),
    ],
)
def test_covered_means_certainly_matched(pattern: str, rules: tuple[str, ...], covered: bool) -> None:
    """In doubt a pattern is not covered."""
    assert is_covered(pattern, rules) is covered


PARTS = st.sampled_from(("a", "b", "*", "**", "*.py", "x.py", "%41", "[ab]"))
PATTERNS = st.builds(
    lambda lead, parts, tail: lead + "/".join(parts) + tail,
    st.sampled_from(("", "/")),
    st.lists(PARTS, min_size=1, max_size=3),
    st.sampled_from(("", "/")),
)
PATHS = st.lists(st.sampled_from(("a", "b", "x.py", "A")), min_size=1, max_size=4).map(lambda p: "/".join(p).encode())


@given(PATTERNS, st.lists(PATTERNS, max_size=3), st.lists(PATHS, min_size=1, max_size=20))
def test_no_path_of_a_covered_pattern_escapes_the_rules(pattern: str, rules: list[str], paths: list[bytes]) -> None:
    """Whatever a covered pattern matches, a rule matches too."""
    if is_covered(pattern, tuple(rules)):
        promised, refused = PatternSet.parse([pattern]), PatternSet.parse(rules)
        assert all(refused.matches(path) for path in paths if promised.matches(path))
