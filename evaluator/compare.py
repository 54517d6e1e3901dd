"""Base and candidate, check by check. Pure.

====================  =====================  ===============  ==========================================
base                  candidate              comparison       counts against the candidate
====================  =====================  ===============  ==========================================
anything              flaky                  flaky            only a check that must be fixed does
passed, flaky         failed, skipped,       regressed        always
                      unavailable
passed, flaky         not there              removed          under ``no-new`` never; else unless the
                                                              plan declares gate changes
anything else         not there              removed          no
failed                failed                 still-failing    under ``all-pass``, and where it must be
                                                              fixed
failed                passed                 fixed            no
not there             anything               new              failed and unavailable do
anything else         as if it stood alone   none             failed and unavailable do
====================  =====================  ===============  ==========================================

A check that is not there on the candidate is told as ``skipped``. What an excuse names does not count. One that must be
fixed counts unless it passes, whatever it was on the base. A command's own overall check, when cases of it failed, says
what they say: it counts when one of them does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from evaluator.documents import EvaluatorConfig, Rule
from evaluator.findings import bound, size_of
from savant.contracts.scalars import as_set
from synthesis.documents import Check, CheckStatus, Comparison, Finding

MAX_FINDINGS: Final = 200
DECLARED: Final = "declared-change"
"""The excuse of a check that fails only under the base's tests, where the plan declares that it changes them."""
_BAD: Final = frozenset({"failed", "unavailable"})


class Case(msgspec.Struct, frozen=True):
    """One measured check: how it ended and what was seen.

    ``failures`` of ``runs`` on the same tree failed; where some did and some did not the check is flaky.
    """

    status: CheckStatus
    findings: tuple[Finding, ...] = ()
    failures: int = 0
    runs: int = 1

    @property
    def is_flaky(self) -> bool:
        """Whether it passed and failed on the same tree."""
        return 0 < self.failures < self.runs

    @property
    def is_doubtful(self) -> bool:
        """Whether it failed each time so far, so that another run could show that it is flaky."""
        return self.status == "failed" and not self.is_flaky


class Compared(msgspec.Struct, frozen=True):
    """One check after the comparison; ``counts`` says whether it counts against the candidate."""

    check: str
    status: CheckStatus
    base_status: CheckStatus | None
    comparison: Comparison | None
    findings: tuple[Finding, ...]
    counts: bool
    excuse: str | None = None


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparison goes by.

    :param declared: whether the plan declares changes of tests or of the configuration of checks.
    :param must_fix: the names of checks that have to pass.
    :param excuse: the name of the excuse of a check, None where it has none.
    :param overall: the name of a command's own check over all its cases; empty for none.
    :param own: what the candidate gives under its own tests, where the plan declares that it changes them; what passes
        there, or is not there, does not count.
    :param on_base: what the base gives with the candidate's new tests laid over it: the base status of a new check.
    :param lists_failures: whether only what failed is told, as linters do, so that what is not told passed.
    """

    rule: Rule
    declared: bool = False
    must_fix: frozenset[str] = frozenset()
    excuse: Callable[[str], str | None] = lambda _: None
    overall: str = ""
    lists_failures: bool = False
    own: Mapping[str, Case] | None = None
    on_base: Mapping[str, Case] | None = None


def compare(base: Mapping[str, Case] | None, candidate: Mapping[str, Case], terms: Terms) -> tuple[Compared, ...]:
    """Every check of either side, and every check that must be fixed, sorted by name.

    :param base: None when the base was not measured; then nothing is compared.
    """
    own = candidate.get(terms.overall)
    has_looked = terms.lists_failures and (own is None or own.status != "unavailable")
    before = base or {}
    names: list[str] = sorted({*candidate, *before, *terms.must_fix})
    compared = [
        _one(
            name,
            before.get(name),
            candidate.get(name, Case("passed") if has_looked else None),
            terms,
            base is not None,
        )
        for name in names
    ]
    return tuple(_overall(item, compared, before, terms) if item.check == terms.overall else item for item in compared)


def _one(name: str, before: Case | None, after: Case | None, terms: Terms, measured: bool) -> Compared:
    base_status = None if before is None else "passed" if before.is_flaky else before.status
    must_fix = name in terms.must_fix
    if after is None and must_fix:
        words = "It must pass, and it is not there."
        finding = Finding(check=name, status="failed", path=None, line=None, message=words, excerpt="")
        return Compared(name, "failed", base_status, "removed" if measured and before else None, (finding,), True)
    if after is None:
        is_lost = base_status == "passed" and terms.rule != "no-new"
        return Compared(name, "skipped", base_status, "removed", (), is_lost and not terms.declared)
    if after.is_flaky:
        return Compared(name, "failed", base_status, "flaky", after.findings, must_fix)
    comparison = _comparison(base_status, after.status) if measured else None
    if comparison == "new" and terms.on_base is not None:
        shown = terms.on_base.get(name)
        base_status = "unavailable" if shown is None else shown.status
    is_known = comparison == "still-failing" and terms.rule != "all-pass"
    counts = comparison == "regressed" or (after.status in _BAD and not is_known)
    if must_fix:
        return Compared(name, after.status, base_status, comparison, after.findings, after.status != "passed")
    excuse = terms.excuse(name) if counts and after.status == "failed" else None
    excuse = excuse or (_declared(name, terms) if counts else None)
    return Compared(name, after.status, base_status, comparison, after.findings, counts and excuse is None, excuse)


def _declared(name: str, terms: Terms) -> str | None:
    """The excuse of a check that fails only under tests that the plan declares to change."""
    if terms.own is None:
        return None
    own = terms.own.get(name)
    return DECLARED if own is None or own.status not in _BAD else None


def _comparison(before: CheckStatus | None, after: CheckStatus) -> Comparison | None:
    if before is None:
        return "new"
    if before == "passed":
        return None if after == "passed" else "regressed"
    if before == "failed":
        return {"passed": "fixed", "failed": "still-failing"}.get(after)  # type: ignore[return-value]
    return None


def _overall(overall: Compared, compared: Iterable[Compared], base: Mapping[str, Case], terms: Terms) -> Compared:
    """A command's own check: where cases of it failed it is what they are, and counts if one of them does.

    One that fails with no case to show for it, where it had some before, fails for another reason than on the base; so
    does a linter that fails in another way than there. That it was red before excuses nothing then.
    """
    if overall.status != "failed" or overall.check in terms.must_fix:
        return overall
    failed = [item for item in compared if item.check != overall.check and item.status in _BAD]
    if overall.comparison == "still-failing":
        had = any(case.status == "failed" for name, case in base.items() if name != overall.check)
        is_other = terms.lists_failures and _said(overall.findings) != _said(base[overall.check].findings)
        if (had and not failed) or is_other:
            excuse = terms.excuse(overall.check)
            return replace(overall, comparison=None, counts=excuse is None, excuse=excuse)
    if not failed or any(item.counts for item in failed):
        return overall
    if any(item.comparison == "flaky" for item in failed):
        return replace(overall, comparison="flaky", counts=False)
    excuses = sorted(item.excuse for item in failed if item.excuse is not None)
    return replace(overall, counts=False, excuse=excuses[0]) if excuses else overall


def _said(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(finding.message for finding in findings)


def repeated(first: Mapping[str, Case], again: Mapping[str, Case]) -> dict[str, Case]:
    """The cases of one tree after another run of the same command: what ended in two ways is flaky."""
    merged: dict[str, Case] = {}
    for name, case in first.items():
        other = again.get(name)
        if other is None or not {case.status, other.status} <= {"passed", "failed"}:
            merged[name] = case
            continue
        failures = (case.failures or int(case.status == "failed")) + int(other.status == "failed")
        runs = case.runs + 1
        findings = case.findings or other.findings
        if 0 < failures < runs:
            note = f"flaky: failed {failures} of {runs} times on the same tree"
            plain = [item for item in findings if not item.message.startswith("flaky: ")]
            mark = Finding(check=name, status="failed", path=None, line=None, message=note, excerpt="")
            findings = (mark, *plain)
        merged[name] = Case("failed" if failures else "passed", findings, failures, runs)
    return merged


def result_checks(config: EvaluatorConfig, compared: tuple[Compared, ...]) -> tuple[tuple[Check, ...], tuple[str, ...]]:
    """The checks of a result, and the failure classes that they raise, as a set value.

    Only what counts against the candidate, or is flaky, keeps its findings, and of these no more than the evaluator's
    ``max_bundle_bytes``.
    """
    checks: list[Check] = []
    count, size = MAX_FINDINGS, config.max_bundle_bytes
    for item in compared:
        is_told = item.counts or item.comparison == "flaky"
        findings = bound(item.findings if is_told else (), max_findings=count, max_bytes=size)
        count, size = count - len(findings), size - sum(map(size_of, findings))
        checks.append(
            Check(
                evaluator=config.id,
                check=item.check,
                status=item.status,
                base_status=item.base_status,
                comparison=item.comparison,
                excuse=item.excuse,
                required=config.required,
                findings=findings,
            )
        )
    lost = {item.comparison in ("regressed", "removed") for item in compared if item.counts}
    return tuple(checks), as_set("regression" if is_loss else config.failure_class for is_loss in lost)
