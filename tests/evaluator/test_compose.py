"""The composition: precedence, what blocks, what does not, and agreement with the session's machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from evaluator.compare import DECLARED, Case, Terms, compare, result_checks
from evaluator.compose import CompositionFailure, compose
from evaluator.documents import EvaluatorConfig, Excuse, Policy, Result
from evaluator.policy import FLOORS, SEVERITY, floor_of
from savant.contracts.digest import digest
from savant.contracts.document import seal
from savant.contracts.scalars import as_set
from synthesis.documents import Check, CheckStatus, Evaluation
from synthesis.machine import check_floor
from tests.evaluator.kit import (
    built_in,
    check_of,
    config_of,
    finding_of,
    limitation_of,
    policy_of,
    result_of,
)

ATTEMPT, CANDIDATE = digest(b"attempt"), digest(b"candidate")


def composed(policy: Policy, *results: Result, **named: object) -> Evaluation:
    made = compose(ATTEMPT, CANDIDATE, policy, results, **named)  # type: ignore[arg-type]
    assert isinstance(made, Evaluation), made
    return seal(made).document


def failed(policy: Policy, *results: Result) -> CompositionFailure:
    made = compose(ATTEMPT, CANDIDATE, policy, results)
    assert isinstance(made, CompositionFailure), made
    return made


def test_accept_is_what_is_left() -> None:
    """All required evaluators completed and nothing counts: accept, bound to attempt and candidate."""
    policy = policy_of(config_of("a"), config_of("b"))
    made = composed(policy, result_of("b", check_of("b")), result_of("a", check_of("a")))
    assert (made.attempt_digest, made.candidate_digest) == (ATTEMPT, CANDIDATE)
    assert (made.recommendation, made.failure_classes, made.limitations) == ("accept", (), ())
    assert [check.check for check in made.checks] == ["a", "b"]


def test_no_order_of_results_matters() -> None:
    """The same results in another order give the same bytes."""
    policy = policy_of(config_of("a"), config_of("b", required=False))
    results = [result_of("a", check_of("a")), result_of("b", outcome="unavailable")]
    assert seal(composed(policy, *results)).raw == seal(composed(policy, *reversed(results))).raw


@pytest.mark.parametrize(
    ("code", "results"),
    [
        ("evaluator.duplicate-result", [result_of("a"), result_of("a")]),
        ("evaluator.unknown-result", [result_of("a"), result_of("x")]),
        ("evaluator.duplicate-check", [result_of("a", check_of("a"), check_of("a"))]),
        ("evaluator.duplicate-check", [result_of("a", check_of("a", "n")), result_of("b", check_of("b", "n"))]),
        ("evaluator.foreign-check", [result_of("a", check_of("b", "n")), result_of("b")]),
        ("evaluator.foreign-check", [result_of("a", check_of("a", required=False)), result_of("b")]),
        ("evaluator.unfounded-check", [result_of("a", check_of("a", status="failed", excuse="none")), result_of("b")]),
        ("evaluator.unfounded-check", [result_of("a", check_of("a", comparison="flaky")), result_of("b")]),
    ],
)
def test_contradicting_results_are_not_composed(code: str, results: list[Result]) -> None:
    """Results that are not the policy's, or not of one mind, give no evaluation; the same without the fault do."""
    policy = policy_of(config_of("a"), config_of("b"))
    failure = failed(policy, *results)
    assert (failure.code, failure.required_unavailable) == (code, False)
    assert composed(policy, result_of("a", check_of("a")), result_of("b")).recommendation == "accept"


def test_an_excuse_is_believed_while_it_holds() -> None:
    """That of this evaluator, up to its last day; a day later the same result is not composed."""
    until = Excuse(id="known", evaluator="a", checks=("*",), reason="It is known.", expires="2030-06-01")
    result = result_of("a", check_of("a", status="failed", excuse="known"))
    assert composed(policy_of(config_of("a"), excuses=(until,), as_of="2030-06-01"), result).recommendation == "accept"
    for policy in (
        policy_of(config_of("a"), excuses=(until,), as_of="2030-06-02"),
        policy_of(config_of("a"), excuses=(replace(until, evaluator="b"),), as_of="2030-06-01"),
    ):
        assert failed(policy, result).code == "evaluator.unfounded-check"
    declared = result_of("a", check_of("a", status="failed", excuse=DECLARED))
    assert composed(policy_of(config_of("a")), declared).recommendation == "accept"
    flaky = result_of("a", check_of("a", status="failed", comparison="flaky"))
    assert composed(policy_of(config_of("a", repeats=1)), flaky).recommendation == "accept"


@pytest.mark.parametrize("outcome", ["unavailable", "timed-out", "cancelled"])
def test_a_required_evaluator_that_did_not_run(outcome: str) -> None:
    """It never gives an evaluation, it is named, and its own words are kept; an optional one is a limitation only."""
    failure = failed(policy_of(config_of("a")), result_of("a", outcome=outcome, detail="no tool x"))
    assert (failure.code, failure.required_unavailable) == ("evaluator.required-unavailable", True)
    assert failure.detail == "a DID NOT RUN: no tool x"
    made = composed(policy_of(config_of("a", required=False)), result_of("a", outcome=outcome))
    assert made.recommendation == "accept"
    (limitation,) = made.limitations
    assert (limitation.source, limitation.blocking) == ("evaluator.a", False)
    assert limitation.text == f"An optional check DID NOT RUN: {outcome}"


def test_an_evaluator_without_a_result() -> None:
    """A required one without a result is unavailable; an optional one is a limitation."""
    policy = policy_of(config_of("a"), config_of("b", required=False))
    assert failed(policy).detail == "a DID NOT RUN: it gave no result"
    made = composed(policy, result_of("a"))
    assert [limitation.source for limitation in made.limitations] == ["evaluator.b"]


def test_an_unavailable_check_of_a_required_evaluator() -> None:
    """A required check that did not run is not passed, even where its evaluator completed."""
    failure = failed(policy_of(config_of("a")), result_of("a", check_of("a", "a:t", "unavailable")))
    assert (failure.detail, failure.required_unavailable) == ("a:t DID NOT RUN", True)
    optional = check_of("a", "a:t", "unavailable", required=False)
    assert composed(policy_of(config_of("a", required=False)), result_of("a", optional)).recommendation == "accept"


def test_a_result_that_hides_a_failure_is_not_composed() -> None:
    """A failed required check without a class cannot be accepted: nothing is composed of it."""
    policy = policy_of(config_of("a"))
    failure = failed(policy, result_of("a", check_of("a", status="failed")))
    assert failure.code == "evaluator.unclassified-check"
    assert not failure.required_unavailable
    told = result_of("a", check_of("a", status="failed"), classes=("mechanical-failure",))
    assert composed(policy, told).recommendation == "retry-generation"


def test_a_very_long_name_is_cut_in_the_limitation() -> None:
    """The limitation of an evaluator with the longest name is still a document."""
    name = "a" * 200
    made = composed(policy_of(config_of(name, required=False)), result_of(name, outcome="unavailable"))
    assert made.limitations[0].source == ("evaluator." + name)[:200]


def test_a_blocking_limitation_needs_a_person() -> None:
    """Of a required evaluator it keeps from accepting; of an optional one it is told and blocks nothing."""
    blocking = limitation_of(blocking=True)
    made = composed(policy_of(config_of("a")), result_of("a", limitations=(blocking,)))
    assert (made.recommendation, made.limitations) == ("architect-review", (blocking,))
    red = composed(
        policy_of(config_of("a")),
        result_of("a", limitations=(blocking,), classes=("mechanical-failure",)),
    )
    assert red.recommendation == "retry-generation"
    made = composed(policy_of(config_of("a", required=False)), result_of("a", limitations=(blocking,)))
    assert (made.recommendation, made.limitations) == ("accept", (limitation_of(),))


@pytest.mark.parametrize(
    ("evidence", "result", "classes"),
    [
        (None, result_of("a", check_of("a")), ("proof-plan-structural",)),
        ("x", result_of("a", check_of("a")), ("proof-plan-structural",)),
        ("a", result_of("a", check_of("a")), ()),
        ("a", result_of("a", check_of("a"), check_of("a", "a:t", "skipped")), ()),
        ("a", result_of("a", check_of("a", status="skipped")), ("proof-undischarged",)),
        ("a", result_of("a"), ("proof-undischarged",)),
        (
            "a",
            result_of(
                "a",
                check_of("a", "a:t"),
                check_of("a", status="failed", base_status="failed", comparison="still-failing"),
            ),
            ("proof-undischarged",),
        ),
    ],
)
def test_proof_obligations(evidence: str | None, result: Result, classes: tuple[str, ...]) -> None:
    """An obligation is discharged by an evaluator that passed in full; a red check excused by the base is no proof."""
    policy = policy_of(config_of("a"))
    made = composed(policy, result, obligations={"the total is 0": evidence})
    assert made.failure_classes == classes
    assert made.recommendation == max(("accept", *map(floor_of, classes)), key=SEVERITY.__getitem__)
    assert composed(policy, result).recommendation == "accept"


def test_an_optional_evaluator_that_failed_proves_nothing() -> None:
    """What discharges an obligation may be optional; then its failure and its absence leave it undischarged."""
    policy = policy_of(config_of("a", required=False))
    red = result_of("a", check_of("a", status="failed", required=False), classes=("mechanical-failure",))
    for result in (red, result_of("a", outcome="unavailable")):
        assert composed(policy, result, obligations={"it": "a"}).recommendation == "retry-generation"


def test_findings_are_bounded_over_all_checks() -> None:
    """The policy's limits hold for the evaluation as a whole, and every check stays, with or without findings."""
    checks = [check_of("a", f"a:{n}", "failed", findings=(finding_of(f"a:{n}", excerpt="x" * 300),)) for n in range(4)]
    result = result_of("a", *checks, classes=("mechanical-failure",))
    made = composed(policy_of(config_of("a"), max_findings=2), result)
    assert [len(check.findings) for check in made.checks] == [1, 1, 0, 0]
    small = composed(policy_of(config_of("a"), max_finding_bytes=550), result)
    excerpts = [finding.excerpt for check in small.checks for finding in check.findings]
    assert excerpts == ["x" * 300, ""]
    none = composed(policy_of(config_of("a"), max_findings=0), result)
    assert [check.findings for check in none.checks] == [()] * 4


CLASSES = st.sampled_from([*FLOORS, "an-unmapped-class"])
RULES = st.dictionaries(CLASSES, st.sampled_from(["retry-generation", "replan", "architect-review", "abort"]))


@given(classes=st.lists(CLASSES, max_size=5), rules=RULES)
def test_the_most_severe_class_wins_and_a_policy_only_raises(classes: list[str], rules: dict[str, str]) -> None:
    """The recommendation is the greatest of floors and rules: never below what it is without the policy's rules."""
    result = result_of("a", check_of("a"), classes=tuple(classes))
    made = composed(policy_of(config_of("a"), rules=rules), result)
    words = ["accept", *map(floor_of, classes), *(rules[name] for name in classes if name in rules)]
    assert made.recommendation == max(words, key=SEVERITY.__getitem__)  # type: ignore[arg-type]
    plain = composed(policy_of(config_of("a")), result)
    assert SEVERITY[made.recommendation] >= SEVERITY[plain.recommendation]
    assert made.failure_classes == as_set(classes)


def test_a_flaky_check_takes_no_room_from_one_that_counts() -> None:
    """Where only one finding fits, it is that of the check that decides."""
    flaky = check_of("a", "a:1", "failed", comparison="flaky", findings=(finding_of("a:1"),))
    red = check_of("a", "a:2", "failed", findings=(finding_of("a:2"),))
    policy = policy_of(config_of("a", repeats=1), max_findings=1)
    made = composed(policy, result_of("a", flaky, red, classes=("mechanical-failure",)))
    assert [bool(check.findings) for check in made.checks] == [False, True]


STATUSES: st.SearchStrategy[CheckStatus] = st.sampled_from(["passed", "failed", "skipped", "unavailable"])
FLAKY = Case("failed", failures=1, runs=2)
NAMES = ["a", "a:1", "a:2"]
KNOWN = (Excuse(id="known", evaluator="a", checks=("*",), reason="It is known.", expires=None),)
SIDES = st.dictionaries(st.sampled_from(NAMES), STATUSES.map(Case) | st.just(FLAKY), min_size=1)
TERMS = st.builds(
    lambda rule, declared, must_fix, excused, overall, lists, own: Terms(
        rule=rule,
        declared=declared,
        must_fix=frozenset(must_fix),
        excuse=excused.get,
        overall="a" if overall else "",
        lists_failures=lists,
        own=own,
    ),
    st.sampled_from(["all-pass", "no-regression", "no-new", "must-fix"]),
    st.booleans(),
    st.lists(st.sampled_from(NAMES), max_size=2),
    st.dictionaries(st.sampled_from(NAMES), st.just("known")),
    st.booleans(),
    st.booleans(),
    SIDES | st.none(),
)


@given(base=SIDES | st.none(), candidate=SIDES, terms=TERMS, blocking=st.booleans())
def test_accept_is_never_below_the_floor(
    base: dict[str, Case] | None, candidate: dict[str, Case], terms: Terms, blocking: bool
) -> None:
    """What the stage makes of any comparison either does not count, or is not accepted; the machine agrees."""
    config = config_of("a", rule=terms.rule, repeats=1)
    compared = compare(base, candidate, terms)
    checks, classes = result_checks(config, compared)
    result = result_of("a", *checks, classes=classes, limitations=(limitation_of(blocking=blocking),))
    made = compose(ATTEMPT, CANDIDATE, policy_of(config, excuses=KNOWN), [result])
    counts = any(one.counts for one in compared)
    if any(one.status == "unavailable" and one.base_status in (None, "unavailable") for one in compared):
        assert isinstance(made, CompositionFailure)
        assert made.required_unavailable
    else:
        assert isinstance(made, Evaluation), made
        assert (made.recommendation == "accept") == (not counts and not blocking)
        assert made.recommendation != "accept" or check_floor(made) == ()


@given(base=SIDES | st.none(), candidate=SIDES, terms=TERMS)
def test_what_did_not_run_is_never_excused(
    base: dict[str, Case] | None, candidate: dict[str, Case], terms: Terms
) -> None:
    """An excuse is for a check that failed; one that did not run, or was skipped, did not fail."""
    assert all(one.status == "failed" for one in compare(base, candidate, terms) if one.excuse == "known")


CHECKS = st.builds(
    lambda name, status, base, comparison: check_of("a", name, status, base_status=base, comparison=comparison),
    st.sampled_from(["a", "a:1", "a:2"]),
    STATUSES,
    STATUSES | st.none(),
    st.sampled_from([None, "regressed", "fixed", "still-failing", "new", "removed", "flaky"]),
)


@given(checks=st.lists(CHECKS, max_size=3), classes=st.lists(CLASSES, max_size=2), outcome=st.booleans())
def test_no_result_whatever_is_accepted_below_the_floor(checks: list[Check], classes: list[str], outcome: bool) -> None:
    """Also a result that nobody could have made is never accepted against the machine's floor."""
    result = result_of(
        "a",
        *checks,
        classes=tuple(classes),
        outcome="completed" if outcome else "timed-out",
    )
    made = compose(ATTEMPT, CANDIDATE, policy_of(config_of("a")), [result])
    if isinstance(made, Evaluation) and made.recommendation == "accept":
        assert check_floor(made) == ()


OPTIONAL: EvaluatorConfig = config_of("o", required=False)


@given(
    status=STATUSES,
    outcome=st.sampled_from(["completed", "unavailable", "timed-out", "cancelled"]),
    classes=st.lists(CLASSES, max_size=3),
    blocking=st.booleans(),
)
def test_an_optional_evaluator_never_blocks(status: str, outcome: str, classes: list[str], blocking: bool) -> None:
    """Whatever an optional evaluator says, the recommendation is the one without it."""
    optional = result_of(
        "o",
        check_of("o", status=status, required=False),
        classes=tuple(classes),
        outcome=outcome,
        limitations=(limitation_of(blocking=blocking),),
    )
    policy = policy_of(built_in(), OPTIONAL)
    made = composed(policy, result_of("scope", check_of("scope")), optional)
    assert made.recommendation == "accept"
    assert check_floor(made) == ()
