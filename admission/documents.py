"""The documents of O5A, admission. Admission says what may be applied; it is never a claim of correctness."""

from typing import Final, Literal, TypeAlias

from runner.documents import FileState
from savant.contracts.containment import SandboxLevel
from savant.contracts.document import Document, Part
from savant.contracts.scalars import (
    Code,
    Count,
    Date,
    Digest,
    GitId,
    Name,
    NonEmptyText,
    PathText,
    PatternText,
    Set,
    Text,
)
from synthesis.documents import IntendedChange, Limitation, OperationKind

Outcome: TypeAlias = Literal["admitted", "admitted-with-conditions", "waiting", "refused", "uncertifiable"]
VerificationStatus: TypeAlias = Literal["scope-compliant", "scope-violated", "stale", "uncertifiable"]
Enforcement: TypeAlias = Literal["audit", "warn", "enforce"]
"""What a rule does where it decides: it is recorded; a limitation says so as well; it asks or refuses."""

Choice: TypeAlias = Literal["allow", "ask", "refuse"]
GateMode: TypeAlias = Literal["report", "declared", "all"]
CustodyLevel: TypeAlias = Literal["A", "B", "C"]
"""A: every key may be on the requester's machine; B: evaluator and admission keys are in CI; C: B and a witness."""


class PathRule(Part, frozen=True, kw_only=True):
    """One rule over paths: operations of these kinds on paths that match any pattern. An empty set means every kind."""

    id: Name
    patterns: Set[PatternText]
    operations: Set[OperationKind]
    reason: NonEmptyText
    enforcement: Enforcement


class CompanionRule(Part, frozen=True, kw_only=True):
    """If a path matching ``when`` changes, one matching ``need`` must change too, else a condition is raised."""

    id: Name
    when: Set[PatternText]
    need: Set[PatternText]
    reason: NonEmptyText
    enforcement: Enforcement


class Limits(Part, frozen=True, kw_only=True):
    """Sizes above which a person is asked, or the candidate is refused. Lines are added lines of text files."""

    files_ask: Count
    files_refuse: Count
    added_lines_ask: Count
    added_lines_refuse: Count
    deletions_ask: Count
    deletions_refuse: Count


class Sandboxes(Part, frozen=True, kw_only=True):
    """The least containment of each kind of command: steps of a recipe or an import, a command on the wire, an agent, a
    check or formatter. Commands that the repository names and nobody trusted need S2 whatever is written here.
    """

    recipe: SandboxLevel
    command: SandboxLevel
    agent: SandboxLevel
    check: SandboxLevel


class Staged(Part, frozen=True, kw_only=True):
    """How far a built-in rule is enforced; one that is not named is enforced."""

    rule: Name
    enforcement: Enforcement


class Exemption(Part, frozen=True, kw_only=True):
    """An exception: a rule does not see changes of paths that match, up to and including ``expires``; null for ever."""

    id: Name
    rule: Name
    patterns: Set[PatternText]
    reason: NonEmptyText
    expires: Date | None


class Extends(Part, frozen=True, kw_only=True):
    """The floor that a policy stands on: a file at the base, pinned by the BLAKE3 of its bytes, which it only tightens.

    ``rules`` are the ids of the rules that came from there; ``allow`` holds beside the policy's own.
    """

    bundle: PathText
    bundle_digest: Digest
    rules: Set[Name]
    allow: Set[PatternText]


class GatePolicy(Part, frozen=True, kw_only=True):
    """What the gate stops, by the policy of the branch that a change goes to.

    ``report`` stops nothing and says what it would; ``declared`` judges the commits that say they are governed; ``all``
    every commit. ``custody`` is the least that evidence may have; ``evaluate``: evaluators run again in CI.
    """

    mode: GateMode
    custody: CustodyLevel
    evaluate: bool


class Policy(Document, frozen=True, kw_only=True, tag="savant.admission.policy/v1"):
    """The admission policy in force: the base revision's, or the built-in starter. A floor is in it already.

    ``codeowners``: whether the owners of a changed path must acknowledge it; ``amendment``: whether a promise may be
    widened once, before the seal, if a person agrees; ``secrets``: what is done about secrets in added lines.
    """

    origin: Literal["starter", "repository"]
    allow: Set[PatternText]
    refuse: Set[PathRule]
    ask: Set[PathRule]
    companions: Set[CompanionRule]
    limits: Limits
    no_required_check: Choice
    new_links: Choice
    new_executables: Choice
    secrets: Choice
    codeowners: Literal["ignore", "ask"]
    amendment: Literal["refuse", "ask"]
    self_acknowledgement: Literal["allow", "refuse"]
    gate_accepts_starter: bool
    gate: GatePolicy
    staged: Set[Staged]
    exceptions: Set[Exemption]
    extends: Extends | None
    sandbox: Sandboxes


class ScopeEntry(Part, frozen=True, kw_only=True):
    """One changed path, derived from the base and sealed manifests, never from prose."""

    path: PathText
    kind: OperationKind
    source: PathText | None
    before: FileState | None
    after: FileState | None
    added_lines: Count
    removed_lines: Count
    added_secrets: Count
    binary: bool


class LineageCheck(Part, frozen=True, kw_only=True):
    """One lineage check of the composition and its answer."""

    name: Name
    passed: bool
    detail: Text


class Owned(Part, frozen=True, kw_only=True):
    """Changed paths with the same owners at the base, and the handles of the people who stand for those owners.

    ``reviewers`` null: the base lists no people, so anybody may stand for them; empty: nobody who is listed does.
    """

    owners: Set[NonEmptyText]
    paths: Set[PathText]
    reviewers: Set[NonEmptyText] | None


class Request(Document, frozen=True, kw_only=True, tag="savant.admission.request/v1"):
    """The sealed chain of one candidate, its real scope and its promise. ``promise`` null: nothing was promised.

    ``amendment`` is what the promise was widened by before the seal; empty when it was not.

    ``lineage`` holds every check of the chain; one that failed makes the decision ``uncertifiable``. ``limitations``
    are those of the attempt and of its evaluation; a decision repeats them. ``custody`` are the changed paths that
    judge; ``as_of`` is the day on which exceptions are judged, null where none can expire.
    """

    session_digest: Digest
    plan_digest: Digest
    attempt_digest: Digest
    evaluation_digest: Digest
    synthesis_receipt_digest: Digest
    runner_receipt_digest: Digest
    evaluation_receipt_digest: Digest
    candidate_digest: Digest
    policy_digest: Digest
    base_commit: GitId
    input_digest: Digest
    change_digest: Digest
    final_digest: Digest
    scope: tuple[ScopeEntry, ...]
    custody: Set[PathText]
    owners: Set[Owned]
    promise: tuple[IntendedChange, ...] | None
    amendment: tuple[IntendedChange, ...]
    required_checks: Count
    lineage: tuple[LineageCheck, ...]
    limitations: tuple[Limitation, ...]
    requester: Text
    as_of: Date | None


class Reason(Part, frozen=True, kw_only=True):
    """Why: a dotted code, the rule that decided, and the path it decided on."""

    code: Code
    rule: Name
    path: PathText | None
    detail: Text


class Condition(Part, frozen=True, kw_only=True):
    """Something a person must acknowledge. ``id`` is stable: the rule's id.

    ``reviewers`` are the handles of those who may, and the requester never counts as one; null for anybody.
    """

    id: Name
    code: Code
    paths: Set[PathText]
    reason: NonEmptyText
    reviewers: Set[NonEmptyText] | None


class Observed(Part, frozen=True, kw_only=True):
    """What a rule that is not enforced would have decided."""

    rule: Name
    code: Code
    enforcement: Literal["audit", "warn"]
    paths: Set[PathText]
    reason: NonEmptyText


class EnvelopeEntry(Part, frozen=True, kw_only=True):
    """One path the candidate may touch, with the one kind of change that is admitted there."""

    path: PathText
    kind: OperationKind


class AcknowledgementStatement(Part, frozen=True, kw_only=True):
    """What a person signs: exactly this decision, condition and candidate."""

    decision_digest: Digest
    condition: Name
    candidate_digest: Digest
    by: NonEmptyText
    note: Text


class Acknowledgement(Document, frozen=True, kw_only=True, tag="savant.admission.acknowledgement/v1"):
    """A statement and the SSHSIG over its canonical bytes (namespace ``savant-acknowledgement``)."""

    statement: AcknowledgementStatement
    public_key: NonEmptyText
    sshsig: NonEmptyText


class AcknowledgedCondition(Part, frozen=True, kw_only=True):
    """A condition somebody met, and whether that was the requester."""

    condition: Name
    by: NonEmptyText
    keyid: NonEmptyText
    is_requester: bool
    acknowledgement_digest: Digest


class Decision(Document, frozen=True, kw_only=True, tag="savant.admission.decision/v1"):
    """What may be applied. ``unacknowledged_digest`` names the decision without acknowledgements that people signed.

    ``scope_only`` is always true and ``correctness_certified`` always false.
    """

    request_digest: Digest
    policy_digest: Digest
    candidate_digest: Digest
    outcome: Outcome
    reasons: tuple[Reason, ...]
    conditions: Set[Condition]
    acknowledged: Set[AcknowledgedCondition]
    envelope: tuple[EnvelopeEntry, ...]
    observed: Set[Observed]
    limitations: tuple[Limitation, ...]
    unacknowledged_digest: Digest | None
    scope_only: Literal[True]
    correctness_certified: Literal[False]


class Receipt(Document, frozen=True, kw_only=True, tag="savant.admission.receipt/v1"):
    """The composition: the decision beside the frozen synthesis receipt. Append-only evidence."""

    request_digest: Digest
    decision_digest: Digest
    outcome: Outcome
    synthesis_receipt_digest: Digest
    candidate_digest: Digest
    lineage: tuple[LineageCheck, ...]


class Violation(Part, frozen=True, kw_only=True):
    """One difference between the target and what was admitted."""

    code: Code
    path: PathText | None
    detail: Text


class Verification(Document, frozen=True, kw_only=True, tag="savant.admission.verification/v1"):
    """What an independent look at the target saw. The observed digests are data, whatever they say."""

    decision_digest: Digest
    candidate_digest: Digest
    application_receipt_digest: Digest
    status: VerificationStatus
    head_commit: GitId | None
    observed_final_digest: Digest | None
    observed_change_digest: Digest | None
    violations: tuple[Violation, ...]


DOCUMENTS: Final[tuple[type[Document], ...]] = (
    Policy,
    Request,
    Acknowledgement,
    Decision,
    Receipt,
    Verification,
)
