"""Facts about checkouts, observed and never believed: what stands on disk, what HEAD says, what git's files say.

:func:`observe_tree` is the only way to learn what a checkout holds: it walks every folder by descriptor without
following a link and digests every byte. Ignore rules, index flags, ``core.fileMode`` and attributes have no say in it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, NoReturn

import msgspec

from savant.contracts.digest import new_hasher, raw_digest, to_text
from savant.contracts.errors import PortError, RefusedInput
from savant.files.paths import to_text as path_text
from savant.files.tree import open_root
from savant.repository.git import Repository
from savant.repository.manifest import MAX_DEPTH, Manifest, too_deep
from savant.repository.node import Entry, MemoryNodes, encode_node, link_digest

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK: Final = 1 << 20

_OPERATIONS: Final = (
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
)

Relation = Literal["same", "linked", "clone", "foreign"]


def observe_tree(root: Path, *, expected: Manifest | None = None) -> Manifest:
    """The manifest of the files below a folder, without its top-level ``.git``.

    :param expected: where this manifest has a gitlink, an empty folder stands for it; without it, or when the folder
        is filled, what is in the folder counts.
    :raises RefusedInput: ``refused.special-file`` (a FIFO, socket or device: never opened), ``refused.unreadable``,
        ``refused.unstable`` (something changed while it was read), ``refused.too-deep``.
    :raises PortError: ``port.not-found``, ``port.disk``.
    """
    walk = _Walk(expected)
    with open_root(root) as fd:
        digest = walk.folder(fd, b"", 0)
    return Manifest(digest if digest is not None else walk.nodes.put(encode_node({})), walk.nodes)


class _Walk:
    def __init__(self, expected: Manifest | None) -> None:
        self.nodes = MemoryNodes()
        self._expected = expected

    def folder(self, fd: int, prefix: bytes, depth: int) -> bytes | None:
        """The digest of an open folder's node; None when it holds no file."""
        if depth >= MAX_DEPTH:
            raise too_deep(prefix)
        before = os.fstat(fd)
        children: dict[bytes, Entry] = {}
        try:
            with os.scandir(fd) as listing:
                names = [os.fsencode(item.name) for item in listing]
        except OSError as error:
            _refuse(error, prefix)
        for name in names:
            if depth == 0 and name == b".git":
                continue
            path = prefix + name
            try:
                entry = self._entry(fd, name, path, depth)
            except OSError as error:
                _refuse(error, path)
            if entry is not None:
                children[name] = entry
        if not _is_same(before, os.fstat(fd)):
            raise _unstable(prefix)
        return self.nodes.put(encode_node(children)) if children else None

    def _entry(self, fd: int, name: bytes, path: bytes, depth: int) -> Entry | None:
        facts = os.stat(name, dir_fd=fd, follow_symlinks=False)
        match stat.S_IFMT(facts.st_mode):
            case stat.S_IFREG:
                return Entry(*_read_file(fd, name, path))
            case stat.S_IFLNK:
                target = os.readlink(name, dir_fd=fd)
                if not _is_same(facts, os.stat(name, dir_fd=fd, follow_symlinks=False)):
                    raise _unstable(path)
                return Entry("symlink", link_digest(target))
            case stat.S_IFDIR:
                below = os.open(name, _DIRECTORY, dir_fd=fd)
                try:
                    digest = self.folder(below, path + b"/", depth + 1)
                finally:
                    os.close(below)
                return self._gitlink(path) if digest is None else Entry("tree", digest)
            case _:
                raise RefusedInput(
                    "refused.special-file",
                    f"'{path_text(path)}' is neither a file, a folder nor a link.",
                    untouched="It was not opened.",
                    fix="Remove it, then try again.",
                )

    def _gitlink(self, path: bytes) -> Entry | None:
        expected = None if self._expected is None else self._expected.get(path)
        return expected if expected is not None and expected.mode == "gitlink" else None


def _read_file(parent: int, name: bytes, path: bytes) -> tuple[Literal["regular", "executable"], bytes]:
    fd = os.open(name, _READ, dir_fd=parent)
    try:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise _unstable(path)
        if before.st_size < _CHUNK:
            data = os.read(fd, before.st_size + 1)
            digest, size = raw_digest(data), len(data)
        else:
            hasher, size = new_hasher(), 0
            while chunk := os.read(fd, _CHUNK):
                hasher.update(chunk)
                size += len(chunk)
            digest = hasher.digest()
        if size != before.st_size or not _is_same(before, os.fstat(fd)):
            raise _unstable(path)
    finally:
        os.close(fd)
    return ("executable" if before.st_mode & 0o100 else "regular"), digest


def _is_same(one: os.stat_result, other: os.stat_result) -> bool:
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("st_dev", "st_ino", "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns")
    )


def _unstable(path: bytes) -> RefusedInput:
    return RefusedInput(
        "refused.unstable",
        f"'{path_text(path)}' changed while it was read.",
        fix="Stop whatever is writing there, then try again.",
    )


def _refuse(error: OSError, path: bytes) -> NoReturn:
    if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.ESTALE):
        raise _unstable(path) from error
    if error.errno in (errno.EACCES, errno.EPERM):
        raise RefusedInput(
            "refused.unreadable",
            f"'{path_text(path)}' cannot be read; it is not taken for absent.",
            fix="Make it readable for you, then try again.",
        ) from error
    raise PortError("port.disk", f"Cannot read '{path_text(path)}': {error.strerror}.") from error


class WorktreeFacts(msgspec.Struct, frozen=True):
    """What git's own files say about one checkout. Nothing here says what its files hold."""

    top_level: Path
    git_dir: Path
    common_dir: Path
    head: str | None
    """The commit that HEAD names, as a ``GitId``; None before the first commit."""
    branch: str | None
    """The ref that HEAD points to (``refs/heads/main``); None when it is detached."""
    is_linked: bool
    """Whether this is a linked worktree, not the first checkout of its repository."""
    operation: str | None
    """The git operation in progress (``MERGE_HEAD``, ``rebase-merge`` ...), or None."""
    is_locked: bool
    """Whether somebody holds ``index.lock`` or ``HEAD.lock``."""

    @property
    def is_detached(self) -> bool:
        """Whether HEAD names a commit itself."""
        return self.branch is None


def worktree_facts(repository: Repository) -> WorktreeFacts:
    """The facts about the checkout of an open repository.

    :raises RefusedInput: ``refused.no-checkout`` for a bare repository.
    """
    if repository.top_level is None:
        raise RefusedInput("refused.no-checkout", f"{repository.git_dir} is a bare repository without a checkout.")
    try:
        head = repository.resolve_commit("HEAD")
    except RefusedInput as error:
        if error.code != "refused.unborn-head":
            raise
        head = None
    git_dir = repository.git_dir
    return WorktreeFacts(
        top_level=repository.top_level,
        git_dir=git_dir,
        common_dir=repository.common_dir,
        head=head,
        branch=_branch(repository),
        is_linked=git_dir != repository.common_dir,
        operation=next((name for name in _OPERATIONS if os.path.lexists(git_dir / name)), None),
        is_locked=any(os.path.lexists(git_dir / name) for name in ("index.lock", "HEAD.lock")),
    )


def _branch(repository: Repository) -> str | None:
    done = repository.git.run(["symbolic-ref", "--quiet", "HEAD"])
    return os.fsdecode(done.stdout.rstrip(b"\n")) if done.returncode == 0 else None


def relation(one: Repository, other: Repository, commit: str) -> Relation:
    """How another checkout relates to a repository in which a commit is known.

    ``same``: it is that very checkout; ``linked``: both share one object store; ``clone``: it holds the commit in a
    store of its own; ``foreign``: it does not.
    """
    if is_same_place(one.git_dir, other.git_dir):
        return "same"
    if is_same_place(one.common_dir, other.common_dir):
        return "linked"
    try:
        other.tree_of(commit)
    except (PortError, RefusedInput):
        return "foreign"
    return "clone"


def is_same_place(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same file or folder, by whatever links and mounts."""
    try:
        return one.samefile(other)
    except OSError:
        return False


class ControlState(msgspec.Struct, frozen=True):
    """Digests of everything in a repository that Savant must leave as it was, as ``blake3:`` texts."""

    head: str
    refs: str
    index: str
    config: str
    hooks: str
    stash: str
    worktrees: str

    def differences(self, other: ControlState) -> tuple[str, ...]:
        """The names of the parts that differ."""
        return tuple(name for name in self.__struct_fields__ if getattr(self, name) != getattr(other, name))


def control_state(repository: Repository) -> ControlState:
    """The state of a repository's control files now. Refs and index are read by meaning: packing changes nothing."""
    git_dir, common = repository.git_dir, repository.common_dir
    refs = repository.git.run(["for-each-ref", "--format=%(refname) %(objectname) %(symref)"]).stdout
    index = repository.git.run(["ls-files", "-v", "--stage", "-z"])
    return ControlState(
        head=_digest(_file(git_dir / "HEAD")),
        refs=_digest(refs),
        index=_digest(b"%d " % index.returncode + index.stdout),
        config=_digest(b"\0".join(_file(place) for place in (common / "config", git_dir / "config.worktree"))),
        hooks=_digest(b"".join(_folder(common / "hooks"))),
        stash=_digest(_file(common / "logs/refs/stash")),
        worktrees=_digest(b"".join(_worktrees(common / "worktrees"))),
    )


def _digest(data: bytes) -> str:
    return to_text(raw_digest(data))


def _file(path: Path) -> bytes:
    try:
        return b"+" + path.read_bytes()
    except FileNotFoundError:
        return b"-"
    except OSError as error:
        return b"!%d" % (error.errno or 0)


def _folder(path: Path) -> Iterator[bytes]:
    for name in _names(path):
        mode = (path / name).lstat().st_mode
        yield b"%s\0%o\0%s\0" % (os.fsencode(name), mode, raw_digest(_file(path / name)))


def _worktrees(path: Path) -> Iterator[bytes]:
    for name in _names(path):
        yield b"%s\0%s\0%s\0" % (os.fsencode(name), _file(path / name / "HEAD"), _file(path / name / "gitdir"))


def _names(path: Path) -> list[str]:
    try:
        return sorted(child.name for child in path.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
