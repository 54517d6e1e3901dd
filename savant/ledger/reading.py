"""Reading a ledger without a trace: a private copy is opened, the original is only read.

SQLite cannot open a WAL database without writing beside it, and a ledger that is under suspicion, on a read-only disk
or in somebody else's hands must stay as it is. So the files are copied, no link followed, and the copy is opened. A
copy that a writer changed meanwhile is thrown away and made again.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from savant.contracts.errors import PortError, RefusedInput, Unverifiable
from savant.files.atomic import remove_tree
from savant.ledger.sqlitestore import DATABASE_NAME, HEAD_NAME, SqliteStore

WAL_NAME: Final = DATABASE_NAME + "-wal"
_FILES: Final = (HEAD_NAME, DATABASE_NAME, WAL_NAME)
"""The head first: a store that grew after its head was read still extends it."""

_TRIES: Final = 20
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_State = tuple[int, int, int, int] | None


@contextmanager
def open_copy(directory: Path, scratch: Path) -> Iterator[SqliteStore]:
    """The ledger of a directory as it is now, from a private copy that vanishes at the end.

    :param scratch: an existing folder for the copy, on a local disk.
    :raises Unverifiable: ``unverifiable.no-ledger``, ``unverifiable.ledger-version``.
    :raises RefusedInput: ``refused.ledger-link`` when a file of the ledger is no regular file.
    :raises PortError: ``port.ledger``; ``port.ledger-busy`` when a writer never paused.
    """
    copy = Path(tempfile.mkdtemp(prefix="ledger-", dir=scratch))
    try:
        _copy_ledger(directory, copy)
        store = SqliteStore(copy)
        try:
            yield store
        finally:
            store.close()
    finally:
        remove_tree(copy)


def _copy_ledger(directory: Path, copy: Path) -> None:
    for _ in range(_TRIES):
        before = _states(directory)
        if before[DATABASE_NAME] is None:
            raise Unverifiable(
                "unverifiable.no-ledger", f"There is no ledger in {directory}.", fix="Run: savant synthesis-run"
            )
        for name in _FILES:
            _copy_file(directory / name, copy / name)
        if _states(directory) == before:
            return
    raise PortError("port.ledger-busy", f"The ledger in {directory} never stood still to be read.", retryable=True)


def _states(directory: Path) -> dict[str, _State]:
    return {name: _state(directory / name) for name in _FILES}


def _state(path: Path) -> _State:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise RefusedInput("refused.ledger-link", f"{path} is not a regular file.", untouched="Nothing was read.")
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _copy_file(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        fd = os.open(source, _READ)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise RefusedInput("refused.ledger-link", f"{source} is a link.", untouched="Nothing was read.") from error
        raise _unreadable(source, error) from error
    with os.fdopen(fd, "rb") as reader:
        try:
            with target.open("xb") as writer:
                shutil.copyfileobj(reader, writer)
        except OSError as error:
            raise _unreadable(source, error) from error


def _unreadable(path: Path, error: OSError) -> PortError:
    return PortError("port.ledger", f"The ledger file {path} cannot be read: {error.strerror}.")
