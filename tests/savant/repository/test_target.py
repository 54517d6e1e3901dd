"""Dedicated worktrees: exactly the base's bytes, nothing staged, no program run, nothing left after a failure."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from savant.contracts.errors import Conflict, PortError, RefusedInput, SavantError, VerificationError
from savant.repository import Repository, build_manifest
from savant.repository import target as target_module
from savant.repository.target import (
    check_place,
    create_target,
    planned_entry,
    remove_target,
    stage_nothing,
    staged_paths,
)
from savant.repository.worktree import control_state, observe_tree, worktree_facts

Make = Callable[..., Any]


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(SavantError) as caught:
        call()
    return caught.value.code


def test_the_target_is_the_base(sandbox: Any, opened: Repository, tmp_path: Path, files: Mapping[bytes, Any]) -> None:
    """A target holds every kind of entry as raw bytes, HEAD detached at the base, index equal, status clean."""
    commit = sandbox.commit(files)
    base = build_manifest(opened, opened.tree_of(commit))
    old_umask = os.umask(0o077)
    try:
        target = create_target(opened, f"sha1:{commit}", tmp_path / "target", manifest=base)
    finally:
        os.umask(old_umask)
    assert target.digest == base.digest
    assert target.commit == f"sha1:{commit}"
    assert observe_tree(target.path, expected=base) == base
    with Repository.open(target.path) as there:
        facts = worktree_facts(there)
        assert (facts.head, facts.branch, facts.is_linked) == (f"sha1:{commit}", None, True)
        assert facts.git_dir == target.entry
        assert staged_paths(there, commit) == []
    assert sandbox.git("-C", str(target.path), "status", "--porcelain", "-z", "--ignored") == b""
    assert (target.path / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (target.path / "README.md").stat().st_mode & 0o777 == 0o644


def test_only_the_entry_changes(sandbox: Any, opened: Repository, tmp_path: Path) -> None:
    """Creating and removing a target leaves refs, index, configuration, hooks, stash and HEAD as they were."""
    commit = sandbox.commit({b"a": b"x", b"d/b": b"y"})
    sandbox.checkout()
    before, files = control_state(opened), observe_tree(sandbox.path)
    planned = planned_entry(opened, tmp_path / "target")
    target = create_target(opened, commit, tmp_path / "target")
    assert target.entry == planned
    assert control_state(opened).differences(before) == ("worktrees",)
    remove_target(target)
    assert control_state(opened) == before
    assert observe_tree(sandbox.path) == files
    assert not target.path.exists()
    assert not (sandbox.path / ".git/worktrees").exists()


def test_no_program_of_the_repository_runs(sandbox: Any, opened: Repository, tmp_path: Path) -> None:
    """Hooks, filters and fsmonitor of the repository do not run, and attributes change no byte."""
    files = {
        b".gitattributes": b"* filter=evil\n*.txt text eol=crlf\n*.id ident\n",
        b"a.txt": b"one\ntwo\n",
        b"b.id": b"$Id$\n",
        b"c.bin": b"x",
    }
    commit = sandbox.commit(files)
    canary, program = tmp_path / "canary", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    program.chmod(0o755)
    for key in ("clean", "smudge", "process"):
        sandbox.git("config", f"filter.evil.{key}", str(program))
    sandbox.git("config", "filter.evil.required", "true")
    sandbox.git("config", "core.autocrlf", "true")
    (sandbox.path / ".git/hooks").mkdir(exist_ok=True)
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        (sandbox.path / ".git/hooks" / hook).symlink_to(program)
    sandbox.git("config", "core.fsmonitor", str(program))
    target = create_target(opened, commit, tmp_path / "target")
    assert not canary.exists()
    for path, data in files.items():
        assert (target.path / os.fsdecode(path)).read_bytes() == data
    sandbox.git("update-ref", "refs/heads/control", commit)
    assert canary.exists()  # the control: git itself runs a hook


@pytest.mark.parametrize("init", [("--bare",), ("--object-format=sha256",)])
def test_other_repositories(make: Make, tmp_path: Path, init: tuple[str, ...]) -> None:
    """Targets can be made from bare and from SHA-256 repositories."""
    sandbox = make("other", *init)
    commit = sandbox.commit({b"a": b"x", b"d/run": ("x", b"y")})
    with Repository.open(sandbox.path) as repository:
        target = create_target(repository, commit, tmp_path / "target")
        assert observe_tree(target.path).digest == target.digest
        remove_target(target)
        assert not target.path.exists()


def test_a_target_of_a_linked_worktree(sandbox: Any, tmp_path: Path) -> None:
    """Started in a linked worktree, the target becomes its sibling in the common repository."""
    commit = sandbox.commit({b"a": b"x"})
    sandbox.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    with Repository.open(tmp_path / "linked") as repository:
        target = create_target(repository, commit, tmp_path / "target")
        assert target.entry == sandbox.path / ".git/worktrees/target"


def test_an_empty_folder_will_do(sandbox: Any, opened: Repository, tmp_path: Path) -> None:
    """An existing empty folder is used; the second target of one name gets a numbered entry, as was planned."""
    commit = sandbox.commit({b"a": b"x"})
    (tmp_path / "one/target").mkdir(parents=True)
    (tmp_path / "two").mkdir()
    first = create_target(opened, commit, tmp_path / "one/target")
    assert planned_entry(opened, tmp_path / "two/target").name == "target1"
    second = create_target(opened, commit, tmp_path / "two/target")
    assert (first.entry.name, second.entry.name) == ("target", "target1")


def test_places_where_none_may_be(sandbox: Any, opened: Repository, tmp_path: Path) -> None:
    """Non-empty folders, files, links, places inside the repository and odd names are refused and left alone."""
    commit = sandbox.commit({b"a": b"x"})
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("work")
    (tmp_path / "file").write_text("work")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    (tmp_path / "into").symlink_to(sandbox.path)
    before = control_state(opened)
    for path, code in {
        full: "refused.target-not-empty",
        tmp_path / "file": "refused.target-not-empty",
        tmp_path / "link": "refused.target-not-empty",
        tmp_path / "none/target": "refused.target-parent",
        sandbox.path / "target": "refused.target-inside-repository",
        sandbox.path / ".git/target": "refused.target-inside-repository",
        tmp_path / "into/target": "refused.target-inside-repository",
        tmp_path / "my target": "refused.target-name",
        tmp_path / "x.lock": "refused.target-name",
    }.items():
        assert refused(lambda path=path: create_target(opened, commit, path)) == code
        assert refused(lambda path=path: check_place(opened, path)) == code
    assert (full / "mine").read_text() == "work"
    assert control_state(opened) == before
    check_place(opened, tmp_path / "fine")


def test_a_base_that_no_checkout_can_hold(sandbox: Any, opened: Repository, tmp_path: Path) -> None:
    """A tree with git's own name in it is refused before anything is created."""
    blob = sandbox.blob(b"x")
    inner = sandbox.raw_tree((b"100644", b"config", blob))
    commit = sandbox.commit_tree(sandbox.raw_tree((b"40000", b".GIT", inner), (b"100644", b"a", blob)))
    assert refused(lambda: create_target(opened, commit, tmp_path / "target")) == "refused.reserved-path"
    assert not (tmp_path / "target").exists()
    assert not (sandbox.path / ".git/worktrees").exists()


@pytest.mark.parametrize("existed", [True, False])
def test_a_failure_removes_what_was_created(
    sandbox: Any, opened: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, existed: bool
) -> None:
    """When writing fails half-way, neither files nor entry stay, and a folder that was there is empty again."""
    commit = sandbox.commit({b"a": b"x", b"b": b"y"})
    place = tmp_path / "target"
    if existed:
        place.mkdir()
    before = control_state(opened)
    written: list[bytes] = []

    def fail(root: int, path: bytes, *_: object, **__: object) -> None:
        if written:
            raise PortError("port.disk", "The disk is full.")
        written.append(path)
        (place / "a").write_bytes(b"x")

    monkeypatch.setattr(target_module, "write_file_at", fail)
    assert refused(lambda: create_target(opened, commit, place)) == "port.disk"
    assert place.exists() == existed
    assert not existed or list(place.iterdir()) == []
    assert control_state(opened) == before


def test_wrong_bytes_are_found_out(sandbox: Any, opened: Repository, tmp_path: Path) -> None:
    """A manifest of another commit is not what gets written: nothing is handed out."""
    first, second = sandbox.commit({b"a": b"x"}), sandbox.commit({b"a": b"y"}, branch="other")
    manifest = build_manifest(opened, opened.tree_of(second))
    with pytest.raises(VerificationError) as caught:
        create_target(opened, first, tmp_path / "target", manifest=manifest)
    assert caught.value.code == "unverified.target-bytes"
    assert not (tmp_path / "target").exists()


def test_somebody_writes_meanwhile(
    sandbox: Any, opened: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that appears in the target while it is made keeps it from being handed out."""
    commit = sandbox.commit({b"a": b"x"})
    real = stage_nothing

    def meanwhile(there: Repository, commit: str) -> None:
        real(there, commit)
        (tmp_path / "target" / "extra").touch()

    monkeypatch.setattr(target_module, "stage_nothing", meanwhile)
    assert refused(lambda: create_target(opened, commit, tmp_path / "target")) == "unverified.target-bytes"


def test_another_entry_than_planned(
    sandbox: Any, opened: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When git makes another entry than was announced, it is taken back: the intent would name the wrong one."""
    commit = sandbox.commit({b"a": b"x"})
    monkeypatch.setattr(target_module, "planned_entry", lambda *_: sandbox.path / ".git/worktrees/else")
    with pytest.raises(Conflict) as caught:
        create_target(opened, commit, tmp_path / "target")
    assert caught.value.code == "conflict.worktree-entry"
    assert not (tmp_path / "target").exists()
    assert not (sandbox.path / ".git/worktrees").exists()


def test_removing_only_what_is_ours(sandbox: Any, opened: Repository, tmp_path: Path) -> None:
    """A target whose folder and entry do not point at each other is not removed; the real one is."""
    commit = sandbox.commit({b"a": b"x"})
    target = create_target(opened, commit, tmp_path / "target")
    other = create_target(opened, commit, tmp_path / "other")
    for wrong in (replace(target, entry=other.entry), replace(target, path=tmp_path / "nowhere")):
        assert refused(lambda wrong=wrong: remove_target(wrong)) == "conflict.not-our-target"
    assert (tmp_path / "target/a").exists()
    remove_target(target)
    assert not target.path.exists()
    assert other.entry.exists()


def test_staging_is_seen_and_undone(sandbox: Any, opened: Repository, tmp_path: Path) -> None:
    """Staged changes are listed by path, and staging nothing makes the index the base tree again."""
    commit = sandbox.commit({b"a": b"x", b"b": b"y"})
    target = create_target(opened, commit, tmp_path / "target")
    (target.path / "a").write_bytes(b"changed")
    (target.path / "new\n").write_bytes(b"new")
    sandbox.git("-C", str(target.path), "add", "-A")
    with Repository.open(target.path) as there:
        assert staged_paths(there, commit) == [b"a", b"new\n"]
        stage_nothing(there, commit)
        assert staged_paths(there, commit) == []
        (there.git_dir / "index.lock").touch()
        assert refused(lambda: stage_nothing(there, commit)) == "port.git-failed"


def test_a_bare_repository_has_no_index_to_stage(make: Make) -> None:
    """Staging needs a checkout."""
    bare = make("bare.git", "--bare")
    commit = bare.commit({b"a": b"x"})
    with Repository.open(bare.path) as repository, pytest.raises(RefusedInput) as caught:
        stage_nothing(repository, commit)
    assert caught.value.code == "refused.no-checkout"
