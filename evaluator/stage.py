"""The stage: from a sealed candidate to one command for the session. The shell of O4.

The candidate is verified again first. Each evaluator runs on a fresh copy of its own; the base is measured where the
policy compares, once per run. What comes out is documents in ledger order, and exactly one command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from evaluator.auditing import Auditor, measure_audit
from evaluator.checks.place import CommandHost
from evaluator.compose import CompositionFailure, compose, relevance
from evaluator.dispositions import check_receipt
from evaluator.documents import (
    Disposition,
    Receipt,
    ResultBinding,
)
from evaluator.inputs import EvaluationInputs
from evaluator.measuring import ORDER, Measurement, measure
from evaluator.running import BaseResults
from runner.content import change_set_of, verify_candidate
from savant.contracts.containment import Containment, weakest
from savant.contracts.digest import digest
from savant.contracts.document import Document, Sealed, seal
from savant.contracts.errors import InternalError, SavantError, VerificationError
from savant.contracts.scalars import as_set
from savant.files.paths import to_raw
from synthesis.commands import Command, EvaluatorUnavailable, RecordEvaluation
from synthesis.documents import Evaluation, Finding

MAX_DETAIL: Final = 2_000


class EvaluationOutcome(msgspec.Struct, frozen=True):
    """What came of it: documents in ledger order, the receipt, the evaluation if there is one, and the command.

    :param failing: the findings that explain it to the next request.
    :param containments: result digest -> the weakest containment of that evaluator's commands, base and candidate.
    """

    documents: tuple[Sealed[Document], ...]
    receipt: Sealed[Receipt]
    evaluation: Sealed[Evaluation] | None
    command: Command
    failing: tuple[Finding, ...]
    containments: Mapping[str, Containment]

    @property
    def containment(self) -> Containment | None:
        """The weakest of all evaluators' commands; None if none ran."""
        return weakest(self.containments.values())


def evaluate(
    inputs: EvaluationInputs, host: CommandHost, base_results: BaseResults, auditor: Auditor | None = None
) -> EvaluationOutcome:
    """Evaluate one sealed candidate. Raises only for our own bugs: everything else is a receipt and a command.

    :param auditor: who is asked where the policy has an audit.
    """
    try:
        verify_candidate(inputs.snapshot, inputs.candidate.document, change_set_of(inputs.candidate.document))
        if inputs.tree.manifest.digest != inputs.candidate.document.final_digest:
            raise InternalError("internal.tree", "The tree is not the candidate's.")
        _read_everything(inputs)
        _ = inputs.held  # the trees are laid out before anything runs
    except SavantError as error:
        return _ended(inputs, host, (), "candidate-load-failure", error.code, error.message, None)
    measurements = _measure_all(inputs, host, base_results, auditor)
    composed = compose(
        inputs.attempt.digest,
        inputs.candidate.digest,
        inputs.policy.document,
        [m.result.document for m in measurements],
        obligations=inputs.obligations,
    )
    cleaned = all(m.cleaned for m in measurements)
    documents = (
        *_revealed(measurements, host),
        *_documents(measurements),
    )
    if isinstance(composed, CompositionFailure):
        lost = next((m for m in measurements if m.config.required and not m.materialised), None)
        if lost is not None:
            detail = lost.result.document.detail
            return _ended(
                inputs,
                host,
                tuple(measurements),
                "materialization-failure",
                "evaluator.materialization",
                detail,
                cleaned,
            )
        disposition: Disposition = (
            "required-evaluator-unavailable" if composed.required_unavailable else "composition-failure"
        )
        return _ended(inputs, host, tuple(measurements), disposition, composed.code, composed.detail, cleaned)
    evaluation = seal(composed)
    receipt = _receipt(inputs, tuple(measurements), "evaluated", "", "", cleaned, evaluation.digest)
    return EvaluationOutcome(
        documents,
        receipt,
        evaluation,
        RecordEvaluation(composed),
        _failing(measurements),
        _containments(measurements),
    )


def _documents(measurements: Iterable[Measurement]) -> Iterator[Sealed[Document]]:
    return (d for m in measurements for d in (m.descriptor, m.input, *m.more, m.result))


def _measure_all(
    inputs: EvaluationInputs, host: CommandHost, base_results: BaseResults, auditor: Auditor | None
) -> list[Measurement]:
    """One measurement for each evaluator of the policy, in its order; those that look at the others come last."""
    configs = inputs.policy.document.evaluators
    made: dict[str, Measurement] = {}
    for config in sorted(configs, key=lambda item: ORDER.get(item.evaluator, 0)):
        found = _failing(made.values()) if config.evaluator in ORDER else ()
        is_open = all(_lets_pass(m) for m in made.values())
        made[config.id] = (
            measure_audit(config, inputs, auditor, is_open=is_open)
            if config.evaluator == "model-audit"
            else measure(config, inputs, host, base_results, found, is_open=is_open)
        )
    return [made[config.id] for config in configs]


def _lets_pass(measurement: Measurement) -> bool:
    """Whether a measurement would not stop the candidate."""
    result = measurement.result.document
    return not measurement.config.required or (result.outcome == "completed" and not result.failure_classes)


def _containments(measurements: Iterable[Measurement]) -> Mapping[str, Containment]:
    return {m.result.digest: m.containment for m in measurements if m.containment is not None}


def _read_everything(inputs: EvaluationInputs) -> None:
    """Every changed content is read once, so that a damaged blob is found before anything runs."""
    for operation in inputs.candidate.document.operations:
        if operation.after is not None and operation.after.mode != "gitlink":
            data = inputs.tree.read(to_raw(operation.path))
            if digest(data) != operation.after.content_digest:
                raise VerificationError("unverified.blob", f"The content of '{operation.path}' is not the sealed one.")


def _failing(measurements: Iterable[Measurement]) -> tuple[Finding, ...]:
    """The findings of every check that counted, the most relevant first; those of a held-out suite stay here."""
    told = (m.result.document for m in measurements if m.config.evaluator != "held-out")
    checks = sorted((check for result in told for check in result.checks), key=relevance)
    return tuple(finding for check in checks for finding in check.findings)


def _revealed(measurements: Iterable[Measurement], host: CommandHost) -> tuple[Sealed[Document], ...]:
    """The held-out suite, if it has run, however that ended."""
    has_run = any(m.config.evaluator == "held-out" and m.containment is not None for m in measurements)
    return (host.suite.document,) if host.suite is not None and has_run else ()


def _ended(
    inputs: EvaluationInputs,
    host: CommandHost,
    measurements: tuple[Measurement, ...],
    disposition: Disposition,
    code: str,
    detail: str,
    cleaned: bool | None,
) -> EvaluationOutcome:
    receipt = _receipt(inputs, measurements, disposition, code, detail, cleaned, None)
    return EvaluationOutcome(
        (*_revealed(measurements, host), *_documents(measurements)),
        receipt,
        None,
        EvaluatorUnavailable(f"evaluator.{disposition}"),
        _failing(measurements),
        _containments(measurements),
    )


def _receipt(
    inputs: EvaluationInputs,
    measurements: tuple[Measurement, ...],
    disposition: Disposition,
    code: str,
    detail: str,
    cleaned: bool | None,
    evaluation_digest: str | None,
) -> Sealed[Receipt]:
    receipt = Receipt(
        session_digest=inputs.session_digest,
        attempt_digest=inputs.attempt.digest,
        runner_receipt_digest=inputs.runner_receipt.digest,
        policy_digest=inputs.policy.digest,
        candidate_digest=inputs.candidate.digest,
        candidate_verified=disposition != "candidate-load-failure",
        results=as_set(
            ResultBinding(
                evaluator=m.config.id,
                descriptor_digest=m.descriptor.digest,
                input_digest=m.input.digest,
                result_digest=m.result.digest,
            )
            for m in measurements
        ),
        evaluation_digest=evaluation_digest,
        disposition=disposition,
        failure_code=code,
        failure_detail=detail[:MAX_DETAIL],
        cleanup_succeeded=cleaned,
    )
    problems = check_receipt(receipt)
    if problems:
        raise InternalError("internal.evaluation-receipt", "; ".join(problems))
    return seal(receipt)
