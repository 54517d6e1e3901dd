"""Looking at a target, the whole of it or one path. Nothing is written and no link is followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec

from runner.change import change_set, entry_of
from runner.documents import ChangeSet, FileState, PathChange
from runner.snapshot import BaseSnapshot
from savant.contracts.digest import digest
from savant.contracts.document import Sealed, seal
from savant.contracts.errors import Conflict, RefusedInput
from savant.files.paths import to_raw
from savant.files.tree import lstat_at, open_root, read_file_at, readlink_at
from savant.repository.manifest import Manifest, diff
from savant.repository.worktree import observe_tree


class Observed(msgspec.Struct, frozen=True):
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


def input_below(found: Manifest, writes: Iterable[PathChange]) -> str:
    """The input digest recomputed: what was found, with these writes taken back.

    It is the base's exactly when everything that was not to be written is the base's. Where the writes cannot be taken
    back (somebody put a folder in the way), it is the digest of what was found.
    """
    try:
        return found.with_changes({to_raw(write.path): entry_of(write.before) for write in writes}).digest
    except RefusedInput:
        return found.digest


def is_in_state(root: int, path: bytes, state: FileState | None) -> bool:
    """Whether a path below an open folder is in this state; a folder there, or a link above it, is nothing (None)."""
    try:
        facts = lstat_at(root, path)
    except RefusedInput:
        facts = None
    if facts is None or stat.S_ISDIR(facts.st_mode):
        return state is None
    if state is None or facts.st_size != state.size_bytes:
        return False
    if stat.S_ISLNK(facts.st_mode):
        return state.mode == "symlink" and digest(readlink_at(root, path)) == state.content_digest
    mode = "executable" if facts.st_mode & stat.S_IXUSR else "regular"
    if not stat.S_ISREG(facts.st_mode) or state.mode != mode:
        return False
    return digest(read_file_at(root, path, max_bytes=state.size_bytes)) == state.content_digest


def changed_by_others(target: Path, writes: Iterable[PathChange]) -> list[str]:
    """The paths of the writes that are neither as they were nor as they shall be: somebody else wrote there."""
    with open_root(target) as root:
        return [write.path for write in writes if not _is_ours(root, write)]


def _is_ours(root: int, write: PathChange) -> bool:
    path = to_raw(write.path)
    try:
        return is_in_state(root, path, write.before) or is_in_state(root, path, write.after)
    except (Conflict, RefusedInput):  # it changed while it was looked at
        return False


def is_git_file_of(target: Path, entry: Path) -> bool:
    """Whether a folder holds nothing but the ``.git`` file that names this entry, as git leaves it half-way."""
    try:
        names = {child.name for child in target.iterdir()}
        text = (target / ".git").read_bytes() if names == {".git"} else b""
    except OSError:
        return False
    return text.removeprefix(b"gitdir: ").rstrip(b"\n") == os.fsencode(entry)
