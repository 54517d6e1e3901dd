"""The documents of O2, the provider port.

A request carries exactly what its operation needs; a retry or replan carries ``prior``, the bounded findings of what
failed. Receipts hold no time and no usage: those are observations of the ledger record.
"""

from typing import Final

from savant.contracts.document import Document, Part
from savant.contracts.scalars import (
    Bytes,
    Count,
    Digest,
    GitId,
    Milliseconds,
    Name,
    NonEmptyText,
    PatternText,
    Positive,
    Set,
    Text,
)
from synthesis.documents import (
    Attempt,
    Evaluation,
    FailureKind,
    Finding,
    Interpretation,
    Limitation,
    Operation,
    Outcome,
    Plan,
    PlanReview,
    ReviewFinding,
    Session,
)


class Capabilities(Document, frozen=True, kw_only=True, tag="savant.providerport.capabilities/v1"):
    """What a provider claims to be and to do. A claim is not authority.

    ``identity_digest`` is the digest of the host's own observation of the provider (executable, flags, configuration).
    """

    provider: Name
    provider_kind: Name
    model: Text
    identity_digest: Digest
    operations: Set[Operation]
    reports_usage: bool


class Prior(Part, frozen=True, kw_only=True):
    """What failed before, within the policy's byte limit; ``dropped`` counts findings that did not fit."""

    plan_review_digest: Digest | None
    attempt_digest: Digest | None
    evaluation_digest: Digest | None
    outcome: Outcome | None
    failure_kind: FailureKind | None
    findings: tuple[Finding, ...]
    review_findings: tuple[ReviewFinding, ...]
    dropped: Count


class Request(Document, frozen=True, kw_only=True, tag="savant.providerport.request/v1"):
    """One call. ``parent_digest`` names the document the operation starts from:

    interpretation: the session; planning: the interpretation; review-observation and generation: the plan;
    evaluation-observation: the attempt. That document is carried, every other payload member is null.
    """

    operation: Operation
    session_digest: Digest
    repository_domain: NonEmptyText
    base_commit: GitId
    base_manifest_digest: Digest
    parent_digest: Digest
    generation: Positive | None
    attempt_number: Positive | None
    scope: Set[PatternText]
    deadline_ms: Milliseconds
    max_observations: Count
    max_observation_bytes: Bytes
    prior: Prior | None
    session: Session | None
    interpretation: Interpretation | None
    plan: Plan | None
    attempt: Attempt | None


class GenerationClaim(Part, frozen=True, kw_only=True):
    """What a provider says it did. Declared digests are compared by the runner, never used and never repaired."""

    summary: Text
    declared_change_digest: Digest | None
    declared_final_digest: Digest | None


class Result(Document, frozen=True, kw_only=True, tag="savant.providerport.result/v1"):
    """How a call ended. Exactly the payload of the request's operation is present, and only when ``completed``."""

    request_digest: Digest
    operation: Operation
    outcome: Outcome
    failure_kind: FailureKind | None
    detail: Text
    interpretation: Interpretation | None
    plan: Plan | None
    review: PlanReview | None
    generation: GenerationClaim | None
    evaluation: Evaluation | None


class Observation(Part, frozen=True, kw_only=True):
    """One line a provider said while it worked: evidence, not authority."""

    sequence: Positive
    text: Text


class Observations(Document, frozen=True, kw_only=True, tag="savant.providerport.observations/v1"):
    """The bounded lines of one call, with the count of those that did not fit."""

    request_digest: Digest
    items: tuple[Observation, ...]
    dropped: Count


class Receipt(Document, frozen=True, kw_only=True, tag="savant.providerport.receipt/v1"):
    """The one receipt of one call. ``payload_digest`` is present exactly when the outcome is ``completed``."""

    request_digest: Digest
    capabilities_digest: Digest
    operation: Operation
    outcome: Outcome
    failure_kind: FailureKind | None
    result_digest: Digest
    payload_digest: Digest | None
    limitations: tuple[Limitation, ...]


DOCUMENTS: Final[tuple[type[Document], ...]] = (Capabilities, Request, Result, Observations, Receipt)
