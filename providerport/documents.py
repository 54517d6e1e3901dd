"""The documents of O2, the provider port.

A request carries exactly what its operation needs; a retry or replan carries ``prior``, the bounded findings of what
failed. Receipts hold no time and no usage: those are observations of the ledger record.
"""

from typing import Final, Literal, TypeAlias

from savant.contracts.document import Document, Part
from savant.contracts.scalars import (
    Bytes,
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
from synthesis.documents import (
    Attempt,
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
    Severity,
)

Side: TypeAlias = Literal["base", "candidate"]
"""Which of the two trees is meant."""
Verdict: TypeAlias = Literal["confirmed", "refuted", "adjusted"]
"""What an adversary says of a finding."""


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


class Citation(Part, frozen=True, kw_only=True):
    """The lines that a finding is about, as they are said to stand there: ``text`` is theirs, from ``line`` on."""

    path: PathText
    side: Side
    line: Positive
    end_line: Positive
    text: Text


class AuditFinding(Part, frozen=True, kw_only=True):
    """What an auditor says is wrong with a candidate, and where that can be seen."""

    id: Name
    severity: Severity
    text: NonEmptyText
    citations: tuple[Citation, ...]


class AuditVerdict(Part, frozen=True, kw_only=True):
    """What an adversary says of one finding; ``severity`` is its own for ``adjusted``, else null."""

    finding: Name
    verdict: Verdict
    severity: Severity | None
    text: Text


class AuditReport(Part, frozen=True, kw_only=True):
    """What an auditor found in a candidate. There is no word in it that lets anything pass.

    ``verdicts`` are an adversary's, about the findings that its task carries; its own ``findings`` are what it says
    was left out.
    """

    candidate_digest: Digest
    findings: tuple[AuditFinding, ...]
    verdicts: tuple[AuditVerdict, ...]


class AuditedChange(Part, frozen=True, kw_only=True):
    """One changed path and its change as a unified diff; null where it did not fit or is no text."""

    path: PathText
    diff: Text | None


class AuditTask(Part, frozen=True, kw_only=True):
    """What an auditor is given: what was wanted, what was promised, what was changed.

    ``audited`` is the report that an adversary examines; null for the first auditor.
    """

    candidate_digest: Digest
    objective: Text
    plan: Plan
    changes: tuple[AuditedChange, ...]
    audited: AuditReport | None


class Request(Document, frozen=True, kw_only=True, tag="savant.providerport.request/v1"):
    """One call. ``parent_digest`` names the document the operation starts from:

    interpretation: the session; planning: the interpretation; review-observation and generation: the plan;
    evaluation-observation: the attempt. That document is carried, every other payload member is null. An
    evaluation-observation carries the audit's task beside it.
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
    audit: AuditTask | None


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
    audit: AuditReport | None


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
