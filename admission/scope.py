"""The real scope of a candidate: its operations with line counts, derived from manifests and contents. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from admission.documents import ScopeEntry
from runner.documents import CandidateOperation, FileState

Read = Callable[[CandidateOperation, FileState], bytes]
"""The content of an operation's before or after state."""

MAX_COUNTED_BYTES: Final = 16 * 1024 * 1024
"""Larger contents count as binary."""


def derive_scope(
    operations: Iterable[CandidateOperation], read_before: Read, read_after: Read
) -> tuple[ScopeEntry, ...]:
    """The scope of a candidate's operations, in their order.

    Lines are counted as multisets: a line that occurs more often afterwards was added, one that occurs less often was
    removed. That is linear, needs no alignment, and never counts fewer added lines than were written anew.
    """
    return tuple(_entry(operation, read_before, read_after) for operation in operations)


def _entry(operation: CandidateOperation, read_before: Read, read_after: Read) -> ScopeEntry:
    before = _text(operation, operation.before, read_before)
    after = _text(operation, operation.after, read_after)
    binary = before is None or after is None
    old, new = Counter((before or b"").splitlines()), Counter((after or b"").splitlines())
    relabelled = operation.kind in ("rename", "copy")
    return ScopeEntry(
        path=operation.path,
        kind=operation.kind,
        source=operation.source,
        before=operation.before,
        after=operation.after,
        added_lines=0 if binary or relabelled else (new - old).total(),
        removed_lines=0 if binary else (old - new).total(),
        binary=binary,
    )


def _text(operation: CandidateOperation, state: FileState | None, read: Read) -> bytes | None:
    """The content as text lines; empty for nothing, None for binary."""
    if state is None or state.mode in ("symlink", "gitlink"):
        return b""
    if state.size_bytes > MAX_COUNTED_BYTES:
        return None
    data = read(operation, state)
    return None if b"\0" in data else data
