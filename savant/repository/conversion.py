"""Which applied paths git would not store as they are: its clean conversion of the bytes would give another blob.

git decides which attributes apply (``check-attr --cached`` on a private index that holds the base with the candidate's
``.gitattributes``); what they would do to the bytes is worked out here, because asking git would run the filters. The
rules are those of gitattributes(5) and of git's ``convert.c``:

- ``filter``: any driver but ``lfs`` changes what it likes; ``lfs`` changes everything that is not a pointer yet.
- ``working-tree-encoding`` other than UTF-8 re-encodes everything that is not empty.
- ``ident`` collapses ``$Id: ... $``.
- ``text``, ``eol``, the old ``crlf`` and ``core.autocrlf`` turn CR LF into LF: always when text is set, and for
  ``text=auto`` when git takes the content for text and the base's blob at this path has no CR LF in it.

Configuration is that of the repository; what a person's own ``~/.gitconfig`` says is not looked at.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from savant.repository.git import Repository
from savant.repository.reader import MAX_OBJECT_BYTES

ATTRIBUTES: Final = ("text", "eol", "crlf", "ident", "working-tree-encoding", "filter")

_IDENT: Final = re.compile(rb"\$Id:[^$\n]*\$")
_LFS_POINTER: Final = b"version https://git-lfs.github.com/spec/"
_LFS_POINTER_BYTES: Final = 1024
_UTF8: Final = frozenset({"utf-8", "utf8"})
_NOT_PRINTABLE: Final = bytes({*range(32), 127} - {8, 9, 10, 12, 13, 27})
_LINE_ENDING_VALUES: Final = frozenset({"set", "unset", "auto", "input"})
_TRUE: Final = frozenset({"true", "yes", "on", "1", "input"})


def converted_paths(
    repository: Repository,
    commit: str,
    contents: Mapping[bytes, bytes],
    *,
    removed: Collection[bytes] = (),
) -> list[tuple[bytes, str]]:
    """The paths among ``contents`` whose bytes git's clean conversion would change, with the attribute to blame.

    :param contents: every regular file that the candidate creates or modifies, by raw path.
    :param removed: every path that the candidate removes.
    :returns: ``(path, attribute)`` in the order of the paths, e.g. ``(b"a.txt", "eol=crlf")``.
    :raises PortError: ``port.git-failed``, ``port.missing-object``.
    """
    if not contents:
        return []
    auto_crlf = _auto_crlf(repository)
    found: list[tuple[bytes, str]] = []
    for path, attributes in _attributes(repository, commit, contents, removed).items():
        data = contents[path]
        blame = _clean_changes(attributes, data)
        if blame is None and b"\r\n" in data:
            ending, is_auto = _line_ending(attributes, auto_crlf)
            if ending is not None and not (is_auto and (is_binary(data) or _base_has_crlf(repository, commit, path))):
                blame = ending
        if blame is not None:
            found.append((path, blame))
    return sorted(found)


def _clean_changes(attributes: Mapping[str, str], data: bytes) -> str | None:
    """The attribute other than those for line endings that changes the bytes."""
    driver = attributes.get("filter", "unset")
    if driver not in ("unset", "set") and not (driver == "lfs" and is_lfs_pointer(data)):
        return f"filter={driver}"
    encoding = attributes.get("working-tree-encoding", "unset")
    if data and encoding not in ("unset", "set", "") and encoding.lower() not in _UTF8:
        return f"working-tree-encoding={encoding}"
    if attributes.get("ident") == "set" and _IDENT.search(data):
        return "ident"
    return None


def _line_ending(attributes: Mapping[str, str], auto_crlf: str | None) -> tuple[str | None, bool]:
    """The setting that turns CR LF into LF (None when nothing does), and whether only in what looks like text."""
    name = "text" if attributes.get("text") in _LINE_ENDING_VALUES else "crlf"
    text = attributes.get(name)
    eol = attributes.get("eol")
    match text:
        case "unset":
            return None, False
        case "auto":
            return f"{name}=auto", True
        case "set" | "input":
            return (name if text == "set" else f"{name}=input"), False
        case _ if eol in ("lf", "crlf"):
            return f"eol={eol}", False
        case _ if auto_crlf is not None:
            return f"core.autocrlf={auto_crlf}", True
        case _:
            return None, False


def is_lfs_pointer(data: bytes) -> bool:
    """Whether these bytes are what the LFS filter leaves alone: a pointer, or nothing."""
    return not data or (len(data) < _LFS_POINTER_BYTES and data.startswith(_LFS_POINTER))


def is_binary(data: bytes) -> bool:
    """Whether git takes content for binary when it decides on line endings (``convert_is_binary`` in ``convert.c``)."""
    if b"\0" in data or data.count(b"\r") != data.count(b"\r\n"):
        return True
    body = data[:-1] if data.endswith(b"\x1a") else data
    not_printable = len(body) - len(body.translate(None, _NOT_PRINTABLE))
    printable = len(body) - not_printable - body.count(b"\n") - body.count(b"\r")
    return printable >> 7 < not_printable


def _auto_crlf(repository: Repository) -> str | None:
    done = repository.git.run(["config", "--get", "core.autocrlf"])
    value = done.stdout.decode("utf-8", "replace").strip().lower()
    return value if done.returncode == 0 and value in _TRUE else None


def _base_has_crlf(repository: Repository, commit: str, path: bytes) -> bool:
    if b"\n" in path:
        return False
    name = f"{repository.hex_id(repository.tree_of(commit))}:{os.fsdecode(path)}"
    found = repository.find(name, max_bytes=MAX_OBJECT_BYTES)
    return found is not None and found.type == "blob" and b"\r\n" in found.data and not is_binary(found.data)


def _attributes(
    repository: Repository, commit: str, contents: Mapping[bytes, bytes], removed: Collection[bytes]
) -> dict[bytes, dict[str, str]]:
    """The attributes in force at each path, without those that are unspecified."""
    found: dict[bytes, dict[str, str]] = {}
    with _private_index(repository) as environment:
        git = repository.git
        git.output(["read-tree", repository.hex_id(repository.tree_of(commit))], environment=environment)
        zero = b"0" * (40 if repository.object_format == "sha1" else 64)
        lines = [b"0 %s\t%s\0" % (zero, path) for path in removed if _is_attributes(path)]
        for path, data in contents.items():
            if _is_attributes(path):
                blob = git.output(["hash-object", "-w", "--stdin", "--no-filters"], stdin=data, environment=environment)
                lines.append(b"100644 %s\t%s\0" % (blob.strip(), path))
        if lines:
            git.output(["update-index", "-z", "--index-info"], stdin=b"".join(lines), environment=environment)
        out = git.output(
            ["check-attr", "--cached", "--stdin", "-z", *ATTRIBUTES],
            stdin=b"".join(path + b"\0" for path in contents),
            environment=environment,
        )
    fields = out.split(b"\0")
    for path, name, value in zip(fields[0::3], fields[1::3], fields[2::3], strict=False):
        attributes = found.setdefault(path, {})
        if value != b"unspecified":
            attributes[name.decode()] = value.decode("utf-8", "backslashreplace")
    return found


def _is_attributes(path: bytes) -> bool:
    return path.rpartition(b"/")[2] == b".gitattributes"


@contextmanager
def _private_index(repository: Repository) -> Iterator[dict[str, str]]:
    """An index and an object folder of our own, gone afterwards: nothing is written to the repository."""
    with tempfile.TemporaryDirectory(prefix="savant-attributes-") as folder:
        objects = Path(folder) / "objects"
        objects.mkdir()
        yield {
            "GIT_INDEX_FILE": str(Path(folder) / "index"),
            "GIT_OBJECT_DIRECTORY": str(objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(repository.common_dir / "objects"),
        }


def _quoted(path: Path) -> str:
    text = str(path)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if text.startswith('"') or ":" in text else text
