"""Work inside a tree through a folder descriptor, never following a link.

Every function takes ``root_fd`` (an open folder, see :func:`open_root`) and a relative raw path. The path is checked
by :func:`savant.files.paths.check_path`; each parent is opened with ``O_NOFOLLOW | O_DIRECTORY``, one component at a
time, so a folder that is swapped for a link meanwhile is refused (``refused.write-through-symlink``) and not followed.

A written file is always a new inode, renamed into place: a hard link or an overlay's lower file is never written
through. Modes are exactly 0644 or 0755 whatever the umask is. ``sync=True`` makes the change durable before the
function returns (file and folder); ``sync=False`` leaves that to the caller.

Errors: ``RefusedInput`` as said above and from ``check_path``; ``Conflict`` when something of another type stands in
the way (``conflict.not-a-directory``, ``conflict.is-a-directory``, ``conflict.exists``); ``PortError``
``port.not-found`` and ``port.disk``. After an error the named path is what it was before.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn

from savant.contracts.errors import Conflict, PortError, RefusedInput
from savant.files.paths import check_path, parents, to_text

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def disk_error(error: OSError, what: str) -> PortError:
    """The typed error for a failed system call: ``port.not-found`` or ``port.disk``; ``what`` starts the sentence."""
    if error.errno == errno.ENOENT:
        return PortError("port.not-found", f"{what}: it does not exist.")
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return PortError(
        "port.disk",
        f"{what}: {error.strerror or error}.",
        retryable=full,
        untouched="What was there before is unchanged.",
        fix="Free some disk space and run the command again." if full else "",
    )


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte, or raise ``OSError``."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_bounded(fd: int, max_bytes: int, shown: str) -> bytes:
    """The whole content of an open regular file.

    :raises RefusedInput: ``refused.not-regular`` or ``refused.too-large`` (more than ``max_bytes``).
    :raises OSError: as the system calls do.
    """
    facts = os.fstat(fd)
    if not stat.S_ISREG(facts.st_mode):
        raise RefusedInput("refused.not-regular", f"{shown} is not a regular file.")
    data = bytearray()
    if facts.st_size <= max_bytes:
        # One more than promised tells a file that grew, or one (as in /proc) whose size says nothing.
        while len(data) <= max_bytes and (chunk := os.read(fd, min(max_bytes + 1 - len(data), 1 << 20))):
            data += chunk
    if facts.st_size > max_bytes or len(data) > max_bytes:
        raise RefusedInput("refused.too-large", f"{shown} is larger than {max_bytes} bytes.")
    return bytes(data)


def temporary_name() -> bytes:
    """A fresh name for a file that will be renamed into place."""
    return b".savant-" + os.urandom(12).hex().encode() + b".tmp"


@contextmanager
def open_root(path: Path) -> Iterator[int]:
    """The descriptor of a folder, for the functions below; the folder itself must not be a link.

    :raises PortError: ``port.not-found``, or ``port.disk`` if it cannot be opened as a folder.
    """
    try:
        fd = os.open(path, _DIRECTORY)
    except OSError as error:
        raise disk_error(error, f"Cannot open the folder {str(path)!r}") from error
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def open_parent(root_fd: int, raw_path: bytes) -> Iterator[tuple[int, bytes]]:
    """The descriptor of the folder that holds the path, and the path's last component.

    :raises RefusedInput: ``refused.write-through-symlink`` if a parent is a link.
    :raises Conflict: ``conflict.not-a-directory`` if a parent is something else.
    :raises PortError: ``port.not-found`` if a parent does not exist.
    """
    check_path(raw_path)
    *folders, name = raw_path.split(b"/")
    fd = os.dup(root_fd)
    try:
        for depth, folder in enumerate(folders, start=1):
            try:
                deeper = os.open(folder, _DIRECTORY, dir_fd=fd)
            except OSError as error:
                _refuse_parent(error, fd, b"/".join(folders[:depth]))
            os.close(fd)
            fd = deeper
        yield fd, name
    finally:
        os.close(fd)


def _refuse_parent(error: OSError, fd: int, raw: bytes) -> NoReturn:
    shown = f"'{to_text(raw)}'"
    if error.errno in (errno.ENOTDIR, errno.ELOOP):
        facts = _facts(fd, raw.rpartition(b"/")[2])
        if facts is not None and stat.S_ISLNK(facts.st_mode):
            raise RefusedInput(
                "refused.write-through-symlink",
                f"The folder {shown} is a symbolic link, which is never followed.",
                untouched="Nothing was read or written beyond it.",
            ) from error
        raise Conflict("conflict.not-a-directory", f"{shown} is not a folder.") from error
    raise disk_error(error, f"Cannot open the folder {shown}") from error


def _facts(fd: int, name: bytes) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


@contextmanager
def _named(what: str, raw_path: bytes) -> Iterator[None]:
    """Turn what the system says into typed errors that name the path."""
    try:
        yield
    except IsADirectoryError as error:
        raise Conflict("conflict.is-a-directory", f"'{to_text(raw_path)}' is a folder.") from error
    except FileExistsError as error:
        raise Conflict("conflict.exists", f"'{to_text(raw_path)}' already exists.") from error
    except OSError as error:
        raise disk_error(error, f"Cannot {what} '{to_text(raw_path)}'") from error


def lstat_at(root_fd: int, raw_path: bytes) -> os.stat_result | None:
    """What stands at the path, a link being itself; None if nothing does, also when a parent is missing or a file."""
    try:
        with _named("examine", raw_path), open_parent(root_fd, raw_path) as (fd, name):
            return _facts(fd, name)
    except (Conflict, PortError) as error:
        if error.code in ("port.not-found", "conflict.not-a-directory"):
            return None
        raise


def read_file_at(root_fd: int, raw_path: bytes, *, max_bytes: int) -> bytes:
    """The content of a regular file.

    :raises RefusedInput: also ``refused.not-regular`` (a link, a FIFO, a folder) and ``refused.too-large``.
    """
    shown = f"'{to_text(raw_path)}'"
    with _named("read", raw_path), open_parent(root_fd, raw_path) as (parent, name):
        try:
            fd = os.open(name, _READ, dir_fd=parent)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):  # a link, a socket
                raise RefusedInput("refused.not-regular", f"{shown} is not a regular file.") from error
            raise
        try:
            return read_bounded(fd, max_bytes, shown)
        finally:
            os.close(fd)


def readlink_at(root_fd: int, raw_path: bytes) -> bytes:
    """The target text of a symbolic link, as raw bytes; it is never resolved.

    :raises RefusedInput: also ``refused.not-a-symlink``.
    """
    with _named("read the link", raw_path), open_parent(root_fd, raw_path) as (fd, name):
        try:
            return os.readlink(name, dir_fd=fd)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise RefusedInput("refused.not-a-symlink", f"'{to_text(raw_path)}' is not a symbolic link.") from error
            raise


def write_file_at(
    root_fd: int, raw_path: bytes, data: bytes | memoryview, *, executable: bool, sync: bool, exclusive: bool = False
) -> None:
    """Write a regular file with mode 0755 or 0644; its parents must exist.

    Replaces a file or a link that stands there. With ``exclusive`` nothing may stand there, and the file is
    created in place: cheaper, and right for a tree that nobody reads before it is complete.

    :raises Conflict: ``conflict.is-a-directory``; with ``exclusive`` ``conflict.exists``.
    """
    with _named("write", raw_path), open_parent(root_fd, raw_path) as (parent, name):
        working = name if exclusive else temporary_name()
        fd = os.open(working, _CREATE, 0o600, dir_fd=parent)
        try:
            try:
                write_all(fd, data)
                os.fchmod(fd, 0o755 if executable else 0o644)
                if sync:
                    os.fsync(fd)
            finally:
                os.close(fd)
            if not exclusive:
                os.rename(working, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with suppress(OSError):
                os.unlink(working, dir_fd=parent)
            raise
        if sync:
            os.fsync(parent)


def symlink_at(root_fd: int, raw_path: bytes, target: bytes, *, sync: bool) -> None:
    """Make a symbolic link with this target text, replacing a file or link; its parents must exist.

    The target is not judged here, only that a link can hold it.

    :raises RefusedInput: ``refused.bad-link-target`` if it is empty, holds NUL or has more than 4095 bytes.
    :raises Conflict: ``conflict.is-a-directory``.
    """
    if not target or b"\0" in target or len(target) > 4095:
        raise RefusedInput("refused.bad-link-target", f"'{to_text(raw_path)}' has a target that no link can hold.")
    with _named("write the link", raw_path), open_parent(root_fd, raw_path) as (parent, name):
        working = temporary_name()
        os.symlink(target, working, dir_fd=parent)
        try:
            os.rename(working, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with suppress(OSError):
                os.unlink(working, dir_fd=parent)
            raise
        if sync:
            os.fsync(parent)


def unlink_at(root_fd: int, raw_path: bytes, *, sync: bool, missing_ok: bool = False) -> bool:
    """Remove a file or a link itself; whether something was there.

    :raises Conflict: ``conflict.is-a-directory``.
    :raises PortError: ``port.not-found`` unless ``missing_ok``.
    """
    try:
        with _named("remove", raw_path), open_parent(root_fd, raw_path) as (parent, name):
            facts = _facts(parent, name)
            if facts is not None and stat.S_ISDIR(facts.st_mode):
                raise IsADirectoryError(errno.EISDIR, "is a folder")
            os.unlink(name, dir_fd=parent)
            if sync:
                os.fsync(parent)
    except PortError as error:
        if missing_ok and error.code == "port.not-found":
            return False
        raise
    return True


def mkdirs_at(root_fd: int, raw_path: bytes, *, sync: bool) -> tuple[bytes, ...]:
    """Make the folder and every missing one above it, mode 0755; those that were made, outermost first.

    :raises RefusedInput: ``refused.write-through-symlink`` if the folder or one above it is a link.
    :raises Conflict: ``conflict.not-a-directory`` if something else stands there.
    """
    check_path(raw_path)
    made: list[bytes] = []
    for folder in (*parents(raw_path), raw_path):
        with _named("make the folder", folder), open_parent(root_fd, folder) as (parent, name):
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=parent)
                made.append(folder)
            try:
                fd = os.open(name, _DIRECTORY, dir_fd=parent)
            except OSError as error:
                _refuse_parent(error, parent, folder)
            try:
                if made and made[-1] == folder:
                    os.fchmod(fd, 0o755)
                    if sync:
                        os.fsync(parent)
            finally:
                os.close(fd)
    return tuple(made)


def prune_empty_parents_at(root_fd: int, raw_path: bytes, *, sync: bool) -> tuple[bytes, ...]:
    """Remove the folders above the path that are empty, never the root; those removed, innermost first."""
    check_path(raw_path)
    removed: list[bytes] = []
    for folder in reversed(parents(raw_path)):
        try:
            with open_parent(root_fd, folder) as (parent, name):
                try:
                    os.rmdir(name, dir_fd=parent)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                        break
                    raise disk_error(error, f"Cannot remove the folder '{to_text(folder)}'") from error
                removed.append(folder)
                if sync:
                    os.fsync(parent)
        except PortError as error:
            if error.code != "port.not-found":
                raise
    return tuple(removed)
