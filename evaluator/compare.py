"""Base and candidate, check by check. Pure.

====================  =====================  ===============  ==========================================
base                  candidate              comparison       counts against the candidate
====================  =====================  ===============  ==========================================
passed                failed, skipped,       regressed        always
                      unavailable
passed                not there              removed          unless the plan declares gate changes
failed                failed                 still-failing    only under ``all-pass``
failed                passed                 fixed            no
not there             failed                 new              always
not there             passed                 new              no
anything else         the same as alone      none             failed and unavailable do
====================  =====================  ===============  ==========================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evaluator.documents import Rule
from synthesis.documents import CheckStatus, Comparison, Finding


@dataclass(frozen=True, slots=True)
class Case:
    """One measured check: how it ended and what was seen."""

    status: CheckStatus
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Compared:
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
    names = sorted({*candidate, *(base or {})})
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
