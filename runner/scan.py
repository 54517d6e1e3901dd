"""What changed in a materialised folder since it was last written or scanned.

The folder is untrusted: every step is by descriptor and follows no link, only regular files, links and folders are
accepted, and sizes and counts are bounded before anything is read. A file whose :data:`~runner.materialize.StatKey` is
the recorded one is not read; any other is read and compared by mode and digest, so that a touched but equal file is no
change. Ignore rules do not exist here, and an empty folder is nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from providerport.port import FileMode
from runner.materialize import Recorded, StatIndex, safe_key, stamp_now, stat_key
from runner.overlay import Content, Limits, check_candidate_path, size_limit
from savant.contracts.errors import RefusedInput
from savant.files.paths import parents, to_text
from savant.files.tree import disk_error, read_bounded
from savant.repository.manifest import MAX_DEPTH

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Scanned(msgspec.Struct, frozen=True):
    """The differences, None where a file is gone, and the index of what is there now."""

    changes: dict[bytes, Content | None]
    index: StatIndex


def scan(directory: Path, index: StatIndex, limits: Limits) -> Scanned:
    """Compare a folder with its index.

    :raises RefusedInput: ``refused.special-file``, ``refused.unreadable``, ``refused.unstable`` (a file changed while
        it was read), ``refused.size-limit``, and the path rules' codes for new names, ``refused.reserved-path`` for a
        nested repository among them.
    :raises PortError: ``port.not-found``, ``port.disk``.
    """
    try:
        root = os.open(directory, _DIRECTORY)
    except OSError as error:
        raise disk_error(error, "Cannot open a materialised copy") from error
    try:
        return _Scan(root, index, limits).run()
    except OSError as error:
        raise disk_error(error, "Cannot read a materialised copy") from error
    finally:
        os.close(root)


class _Scan(msgspec.Struct):
    root: int
    index: StatIndex
    limits: Limits
    changes: dict[bytes, Content | None] = msgspec.field(default_factory=dict)
    found: StatIndex = msgspec.field(default_factory=StatIndex)
    folders: set[bytes] = msgspec.field(default_factory=set)
    entries: int = 0
    total_bytes: int = 0
    stamp_ns: int = 0

    def run(self) -> Scanned:
        self.folders = {above for path in (*self.index.files, *self.index.gitlinks) for above in parents(path)}
        self.folders |= self.index.gitlinks
        self.stamp_ns = stamp_now(self.root)
        self._folder(self.root, b"", 1)
        for path in self.index.files:
            if path not in self.found.files:
                self.changes.setdefault(path, None)
        for path in self.index.gitlinks - self.found.gitlinks:
            self.changes.setdefault(path, None)
        return Scanned(self.changes, self.found)

    def _folder(self, fd: int, prefix: bytes, depth: int) -> bool:
        """Look at one folder; whether it holds a file at any depth."""
        if depth > MAX_DEPTH:
            raise RefusedInput("refused.too-deep", f"'{to_text(prefix[:200])}...' has more than {MAX_DEPTH} names.")
        holds_file = False
        for name, facts in self._listed(fd):
            path = prefix + name
            if path not in self.index.files and path not in self.folders:
                check_candidate_path(path)
            kind = stat.S_IFMT(facts.st_mode)
            if kind == stat.S_IFDIR:
                with_file = self._below(fd, name, path, depth)
                holds_file |= with_file
                if path in self.index.gitlinks and not with_file:
                    self.found.gitlinks.add(path)
            elif kind in (stat.S_IFREG, stat.S_IFLNK):
                holds_file = True
                self._file(fd, name, path, facts)
            else:
                raise RefusedInput(
                    "refused.special-file",
                    f"'{to_text(path)}' is neither a regular file nor a link nor a folder.",
                    untouched="It was not opened.",
                    fix="Remove it.",
                )
        return holds_file

    def _listed(self, fd: int) -> Iterator[tuple[bytes, os.stat_result]]:
        with os.scandir(fd) as found:
            for item in found:
                self.entries += 1
                if self.entries > len(self.index.files) + len(self.folders) + self.limits.paths:
                    raise size_limit(f"The copy holds more than {self.limits.paths} new files and folders.")
                yield os.fsencode(item.name), item.stat(follow_symlinks=False)

    def _below(self, fd: int, name: bytes, path: bytes, depth: int) -> bool:
        try:
            inner = os.open(name, _DIRECTORY, dir_fd=fd)
        except PermissionError as error:
            raise _unreadable(path) from error
        try:
            return self._folder(inner, path + b"/", depth + 1)
        except PermissionError as error:
            raise _unreadable(path) from error
        finally:
            os.close(inner)

    def _file(self, fd: int, name: bytes, path: bytes, facts: os.stat_result) -> None:
        known = self.index.files.get(path)
        key = stat_key(facts)
        if known is not None and known.key == key:
            self.found.files[path] = known
            return
        if stat.S_ISLNK(facts.st_mode):
            content = Content("symlink", os.readlink(name, dir_fd=fd))
        else:
            mode: FileMode = "executable" if facts.st_mode & stat.S_IXUSR else "regular"
            content = Content(mode, self._read(fd, name, path, facts))
        entry = content.entry
        self.found.files[path] = Recorded(safe_key(key, self.stamp_ns), entry)
        if known is not None and known.entry == entry:
            return
        self.total_bytes += len(content.data)
        if self.total_bytes > self.limits.total_bytes:
            raise size_limit(f"The copy changes more than {self.limits.total_bytes} bytes.")
        self.changes[path] = content

    def _read(self, fd: int, name: bytes, path: bytes, facts: os.stat_result) -> bytes:
        shown = f"'{to_text(path)}'"
        if facts.st_size > self.limits.file_bytes:
            raise size_limit(f"{shown} has {facts.st_size} bytes; {self.limits.file_bytes} are allowed.")
        try:
            file = os.open(name, _READ, dir_fd=fd)
        except PermissionError as error:
            raise _unreadable(path) from error
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
                raise _unstable(path) from error
            raise
        try:
            before = stat_key(os.fstat(file))
            data = read_bounded(file, self.limits.file_bytes, shown)
            if not before == stat_key(os.fstat(file)) == stat_key(facts):
                raise _unstable(path)
            return data
        finally:
            os.close(file)


def _unreadable(path: bytes) -> RefusedInput:
    return RefusedInput(
        "refused.unreadable", f"'{to_text(path)}' cannot be read.", fix="Make it readable for its owner."
    )


def _unstable(path: bytes) -> RefusedInput:
    return RefusedInput("refused.unstable", f"'{to_text(path)}' changed while it was read.")
