"""What a candidate changes, file by file, as the built-in checks look at it. Reads both trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from evaluator.compare import Case
from providerport.port import BaseReader
from runner.documents import CandidateOperation, FileState
from savant.files.paths import to_raw
from savant.files.patterns import PatternSet
from synthesis.documents import Finding

MAX_FINDINGS: Final = 100
"""Findings of one built-in check; that there are more is said in the last one."""


class ChangedFile(msgspec.Struct, frozen=True):
    """One changed path with the contents of its regular files; None where there is none, or a link or submodule."""

    operation: CandidateOperation
    before: bytes | None
    after: bytes | None

    @property
    def path(self) -> str:
        """The path as text."""
        return self.operation.path

    @property
    def is_new(self) -> bool:
        """Whether the content is new: neither there before nor taken over from another path."""
        return self.operation.before is None and self.operation.kind not in ("rename", "copy")

    def added(self) -> Iterator[tuple[int, bytes]]:
        """The lines that are there more often than before, with their numbers; none of a binary content.

        A renamed or copied content adds none.
        """
        if self.after is None or is_binary(self.after) or self.operation.kind in ("rename", "copy"):
            return
        left = Counter((self.before or b"").splitlines())
        for number, line in enumerate(self.after.splitlines(), 1):
            if left[line]:
                left[line] -= 1
            else:
                yield number, line


def changed_files(
    operations: Sequence[CandidateOperation], base: BaseReader, candidate: BaseReader
) -> Iterator[ChangedFile]:
    """Every changed path, in order; contents are read one after the other. Errors as reading a tree."""
    for operation in operations:
        yield ChangedFile(
            operation, _content(operation, operation.before, base), _content(operation, operation.after, candidate)
        )


def is_binary(data: bytes) -> bool:
    """Whether a content has no lines."""
    return b"\0" in data


def below(patterns: Sequence[str], path: str) -> bool:
    """Whether a path is named by patterns; without any, none is."""
    return bool(patterns) and PatternSet.parse(patterns).matches(to_raw(path))


def bad(check: str, path: str | None, line: int | None, message: str, excerpt: str = "") -> Finding:
    """A finding of a built-in check."""
    return Finding(check=check, status="failed", path=path, line=line, message=message, excerpt=excerpt)


def case_of(findings: Iterable[Finding]) -> Case:
    """Failed with what was found; passed where nothing was."""
    found = tuple(findings)
    return Case("failed", found) if found else Case("passed")


def _content(operation: CandidateOperation, state: FileState | None, tree: BaseReader) -> bytes | None:
    if state is None or state.mode in ("symlink", "gitlink"):
        return None
    return tree.read(to_raw(operation.path))
