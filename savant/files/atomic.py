"""Durable files at absolute paths: replace as a whole, create once, read with limits, lock, remove a tree.

Every write goes to a temporary file in the same folder, is synced, is put in place by one system call, and the folder
is synced. After an error or a crash the path holds the old content or the new one, never a part.

For paths *inside* an untrusted tree use :mod:`savant.files.tree`: here only the last component is never followed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from savant.contracts.errors import Conflict, PortError, RefusedInput
from savant.files.tree import disk_error, read_bounded, temporary_name, write_all

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_OPEN_DEPTH: Final = 64


def fsync_directory(path: Path) -> None:
    """Make the names in a folder durable.

    :raises PortError: ``port.not-found``, ``port.disk``.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise disk_error(error, f"Cannot sync the folder {str(path)!r}") from error


def write_atomic(path: Path, data: bytes | memoryview, *, mode: int = 0o600) -> None:
    """Replace the file with this content, durably; a link at the path is replaced, not followed.

    :param mode: the exact permission bits, whatever the umask is.
    :raises PortError: ``port.disk``, ``port.not-found`` (no such folder); the old content is then still there.
    """
    try:
        with _temporary(path, data, mode) as working:
            working.rename(path)
            fsync_directory(path.parent)
    except OSError as error:
        raise disk_error(error, f"Cannot write {str(path)!r}") from error


def create_only(path: Path, data: bytes, mode: int = 0o600) -> bool:
    """Create the file with this content, durably, or find that it is there already with the same content.

    :returns: True if this call created it; False if it was there. Of several callers at once exactly one creates it.
    :raises Conflict: ``conflict.exists`` if something else stands there; it is unchanged.
    :raises PortError: ``port.disk``, ``port.not-found`` (no such folder).
    """
    if _is_there(path, data):
        return False
    try:
        with _temporary(path, data, mode) as working:
            try:
                path.hardlink_to(working)
            except FileExistsError:
                if _is_there(path, data):
                    return False
                raise
            working.unlink()
            fsync_directory(path.parent)
    except OSError as error:
        raise disk_error(error, f"Cannot create {str(path)!r}") from error
    return True


def _is_there(path: Path, data: bytes) -> bool:
    try:
        found = read_regular(path, max_bytes=len(data))
    except PortError as error:
        if error.code == "port.not-found":
            return False
        raise
    except RefusedInput:
        found = None
    if found != data:
        raise Conflict(
            "conflict.exists",
            f"{str(path)!r} already exists with other content.",
            untouched="It was not changed.",
        )
    # Whoever linked it may have crashed before syncing the folder.
    fsync_directory(path.parent)
    return True


@contextmanager
def _temporary(path: Path, data: bytes | memoryview, mode: int) -> Iterator[Path]:
    """A complete, synced file beside the path; removed at the end if it still has its temporary name."""
    working = path.parent / os.fsdecode(temporary_name())
    fd = os.open(working, _CREATE, 0o600)
    try:
        try:
            write_all(fd, data)
            os.fchmod(fd, mode)
            os.fsync(fd)
        finally:
            os.close(fd)
        yield working
    finally:
        with suppress(OSError):
            working.unlink()


def read_regular(path: Path, *, max_bytes: int) -> bytes:
    """The content of a regular file; never waits, as it would on a FIFO.

    :raises RefusedInput: ``refused.not-regular`` (also a link as last component), ``refused.too-large``.
    :raises PortError: ``port.not-found``, ``port.disk``.
    """
    shown = repr(str(path))
    try:
        fd = os.open(path, _READ)
        try:
            return read_bounded(fd, max_bytes, shown)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise RefusedInput("refused.not-regular", f"{shown} is not a regular file.") from error
        raise disk_error(error, f"Cannot read {shown}") from error


def read_optional(path: Path, *, max_bytes: int) -> bytes | None:
    """As :func:`read_regular`, but None when the file does not exist."""
    try:
        return read_regular(path, max_bytes=max_bytes)
    except PortError as error:
        if error.code == "port.not-found":
            return None
        raise


@contextmanager
def lock(path: Path, *, blocking: bool = True, shared: bool = False) -> Iterator[None]:
    """Hold a lock on the file, which is created when missing and never removed.

    Excludes other processes and other threads or, when ``shared``, those of them that do not share it; released by
    the kernel when the process dies. Not re-entrant.

    :raises Conflict: ``conflict.locked`` if somebody else's excludes it and ``blocking`` is false.
    :raises PortError: ``port.disk``, ``port.not-found`` (no such folder).
    """
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fd = _locked(path, how if blocking else how | fcntl.LOCK_NB)
    try:
        yield
    finally:
        os.close(fd)


def _locked(path: Path, how: int) -> int:
    while True:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise disk_error(error, f"Cannot open the lock {str(path)!r}") from error
        try:
            fcntl.flock(fd, how)
            if _is_same_file(fd, path):
                return fd
            os.close(fd)  # somebody removed or replaced the file while we waited
        except BlockingIOError as error:
            os.close(fd)
            raise Conflict(
                "conflict.locked",
                f"Another process or thread holds the lock {str(path)!r}.",
                untouched="Nothing was changed.",
                fix="Wait until it has finished, then run the command again.",
            ) from error
        except BaseException:
            os.close(fd)
            raise


def _is_same_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


def remove_tree(path: Path) -> None:
    """Remove whatever is at the path with all below it; no link is followed, and nothing there is no error.

    Folders without permissions are opened up first; trees deeper than the descriptor limit are flattened on the way.
    A mount point inside is refused before anything in it is touched.

    :raises PortError: ``port.mount-point``, or ``port.disk``; part of the tree may then be gone.
    """
    try:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        raise disk_error(error, f"Cannot open the folder {str(path.parent)!r}") from error
    try:
        _remove(parent, path.name)
    except OSError as error:
        raise disk_error(error, f"Cannot remove {str(path)!r}") from error
    finally:
        os.close(parent)


def _remove(parent: int, name: str) -> None:
    try:
        facts = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(facts.st_mode):
        os.unlink(name, dir_fd=parent)
        return
    fd = _open_up(parent, name)
    try:
        while _empty(fd, fd, 0):
            pass
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent)


def _empty(root: int, fd: int, depth: int) -> bool:
    """Empty a folder; whether something too deep was moved up to the root, which then needs another round."""
    moved = False
    device = os.fstat(root).st_dev
    for name in os.listdir(fd):
        facts = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if not stat.S_ISDIR(facts.st_mode):
            os.unlink(name, dir_fd=fd)
            continue
        if facts.st_dev != device:
            raise PortError("port.mount-point", f"The folder {name!r} is a mount point; unmount it first.")
        inner = _open_up(fd, name)
        try:
            if depth >= _MAX_OPEN_DEPTH:
                os.rename(name, os.fsdecode(temporary_name()), src_dir_fd=fd, dst_dir_fd=root)
                moved = True
                continue
            moved |= _empty(root, inner, depth + 1)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=fd)
    return moved


def _open_up(parent: int, name: str) -> int:
    """Open a folder that we may then list and change, giving ourselves the permissions."""
    try:
        fd = os.open(name, _DIRECTORY, dir_fd=parent)
    except PermissionError:
        _make_readable(parent, name)
        fd = os.open(name, _DIRECTORY, dir_fd=parent)
    facts = os.fstat(fd)
    if facts.st_mode & 0o700 != 0o700:
        try:
            os.fchmod(fd, 0o700)
        except BaseException:
            os.close(fd)
            raise
    return fd


def _make_readable(parent: int, name: str) -> None:
    if sys.platform != "linux":
        os.chmod(name, 0o700, dir_fd=parent, follow_symlinks=False)
        return
    fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        Path(f"/proc/self/fd/{fd}").chmod(0o700)
    finally:
        os.close(fd)
