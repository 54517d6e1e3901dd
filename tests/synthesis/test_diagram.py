"""The drawings show every arrow of the table and nothing else."""

from __future__ import annotations

from synthesis.diagram import markdown_table, mermaid, refusal_table
from synthesis.table import REFUSALS, TABLE


def test_the_diagram_has_an_edge_for_every_arrow_that_is_not_everywhere() -> None:
    """Each own arrow is drawn with its word, and a consuming one with its other end."""
    lines = mermaid().splitlines()
    assert lines[:2] == ["stateDiagram-v2", "    [*] --> created"]
    assert "    planned --> attempting: StartAttempt" in lines
    assert "    created --> created: RecordCall interpretation" in lines
    assert "    evaluating --> retry: RecordEvaluation retry-generation" in lines
    assert "    evaluating --> failed: RecordEvaluation retry-generation, no retry left" in lines
    assert "    attempting --> failed: RecordAttempt timed-out, not retryable or no retry left" in lines
    assert not any("TripBreaker" in line and "-->" in line for line in lines)
    assert {"    succeeded --> [*]", "    failed --> [*]"} <= set(lines)


def test_the_table_has_a_line_for_every_arrow() -> None:
    """As many lines as arrows, a head of two, and one line for each phase that accepts nothing."""
    arrows = sum(len(words) for row in TABLE.values() for words in row.values())
    empty = sum(not row for row in TABLE.values())
    lines = markdown_table().splitlines()
    assert len(lines) == 2 + arrows + empty
    assert "| `succeeded` | none | | | | |" in lines
    assert (
        "| `reviewing` | RecordPlanReview | `revise` | `replan`, one replan consumed; `failed` when no replan left |"
        " `plan-not-converged` when failed | `plan-reviewed` |"
    ) in lines


def test_the_refusals_are_listed_with_their_sentences() -> None:
    """Every code is in the table once."""
    lines = refusal_table().splitlines()
    assert lines[2:] == [f"| `{code}` | {meaning} |" for code, meaning in REFUSALS.items()]
