"""Reading a sealed candidate: its documents from the store, its files from base and store, and the check of it all.

A candidate holds no files: unchanged ones are the base's, changed ones are blobs in the object store, named by their
content digest. Nothing of it is believed before it was recomputed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from providerport.port import FileMode
from runner.change import apply_change, operations
from runner.documents import Candidate, CandidateOperation, ChangeSet, FileState, PathChange
from runner.materialize import read_overlaid
from runner.overlay import Base, no_such_path
from savant.contracts.document import Sealed, accept, digest_of
from savant.contracts.errors import VerificationError
from savant.files.paths import to_raw
from savant.repository.manifest import Manifest
from savant.store.port import ObjectStore

MAX_DOCUMENT_BYTES: Final = 64 * 1024 * 1024


def load_candidate(store: ObjectStore, digest: str) -> Sealed[Candidate]:
    """The candidate with this digest.

    :raises Unverifiable: ``unverifiable.object-missing``.
    :raises VerificationError: ``unverified.object``.
    :raises RefusedInput: as :func:`savant.contracts.document.accept`.
    """
    return accept(store.get(digest, max_bytes=MAX_DOCUMENT_BYTES), Candidate, declared_digest=digest)


def load_change_set(store: ObjectStore, digest: str) -> Sealed[ChangeSet]:
    """The change set with this digest. Errors as :func:`load_candidate`."""
    return accept(store.get(digest, max_bytes=MAX_DOCUMENT_BYTES), ChangeSet, declared_digest=digest)


def change_set_of(candidate: Candidate) -> ChangeSet:
    """The change set that a candidate's operations label."""
    return ChangeSet(
        changes=tuple(PathChange(path=op.path, before=op.before, after=op.after) for op in candidate.operations)
    )


def verify_candidate(base: Base, candidate: Candidate, change_set: ChangeSet) -> Manifest:
    """Recompute everything that a candidate says about its base and its change; its final manifest.

    :raises VerificationError: ``unverified.candidate-input``, ``unverified.candidate-change``,
        ``unverified.candidate-final`` or ``unverified.candidate-operations`` for the member that is not what it must
        be; and as :func:`runner.change.apply_change`.
    :raises RefusedInput: as :func:`runner.change.apply_change`.
    """
    if candidate.input_digest != base.manifest.digest:
        raise _wrong("input", "was not made from this base")
    if candidate.change_digest != digest_of(change_set):
        raise _wrong("change", "names another change")
    final = apply_change(base.manifest, change_set)
    if candidate.final_digest != final.digest:
        raise _wrong("final", "names another tree than its change makes of the base")
    if candidate.operations != operations(change_set, base.manifest):
        raise _wrong("operations", "labels its change wrongly")
    return final


def _wrong(what: str, how: str) -> VerificationError:
    return VerificationError(f"unverified.candidate-{what}", f"The candidate {how}.")


class CandidateTree:
    """The files of a sealed candidate, as a :class:`providerport.port.BaseReader`. Safe between threads if base and
    store are.

    :raises VerificationError: as :func:`verify_candidate`, when the candidate does not fit the base.
    """

    def __init__(self, base: Base, candidate: Candidate, store: ObjectStore) -> None:
        self._base = base
        self._store = store
        self._changed: dict[bytes, FileState | None] = {
            to_raw(operation.path): operation.after for operation in candidate.operations
        }
        self._manifest = verify_candidate(base, candidate, change_set_of(candidate))

    @property
    def manifest(self) -> Manifest:
        """The candidate's manifest; its digest is the candidate's ``final_digest``."""
        return self._manifest

    def mode(self, path: bytes) -> FileMode | None:
        """The mode of a path; None for nothing and for a folder."""
        entry = self._manifest.get(path)
        return None if entry is None or entry.mode == "tree" else entry.mode

    def read(self, path: bytes) -> bytes:
        """The content of a file, or the target of a link.

        :raises RefusedInput: ``refused.no-such-path``; a submodule has no content.
        :raises VerificationError: ``unverified.object`` for a damaged blob.
        :raises Unverifiable: ``unverifiable.object-missing``.
        """
        if path not in self._changed:
            return self._base.read(path)
        state = self._changed[path]
        if state is None or state.mode == "gitlink":
            raise no_such_path(path)
        return read_state(self._store, state)

    def paths(self) -> Iterator[bytes]:
        """Every path that is not a folder, in byte order."""
        return (path for path, _ in self._manifest.walk())

    def read_many(self, paths: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The contents of many paths: the changed ones first. Errors as :meth:`read`."""
        return read_overlaid(self._base, paths, lambda path: self.read(path) if path in self._changed else None)


def read_state(store: ObjectStore, state: FileState) -> bytes:
    """The bytes behind a file state.

    :raises VerificationError: ``unverified.object``, or ``unverified.blob-size`` when they have another size.
    :raises Unverifiable: ``unverifiable.object-missing``.
    """
    data = store.get(state.content_digest)
    if len(data) != state.size_bytes:
        raise VerificationError("unverified.blob-size", f"The blob {state.content_digest} has {len(data)} bytes.")
    return data


def blob_digests(operation_list: Iterable[CandidateOperation]) -> list[str]:
    """The digests of the blobs that these operations put in place, each once, in order."""
    return list(
        dict.fromkeys(
            op.after.content_digest for op in operation_list if op.after is not None and op.after.mode != "gitlink"
        )
    )
