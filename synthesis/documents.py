"""The documents and vocabularies of O1, the session.

Everything here is meaning: no member is a time, a duration, a host or a random value, so the same work gives the same
bytes. A vocabulary is a ``Literal`` whose spelling is the one in stored documents.
"""

from typing import Final, Literal, TypeAlias

from savant.contracts.document import Document, Part
from savant.contracts.scalars import (
    Count,
    Digest,
    GitId,
    Milliseconds,
    Name,
    NonEmptyText,
    PathText,
    PatternText,
    Positive,
    Set,
    Text,
)

OperationKind: TypeAlias = Literal[
    "create",
    "modify",
    "delete",
    "rename",
    "copy",
    "mode-change",
    "symlink-change",
    "type-change",
    "gitlink-change",
]
"""What a change does to one path. ``gitlink-change`` is named so that it can be refused."""

Phase: TypeAlias = Literal[
    "created",
    "planning",
    "reviewing",
    "planned",
    "attempting",
    "evaluating",
    "retry",
    "replan",
    "succeeded",
    "failed",
]

Outcome: TypeAlias = Literal[
    "completed", "unavailable", "timed-out", "cancelled", "invalid-output", "unsupported-capability"
]
"""How one provider call ended."""

FailureKind: TypeAlias = Literal[
    "rate-limited",
    "overloaded",
    "auth",
    "bad-request",
    "context-overflow",
    "output-too-long",
    "bad-gateway",
    "network",
    "malformed-output",
    "turn-limit",
    "budget",
    "denied",
    "no-change",
    "timeout",
    "cancelled",
    "config-error",
    "crash",
]
"""The finer reason under an outcome; kept, never merged."""

ReviewOutcome: TypeAlias = Literal["converged", "revise", "escalate"]
Severity: TypeAlias = Literal["info", "minor", "major", "blocking"]
CheckStatus: TypeAlias = Literal["passed", "failed", "skipped", "unavailable"]
Comparison: TypeAlias = Literal["regressed", "fixed", "still-failing", "new", "removed", "flaky"]
Recommendation: TypeAlias = Literal["accept", "retry-generation", "replan", "architect-review", "abort"]
Breaker: TypeAlias = Literal[
    "change-cap", "oscillation", "stagnation", "provider-failures", "tokens", "cost", "wall-clock", "calls"
]
Operation: TypeAlias = Literal[
    "interpretation", "planning", "review-observation", "generation", "evaluation-observation"
]

TerminalReason: TypeAlias = Literal[
    "candidate-ready-for-admission",
    "retry-budget-exhausted",
    "replan-budget-exhausted",
    "plan-not-converged",
    "architect-review-required",
    "escalated",
    "identity-drift-refused",
    "invalid-provider-output",
    "provider-unavailable",
    "provider-timed-out",
    "provider-cancelled",
    "unsupported-capability",
    "provider-failures-repeated",
    "evaluator-unavailable",
    "explicitly-aborted",
    "change-cap-exceeded",
    "oscillation-detected",
    "stagnated",
    "token-budget-exhausted",
    "cost-budget-exhausted",
    "wall-clock-exhausted",
    "call-budget-exhausted",
]


class Limitation(Part, frozen=True, kw_only=True):
    """Something that was not seen, not done or not proven; ``blocking`` ones forbid acceptance."""

    source: Name
    text: NonEmptyText
    blocking: bool


class Budgets(Part, frozen=True, kw_only=True):
    """What a run may consume at most. ``null`` means not limited, and every output says so."""

    retries: Count
    replans: Count
    provider_calls: Count | None
    wall_clock_ms: Milliseconds | None
    tokens: Count | None
    cost_microunits: Count | None


class Session(Document, frozen=True, kw_only=True, tag="savant.synthesis.session/v1"):
    """What one piece of work is bound to: identities, precommitted policies, immutable budgets."""

    repository_domain: NonEmptyText
    workspace_digest: Digest
    task_digest: Digest
    graph_digest: Digest
    closure_digest: Digest
    base_commit: GitId
    base_manifest_digest: Digest
    evaluator_policy_digest: Digest
    admission_policy_digest: Digest
    driver_policy_digest: Digest
    provider_config_digest: Digest
    objective: NonEmptyText
    budgets: Budgets
    retryable_outcomes: Set[Outcome]
    proof_obligations: Set[NonEmptyText]


class SourceReference(Part, frozen=True, kw_only=True):
    """A source that was read, by its content digest."""

    reference: NonEmptyText
    source_digest: Digest


class Interpretation(Document, frozen=True, kw_only=True, tag="savant.synthesis.interpretation/v1"):
    """What the task means here. The objective is the session's; the closure's records are copied in by the host."""

    session_digest: Digest
    objective: NonEmptyText
    applicable_intent: tuple[Text, ...]
    binding_invariants: tuple[Text, ...]
    relevant_contracts: tuple[Text, ...]
    authority_boundaries: tuple[Text, ...]
    known_failure_modes: tuple[Text, ...]
    forbidden_fixes: tuple[Text, ...]
    required_proof_obligations: Set[NonEmptyText]
    assumptions: tuple[Text, ...]
    unresolved_questions: tuple[Text, ...]
    source_references: tuple[SourceReference, ...]
    limitations: tuple[Limitation, ...]


class IntendedChange(Part, frozen=True, kw_only=True):
    """A promise: these kinds of change may happen to paths that match the pattern."""

    pattern: PatternText
    operations: Set[OperationKind]


class PlanStep(Part, frozen=True, kw_only=True):
    """One step of a plan. ``discharges`` names the proof obligations the step will evidence."""

    id: Name
    description: Text
    intended_changes: tuple[IntendedChange, ...]
    symbols: tuple[Text, ...]
    expected_evidence: tuple[Text, ...]
    discharges: Set[NonEmptyText]
    declares_gate_changes: bool


class Plan(Document, frozen=True, kw_only=True, tag="savant.synthesis.plan/v1"):
    """Ordered steps; the union of their intended changes is the promised scope.

    ``promise`` is ``declared`` for a plan made before generation and ``none`` for a change that already existed
    (an import): then nothing was promised, and every output says so.
    """

    interpretation_digest: Digest
    generation: Positive
    promise: Literal["declared", "none"]
    steps: tuple[PlanStep, ...]
    assumptions: tuple[Text, ...]
    risks: tuple[Text, ...]
    stop_conditions: tuple[Text, ...]


class ReviewFinding(Part, frozen=True, kw_only=True):
    """One finding about a plan."""

    id: Name
    severity: Severity
    step: Name | None
    text: NonEmptyText
    citation: Text


class PlanReview(Document, frozen=True, kw_only=True, tag="savant.synthesis.plan-review/v1"):
    """The findings about one plan and what follows from them."""

    plan_digest: Digest
    findings: tuple[ReviewFinding, ...]
    reviewers: Set[Name]
    outcome: ReviewOutcome


class Attempt(Document, frozen=True, kw_only=True, tag="savant.synthesis.attempt/v1"):
    """One generation. The three digests are null exactly when there is no candidate."""

    number: Positive
    generation: Positive
    plan_digest: Digest
    provider_digest: Digest
    outcome: Outcome
    failure_kind: FailureKind | None
    input_digest: Digest | None
    change_digest: Digest | None
    final_digest: Digest | None


class Finding(Part, frozen=True, kw_only=True):
    """What a check saw at one place, with times, addresses and surface paths normalised away."""

    check: Name
    status: CheckStatus
    path: PathText | None
    line: Positive | None
    message: Text
    excerpt: Text


class Check(Part, frozen=True, kw_only=True):
    """One check of one evaluator, on the candidate and, where measured, on the base.

    A ``flaky`` one passed and failed on the same tree. ``excuse`` names the excuse of the policy under which a failed
    check does not count.
    """

    evaluator: Name
    check: Name
    status: CheckStatus
    base_status: CheckStatus | None
    comparison: Comparison | None
    excuse: Name | None
    required: bool
    findings: tuple[Finding, ...]


class Evaluation(Document, frozen=True, kw_only=True, tag="savant.synthesis.evaluation/v1"):
    """What the evaluators found about one sealed candidate, and the one recommendation that follows."""

    attempt_digest: Digest
    candidate_digest: Digest
    checks: tuple[Check, ...]
    failure_classes: Set[Name]
    recommendation: Recommendation
    limitations: tuple[Limitation, ...]


class ProofDischarge(Document, frozen=True, kw_only=True, tag="savant.synthesis.proof-discharge/v1"):
    """Evidence that one obligation holds for exactly this candidate."""

    obligation: NonEmptyText
    candidate_digest: Digest
    evidence_digest: Digest


class Receipt(Document, frozen=True, kw_only=True, tag="savant.synthesis.receipt/v1"):
    """The one terminal receipt of a session. It is never rewritten; later evidence lives beside it."""

    session_digest: Digest
    reason: TerminalReason
    plan_digest: Digest | None
    attempt_digest: Digest | None
    evaluation_digest: Digest | None
    candidate_digest: Digest | None
    retries_consumed: Count
    replans_consumed: Count
    calls_consumed: Count
    drifted: Set[Name]
    limitations: tuple[Limitation, ...]


class ObservedIdentities(Document, frozen=True, kw_only=True, tag="savant.synthesis.observed-identities/v1"):
    """The identities as observed again before a resume; compared with the session member by member."""

    repository_domain: NonEmptyText
    workspace_digest: Digest
    task_digest: Digest
    graph_digest: Digest
    closure_digest: Digest
    base_commit: GitId
    base_manifest_digest: Digest
    evaluator_policy_digest: Digest
    admission_policy_digest: Digest
    driver_policy_digest: Digest
    provider_config_digest: Digest


class State(Document, frozen=True, kw_only=True, tag="savant.synthesis.state/v1"):
    """All that the machine knows. ``expected_*`` are reservations, set by a start and cleared by its record."""

    session: Session
    phase: Phase
    interpretation_digest: Digest | None
    generation: Count
    expected_generation: Positive | None
    plan_digest: Digest | None
    plan_review_digest: Digest | None
    attempt_number: Count
    expected_attempt: Positive | None
    attempt_digest: Digest | None
    evaluation_digest: Digest | None
    candidate_digest: Digest | None
    retries_left: Count
    replans_left: Count
    calls: Count
    receipt: Receipt | None


class Transition(Document, frozen=True, kw_only=True, tag="savant.synthesis.transition/v1"):
    """One accepted command, so that a ledger alone is enough to fold the machine again.

    ``argument_digest`` names the document the command carried; ``argument`` is the word it carried (a breaker, an
    operation, a reason code), empty where it carried none.
    """

    session_digest: Digest
    index: Count
    command: Name
    argument_digest: Digest | None
    argument: Text
    phase_before: Phase
    phase_after: Phase
    events: tuple[Name, ...]
    state_digest: Digest


DOCUMENTS: Final[tuple[type[Document], ...]] = (
    Session,
    Interpretation,
    Plan,
    PlanReview,
    Attempt,
    Evaluation,
    ProofDischarge,
    Receipt,
    ObservedIdentities,
    State,
    Transition,
)
