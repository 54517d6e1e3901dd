"""The documents of O3, the runner. All digests are computed by the host from manifests."""

from typing import Final, Literal, TypeAlias

from savant.contracts.document import Document, Part
from savant.contracts.scalars import Bytes, Digest, GitId, PathText, Positive, Text
from synthesis.documents import Limitation, OperationKind

Mode: TypeAlias = Literal["regular", "executable", "symlink", "gitlink"]

Disposition: TypeAlias = Literal[
    "snapshot-failure",
    "workspace-init-failure",
    "provider-construction-failure",
    "provider-run-error",
    "provider-non-completed",
    "workspace-freeze-failure",
    "evidence-computation-failure",
    "digest-mismatch",
    "seal-failure",
    "verified",
]


class FileState(Part, frozen=True, kw_only=True):
    """A file at one path: its mode, content digest (a link's target; a gitlink's commit id) and size."""

    mode: Mode
    content_digest: Digest
    size_bytes: Bytes


class Snapshot(Document, frozen=True, kw_only=True, tag="savant.runner.snapshot/v1"):
    """The exact base a candidate starts from, and what the base holds that we leave alone."""

    base_commit: GitId
    base_tree: GitId
    base_manifest_digest: Digest
    limitations: tuple[Limitation, ...]


class PathChange(Part, frozen=True, kw_only=True):
    """One path before and after; null where there is no file."""

    path: PathText
    before: FileState | None
    after: FileState | None


class ChangeSet(Document, frozen=True, kw_only=True, tag="savant.runner.change-set/v1"):
    """The proposed change: every changed path in raw byte order. Its digest is the proposed-change digest.

    It names no base, so the same change on a moved base has the same digest.
    """

    changes: tuple[PathChange, ...]


class CandidateOperation(Part, frozen=True, kw_only=True):
    """One changed path with its label.

    ``rename`` and ``copy`` label the underlying create (``source`` is the smallest source path with equal mode and
    digest); the delete of a rename's source is an operation of its own. ``policy_change`` marks ``.savant/``.
    """

    path: PathText
    kind: OperationKind
    source: PathText | None
    before: FileState | None
    after: FileState | None
    policy_change: bool


class Candidate(Document, frozen=True, kw_only=True, tag="savant.runner.candidate/v1"):
    """The sealed artifact: identity, three digests, ordered operations. Blobs are named by their content digest."""

    session_digest: Digest
    workspace_digest: Digest
    plan_digest: Digest
    generation: Positive
    attempt_number: Positive
    base_commit: GitId
    input_digest: Digest
    change_digest: Digest
    final_digest: Digest
    operations: tuple[CandidateOperation, ...]


class Receipt(Document, frozen=True, kw_only=True, tag="savant.runner.receipt/v1"):
    """How one attempt ended. Which evidence is present is a function of the disposition (``runner.dispositions``)."""

    request_digest: Digest
    snapshot_digest: Digest | None
    disposition: Disposition
    provider_receipt_digest: Digest | None
    result_digest: Digest | None
    input_digest: Digest | None
    change_digest: Digest | None
    final_digest: Digest | None
    candidate_digest: Digest | None
    workspace_backend: Literal["memory", "copy"] | None
    failure_code: Text
    failure_detail: Text
    quiescent: bool | None
    cleanup_succeeded: bool | None
    limitations: tuple[Limitation, ...]


DOCUMENTS: Final[tuple[type[Document], ...]] = (Snapshot, ChangeSet, Candidate, Receipt)
