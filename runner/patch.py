"""A candidate as a patch that ``git apply`` takes: pure, deterministic, independent of anybody's git configuration.

The form is git's own: extended headers for modes, renames and copies, full blob ids in ``index`` lines, ``GIT binary
patch`` with zlib-compressed literals for content with a NUL byte. A patch is for people and tools; what we apply is
the sealed artifact, never a patch.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import Final

from runner.documents import CandidateOperation, FileState
from savant.files.paths import to_raw

Read = Callable[[FileState], bytes]
"""The content of a file state (a link's target)."""

_MODES: Final = MappingProxyType(
    {"regular": b"100644", "executable": b"100755", "symlink": b"120000", "gitlink": b"160000"}
)
_CONTEXT: Final = 3
_EXACT_LINES: Final = 20_000
"""Longer files are shown as one replaced block: a line matcher would take too long."""

_CHUNK: Final = 52
_LENGTHS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def patch_of(operations: Sequence[CandidateOperation], read: Read, *, object_format: str) -> bytes:
    """The patch of a candidate's operations, in their order.

    :param read: gives the content of each state that an operation names, before or after.
    :param object_format: ``sha1`` or ``sha256``, for the blob ids.
    """
    renamed = {operation.source for operation in operations if operation.kind == "rename"}
    parts = [
        part
        for operation in operations
        if not (operation.after is None and operation.path in renamed)
        for part in _operation(operation, read, object_format)
    ]
    return b"".join(parts)


def _operation(operation: CandidateOperation, read: Read, format_: str) -> Iterator[bytes]:
    path = to_raw(operation.path)
    source = to_raw(operation.source) if operation.source is not None else path
    if operation.kind in ("rename", "copy") and operation.after is not None:
        word = operation.kind.encode("ascii")
        yield b"diff --git %b %b\n" % (_quoted(b"a/" + source), _quoted(b"b/" + path))
        yield b"similarity index 100%%\n%b from %b\n%b to %b\n" % (word, _quoted(source), word, _quoted(path))
        return
    before, after = operation.before, operation.after
    if before is not None and after is not None and _is_other_type(before, after):
        yield from _file(path, before, None, read, format_)
        yield from _file(path, None, after, read, format_)
        return
    yield from _file(path, before, after, read, format_)


def _is_other_type(before: FileState, after: FileState) -> bool:
    plain = {"regular", "executable"}
    return before.mode != after.mode and not {before.mode, after.mode} <= plain


def _file(path: bytes, before: FileState | None, after: FileState | None, read: Read, format_: str) -> Iterator[bytes]:
    yield b"diff --git %b %b\n" % (_quoted(b"a/" + path), _quoted(b"b/" + path))
    old = b"" if before is None else _content(before, read)
    new = b"" if after is None else _content(after, read)
    tail = b""
    if before is None and after is not None:
        yield b"new file mode %b\n" % _MODES[after.mode]
    elif after is None and before is not None:
        yield b"deleted file mode %b\n" % _MODES[before.mode]
    elif before is not None and after is not None:
        if before.mode != after.mode:
            yield b"old mode %b\nnew mode %b\n" % (_MODES[before.mode], _MODES[after.mode])
        else:
            tail = b" " + _MODES[after.mode]
    if old == new and before is not None and after is not None:
        return
    absent = b"0" * (40 if format_ == "sha1" else 64)
    yield b"index %b..%b%b\n" % (
        absent if before is None else _blob_id(old, format_),
        absent if after is None else _blob_id(new, format_),
        tail,
    )
    if b"\0" in old or b"\0" in new:
        yield b"GIT binary patch\n" + _literal(new) + b"\n" + _literal(old) + b"\n"
    elif old != new:
        yield b"--- %b\n" % (b"/dev/null" if before is None else _quoted(b"a/" + path) + _tab(path))
        yield b"+++ %b\n" % (b"/dev/null" if after is None else _quoted(b"b/" + path) + _tab(path))
        yield from _render(_lines(old), _lines(new))


def _content(state: FileState, read: Read) -> bytes:
    return b"Subproject commit " + read(state) + b"\n" if state.mode == "gitlink" else read(state)


def _blob_id(data: bytes, format_: str) -> bytes:
    hasher = hashlib.new(format_, b"blob %d\0" % len(data), usedforsecurity=False)
    hasher.update(data)
    return hasher.hexdigest().encode("ascii")


def _literal(data: bytes) -> bytes:
    packed = zlib.compress(data, 9)
    lines = [b"literal %d\n" % len(data)]
    for start in range(0, len(packed), _CHUNK):
        chunk = packed[start : start + _CHUNK]
        lines.append(_LENGTHS[len(chunk) - 1 : len(chunk)] + base64.b85encode(chunk, pad=True) + b"\n")
    return b"".join(lines)


def _lines(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _render(before: list[bytes], after: list[bytes]) -> Iterator[bytes]:
    if max(len(before), len(after)) > _EXACT_LINES:
        groups = [[("replace", 0, len(before), 0, len(after))]]
    else:
        matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
        groups = [list(group) for group in matcher.get_grouped_opcodes(_CONTEXT)]
    for group in groups:
        (_, old_start, _, new_start, _), (_, _, old_end, _, new_end) = group[0], group[-1]
        yield b"@@ -%b +%b @@\n" % (_range(old_start, old_end), _range(new_start, new_end))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (_line(b" ", line) for line in before[i1:i2])
                continue
            yield from (_line(b"-", line) for line in before[i1:i2])
            yield from (_line(b"+", line) for line in after[j1:j2])


def _line(sign: bytes, line: bytes) -> bytes:
    return sign + line if line.endswith(b"\n") else sign + line + b"\n\\ No newline at end of file\n"


def _range(start: int, end: int) -> bytes:
    count = end - start
    first = start + 1 if count else start
    return b"%d" % first if count == 1 else b"%d,%d" % (first, count)


def _tab(path: bytes) -> bytes:
    return b"\t" if b" " in path and _quoted(path) == path else b""


def _quoted(path: bytes) -> bytes:
    """The path in git's C-style quotes when it holds anything but printable ASCII without quote and backslash."""
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in path):
        return path
    named = {0x07: b"\\a", 0x08: b"\\b", 0x09: b"\\t", 0x0A: b"\\n", 0x0B: b"\\v", 0x0C: b"\\f", 0x0D: b"\\r"}
    named |= {0x22: b'\\"', 0x5C: b"\\\\"}
    quoted = b"".join(named.get(byte, bytes([byte]) if 0x20 <= byte < 0x7F else b"\\%03o" % byte) for byte in path)
    return b'"' + quoted + b'"'
