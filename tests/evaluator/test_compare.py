"""The comparison of base and candidate, cell by cell."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.compare import Case, compare
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
    (one,) = compare(side(before), side(after), rule, declares_gate_changes=declared)  # type: ignore[arg-type]
    assert (one.check, one.base_status, one.comparison) == ("a", before, comparison)
    assert one.status == (after or "skipped")
    assert one.counts == {NO: False, YES: True, STRICT: rule == "all-pass", UNDECLARED: not declared}[counts]


@pytest.mark.parametrize(
    ("status", "counts"), [("passed", False), ("failed", True), ("skipped", False), ("unavailable", True)]
)
def test_without_a_base_nothing_is_compared(status: str, counts: bool) -> None:
    """Where the base was not measured, the candidate stands alone, under either rule."""
    for rule in ("all-pass", "no-regression"):
        (one,) = compare(None, side(status), rule, declares_gate_changes=False)  # type: ignore[arg-type]
        assert (one.base_status, one.comparison, one.counts) == (None, None, counts)


def test_the_findings_are_the_candidates() -> None:
    """A finding of the base is not told again; the candidate's is."""
    old, new = finding_of("a", message="old"), finding_of("a", message="new")
    (one,) = compare(
        {"a": Case("failed", (old,))}, {"a": Case("failed", (new,))}, "all-pass", declares_gate_changes=False
    )
    assert one.findings == (new,)


SIDES = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(STATUSES).map(Case))


@given(base=SIDES | st.none(), candidate=SIDES, rule=st.sampled_from(["all-pass", "no-regression"]))
def test_every_check_once_sorted(base: dict[str, Case] | None, candidate: dict[str, Case], rule: str) -> None:
    """Every check of either side is told once, in order of its name."""
    told = [one.check for one in compare(base, candidate, rule, declares_gate_changes=False)]  # type: ignore[arg-type]
    assert told == sorted({*candidate, *(base or {})})


@given(base=SIDES, candidate=SIDES, declared=st.booleans())
def test_all_pass_is_at_least_as_strict(base: dict[str, Case], candidate: dict[str, Case], declared: bool) -> None:
    """What counts under no-regression counts under all-pass too."""
    loose = compare(base, candidate, "no-regression", declares_gate_changes=declared)
    strict = compare(base, candidate, "all-pass", declares_gate_changes=declared)
    assert all(b.counts or not a.counts for a, b in zip(loose, strict, strict=True))
