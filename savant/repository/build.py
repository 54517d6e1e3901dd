"""The manifest of a git tree, built with as few reads as what is already known allows.

- **warm**: the tree's digest is cached, so nothing is read from git; nodes come from the cache when asked.
- **partly known**: only the trees that the cache does not know are read, level by level, and only their new blobs.
- **cold**: one ``ls-tree -r -t -z``, one buffered ``cat-file``, BLAKE3 of every blob. Every tree is encoded again and
  must give its own id, so a listing that hides something (a slash in a name, a repeated name) is found out; such a
  tree is then parsed from its raw bytes, which either explains it or refuses it.

A cache only ever saves work: a row that does not check out is ignored, and a node that is missing or damaged makes
the tree be read again. Verification, gate and replay pass ``None``.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol

import msgspec

from savant.contracts.digest import raw_digest
from savant.contracts.errors import PortError, RefusedInput
from savant.repository.git import Repository
from savant.repository.manifest import MAX_DEPTH, Manifest, from_entries, too_deep
from savant.repository.node import MODE_BYTES, Entry, MemoryNodes, encode_entries, encode_node, gitlink_digest
from savant.repository.objects import (
    ObjectFormat,
    ObjectSource,
    TreeEntry,
    mode_of,
    object_id,
    parse_tree,
    require_type,
)

_POINT_READS: Final = 100
"""Up to so many blobs are read through the process that already runs."""

_POINT_READ_BYTES: Final = 1 << 24


class Learned(msgspec.Struct):
    """What a build found out, by git's ids in ASCII hex: digests of trees, digests and sizes of blobs."""

    trees: dict[bytes, bytes] = msgspec.field(default_factory=dict)
    blobs: dict[bytes, tuple[bytes, int]] = msgspec.field(default_factory=dict)
    nodes: MemoryNodes = msgspec.field(default_factory=MemoryNodes)


class ManifestCache(Protocol):
    """Remembers digests by git object id. MUST verify what it returns or return nothing; MUST NOT raise for its own
    failures (a broken cache is an empty one, and says so in ``limitations``).
    """

    @property
    def limitations(self) -> tuple[str, ...]:
        """Sentences about what this cache could not do; empty when all is well."""
        ...

    def trees(self, format_: ObjectFormat, oids: Iterable[bytes]) -> dict[bytes, bytes]:
        """The digests of those trees that are known, by hex id."""
        ...

    def blobs(self, format_: ObjectFormat, oids: Iterable[bytes]) -> dict[bytes, bytes]:
        """The content digests of those blobs that are known, by hex id."""
        ...

    def node(self, digest: bytes) -> bytes | None:
        """The bytes of a node whose digest was recomputed, or None."""
        ...

    def store(self, format_: ObjectFormat, learned: Learned) -> None:
        """Remember all of this, or nothing of it."""
        ...


def build_manifest(repository: ObjectSource, tree: str, cache: ManifestCache | None = None) -> Manifest:
    """The manifest of a git tree (a ``GitId`` or hex id).

    :param repository: a :class:`Repository`; any other source is read entry by entry, without a cache.
    :param cache: None computes everything anew.
    :raises PortError: ``port.missing-object``, and as git reads do.
    :raises RefusedInput: ``refused.malformed-object``, ``refused.bad-name``, ``refused.duplicate-path``,
        ``refused.file-directory-conflict``, ``refused.too-deep``: a tree that no checkout could hold.
    """
    if not isinstance(repository, Repository):
        return _from_source(repository, tree)
    oid = repository.hex_id(tree)
    if cache is None:
        root, learned = _cold(repository, oid)
        return Manifest(root, learned.nodes)
    format_ = repository.object_format
    nodes = _CachedNodes(cache, lambda: _remember(cache, format_, _cold(repository, oid)[1]))
    known = cache.trees(format_, [oid.encode()]).get(oid.encode())
    if known is not None and cache.node(known) is not None:
        return Manifest(known, nodes)
    root, learned = _partly(repository, oid, cache)
    _remember(cache, format_, learned)
    return Manifest(root, MemoryNodes(dict(learned.nodes.items()), under=nodes))


def _from_source(source: ObjectSource, tree: str) -> Manifest:
    entries = source.list_tree(tree)
    blobs = dict.fromkeys(entry.oid for entry in entries if entry.mode not in _NOT_FILES)
    digests = {oid: raw_digest(data) for oid, data in source.read_blobs(blobs)}
    return from_entries(
        (
            entry.path,
            Entry("gitlink", gitlink_digest(f"{source.object_format}:{entry.oid}"))
            if entry.mode == "gitlink"
            else Entry(entry.mode, digests[entry.oid]),
        )
        for entry in entries
    )


def _remember(cache: ManifestCache, format_: ObjectFormat, learned: Learned) -> MemoryNodes:
    cache.store(format_, learned)
    return learned.nodes


class _CachedNodes:
    """Nodes from a cache, and from the repository again when the cache turns out not to have them."""

    def __init__(self, cache: ManifestCache, rebuild: Callable[[], MemoryNodes]) -> None:
        self._cache = cache
        self._rebuild = rebuild
        self._rebuilt: MemoryNodes | None = None

    def get(self, digest: bytes) -> bytes:
        if self._rebuilt is None:
            raw = self._cache.node(digest)
            if raw is not None:
                return raw
            self._rebuilt = self._rebuild()
        return self._rebuilt.get(digest)


def _cold(repository: Repository, oid: str) -> tuple[bytes, Learned]:
    """Everything from one listing and one buffered read, our own work being done while git reads ahead."""
    try:
        listing = repository.listing(oid, trees=True)
    except PortError:
        return _walked(repository, oid, None)  # reading the raw trees tells what is wrong with which
    end = 12 + (40 if repository.object_format == "sha1" else 64)
    wanted = dict.fromkeys([record[12:end] for record in listing if record[:7] in _FILES])
    if len(wanted) <= _POINT_READS:
        blobs = _point_digests(repository, wanted)
        built = _fold(repository.object_format, oid, listing, ((blob, *blobs[blob]) for blob in wanted))
    else:
        with repository.bulk(wanted) as reading:
            built = _fold(repository.object_format, oid, listing, reading.each_digest())
    return built if built is not None else _walked(repository, oid, None)


_MODES: Final[Mapping[bytes, bytes]] = MappingProxyType(
    {
        octal + b" ": MODE_BYTES[mode_of(int(octal, 8))]
        for octal in (b"100644", b"100664", b"100755", b"120000", b"160000", b"040000")
    }
)
_GITLINK: Final = _MODES[b"160000 "]
_TREE: Final = _MODES[b"040000 "]
_FILES: Final = frozenset(_MODES) - {b"160000 ", b"040000 "}


class _Folder:
    """A folder of a listing that is not complete yet."""

    __slots__ = ("entries", "name", "oid", "path", "raw")

    def __init__(self, path: bytes, name: bytes, oid: bytes) -> None:
        self.path = path
        self.name = name
        self.oid = oid
        self.entries: list[tuple[bytes, bytes, bytes]] = []
        """Name, mode byte and digest of each entry, for our node."""
        self.raw: list[bytes] = []
        """Each entry as git's tree object spells it, to prove the listing."""


def _fold(
    format_: ObjectFormat, oid: str, listing: list[bytes], digests: Iterator[tuple[bytes, bytes, int]]
) -> tuple[bytes, Learned] | None:
    """Fold a listing into nodes in one pass, taking each blob's digest as git delivers it.

    A listing is depth first: a folder is complete when the first entry outside it comes. None when the listing shows
    something unusual, or when a folder, encoded as git encodes trees, does not give its own id.
    """
    learned = Learned()
    blobs, mode_of_entry = learned.blobs, dict(_MODES).get
    start = 13 + (40 if format_ == "sha1" else 64)
    folders = [_Folder(b"", b"", oid.encode())]
    folder = folders[0]
    for record in listing:
        mode = record[:7]
        mode_byte = mode_of_entry(mode)
        if mode_byte is None:
            return None
        if mode_byte is _GITLINK:  # the type is "commit", not "blob" or "tree"
            child, path = record[14 : start + 1], record[start + 2 :]
        else:
            child, path = record[12 : start - 1], record[start:]
        above, _, name = path.rpartition(b"/")
        while folder.path != above:
            if len(folders) == 1 or not _close(format_, folders, learned):
                return None
            folder = folders[-1]
        if mode_byte is _TREE:
            if len(folders) >= MAX_DEPTH:
                return None
            folder.raw.append(b"40000 " + name + b"\0" + unhexlify(child))
            folder = _Folder(path, name, child)
            folders.append(folder)
            continue
        folder.raw.append(mode + name + b"\0" + unhexlify(child))
        if mode_byte is _GITLINK:
            digest = gitlink_digest(f"{format_}:{child.decode()}")
        else:
            known = blobs.get(child)
            if known is None:
                delivered, digest, size = next(digests)
                if delivered != child:
                    return None
                blobs[child] = (digest, size)
            else:
                digest = known[0]
        folder.entries.append((name, mode_byte, digest))
    while folders:
        if not _close(format_, folders, learned):
            return None
    return learned.trees[oid.encode()], learned


def _close(format_: ObjectFormat, folders: list[_Folder], learned: Learned) -> bool:
    """Complete the innermost folder; whether it is what its id says."""
    folder = folders.pop()
    if object_id(format_, "tree", b"".join(folder.raw)).encode() != folder.oid:
        return False
    digest = learned.trees[folder.oid] = learned.nodes.put(encode_entries(folder.entries))
    if folders:
        folders[-1].entries.append((folder.name, _TREE, digest))
    return True


def _partly(repository: Repository, oid: str, cache: ManifestCache) -> tuple[bytes, Learned]:
    """From raw trees where the cache knows parts of this one, else cold."""
    top = _tree_entries(repository, [oid.encode()])[oid.encode()]
    below = [entry.oid.encode() for entry in top if entry.mode == "tree"]
    files = [entry.oid.encode() for entry in top if entry.mode not in _NOT_FILES]
    format_ = repository.object_format
    if cache.trees(format_, below) or (not below and cache.blobs(format_, files)):
        return _walked(repository, oid, cache)
    return _cold(repository, oid)


_NOT_FILES: Final = frozenset({"tree", "gitlink"})


def _walked(repository: Repository, oid: str, cache: ManifestCache | None) -> tuple[bytes, Learned]:
    """From raw tree objects, level by level, reading only what the cache does not know."""
    format_ = repository.object_format
    known: dict[bytes, bytes] = {}
    read: dict[bytes, list[TreeEntry]] = {}
    level = [oid.encode()]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise too_deep(b"")
        if cache is not None:
            found = cache.trees(format_, level)
            known.update({tree: digest for tree, digest in found.items() if cache.node(digest) is not None})
        read.update(_tree_entries(repository, [tree for tree in level if tree not in known]))
        below = [e.oid.encode() for tree in level if tree in read for e in read[tree] if e.mode == "tree"]
        level = [tree for tree in dict.fromkeys(below) if tree not in known and tree not in read]
    wanted = dict.fromkeys(e.oid.encode() for es in read.values() for e in es if e.mode not in _NOT_FILES)
    hashed = {} if cache is None else cache.blobs(format_, wanted)
    learned = Learned(blobs=_digests(repository, [blob for blob in wanted if blob not in hashed]))
    hashed.update({blob: digest for blob, (digest, _) in learned.blobs.items()})

    def digest_of(tree: bytes) -> bytes:
        digest = known.get(tree)
        if digest is None:
            digest = known[tree] = learned.trees[tree] = learned.nodes.put(encode_node(dict(map(entry_of, read[tree]))))
        return digest

    def entry_of(entry: TreeEntry) -> tuple[bytes, Entry]:
        match entry.mode:
            case "tree":
                return entry.path, Entry("tree", digest_of(entry.oid.encode()))
            case "gitlink":
                return entry.path, Entry("gitlink", gitlink_digest(f"{format_}:{entry.oid}"))
            case mode:
                return entry.path, Entry(mode, hashed[entry.oid.encode()])

    return digest_of(oid.encode()), learned


def _tree_entries(repository: Repository, oids: Iterable[bytes]) -> dict[bytes, list[TreeEntry]]:
    entries: dict[bytes, list[TreeEntry]] = {}
    for found in repository.read_objects([oid.decode() for oid in oids]):
        require_type(found.oid, found.type, "tree")
        entries[found.oid.encode()] = parse_tree(repository.object_format, found.data)
    return entries


def _digests(repository: Repository, oids: Collection[bytes]) -> dict[bytes, tuple[bytes, int]]:
    if len(oids) <= _POINT_READS:
        return _point_digests(repository, oids)
    return _bulk_digests(repository, oids)


def _bulk_digests(repository: Repository, oids: Collection[bytes]) -> dict[bytes, tuple[bytes, int]]:
    with repository.bulk(oids) as reading:
        return {oid: (digest, size) for oid, digest, size in reading.each_digest()}


def _point_digests(repository: Repository, oids: Collection[bytes]) -> dict[bytes, tuple[bytes, int]]:
    """Digests through the process that already runs; through one of its own when a blob is large."""
    blobs: dict[bytes, tuple[bytes, int]] = {}
    try:
        for found in repository.read_objects([oid.decode() for oid in oids], max_bytes=_POINT_READ_BYTES):
            require_type(found.oid, found.type, "blob")
            blobs[found.oid.encode()] = (raw_digest(found.data), len(found.data))
    except RefusedInput as error:
        if error.code != "refused.size-limit":
            raise
        return _bulk_digests(repository, oids)
    return blobs
