"""Manifests of git trees: cold, partly known and warm give the same digest, with as few reads as promised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from savant.contracts.digest import raw_digest
from savant.contracts.errors import PortError, RefusedInput
from savant.repository import Entry, Manifest, Repository, build_manifest, from_entries, gitlink_digest
from savant.repository import build as build_module

Make = Callable[..., Any]


def entry_of(content: Any, format_: str = "sha1") -> Entry:
    kind, data = content if isinstance(content, tuple) else ("", content)
    if kind == "g":
        return Entry("gitlink", gitlink_digest(f"{format_}:{data.decode()}"))
    modes = {"": "regular", "x": "executable", "l": "symlink"}
    return Entry(modes[kind], raw_digest(data))


def expected(files: Mapping[bytes, Any]) -> Manifest:
    return from_entries((path, entry_of(content)) for path, content in files.items())


@pytest.fixture(params=[0, 10_000])
def point_reads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Both ways to digest blobs: in bulk, and through the process that already runs."""
    monkeypatch.setattr(build_module, "_POINT_READS", request.param)
    return int(request.param)


def test_a_manifest_is_what_git_stores(
    sandbox: Any, opened: Repository, files: Mapping[bytes, Any], point_reads: int
) -> None:
    """Every mode and every odd name is in the manifest exactly as committed."""
    manifest = build_manifest(opened, opened.tree_of(sandbox.commit(files)))
    assert list(manifest.walk()) == list(expected(files).walk())
    assert manifest == expected(files)


def test_sha256(make: Make) -> None:
    """In a SHA-256 repository content digests are the same and only gitlinks name another format."""
    sandbox = make("long", "--object-format=sha256")
    commit = sandbox.commit({b"a": b"x", b"d/b": b"y", b"sub": ("g", b"2" * 64)})
    with Repository.open(sandbox.path) as repository:
        manifest = build_manifest(repository, repository.tree_of(commit))
    assert manifest.get(b"sub") == entry_of(("g", b"2" * 64), "sha256")
    assert manifest.with_changes({b"sub": None}) == expected({b"a": b"x", b"d/b": b"y"})


def test_the_empty_tree(sandbox: Any, opened: Repository) -> None:
    """A commit of nothing has the manifest of nothing."""
    manifest = build_manifest(opened, opened.tree_of(sandbox.commit({})))
    assert list(manifest.walk()) == []
    assert manifest == from_entries([])


def test_attributes_and_configuration_change_nothing(sandbox: Any, opened: Repository) -> None:
    """Line-ending, ident and export attributes, in the tree or in info/attributes, do not touch the digests."""
    files = {
        b".gitattributes": b"* text eol=crlf ident export-ignore\n",
        b"a": b"$Id$\r\nx\n",
        b"lfs": b"version https",
    }
    commit = sandbox.commit(files)
    sandbox.git("config", "core.autocrlf", "true")
    (sandbox.path / ".git/info").mkdir(exist_ok=True)
    (sandbox.path / ".git/info/attributes").write_text("* working-tree-encoding=UTF-16\n")
    assert build_manifest(opened, opened.tree_of(commit)) == expected(files)


def test_large_blobs_are_streamed(sandbox: Any, opened: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A blob above the point-read limit is digested in chunks, with its neighbours."""
    monkeypatch.setattr(build_module, "_POINT_READ_BYTES", 100_000)
    files = {b"big": b"0123456789" * 100_000, b"small": b"x"}
    assert build_manifest(opened, opened.tree_of(sandbox.commit(files))) == expected(files)


def test_old_modes(sandbox: Any, opened: Repository, point_reads: int) -> None:
    """A group-writable file of old trees is a regular file, as it is for git."""
    blob = sandbox.blob(b"x")
    tree = sandbox.raw_tree((b"100664", b"a", blob), (b"100755", b"b", blob))
    assert build_manifest(opened, tree) == expected({b"a": b"x", b"b": ("x", b"x")})
    padded = sandbox.raw_tree((b"100644", b"a", blob), (b"040000", b"d", sandbox.raw_tree((b"100644", b"b", blob))))
    assert build_manifest(opened, padded) == expected({b"a": b"x", b"d/b": b"x"})


def test_missing_objects(sandbox: Any, opened: Repository, point_reads: int) -> None:
    """A tree or a blob that is not there is a missing object, not an absent file."""
    blob = sandbox.blob(b"x")
    for tree in (
        sandbox.raw_tree((b"100644", b"a", blob), (b"100644", b"b", "0" * 40)),
        sandbox.raw_tree((b"100644", b"a", blob), (b"40000", b"d", "0" * 40)),
        "1" * 40,
    ):
        with pytest.raises(PortError) as caught:
            build_manifest(opened, tree)
        assert caught.value.code == "port.missing-object"
    assert build_manifest(opened, sandbox.raw_tree((b"100644", b"a", blob))) == expected({b"a": b"x"})


class TestMalformedTrees:
    @pytest.fixture(params=[0, 10_000])
    def refuse(
        self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, sandbox: Any, opened: Repository
    ) -> Callable[..., str]:
        monkeypatch.setattr(build_module, "_POINT_READS", request.param)

        def refuse(*entries: tuple[bytes, bytes, str]) -> str:
            with pytest.raises(RefusedInput) as caught:
                build_manifest(opened, sandbox.raw_tree(*entries))
            return caught.value.code

        return refuse

    def test_names(self, sandbox: Any, refuse: Callable[..., str]) -> None:
        """Names that no file can have, a slash in a name and repeated names are refused, however they hide."""
        blob = sandbox.blob(b"x")
        inner = sandbox.raw_tree((b"100644", b"c", blob))
        assert refuse((b"100644", b"..", blob)) == "refused.bad-name"
        assert refuse((b"100644", b".", blob)) == "refused.bad-name"
        assert refuse((b"100644", b"", blob)) == "refused.bad-name"
        assert refuse((b"100644", b"a/b", blob)) == "refused.bad-name"
        assert refuse((b"40000", b"a", inner), (b"100644", b"a/b", blob)) == "refused.bad-name"
        assert refuse((b"100644", b"a", blob), (b"100644", b"a", sandbox.blob(b"y"))) == "refused.duplicate-path"
        assert refuse((b"100644", b"a", blob), (b"40000", b"a", inner)) == "refused.duplicate-path"

    def test_modes_and_types(self, sandbox: Any, refuse: Callable[..., str]) -> None:
        """An unknown mode, and a mode that does not fit the object it names, are refused."""
        blob = sandbox.blob(b"x")
        inner = sandbox.raw_tree((b"100644", b"c", blob))
        assert refuse((b"10644", b"a", blob)) == "refused.malformed-object"
        assert refuse((b"100644", b"a", inner)) == "refused.malformed-object"

    def test_a_tree_that_contains_too_much(self, sandbox: Any, refuse: Callable[..., str]) -> None:
        """A tree nested deeper than any accepted path is refused; at the limit it is not."""
        tree = sandbox.raw_tree((b"100644", b"f", sandbox.blob(b"x")))
        for _ in range(199):
            tree = sandbox.raw_tree((b"40000", b"d", tree))
        assert refuse((b"40000", b"d", tree)) == "refused.too-deep"
        with Repository.open(sandbox.path) as repository:
            assert len(list(build_manifest(repository, tree).walk())) == 1


def test_git_starts(sandbox: Any, files: Mapping[bytes, Any], tmp_path: Path) -> None:
    """Cold, the whole way from opening takes four git processes at most."""
    sandbox.commit(files)
    with Repository.open(sandbox.path) as repository:
        build_manifest(repository, repository.tree_of(repository.resolve_commit("HEAD")))
        assert repository.git_starts <= 4
