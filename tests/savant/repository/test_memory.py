"""One suite for a repository on disk and for its twin in memory: same ids, same answers, same refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from savant.contracts.errors import PortError, RefusedInput
from savant.repository import Mode, ObjectSource, Repository, build_manifest
from savant.repository.memory import MemoryRepository

Files = Mapping[bytes, tuple[Mode, bytes]]
FILES: Files = {
    b"a": ("regular", b"1"),
    b"a.txt": ("executable", b"2"),
    b"b/x": ("regular", b""),
    b"b-c": ("symlink", b"a"),
    b"b/d/\xff\n": ("regular", b"3"),
    b"sub": ("gitlink", b"1" * 40),
}


class Disk:
    """Real git behind the twin's way to make commits."""

    def __init__(self, sandbox: Any) -> None:
        self.sandbox = sandbox
        self.source: ObjectSource = Repository.open(sandbox.path)

    def commit(self, files: Files, *, parent: str | None = None, branch: str = "main") -> str:
        kinds = {"regular": "", "executable": "x", "symlink": "l", "gitlink": "g"}
        content = {path: (kinds[mode], data) for path, (mode, data) in files.items()}
        return "sha1:" + self.sandbox.commit(content, parent=parent and parent[5:], branch=branch)

    def forget(self, oid: str) -> None:
        (self.sandbox.path / ".git/objects" / oid[:2] / oid[2:]).unlink()


class Memory:
    def __init__(self) -> None:
        self.twin = MemoryRepository()
        self.source: ObjectSource = self.twin

    def commit(self, files: Files, *, parent: str | None = None, branch: str = "main") -> str:
        return self.twin.commit(files, parents=[parent] if parent else [], branch=branch)

    def forget(self, oid: str) -> None:
        self.twin.forget(oid)


@pytest.fixture(params=["disk", "memory"])
def backend(request: pytest.FixtureRequest) -> Iterator[Disk | Memory]:
    if request.param == "memory":
        yield Memory()
        return
    disk = Disk(request.getfixturevalue("sandbox"))
    yield disk
    assert isinstance(disk.source, Repository)
    disk.source.close()


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises((RefusedInput, PortError)) as caught:
        call()
    return caught.value.code


def test_ids_are_gits(sandbox: Any) -> None:
    """The twin gives trees and blobs the ids that git gives them, and manifests are equal."""
    disk, memory = Disk(sandbox), Memory()
    one, other = disk.commit(FILES), memory.commit(FILES)
    assert disk.source.tree_of(one) == memory.source.tree_of(other)
    assert disk.source.list_tree(disk.source.tree_of(one)) == memory.source.list_tree(memory.source.tree_of(other))
    assert build_manifest(disk.source, disk.source.tree_of(one)) == build_manifest(
        memory.source, memory.source.tree_of(other)
    )
    assert one == other


def test_reading(backend: Disk | Memory) -> None:
    """Commits resolve by name and id, trees list every entry, blobs give their bytes."""
    source = backend.source
    first = backend.commit(FILES)
    second = backend.commit({b"a": ("regular", b"1")}, parent=first)
    assert source.object_format == "sha1"
    for rev in ("HEAD", "@", "main", second, second[5:]):
        assert source.resolve_commit(rev) == second
    assert source.resolve_commit(first) == first
    assert source.parents(second) == (first,)
    assert source.parents(first) == ()
    entries = source.list_tree(source.tree_of(first))
    assert {entry.path: entry.mode for entry in entries} == {path: mode for path, (mode, _) in FILES.items()}
    oids = [entry.oid for entry in entries if entry.mode != "gitlink"]
    assert dict(source.read_blobs(oids)) == {oid: source.read_blob(oid) for oid in oids}
    assert {source.read_blob(f"sha1:{oid}") for oid in oids} == {b"", b"1", b"2", b"3", b"a"}


def test_refusals(backend: Disk | Memory) -> None:
    """Unknown names, missing objects, wrong types and limits are refused by the same codes."""
    source = backend.source
    assert code_of(lambda: source.resolve_commit("HEAD")) == "refused.unborn-head"
    commit = backend.commit(FILES)
    tree = source.tree_of(commit)
    blob = next(entry.oid for entry in source.list_tree(tree) if entry.path == b"a")
    for rev in ("", "-x", "nowhere", "a b", tree, tree[5:], "0" * 40):
        assert code_of(lambda rev=rev: source.resolve_commit(rev)) == "refused.unknown-revision"
    assert code_of(lambda: source.tree_of(blob)) == "refused.unknown-revision"
    assert code_of(lambda: source.read_blob(tree)) == "refused.malformed-object"
    assert code_of(lambda: source.read_blob("x")) == "refused.object-id"
    assert code_of(lambda: source.read_blob(blob, max_bytes=0)) == "refused.size-limit"
    assert code_of(lambda: list(source.read_blobs([blob], max_bytes=0))) == "refused.size-limit"
    assert code_of(lambda: source.list_tree("0" * 40)) == "port.missing-object"
    assert source.read_blob(blob, max_bytes=1) == b"1"
    backend.forget(blob)
    assert code_of(lambda: source.read_blob(blob)) == "port.missing-object"
    assert code_of(lambda: list(source.read_blobs([blob]))) == "port.missing-object"
    assert code_of(lambda: build_manifest(source, tree)) == "port.missing-object"


def test_bad_names_cannot_be_committed() -> None:
    """The twin refuses what could not be a tree."""
    for path in (b"", b"/a", b"a//b", b".", b"a/.."):
        assert code_of(lambda path=path: Memory().commit({path: ("regular", b"")})) == "refused.bad-name"


def test_sha256() -> None:
    """The twin also speaks SHA-256."""
    twin = MemoryRepository("sha256")
    commit = twin.commit({b"a": ("regular", b"1")})
    assert commit.startswith("sha256:")
    assert len(twin.tree_of(commit)) == 7 + 64
