"""The seal: from a frozen candidate to evidence, from evidence to a stored, re-read artifact.

Two steps, because an attempt can end between them. :func:`compute_evidence` asks no store: three digests, the change
set and its labels, from manifests. :func:`seal_candidate` stores blobs and documents create-only, reads every one of
them back and recomputes what they say. A candidate that introduces a hazard is not sealed; what the base holds already
is left alone (:func:`check_seal`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from runner.change import change_set, operations
from runner.content import load_candidate, load_change_set, read_state, verify_candidate
from runner.documents import Candidate, CandidateOperation, ChangeSet
from runner.materialize import read_all
from runner.overlay import Base, Content
from savant.contracts.digest import to_text as digest_text
from savant.contracts.document import Sealed, seal
from savant.repository.hazards import check_candidate
from savant.repository.manifest import Manifest, diff
from savant.repository.node import Entry
from savant.store.port import ObjectStore

CARRIED: Final = frozenset({"gitlink-change"})
"""Hazards that are sealed as an operation of their own name, so that admission can refuse them by it."""


class Evidence(msgspec.Struct, frozen=True):
    """What a frozen candidate is, computed by the host.

    :param blobs: the content of every file and link that the change puts in place, by digest.
    """

    change_set: Sealed[ChangeSet]
    operations: tuple[CandidateOperation, ...]
    final_manifest: Manifest
    blobs: Mapping[str, bytes]


class CandidateIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What a candidate belongs to."""

    session_digest: str
    workspace_digest: str
    plan_digest: str
    generation: int
    attempt_number: int
    base_commit: str


class SealedCandidate(msgspec.Struct, frozen=True):
    """A candidate that was stored and read back."""

    candidate: Sealed[Candidate]
    change_set: Sealed[ChangeSet]
    final_manifest: Manifest


class Problem(msgspec.Struct, frozen=True):
    """Why a candidate is not sealed: a dotted code, the path, a sentence."""

    code: str
    path: bytes
    message: str


def compute_evidence(base: Base, changes: Mapping[bytes, Content | None]) -> Evidence:
    """The difference between a base and a candidate over it.

    :param changes: every touched path; those equal to the base are no change.
    :raises RefusedInput: as :meth:`~savant.repository.manifest.Manifest.with_changes`; and as the base reads do.
    """
    entries: dict[bytes, Entry | None] = {}
    for path, content in changes.items():
        entry = None if content is None else content.entry
        stands = base.manifest.get(path)
        if entry != (None if stands is not None and stands.mode == "tree" else stands):
            entries[path] = entry
    final = base.manifest.with_changes(entries)
    differences = diff(base.manifest, final)
    sizes_after = {path: len(content.data) for path, content in changes.items() if content is not None}
    change = change_set(differences, _sizes_before(base, differences).__getitem__, sizes_after.__getitem__)
    blobs = {
        digest_text(new.digest): content.data
        for path, _, new in differences
        if new is not None and new.mode != "gitlink" and (content := changes.get(path)) is not None
    }
    return Evidence(seal(change), operations(change, base.manifest), final, blobs)


def _sizes_before(base: Base, differences: list[tuple[bytes, Entry | None, Entry | None]]) -> dict[bytes, int]:
    wanted = [path for path, old, _ in differences if old is not None and old.mode != "gitlink"]
    return {path: len(data) for path, data in read_all(base, wanted)}


def check_seal(base: Base, evidence: Evidence) -> list[Problem]:
    """The hazards that the candidate introduces, by path; empty when it may be sealed.

    A changed submodule is no reason here: it stays a named operation, which nothing downstream supports.

    :raises RefusedInput, PortError, VerificationError: as the base reads do, for the links that the base holds.
    """

    def link_target(path: bytes, entry: Entry) -> bytes:
        data = evidence.blobs.get(digest_text(entry.digest))
        return base.read(path) if data is None else data

    found = check_candidate(base.manifest, evidence.final_manifest, link_target)
    return [
        Problem(f"hazard.{hazard.code}", hazard.path, hazard.detail) for hazard in found if hazard.code not in CARRIED
    ]


def seal_candidate(base: Base, evidence: Evidence, identity: CandidateIdentity, store: ObjectStore) -> SealedCandidate:
    """Store the candidate of this evidence and prove that what was stored says what was computed.

    :raises PortError: ``port.disk``: nothing that was stored is referred to.
    :raises VerificationError: ``unverified.object``, ``unverified.blob-size`` or ``unverified.candidate-*`` when what
        is read back is something else.
    """
    candidate = seal(
        Candidate(
            session_digest=identity.session_digest,
            workspace_digest=identity.workspace_digest,
            plan_digest=identity.plan_digest,
            generation=identity.generation,
            attempt_number=identity.attempt_number,
            base_commit=identity.base_commit,
            input_digest=base.manifest.digest,
            change_digest=evidence.change_set.digest,
            final_digest=evidence.final_manifest.digest,
            operations=evidence.operations,
        )
    )
    store.put_many([*evidence.blobs.values(), evidence.change_set.raw, candidate.raw])
    return read_back(base, candidate.digest, store)


def read_back(base: Base, digest: str, store: ObjectStore) -> SealedCandidate:
    """A stored candidate with everything it refers to, recomputed.

    :raises VerificationError, Unverifiable, RefusedInput: as :mod:`runner.content` reads and verifies.
    """
    candidate = load_candidate(store, digest)
    change = load_change_set(store, candidate.document.change_digest)
    final = verify_candidate(base, candidate.document, change.document)
    for operation in candidate.document.operations:
        if operation.after is not None and operation.after.mode != "gitlink":
            read_state(store, operation.after)
    return SealedCandidate(candidate, change, final)
