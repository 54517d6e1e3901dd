"""Which executable runs: the digest of its bytes, links followed, because a tool is named by what runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from savant.contracts.digest import new_hasher, to_text
from savant.contracts.errors import PortError

_CHUNK_BYTES: Final = 1024 * 1024


def executable_digest(path: Path) -> str:
    """The digest of an executable's bytes.

    :raises PortError: ``port.executable`` when it cannot be read.
    """
    hasher = new_hasher()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                hasher.update(chunk)
    except OSError as error:
        raise PortError("port.executable", f"The executable {path} cannot be read: {error.strerror}.") from error
    return to_text(hasher.digest())
