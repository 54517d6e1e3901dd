"""The stage: from a sealed candidate to one command for the session. The shell of O4.

The candidate is verified again first. Each evaluator runs on a fresh copy of its own; the base is measured where the
policy compares, once per run. What comes out is documents in ledger order, and exactly one command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from evaluator.checks.command import FORMATS, Measured, measure_command, unavailable
from evaluator.checks.place import CommandHost
from evaluator.checks.scope import check_forbidden_paths, check_scope
from evaluator.compare import Compared, Terms, compare, repeated, result_checks
from evaluator.compose import MAX_SOURCE_CHARACTERS, CompositionFailure, compose, relevance
from evaluator.dispositions import check_receipt
from evaluator.documents import (
    Descriptor,
    Disposition,
    EvaluatorConfig,
    Input,
    Policy,
    Receipt,
    Result,
    ResultBinding,
)
from evaluator.excuses import ended, excuse_of
from evaluator.findings import check_name
from runner.content import CandidateTree, change_set_of, verify_candidate
from runner.documents import Candidate
from runner.documents import Receipt as RunnerReceipt
from runner.shortfall import shortfall
from runner.snapshot import BaseSnapshot
from savant.contracts.canonical import encode_struct
from savant.contracts.containment import Containment, Demand, weakest
from savant.contracts.digest import digest
from savant.contracts.document import Document, Sealed, seal
from savant.contracts.errors import InternalError, RefusedInput, SavantError, VerificationError
from savant.contracts.scalars import as_set
from savant.files.paths import to_raw
from savant.process.identity import executable_digest
from synthesis.commands import Command, EvaluatorUnavailable, RecordEvaluation
from synthesis.documents import Attempt, Evaluation, Finding, IntendedChange, Limitation, Plan

VERSION: Final = "1"
MAX_DETAIL: Final = 2_000

BaseResults: TypeAlias = dict[str, Measured]
"""What the base gave, by evaluator configuration digest; kept for one run."""


class EvaluationInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What is evaluated, and by which precommitted rules.

    :param obligations: proof obligations with the evaluator that discharges each; None where no check can.
    :param amendment: what the plan's promise was widened by before the seal.
    """

    session_digest: str
    attempt: Sealed[Attempt]
    plan: Sealed[Plan]
    runner_receipt: Sealed[RunnerReceipt]
    candidate: Sealed[Candidate]
    policy: Sealed[Policy]
    snapshot: BaseSnapshot
    tree: CandidateTree
    obligations: Mapping[str, str | None]
    amendment: tuple[IntendedChange, ...] = ()


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


class _Measurement(msgspec.Struct, frozen=True):
    config: EvaluatorConfig
    descriptor: Sealed[Descriptor]
    input: Sealed[Input]
    result: Sealed[Result]
    cleaned: bool
    materialised: bool
    containment: Containment | None


def evaluate(inputs: EvaluationInputs, host: CommandHost, base_results: BaseResults) -> EvaluationOutcome:
    """Evaluate one sealed candidate. Raises only for our own bugs: everything else is a receipt and a command."""
    try:
        verify_candidate(inputs.snapshot, inputs.candidate.document, change_set_of(inputs.candidate.document))
        if inputs.tree.manifest.digest != inputs.candidate.document.final_digest:
            raise InternalError("internal.tree", "The tree is not the candidate's.")
        _read_everything(inputs)
    except SavantError as error:
        return _ended(inputs, (), "candidate-load-failure", error.code, error.message, None)
    measurements = [_measure(config, inputs, host, base_results) for config in inputs.policy.document.evaluators]
    composed = compose(
        inputs.attempt.digest,
        inputs.candidate.digest,
        inputs.policy.document,
        [m.result.document for m in measurements],
        obligations=inputs.obligations,
    )
    cleaned = all(m.cleaned for m in measurements)
    documents = tuple(d for m in measurements for d in (m.descriptor, m.input, m.result))
    if isinstance(composed, CompositionFailure):
        lost = next((m for m in measurements if m.config.required and not m.materialised), None)
        if lost is not None:
            detail = lost.result.document.detail
            return _ended(
                inputs, tuple(measurements), "materialization-failure", "evaluator.materialization", detail, cleaned
            )
        disposition: Disposition = (
            "required-evaluator-unavailable" if composed.required_unavailable else "composition-failure"
        )
        return _ended(inputs, tuple(measurements), disposition, composed.code, composed.detail, cleaned)
    evaluation = seal(composed)
    receipt = _receipt(inputs, tuple(measurements), "evaluated", "", "", cleaned, evaluation.digest)
    return EvaluationOutcome(
        documents,
        receipt,
        evaluation,
        RecordEvaluation(composed),
        _failing(tuple(m.result.document for m in measurements)),
        _containments(measurements),
    )


def _containments(measurements: Iterable[_Measurement]) -> Mapping[str, Containment]:
    return {m.result.digest: m.containment for m in measurements if m.containment is not None}


def _read_everything(inputs: EvaluationInputs) -> None:
    """Every changed content is read once, so that a damaged blob is found before anything runs."""
    for operation in inputs.candidate.document.operations:
        if operation.after is not None and operation.after.mode != "gitlink":
            data = inputs.tree.read(to_raw(operation.path))
            if digest(data) != operation.after.content_digest:
                raise VerificationError("unverified.blob", f"The content of '{operation.path}' is not the sealed one.")


def _measure(
    config: EvaluatorConfig, inputs: EvaluationInputs, host: CommandHost, base_results: BaseResults
) -> _Measurement:
    descriptor = seal(_descriptor(config, host))
    compares = config.evaluator == "command" and config.rule != "all-pass"
    given = seal(
        Input(
            evaluator=config.id,
            session_digest=inputs.session_digest,
            attempt_digest=inputs.attempt.digest,
            candidate_digest=inputs.candidate.digest,
            policy_digest=inputs.policy.digest,
            base_commit=inputs.candidate.document.base_commit,
            base_manifest_digest=inputs.candidate.document.input_digest,
            final_digest=inputs.candidate.document.final_digest,
            judged_digest=inputs.candidate.document.final_digest,
            restored=(),
            measures_base=compares,
            toolchain_digest=host.toolchain.digest() if config.evaluator == "command" else None,
        )
    )
    base = _base(config, inputs, host, base_results) if compares else None
    measured = _candidate(config, inputs, host)
    before = None if base is None or base.outcome != "completed" else base.cases
    is_broken = before is not None and measured.started and measured.outcome != "completed"
    if before is not None and is_broken:
        # It ran on the base and does not on the candidate: that is a finding about the candidate, told as one.
        before = {config.id: before[config.id]}
    terms = _terms(config, inputs)
    compared = compare(before, measured.cases, terms)
    for _ in range(config.repeats):
        if not measured.started or not any(item.counts and item.status == "failed" for item in compared):
            break
        measured = _again(measured, _candidate(config, inputs, host))
        compared = compare(before, measured.cases, terms)
    checks, classes = result_checks(config, compared)
    seen = weakest((measured.containment, None if base is None else base.containment))
    result = seal(
        Result(
            evaluator=config.id,
            descriptor_digest=descriptor.digest,
            input_digest=given.digest,
            outcome="completed" if is_broken else measured.outcome,
            checks=checks,
            failure_classes=classes,
            limitations=(
                *_limitations(config, base, inputs.plan.document, seen, host.demand(config.id)),
                *_doubts(config, inputs.policy.document, compared),
            ),
            detail=measured.problem[:MAX_DETAIL],
        )
    )
    cleaned = measured.cleaned and (base is None or base.cleaned)
    return _Measurement(config, descriptor, given, result, cleaned, measured.materialised, seen)


def _terms(config: EvaluatorConfig, inputs: EvaluationInputs) -> Terms:
    form = FORMATS.get(config.result_format)
    policy = inputs.policy.document
    return Terms(
        rule=config.rule,
        declared=any(step.declares_gate_changes for step in inputs.plan.document.steps),
        must_fix=frozenset(_full_name(config, name) for name in config.must_fix),
        excuse=lambda name: excuse_of(policy, config.id, name),
        overall=config.id if form is not None else "",
        lists_failures=form is not None and form.lists_failures,
    )


def _full_name(config: EvaluatorConfig, name: str) -> str:
    return name if name.startswith(f"{config.id}:") else check_name(config.id, name)


def _again(first: Measured, again: Measured) -> Measured:
    """What one evaluator saw on one tree after another run; a run that did not end by itself says nothing more."""
    cases = repeated(first.cases, again.cases) if again.outcome == "completed" else first.cases
    return replace(
        first,
        cases=cases,
        duration_ms=first.duration_ms + again.duration_ms,
        cleaned=first.cleaned and again.cleaned,
        containment=weakest((first.containment, again.containment)),
    )


def _doubts(config: EvaluatorConfig, policy: Policy, compared: Iterable[Compared]) -> Iterator[Limitation]:
    """What keeps the checks of one evaluator from being the whole truth: flaky, excused, or fixed before."""
    source = f"evaluator.{config.id}"[:MAX_SOURCE_CHARACTERS]
    for item in compared:
        text = ""
        if item.comparison == "flaky" and item.check != config.id:
            text = f"{item.check} is flaky: it passed and failed on the same tree, and decided nothing."
        elif item.excuse is not None and item.check != config.id:
            text = f"{item.check} failed and is excused by {item.excuse}."
        elif _full_name(config, item.check) in {_full_name(config, name) for name in config.must_fix}:
            is_proof = item.base_status == "failed"
            text = "" if is_proof else f"{item.check} had to be fixed, and was not seen to fail on the base."
        if text:
            yield Limitation(source=source, text=text, blocking=False)
    for excuse in ended(policy, config.id):
        text = f"The excuse {excuse.id} ended on {excuse.expires}: {excuse.reason}"[:MAX_DETAIL]
        yield Limitation(source=source, text=text, blocking=False)


def _limitations(
    config: EvaluatorConfig, base: Measured | None, plan: Plan, seen: Containment | None, demand: Demand
) -> Iterator[Limitation]:
    source = f"evaluator.{config.id}"[:MAX_SOURCE_CHARACTERS]
    if config.evaluator == "scope" and plan.promise == "none":
        text = "Nothing was promised before the change was made, so its scope was compared with no promise."
        yield Limitation(source=source, text=text, blocking=False)
    if base is not None and base.outcome != "completed":
        yield Limitation(
            source=source,
            text=f"The base was not measured, so the candidate is judged alone: {base.problem}"[:MAX_DETAIL],
            blocking=False,
        )
    less = shortfall(source, f"The commands of {config.id}", seen, demand)
    if less is not None:
        yield less


def _descriptor(config: EvaluatorConfig, host: CommandHost) -> Descriptor:
    executable = None
    if config.evaluator == "command":
        try:
            executable = executable_digest(host.toolchain.resolve(config.argv[0]))
        except SavantError:
            executable = None
    return Descriptor(
        evaluator=config.id,
        evaluator_kind=config.evaluator,
        version=VERSION,
        config_digest=digest(encode_struct(config)),
        executable_digest=executable,
        deterministic=config.evaluator != "command",
        limitations=(),
    )


def _base(config: EvaluatorConfig, inputs: EvaluationInputs, host: CommandHost, base_results: BaseResults) -> Measured:
    key = digest(encode_struct(config))
    known = base_results.get(key)
    if known is not None:
        return known
    measured = measure_command(config, inputs.snapshot, host)
    if measured.outcome == "completed":
        base_results[key] = measured
    return measured


def _candidate(config: EvaluatorConfig, inputs: EvaluationInputs, host: CommandHost) -> Measured:
    operations = inputs.candidate.document.operations
    try:
        match config.evaluator:
            case "command":
                return measure_command(config, inputs.tree, host)
            case "scope":
                return Measured(
                    "completed", {config.id: check_scope(config, operations, inputs.plan.document, inputs.amendment)}
                )
            case "forbidden-paths":
                return Measured("completed", {config.id: check_forbidden_paths(config, operations)})
            case _:
                return unavailable(config, "this kind of evaluator is not built yet")
    except RefusedInput as error:
        return unavailable(config, error.message)


def _failing(results: tuple[Result, ...]) -> tuple[Finding, ...]:
    """The findings of every check that counted, the most relevant first."""
    checks = sorted((check for result in results for check in result.checks), key=relevance)
    return tuple(finding for check in checks for finding in check.findings)


def _ended(
    inputs: EvaluationInputs,
    measurements: tuple[_Measurement, ...],
    disposition: Disposition,
    code: str,
    detail: str,
    cleaned: bool | None,
) -> EvaluationOutcome:
    receipt = _receipt(inputs, measurements, disposition, code, detail, cleaned, None)
    return EvaluationOutcome(
        tuple(d for m in measurements for d in (m.descriptor, m.input, m.result)),
        receipt,
        None,
        EvaluatorUnavailable(f"evaluator.{disposition}"),
        _failing(tuple(m.result.document for m in measurements)),
        _containments(measurements),
    )


def _receipt(
    inputs: EvaluationInputs,
    measurements: tuple[_Measurement, ...],
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
