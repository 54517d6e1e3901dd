"""The comparison of base and candidate, cell by cell."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.compare import Case, Compared, Terms, compare, repeated
from synthesis.documents import CheckStatus
from tests.evaluator.kit import finding_of

STATUSES: tuple[CheckStatus, ...] = get_args(CheckStatus)
NO, YES, STRICT, UNDECLARED = "no", "yes", "under all-pass", "unless declared"

TABLE: list[tuple[str | None, str | None, str | None, str]] = [
    ("passed", "passed", None, NO),
    ("passed", "failed", "regressed", YES),
    ("passed", "skipped", "regressed", YES),
    ("passed", "unavailable", "regressed", YES),
    ("passed", None, "removed", UNDECLARED),
    ("failed", "passed", "fixed", NO),
    ("failed", "failed", "still-failing", STRICT),
    ("failed", "skipped", None, NO),
    ("failed", "unavailable", None, YES),
    ("failed", None, "removed", NO),
    ("skipped", "passed", None, NO),
    ("skipped", "failed", None, YES),
    ("skipped", "skipped", None, NO),
    ("skipped", "unavailable", None, YES),
    ("skipped", None, "removed", NO),
    ("unavailable", "passed", None, NO),
    ("unavailable", "failed", None, YES),
    ("unavailable", "skipped", None, NO),
    ("unavailable", "unavailable", None, YES),
    ("unavailable", None, "removed", NO),
    (None, "passed", "new", NO),
    (None, "failed", "new", YES),
    (None, "skipped", "new", NO),
    (None, "unavailable", "new", YES),
]


def side(status: str | None) -> dict[str, Case]:
    return {} if status is None else {"a": Case(status)}  # type: ignore[arg-type]


def test_the_table_has_every_cell() -> None:
    """No combination of base and candidate is left out of the table."""
    cells = {(before, after) for before in (*STATUSES, None) for after in (*STATUSES, None)} - {(None, None)}
    assert {(before, after) for before, after, _, _ in TABLE} == cells


@pytest.mark.parametrize(("before", "after", "comparison", "counts"), TABLE)
@pytest.mark.parametrize("rule", ["all-pass", "no-regression"])
@pytest.mark.parametrize("declared", [False, True])
def test_each_cell(
    before: str | None, after: str | None, comparison: str | None, counts: str, rule: str, declared: bool
) -> None:
    """Each cell has its comparison, and counts under the rules that the table names."""
    (one,) = compare(side(before), side(after), Terms(rule=rule, declared=declared))  # type: ignore[arg-type]
    assert (one.check, one.base_status, one.comparison) == ("a", before, comparison)
    assert one.status == (after or "skipped")
    assert one.counts == {NO: False, YES: True, STRICT: rule == "all-pass", UNDECLARED: not declared}[counts]


@pytest.mark.parametrize(
    ("status", "counts"), [("passed", False), ("failed", True), ("skipped", False), ("unavailable", True)]
)
def test_without_a_base_nothing_is_compared(status: str, counts: bool) -> None:
    """Where the base was not measured, the candidate stands alone, under either rule."""
    for rule in ("all-pass", "no-regression"):
        (one,) = compare(None, side(status), Terms(rule=rule, declared=False))
        assert (one.base_status, one.comparison, one.counts) == (None, None, counts)


def test_the_findings_are_the_candidates() -> None:
    """A finding of the base is not told again; the candidate's is."""
    old, new = finding_of("a", message="old"), finding_of("a", message="new")
    (one,) = compare({"a": Case("failed", (old,))}, {"a": Case("failed", (new,))}, Terms(rule="all-pass"))
    assert one.findings == (new,)


SIDES = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(STATUSES).map(Case))


@given(base=SIDES | st.none(), candidate=SIDES, rule=st.sampled_from(["all-pass", "no-regression"]))
def test_every_check_once_sorted(base: dict[str, Case] | None, candidate: dict[str, Case], rule: str) -> None:
    """Every check of either side is told once, in order of its name."""
    told = [one.check for one in compare(base, candidate, Terms(rule=rule, declared=False))]  # type: ignore[arg-type]
    assert told == sorted({*candidate, *(base or {})})


@given(base=SIDES, candidate=SIDES, declared=st.booleans())
def test_all_pass_is_at_least_as_strict(base: dict[str, Case], candidate: dict[str, Case], declared: bool) -> None:
    """What counts under no-regression counts under all-pass too."""
    loose = compare(base, candidate, Terms(rule="no-regression", declared=declared))
    strict = compare(base, candidate, Terms(rule="all-pass", declared=declared))
    assert all(b.counts or not a.counts for a, b in zip(loose, strict, strict=True))


def one(base: dict[str, Case] | None, candidate: dict[str, Case], terms: Terms, check: str = "a") -> Compared:
    return next(item for item in compare(base, candidate, terms) if item.check == check)


FLAKY = Case("failed", (finding_of("a"),), failures=1, runs=3)


def test_a_flaky_check_decides_nothing_alone() -> None:
    """What passed and failed on the candidate is flaky and does not count; what always failed does."""
    for rule in ("all-pass", "no-regression", "no-new"):
        seen = one(side("passed"), {"a": FLAKY}, Terms(rule=rule))
        assert (seen.status, seen.comparison, seen.counts) == ("failed", "flaky", False)
        always = one(side("passed"), {"a": Case("failed", (), 3, 3)}, Terms(rule=rule))
        assert (always.comparison, always.counts) == ("regressed", True)


def test_a_check_that_was_flaky_on_the_base_and_always_fails_now_counts() -> None:
    """It passed at least once before and never does now."""
    seen = one({"a": FLAKY}, side("failed"), Terms(rule="no-regression"))
    assert (seen.base_status, seen.comparison, seen.counts) == ("passed", "regressed", True)


@pytest.mark.parametrize(
    ("base", "candidate", "counts"),
    [
        ("failed", "passed", False),
        ("failed", "failed", True),
        (None, "failed", True),
        ("failed", "skipped", True),
        ("failed", None, True),
    ],
)
def test_what_must_be_fixed_counts_until_it_passes(base: str | None, candidate: str | None, counts: bool) -> None:
    """A check that was red before and still is counts if it has to be fixed; so does one that is gone."""
    terms = Terms(rule="must-fix", must_fix=frozenset({"a"}))
    assert one(side(base), side(candidate), terms).counts is counts
    assert one(side("failed"), side("failed"), Terms(rule="must-fix", must_fix=frozenset({"b"}))).counts is False


def test_what_must_be_fixed_and_is_flaky_or_excused_counts() -> None:
    """Neither a pass by chance nor an excuse fixes it."""
    terms = Terms(rule="must-fix", must_fix=frozenset({"a"}), excuse=lambda _: "later")
    assert one(side("failed"), {"a": FLAKY}, terms).counts
    assert one(side("failed"), side("failed"), terms).counts


def test_an_excused_check_does_not_count_and_says_why() -> None:
    """The excuse is told beside the status; a check without one counts."""
    terms = Terms(rule="no-regression", excuse=lambda name: "slow-disk" if name == "a" else None)
    excused = one(side("passed"), side("failed"), terms)
    assert (excused.status, excused.comparison, excused.counts, excused.excuse) == (
        "failed",
        "regressed",
        False,
        "slow-disk",
    )
    assert one({"b": Case("passed")}, {"b": Case("failed")}, terms, "b").counts
    assert one(side("passed"), side("passed"), terms).excuse is None


def test_only_new_failures_count_under_no_new() -> None:
    """What the base has does not count, nor does what is gone; a failure of its own does."""
    terms = Terms(rule="no-new")
    assert not one(side("failed"), side("failed"), terms).counts
    assert not one(side("passed"), side(None), terms).counts
    assert one(side(None), side("failed"), terms).counts
    assert one(side("passed"), side("failed"), terms).counts


def test_where_only_failures_are_listed_one_that_is_gone_is_fixed() -> None:
    """A linter does not tell what passes."""
    terms = Terms(rule="no-new", lists_failures=True)
    seen = one(side("failed"), side(None), terms)
    assert (seen.status, seen.comparison, seen.counts) == ("passed", "fixed", False)
    assert one(side("failed"), side(None), Terms(rule="no-new")).comparison == "removed"


@pytest.mark.parametrize(
    ("cases", "base", "comparison", "excuse", "counts"),
    [
        ({"a": FLAKY}, {}, "flaky", None, False),
        ({"a": Case("failed")}, {}, "regressed", "known", False),
        ({"a": Case("failed")}, {"a": Case("failed")}, "regressed", None, True),
        ({"b": Case("failed")}, {}, "regressed", None, True),
        ({}, {}, "regressed", None, True),
    ],
)
def test_the_overall_check_is_what_its_cases_are(
    cases: dict[str, Case], base: dict[str, Case], comparison: str, excuse: str | None, counts: bool
) -> None:
    """A command that fails because of cases that do not count does not count; with no case to explain it, it does."""
    excuses = {} if base else {"a": "known"}
    terms = Terms(rule="no-regression", excuse=excuses.get, overall="pytest")
    seen = one({"pytest": Case("passed"), **base}, {"pytest": Case("failed"), **cases}, terms, "pytest")
    assert (seen.comparison, seen.excuse, seen.counts) == (comparison, excuse, counts)


def told(status: str, message: str = "exit status 1") -> Case:
    return Case(status, (finding_of("lint", message=message),) if status == "failed" else ())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("base", "candidate", "counts"),
    [
        ({"lint": told("failed"), "a": told("failed")}, {"lint": told("failed"), "a": told("failed")}, False),
        ({"lint": told("failed"), "a": told("failed")}, {"lint": told("failed")}, True),
        ({"lint": told("failed"), "a": told("failed")}, {"lint": told("passed")}, False),
        ({"lint": told("failed")}, {"lint": told("failed")}, False),
        (
            {"lint": told("failed"), "a": told("failed")},
            {"lint": told("failed", "exit status 2"), "a": told("failed")},
            True,
        ),
    ],
)
def test_a_command_that_broke_is_not_what_it_was(
    base: dict[str, Case], candidate: dict[str, Case], counts: bool
) -> None:
    """One that fails without a case to show for it, or a linter that fails otherwise, does not fail as on the base."""
    terms = Terms(rule="no-new", overall="lint", lists_failures=True)
    assert one(base, candidate, terms, "lint").counts is counts
    plain = one(base, candidate, Terms(rule="no-regression", overall="lint"), "lint")
    assert plain.counts is (counts and "a" not in candidate)
    excused = Terms(rule="no-new", overall="lint", lists_failures=True, excuse={"lint": "known"}.get)
    assert one(base, candidate, excused, "lint").excuse == ("known" if counts else None)


def test_where_a_linter_did_not_run_nothing_is_fixed() -> None:
    """What it would have told is not known."""
    terms = Terms(rule="no-new", overall="lint", lists_failures=True)
    base = {"lint": Case("failed"), "a": Case("failed")}
    assert one(base, {"lint": Case("unavailable")}, terms).comparison == "removed"
    assert one(base, {"lint": Case("passed")}, terms).comparison == "fixed"


def test_a_finding_that_must_be_fixed_is_so_when_it_is_gone() -> None:
    """A linter does not tell what passes, so the name of a finding is enough."""
    terms = Terms(rule="must-fix", must_fix=frozenset({"a"}), overall="lint", lists_failures=True)
    assert not one({"a": Case("failed"), "lint": Case("failed")}, {"lint": Case("passed")}, terms).counts
    assert one({"a": Case("failed"), "lint": Case("failed")}, {"lint": Case("unavailable")}, terms).counts


def test_only_a_check_that_failed_is_excused() -> None:
    """One that did not run, or was skipped, did not fail."""
    terms = Terms(rule="no-regression", excuse=lambda _: "known")
    for status in ("unavailable", "skipped"):
        seen = one(side("passed"), side(status), terms)
        assert (seen.counts, seen.excuse) == (True, None)
    assert one(side("passed"), side("failed"), terms).excuse == "known"


def test_what_another_run_could_change() -> None:
    """A check that failed each time so far may be flaky; one that passed, or is known to be flaky, needs no more."""
    doubtful = (Case("failed"), Case("failed", (), 2, 2), Case("passed"), Case("unavailable"), FLAKY)
    assert [case.is_doubtful for case in doubtful] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("shown", "base_status"),
    [({"a": Case("failed")}, "failed"), ({"a": Case("passed")}, "passed"), ({}, "unavailable")],
)
def test_a_new_check_shows_what_it_is_on_the_base(shown: dict[str, Case], base_status: str) -> None:
    """Measured there with the candidate's new tests; one that is not there then could not run there."""
    for status in ("passed", "failed"):
        seen = one({}, side(status), Terms(rule="no-regression", on_base=shown))
        assert (seen.comparison, seen.base_status, seen.counts) == ("new", base_status, status == "failed")


def test_runs_of_one_tree_are_put_together() -> None:
    """A check that ended in two ways is flaky and says how often; one that did not is what it was."""
    first = {"a": Case("failed", (finding_of("a"),)), "b": Case("failed"), "c": Case("passed"), "d": Case("skipped")}
    again = {"a": Case("passed"), "b": Case("failed"), "c": Case("failed"), "d": Case("passed")}
    merged = repeated(repeated(first, again), again)
    assert (merged["a"].failures, merged["a"].runs, merged["a"].is_flaky) == (1, 3, True)
    assert merged["a"].findings[0].message == "flaky: failed 1 of 3 times on the same tree"
    assert merged["a"].findings[1:] == (finding_of("a"),)
    assert (merged["b"].status, merged["b"].is_flaky) == ("failed", False)
    assert merged["c"].is_flaky
    assert merged["d"] == Case("skipped")
    assert repeated(first, {})["a"] == first["a"]
