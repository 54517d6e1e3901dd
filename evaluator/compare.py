"""Base and candidate, check by check. Pure.

====================  =====================  ===============  ==========================================
base                  candidate              comparison       counts against the candidate
====================  =====================  ===============  ==========================================
passed                failed, skipped,       regressed        always
                      unavailable
passed                not there              removed          unless the plan declares gate changes
anything else         not there              removed          no
failed                failed                 still-failing    only under ``all-pass``
failed                passed                 fixed            no
not there             anything               new              failed and unavailable do
anything else         as if it stood alone   none             failed and unavailable do
====================  =====================  ===============  ==========================================

A check that is not there on the candidate is told as ``skipped``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from evaluator.documents import EvaluatorConfig, Rule
from evaluator.findings import bound, size_of
from savant.contracts.scalars import as_set
from synthesis.documents import Check, CheckStatus, Comparison, Finding

MAX_FINDINGS: Final = 200
MAX_FINDING_BYTES: Final = 512 * 1024


class Case(msgspec.Struct, frozen=True):
    """One measured check: how it ended and what was seen."""

    status: CheckStatus
    findings: tuple[Finding, ...] = ()


class Compared(msgspec.Struct, frozen=True):
    """One check after the comparison; ``counts`` says whether it counts against the candidate."""

    check: str
    status: CheckStatus
    base_status: CheckStatus | None
    comparison: Comparison | None
    findings: tuple[Finding, ...]
    counts: bool


def compare(
    base: Mapping[str, Case] | None, candidate: Mapping[str, Case], rule: Rule, *, declares_gate_changes: bool
) -> tuple[Compared, ...]:
    """Every check of either side, sorted by name.

    :param base: None when the base was not measured; then nothing is compared.
    """
    names: list[str] = sorted({*candidate, *(base or {})})
    return tuple(
        _one(
            name,
            None if base is None else base.get(name),
            candidate.get(name),
            rule,
            base is not None,
            declares_gate_changes,
        )
        for name in names
    )


def _one(name: str, before: Case | None, after: Case | None, rule: Rule, measured: bool, declared: bool) -> Compared:
    base_status = None if before is None else before.status
    if after is None:
        removed = base_status == "passed"
        return Compared(name, "skipped", base_status, "removed", (), removed and not declared)
    comparison = _comparison(base_status, after.status) if measured else None
    bad = after.status in ("failed", "unavailable")
    excused = comparison == "still-failing" and rule == "no-regression"
    counts = comparison == "regressed" or (bad and not excused)
    return Compared(name, after.status, base_status, comparison, after.findings, counts)


def _comparison(before: CheckStatus | None, after: CheckStatus) -> Comparison | None:
    if before is None:
        return "new"
    if before == "passed":
        return None if after == "passed" else "regressed"
    if before == "failed":
        return {"passed": "fixed", "failed": "still-failing"}.get(after)  # type: ignore[return-value]
    return None


def result_checks(config: EvaluatorConfig, compared: tuple[Compared, ...]) -> tuple[tuple[Check, ...], tuple[str, ...]]:
    """The checks of a result, and the failure classes that they raise, as a set value.

    Only what counts against the candidate keeps its findings, and of these no more than a result may hold.
    """
    checks: list[Check] = []
    count, size = MAX_FINDINGS, MAX_FINDING_BYTES
    for item in compared:
        findings = bound(item.findings if item.counts else (), max_findings=count, max_bytes=size)
        count, size = count - len(findings), size - sum(map(size_of, findings))
        checks.append(
            Check(
                evaluator=config.id,
                check=item.check,
                status=item.status,
                base_status=item.base_status,
                comparison=item.comparison,
                excuse=None,
                required=config.required,
                findings=findings,
            )
        )
    lost = {item.comparison in ("regressed", "removed") for item in compared if item.counts}
    return tuple(checks), as_set("regression" if is_loss else config.failure_class for is_loss in lost)
