"""A tree as real files in a private folder, and a record of what was written there.

The folder must be empty and ours alone while it is filled; it shares nothing with the repository and has no ``.git``.
Modes are exactly 0644 and 0755 whatever the umask is, links are links, a submodule is an empty folder (as git leaves
it). The record, a :class:`StatIndex`, lets :func:`runner.scan.scan` find later changes without reading the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol, Self, TypeAlias, runtime_checkable

import msgspec

from providerport.port import BaseReader, FileMode
from savant.contracts.digest import raw_digest
from savant.contracts.errors import InternalError
from savant.files.paths import parents
from savant.files.tree import disk_error, write_all
from savant.repository.node import Entry

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_TICK_NS: Final = 20_000_000
"""How far apart two changes must be to show in a time stamp, with room: kernels stamp in steps of up to 10 ms."""

_COARSE_NS: Final = 2_000_000_000
"""The same where the file system keeps whole seconds only."""

StatKey: TypeAlias = tuple[int, int, int, int, int, int]
"""Device, inode, size, mtime and ctime in nanoseconds, mode: equal while nobody touched the file."""


@runtime_checkable
class BulkReader(Protocol):
    """A reader that can give many files at once, cheaper than one by one."""

    def read_many(self, paths: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The content of each path, in any order."""
        ...


class Recorded(msgspec.Struct, frozen=True):
    """A file as it was last seen: its entry, and the key that proves it untouched (None: only reading proves it)."""

    key: StatKey | None
    entry: Entry


class StatIndex(msgspec.Struct):
    """What a materialised folder held when it was last written or scanned."""

    files: dict[bytes, Recorded] = msgspec.field(default_factory=dict)
    gitlinks: set[bytes] = msgspec.field(default_factory=set)

    @property
    def entries(self) -> Mapping[bytes, Entry]:
        """The entry of each file."""
        return {path: recorded.entry for path, recorded in self.files.items()}


def stat_key(facts: os.stat_result) -> StatKey:
    """The key of a file's facts."""
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_mode)


def stamp_now(directory_fd: int) -> int:
    """The present, in nanoseconds, as the folder's file system stamps it."""
    os.utime(directory_fd)
    return os.fstat(directory_fd).st_ctime_ns


def safe_key(key: StatKey, stamp_ns: int) -> StatKey | None:
    """The key, if a change from ``stamp_ns`` on must show in it; None if it could carry the same time stamp."""
    ctime_ns = key[4]
    is_coarse = ctime_ns % 1_000_000_000 == 0 and stamp_ns % 1_000_000_000 == 0
    return key if stamp_ns - ctime_ns >= (_COARSE_NS if is_coarse else _TICK_NS) else None


def read_all(reader: BaseReader, paths: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The content of each path, in bulk where the reader can."""
    if isinstance(reader, BulkReader):
        return reader.read_many(paths)
    return ((path, reader.read(path)) for path in paths)


def read_overlaid(
    reader: BaseReader, paths: Iterable[bytes], own: Callable[[bytes], bytes | None]
) -> Iterator[tuple[bytes, bytes]]:
    """The content of each path of a tree that lies over another: its own first, then the others in bulk.

    :param own: the content of a path that is its own; None for one of the tree below.
    """
    below: list[bytes] = []
    for path in paths:
        data = own(path)
        if data is None:
            below.append(path)
        else:
            yield path, data
    yield from read_all(reader, below)


def materialise_tree(reader: BaseReader, directory: Path) -> StatIndex:
    """Fill an existing, empty folder with every file of a tree.

    :raises PortError: ``port.not-found``, ``port.disk``; and what the reader raises. The folder is then half filled.
    :raises InternalError: ``internal.not-empty``.
    """
    try:
        root = os.open(directory, _DIRECTORY)
    except OSError as error:
        raise disk_error(error, f"Cannot open the folder {str(directory)!r}") from error
    try:
        if os.listdir(root):  # noqa: PTH208 - of the descriptor
            raise InternalError("internal.not-empty", "A tree is materialised into an empty folder only.")
        return _fill(reader, root)
    except OSError as error:
        raise disk_error(error, "Cannot write a materialised copy") from error
    finally:
        os.close(root)


def _fill(reader: BaseReader, root: int) -> StatIndex:
    modes: dict[bytes, FileMode] = {}
    index = StatIndex()
    folders: set[bytes] = set()
    for path in reader.paths():
        mode = reader.mode(path)
        if mode is None:
            raise InternalError("internal.reader", f"A reader lists {path!r} and does not have it.")
        above = parents(path)
        if mode == "gitlink":
            index.gitlinks.add(path)
            above = (*above, path)
        else:
            modes[path] = mode
        if above and above[-1] not in folders:
            for folder in above:
                if folder not in folders:
                    os.mkdir(folder, 0o700, dir_fd=root)
                    folders.add(folder)
    with _Folder(root) as open_folder:
        for path, data in read_all(reader, list(modes)):
            mode = modes.pop(path)
            folder, _, name = path.rpartition(b"/")
            key = _write(open_folder.at(folder), name, mode, data)
            index.files[path] = Recorded(key, Entry(mode, raw_digest(data)))
    if modes:
        raise InternalError("internal.reader", f"A reader did not give {len(modes)} of the paths it was asked for.")
    for folder in folders:
        _open_up(root, folder)
    stamp_ns = stamp_now(root)
    for path, recorded in index.files.items():
        if recorded.key is not None and safe_key(recorded.key, stamp_ns) is None:
            index.files[path] = Recorded(None, recorded.entry)
    return index


class _Folder:
    """The descriptor of the folder that was last asked for: neighbours in the order of paths share it."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._name = b""
        self._fd: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            os.close(self._fd)

    def at(self, name: bytes) -> int:
        if not name:
            return self._root
        if name != self._name:
            fd = os.open(name, _DIRECTORY, dir_fd=self._root)
            if self._fd is not None:
                os.close(self._fd)
            self._name, self._fd = name, fd
        assert self._fd is not None
        return self._fd


def _write(folder: int, name: bytes, mode: FileMode, data: bytes) -> StatKey:
    if mode == "symlink":
        os.symlink(data, name, dir_fd=folder)
        return stat_key(os.stat(name, dir_fd=folder, follow_symlinks=False))
    fd = os.open(name, _CREATE, 0o600, dir_fd=folder)
    try:
        write_all(fd, data)
        os.fchmod(fd, 0o755 if mode == "executable" else 0o644)
        return stat_key(os.fstat(fd))
    finally:
        os.close(fd)


def _open_up(root: int, folder: bytes) -> None:
    fd = os.open(folder, _DIRECTORY, dir_fd=root)
    try:
        os.fchmod(fd, 0o755)
    finally:
        os.close(fd)
