"""Working directories of agents: a read-only copy of the base, and files that are taken away and put back."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from commandprovider.copies import fill_copy, fingerprint, put_back, take_away
from runner.snapshot import BaseSnapshot
from runner.workspace import CandidateWorkspace
from savant.contracts.errors import SavantError
from savant.files.atomic import remove_tree
from savant.repository.git import Repository
from tests.commandprovider.conftest import git


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """An empty folder."""
    path = tmp_path / "copy"
    path.mkdir()
    return path


def test_a_copy_holds_the_base_and_nobody_may_write_it(repository_path: Path, copy: Path) -> None:
    """Contents, executables and links are the base's; no file and no folder of it is writable; it can be removed."""
    (repository_path / "run.sh").write_text("#!/bin/sh\n")
    (repository_path / "run.sh").chmod(0o755)
    (repository_path / "link").symlink_to("a.txt")
    (repository_path / "dangling").symlink_to("/nonexistent/x")
    git(repository_path, "add", "-A")
    git(repository_path, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub/module")
    git(repository_path, "commit", "-q", "-m", "more")
    with Repository.open(repository_path) as repository:
        fill_copy(BaseSnapshot.take(repository, repository.resolve_commit("HEAD"), cache=None), copy)
    assert (copy / "a.txt").read_bytes() == b"one\ntwo\n"
    assert (copy / "pkg" / "b.txt").read_bytes() == b"bee\n"
    assert (copy / "sub" / "module").is_dir()
    assert (copy / "link").readlink() == Path("a.txt")
    assert (copy / "dangling").readlink() == Path("/nonexistent/x")
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in copy.rglob("*") if not path.is_symlink()}
    assert modes == {"a.txt": 0o444, "pkg": 0o555, "b.txt": 0o444, "run.sh": 0o555, "sub": 0o555, "module": 0o555}
    assert stat.S_IMODE(copy.stat().st_mode) == 0o555
    remove_tree(copy)
    assert not copy.exists()


CHANGES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda folder: (folder / "a").read_text(),
    "content": lambda folder: (folder / "a").write_text("2"),
    "created": lambda folder: (folder / "new").write_text(""),
    "deleted": lambda folder: (folder / "a").unlink(),
    "mode": lambda folder: (folder / "a").chmod(0o755),
    "folder": lambda folder: (folder / "deep" / "new").mkdir(),
    "renamed": lambda folder: (folder / "a").rename(folder / "deep" / "a"),
    "link": lambda folder: (folder / "deep" / "link").symlink_to("elsewhere"),
    "replaced": lambda folder: ((folder / "b").write_text("1"), (folder / "b").rename(folder / "a")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_fingerprint_tells_every_kind_of_change(copy: Path, change: str) -> None:
    """The same while nothing changes; another one after any change, deep in a folder too."""
    (copy / "a").write_text("1")
    (copy / "deep").mkdir()
    (copy / "deep" / "link").symlink_to("a") if change != "link" else None
    before = fingerprint(copy)
    CHANGES[change](copy)
    assert (fingerprint(copy) == before) is (change == "nothing")


def test_files_are_taken_away_and_put_back(workspace: CandidateWorkspace) -> None:
    """What was taken is there again, with its mode, and the candidate does not differ from the base."""
    directory = workspace.materialise()
    taken = take_away(workspace, directory, [b"pkg/b.txt", b"absent"])
    assert taken == (b"pkg/b.txt",)
    assert not (directory / "pkg" / "b.txt").exists()
    remove_tree(directory / "pkg")
    put_back(workspace, directory, taken)
    workspace.absorb()
    assert dict(workspace.overlay.changes) == {}


@pytest.mark.parametrize("obstacle", ["file", "link"])
def test_what_stands_in_the_way_is_refused(workspace: CandidateWorkspace, tmp_path: Path, obstacle: str) -> None:
    """A file or link where the folder was: nothing is written through it."""
    directory = workspace.materialise()
    taken = take_away(workspace, directory, [b"pkg/b.txt"])
    remove_tree(directory / "pkg")
    if obstacle == "file":
        (directory / "pkg").write_text("x")
    else:
        (directory / "pkg").symlink_to(tmp_path)
    with pytest.raises(SavantError) as caught:
        put_back(workspace, directory, taken)
    assert caught.value.code in {"refused.write-through-symlink", "conflict.not-a-directory"}
    assert not (tmp_path / "b.txt").exists()
