"""Results that may be used again: small files by a key, each with the digest that shows it whole.

A cache and no evidence: whatever is wrong with an entry is the same as no entry, and nothing here ever fails a run.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from savant.contracts.digest import digest
from savant.contracts.errors import SavantError
from savant.files.atomic import read_optional, write_atomic
from savant.store.port import hex_of

MAX_RESULT_BYTES: Final = 32 * 1024 * 1024
MAX_KEPT: Final = 256
"""How many entries are kept; those that were not used for the longest go first."""


class KeptResults:
    """A folder of entries. Safe for many threads and processes: an entry is replaced as a whole."""

    def __init__(self, folder: Path, *, max_kept: int = MAX_KEPT) -> None:
        self._folder = folder
        self._max_kept = max_kept

    def get(self, key: str) -> bytes | None:
        """The bytes that were kept under a key (a digest); None where there are none, or they are damaged.

        :raises UsageError: ``usage.digest``.
        """
        path = self._folder / hex_of(key)
        try:
            raw = read_optional(path, max_bytes=MAX_RESULT_BYTES + 256)
        except SavantError:
            return None
        seal, _, body = (raw or b"").partition(b"\n")
        if raw is None or seal != _seal(key, body):
            return None
        with suppress(OSError):
            os.utime(path)
        return body

    def put(self, key: str, body: bytes) -> None:
        """Keep bytes under a key (a digest), in place of what was there; what cannot be kept is not.

        :raises UsageError: ``usage.digest``.
        """
        path = self._folder / hex_of(key)
        if len(body) > MAX_RESULT_BYTES:
            return
        with suppress(SavantError, OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(path, _seal(key, body) + b"\n" + body)
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        entries = sorted(self._folder.iterdir(), key=lambda path: path.lstat().st_mtime_ns)
        for path in entries[: -self._max_kept]:
            path.unlink(missing_ok=True)


def _seal(key: str, body: bytes) -> bytes:
    return digest(key.encode() + b"\n" + body).encode()
