"""The lines of a ledger in a file, as exports carry them: to be read, in bounded memory, and never appended to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from savant.contracts.errors import RefusedInput
from savant.ledger.checkpoint import parse_checkpoint
from savant.ledger.port import Tail
from savant.ledger.record import MAX_LINE_BYTES

_CHUNK: Final = MAX_LINE_BYTES + 2


class LineFile:
    """Implements :class:`savant.ledger.port.Source`. The files must stay as they are while it is used.

    :param lines: one record a line, each ended by a newline.
    :param checkpoint: one note; the size that it states is where it is filed.
    :raises RefusedInput: ``refused.record-too-large``, ``refused.line-file`` (an empty line, no newline at the end),
        and what a checkpoint's text may be refused for.
    """

    def __init__(self, lines: Path, checkpoint: Path, head: Path) -> None:
        self._path = lines
        self._offsets = [0]
        with lines.open("rb") as file:
            while line := file.readline(_CHUNK):
                if len(line) > MAX_LINE_BYTES + 1:
                    raise _refused("refused.record-too-large", f"Line {len(self._offsets)} is too long.")
                if line == b"\n" or not line.endswith(b"\n"):
                    raise _refused("refused.line-file", f"Line {len(self._offsets)} is empty or cut off.")
                self._offsets.append(self._offsets[-1] + len(line))
        note = checkpoint.read_bytes().decode("utf-8", "replace")
        self._checkpoints = ((parse_checkpoint(note).size, note),)
        self._head = head.read_bytes()

    def tail(self) -> Tail:
        """The last record and the size."""
        size = len(self._offsets) - 1
        return Tail(size, self.line(size - 1) or b"")

    def line(self, seq: int) -> bytes | None:
        """One line."""
        return next(self.lines(seq, seq + 1), None) if seq >= 0 else None

    def lines(self, start: int, stop: int) -> Iterator[bytes]:
        """The lines of a range, in order."""
        stop = min(stop, len(self._offsets) - 1)
        if start >= stop:
            return
        with self._path.open("rb") as file:
            file.seek(self._offsets[start])
            for _ in range(start, stop):
                yield file.readline().removesuffix(b"\n")

    def checkpoints(self) -> Iterator[tuple[int, str]]:
        """The one checkpoint."""
        return iter(self._checkpoints)

    def read_head(self) -> bytes | None:
        """The saved head."""
        return self._head


def _refused(code: str, why: str) -> RefusedInput:
    return RefusedInput(code, why, untouched="Nothing of it was used.", fix="Make the bundle anew: savant bundle RUN")
