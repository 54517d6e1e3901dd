"""The snapshot: one commit's objects and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from runner.overlay import Content
from runner.snapshot import BaseSnapshot
from savant.contracts.errors import PortError, RefusedInput, VerificationError
from savant.repository import ObjectFormat, Repository, TreeEntry
from savant.repository.cache import MemoryManifestCache
from savant.repository.memory import MemoryRepository
from tests.runner.kit import FILES, DictBase, commit_files, git, take


def test_it_reads_exactly_the_commits_objects(snapshot: BaseSnapshot) -> None:
    """Paths, modes and contents are those committed; a submodule and a folder have no content."""
    assert list(snapshot.paths()) == sorted(FILES)
    assert {path: snapshot.mode(path) for path in FILES} == {path: content.mode for path, content in FILES.items()}
    files = {path: content.data for path, content in FILES.items() if content.mode != "gitlink"}
    assert {path: snapshot.read(path) for path in files} == files
    assert dict(snapshot.read_many(files)) == files
    for path in (b"vendor/sub", b"src", b"none", b"src/a.py/x"):
        with pytest.raises(RefusedInput) as caught:
            snapshot.read(path)
        assert caught.value.code == "refused.no-such-path"
    assert snapshot.mode(b"src") is None


def test_its_twin_in_memory_is_the_same_document(snapshot: BaseSnapshot) -> None:
    """A commit of the same files in the repository's twin gives the same tree, limitations and contents."""
    twin = MemoryRepository()
    files = {
        path: (content.mode, content.data.removeprefix(b"sha1:") if content.mode == "gitlink" else content.data)
        for path, content in FILES.items()
    }
    base = BaseSnapshot.take(twin, twin.commit(files), cache=None)
    one, two = base.document.document, snapshot.document.document
    assert (one.base_tree, one.base_manifest_digest, one.limitations) == (
        two.base_tree,
        two.base_manifest_digest,
        two.limitations,
    )
    names = [path for path, content in FILES.items() if content.mode != "gitlink"]
    assert dict(base.read_many(names)) == dict(snapshot.read_many(names))


def test_a_known_base_costs_two_processes(tmp_path: Path) -> None:
    """With a warm cache a snapshot starts no git process beyond opening the repository and reading the commit."""
    repository, base = take(tmp_path / "repository", FILES)
    cache = MemoryManifestCache()
    with repository:
        assert BaseSnapshot.take(repository, base.document.document.base_commit, cache=cache).document == base.document
    with Repository.open(tmp_path / "repository") as again:
        warm = BaseSnapshot.take(again, base.document.document.base_commit, cache=cache)
        assert warm.document == base.document
        assert again.git_starts == 2


def test_the_working_tree_and_the_index_do_not_exist_for_it(tmp_path: Path) -> None:
    """What lies in the checkout, staged or not, changes neither the document nor a byte that is read."""
    repository, base = take(tmp_path / "repository", FILES)
    with repository:
        (tmp_path / "repository/README.md").write_bytes(b"dirty")
        git(tmp_path / "repository", "add", "README.md")
        again = BaseSnapshot.take(repository, base.document.document.base_commit, cache=None)
        assert again.document == base.document
        assert again.read(b"README.md") == b"# hello\n"


def test_many_files_cost_few_processes(tmp_path: Path) -> None:
    """Three hundred files are read in bulk, in order, by a handful of git processes; a bare hex id will do."""
    files = {b"d%d/f%d" % (i % 7, i): Content("regular", b"%d" % i) for i in range(300)}
    commit = commit_files(tmp_path / "repository", files)
    with Repository.open(tmp_path / "repository") as repository:
        base = BaseSnapshot.take(repository, commit, cache=None)
        assert base.manifest == DictBase(files).manifest
        assert dict(base.read_many(sorted(files))) == {path: content.data for path, content in files.items()}
        assert repository.git_starts <= 6


def test_limitations_count_and_name_what_the_base_holds(snapshot: BaseSnapshot) -> None:
    """Submodules and odd names are limitations that block nothing; a plain base has none."""
    found = {limitation.source: limitation for limitation in snapshot.document.document.limitations}
    assert set(found) == {"runner.base-submodule", "runner.base-name-not-utf8"}
    assert found["runner.base-submodule"].text.endswith(": 1, for example 'vendor/sub'.")
    assert not any(limitation.blocking for limitation in found.values())


def test_hazards_of_the_base_are_limitations(tmp_path: Path) -> None:
    """A base whose names collide is taken, and says so."""
    repository, base = take(tmp_path / "r", {b"README": Content("regular", b""), b"readme": Content("regular", b"")})
    with repository:
        assert [limitation.source for limitation in base.document.document.limitations] == [
            "runner.base-case-collision"
        ]


def test_a_base_that_holds_a_repository_in_disguise_is_refused(tmp_path: Path) -> None:
    """A tree with git's own folder in it is not taken: its copy would be a repository of its own."""
    folder = tmp_path / "repository"
    commit_files(folder, {b"a": Content("regular", b"a")})
    blob = git(folder, "hash-object", "-w", "--stdin", stdin=b"x").decode().strip()
    inner = git(folder, "mktree", stdin=f"100644 blob {blob}\tconfig\n".encode()).decode().strip()
    raw = b"40000 .GIT\0" + bytes.fromhex(inner)
    tree = git(folder, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=raw).decode().strip()
    person = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    commit = git(folder, *person, "commit-tree", tree, "-m", "m").decode().strip()
    with Repository.open(folder) as repository, pytest.raises(RefusedInput) as caught:
        BaseSnapshot.take(repository, commit, cache=None)
    assert caught.value.code == "refused.reserved-path"


class Source:
    """An object source that gives what it is told to."""

    object_format: ObjectFormat = "sha1"

    def __init__(self, files: dict[bytes, bytes]) -> None:
        self.files = files

    def resolve_commit(self, rev: str) -> str:
        return rev

    def tree_of(self, commit: str) -> str:
        return "sha1:" + "5" * 40

    def parents(self, commit: str) -> tuple[str, ...]:
        return ()

    def list_tree(self, tree: str) -> list[TreeEntry]:
        return [TreeEntry(path, "regular", path.hex(), 0o100644) for path in self.files]

    def read_blob(self, oid: str, *, max_bytes: int = 0) -> bytes:
        return self.files[bytes.fromhex(oid)]

    def read_blobs(self, oids: Iterable[str], *, max_bytes: int = 0) -> Iterator[tuple[str, bytes]]:
        return ((oid, self.read_blob(oid)) for oid in oids)


def test_content_is_believed_by_digest_only() -> None:
    """A source that gives other bytes than the manifest names, or hides a path, is found out; a true one is not."""
    names = [b"%d" % number for number in range(30)]
    true = dict.fromkeys(names, b"content")
    manifest = DictBase({name: Content("regular", data) for name, data in true.items()}).manifest
    commit = "4" * 40
    assert dict(BaseSnapshot.of(Source(true), commit, manifest).read_many(names)) == true
    false = BaseSnapshot.of(Source({**true, b"7": b"other"}), "sha1:" + commit, manifest)
    assert false.document.document.base_commit == "sha1:" + commit
    for call in (lambda: false.read(b"7"), lambda: list(false.read_many(names)), lambda: list(false.read_many([b"7"]))):
        with pytest.raises(VerificationError) as caught:
            call()
        assert caught.value.code == "unverified.base-content"
    hidden = BaseSnapshot.of(Source({}), commit, manifest)
    with pytest.raises(VerificationError):
        hidden.read(b"7")


def test_a_missing_object_is_a_port_error(tmp_path: Path) -> None:
    """A repository that lacks a blob, as a partial clone does, is refused when it is read, with its code."""
    folder = tmp_path / "repository"
    commit = commit_files(folder, {b"a": Content("regular", b"a")})
    blob = git(folder, "rev-parse", f"{commit}:a").decode().strip()
    packs = list((folder / ".git/objects/pack").glob("*.pack"))
    for pack in packs:
        data = pack.read_bytes()
        for part in (folder / ".git/objects/pack").glob("*"):
            part.unlink()
        git(folder, "unpack-objects", "-q", stdin=data)
    (folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with Repository.open(folder) as repository, pytest.raises(PortError) as caught:
        BaseSnapshot.take(repository, commit, cache=None)
    assert caught.value.code == "port.missing-object"


def test_a_sha256_repository_is_read_alike(tmp_path: Path) -> None:
    """The object format changes ids and nothing else: the manifest digest is the same."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main", "--object-format=sha256")
    stream = b"commit refs/heads/main\ncommitter A <a@example.org> 1700000000 +0000\ndata 1\nm\n"
    git(folder, "fast-import", "--quiet", stdin=stream + b"M 100644 inline a\ndata 1\na\n")
    commit = git(folder, "rev-parse", "main").decode().strip()
    with Repository.open(folder) as repository:
        base = BaseSnapshot.take(repository, commit, cache=None)
        assert base.document.document.base_commit == "sha256:" + commit
        assert base.manifest == DictBase({b"a": Content("regular", b"a")}).manifest
        assert base.read(b"a") == b"a"
