"""The twin of :class:`~savant.repository.git.Repository` in memory: real git ids, no git, no disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from savant.repository.node import Mode, check_name
from savant.repository.objects import (
    ObjectFormat,
    TreeEntry,
    check_revision,
    hex_of,
    mode_of,
    object_id,
    parse_commit,
    parse_tree,
    require_type,
    unborn_head,
    unknown_revision,
)
from savant.repository.reader import MAX_OBJECT_BYTES, missing, too_large

MODES: Final[Mapping[Mode, bytes]] = {
    "regular": b"100644",
    "executable": b"100755",
    "symlink": b"120000",
    "gitlink": b"160000",
    "tree": b"40000",
}


class MemoryRepository:
    """Commits made from dictionaries, with the same ids that git would give them."""

    def __init__(self, object_format: ObjectFormat = "sha1") -> None:
        self._format: ObjectFormat = object_format
        self._objects: dict[str, tuple[str, bytes]] = {}
        self.branches: dict[str, str] = {}
        """Commit ids (hex) by branch name; HEAD is ``main``."""

    @property
    def object_format(self) -> ObjectFormat:
        """``sha1`` or ``sha256``."""
        return self._format

    def commit(
        self, files: Mapping[bytes, tuple[Mode, bytes]], *, parents: Iterable[str] = (), branch: str = "main"
    ) -> str:
        """Commit exactly these files to a branch; the ``GitId``. For a gitlink the bytes are the commit's hex id."""
        lines = [b"tree " + self._tree(files).encode()]
        lines += [b"parent " + hex_of(self._format, parent).encode() for parent in parents]
        who = b"A <a@example.org> 1700000000 +0000"
        hex_ = self._put("commit", b"\n".join([*lines, b"author " + who, b"committer " + who, b"", b"m\n"]))
        self.branches[branch] = hex_
        return f"{self._format}:{hex_}"

    def forget(self, oid: str) -> None:
        """Lose an object, as a partial clone or a damaged store has."""
        del self._objects[hex_of(self._format, oid)]

    def resolve_commit(self, rev: str) -> str:
        """The commit that a full id, a branch or HEAD names."""
        check_revision(rev)
        name = rev.removeprefix(f"{self._format}:")
        hex_ = name if name in self._objects else self.branches.get("main" if name in ("HEAD", "@") else name)
        if hex_ is None:
            raise unborn_head() if name in ("HEAD", "@") else unknown_revision(name)
        if self._read(hex_)[0] != "commit":
            raise unknown_revision(name)
        return f"{self._format}:{hex_}"

    def tree_of(self, commit: str) -> str:
        """The tree of a commit."""
        return parse_commit(self._format, self._commit(commit)).tree

    def parents(self, commit: str) -> tuple[str, ...]:
        """The parents of a commit in order."""
        return parse_commit(self._format, self._commit(commit)).parents

    def list_tree(self, tree: str) -> list[TreeEntry]:
        """Every entry below a tree with its whole path, in git's order."""
        return list(self._list(hex_of(self._format, tree), b""))

    def read_blob(self, oid: str, *, max_bytes: int = MAX_OBJECT_BYTES) -> bytes:
        """The content of one blob."""
        hex_ = hex_of(self._format, oid)
        type_, data = self._read(hex_)
        if len(data) > max_bytes:
            raise too_large(hex_, len(data), max_bytes)
        require_type(hex_, type_, "blob")
        return data

    def read_blobs(self, oids: Iterable[str], *, max_bytes: int = MAX_OBJECT_BYTES) -> Iterator[tuple[str, bytes]]:
        """The contents of many blobs in the order asked for."""
        for oid in oids:
            yield hex_of(self._format, oid), self.read_blob(oid, max_bytes=max_bytes)

    def _commit(self, oid: str) -> bytes:
        type_, data = self._read(hex_of(self._format, oid))
        if type_ != "commit":
            raise unknown_revision(oid)
        return data

    def _read(self, hex_: str) -> tuple[str, bytes]:
        found = self._objects.get(hex_)
        if found is None:
            raise missing(hex_)
        return found

    def _put(self, type_: str, data: bytes) -> str:
        hex_ = object_id(self._format, type_, data)
        self._objects[hex_] = (type_, data)
        return hex_

    def _list(self, hex_: str, prefix: bytes) -> Iterator[TreeEntry]:
        type_, data = self._read(hex_)
        require_type(hex_, type_, "tree")
        for entry in parse_tree(self._format, data):
            path = prefix + entry.path
            if entry.mode == "tree":
                yield from self._list(entry.oid, path + b"/")
            else:
                yield TreeEntry(path, entry.mode, entry.oid, entry.git_mode)

    def _tree(self, files: Mapping[bytes, tuple[Mode, bytes]]) -> str:
        here: dict[bytes, tuple[bytes, str]] = {}
        below: dict[bytes, dict[bytes, tuple[Mode, bytes]]] = {}
        for path, (mode, data) in files.items():
            name, slash, rest = path.partition(b"/")
            check_name(name)
            if slash:
                below.setdefault(name, {})[rest] = (mode, data)
            else:
                here[name] = (MODES[mode], data.decode() if mode == "gitlink" else self._put("blob", data))
        for name, inside in below.items():
            here[name] = (MODES["tree"], self._tree(inside))
        ordered = sorted(
            here.items(), key=lambda item: item[0] + (b"/" if mode_of(int(item[1][0], 8)) == "tree" else b"")
        )
        return self._put(
            "tree", b"".join(mode + b" " + name + b"\0" + bytes.fromhex(oid) for name, (mode, oid) in ordered)
        )
