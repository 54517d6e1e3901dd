"""The documents of O7, the driver."""

from typing import Final, Literal, TypeAlias

from savant.contracts.document import Document, Part
from savant.contracts.scalars import Bytes, Code, Count, Digest, Milliseconds, Name, Positive, Set, Text
from synthesis.documents import IntendedChange, Limitation, Outcome, Phase, TerminalReason

Stage: TypeAlias = Literal["synthesis", "admission", "application-pending", "application", "verification"]

RunDisposition: TypeAlias = Literal[
    "candidate-ready",
    "admitted",
    "admitted-with-conditions",
    "waiting",
    "admission-refused",
    "uncertifiable",
    "applied-compliant",
    "applied-violated",
    "apply-failed",
    "verification-failed",
    "terminal-failure",
    "provider-stopped",
    "runner-stopped",
    "step-limit-reached",
    "not-ready",
    "resume-refused",
    "interrupted",
]


class Policy(Document, frozen=True, kw_only=True, tag="savant.driver.policy/v1"):
    """The precommitted limits of the loop. A deadline belongs to one call, never to the run.

    ``allow_unsandboxed``: the person lets commands run with less containment than is demanded of them.
    """

    max_steps: Positive
    interpretation_deadline_ms: Milliseconds
    planning_deadline_ms: Milliseconds
    generation_deadline_ms: Milliseconds
    max_observations: Count
    max_observation_bytes: Bytes
    max_prior_bytes: Bytes
    ledger_mode: Literal["off", "record", "enforce"]
    allow_unsandboxed: bool
    retryable_outcomes: Set[Outcome]


class CallLimit(Part, frozen=True, kw_only=True):
    """The most that one provider call may use, in tokens: what is set aside before the call is made."""

    tokens_in: Count
    tokens_out: Count


class Price(Part, frozen=True, kw_only=True):
    """What a million tokens of a model cost, in millionths of the currency unit: read, read from a cache, written."""

    input_microunits: Count
    cached_microunits: Count
    output_microunits: Count


class Accounting(Document, frozen=True, kw_only=True, tag="savant.driver.accounting/v1"):
    """How the calls of a run are counted, fixed before the first one.

    ``price`` is for the calls of ``model``, which is empty for a provider that names none; null where there is none.
    """

    model: Text
    call: CallLimit
    price: Price | None


class ReadinessItem(Part, frozen=True, kw_only=True):
    """One thing a run needs, whether it is there, and the command that supplies it."""

    name: Name
    ready: bool
    code: Code
    detail: Text
    fix: Text


class Readiness(Document, frozen=True, kw_only=True, tag="savant.driver.readiness/v1"):
    """Whether a run may start. Made before any provider is called."""

    ready: bool
    items: tuple[ReadinessItem, ...]


class Savepoint(Document, frozen=True, kw_only=True, tag="savant.driver.savepoint/v1"):
    """Where a run stands before its next owner call. The newest of a run wins."""

    session_digest: Digest
    sequence: Positive
    stage: Stage
    phase: Phase
    state_digest: Digest
    steps: Count
    next_call: Name
    subject_digest: Digest | None


class Receipt(Document, frozen=True, kw_only=True, tag="savant.driver.receipt/v1"):
    """What a run came to: one disposition and every digest that an audit needs, in the order they were made."""

    session_digest: Digest
    disposition: RunDisposition
    phase: Phase
    reason: TerminalReason | None
    steps: Count
    state_digest: Digest
    provider_receipts: tuple[Digest, ...]
    runner_receipts: tuple[Digest, ...]
    evaluation_receipts: tuple[Digest, ...]
    synthesis_receipt_digest: Digest | None
    candidate_digest: Digest | None
    admission_request_digest: Digest | None
    decision_digest: Digest | None
    application_receipt_digest: Digest | None
    verification_digest: Digest | None
    limitations: tuple[Limitation, ...]


class Amendment(Document, frozen=True, kw_only=True, tag="savant.driver.amendment/v1"):
    """A promise widened once, by exactly what one attempt changed beside it; recorded before that candidate.

    ``change_digest`` names the change set of the attempt. The wider promise holds for later attempts of the same plan.
    """

    plan_digest: Digest
    attempt_number: Positive
    change_digest: Digest
    changes: tuple[IntendedChange, ...]


DOCUMENTS: Final[tuple[type[Document], ...]] = (Policy, Accounting, Readiness, Savepoint, Amendment, Receipt)
