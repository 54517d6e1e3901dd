"""What a command changed in a folder, and the same change made again: files, modes, links, empty folders.

A tree is every path that is no folder with something in it. The folder is untrusted: every step is by descriptor and
follows no link, kinds and sizes are checked before anything is read. A path that no tree of ours may hold (``.git`` and
its disguises) is one node that is not looked into: whoever takes the folder in refuses it by its name.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, assert_never

import msgspec

from savant.contracts.digest import digest, new_hasher, to_text
from savant.contracts.errors import PortError, RefusedInput
from savant.files import paths
from savant.files.tree import (
    disk_error,
    lstat_at,
    mkdirs_at,
    open_parent,
    prune_empty_parents_at,
    symlink_at,
    unlink_at,
    write_file_at,
)
from savant.process.documents import ChangeKind

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK_BYTES: Final = 1024 * 1024
_DOMAIN: Final = b"savant.process.tree/v1\0"
_MOVED: Final = (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENOTDIR)

MAX_ENTRIES: Final = 2_000_000
MAX_DEPTH: Final = 256
"""More names below each other than any tree of ours may have, and fewer than open descriptors."""


class Node(msgspec.Struct, frozen=True):
    """What stands at a path; the digest of a file's bytes or of a link's target, None for the others."""

    kind: ChangeKind
    content_digest: str | None


Nodes: TypeAlias = Mapping[bytes, Node]
"""What stands at every path."""

Stamp: TypeAlias = tuple[int, int, int]
"""Inode, mtime and ctime in nanoseconds: equal while nobody wrote the file."""


class Tree(msgspec.Struct, frozen=True):
    """What stands at every path, and the stamp of each regular file."""

    nodes: Nodes
    stamps: Mapping[bytes, Stamp]


class Change(msgspec.Struct, frozen=True):
    """One path after a command; ``node`` None: nothing is there any more."""

    path: bytes
    node: Node | None


def read_tree(root_fd: int) -> Tree:
    """Every path below a folder.

    :raises PortError: ``port.cassette-tree`` when it cannot be read as a whole: too many or too deep entries, an
        unreadable one, one that changes meanwhile; ``port.disk``.
    """
    reader = _Reader()
    try:
        reader.folder(root_fd, b"", 1)
    except OSError as error:
        if isinstance(error, PermissionError) or error.errno in _MOVED:
            raise _unreadable(f"something in it {error.strerror or 'cannot be read'}".lower()) from error
        raise disk_error(error, "Cannot read a working directory") from error
    return Tree(MappingProxyType(reader.found), MappingProxyType(reader.stamps))


class _Reader:
    def __init__(self) -> None:
        self.found: dict[bytes, Node] = {}
        self.stamps: dict[bytes, Stamp] = {}
        self._entries = 0

    def folder(self, fd: int, prefix: bytes, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise _unreadable(f"it has more than {MAX_DEPTH} folders below each other")
        for name, facts in self._listed(fd):
            path = prefix + name
            if paths.is_reserved(name):
                self.found[path] = Node("folder", None)
            elif stat.S_ISDIR(facts.st_mode):
                self._below(fd, name, path, depth)
            elif stat.S_ISLNK(facts.st_mode):
                self.found[path] = Node("symlink", digest(os.readlink(name, dir_fd=fd)))
            elif stat.S_ISREG(facts.st_mode):
                kind: ChangeKind = "executable" if facts.st_mode & stat.S_IXUSR else "regular"
                self.found[path] = Node(kind, _content_digest(fd, name))
                self.stamps[path] = (facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns)
            else:
                self.found[path] = Node("special", None)

    def _listed(self, fd: int) -> list[tuple[bytes, os.stat_result]]:
        with os.scandir(fd) as found:
            listed = [(os.fsencode(item.name), item.stat(follow_symlinks=False)) for item in found]
        self._entries += len(listed)
        if self._entries > MAX_ENTRIES:
            raise _unreadable(f"it has more than {MAX_ENTRIES} entries")
        return listed

    def _below(self, fd: int, name: bytes, path: bytes, depth: int) -> None:
        inner = os.open(name, _DIRECTORY, dir_fd=fd)
        try:
            known = len(self.found)
            self.folder(inner, path + b"/", depth + 1)
            if len(self.found) == known:
                self.found[path] = Node("folder", None)
        finally:
            os.close(inner)


def _content_digest(fd: int, name: bytes) -> str:
    file = os.open(name, _READ, dir_fd=fd)
    try:
        hasher = new_hasher()
        while chunk := os.read(file, _CHUNK_BYTES):
            hasher.update(chunk)
        return to_text(hasher.digest())
    finally:
        os.close(file)


def _unreadable(why: str) -> PortError:
    return PortError("port.cassette-tree", f"A working directory cannot be recorded: {why}.")


def tree_digest(nodes: Nodes) -> str:
    """The digest of a tree: BLAKE3 of a domain and, by path, kind, path and content digest, each ended by NUL."""
    hasher = new_hasher()
    hasher.update(_DOMAIN)
    for path in sorted(nodes):
        node = nodes[path]
        hasher.update(b"%b\0%b\0%b\0" % (node.kind.encode(), path, (node.content_digest or "").encode()))
    return to_text(hasher.digest())


def difference(before: Nodes, after: Nodes) -> tuple[Change, ...]:
    """The paths that differ, in byte order; applied to ``before`` they give ``after``."""
    differing = (path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return tuple(Change(path, after.get(path)) for path in sorted(differing))


def written_alike(before: Tree, after: Tree) -> tuple[Change, ...]:
    """The files that were written and hold what they held: who looks at time stamps sees them change."""
    return tuple(
        Change(path, after.nodes[path])
        for path, stamp in sorted(after.stamps.items())
        if before.nodes.get(path) == after.nodes[path] and before.stamps[path] != stamp
    )


def check_changes(changes: Iterable[Change]) -> None:
    """Refuse a difference that no command could have left: for one that comes from outside.

    :raises RefusedInput: the codes of :func:`savant.files.paths.check_path`; ``refused.reserved-path`` for anything but
        a folder at a path that git owns, or a path below one; ``refused.cassette`` for a path that is named twice, for
        content where there is none, or none where there is.
    """
    seen: set[bytes] = set()
    for change in changes:
        paths.check_path(change.path)
        shown = f"'{paths.to_text(change.path)}'"
        if change.path in seen:
            raise RefusedInput("refused.cassette", f"A cassette changes {shown} twice.")
        seen.add(change.path)
        folder, _, name = change.path.rpartition(b"/")
        is_marker = paths.is_reserved(name) and (change.node is None or change.node.kind == "folder")
        if paths.is_reserved(folder) or (paths.is_reserved(name) and not is_marker):
            raise RefusedInput("refused.reserved-path", f"A cassette writes {shown}, which belongs to git.")
        if change.node is not None:
            has_content = change.node.kind in {"regular", "executable", "symlink"}
            if has_content != (change.node.content_digest is not None):
                raise RefusedInput("refused.cassette", f"A cassette does not say what {shown} holds.")


def apply(root_fd: int, changes: Iterable[Change], content: Callable[[str], bytes]) -> None:
    """Make the changes in a folder: what goes first, deepest first, then what comes.

    :param content: the bytes of a digest.
    :raises RefusedInput: ``refused.write-through-symlink``, the path rules' codes.
    :raises Conflict: when the folder is not the one that the difference was taken from.
    :raises PortError: ``port.disk``, ``port.not-found``. After an error part of the changes is made.
    """
    ordered = sorted(changes, key=lambda change: change.path)
    for change in reversed(ordered):
        if change.node is None:
            _remove(root_fd, change.path)
            prune_empty_parents_at(root_fd, change.path, sync=False)
    for change in ordered:
        if change.node is not None:
            _make(root_fd, change.path, change.node, content)


def _make(root_fd: int, path: bytes, node: Node, content: Callable[[str], bytes]) -> None:
    _remove(root_fd, path)
    above = paths.parents(path)
    if above:
        mkdirs_at(root_fd, above[-1], sync=False)
    match node.kind:
        case "regular" | "executable":
            data = content(node.content_digest or "")
            write_file_at(root_fd, path, data, executable=node.kind == "executable", sync=False)
        case "symlink":
            symlink_at(root_fd, path, content(node.content_digest or ""), sync=False)
        case "folder":
            mkdirs_at(root_fd, path, sync=False)
        case "special":
            with open_parent(root_fd, path) as (parent, name):
                try:
                    os.mkfifo(name, 0o600, dir_fd=parent)
                except OSError as error:
                    raise disk_error(error, f"Cannot make the FIFO '{paths.to_text(path)}'") from error
        case _:
            assert_never(node.kind)


def _remove(root_fd: int, path: bytes) -> None:
    facts = lstat_at(root_fd, path)
    if facts is None:
        return
    if not stat.S_ISDIR(facts.st_mode):
        unlink_at(root_fd, path, sync=False)
        return
    with open_parent(root_fd, path) as (parent, name):
        try:
            os.rmdir(name, dir_fd=parent)
        except OSError as error:
            raise disk_error(error, f"Cannot remove the folder '{paths.to_text(path)}'") from error
