"""What git objects say: commits, trees, modes, ids and revisions as values, and the port to read them through. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, Protocol

import msgspec

from savant.contracts.errors import RefusedInput
from savant.repository.node import Mode, check_name

ObjectFormat = Literal["sha1", "sha256"]

_FORBIDDEN_IN_REVISION: Final = re.compile(r"[\x00-\x20\x7f]")
_HEX: Final[Mapping[ObjectFormat, re.Pattern[str]]] = MappingProxyType(
    {"sha1": re.compile(r"[0-9a-f]{40}"), "sha256": re.compile(r"[0-9a-f]{64}")}
)
_ID_BYTES: Final[Mapping[ObjectFormat, int]] = MappingProxyType({"sha1": 20, "sha256": 32})


class TreeEntry(msgspec.Struct, frozen=True):
    """One entry of a tree: its raw path, its mode, the hex id of what it holds, and git's own octal mode.

    ``size`` is in bytes when the listing was asked for sizes and the entry is a blob, else None.
    """

    path: bytes
    mode: Mode
    oid: str
    git_mode: int
    size: int | None = None


class ObjectSource(Protocol):
    """What the rest of Savant reads a repository through. MUST return the exact stored bytes, MUST NOT write.

    Errors: ``port.missing-object`` when an object is not there, ``refused.size-limit`` before a too large one is read.
    """

    @property
    def object_format(self) -> ObjectFormat:
        """``sha1`` or ``sha256``."""
        ...

    def resolve_commit(self, rev: str) -> str:
        """The commit that a revision names, as a ``GitId``."""
        ...

    def tree_of(self, commit: str) -> str:
        """The tree of a commit, as a ``GitId``."""
        ...

    def parents(self, commit: str) -> tuple[str, ...]:
        """The parents of a commit in order, as ``GitId``."""
        ...

    def list_tree(self, tree: str) -> list[TreeEntry]:
        """Every entry below a tree that is not itself a tree, with its whole path, in git's order."""
        ...

    def read_blob(self, oid: str, *, max_bytes: int = ...) -> bytes:
        """The content of one blob."""
        ...

    def read_blobs(self, oids: Iterable[str], *, max_bytes: int = ...) -> Iterator[tuple[str, bytes]]:
        """The contents of many blobs as ``(hex id, content)``, in the order asked for."""
        ...


class Commit(msgspec.Struct, frozen=True):
    """What a commit fixes: its tree and its parents, as ``GitId``."""

    tree: str
    parents: tuple[str, ...]


def parse_commit(format_: ObjectFormat, data: bytes) -> Commit:
    """The tree and parents in a raw commit object.

    :raises RefusedInput: ``refused.malformed-object``.
    """
    lines = data.partition(b"\n\n")[0].split(b"\n")
    ids: list[str] = []
    for expected, line in zip((b"tree", *(b"parent" for _ in lines)), lines, strict=False):
        word, _, hex_ = line.partition(b" ")
        if word != expected:
            break
        ids.append(f"{format_}:{hex_of(format_, hex_.decode('ascii', 'replace'))}")
    if not ids:
        raise RefusedInput("refused.malformed-object", "A commit object does not begin with its tree.")
    return Commit(ids[0], tuple(ids[1:]))


def check_revision(rev: str) -> None:
    """Refuse what is not a plain revision: empty, an option, a path lookup, a space or control character.

    :raises RefusedInput: ``refused.unknown-revision``.
    """
    if not rev or len(rev) > 1024 or rev[0] in "-:^" or _FORBIDDEN_IN_REVISION.search(rev):
        raise unknown_revision(rev)


def hex_of(format_: ObjectFormat, oid: str) -> str:
    """The bare hex of a ``GitId`` or hex id of this object format.

    :raises RefusedInput: ``refused.object-id``.
    """
    hex_ = oid.removeprefix(f"{format_}:")
    if _HEX[format_].fullmatch(hex_) is None:
        raise RefusedInput("refused.object-id", f"{oid[:100]!r} is not a {format_} object id.")
    return hex_


def unknown_revision(rev: str) -> RefusedInput:
    """The error for a revision that names no commit."""
    return RefusedInput(
        "refused.unknown-revision",
        f"{rev[:200]!r} names no commit in this repository.",
        fix="Name a branch, a tag or a commit id that `git rev-parse --verify` knows.",
    )


def unborn_head() -> RefusedInput:
    """The error for HEAD before the first commit."""
    return RefusedInput(
        "refused.unborn-head", "The repository has no commit yet.", fix="Make a first commit, or name a revision."
    )


def mode_of(git_mode: int) -> Mode:
    """Our mode for git's octal one; old group-writable files are regular, as git itself reads them.

    :raises RefusedInput: ``refused.malformed-object``.
    """
    match git_mode & 0o170000:
        case 0o100000:
            return "executable" if git_mode & 0o100 else "regular"
        case 0o120000:
            return "symlink"
        case 0o160000:
            return "gitlink"
        case 0o040000:
            return "tree"
        case _:
            raise RefusedInput("refused.malformed-object", f"A tree entry has the unknown mode {git_mode:o}.")


def parse_tree(format_: ObjectFormat, data: bytes) -> list[TreeEntry]:
    """The entries of one raw tree object, each with its name as path, in the stored order.

    :raises RefusedInput: ``refused.malformed-object``, ``refused.bad-name``, ``refused.duplicate-path``.
    """
    entries: list[TreeEntry] = []
    seen: set[bytes] = set()
    at = 0
    while at < len(data):
        space = data.find(b" ", at, at + 8)
        end = data.find(b"\0", space)
        after = end + 1 + _ID_BYTES[format_]
        octal = data[at:space]
        if space < 0 or end < 0 or after > len(data) or not octal.isdigit() or octal.strip(b"01234567"):
            raise RefusedInput("refused.malformed-object", "A tree object breaks off or has no proper mode.")
        name = data[space + 1 : end]
        check_name(name)
        if name in seen:
            raise RefusedInput("refused.duplicate-path", f"A tree object lists {name!r} twice.")
        seen.add(name)
        git_mode = int(octal, 8)
        entries.append(TreeEntry(name, mode_of(git_mode), data[end + 1 : after].hex(), git_mode))
        at = after
    return entries


def require_type(oid: str, found: str, wanted: str) -> None:
    """Refuse an object whose type is not the one that its place in a tree says.

    :raises RefusedInput: ``refused.malformed-object``.
    """
    if found != wanted:
        raise RefusedInput("refused.malformed-object", f"Git object {oid} is a {found}, not a {wanted}.")


def is_hex(format_: ObjectFormat, text: str) -> bool:
    """Whether the text is a full object id in hex."""
    return _HEX[format_].fullmatch(text) is not None


def object_id(format_: ObjectFormat, type_: str, data: bytes) -> str:
    """Git's own id of an object with this content, in hex."""
    hasher = hashlib.new(format_, b"%s %d\0" % (type_.encode(), len(data)), usedforsecurity=False)
    hasher.update(data)
    return hasher.hexdigest()
