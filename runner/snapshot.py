"""The pinned base: exactly one commit's objects, never a working tree.

A snapshot is a manifest and a way to read the blobs it names; nothing is checked out. Every content that is handed out
was compared with the manifest's digest. What the base holds that a careful tree would not (submodules, names that are
not UTF-8, names that collide) is counted, named by a few examples and left alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from providerport.port import FileMode
from runner.documents import Snapshot
from runner.overlay import no_such_path
from savant.contracts.digest import raw_digest
from savant.contracts.document import Sealed, seal
from savant.contracts.errors import RefusedInput, VerificationError
from savant.files.paths import to_text
from savant.repository import hazards
from savant.repository.build import ManifestCache, build_manifest
from savant.repository.manifest import Manifest
from savant.repository.objects import ObjectSource
from synthesis.documents import Limitation

TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "base-submodule": "Submodules are kept as they are and not entered",
        "base-name-not-utf8": "Names are not UTF-8",
        "base-case-collision": "Names differ from a sibling's in letter case only",
        "base-unicode-collision": "Names differ from a sibling's in Unicode normalisation only",
    }
)
"""What the base holds, by the code of :func:`savant.repository.hazards.base_limitations`."""

_POINT_READS: Final = 16
"""Up to so many blobs are read one by one, through the process that already runs."""


class BaseSnapshot:
    """One commit, read-only: a :class:`providerport.port.BaseReader`. Safe between threads if its source is.

    Made by :meth:`take` or :meth:`of`.
    """

    def __init__(self, source: ObjectSource, document: Sealed[Snapshot], manifest: Manifest) -> None:
        self.document = document
        self.manifest = manifest
        self._source = source
        self._lock = threading.Lock()
        self._ids: dict[bytes, str] | None = None

    @classmethod
    def take(cls, repository: ObjectSource, commit: str, *, cache: ManifestCache | None) -> BaseSnapshot:
        """The snapshot of a commit of a repository, on disk or in memory.

        :param commit: a full commit id, with or without the object format before it.
        :param cache: what is already known about its trees; None computes everything anew.
        :raises RefusedInput: ``refused.unknown-revision``, ``refused.reserved-path`` (a path that no checkout may
            hold), and as :func:`savant.repository.build.build_manifest`.
        :raises PortError: ``port.missing-object`` in a partial or shallow clone.
        """
        tree = repository.tree_of(commit)
        return cls.of(repository, commit, build_manifest(repository, tree, cache))

    @classmethod
    def of(cls, source: ObjectSource, commit: str, manifest: Manifest) -> BaseSnapshot:
        """The snapshot of a commit whose manifest is already built from the same source. Errors as :meth:`take`."""
        format_ = source.object_format
        document = Snapshot(
            base_commit=f"{format_}:{commit.removeprefix(format_ + ':')}",
            base_tree=source.tree_of(commit),
            base_manifest_digest=manifest.digest,
            limitations=base_limitations(manifest),
        )
        return cls(source, seal(document), manifest)

    def mode(self, path: bytes) -> FileMode | None:
        """The mode of a path; None for nothing and for a folder."""
        entry = self.manifest.get(path)
        return None if entry is None or entry.mode == "tree" else entry.mode

    def read(self, path: bytes) -> bytes:
        """The content of a file, or the target of a link.

        :raises RefusedInput: ``refused.no-such-path``; a submodule has no content. ``refused.size-limit``.
        :raises PortError: ``port.missing-object``.
        :raises VerificationError: ``unverified.base-content``.
        """
        oid = self._oid(path)
        return self._checked(path, self._source.read_blob(oid))

    def read_many(self, paths: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The contents of many paths, in order, by one git process. Errors as :meth:`read`."""
        wanted = [(path, self._oid(path)) for path in paths]
        if len(wanted) <= _POINT_READS:
            for path, oid in wanted:
                yield path, self._checked(path, self._source.read_blob(oid))
            return
        contents = self._source.read_blobs([oid for _, oid in wanted])
        for (path, _), (_, data) in zip(wanted, contents, strict=True):
            yield path, self._checked(path, data)

    def paths(self) -> Iterator[bytes]:
        """Every path that is not a folder, in byte order."""
        return (path for path, _ in self.manifest.walk())

    def _oid(self, path: bytes) -> str:
        if self.mode(path) in (None, "gitlink"):
            raise no_such_path(path)
        with self._lock:
            if self._ids is None:
                listed = self._source.list_tree(self.document.document.base_tree)
                self._ids = {entry.path: entry.oid for entry in listed}
            oid = self._ids.get(path)
        if oid is None:
            raise _changed(path)
        return oid

    def _checked(self, path: bytes, data: bytes) -> bytes:
        entry = self.manifest.get(path)
        if entry is None or raw_digest(data) != entry.digest:
            raise _changed(path)
        return data


def _changed(path: bytes) -> VerificationError:
    return VerificationError(
        "unverified.base-content", f"The repository does not give at '{to_text(path)}' what the base's manifest says."
    )


def base_limitations(manifest: Manifest) -> tuple[Limitation, ...]:
    """What the base holds that is left alone: one limitation for each kind of it, with its count and one example.

    :raises RefusedInput: ``refused.reserved-path`` for a path inside git's own folder in some disguise: git would not
        check it out, and a copy that holds it would be a repository of its own.
    """
    found = hazards.base_limitations(manifest)
    for limitation in found:
        if limitation.code == "base-reserved-path":
            raise RefusedInput(
                "refused.reserved-path",
                f"The base holds '{to_text(limitation.example)}', which is git's own folder on some file system.",
                untouched="Nothing of it was written.",
            )
    return tuple(
        Limitation(
            source=f"runner.{limitation.code}",
            text=f"{TEXTS.get(limitation.code, limitation.code)}: {limitation.count}, for example "
            f"'{to_text(limitation.example[:200])}'.",
            blocking=False,
        )
        for limitation in found
    )
