"""The identity documents that a session binds. Each says what it did not see."""

from typing import Final, Literal, TypeAlias

from savant.contracts.document import Document, Part
from savant.contracts.envelope import KeyId
from savant.contracts.scalars import Digest, GitId, Name, NonEmptyText, PathText, PatternText, Set, Text
from synthesis.documents import Limitation

RecordKind: TypeAlias = Literal[
    "contract", "invariant", "owner", "forbidden-fix", "known-failure-mode", "proof-obligation", "intent"
]
"""What a governance record is about."""


class Workspace(Document, frozen=True, kw_only=True, tag="savant.identity.workspace/v1"):
    """Which tree is worked on. The repository domain is authored, never taken from a remote."""

    repository_domain: NonEmptyText
    object_format: Literal["sha1", "sha256"]
    base_commit: GitId
    base_tree: GitId
    base_manifest_digest: Digest
    limitations: tuple[Limitation, ...]


class Task(Document, frozen=True, kw_only=True, tag="savant.identity.task/v1"):
    """What is asked for. ``scope`` limits it to paths; empty means the whole repository."""

    objective: NonEmptyText
    task_class: Name
    scope: Set[PatternText]
    requester: Text
    signed: bool
    limitations: tuple[Limitation, ...]


class Graph(Document, frozen=True, kw_only=True, tag="savant.identity.graph/v1"):
    """Which code graph of the base was extracted; ``none`` says honestly that there is none."""

    base_commit: GitId
    extractor: Literal["none"]
    nodes_digest: Digest | None
    limitations: tuple[Limitation, ...]


class GovernanceRecord(Part, frozen=True, kw_only=True):
    """One authored record that applies to a task, and the file it stands in.

    ``evidence`` names the check whose passing discharges a proof obligation; null where no check can.
    """

    id: Name
    record_kind: RecordKind
    text: NonEmptyText
    applies_to: Set[PatternText]
    evidence: Name | None
    source: PathText
    source_digest: Digest


class Closure(Document, frozen=True, kw_only=True, tag="savant.identity.closure/v1"):
    """Which authored records apply to a task, and what stays open."""

    task_digest: Digest
    records: Set[GovernanceRecord]
    open: tuple[NonEmptyText, ...]
    limitations: tuple[Limitation, ...]


class LedgerPin(Part, frozen=True, kw_only=True):
    """The ledger that belongs to a repository on this machine."""

    repository: NonEmptyText
    ledger: Digest
    root_keyid: KeyId


class Pins(Document, frozen=True, kw_only=True, tag="savant.identity.pins/v1"):
    """Everything that the person decided to trust."""

    ledgers: Set[LedgerPin]
    trusted_policies: Set[Digest]


DOCUMENTS: Final[tuple[type[Document], ...]] = (Workspace, Task, Graph, Closure, Pins)
