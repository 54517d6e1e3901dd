"""The documents of O4, evaluation. An evaluator returns findings, never a recommendation."""

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
    Set,
    Text,
)
from synthesis.documents import Check, Limitation, Recommendation

EvaluatorKind: TypeAlias = Literal["command", "scope", "forbidden-paths"]
ResultFormat: TypeAlias = Literal["exit-status", "junit"]
Rule: TypeAlias = Literal["all-pass", "no-regression"]
EvaluatorOutcome: TypeAlias = Literal["completed", "unavailable", "timed-out", "cancelled"]

Disposition: TypeAlias = Literal[
    "invalid-output-terminated",
    "candidate-load-failure",
    "materialization-failure",
    "required-evaluator-unavailable",
    "composition-failure",
    "evaluated",
]


class EvaluatorConfig(Part, frozen=True, kw_only=True):
    """One precommitted evaluator.

    ``argv`` is direct, never a shell; its first element may be a bare name that the host resolves once. ``rule``
    ``no-regression`` measures the base too. ``patterns`` are the forbidden paths of kind ``forbidden-paths``.
    """

    id: Name
    evaluator: EvaluatorKind
    required: bool
    rule: Rule
    argv: tuple[NonEmptyText, ...]
    result_format: ResultFormat
    report_path: PathText | None
    timeout_ms: Milliseconds
    max_capture_bytes: Bytes
    patterns: Set[PatternText]
    failure_class: Name


class NormaliserConfig(Part, frozen=True, kw_only=True):
    """A formatter that runs on the candidate before the seal."""

    id: Name
    argv: tuple[NonEmptyText, ...]
    patterns: Set[PatternText]
    timeout_ms: Milliseconds


class ClassRule(Part, frozen=True, kw_only=True):
    """A recommendation for a failure class; it may raise the built-in floor, never lower it."""

    failure_class: Name
    recommendation: Recommendation


class Policy(Document, frozen=True, kw_only=True, tag="savant.evaluator.policy/v1"):
    """How candidates are judged, precommitted in the session.

    ``toolchain`` names directories of the checkout (``.venv``, ``node_modules``) that evaluators may reuse;
    ``environment`` the names they may see; ``network`` whether their commands may use the network, which only a person
    can open; the two finding limits bound what reaches the next request.
    """

    evaluators: Set[EvaluatorConfig]
    toolchain: Set[PathText]
    environment: Set[Name]
    network: Literal["open", "none"]
    recommendations: Set[ClassRule]
    normalisers: tuple[NormaliserConfig, ...]
    max_findings: Count
    max_finding_bytes: Bytes


class Descriptor(Document, frozen=True, kw_only=True, tag="savant.evaluator.descriptor/v1"):
    """Who evaluated: configuration and the executable's digest."""

    evaluator: Name
    evaluator_kind: EvaluatorKind
    version: Name
    config_digest: Digest
    executable_digest: Digest | None
    deterministic: bool
    limitations: tuple[Limitation, ...]


class Input(Document, frozen=True, kw_only=True, tag="savant.evaluator.input/v1"):
    """What one evaluator was given."""

    evaluator: Name
    session_digest: Digest
    attempt_digest: Digest
    candidate_digest: Digest
    policy_digest: Digest
    base_commit: GitId
    base_manifest_digest: Digest
    final_digest: Digest
    measures_base: bool
    toolchain_digest: Digest | None


class Result(Document, frozen=True, kw_only=True, tag="savant.evaluator.result/v1"):
    """What one evaluator found. It has no recommendation."""

    evaluator: Name
    descriptor_digest: Digest
    input_digest: Digest
    outcome: EvaluatorOutcome
    checks: tuple[Check, ...]
    failure_classes: Set[Name]
    limitations: tuple[Limitation, ...]
    detail: Text


class ResultBinding(Part, frozen=True, kw_only=True):
    """One evaluator's place in an evaluation."""

    evaluator: Name
    descriptor_digest: Digest
    input_digest: Digest
    result_digest: Digest


class Receipt(Document, frozen=True, kw_only=True, tag="savant.evaluator.receipt/v1"):
    """How evaluation of one attempt ended; presence of members is a function of the disposition."""

    session_digest: Digest
    attempt_digest: Digest
    runner_receipt_digest: Digest
    policy_digest: Digest
    candidate_digest: Digest | None
    candidate_verified: bool
    results: Set[ResultBinding]
    evaluation_digest: Digest | None
    disposition: Disposition
    failure_code: Text
    failure_detail: Text
    cleanup_succeeded: bool | None


DOCUMENTS: Final[tuple[type[Document], ...]] = (Policy, Descriptor, Input, Result, Receipt)
