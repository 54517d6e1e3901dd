"""Reports of audits against their task: what answers it, and what only looks like an answer."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from providerport.documents import AuditFinding, AuditReport, AuditVerdict
from providerport.outcome import check_result, result_of
from savant.contracts.digest import digest
from savant.contracts.document import seal
from synthesis.documents import Severity


def finding(id_: str) -> AuditFinding:
    return AuditFinding(id=id_, severity="major", text="It is wrong.", citations=())


def verdict(id_: str, word: Any = "confirmed", severity: Severity | None = None) -> AuditVerdict:
    return AuditVerdict(finding=id_, verdict=word, severity=severity, text="")


def problem(world: Any, report: AuditReport, *, audited: AuditReport | None = None) -> str | None:
    """What is wrong with a report as the answer to a task."""
    call = world.request("evaluation-observation", task=structs.replace(world.task, audited=audited))
    return check_result(call, result_of(call, "completed", payload=report))


def test_a_report_answers_the_task_that_it_is_about(world: Any) -> None:
    """Findings of any number, and verdicts about findings of the task; a word is not lost by being examined."""
    first = structs.replace(world.audit, findings=(finding("a"), finding("b")))
    assert problem(world, first) is None
    second = structs.replace(world.audit, verdicts=(verdict("a"), verdict("b", "adjusted", "minor")))
    assert problem(world, second, audited=first) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"candidate_digest": digest(b"another")}, "another candidate"),
        ({"findings": (finding("a"), finding("a"))}, "two things"),
        ({"verdicts": (verdict("a"), verdict("a", "refuted"))}, "two things"),
        ({"verdicts": (verdict("c"),)}, "nobody made"),
        ({"verdicts": (verdict("a", "adjusted"),)}, "severity belongs"),
        ({"verdicts": (verdict("a", "confirmed", "minor"),)}, "severity belongs"),
    ],
)
def test_a_report_that_does_not_fit_its_task_is_no_answer(world: Any, changes: dict[str, Any], said: str) -> None:
    """The sentence says why."""
    first = structs.replace(world.audit, findings=(finding("a"),))
    assert said in (problem(world, structs.replace(world.audit, **changes), audited=first) or "")


def test_verdicts_without_findings_to_examine_are_refused(world: Any) -> None:
    """The first auditor has nothing to give a verdict about."""
    assert "nobody made" in (problem(world, structs.replace(world.audit, verdicts=(verdict("a"),))) or "")


def test_a_request_without_a_task_is_answered_by_no_report(world: Any) -> None:
    """A forged request is met again where its answer is read."""
    call = world.request("evaluation-observation")
    bare = seal(structs.replace(call.document, audit=None))
    assert "no task" in (check_result(bare, result_of(bare, "completed", payload=world.audit)) or "")
