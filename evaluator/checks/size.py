"""The size of a change: how much of a file did not stay, in parts per million. Pure.

The distance of two contents is the bytes of the lines that one of them has and the other does not, aligned so that most
bytes stay. What is compared exactly is bounded: where the middle of two files, between their equal heads and tails, has
more than :data:`MAX_CELLS` pairs of lines, all of it counts, which is never less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from evaluator.checks.change import ChangedFile, bad, case_of
from evaluator.compare import Case
from evaluator.documents import EvaluatorConfig
from savant.contracts.errors import InternalError
from synthesis.documents import Finding

MILLION: Final = 1_000_000
MAX_CELLS: Final = 4_000_000


def check_change_size(config: EvaluatorConfig, files: Sequence[ChangedFile]) -> Case:
    """No file, and not all together, changes more than the configuration allows; new files as it says."""
    limits = config.change_size
    if limits is None:
        raise InternalError("internal.change-size", "An evaluator of the size of a change has no limits.")
    findings: list[Finding] = []
    distance, whole = 0, 0
    changed = [file for file in files if file.operation.kind not in ("rename", "copy")]
    moved_away = {file.operation.source for file in files if file.operation.kind == "rename"}
    for file in changed:
        if file.after is None and file.path in moved_away:
            continue
        if file.is_new and limits.new_files == "refuse":
            findings.append(bad(config.id, file.path, None, "a new file"))
        if file.is_new and limits.new_files != "count":
            continue
        before, after = file.before or b"", file.after or b""
        moved, size = edit_distance(before, after), len(before) + len(after)
        distance, whole = distance + moved, whole + size
        if not file.is_new and ppm(moved, size) > limits.file_ppm:
            findings.append(bad(config.id, file.path, None, _words(ppm(moved, size), limits.file_ppm, "of the file")))
    if ppm(distance, whole) > limits.total_ppm:
        findings.append(bad(config.id, None, None, _words(ppm(distance, whole), limits.total_ppm, "of all files")))
    return case_of(findings)


def ppm(distance: int, size: int) -> int:
    """A distance in parts per million of the bytes of both contents; a million: nothing stayed."""
    return distance * MILLION // size if size else 0


def edit_distance(before: bytes, after: bytes) -> int:
    """The bytes of the lines that did not stay, of both contents."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    lost = sum(map(len, old)) + sum(map(len, new))
    if not old or not new or len(old) * len(new) > MAX_CELLS:
        return lost
    return lost - 2 * _common(old, new)


def _common(old: Sequence[bytes], new: Sequence[bytes]) -> int:
    """The most bytes of lines that both have in one order."""
    row = [0] * (len(new) + 1)
    for line in old:
        corner = 0
        for place, other in enumerate(new, 1):
            above = row[place]
            row[place] = corner + len(line) if line == other else max(above, row[place - 1])
            corner = above
    return row[-1]


def _words(seen: int, limit: int, what: str) -> str:
    return f"{seen} millionths {what} changed; {limit} are allowed"
