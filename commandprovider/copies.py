"""The working directories an agent gets: a copy of the base to read, or the candidate's own to edit.

Instruction files that were not disclosed are kept out of both. What an agent did to a directory is told by comparing
two fingerprints of it: names, kinds, sizes, and the time stamps that only the kernel sets.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from providerport.port import BaseReader, FileMode, Workspace
from savant.contracts.digest import new_hasher
from savant.files.paths import parents
from savant.files.tree import (
    lstat_at,
    mkdirs_at,
    open_root,
    symlink_at,
    unlink_at,
    write_file_at,
)

_WRITABLE: Final = 0o222


@runtime_checkable
class _Bulk(Protocol):
    """A reader that gives many files at once."""

    def read_many(self, paths: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The content of each path."""
        ...


def fill_copy(base: BaseReader, directory: Path) -> None:
    """Write every file of a base into an empty folder, then take the permission to write from all of it.

    :raises PortError: ``port.disk``; and what the reader raises.
    """
    modes: dict[bytes, FileMode] = {path: mode for path in base.paths() if (mode := base.mode(path)) is not None}
    links = [path for path, mode in modes.items() if mode == "gitlink"]
    files = [path for path, mode in modes.items() if mode != "gitlink"]
    contents = base.read_many(files) if isinstance(base, _Bulk) else ((path, base.read(path)) for path in files)
    with open_root(directory) as root:
        for folder in dict.fromkeys((*links, *(path.rpartition(b"/")[0] for path in files))):
            if folder:
                mkdirs_at(root, folder, sync=False)
        for path, data in contents:
            _put(root, path, modes[path], data)
    for folder_name, _, names in os.walk(directory, topdown=False):
        folder_path = Path(folder_name)
        for name in names:
            mode_bits = (folder_path / name).lstat().st_mode
            if stat.S_ISREG(mode_bits):
                (folder_path / name).chmod(stat.S_IMODE(mode_bits) & ~_WRITABLE)
        folder_path.chmod(0o555)


def _put(root: int, path: bytes, mode: FileMode, data: bytes) -> None:
    if mode == "symlink":
        symlink_at(root, path, data, sync=False)
    else:
        write_file_at(root, path, data, executable=mode == "executable", sync=False)


def fingerprint(directory: Path) -> bytes:
    """What a folder holds, as a digest of facts about every name in it; links are not followed."""
    hasher = new_hasher()
    pending = [os.fsencode(directory)]
    while pending:
        folder = pending.pop()
        names = []
        with suppress(OSError), os.scandir(folder) as entries:  # a folder without permissions is its own fact
            names = sorted(entry.name for entry in entries)
        for name in names:
            path = folder + b"/" + name
            facts = os.lstat(path)
            seen: tuple[int, ...] = (facts.st_mode, facts.st_ino)
            if stat.S_ISDIR(facts.st_mode):
                pending.append(path)
            else:
                seen += (facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
            hasher.update(b"%b\0%b\n" % (path, repr(seen).encode()))
    return bytes(hasher.digest())


def take_away(workspace: Workspace, directory: Path, paths: Iterable[bytes]) -> tuple[bytes, ...]:
    """Remove files of the candidate from its real copy, so that an agent does not see them; those that were there."""
    taken = tuple(path for path in paths if workspace.mode(path) not in (None, "gitlink"))
    with open_root(directory) as root:
        for path in taken:
            unlink_at(root, path, sync=False, missing_ok=True)
    return taken


def put_back(workspace: Workspace, directory: Path, taken: Iterable[bytes]) -> None:
    """Undo :func:`take_away`, where nothing else stands now.

    :raises RefusedInput: the path rules' codes, when something stands in the way: a link or file for a folder.
    """
    with open_root(directory) as root:
        for path in taken:
            above = parents(path)
            if above:
                mkdirs_at(root, above[-1], sync=False)
            mode = workspace.mode(path)
            if mode is not None and lstat_at(root, path) is None:
                _put(root, path, mode, workspace.read(path))
