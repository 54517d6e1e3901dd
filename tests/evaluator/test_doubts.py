"""What is doubtful about the checks of one evaluator, in words, and only so many of them."""

from __future__ import annotations

import pytest

from evaluator.compare import DECLARED, Compared
from evaluator.documents import Excuse
from evaluator.doubts import MAX_DOUBTS, doubts, must_fix_names
from evaluator.findings import check_name
from tests.evaluator.kit import config_of, policy_of


def seen(check: str, **members: object) -> Compared:
    plain: dict[str, object] = {
        "status": "failed",
        "base_status": "passed",
        "comparison": "regressed",
        "findings": (),
        "counts": False,
    }
    return Compared(check, **{**plain, **members})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (seen("unit:a", comparison="flaky"), "unit:a is flaky"),
        (seen("unit:a", excuse="slow-disk"), "is excused by slow-disk"),
        (seen("unit:a", excuse=DECLARED), "fails under the base's tests"),
        (seen("unit:fix", status="passed"), "was not seen to fail on the base"),
        (seen("unit:fix", status="passed", base_status=None), "was not seen to fail on the base"),
        (seen("unit:fix", comparison="flaky"), "had to be fixed and is flaky"),
        (seen("unit:fix", status="passed", base_status="failed", comparison="fixed"), ""),
        (seen("unit:a", counts=True), ""),
        (seen("unit", comparison="flaky"), ""),
    ],
)
def test_each_doubt_is_told(item: Compared, words: str) -> None:
    """What counts, what is fixed, and what the cases of a command say themselves, is no doubt."""
    config = config_of("unit", rule="must-fix", must_fix=("fix",))
    told = list(doubts(config, policy_of(), [item]))
    assert [words in limitation.text for limitation in told] == [True] * bool(words)
    assert all((limitation.source, limitation.blocking) == ("evaluator.unit", False) for limitation in told)


def test_a_command_that_has_only_its_exit_status_says_it_itself() -> None:
    """Nothing else would."""
    config = config_of("unit", result_format="exit-status", report_path=None)
    (limitation,) = doubts(config, policy_of(), [seen("unit", comparison="flaky")])
    assert limitation.text.startswith("unit is flaky")


def test_only_so_many_checks_are_told_one_by_one() -> None:
    """The rest is a number; at the limit there is none."""
    items = [seen(f"unit:{n}", excuse="old") for n in range(MAX_DOUBTS + 2)]
    told = list(doubts(config_of("unit"), policy_of(), items))
    assert len(told) == MAX_DOUBTS + 1
    assert told[-1].text == "The same is to be said of 2 more checks of unit."
    assert len(list(doubts(config_of("unit"), policy_of(), items[:MAX_DOUBTS]))) == MAX_DOUBTS


def test_runs_that_gave_nothing_are_told() -> None:
    """How many, and why the first of them did."""
    (limitation,) = doubts(config_of("unit"), policy_of(), [], ("it was ended by signal 9", "it ran no test"))
    assert limitation.text == "unit gave nothing in 2 of 3 runs on the candidate: it was ended by signal 9"


def test_an_excuse_that_has_ended_is_told() -> None:
    """With its day and its reason; one of another evaluator is not told here."""
    excuse = Excuse(id="old", evaluator="unit", checks=("*",), reason="Soon.", expires="2030-01-01")
    policy = policy_of(excuses=(excuse,), as_of="2030-01-02")
    (limitation,) = doubts(config_of("unit"), policy, [])
    assert limitation.text == "The excuse old ended on 2030-01-01: Soon."
    assert list(doubts(config_of("lint"), policy, [])) == []


def test_the_names_of_what_must_be_fixed() -> None:
    """With or without the evaluator's own; its own is its overall check."""
    config = config_of("unit", must_fix=("a", "unit", "unit:b"))
    assert must_fix_names(config) == {check_name("unit", "a"), "unit", "unit:b"}
