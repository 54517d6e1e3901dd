"""Writing a journal's changes into a target. Idempotent: after a crash it is taken up again from the beginning.

A path may already be as it shall be, and what stands above it may already be of another type: both are nothing to
remove. Whatever was meant otherwise is found by the observation of the whole target that follows.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from candidateapply.observing import is_in_state
from runner.content import read_state
from runner.documents import FileState, PathChange
from runner.snapshot import BaseSnapshot
from savant.contracts.errors import Conflict, PortError, RefusedInput, Unverifiable
from savant.files.paths import to_raw, to_text
from savant.files.tree import (
    lstat_at,
    mkdirs_at,
    open_parent,
    open_root,
    prune_empty_parents_at,
    symlink_at,
    unlink_at,
    write_file_at,
)
from savant.repository.manifest import Manifest
from savant.store.port import ObjectStore

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TEMPORARY: Final = re.compile(rb"\.savant-[0-9a-f]{24}\.tmp")
"""The names of :func:`savant.files.tree.temporary_name`."""


def write_changes(target: Path, writes: Iterable[PathChange], store: ObjectStore) -> None:
    """Put every path of the writes into its after state, durably, through handles that follow no link.

    Doing it again changes nothing.

    :raises RefusedInput: ``refused.write-through-symlink``: somebody put something in the way.
    :raises Conflict: ``conflict.is-a-directory``, ``conflict.not-a-directory``: the same.
    :raises Unverifiable: ``unverifiable.object-missing``.
    :raises VerificationError: ``unverified.object``.
    :raises PortError: ``port.disk``; the journal is still there and the next command goes on.
    """
    with open_root(target) as root:
        for write in writes:
            path = to_raw(write.path)
            if write.after is None:
                _remove(root, path)
            else:
                _put(root, path, write.after, store)


def _remove(root: int, path: bytes) -> None:
    try:
        unlink_at(root, path, sync=True, missing_ok=True)
        prune_empty_parents_at(root, path, sync=True)
    except (Conflict, RefusedInput):
        # A folder at the path, a file or a link above it: what the earlier round put there.
        if not is_in_state(root, path, None):
            raise


def _put(root: int, path: bytes, after: FileState, store: ObjectStore) -> None:
    try:
        data = read_state(store, after)
    except Unverifiable:
        if is_in_state(root, path, after):
            return
        raise
    folder = path.rpartition(b"/")[0]
    if folder:
        mkdirs_at(root, folder, sync=True)
    facts = lstat_at(root, path)
    if facts is not None and stat.S_ISDIR(facts.st_mode):
        remove_empty_folders(root, path)
    match after.mode:
        case "symlink":
            symlink_at(root, path, data, sync=True)
        case "regular" | "executable":
            write_file_at(root, path, data, executable=after.mode == "executable", sync=True)
        case "gitlink":
            raise RefusedInput("refused.apply-unsupported-operation", f"{to_text(path)} is a submodule.")


def remove_empty_folders(root: int, path: bytes) -> None:
    """Remove a folder that holds nothing but folders: git and manifests do not know such, but they are in the way.

    :raises Conflict: ``conflict.is-a-directory`` when it holds anything else; that is still there.
    """
    try:
        with open_parent(root, path) as (parent, name):
            _remove_empty(parent, name)
            os.fsync(parent)
    except OSError as error:
        raise Conflict("conflict.is-a-directory", f"'{to_text(path)}' is a folder that is not empty.") from error


def _remove_empty(parent: int, name: bytes) -> None:
    fd = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        for inner in os.listdir(fd):  # noqa: PTH208 - of the descriptor
            _remove_empty(fd, os.fsencode(inner))
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent)


def remove_temporaries(target: Path, writes: Iterable[PathChange], base: Manifest) -> None:
    """Remove the temporary files that a crash left beside the paths of the writes."""
    folders = {to_raw(write.path).rpartition(b"/")[0] for write in writes}
    with open_root(target) as root:
        for folder in sorted(folders):
            for name in _names(root, folder):
                path = folder + b"/" + name if folder else name
                if is_temporary(path) and base.get(path) is None:
                    unlink_at(root, path, sync=True, missing_ok=True)


def is_temporary(path: bytes) -> bool:
    """Whether a path has the name of a file that we write before it is renamed into place."""
    return _TEMPORARY.fullmatch(path.rpartition(b"/")[2]) is not None


def _names(root: int, folder: bytes) -> list[bytes]:
    try:
        with open_parent(root, folder + b"/any" if folder else b"any") as (fd, _):
            return [os.fsencode(name) for name in os.listdir(fd)]  # noqa: PTH208 - of the descriptor
    except (Conflict, PortError, RefusedInput):  # no folder is there now: nothing was written in it
        return []


def keep_contents(base: BaseSnapshot, writes: Iterable[PathChange], store: ObjectStore) -> None:
    """Put every content that a write replaces into the store, so that undo and recovery need nothing else.

    Each is read back: what is kept can be restored, whatever becomes of the repository's objects.

    :raises VerificationError: ``unverified.object`` when the store holds another content under a digest.
    """
    states = {to_raw(w.path): w.before for w in writes if w.before is not None and w.before.mode != "gitlink"}
    missing = [path for path, state in states.items() if not store.has(state.content_digest)]
    store.put_many([base.read(path) for path in missing])
    for state in states.values():
        read_state(store, state)
