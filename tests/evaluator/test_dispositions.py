"""The evidence table of the evaluation receipt."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from evaluator.dispositions import DISPOSITIONS, check_receipt, table_markdown
from evaluator.documents import Disposition, Receipt, ResultBinding
from tests.evaluator.kit import NONE

BINDING = ResultBinding(evaluator="a", descriptor_digest=NONE, input_digest=NONE, result_digest=NONE)


def receipt_of(
    disposition: str, *, candidate: bool, verified: bool, results: bool, evaluation: bool, cleanup: bool, code: bool
) -> Receipt:
    return Receipt(
        session_digest=NONE,
        attempt_digest=NONE,
        runner_receipt_digest=NONE,
        policy_digest=NONE,
        candidate_digest=NONE if candidate else None,
        candidate_verified=verified,
        results=(BINDING,) if results else (),
        evaluation_digest=NONE if evaluation else None,
        disposition=disposition,  # type: ignore[arg-type]
        failure_code="a.b" if code else "",
        failure_detail="",
        cleanup_succeeded=True if cleanup else None,
    )


def test_every_disposition_has_a_row() -> None:
    """The table has a row for each disposition and no other."""
    assert set(DISPOSITIONS) == set(get_args(Disposition))


@pytest.mark.parametrize("disposition", get_args(Disposition))
def test_exactly_what_the_table_says(disposition: Disposition) -> None:
    """Of all combinations of evidence, exactly those of the row have no problem, and each problem names its member."""
    row = DISPOSITIONS[disposition]
    members = ("candidate", "results", "evaluation", "cleanup")
    fits = 0
    for candidate, verified, results, evaluation, cleanup, code in product([False, True], repeat=6):
        held = {"candidate": candidate, "results": results, "evaluation": evaluation, "cleanup": cleanup}
        receipt = receipt_of(disposition, verified=verified, code=code, **held)
        wrong = {m for m in members if getattr(row, m) not in ("either", "present" if held[m] else "absent")}
        wrong |= {"verified"} if verified != row.verified else set()
        wrong |= {"failure_code"} if code is (disposition == "evaluated") else set()
        problems = check_receipt(receipt)
        assert len(problems) == len(wrong)
        assert all(any(name in problem for problem in problems) for name in wrong)
        fits += not problems
    assert fits >= 1


def test_the_printed_table_is_the_table() -> None:
    """Every row is in the page, in order."""
    lines = table_markdown().splitlines()
    assert [line.split("`")[1] for line in lines[2:]] == list(DISPOSITIONS)
    assert all(line.count("|") == 7 for line in lines)


def test_the_contract_page_holds_the_table() -> None:
    """The page about evaluation shows the table that is in force."""
    page = Path(__file__).parents[2] / "docs" / "contracts" / "evaluator.md"
    assert table_markdown() in page.read_text(encoding="utf-8")
