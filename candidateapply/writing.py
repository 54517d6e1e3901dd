"""Writing a journal's changes into a target, and looking at the result. Idempotent: it can be taken up again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from runner.change import change_set
from runner.content import read_state
from runner.documents import ChangeSet, FileState, PathChange
from runner.snapshot import BaseSnapshot
from savant.contracts.document import Sealed, seal
from savant.contracts.errors import RefusedInput
from savant.files.paths import to_raw, to_text
from savant.files.tree import (
    lstat_at,
    mkdirs_at,
    open_root,
    prune_empty_parents_at,
    symlink_at,
    unlink_at,
    write_file_at,
)
from savant.repository.manifest import Manifest, diff
from savant.repository.worktree import observe_tree
from savant.store.port import ObjectStore


@dataclass(frozen=True, slots=True)
class Observed:
    """A target as its files are now: the whole manifest, and the change from the base to it."""

    manifest: Manifest
    change: Sealed[ChangeSet]


def observe(target: Path, base: BaseSnapshot) -> Observed:
    """Read the whole target from the file system.

    :raises RefusedInput: ``refused.special-file``, ``refused.unreadable``, ``refused.unstable``.
    """
    found = observe_tree(target, expected=base.manifest)
    differences = diff(base.manifest, found)

    def size_after(path: bytes) -> int:
        with open_root(target) as root:
            facts = lstat_at(root, path)
        return 0 if facts is None else facts.st_size

    return Observed(found, seal(change_set(differences, lambda path: len(base.read(path)), size_after)))


def write_changes(target: Path, writes: Iterable[PathChange], store: ObjectStore) -> None:
    """Put every path of the writes into its after state, durably, through handles that follow no link.

    Doing it again changes nothing.

    :raises RefusedInput: ``refused.write-through-symlink``.
    :raises PortError: ``port.disk``; the journal is still there and the next command goes on.
    """
    with open_root(target) as root:
        for write in writes:
            _write(root, to_raw(write.path), write.after, store)


def _write(root: int, path: bytes, after: FileState | None, store: ObjectStore) -> None:
    if after is None:
        unlink_at(root, path, sync=True, missing_ok=True)
        prune_empty_parents_at(root, path, sync=True)
        return
    data = read_state(store, after)
    folder = path.rpartition(b"/")[0]
    if folder:
        mkdirs_at(root, folder, sync=True)
    match after.mode:
        case "symlink":
            symlink_at(root, path, data, sync=True)
        case "regular" | "executable":
            write_file_at(root, path, data, executable=after.mode == "executable", sync=True)
        case "gitlink":
            raise RefusedInput("refused.apply-unsupported-operation", f"{to_text(path)} is a submodule.")


def keep_contents(base: BaseSnapshot, writes: Iterable[PathChange], store: ObjectStore) -> None:
    """Put every content that a write replaces into the store, so that undo and recovery need nothing else."""
    paths = [to_raw(w.path) for w in writes if w.before is not None and w.before.mode != "gitlink"]
    store.put_many([base.read(path) for path in paths])
