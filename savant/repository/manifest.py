"""The Merkle manifest of a tree: one digest for every byte, name and mode below a folder. Pure.

The format of a node, with a worked example, is specified in :mod:`savant.repository.node`. A manifest is the digest of
a root node and a source to read nodes from; it reads only the folders that a question needs, believes none of them
before their digest is recomputed, and a changed tree shares every untouched folder with the tree it came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Final, TypeAlias

import msgspec

from savant.contracts.digest import raw_digest, to_text
from savant.contracts.errors import RefusedInput, VerificationError
from savant.repository.node import (
    HEADING,
    Children,
    Entry,
    MemoryNodes,
    NodeSource,
    check_name,
    encode_node,
    parse_node,
)

MAX_DEPTH: Final = 200
"""The deepest path that is accepted, in names."""

Difference: TypeAlias = tuple[bytes, Entry | None, Entry | None]
"""A path with what stood there before and what stands there after; None where nothing does."""


class Manifest:
    """A tree by its root digest, its nodes read and verified when they are needed. Immutable."""

    def __init__(self, root: bytes, nodes: NodeSource, _parsed: dict[bytes, Children] | None = None) -> None:
        self.root = root
        self.nodes = nodes
        self._parsed: dict[bytes, Children] = {} if _parsed is None else _parsed
        self._layer: MemoryNodes | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Manifest) and self.root == other.root

    def __hash__(self) -> int:
        return hash(self.root)

    def __repr__(self) -> str:
        return f"Manifest({self.digest})"

    @property
    def digest(self) -> str:
        """The root digest as ``blake3:<64 hex>``."""
        return to_text(self.root)

    def node(self, digest: bytes) -> bytes:
        """The verified bytes of one node.

        :raises VerificationError: ``unverified.node`` when they are not what the digest says.
        :raises Unverifiable: ``unverifiable.node-missing``.
        """
        raw = self.nodes.get(digest)
        if raw_digest(raw) != digest:
            raise VerificationError("unverified.node", f"A manifest node is not what its digest {digest.hex()} says.")
        return raw

    def children(self, digest: bytes) -> Mapping[bytes, Entry]:
        """The entries of the folder whose node has this digest, in order of their names. Errors as :meth:`node`."""
        known = self._parsed.get(digest)
        if known is None:
            known = self._parsed[digest] = parse_node(self.node(digest))
        return known

    def folder(self, path: bytes) -> Mapping[bytes, Entry] | None:
        """The entries of the folder at this path (``b""`` is the root), or None when no folder is there."""
        if not path:
            return self.children(self.root)
        entry = self.get(path)
        return None if entry is None or entry.mode != "tree" else self.children(entry.digest)

    def get(self, path: bytes) -> Entry | None:
        """What stands at a path: a file, a link, a gitlink or a folder; None when nothing does."""
        *above, name = path.split(b"/")
        digest = self.root
        for part in above:
            entry = self.children(digest).get(part)
            if entry is None or entry.mode != "tree":
                return None
            digest = entry.digest
        return self.children(digest).get(name)

    def walk(self) -> Iterator[tuple[bytes, Entry]]:
        """Every path that is not a folder with its entry, in the order of the paths' bytes."""
        return self.walk_below(self.root, b"")

    def walk_below(self, digest: bytes, prefix: bytes) -> Iterator[tuple[bytes, Entry]]:
        """As :meth:`walk` for one folder's node, with ``prefix`` (ending in ``/`` unless empty) before each path."""
        for name, entry in sorted(self.children(digest).items(), key=_path_order):
            if entry.mode == "tree":
                yield from self.walk_below(entry.digest, prefix + name + b"/")
            else:
                yield prefix + name, entry

    def with_changes(self, changes: Mapping[bytes, Entry | None]) -> Manifest:
        """The tree that holds, at each of these paths, exactly the file the mapping says; None says that none is there.

        Only the folders on the way to a change are computed anew; a folder that becomes empty vanishes. The order of
        the mapping does not matter, and removing what is not there changes nothing.

        :raises RefusedInput: ``refused.file-directory-conflict`` when a path would be a file and a folder at once, lie
            below a file, or name a folder; ``refused.bad-name``; ``refused.too-deep``; ``refused.malformed-node`` for
            an entry of mode ``tree``.
        """
        if not changes:
            return self
        # One layer above what the first change started from, however many changes follow one another.
        nodes = self._layer.layer() if self._layer is not None else MemoryNodes(under=self.nodes)
        top = self._changed(self.children(self.root), _nest(changes), b"", nodes)
        result = Manifest(self._keep(top, nodes), nodes, self._parsed)
        result._layer = nodes
        return result

    def _keep(self, children: Children, nodes: MemoryNodes) -> bytes:
        digest = nodes.put(encode_node(children))
        self._parsed[digest] = children
        return digest

    def _changed(
        self, children: Mapping[bytes, Entry], changes: Mapping[bytes, _Change], prefix: bytes, nodes: MemoryNodes
    ) -> Children:
        result = dict(children)
        for name, change in changes.items():
            path = prefix + name
            before = result.pop(name, None)
            folder = before.digest if before is not None and before.mode == "tree" else None
            kept = before if folder is None and not change.said else change.own
            after = self._changed({} if folder is None else self.children(folder), change.below, path + b"/", nodes)
            if after and (kept is not None or (change.said and folder is not None)):
                raise conflict(path)
            if after:
                result[name] = Entry("tree", self._keep(after, nodes))
            elif kept is not None:
                result[name] = kept
        return dict(sorted(result.items()))


class _Change(msgspec.Struct):
    """What the mapping says about one name: about a file of this name (``said``, ``own``) and about paths below it."""

    said: bool = False
    own: Entry | None = None
    below: dict[bytes, _Change] = msgspec.field(default_factory=dict)


def _nest(changes: Mapping[bytes, Entry | None]) -> dict[bytes, _Change]:
    top: dict[bytes, _Change] = {}
    for path, entry in changes.items():
        names = path.split(b"/")
        if len(names) > MAX_DEPTH:
            raise too_deep(path)
        if entry is not None and entry.mode == "tree":
            raise RefusedInput("refused.malformed-node", f"{path!r} cannot be set to a folder; set what is in it.")
        folder, change = top, _Change()
        for name in names:
            check_name(name)
            change = folder.setdefault(name, _Change())
            folder = change.below
        change.said, change.own = True, entry
    return top


def empty_manifest() -> Manifest:
    """The manifest of a tree without any file."""
    nodes = MemoryNodes()
    return Manifest(nodes.put(HEADING), nodes)


def from_entries(entries: Iterable[tuple[bytes, Entry]]) -> Manifest:
    """The manifest of exactly these paths, in any order.

    :raises RefusedInput: ``refused.duplicate-path``, and as :meth:`Manifest.with_changes`.
    """
    changes: dict[bytes, Entry | None] = {}
    for path, entry in entries:
        if path in changes:
            raise RefusedInput("refused.duplicate-path", f"{path!r} is listed twice.")
        changes[path] = entry
    return empty_manifest().with_changes(changes)


def diff(before: Manifest, after: Manifest) -> list[Difference]:
    """Every path that differs, with what stood there before and after, in the order of the paths' bytes.

    Only folders whose nodes differ are read. A folder is never listed itself: what is in it is.
    """
    found: list[Difference] = []
    _compare(before, after, before.root, after.root, b"", found)
    found.sort(key=itemgetter(0))
    return found


def _compare(
    before: Manifest, after: Manifest, old: bytes | None, new: bytes | None, prefix: bytes, found: list[Difference]
) -> None:
    if old == new:
        return
    olds = {} if old is None else before.children(old)
    news = {} if new is None else after.children(new)
    for name in {**olds, **news}:
        was, now = olds.get(name), news.get(name)
        if was == now:
            continue
        was_tree = None if was is None or was.mode != "tree" else was.digest
        now_tree = None if now is None or now.mode != "tree" else now.digest
        if was_tree is not None or now_tree is not None:
            _compare(before, after, was_tree, now_tree, prefix + name + b"/", found)
        was_file = None if was_tree is not None else was
        now_file = None if now_tree is not None else now
        if was_file is not None or now_file is not None:
            found.append((prefix + name, was_file, now_file))


def conflict(path: bytes) -> RefusedInput:
    """The error for a path that would be a file and a folder at once."""
    return RefusedInput("refused.file-directory-conflict", f"{path!r} would be a file and a folder at once.")


def too_deep(path: bytes) -> RefusedInput:
    """The error for a path with too many names."""
    return RefusedInput("refused.too-deep", f"{path[:80]!r}... has more than {MAX_DEPTH} names.")


def _path_order(item: tuple[bytes, Entry]) -> bytes:
    name, entry = item
    return name + b"/" if entry.mode == "tree" else name
