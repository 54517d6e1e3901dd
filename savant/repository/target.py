"""Dedicated worktrees, made and removed by us: the only place that writes to a repository.

A target is a linked worktree with a detached HEAD at the base commit. git makes only its entry under ``worktrees/``
(``worktree add --no-checkout``, hooks off); every file is written by us from raw blobs through folder descriptors, so
no attribute, filter or configuration changes a byte. Its index is the base tree, nothing is staged, and before a target
is handed out its files are observed and must equal the base manifest. A failure removes what was created.

Files are not synced one by one: a target that a crash left half-made is found out by observing it, and is made anew.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from savant.contracts.digest import raw_digest
from savant.contracts.errors import Conflict, PortError, RefusedInput, VerificationError
from savant.files.atomic import remove_tree
from savant.files.paths import is_reserved, to_text
from savant.files.tree import mkdirs_at, open_root, symlink_at, write_file_at
from savant.repository.build import build_manifest
from savant.repository.git import Repository
from savant.repository.launch import said
from savant.repository.manifest import Manifest
from savant.repository.objects import TreeEntry
from savant.repository.worktree import is_same_place, observe_tree

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")


class Target(msgspec.Struct, frozen=True):
    """A dedicated worktree that we created."""

    path: Path
    entry: Path
    """Its git directory, ``<common dir>/worktrees/<name>``."""
    commit: str
    digest: str
    """The base manifest's digest, which its files had when it was handed out."""


def planned_entry(repository: Repository, path: Path) -> Path:
    """The entry under ``worktrees/`` that creating a target at this path will make, to be named before it is made.

    :raises RefusedInput: ``refused.target-name`` for a folder name that git would spell in another way.
    """
    name = path.name
    if _NAME.fullmatch(name) is None or name.endswith(".lock"):
        raise RefusedInput(
            "refused.target-name",
            f"The target's folder name {name!r} holds more than letters, digits and single . _ -",
            fix="Choose another folder name.",
        )
    entries = repository.common_dir / "worktrees"
    entry, number = entries / name, 0
    while os.path.lexists(entry):
        number += 1
        entry = entries / f"{name}{number}"
    return entry


def check_place(repository: Repository, path: Path) -> None:
    """Refuse a path where no target may be made; nothing is written.

    :raises RefusedInput: ``refused.target-not-empty``, ``refused.target-inside-repository``, ``refused.target-name``,
        ``refused.target-parent``.
    """
    place = path.absolute()
    untouched = "Nothing was created."
    if not place.parent.is_dir():
        raise RefusedInput(
            "refused.target-parent", f"The folder {str(place.parent)!r} does not exist.", untouched=untouched
        )
    if os.path.lexists(place) and (place.is_symlink() or not place.is_dir() or any(place.iterdir())):
        raise RefusedInput(
            "refused.target-not-empty",
            f"{str(path)!r} already exists and is not an empty folder.",
            untouched="It was left as it is.",
            fix="Choose a path that does not exist yet.",
        )
    real = place.parent.resolve() / place.name
    for owned in (repository.top_level, repository.git_dir, repository.common_dir):
        if owned is not None and real.is_relative_to(owned.resolve()):
            raise RefusedInput(
                "refused.target-inside-repository",
                f"{str(path)!r} lies inside {str(owned)!r}.",
                untouched=untouched,
                fix="Choose a path outside the checkout, for example beside it.",
            )
    planned_entry(repository, place)


def create_target(repository: Repository, commit: str, path: Path, *, manifest: Manifest | None = None) -> Target:
    """Make a dedicated worktree of a commit at a path that does not exist or is an empty folder.

    :param manifest: the commit's manifest, if it is known already; it is built without a cache otherwise.
    :raises RefusedInput: as :func:`check_place`; ``refused.reserved-path`` when the base holds a name of git's own.
    :raises Conflict: ``conflict.worktree-entry`` when another entry was made than :func:`planned_entry` said.
    :raises VerificationError: ``unverified.target-bytes`` when the files are not the base's.
    :raises PortError: ``port.git-failed``, ``port.missing-object``, ``port.disk``.
    """
    check_place(repository, path)
    place = path.absolute()
    tree = repository.tree_of(commit)
    base = manifest if manifest is not None else build_manifest(repository, tree)
    entries = repository.list_tree(tree)
    for item in entries:
        if is_reserved(item.path):
            raise RefusedInput(
                "refused.reserved-path",
                f"The base holds '{to_text(item.path)}', which no checkout can hold.",
                untouched="Nothing was created.",
            )
    existed = place.is_dir()
    entry = planned_entry(repository, place)
    target = Target(place, entry, repository.git_id(repository.hex_id(commit)), base.digest)
    try:
        _add_worktree(repository, target)
        _write_files(repository, place, entries, base)
        with Repository.open(place, git=repository.git.executable) as opened:
            stage_nothing(opened, commit)
        _verify_bytes(place, base)
    except BaseException:
        _discard(target, keep_folder=existed)
        raise
    return target


def _verify_bytes(place: Path, base: Manifest) -> None:
    if observe_tree(place, expected=base) != base:
        raise VerificationError("unverified.target-bytes", f"The files in {str(place)!r} are not those of the base.")


def _add_worktree(repository: Repository, target: Target) -> None:
    commit = repository.hex_id(target.commit)
    done = repository.git.run(["worktree", "add", "--quiet", "--detach", "--no-checkout", str(target.path), commit])
    if done.returncode != 0:
        raise PortError("port.git-failed", f"git cannot add the worktree: {said(done.stderr)}")
    if not _belongs(target):
        repository.git.run(["worktree", "remove", "--force", str(target.path)])
        raise Conflict(
            "conflict.worktree-entry", f"git did not make the entry {str(target.entry)!r}.", fix="Try again."
        )


def _write_files(repository: Repository, place: Path, entries: list[TreeEntry], base: Manifest) -> None:
    made: set[bytes] = {b""}
    wanted: dict[str, list[TreeEntry]] = {}
    with open_root(place) as root:
        for item in entries:
            folder = item.path if item.mode == "gitlink" else item.path.rpartition(b"/")[0]
            if folder not in made:
                mkdirs_at(root, folder, sync=False)
                made.add(folder)
            if item.mode != "gitlink":
                wanted.setdefault(item.oid, []).append(item)
        for oid, data in repository.read_blobs(wanted):
            digest = raw_digest(data)
            for item in wanted[oid]:
                expected = base.get(item.path)
                if expected is None or expected.mode != item.mode or expected.digest != digest:
                    raise VerificationError(
                        "unverified.target-bytes", f"The blob of '{to_text(item.path)}' is not what the manifest says."
                    )
                if item.mode == "symlink":
                    symlink_at(root, item.path, data, sync=False)
                else:
                    is_executable = item.mode == "executable"
                    write_file_at(root, item.path, data, executable=is_executable, sync=False, exclusive=True)


def stage_nothing(opened: Repository, commit: str) -> None:
    """Make the index of a checkout equal to a commit's tree and refresh what it remembers about files.

    The refresh lets a later ``git status`` be quick; no filter program runs in it, since every configured one is
    emptied for this call.

    :raises PortError: ``port.git-failed``, for example while somebody holds the index lock.
    """
    work_tree = _work_tree(opened)
    opened.git.output([work_tree, "read-tree", opened.hex_id(opened.tree_of(commit))], options=_PLAIN_INDEX)
    opened.git.run(
        [work_tree, "update-index", "-q", "--refresh"],
        options=_PLAIN_INDEX,
        environment=_without_filters(opened),
        cwd=opened.top_level,
    )


def staged_paths(opened: Repository, commit: str) -> list[bytes]:
    """The paths whose index entry is not that of the commit's tree; a target has none.

    :raises PortError: ``port.git-failed``.
    """
    tree = opened.hex_id(opened.tree_of(commit))
    out = opened.git.output(
        ["diff-index", "--cached", "--name-only", "--no-renames", "--ignore-submodules=none", "-z", tree]
    )
    return out.split(b"\0")[:-1]


_PLAIN_INDEX: Final = ("core.sparseCheckout=false", "index.sparse=false", "core.ignoreStat=false")


def _work_tree(opened: Repository) -> str:
    if opened.top_level is None:
        raise RefusedInput("refused.no-checkout", f"{opened.git_dir} is a bare repository without a checkout.")
    return f"--work-tree={opened.top_level}"


def _without_filters(opened: Repository) -> dict[str, str]:
    """An environment in which every filter that the repository configures is empty, so that none can run."""
    listed = opened.git.run(["config", "--null", "--name-only", "--get-regexp", r"^filter\."]).stdout
    keys = sorted(
        {
            os.fsdecode(key)
            for key in listed.split(b"\0")
            if key.rpartition(b".")[2] in (b"clean", b"smudge", b"process", b"required")
        }
    )
    settings = {"GIT_CONFIG_COUNT": str(len(keys))}
    for index, key in enumerate(keys):
        settings[f"GIT_CONFIG_KEY_{index}"] = key
        settings[f"GIT_CONFIG_VALUE_{index}"] = "false" if key.endswith(".required") else ""
    return settings


def remove_target(target: Target) -> None:
    """Remove a target with everything in it, and its entry under ``worktrees/``. Lost work is the caller's care.

    :raises Conflict: ``conflict.not-our-target`` when folder and entry do not point at each other; nothing is removed.
    :raises PortError: ``port.disk``.
    """
    if not _belongs(target):
        raise Conflict(
            "conflict.not-our-target",
            f"{str(target.path)!r} is not the worktree that was created there.",
            untouched="Nothing was removed.",
        )
    _discard(target, keep_folder=False)


def _belongs(target: Target) -> bool:
    try:
        forward = (target.path / ".git").read_bytes()
        back = (target.entry / "gitdir").read_bytes()
    except OSError:
        return False
    there = forward.removeprefix(b"gitdir: ").rstrip(b"\n")
    here = back.rstrip(b"\n")
    return is_same_place(Path(os.fsdecode(there)), target.entry) and is_same_place(
        Path(os.fsdecode(here)), target.path / ".git"
    )


def _discard(target: Target, *, keep_folder: bool) -> None:
    if not _belongs(target):
        return  # git cleaned up after itself, or somebody else was quicker: nothing here is ours
    if keep_folder:
        for child in target.path.iterdir():
            remove_tree(child)
    else:
        remove_tree(target.path)
    remove_tree(target.entry)
    with suppress(OSError):
        target.entry.parent.rmdir()  # as git does when the last entry goes
