"""The candidate workspace: the typed, closable channel a provider is handed, over an overlay and a private copy.

:class:`CandidateWorkspace` implements :class:`providerport.port.Workspace`. Calls exclude each other; ``close`` waits
for the one in flight, and every later call is refused. It is cooperative, not a sandbox: what contains a provider's
processes is their runner's business, and what they leave in the copy comes in only through :meth:`absorb`.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from providerport.port import FileMode
from runner.materialize import Recorded, StatIndex, materialise_tree, read_all
from runner.overlay import Base, Content, Limits, Overlay
from runner.scan import scan
from savant.contracts.errors import Conflict, PortError, RefusedInput
from savant.files.atomic import remove_tree
from savant.files.paths import parents, to_text
from savant.files.tree import (
    disk_error,
    mkdirs_at,
    open_root,
    prune_empty_parents_at,
    symlink_at,
    unlink_at,
    write_file_at,
)

Backend: TypeAlias = Literal["memory", "copy"]


class CandidateCopy:
    """The candidate as real files in a folder of its own below ``scratch``, made when it is first asked for.

    :param scratch: an existing private folder outside the repository.
    """

    def __init__(self, overlay: Overlay, scratch: Path) -> None:
        self._overlay = overlay
        self._scratch = scratch
        self._index = StatIndex()
        self._is_lent = False
        self.path: Path | None = None
        """The folder, None before it was made and after it was removed."""

    def bring(self) -> Path:
        """The folder with the candidate as it is now; unchanged while somebody's changes in it wait to be absorbed.

        :raises PortError: ``port.disk``.
        """
        if self.path is not None and not self._is_lent:
            try:
                self._sync(self.path)
            except (Conflict, RefusedInput):  # something stands in the way that no index knows: start afresh
                self.remove()
        if self.path is None:
            self.path = self._fresh()
            self._index = materialise_tree(_Reader(self._overlay), self.path)
        self._overlay.unsynced.clear()
        self._is_lent = True
        return self.path

    def absorb(self, *, only: frozenset[bytes] | None = None) -> frozenset[bytes]:
        """Take what changed in the folder into the overlay, all or nothing; the paths that changed.

        :param only: the paths that may have changed; None allows all.
        :raises RefusedInput: as :func:`runner.scan.scan` and :class:`~runner.overlay.Overlay`;
            ``refused.outside-selection``.
        :raises PortError: ``port.not-found``, ``port.disk``.
        """
        if self.path is None:
            return frozenset()
        scanned = scan(self.path, self._index, self._overlay.limits)
        others = sorted(scanned.changes.keys() - only) if only is not None else []
        if others:
            listed = ", ".join(to_text(path) for path in others[:5]) + (", ..." if len(others) > 5 else "")
            raise RefusedInput("refused.outside-selection", f"Paths changed that may not: {listed}.")
        self._overlay.apply(scanned.changes)
        self._overlay.unsynced.difference_update(scanned.changes)
        self._index = scanned.index
        self._is_lent = False
        return frozenset(scanned.changes)

    def remove(self) -> None:
        """Remove the folder; nothing there is fine.

        :raises PortError: ``port.disk``, ``port.mount-point``.
        """
        if self.path is not None:
            remove_tree(self.path)
            self.path = None

    def _fresh(self) -> Path:
        try:
            return Path(tempfile.mkdtemp(prefix="candidate-", dir=self._scratch))
        except OSError as error:
            raise disk_error(error, "Cannot make a folder for the candidate") from error

    def _sync(self, path: Path) -> None:
        """Write what the overlay has and the folder, as last scanned, has not."""
        files, changes = self._index.files, self._overlay.changes
        waiting = sorted(self._overlay.unsynced)
        with open_root(path) as root:
            for name in waiting:
                if name in files:
                    unlink_at(root, name, sync=False, missing_ok=True)
                    prune_empty_parents_at(root, name, sync=False)
                    del files[name]
                elif name in self._index.gitlinks:
                    raise Conflict("conflict.exists", "A submodule's folder stands in the way.")
            for name in waiting:
                content = changes.get(name)
                if content is not None:
                    above = parents(name)
                    if above:
                        mkdirs_at(root, above[-1], sync=False)
                    if content.mode == "gitlink":
                        mkdirs_at(root, name, sync=False)
                        self._index.gitlinks.add(name)
                    else:
                        _write(root, name, content)
                        files[name] = Recorded(None, content.entry)


def _write(root: int, path: bytes, content: Content) -> None:
    if content.mode == "symlink":
        symlink_at(root, path, content.data, sync=False)
    else:
        write_file_at(root, path, content.data, executable=content.mode == "executable", sync=False)


class CandidateWorkspace:
    """A workspace over a base, its copy below ``scratch``.

    :param base: the pinned base.
    :param scratch: an existing private folder outside the repository; the copy in it is ours to remove.
    :param limits: what the candidate may hold.
    :raises PortError: ``port.not-found``, ``port.disk`` when ``scratch`` is no folder.
    """

    def __init__(self, base: Base, scratch: Path, limits: Limits | None = None) -> None:
        with open_root(scratch):
            pass
        self._lock = threading.Lock()
        self._is_closed = False
        self._backend: Backend = "memory"
        self.overlay = Overlay(base, limits)
        """The candidate. For the host, after :meth:`close`."""
        self.copy = CandidateCopy(self.overlay, scratch)
        """The real files. For the host, after :meth:`close`."""

    @property
    def backend(self) -> Backend:
        """``copy`` once real files were asked for, else ``memory``."""
        return self._backend

    def close(self) -> None:
        """End the channel: waits for the call in flight, refuses every later one. Idempotent."""
        with self._lock:
            self._is_closed = True

    @contextmanager
    def _open(self) -> Iterator[Overlay]:
        with self._lock:
            if self._is_closed:
                raise RefusedInput(
                    "refused.workspace-closed",
                    "The workspace was closed: the call it was made for has ended.",
                    untouched="The candidate was not changed.",
                )
            yield self.overlay

    def mode(self, path: bytes) -> FileMode | None:
        """The mode of a path in the candidate; None for nothing and for a folder."""
        with self._open() as overlay:
            return overlay.mode(path)

    def read(self, path: bytes) -> bytes:
        """The content of a file, or the target of a link, in the candidate."""
        with self._open() as overlay:
            return overlay.read(path)

    def paths(self) -> Iterator[bytes]:
        """Every path of the candidate that is not a folder, in byte order, as of the call."""
        with self._open() as overlay:
            return iter(overlay.paths())

    def changed(self) -> tuple[bytes, ...]:
        """The paths that were touched, in byte order."""
        with self._open() as overlay:
            return tuple(sorted(overlay.changes))

    def read_base(self, path: bytes) -> bytes:
        """The base's content of a path."""
        with self._open() as overlay:
            return overlay.read_base(path)

    def write(self, path: bytes, data: bytes, *, executable: bool | None = None) -> None:
        """Create or replace a file."""
        with self._open() as overlay:
            overlay.write(path, data, executable=executable)

    def edit(self, path: bytes, old: bytes, new: bytes) -> None:
        """Replace the one occurrence of ``old``."""
        with self._open() as overlay:
            overlay.edit(path, old, new)

    def delete(self, path: bytes) -> None:
        """Remove a file or link."""
        with self._open() as overlay:
            overlay.delete(path)

    def rename(self, source: bytes, destination: bytes) -> None:
        """Move a file or link."""
        with self._open() as overlay:
            overlay.rename(source, destination)

    def set_mode(self, path: bytes, *, executable: bool) -> None:
        """Set or clear the executable bit of a file."""
        with self._open() as overlay:
            overlay.set_mode(path, executable=executable)

    def symlink(self, path: bytes, target: bytes) -> None:
        """Create or replace a link."""
        with self._open() as overlay:
            overlay.symlink(path, target)

    def set_gitlink(self, path: bytes, commit: str) -> None:
        """Point a submodule at a commit: kept, so that it can be refused by its name."""
        with self._open() as overlay:
            overlay.set_gitlink(path, commit)

    def materialise(self) -> Path:
        """A private folder with real files of the candidate as it is now; the same one until :meth:`absorb`."""
        with self._open():
            self._backend = "copy"
            return self.copy.bring()

    def absorb(self) -> None:
        """Take what changed in the folder into the candidate, all or nothing."""
        with self._open():
            self.copy.absorb()

    def bring_for_host(self) -> Path:
        """As :meth:`materialise`, for the host after :meth:`close`: normalisers work on real files."""
        self._backend = "copy"
        return self.copy.bring()

    def dispose(self) -> bool:
        """Close, and remove the copy; whether nothing of it is left."""
        self.close()
        try:
            self.copy.remove()
        except PortError:
            return False
        return True


class _Reader:
    """An overlay as a tree to materialise: untouched files come from the base in bulk."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._changes: Mapping[bytes, Content | None] = overlay.changes

    def mode(self, path: bytes) -> FileMode | None:
        if path in self._changes:
            content = self._changes[path]
            return None if content is None else content.mode
        return self._overlay.base.mode(path)

    def read(self, path: bytes) -> bytes:
        content = self._changes.get(path)
        return self._overlay.base.read(path) if content is None else content.data

    def paths(self) -> Iterator[bytes]:
        return iter(self._overlay.paths())

    def read_many(self, paths: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        untouched: list[bytes] = []
        for path in paths:
            content = self._changes.get(path)
            if content is None:
                untouched.append(path)
            else:
                yield path, content.data
        yield from read_all(self._overlay.base, untouched)
