"""The evaluation step: hand the sealed candidate to the evaluators, record what they found, move the session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from driver.audit import Auditors
from driver.governed import evidence_of_obligations
from evaluator.checks.place import CommandHost
from evaluator.inputs import EvaluationInputs
from evaluator.prepare import Preparing
from evaluator.stage import evaluate
from evaluator.toolchain import Toolchain
from runner.content import CandidateTree
from savant.contracts.document import seal
from savant.contracts.errors import InternalError, SavantError
from synthesis.commands import EvaluatorUnavailable
from synthesis.documents import ProofDischarge

if TYPE_CHECKING:
    from driver.documents import RunDisposition
    from driver.step import Run


def evaluate_candidate(run: Run) -> RunDisposition | None:
    """Evaluate the current candidate and record the one command that follows."""
    inputs, ports, trace = run.inputs, run.ports, run.trace
    if trace.candidate is None or trace.attempt is None or trace.plan is None or trace.runner_receipt is None:
        raise InternalError("internal.trace", "There is no candidate to evaluate.")
    run.ports.progress.say(f"attempt {trace.attempt.document.number}: evaluating")
    try:
        trace.tree = CandidateTree(inputs.snapshot, trace.candidate.document, ports.store)
    except SavantError as error:
        trace.stopped_by = error.message
        run.must(run.host.send(EvaluatorUnavailable("evaluator.candidate-load-failure")))
        return None
    policy = inputs.evaluator_policy
    ports.recorder.intent("evaluator", "evaluator.evaluate", subject=trace.candidate.digest)
    started_ms = ports.clock.monotonic_ms()
    evaluated = EvaluationInputs(
        session_digest=inputs.session.digest,
        attempt=trace.attempt,
        plan=trace.plan,
        amendment=run.amended,
        runner_receipt=trace.runner_receipt,
        candidate=trace.candidate,
        policy=policy,
        snapshot=inputs.snapshot,
        tree=trace.tree,
        obligations=evidence_of_obligations(inputs.closure.document),
        objective=inputs.session.document.objective,
    )
    with _preparing(run) as preparing:
        outcome = evaluate(
            evaluated,
            CommandHost(
                processes=ports.processes,
                scratch=ports.scratch / "checks",
                toolchain=Toolchain(ports.checkout, policy.document.toolchain, ports.search_path),
                ambient=ports.ambient,
                environment=policy.document.environment,
                network=policy.document.network == "open",
                cancellation=ports.cancellation,
                sight=ports.sight,
                demands=inputs.demands.checks,
                suite=ports.suite,
                results=ports.results,
                say=ports.progress.say,
                preparing=preparing,
            ),
            run.base_results,
            Auditors(run, ports.auditors, evaluated) if ports.auditors else None,
        )
    duration_ms = ports.clock.monotonic_ms() - started_ms
    if ports.cancellation.is_set():
        trace.stopped_by = "interrupted"
        return "interrupted"
    if ports.suite is not None and ports.suite.document in outcome.documents:
        for data in ports.suite.files.values():
            ports.store.put(data)
    for document in outcome.documents:
        ports.recorder.record_once("evaluator", document, containment=outcome.containments.get(document.digest))
    ports.recorder.record(
        "evaluator",
        outcome.receipt,
        duration_ms=duration_ms,
        candidate_raw=trace.candidate.raw,
        containment=outcome.containment,
    )
    trace.evaluation, trace.findings = outcome.evaluation, outcome.failing
    trace.evaluation_receipt = outcome.receipt
    trace.evaluation_receipts.append(outcome.receipt.digest)
    if outcome.evaluation is None:
        trace.stopped_by = outcome.receipt.document.failure_detail
    else:
        _say(run)
        if outcome.evaluation.document.recommendation == "accept":
            _discharge(run)
    run.must(run.host.send(outcome.command))
    return None


@contextmanager
def _preparing(run: Run) -> Iterator[Preparing | None]:
    """What prepares the folders of this evaluation's checks; None where the policy has no steps.

    Commands that nothing contains could write into what later runs would use, so it is kept for this run only.
    """
    steps, ports = run.inputs.evaluator_policy.document.prepares, run.ports
    if not steps:
        yield None
        return
    kept = None if ports.processes.level == "S0" else ports.prepared
    with Preparing(steps, kept or ports.scratch / "prepared") as preparing:
        yield preparing


def _discharge(run: Run) -> None:
    """Record, for an accepted candidate, what evidences each proof obligation."""
    if run.trace.candidate is None or run.trace.evaluation_receipt is None:
        return
    by_evaluator = {item.evaluator: item.result_digest for item in run.trace.evaluation_receipt.document.results}
    for record in run.inputs.closure.document.records:
        if record.record_kind == "proof-obligation" and record.evidence is not None:
            discharge = ProofDischarge(
                obligation=record.text,
                candidate_digest=run.trace.candidate.digest,
                evidence_digest=by_evaluator[record.evidence],
            )
            run.ports.recorder.record_once("driver", seal(discharge))


def _say(run: Run) -> None:
    evaluation = run.trace.evaluation
    if evaluation is None:
        return
    failing = [check for check in evaluation.document.checks if check.findings and check.comparison != "flaky"]
    flaky = sum(check.comparison == "flaky" for check in evaluation.document.checks)
    words = f"evaluation: {evaluation.document.recommendation}"
    if failing:
        first = failing[0].findings[0]
        words += f"; {len(failing)} checks failed, first {failing[0].check}: {first.message.splitlines()[0]}"
    if flaky:
        words += f"; {flaky} flaky"
    run.ports.progress.say(words)
