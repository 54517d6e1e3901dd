"""The documents of O4, evaluation. An evaluator returns findings, never a recommendation."""

from typing import Final, Literal, TypeAlias

from providerport.documents import Verdict
from savant.contracts.document import Document, Part
from savant.contracts.scalars import (
    Bytes,
    Count,
    Date,
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
from synthesis.documents import Check, Limitation, Recommendation, Severity

EvaluatorKind: TypeAlias = Literal[
    "command",
    "held-out",
    "scope",
    "custody",
    "forbidden-paths",
    "forbidden-content",
    "change-size",
    "known-failures",
    "secrets",
    "blobs",
    "companions",
    "model-audit",
]
COMMAND_KINDS: Final[frozenset[EvaluatorKind]] = frozenset({"command", "held-out"})
"""The kinds that run a command on a copy of the candidate."""
ResultFormat: TypeAlias = Literal["exit-status", "junit", "sarif", "tap"]
Rule: TypeAlias = Literal["all-pass", "no-regression", "no-new", "must-fix"]
EvaluatorOutcome: TypeAlias = Literal["completed", "unavailable", "timed-out", "cancelled"]

Disposition: TypeAlias = Literal[
    "invalid-output-terminated",
    "candidate-load-failure",
    "materialization-failure",
    "required-evaluator-unavailable",
    "composition-failure",
    "evaluated",
]


class ChangeSize(Part, frozen=True, kw_only=True):
    """How much may change: edit distances in parts per million of both contents, of one file and of all together.

    ``new_files`` says what a new file counts as: nothing, its whole size, or a finding.
    """

    file_ppm: Count
    total_ppm: Count
    new_files: Literal["ignore", "count", "refuse"]


class Signature(Part, frozen=True, kw_only=True):
    """A known failure: all of these texts stand in one finding of a check, or in one file's added lines."""

    id: Name
    where: Literal["findings", "added-lines"]
    texts: Set[NonEmptyText]
    reason: NonEmptyText


class Companion(Part, frozen=True, kw_only=True):
    """Where a path matching ``when`` changes, one matching ``need`` must change too."""

    when: Set[PatternText]
    need: Set[PatternText]


class AuditConfig(Part, frozen=True, kw_only=True):
    """Who audits, by the digest of their configuration, and how much of the change they are given.

    ``adversary_digest`` is null where nobody examines the findings. A diff that does not fit is left out and named.
    """

    reviewer_digest: Digest
    adversary_digest: Digest | None
    max_diff_bytes: Bytes


class EvaluatorConfig(Part, frozen=True, kw_only=True):
    """One precommitted evaluator.

    ``argv`` is direct, never a shell; its first element may be a bare name that the host resolves once. ``directory``
    is the folder of the tree that the command starts in, null for its root. Every rule but ``all-pass`` measures the
    base too; ``must_fix`` names the checks that must pass under ``must-fix``. A check that failed is run ``repeats``
    times more before it is believed. ``max_capture_bytes`` bounds what a command may write, ``max_bundle_bytes`` what
    of it goes into the result. ``patterns`` and ``texts`` belong to the built-ins that say so; the last members to one
    kind each.
    """

    id: Name
    evaluator: EvaluatorKind
    required: bool
    rule: Rule
    argv: tuple[NonEmptyText, ...]
    directory: PathText | None
    result_format: ResultFormat
    report_path: PathText | None
    timeout_ms: Milliseconds
    max_capture_bytes: Bytes
    max_bundle_bytes: Bytes
    repeats: Count
    must_fix: Set[Name]
    patterns: Set[PatternText]
    texts: Set[NonEmptyText]
    failure_class: Name
    change_size: ChangeSize | None
    signatures: Set[Signature]
    companions: Set[Companion]
    suite_digest: Digest | None
    audit: AuditConfig | None


class PrepareConfig(Part, frozen=True, kw_only=True):
    """A step that makes folders for the checks of a tree; they are kept under the digest of what they depend on.

    ``locks`` are the files of the tree that the step sees, ``outputs`` the folders that it makes, ``directory`` the
    folder that it starts in, null for the root. Its network is its own, and open only where it says so.
    """

    id: Name
    argv: tuple[NonEmptyText, ...]
    directory: PathText | None
    locks: Set[PatternText]
    outputs: Set[PathText]
    network: Literal["open", "none"]
    timeout_ms: Milliseconds


class Custody(Part, frozen=True, kw_only=True):
    """Which files judge: existing ones come from the base when a candidate is judged.

    A new file under ``tests`` is the candidate's own; a new one under ``gates`` is not there. ``gates`` wins.
    """

    tests: Set[PatternText]
    gates: Set[PatternText]


class Excuse(Part, frozen=True, kw_only=True):
    """Why checks may fail, for a while: names of checks of one evaluator, ``*`` for any characters in them.

    It holds up to and including ``expires``; null for ever.
    """

    id: Name
    evaluator: Name
    checks: Set[NonEmptyText]
    reason: NonEmptyText
    expires: Date | None


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
    can open; ``prepares`` the steps, in order, that make folders in place of the checkout's; the two finding limits
    bound what reaches the next request. ``as_of`` is the day on which excuses are judged, null where none can expire.
    """

    evaluators: Set[EvaluatorConfig]
    toolchain: Set[PathText]
    environment: Set[Name]
    network: Literal["open", "none"]
    recommendations: Set[ClassRule]
    normalisers: tuple[NormaliserConfig, ...]
    prepares: tuple[PrepareConfig, ...]
    custody: Custody
    excuses: Set[Excuse]
    as_of: Date | None
    max_findings: Count
    max_finding_bytes: Bytes


class SuiteFile(Part, frozen=True, kw_only=True):
    """One file of a held-out suite."""

    path: PathText
    content_digest: Digest
    size_bytes: Bytes


class Suite(Document, frozen=True, kw_only=True, tag="savant.evaluator.suite/v1"):
    """A held-out suite: committed by its digest in the policy, recorded when it has run."""

    files: tuple[SuiteFile, ...]


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
    """What one evaluator was given.

    ``judged_digest`` is the manifest that its commands saw: the candidate's, with ``restored`` taken from the base.
    ``prepared_digest`` is the digest of the steps and of the files of that tree from which its folders are prepared,
    ``base_prepared_digest`` of those of the base; null where there are no steps, or that tree is not measured.
    """

    evaluator: Name
    session_digest: Digest
    attempt_digest: Digest
    candidate_digest: Digest
    policy_digest: Digest
    base_commit: GitId
    base_manifest_digest: Digest
    final_digest: Digest
    judged_digest: Digest
    restored: Set[PathText]
    measures_base: bool
    toolchain_digest: Digest | None
    prepared_digest: Digest | None
    base_prepared_digest: Digest | None


class JudgedFinding(Part, frozen=True, kw_only=True):
    """What the host made of one finding of an audit, by rules alone.

    ``shown`` of its ``citations`` stand where they are said to. ``verdict`` is the adversary's, null where it gave
    none; ``severity`` is what counts in the end, ``info`` for a finding that was refuted.
    """

    auditor: Literal["reviewer", "adversary"]
    id: Name
    claimed: Severity
    severity: Severity
    verdict: Verdict | None
    citations: Count
    shown: Count
    counts: Literal["no", "needs-review", "failed"]


class Audit(Document, frozen=True, kw_only=True, tag="savant.evaluator.audit/v1"):
    """An audit by models, resolved: what they said is in the results of the provider port that it names.

    It can stop a candidate (``failed``) or ask for a person (``needs-review``); ``passed`` says only that nothing
    which counts was found, and discharges nothing.
    """

    candidate_digest: Digest
    reviewer_result_digest: Digest
    adversary_result_digest: Digest | None
    findings: tuple[JudgedFinding, ...]
    outcome: Literal["passed", "needs-review", "failed"]


class Result(Document, frozen=True, kw_only=True, tag="savant.evaluator.result/v1"):
    """What one evaluator found. It has no recommendation. ``audit_digest`` names the audit that it is made of."""

    evaluator: Name
    descriptor_digest: Digest
    input_digest: Digest
    outcome: EvaluatorOutcome
    checks: tuple[Check, ...]
    failure_classes: Set[Name]
    limitations: tuple[Limitation, ...]
    detail: Text
    audit_digest: Digest | None


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


DOCUMENTS: Final[tuple[type[Document], ...]] = (
    Policy,
    Suite,
    Descriptor,
    Input,
    Audit,
    Result,
    Receipt,
)
