"""One step of the loop per phase: each makes at most one owner call and records what came back.

A step returns None to go on, or the disposition with which the run stops without a terminal session (resumable).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from driver.amend import amend
from driver.calls import ProviderCalls
from driver.documents import Amendment, RunDisposition
from driver.evaluate import evaluate_candidate
from driver.governed import governed_by
from driver.inputs import RunInputs, RunPorts
from driver.review import review_plan
from driver.session import SessionHost
from evaluator.custody import judges_at
from evaluator.documents import Receipt as EvaluationReceipt
from evaluator.running import BaseResults
from providerport.documents import AuditTask, Prior, Request
from providerport.mapping import ObservationLimits, Parent, build_request, complete_interpretation, to_command
from providerport.prior import bound_findings
from runner.attempt import AttemptInputs, AttemptOutcome, AttemptPorts, run_attempt
from runner.content import CandidateTree
from runner.documents import Candidate, ChangeSet
from runner.documents import Receipt as RunnerReceipt
from savant.contracts.document import D, Sealed, seal
from savant.contracts.errors import InternalError
from synthesis.commands import (
    RecordAttempt,
    RecordInterpretation,
    RecordPlan,
    RecordPlanReview,
    StartAttempt,
    StartPlanning,
)
from synthesis.documents import (
    Attempt,
    Evaluation,
    Finding,
    IntendedChange,
    Interpretation,
    Operation,
    Phase,
    Plan,
    PlanReview,
    ReviewFinding,
)
from synthesis.machine import Refusal

Stop = RunDisposition | None


class Trace(msgspec.Struct):
    """What a run made so far, beside the state: the documents that later steps need, and receipts in order."""

    interpretation: Sealed[Interpretation] | None = None
    plan: Sealed[Plan] | None = None
    review: Sealed[PlanReview] | None = None
    attempt: Sealed[Attempt] | None = None
    runner_receipt: Sealed[RunnerReceipt] | None = None
    candidate: Sealed[Candidate] | None = None
    change_set: Sealed[ChangeSet] | None = None
    tree: CandidateTree | None = None
    amendment: Sealed[Amendment] | None = None
    evaluation: Sealed[Evaluation] | None = None
    evaluation_receipt: Sealed[EvaluationReceipt] | None = None
    findings: tuple[Finding, ...] = ()
    review_findings: tuple[ReviewFinding, ...] = ()
    runner_receipts: list[str] = msgspec.field(default_factory=list)
    evaluation_receipts: list[str] = msgspec.field(default_factory=list)
    stopped_by: str = ""


class Run:
    """Everything one run holds while it is on."""

    def __init__(self, inputs: RunInputs, ports: RunPorts) -> None:
        self.inputs = inputs
        self.ports = ports
        self.host = SessionHost(inputs.session, ports.recorder)
        self.calls = ProviderCalls(self.host, ports, inputs.accounting.document)
        self.trace = Trace()
        self.base_results: BaseResults = {}
        self.steps = 0
        self.savepoints = 0

    def request(
        self,
        operation: Operation,
        parent: Parent,
        deadline_ms: int,
        prior: Prior | None,
        *,
        audit: AuditTask | None = None,
    ) -> Sealed[Request]:
        """The sealed request of an operation that is due."""
        policy = self.inputs.driver_policy.document
        return seal(
            build_request(
                self.host.state,
                operation,
                parent=parent,
                deadline_ms=deadline_ms,
                limits=ObservationLimits(policy.max_observations, policy.max_observation_bytes),
                prior=prior,
                scope=self.inputs.scope,
                audit=audit,
            )
        )

    def prior(self) -> Prior | None:
        """What failed before, bounded by the policy; None when nothing did."""
        state, trace = self.host.state, self.trace
        if trace.attempt is None and not trace.review_findings:
            return None
        checks = () if trace.evaluation is None else trace.evaluation.document.checks
        return bound_findings(
            trace.findings,
            trace.review_findings,
            self.inputs.driver_policy.document.max_prior_bytes,
            required=frozenset(check.check for check in checks if check.required),
            plan_review_digest=state.plan_review_digest if trace.review_findings else None,
            attempt_digest=state.attempt_digest,
            evaluation_digest=state.evaluation_digest,
            outcome=None if trace.attempt is None else trace.attempt.document.outcome,
            failure_kind=None if trace.attempt is None else trace.attempt.document.failure_kind,
        )

    @property
    def amended(self) -> tuple[IntendedChange, ...]:
        """What the promise of the current plan was widened by; empty when it was not."""
        plan_, amendment = self.trace.plan, self.trace.amendment
        is_of_plan = plan_ is not None and amendment is not None and amendment.document.plan_digest == plan_.digest
        return amendment.document.changes if amendment is not None and is_of_plan else ()

    def stop(self, why: str) -> RunDisposition:
        """Stop because of a provider: ``interrupted`` when the person asked, ``provider-stopped`` otherwise."""
        self.trace.stopped_by = why
        return "interrupted" if self.ports.cancellation.is_set() else "provider-stopped"

    def must(self, refusal: Refusal | None) -> None:
        """A command that we built must be accepted.

        :raises InternalError: ``internal.refused-command``.
        """
        if refusal is not None:
            raise InternalError("internal.refused-command", f"{refusal.code}: {refusal.message}")


def interpret(run: Run) -> Stop:
    """Created: ask for an interpretation, complete it with the governed records, record it."""
    run.ports.progress.say("interpreting the task")
    policy = run.inputs.driver_policy.document
    request = run.request("interpretation", run.host.state.session, policy.interpretation_deadline_ms, None)
    command = _ask(run, request)
    if isinstance(command, RecordPlan):
        raise InternalError("internal.command", "An interpretation call was answered with a plan.")
    if not isinstance(command, RecordInterpretation):
        return command
    complete = complete_interpretation(
        command.interpretation, run.host.state.session, governed_by(run.inputs.closure.document)
    )
    refusal = run.host.send(RecordInterpretation(complete))
    if refusal is not None:
        return run.stop(f"{refusal.code}: {refusal.message}")
    run.trace.interpretation = seal(complete)
    return None


def plan(run: Run) -> Stop:
    """Planning: ask for a plan of the expected generation and record it."""
    run.ports.progress.say(f"planning (generation {run.host.state.expected_generation})")
    interpretation = present(run.trace.interpretation)
    policy = run.inputs.driver_policy.document
    request = run.request("planning", interpretation.document, policy.planning_deadline_ms, run.prior())
    command = _ask(run, request)
    if isinstance(command, RecordInterpretation):
        raise InternalError("internal.command", "A planning call was answered with an interpretation.")
    if not isinstance(command, RecordPlan):
        return command
    refusal = run.host.send(command)
    if refusal is not None:
        return run.stop(f"{refusal.code}: {refusal.message}")
    run.trace.plan = seal(command.plan)
    return None


def review(run: Run) -> Stop:
    """Reviewing: the deterministic reviewer judges the promise before anything is spent on generation."""
    current = present(run.trace.plan)
    made = review_plan(
        current.document,
        current.digest,
        present(run.trace.interpretation).document,
        run.inputs.admission_policy.document,
        run.inputs.scope,
        judges_at(run.inputs.evaluator_policy.document.custody, run.inputs.snapshot.mode),
    )
    run.ports.progress.say(f"plan review: {made.outcome}")
    run.trace.review = seal(made)
    run.trace.review_findings = tuple(f for f in made.findings if f.severity == "blocking")
    run.must(run.host.send(RecordPlanReview(made)))
    return None


def start_attempt(run: Run) -> Stop:
    """Planned or retry: reserve the next attempt."""
    run.must(run.host.send(StartAttempt()))
    return None


def start_planning(run: Run) -> Stop:
    """Replan: reserve the next generation."""
    run.must(run.host.send(StartPlanning()))
    return None


def attempt(run: Run) -> Stop:
    """Attempting: generate in a disposable workspace and seal; the runner owns the attempt."""
    state, current = run.host.state, present(run.trace.plan)
    run.ports.progress.say(f"attempt {state.expected_attempt}: generating")
    policy = run.inputs.driver_policy.document
    request = run.request("generation", current.document, policy.generation_deadline_ms, run.prior())
    if not _may_call(run, request):
        return None
    outcome = run_attempt(
        AttemptInputs(
            state=run.host.state,
            plan=current,
            request=request,
            snapshot=run.inputs.snapshot,
            workspace_digest=run.host.state.session.workspace_digest,
            normalisers=run.ports.normalisers,
            demanded=run.inputs.demands.provider,
        ),
        AttemptPorts(
            provider_factory=run.ports.provider,
            execute=run.calls.execute,
            store=run.ports.store,
            scratch=run.ports.scratch,
            processes=run.ports.processes,
            cancellation=run.ports.cancellation,
            sight=run.ports.sight,
        ),
    )
    return _take_attempt(run, request, outcome)


def _take_attempt(run: Run, request: Sealed[Request], outcome: AttemptOutcome) -> Stop:
    recorder, trace = run.ports.recorder, run.trace
    if outcome.execution is not None:
        run.calls.finish(request, outcome.execution)
    recorder.record_once("runner", run.inputs.snapshot.document)
    if outcome.change_set is not None:
        recorder.record_once("runner", outcome.change_set)
    if outcome.candidate is not None:
        _amend(run, outcome.candidate.document)
        recorder.record_once("runner", outcome.candidate)
    candidate_raw = None if outcome.candidate is None else outcome.candidate.raw
    recorder.record("runner", outcome.receipt, candidate_raw=candidate_raw, containment=outcome.containment)
    trace.runner_receipt = outcome.receipt
    trace.runner_receipts.append(outcome.receipt.digest)
    if run.ports.cancellation.is_set():
        trace.stopped_by = "interrupted"
        return "interrupted"
    if outcome.attempt is None:
        receipt = outcome.receipt.document
        trace.stopped_by = f"{receipt.disposition}: {receipt.failure_detail or receipt.failure_code}"
        return "runner-stopped"
    trace.candidate, trace.change_set, trace.findings = outcome.candidate, outcome.change_set, outcome.findings
    trace.attempt = seal(outcome.attempt)
    trace.review_findings = ()
    if outcome.attempt.outcome != "completed":
        receipt = outcome.receipt.document
        detail = receipt.failure_detail or receipt.failure_code
        kind = outcome.attempt.failure_kind or outcome.attempt.outcome
        run.ports.progress.say(f"attempt {outcome.attempt.number}: no candidate ({kind}) {detail}".rstrip())
        trace.stopped_by = detail
    run.must(run.host.send(RecordAttempt(outcome.attempt)))
    return None


def _amend(run: Run, candidate: Candidate) -> None:
    """Widen the promise by what the candidate has beside it, if the policy asks a person about that, and only once."""
    trace, plan_ = run.trace, present(run.trace.plan)
    if trace.amendment is not None:
        return
    made = amend(
        plan_,
        candidate.operations,
        run.inputs.admission_policy.document,
        run.inputs.scope,
        attempt_number=candidate.attempt_number,
        change_digest=candidate.change_digest,
    )
    if made is not None:
        trace.amendment = seal(made)
        run.ports.recorder.record("driver", trace.amendment)
        run.ports.progress.say(f"the promise is widened, once, by {len(made.changes)} changes: a person is asked")


def evaluate(run: Run) -> Stop:
    """Evaluating: measure the sealed candidate and record the one recommendation."""
    return evaluate_candidate(run)


def _may_call(run: Run, request: Sealed[Request]) -> bool:
    """Whether the budgets allow the call, which is announced then; otherwise the session has ended."""
    if run.calls.begin(request):
        return True
    if run.calls.refused:
        run.ports.progress.say(run.calls.refused)
        run.trace.stopped_by = run.calls.refused
    return False


def _ask(run: Run, request: Sealed[Request]) -> RecordInterpretation | RecordPlan | Stop:
    """The command of a completed call; None when a budget ended the session; a disposition for a stop."""
    if not _may_call(run, request):
        return None
    execution = run.calls.execute(
        run.ports.provider(), request, cancellation=run.ports.cancellation, base=run.inputs.snapshot, workspace=None
    )
    run.calls.finish(request, execution)
    result = execution.result.document
    if result.outcome != "completed":
        return run.stop(f"{result.outcome}: {result.detail}")
    command = to_command(run.host.state, request, execution.result, execution.receipt)
    if isinstance(command, Refusal):
        return run.stop(f"{command.code}: {command.message}")
    if isinstance(command, RecordInterpretation | RecordPlan):
        return command
    raise InternalError("internal.command", f"{type(command).__name__} answers no call of the driver.")


def present(value: Sealed[D] | None) -> Sealed[D]:
    """A document that an earlier phase has made."""
    if value is None:  # pragma: no cover - the phase says that it was made
        raise InternalError("internal.trace", "A document of this run is missing.")
    return value


STEPS: Final[Mapping[Phase, tuple[str, Callable[[Run], Stop]]]] = MappingProxyType(
    {
        "created": ("provider.interpretation", interpret),
        "planning": ("provider.planning", plan),
        "reviewing": ("driver.review", review),
        "planned": ("driver.start-attempt", start_attempt),
        "retry": ("driver.start-attempt", start_attempt),
        "replan": ("driver.start-planning", start_planning),
        "attempting": ("runner.attempt", attempt),
        "evaluating": ("evaluator.evaluate", evaluate),
    }
)
"""The next owner call of every phase that is not terminal, and the step that makes it."""
