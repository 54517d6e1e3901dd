"""The real scope of a candidate: its operations with what they add, derived from manifests and contents. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from admission.documents import ScopeEntry
from evaluator.checks.change import ChangedFile
from evaluator.checks.secrets import Secret, find_secrets
from evaluator.documents import Policy as EvaluatorPolicy
from runner.documents import CandidateOperation, FileState
from savant.files.paths import to_raw
from savant.files.patterns import PatternSet

Read = Callable[[CandidateOperation, FileState], bytes]
"""The content of an operation's before or after state."""

MAX_COUNTED_BYTES: Final = 16 * 1024 * 1024
"""Larger texts are not compared line by line: every line of them counts."""


def derive_scope(
    operations: Iterable[CandidateOperation], read_before: Read, read_after: Read, *, known: Sequence[str] = ()
) -> tuple[ScopeEntry, ...]:
    """The scope of a candidate's operations, in their order.

    Lines are counted as multisets: a line that occurs more often afterwards was added, one that occurs less often was
    removed. That is linear, needs no alignment, and never counts fewer added lines than were written anew. A content
    with a NUL byte is binary and has no lines; what stands in its place does.

    :param known: patterns of paths in which no secrets are looked for, see :func:`known_secrets`.
    """
    unlooked = PatternSet.parse(known)
    return tuple(_entry(operation, read_before, read_after, unlooked) for operation in operations)


def known_secrets(policy: EvaluatorPolicy) -> tuple[str, ...]:
    """The paths in which the project says that what looks like a secret is none (test keys, say)."""
    return tuple(pattern for e in policy.evaluators if e.evaluator == "secrets" for pattern in e.patterns)


def _entry(operation: CandidateOperation, read_before: Read, read_after: Read, unlooked: PatternSet) -> ScopeEntry:
    before = _text(operation, operation.before, read_before)
    after = _text(operation, operation.after, read_after)
    binary = before is None or after is None
    relabelled = operation.kind in ("rename", "copy")
    added, removed = (0, 0) if relabelled else _count_lines(before or b"", after or b"")
    secrets: tuple[Secret, ...] = ()
    if added and not unlooked.matches(to_raw(operation.path)):
        secrets = find_secrets(ChangedFile(operation, before, after).added())
    return ScopeEntry(
        path=operation.path,
        kind=operation.kind,
        source=operation.source,
        before=operation.before,
        after=operation.after,
        added_lines=added,
        removed_lines=removed,
        added_secrets=len(secrets),
        binary=binary,
    )


def _count_lines(before: bytes, after: bytes) -> tuple[int, int]:
    """Lines added and removed."""
    if max(len(before), len(after)) > MAX_COUNTED_BYTES:
        return len(after.splitlines()), len(before.splitlines())
    old, new = Counter(before.splitlines()), Counter(after.splitlines())
    return (new - old).total(), (old - new).total()


def _text(operation: CandidateOperation, state: FileState | None, read: Read) -> bytes | None:
    """The content as text lines; empty for nothing, None for binary."""
    if state is None or state.mode in ("symlink", "gitlink"):
        return b""
    data = read(operation, state)
    return None if b"\0" in data else data
