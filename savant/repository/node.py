r"""The nodes of Merkle manifests: how one folder's entries become bytes, and back. Pure.

Specification ``savant.tree/v1``. A node stands for one folder. Its bytes are::

    "savant.tree/v1" 0x00
    then per entry, in ascending order of the raw name bytes, names unique:
        mode      1 byte    0 regular, 1 executable, 2 symlink, 3 gitlink, 4 tree
        length    4 bytes   unsigned, big-endian, of the name; at least 1
        name      raw bytes without "/" and NUL, neither "." nor ".."
        digest    32 bytes  regular, executable: BLAKE3 of the content
                            symlink: BLAKE3 of the link target's bytes
                            gitlink: BLAKE3 of the ASCII text "<object format>:<commit id in hex>"
                            tree: the digest of the child node

and its digest is BLAKE3 of these bytes. An empty folder has no entry in its parent; the node of an empty tree is the
15 bytes of the heading alone. The manifest's digest is the digest of its root node, written ``blake3:<64 hex>``.

Worked example: a tree with the regular file ``a`` holding ``x`` and a newline, and the symlink ``b`` to ``a``. The
root node has 15 + 2 * (1 + 4 + 1 + 32) = 91 bytes: ``savant.tree/v1\0``, ``00 00000001 61`` and BLAKE3 of ``78 0a``,
``02 00000001 62`` and BLAKE3 of ``61``. Its digest is
``blake3:7beaa478baa77c54da2339eda6c0037455a5160a289a10a4849f91e2dda53022``.

Paths are raw bytes with ``/`` between names and are listed in the order of their bytes. A node is never believed:
its digest is recomputed and its bytes must be exactly what encoding their parsed entries gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from savant.contracts.digest import RAW_BYTES, raw_digest
from savant.contracts.errors import RefusedInput, Unverifiable

Mode = Literal["regular", "executable", "symlink", "gitlink", "tree"]

HEADING: Final = b"savant.tree/v1\0"

MODES: Final[tuple[Mode, ...]] = ("regular", "executable", "symlink", "gitlink", "tree")
"""Every mode, at the index that is its mode byte."""

MODE_BYTES: Final[Mapping[Mode, bytes]] = MappingProxyType({mode: bytes([i]) for i, mode in enumerate(MODES)})

_HEAD_BYTES: Final = 5
_MANY_LENGTHS: Final = 1024
_LENGTHS: Final = [size.to_bytes(4, "big") for size in range(_MANY_LENGTHS)]
_NOT_NAMES: Final = frozenset({b"", b".", b".."})


class Entry(msgspec.Struct, frozen=True):
    """What stands at one path: a mode and 32 raw digest bytes (see the module's specification)."""

    mode: Mode
    digest: bytes


Children: TypeAlias = dict[bytes, Entry]
"""The entries of one folder by name, in ascending order of the names."""


class NodeSource(Protocol):
    """Where nodes come from. The caller verifies what it gets, so a source need not be trusted."""

    def get(self, digest: bytes) -> bytes:
        """The bytes of the node with this digest.

        :raises Unverifiable: ``unverifiable.node-missing``.
        """
        ...


class MemoryNodes:
    """Nodes in a dict, over an optional other source."""

    def __init__(self, nodes: Mapping[bytes, bytes] | None = None, under: NodeSource | None = None) -> None:
        self._nodes = dict(nodes or {})
        self._under = under

    def __len__(self) -> int:
        return len(self._nodes)

    def put(self, raw: bytes) -> bytes:
        """Keep a node's bytes; its digest."""
        digest = raw_digest(raw)
        self._nodes[digest] = raw
        return digest

    def layer(self) -> MemoryNodes:
        """A copy of what is held here, over the same other source."""
        return MemoryNodes(self._nodes, self._under)

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        r"""The nodes held here, as ``(digest, bytes)``."""
        return self._nodes.items()

    def get(self, digest: bytes) -> bytes:
        """The bytes of a node, from here or from below."""
        raw = self._nodes.get(digest)
        if raw is not None:
            return raw
        if self._under is None:
            raise Unverifiable("unverifiable.node-missing", f"The manifest node {digest.hex()} is not there.")
        return self._under.get(digest)


def encode_node(children: Mapping[bytes, Entry]) -> bytes:
    """The bytes of a folder's node. Errors as :func:`encode_entries`."""
    return encode_entries([(name, MODE_BYTES[entry.mode], entry.digest) for name, entry in children.items()])


def encode_entries(entries: Iterable[tuple[bytes, bytes, bytes]]) -> bytes:
    """The bytes of a folder's node, from ``(name, mode byte, digest)`` in any order.

    :raises RefusedInput: ``refused.bad-name`` for a name that no file can have; ``refused.duplicate-path``;
        ``refused.malformed-node`` for a digest that has not 32 bytes.
    """
    rows = sorted(entries)
    names = [name for name, _, _ in rows]
    whole = b"\x01".join(names)  # looked at once for what no name may hold
    if b"/" in whole or b"\0" in whole or not _NOT_NAMES.isdisjoint(names):
        check_name(next(name for name in names if not _is_name(name)))
    if len(set(names)) != len(names):
        twice = next(name for name, other in pairwise(names) if name == other)
        raise RefusedInput("refused.duplicate-path", f"A folder lists {twice!r} twice.")
    for name, _, digest in rows:
        if len(digest) != RAW_BYTES:
            raise RefusedInput("refused.malformed-node", f"The digest of {name!r} has {len(digest)} bytes.")
    if len(whole) < _MANY_LENGTHS:
        return HEADING + b"".join([mode + _LENGTHS[len(name)] + name + digest for name, mode, digest in rows])
    return HEADING + b"".join([mode + len(name).to_bytes(4, "big") + name + digest for name, mode, digest in rows])


def parse_node(raw: bytes) -> Children:
    """The entries in a node's bytes: strict, so that equal entries have only one encoding.

    :raises RefusedInput: ``refused.malformed-node``, ``refused.bad-name``.
    """
    if not raw.startswith(HEADING):
        raise _malformed("does not begin with its heading")
    children: Children = {}
    at, previous = len(HEADING), b""
    while at < len(raw):
        start = at + _HEAD_BYTES
        end = start + int.from_bytes(raw[at + 1 : start], "big")
        name, digest = raw[start:end], raw[end : end + RAW_BYTES]
        if len(digest) != RAW_BYTES:
            raise _malformed("ends in the middle of an entry")
        if raw[at] >= len(MODES):
            raise _malformed(f"has the unknown mode {raw[at]}")
        check_name(name)
        if name <= previous:
            raise _malformed(f"is out of order at {name!r}")
        children[name] = Entry(MODES[raw[at]], digest)
        at, previous = end + RAW_BYTES, name
    return children


def check_name(name: bytes) -> None:
    """Refuse what cannot be one name in a folder.

    :raises RefusedInput: ``refused.bad-name``.
    """
    if not _is_name(name):
        raise RefusedInput("refused.bad-name", f"{name!r} cannot be the name of a file.")


def _is_name(name: bytes) -> bool:
    return not (name in _NOT_NAMES or b"/" in name or b"\0" in name)


def gitlink_digest(git_id: str) -> bytes:
    """The digest of a gitlink entry to the commit with this ``GitId``."""
    return raw_digest(git_id.encode("ascii"))


def link_digest(target: bytes) -> bytes:
    """The digest of a symlink entry to this target."""
    return raw_digest(target)


def _malformed(what: str) -> RefusedInput:
    return RefusedInput("refused.malformed-node", f"A manifest node {what}.")
