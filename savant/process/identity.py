"""Which executable runs: the digest of its bytes, links followed, because a tool is named by what runs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final, TypeAlias

from savant.contracts.digest import new_hasher, to_text
from savant.contracts.errors import PortError

_CHUNK_BYTES: Final = 1024 * 1024
_SETTLED_NS: Final = 2_000_000_000
"""How old the last change must be when a file is read, so that every later change shows in its time stamps."""

_Key: TypeAlias = tuple[int, int, int, int, int, int]
_known: dict[_Key, str] = {}
"""What was read already: agents have hundreds of megabytes, and are compared before every call."""


def executable_digest(path: Path) -> str:
    """The digest of an executable's bytes.

    A file is read once for as long as its device, inode, size, mode, and the times of its last change are the same: the
    kernel alone sets the last of these.

    :raises PortError: ``port.executable`` when it cannot be read.
    """
    try:
        known = _known.get(_key(path.stat()))
        return _read(path) if known is None else known
    except OSError as error:
        raise PortError("port.executable", f"The executable {path} cannot be read: {error.strerror}.") from error


def _read(path: Path) -> str:
    hasher = new_hasher()
    with path.open("rb") as file:
        before = os.fstat(file.fileno())
        is_settled = time.time_ns() - max(before.st_ctime_ns, before.st_mtime_ns) > _SETTLED_NS
        while chunk := file.read(_CHUNK_BYTES):
            hasher.update(chunk)
        after = os.fstat(file.fileno())
    found = to_text(hasher.digest())
    if is_settled and _key(before) == _key(after):
        _known[_key(before)] = found
    return found


def _key(facts: os.stat_result) -> _Key:
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mode, facts.st_mtime_ns, facts.st_ctime_ns)
