"""Measuring an audit by models: who audits is asked, what they say is resolved, and a result is made like any other.

They are asked last, and only about a candidate that every other check lets pass: an audit costs, and a secret that a
check has found is not sent to anybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from evaluator.audit import audit_checks, judge_audit, task_of
from evaluator.compare import Case, Terms, compare, result_checks
from evaluator.documents import Audit, Descriptor, EvaluatorConfig, EvaluatorOutcome, Result
from evaluator.inputs import EvaluationInputs, input_of
from evaluator.measuring import Measurement
from providerport.documents import AuditReport, AuditTask
from providerport.documents import Result as CallResult
from savant.contracts.canonical import encode_struct
from savant.contracts.containment import Containment, weakest
from savant.contracts.digest import digest
from savant.contracts.document import Sealed, seal
from savant.contracts.errors import PortError, RefusedInput, Unverifiable, VerificationError
from synthesis.documents import Check, CheckStatus, Limitation

VERSION: Final = "1"
MAX_DETAIL: Final = 2_000


class Auditor(Protocol):
    """Who can be asked for an audit: calls through the provider port, counted and recorded by the caller."""

    def ask(self, role: str, task: AuditTask, *, deadline_ms: int) -> AuditAnswer:
        """What the ``reviewer`` or the ``adversary`` answers in time. Raises nothing that they could cause."""
        ...


class AuditAnswer(msgspec.Struct, frozen=True):
    """What one call came to.

    :param result: the recorded result; None where no call was made.
    :param detail: why there is no report, for people.
    :param limitation: what has to be known of how the call was made.
    """

    result: Sealed[CallResult] | None
    detail: str = ""
    containment: Containment | None = None
    limitation: Limitation | None = None

    @property
    def report(self) -> AuditReport | None:
        """The report; None where there is none."""
        return None if self.result is None else self.result.document.audit


class _Ended(msgspec.Struct, frozen=True):
    """What an audit came to, before it is a document."""

    outcome: EvaluatorOutcome
    checks: tuple[Check, ...]
    classes: tuple[str, ...] = ()
    limitations: tuple[Limitation, ...] = ()
    detail: str = ""
    audit: Sealed[Audit] | None = None
    containment: Containment | None = None


def measure_audit(
    config: EvaluatorConfig, inputs: EvaluationInputs, auditor: Auditor | None, *, is_open: bool
) -> Measurement:
    """The result of an audit.

    :param auditor: None where nobody can be asked; the audit is unavailable then.
    :param is_open: whether every other check lets the candidate pass; else nobody is asked.
    """
    descriptor = seal(
        Descriptor(
            evaluator=config.id,
            evaluator_kind=config.evaluator,
            version=VERSION,
            config_digest=digest(encode_struct(config)),
            executable_digest=None,
            deterministic=False,
            limitations=(),
        )
    )
    given = seal(input_of(config, inputs))
    try:
        ended = _audited(config, inputs, auditor) if is_open else _Ended("completed", *_case(config, "skipped"))
    except (RefusedInput, PortError, Unverifiable, VerificationError) as error:
        ended = _unavailable(config, error.message)
    result = seal(
        Result(
            evaluator=config.id,
            descriptor_digest=descriptor.digest,
            input_digest=given.digest,
            outcome=ended.outcome,
            checks=ended.checks,
            failure_classes=ended.classes,
            limitations=ended.limitations,
            detail=ended.detail[:MAX_DETAIL],
            audit_digest=None if ended.audit is None else ended.audit.digest,
        )
    )
    more = () if ended.audit is None else (ended.audit,)
    return Measurement(config, descriptor, given, result, True, True, ended.containment, more)


def _audited(config: EvaluatorConfig, inputs: EvaluationInputs, auditor: Auditor | None) -> _Ended:
    chosen = config.audit
    if chosen is None or auditor is None:
        return _unavailable(config, "nobody can be asked for an audit here")
    candidate = inputs.candidate
    task = task_of(
        candidate,
        inputs.plan.document,
        inputs.objective,
        inputs.snapshot,
        inputs.tree,
        max_bytes=chosen.max_diff_bytes,
    )
    answers: list[AuditAnswer] = []
    reports: list[tuple[str, AuditReport]] = []
    for role in ("reviewer", "adversary") if chosen.adversary_digest is not None else ("reviewer",):
        asked = replace(task, audited=reports[0][1] if reports else None)
        answer = auditor.ask(role, asked, deadline_ms=config.timeout_ms)
        answers.append(answer)
        if answer.result is None or answer.report is None:
            return _unavailable(config, f"the {role} gave no report: {answer.detail}", answers)
        reports.append((answer.result.digest, answer.report))
    audit = seal(
        judge_audit(
            candidate.digest, reports[0], reports[1] if len(reports) > 1 else None, inputs.snapshot, inputs.tree
        )
    )
    checks, classes, told = audit_checks(config, audit.document, [report for _, report in reports])
    return _Ended(
        outcome="completed",
        checks=checks,
        classes=classes,
        limitations=(*told, *_limitations(answers), *_left_out(config, task)),
        audit=audit,
        containment=_containment(answers),
    )


def _unavailable(config: EvaluatorConfig, why: str, answers: list[AuditAnswer] | None = None) -> _Ended:
    asked = answers or []
    checks, classes = _case(config, "unavailable")
    return _Ended(
        outcome="unavailable",
        checks=checks,
        classes=classes,
        limitations=tuple(_limitations(asked)),
        detail=why,
        containment=_containment(asked),
    )


def _case(config: EvaluatorConfig, status: CheckStatus) -> tuple[tuple[Check, ...], tuple[str, ...]]:
    return result_checks(config, compare(None, {config.id: Case(status)}, Terms(rule=config.rule)))


def _limitations(answers: list[AuditAnswer]) -> Iterator[Limitation]:
    return (answer.limitation for answer in answers if answer.limitation is not None)


def _containment(answers: list[AuditAnswer]) -> Containment | None:
    return weakest(answer.containment for answer in answers)


def _left_out(config: EvaluatorConfig, task: AuditTask) -> Iterator[Limitation]:
    """What the auditors were not shown as text."""
    count = sum(change.diff is None for change in task.changes)
    if count:
        text = f"The auditors were given {count} of {len(task.changes)} changed files by name alone."
        yield Limitation(source=f"evaluator.{config.id}", text=text, blocking=False)
