"""The table of dispositions: complete, and every receipt that breaks a row is told so."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec import structs

from runner.dispositions import MEANINGS, MEMBERS, TABLE, check_receipt, table_markdown
from runner.documents import Disposition, Receipt
from savant.contracts.digest import digest

PRESENT = {
    "workspace_backend": "memory",
    "quiescent": True,
    "cleanup_succeeded": True,
    "failure_code": "some.code",
    "failure_detail": "why",
}


def receipt(disposition: Disposition) -> Receipt:
    """A receipt that has exactly what its row demands."""
    row = TABLE[disposition]
    members: dict[str, object] = {}
    for member in MEMBERS:
        absent = "" if member.startswith("failure") else None
        members[member] = PRESENT.get(member, digest(member.encode())) if row[member] == "present" else absent
    return Receipt(request_digest=digest(b""), disposition=disposition, limitations=(), **members)  # type: ignore[arg-type]


def test_every_disposition_has_a_row_a_meaning_and_every_member() -> None:
    """The tables cover the vocabulary and the receipt's evidence, nothing missing and nothing invented."""
    assert set(TABLE) == set(MEANINGS) == set(get_args(Disposition))
    assert all(tuple(row) == MEMBERS for row in TABLE.values())
    assert set(MEMBERS) | {"request_digest", "disposition", "limitations"} == set(Receipt.__struct_fields__)


@pytest.mark.parametrize("disposition", get_args(Disposition))
def test_a_receipt_that_breaks_its_row_is_told_which_member(disposition: Disposition) -> None:
    """Taking a demanded member away, or adding a forbidden one, is a problem that names it; the row itself is none."""
    good = receipt(disposition)
    assert check_receipt(good) == []
    for member, expected in TABLE[disposition].items():
        filled = PRESENT.get(member, digest(b"x"))
        empty = "" if member.startswith("failure") else None
        wrong = structs.replace(good, **{member: empty if expected == "present" else filled})
        problems = [problem for problem in check_receipt(wrong) if problem.startswith(member)]
        assert bool(problems) is (expected != "either"), member


def test_a_false_flag_is_there() -> None:
    """``false`` is evidence: cleanup that failed and a provider that is not proven to have ended are not absent."""
    failed = structs.replace(receipt("workspace-freeze-failure"), quiescent=False, cleanup_succeeded=False)
    assert check_receipt(failed) == []


def test_no_change_is_computed_while_the_provider_may_run() -> None:
    """Three digests of a candidate that could still be changing are refused."""
    wrong = structs.replace(receipt("verified"), quiescent=False)
    assert check_receipt(wrong) == ["change_digest was computed while the provider was not proven to have ended."]


def test_the_table_is_written_out_whole() -> None:
    """The Markdown table has a line for each disposition and a column for each member."""
    lines = table_markdown().splitlines()
    assert len(lines) == 2 + len(TABLE)
    assert {line.count("|") for line in lines} == {len(MEMBERS) + 2}
    assert lines[-1].startswith("| `verified` | yes |")
