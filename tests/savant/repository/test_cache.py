"""One suite for both caches; then damage: a cache saves work or says that it cannot, it never answers wrongly."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from savant.contracts.digest import raw_digest
from savant.contracts.errors import Unverifiable
from savant.repository import Learned, ManifestCache, MemoryNodes, Repository, build_manifest
from savant.repository import build as build_module
from savant.repository.cache import MemoryManifestCache, SqliteManifestCache

D, E = raw_digest(b"d"), raw_digest(b"e")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "manifest.sqlite"


@pytest.fixture(params=["sqlite", "memory"])
def cache(request: pytest.FixtureRequest, path: Path) -> Iterator[ManifestCache]:
    if request.param == "memory":
        yield MemoryManifestCache()
        return
    with SqliteManifestCache(path) as cache:
        yield cache


def learned() -> Learned:
    nodes = MemoryNodes()
    nodes.put(b"node")
    return Learned(trees={b"aa": D, b"bb": E}, blobs={b"cc": (D, 5)}, nodes=nodes)


class TestConformance:
    def test_what_was_stored_is_known(self, cache: ManifestCache) -> None:
        """Trees, blobs and nodes are found again; what was not stored is not known."""
        assert cache.trees("sha1", [b"aa"]) == {}
        cache.store("sha1", learned())
        assert cache.trees("sha1", [b"aa", b"bb", b"zz"]) == {b"aa": D, b"bb": E}
        assert cache.blobs("sha1", iter([b"cc", b"aa"])) == {b"cc": D}
        assert cache.node(raw_digest(b"node")) == b"node"
        assert cache.node(D) is None
        assert cache.trees("sha1", []) == {}
        assert cache.limitations == ()

    def test_object_formats_are_kept_apart(self, cache: ManifestCache) -> None:
        """The same hex in another object format is another object."""
        cache.store("sha1", learned())
        assert cache.trees("sha256", [b"aa"]) == {}
        assert cache.blobs("sha256", [b"cc"]) == {}

    def test_more_ids_than_one_statement_takes(self, cache: ManifestCache) -> None:
        """Thousands of ids are asked for at once."""
        trees = {b"%040x" % i: raw_digest(b"%d" % i) for i in range(2500)}
        cache.store("sha1", Learned(trees=trees))
        assert cache.trees("sha1", trees) == trees

    def test_storing_again_replaces(self, cache: ManifestCache) -> None:
        """The last word about an object counts."""
        cache.store("sha1", Learned(trees={b"aa": D}))
        cache.store("sha1", Learned(trees={b"aa": E}))
        assert cache.trees("sha1", [b"aa"]) == {b"aa": E}

    def test_builds_agree(
        self, cache: ManifestCache, sandbox: Any, opened: Repository, files: Mapping[bytes, Any]
    ) -> None:
        """Cold, warm and partly known builds give the digest and the nodes of a build without any cache."""
        first = sandbox.commit(files)
        second = sandbox.commit({**files, b"src/deep/er/c.py": b"changed", b"new/f": b"new"}, parent=first)
        for commit in (first, first, second, second, first):
            tree = opened.tree_of(commit)
            cached, alone = build_manifest(opened, tree, cache), build_manifest(opened, tree)
            assert cached == alone
            assert list(cached.walk()) == list(alone.walk())


@pytest.fixture
def big(sandbox: Any) -> dict[bytes, bytes]:
    return {b"d%d/e%d/f" % (i, j): b"%d %d" % (i, j) for i in range(12) for j in range(12)}


def test_warm_git_starts(sandbox: Any, big: dict[bytes, bytes], path: Path) -> None:
    """Opening, resolving, the tree and a known manifest take two git processes, at any size."""
    sandbox.commit(big)
    with Repository.open(sandbox.path) as repository, SqliteManifestCache(path) as cache:
        build_manifest(repository, repository.tree_of(repository.resolve_commit("HEAD")), cache)
    with Repository.open(sandbox.path) as repository, SqliteManifestCache(path) as cache:
        manifest = build_manifest(repository, repository.tree_of(repository.resolve_commit("HEAD")), cache)
        assert len(list(manifest.walk())) == len(big)
        assert repository.git_starts == 2


def test_only_unknown_trees_are_read(
    sandbox: Any, big: dict[bytes, bytes], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a commit that changes one file, the three trees on its way and its blob are read, and nothing else."""
    first = sandbox.commit(big)
    second = sandbox.commit({**big, b"d3/e4/f": b"changed"}, parent=first)
    with Repository.open(sandbox.path) as repository, SqliteManifestCache(path) as cache:
        build_manifest(repository, repository.tree_of(first), cache)
        tree = repository.tree_of(second)
        read: list[str] = []
        real = Repository.read_objects

        def reading(self: Repository, oids: Any, **options: Any) -> Any:
            oids = list(oids)
            read.extend(oids)
            return real(self, oids, **options)

        monkeypatch.setattr(Repository, "read_objects", reading)
        monkeypatch.setattr(Repository, "listing", lambda *_, **__: pytest.fail("listed"))
        starts = repository.git_starts
        manifest = build_manifest(repository, tree, cache)
        assert len(set(read)) == 4
        assert repository.git_starts == starts
    monkeypatch.undo()
    with Repository.open(sandbox.path) as repository:
        assert manifest == build_manifest(repository, tree)


def test_a_flat_tree_is_partly_known(sandbox: Any, opened: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without folders, known blobs are not read again."""
    cache = MemoryManifestCache()
    files = {b"f%d" % i: b"%d" % i for i in range(10)}
    build_manifest(opened, opened.tree_of(sandbox.commit(files)), cache)
    tree = opened.tree_of(sandbox.commit({**files, b"f3": b"changed"}))
    asked: list[int] = []
    real = build_module._digests
    monkeypatch.setattr(build_module, "_digests", lambda r, oids: (asked.append(len(oids)), real(r, oids))[1])
    manifest = build_manifest(opened, tree, cache)
    assert asked == [1]
    assert manifest == build_manifest(opened, tree)


class TestDamage:
    @pytest.fixture
    def tree(self, sandbox: Any, opened: Repository, files: Mapping[bytes, Any], path: Path) -> str:
        tree = opened.tree_of(sandbox.commit(files))
        with SqliteManifestCache(path) as cache:
            build_manifest(opened, tree, cache)
            assert cache.trees("sha1", [tree[5:].encode()])
        return tree

    @pytest.mark.parametrize(
        "damage",
        [
            "delete from node",
            "delete from tree",
            "delete from blob",
            "update node set raw = zeroblob(15)",
            "update node set raw = 'text'",
            "update tree set digest = zeroblob(32)",
            "update tree set digest = (select max(digest) from node)",
            "update blob set digest = zeroblob(32)",
            "update blob set digest = 'text'",
            "update tree set digest = zeroblob(31), proof = zeroblob(8)",
            "update tree set oid = upper(oid)",
            "update blob set size = size + 1",
        ],
    )
    def test_damaged_rows_are_unknown(self, opened: Repository, tree: str, path: Path, damage: str) -> None:
        """Whatever happens to rows, the manifest is the one that a build without cache gives."""
        with sqlite3.connect(path) as raw:
            raw.execute(damage)
        raw.close()
        alone = build_manifest(opened, tree)
        with SqliteManifestCache(path) as cache:
            for _ in range(2):
                manifest = build_manifest(opened, tree, cache)
                assert manifest == alone
                assert list(manifest.walk()) == list(alone.walk())
            assert cache.limitations == ()

    def test_a_node_lost_later_is_built_again(self, opened: Repository, tree: str, path: Path) -> None:
        """A manifest in use survives that its nodes vanish from the cache: they are read from git again."""
        with SqliteManifestCache(path) as cache:
            manifest = build_manifest(opened, tree, cache)
            with sqlite3.connect(path) as raw:
                raw.execute("delete from node")
            raw.close()
            assert list(manifest.walk()) == list(build_manifest(opened, tree).walk())
            with pytest.raises(Unverifiable):
                manifest.nodes.get(D)

    @pytest.mark.parametrize("kind", ["garbage", "folder", "version", "blocked-folder"])
    def test_a_file_that_cannot_be_used(self, opened: Repository, tree: str, tmp_path: Path, kind: str) -> None:
        """A cache file that is broken, foreign or impossible is no cache: right answers and one sentence about it."""
        place = tmp_path / "other" / "manifest.sqlite"
        place.parent.mkdir()
        if kind == "garbage":
            place.write_bytes(b"this is not a database " * 100)
        elif kind == "folder":
            place.mkdir()
        elif kind == "version":
            with sqlite3.connect(place) as raw:
                raw.execute("pragma user_version = 99")
            raw.close()
        else:
            place = tmp_path / "file" / "manifest.sqlite"
            place.parent.touch()
        with SqliteManifestCache(place) as cache:
            assert build_manifest(opened, tree, cache) == build_manifest(opened, tree)
            (limitation,) = cache.limitations
            assert str(place) in limitation
            cache.store("sha1", learned())
            assert cache.trees("sha1", [b"aa"]) == {}
            assert cache.node(raw_digest(b"node")) is None

    def test_a_locked_file(self, opened: Repository, tree: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """While somebody holds the write lock, reading works and storing gives up with a sentence."""
        monkeypatch.setattr("savant.repository.cache._WAIT_MS", 1)
        with SqliteManifestCache(path) as cache:
            raw = sqlite3.connect(path, isolation_level=None)
            raw.execute("begin immediate")
            assert build_manifest(opened, tree, cache) == build_manifest(opened, tree)
            assert cache.limitations == ()
            cache.store("sha1", learned())
            assert "locked" in cache.limitations[0]
            raw.close()

    def test_closing(self, path: Path) -> None:
        """A closed cache knows nothing and can be closed again."""
        cache = SqliteManifestCache(path)
        cache.store("sha1", learned())
        cache.close()
        cache.close()
        assert cache.trees("sha1", [b"aa"]) == {}
