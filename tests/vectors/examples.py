"""Documents as they occur, written by hand: one small session from its start to its receipt.

A function per package returns one example of each of its kinds. Packages without a function have the structural
vectors only (see ``make.py``); a function added to ``PACKAGES`` is picked up by the next run of it.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from providerport.documents import (
    Capabilities,
    GenerationClaim,
    Observation,
    Observations,
)
from providerport.documents import Receipt as CallReceipt
from providerport.mapping import ObservationLimits, build_request
from providerport.outcome import payload_digest, result_of
from providerport.prior import bound_findings
from savant.contracts.digest import digest
from savant.contracts.document import Document, digest_of, seal
from synthesis.commands import (
    Command,
    RecordAttempt,
    RecordCall,
    RecordEvaluation,
    RecordInterpretation,
    RecordPlan,
    RecordPlanReview,
    StartAttempt,
)
from synthesis.documents import (
    Attempt,
    Budgets,
    Check,
    Evaluation,
    Finding,
    IntendedChange,
    Interpretation,
    Limitation,
    ObservedIdentities,
    Plan,
    PlanReview,
    PlanStep,
    ProofDischarge,
    ReviewFinding,
    Session,
    SourceReference,
    State,
    Transition,
)
from synthesis.machine import Transitioned, start, transition
from synthesis.replay import transition_document


def named(text: str) -> str:
    """The digest that an example gives to something it does not hold."""
    return digest(text.encode())


SESSION = Session(
    repository_domain="example.org/app",
    workspace_digest=named("workspace"),
    task_digest=named("task"),
    graph_digest=named("graph"),
    closure_digest=named("closure"),
    base_commit="sha1:0123456789abcdef0123456789abcdef01234567",
    base_manifest_digest=named("base manifest"),
    evaluator_policy_digest=named("evaluator policy"),
    admission_policy_digest=named("admission policy"),
    driver_policy_digest=named("driver policy"),
    provider_config_digest=named("provider configuration"),
    objective="Keep the total when the cart is empty.",
    budgets=Budgets(
        retries=2, replans=1, provider_calls=12, wall_clock_ms=900_000, tokens=None, cost_microunits=5_000_000
    ),
    retryable_outcomes=("invalid-output", "timed-out"),
    proof_obligations=("an empty cart has the total 0",),
)

INTERPRETATION = Interpretation(
    session_digest=digest_of(SESSION),
    objective=SESSION.objective,
    applicable_intent=("Totals are shown before payment.",),
    binding_invariants=("A total is never negative.",),
    relevant_contracts=(),
    authority_boundaries=("Prices come from the catalogue.",),
    known_failure_modes=("Reducing an empty list without a start value.",),
    forbidden_fixes=("Hiding the total.",),
    required_proof_obligations=SESSION.proof_obligations,
    assumptions=(),
    unresolved_questions=("Is 0 shown as “free”?",),
    source_references=(SourceReference(reference="src/cart.py", source_digest=named("src/cart.py")),),
    limitations=(Limitation(source="graph", text="No graph extractor ran.", blocking=False),),
)

PLAN = Plan(
    interpretation_digest=digest_of(INTERPRETATION),
    generation=1,
    promise="declared",
    steps=(
        PlanStep(
            id="start-value",
            description="Give the sum a start value and test it.",
            intended_changes=(
                IntendedChange(pattern="src/cart.py", operations=("modify",)),
                IntendedChange(pattern="tests/**", operations=("create", "modify")),
            ),
            symbols=("cart.total",),
            expected_evidence=("tests/test_cart.py passes",),
            discharges=SESSION.proof_obligations,
            declares_gate_changes=False,
        ),
    ),
    assumptions=(),
    risks=("Currency is lost when nothing is summed.",),
    stop_conditions=(),
)

REVIEW = PlanReview(
    plan_digest=digest_of(PLAN),
    findings=(
        ReviewFinding(
            id="currency",
            severity="minor",
            step="start-value",
            text="The start value needs the cart's currency.",
            citation="src/cart.py:14",
        ),
    ),
    reviewers=("deterministic",),
    outcome="converged",
)

ATTEMPT = Attempt(
    number=1,
    generation=1,
    plan_digest=digest_of(PLAN),
    provider_digest=named("provider"),
    outcome="completed",
    failure_kind=None,
    input_digest=named("input manifest"),
    change_digest=named("change set"),
    final_digest=named("final manifest"),
)

EVALUATION = Evaluation(
    attempt_digest=digest_of(ATTEMPT),
    candidate_digest=named("candidate"),
    checks=(
        Check(
            evaluator="tests",
            check="tests/test_cart.py::test_empty",
            status="passed",
            base_status="failed",
            comparison="fixed",
            excuse=None,
            required=True,
            findings=(),
        ),
        Check(
            evaluator="style",
            check="line-length",
            status="failed",
            base_status=None,
            comparison=None,
            excuse=None,
            required=False,
            findings=(
                Finding(
                    check="line-length",
                    status="failed",
                    path="src/cart.py",
                    line=14,
                    message="line too long",
                    excerpt="return sum(...)",
                ),
            ),
        ),
    ),
    failure_classes=("mechanical",),
    recommendation="accept",
    limitations=(Limitation(source="style", text="An optional check failed.", blocking=False),),
)


def _run() -> tuple[list[Transition], State]:
    state, transitions = start(SESSION), list[Transition]()
    commands: tuple[Command, ...] = (
        RecordCall("interpretation"),
        RecordInterpretation(INTERPRETATION),
        RecordPlan(PLAN),
        RecordPlanReview(REVIEW),
        StartAttempt(),
        RecordAttempt(ATTEMPT),
        RecordEvaluation(EVALUATION),
    )
    for index, command in enumerate(commands):
        outcome = transition(state, command)
        if not isinstance(outcome, Transitioned):
            raise TypeError(outcome.message)
        transitions.append(transition_document(state, command, outcome.state, index, outcome.events))
        state = outcome.state
    return transitions, state


def synthesis() -> tuple[Document, ...]:
    """O1: a session that succeeds at the first attempt."""
    transitions, state = _run()
    if state.receipt is None:
        raise TypeError(state.phase)
    return (
        SESSION,
        INTERPRETATION,
        PLAN,
        REVIEW,
        ATTEMPT,
        EVALUATION,
        ProofDischarge(
            obligation=SESSION.proof_obligations[0],
            candidate_digest=EVALUATION.candidate_digest,
            evidence_digest=named("evidence"),
        ),
        state.receipt,
        ObservedIdentities(**{name: getattr(SESSION, name) for name in ObservedIdentities.__struct_fields__}),
        state,
        transitions[1],
    )


def providerport() -> tuple[Document, ...]:
    """O2: the generation call of a second attempt, told what failed in the first."""
    state = start(SESSION)
    failed = structs.replace(EVALUATION, recommendation="retry-generation")
    commands: tuple[Command, ...] = (
        RecordInterpretation(INTERPRETATION),
        RecordPlan(PLAN),
        RecordPlanReview(REVIEW),
        StartAttempt(),
        RecordAttempt(ATTEMPT),
        RecordEvaluation(failed),
        StartAttempt(),
    )
    for command in commands:
        state = transition(state, command).state
    capabilities = Capabilities(
        provider="example-agent",
        provider_kind="command",
        model="example-model",
        identity_digest=named("provider"),
        operations=("generation", "planning"),
        reports_usage=True,
    )
    request = seal(
        build_request(
            state,
            "generation",
            parent=PLAN,
            deadline_ms=300_000,
            limits=ObservationLimits(max_observations=200, max_observation_bytes=65_536),
            prior=bound_findings(
                (finding for check in failed.checks for finding in check.findings),
                (),
                8_192,
                attempt_digest=digest_of(ATTEMPT),
                evaluation_digest=digest_of(failed),
                outcome=ATTEMPT.outcome,
                failure_kind=ATTEMPT.failure_kind,
            ),
            scope=("src/cart.py", "tests/**"),
        )
    )
    claim = GenerationClaim(
        summary="Gave the sum a start value.", declared_change_digest=None, declared_final_digest=None
    )
    result = seal(result_of(request, "completed", payload=claim))
    return (
        capabilities,
        request.document,
        result.document,
        Observations(
            request_digest=request.digest,
            items=(Observation(sequence=1, text="editing src/cart.py"), Observation(sequence=2, text="done ✓")),
            dropped=3,
        ),
        CallReceipt(
            request_digest=request.digest,
            capabilities_digest=digest_of(capabilities),
            operation="generation",
            outcome="completed",
            failure_kind=None,
            result_digest=result.digest,
            payload_digest=payload_digest(claim),
            limitations=(),
        ),
    )


PACKAGES: tuple[Callable[[], tuple[Document, ...]], ...] = (synthesis, providerport)
"""Every function that returns examples."""
