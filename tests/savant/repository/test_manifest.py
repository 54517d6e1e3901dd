"""Manifests: equal trees have equal digests however they came about, and every difference is found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from savant.contracts.digest import raw_digest
from savant.contracts.errors import RefusedInput, Unverifiable, VerificationError
from savant.repository import Entry, Manifest, MemoryNodes, diff, empty_manifest, from_entries
from savant.repository.node import encode_node

NAMES = st.sampled_from([b"a", b"b", b"a-b", b"a.b", b"A", b"\xff", b"z z"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
ENTRIES = st.builds(
    Entry,
    st.sampled_from(["regular", "executable", "symlink", "gitlink"]),
    st.sampled_from([raw_digest(b"1"), raw_digest(b"2")]),
)
FILES = st.dictionaries(PATHS, ENTRIES, max_size=8)

A, B = Entry("regular", raw_digest(b"a")), Entry("executable", raw_digest(b"b"))


def is_tree(paths: Iterable[bytes]) -> bool:
    """Whether no path is also a folder of another."""
    there = set(paths)
    return not any(b"/".join(p.split(b"/")[:n]) in there for p in there for n in range(1, p.count(b"/") + 1))


TREES = FILES.filter(is_tree)


def build(files: Mapping[bytes, Entry]) -> Manifest:
    return from_entries(files.items())


def code_of(manifest: Manifest, changes: Mapping[bytes, Entry | None]) -> str:
    with pytest.raises(RefusedInput) as caught:
        manifest.with_changes(changes)
    return caught.value.code


@given(TREES)
def test_walk_gives_back_the_entries_in_byte_order(files: dict[bytes, Entry]) -> None:
    """A manifest lists exactly what it was made of, in the order of the paths' bytes, and finds each."""
    manifest = build(files)
    assert list(manifest.walk()) == sorted(files.items())
    for path, entry in files.items():
        assert manifest.get(path) == entry
    assert Manifest(manifest.root, manifest.nodes) == manifest


@given(TREES, TREES)
def test_changes_equal_building_anew(before: dict[bytes, Entry], after: dict[bytes, Entry]) -> None:
    """Applying the differences of two trees to one gives the other, with the digest it has when built alone."""
    one, other = build(before), build(after)
    changes = {path: now for path, _, now in diff(one, other)}
    assert one.with_changes(changes) == other
    assert (one == other) == (before == after)
    assert one.with_changes(dict(reversed(changes.items()))).digest == other.digest


@given(TREES, TREES)
def test_differences_are_exact(before: dict[bytes, Entry], after: dict[bytes, Entry]) -> None:
    """The differences are exactly the paths that differ, in byte order, and mirrored the other way round."""
    one, other = build(before), build(after)
    expected = [
        (path, before.get(path), after.get(path))
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]
    assert diff(one, other) == expected
    assert diff(other, one) == [(path, now, was) for path, was, now in expected]


@given(TREES, FILES)
def test_impossible_trees_are_refused(before: dict[bytes, Entry], changes: dict[bytes, Entry]) -> None:
    """Setting paths gives the merged tree where that is one, and is refused as a conflict where it is not."""
    merged = {**before, **changes}
    manifest = build(before)
    if is_tree(merged):
        assert manifest.with_changes(changes) == build(merged)
    else:
        assert code_of(manifest, changes) == "refused.file-directory-conflict"


@given(TREES, st.sets(PATHS, max_size=5))
def test_removing(before: dict[bytes, Entry], gone: set[bytes]) -> None:
    """Removing files leaves the others and no empty folder; removing what is not there changes nothing."""
    folders = {b"/".join(p.split(b"/")[:n]) for p in before for n in range(1, p.count(b"/") + 1)}
    assume(not gone & folders)
    left = {path: entry for path, entry in before.items() if path not in gone}
    assert build(before).with_changes(dict.fromkeys(gone)) == build(left)


def test_a_file_becomes_a_folder_and_back() -> None:
    """A type change is a removal and additions in one mapping, in any order of the mapping."""
    file, folder = build({b"x": A}), build({b"x/y": A, b"x/z": B})
    assert file.with_changes({b"x/y": A, b"x": None, b"x/z": B}) == folder
    assert folder.with_changes({b"x": A, b"x/y": None, b"x/z": None}) == file


def test_conflicts() -> None:
    """A path below a file, a file over a folder and the removal of a folder by its name are refused."""
    manifest = build({b"f": A, b"d/x": A})
    for changes in (
        {b"f/x": A},
        {b"d": A},
        {b"d": None},
        {b"n": A, b"n/x": A},
        {b"d": A, b"d/x": A},
        {b"f": A, b"f/x": A},
        {b"d": None, b"d/y": A},
    ):
        assert code_of(manifest, changes) == "refused.file-directory-conflict"
    assert manifest.with_changes({b"f/x": None}) == manifest
    assert manifest.with_changes({b"n": None, b"n/x": None}) == manifest
    assert manifest.with_changes({b"d": None, b"d/x": None}) == build({b"f": A})


@pytest.mark.parametrize("path", [b"", b"/a", b"a/", b"a//b", b"./a", b"a/../b", b"a\0"])
def test_bad_paths(path: bytes) -> None:
    """A path that is not plainly relative cannot be set."""
    assert code_of(empty_manifest(), {path: A}) == "refused.bad-name"
    assert empty_manifest().get(path) is None


def test_depth_has_a_limit() -> None:
    """200 names are accepted, one more is not."""
    manifest = empty_manifest().with_changes({b"/".join([b"d"] * 200): A})
    assert len(list(manifest.walk())) == 1
    assert code_of(manifest, {b"/".join([b"d"] * 201): A}) == "refused.too-deep"


def test_folders_are_not_set() -> None:
    """Only files, links and gitlinks can be set: a folder is what is in it."""
    assert code_of(empty_manifest(), {b"d": Entry("tree", A.digest)}) == "refused.malformed-node"


def test_repeated_paths() -> None:
    """A list that names a path twice is refused, also when both say the same."""
    with pytest.raises(RefusedInput) as caught:
        from_entries([(b"a", A), (b"a", A)])
    assert caught.value.code == "refused.duplicate-path"


def test_lookup() -> None:
    """Folders, files and absences are told apart by path."""
    manifest = build({b"d/e/f": A, b"g": B})
    assert manifest.get(b"d/e") == Entry("tree", build({b"f": A}).root)
    assert manifest.get(b"g/x") is None
    assert manifest.get(b"n/x") is None
    assert dict(manifest.folder(b"d/e") or {}) == {b"f": A}
    assert manifest.folder(b"g") is None
    assert manifest.folder(b"n") is None
    assert set(manifest.folder(b"") or ()) == {b"d", b"g"}
    assert manifest.with_changes({}) is manifest
    assert repr(manifest) == f"Manifest({manifest.digest})"
    assert len({manifest, build({b"d/e/f": A, b"g": B})}) == 1
    assert manifest != object()


class Counting:
    """A source that counts what is read from it."""

    def __init__(self, nodes: MemoryNodes) -> None:
        self.nodes = dict(nodes.items())
        self.reads: list[bytes] = []

    def get(self, digest: bytes) -> bytes:
        self.reads.append(digest)
        return self.nodes[digest]


def counted(manifest: Manifest) -> tuple[Manifest, Counting]:
    assert isinstance(manifest.nodes, MemoryNodes)
    source = Counting(manifest.nodes)
    return Manifest(manifest.root, source), source


def test_cost_follows_the_change() -> None:
    """Looking up, changing and comparing read only the folders on the way, each once."""
    files = {b"d%d/e%d/f" % (i, j): Entry("regular", raw_digest(b"%d %d" % (i, j))) for i in range(9) for j in range(9)}
    manifest, source = counted(build(files))
    changed = manifest.with_changes({b"d3/e4/f": B})
    assert len(source.reads) == 3
    assert diff(manifest, changed) == [(b"d3/e4/f", files[b"d3/e4/f"], B)]
    assert len(source.reads) == 3
    assert changed.get(b"d5/e5/f") == files[b"d5/e5/f"]
    assert len(source.reads) == 5
    other, other_source = counted(build({**files, b"d3/e4/f": B}))
    assert diff(manifest, other) == [(b"d3/e4/f", files[b"d3/e4/f"], B)]
    assert len(other_source.reads) == 3


def test_many_changes_one_after_the_other() -> None:
    """A long chain of changes keeps one layer of nodes and the digest of the final tree."""
    manifest, files = empty_manifest(), {}
    for i in range(3000):
        manifest = manifest.with_changes({b"d/%d" % (i % 7): A if i % 2 else B})
        files[b"d/%d" % (i % 7)] = A if i % 2 else B
    assert Manifest(manifest.root, manifest.nodes) == build(files)
    assert list(Manifest(manifest.root, manifest.nodes).walk()) == sorted(files.items())


def test_nodes_are_never_believed() -> None:
    """A source that answers with other bytes, or with nothing, is found out when the node is needed."""
    manifest = build({b"d/x": A, b"y": B})
    lying, source = counted(manifest)
    digest = manifest.get(b"d")
    assert digest is not None
    source.nodes[digest.digest] = encode_node({b"x": B})
    assert lying.get(b"y") == B
    with pytest.raises(VerificationError) as caught:
        lying.get(b"d/x")
    assert caught.value.code == "unverified.node"
    with pytest.raises(Unverifiable):
        Manifest(manifest.root, MemoryNodes()).get(b"y")
