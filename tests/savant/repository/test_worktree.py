"""What a checkout holds is observed byte by byte, whatever git's own bookkeeping says."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from savant.contracts.digest import raw_digest
from savant.contracts.errors import PortError, RefusedInput
from savant.repository import Entry, Repository, build_manifest, diff
from savant.repository import worktree as worktree_module
from savant.repository.worktree import control_state, observe_tree, relation, worktree_facts

Make = Callable[..., Any]


class TestObserve:
    @pytest.fixture
    def base(self, sandbox: Any, opened: Repository, files: Mapping[bytes, Any]) -> Any:
        commit = sandbox.commit(files)
        sandbox.checkout()
        return build_manifest(opened, opened.tree_of(commit))

    def test_a_clean_checkout_is_its_commit(self, sandbox: Any, base: Any) -> None:
        """A checkout without conversions has the manifest of its commit, submodule folder included."""
        assert observe_tree(sandbox.path, expected=base) == base

    def test_a_gitlink_needs_its_base(self, sandbox: Any, base: Any) -> None:
        """An empty folder is a gitlink only where the expected manifest says so; a filled one is its files."""
        assert diff(base, observe_tree(sandbox.path))[0][0] == b"vendor/sub"
        (sandbox.path / "vendor/sub/f").write_bytes(b"x")
        seen = observe_tree(sandbox.path, expected=base)
        assert [path for path, _, _ in diff(base, seen)] == [b"vendor/sub", b"vendor/sub/f"]

    def test_what_git_status_hides(self, sandbox: Any, base: Any) -> None:
        """Assume-unchanged, skip-worktree, ignored, untracked and mode changes are all seen."""
        sandbox.git("config", "core.fileMode", "false")
        sandbox.git("config", "status.showUntrackedFiles", "no")
        (sandbox.path / ".git/info/exclude").write_text("*.log\n")
        sandbox.git("update-index", "--assume-unchanged", "README.md")
        sandbox.git("update-index", "--skip-worktree", "empty")
        (sandbox.path / "README.md").write_bytes(b"changed")
        (sandbox.path / "empty").unlink()
        (sandbox.path / "x.log").write_bytes(b"ignored")
        (sandbox.path / "untracked").write_bytes(b"untracked")
        (sandbox.path / "run.sh").chmod(0o644)
        assert sandbox.git("status", "--porcelain") == b""
        changes = diff(base, observe_tree(sandbox.path, expected=base))
        assert [path for path, _, _ in changes] == [b"README.md", b"empty", b"run.sh", b"untracked", b"x.log"]

    def test_modes_and_links(self, tmp_path: Path) -> None:
        """The owner's execute bit, links of every kind and nested .git folders are taken as they are."""
        (tmp_path / "x").write_bytes(b"x")
        (tmp_path / "x").chmod(0o755)
        (tmp_path / "d/.git").mkdir(parents=True)
        (tmp_path / "d/.git/HEAD").write_bytes(b"h")
        (tmp_path / "to-folder").symlink_to("d")
        (tmp_path / "nowhere").symlink_to("none")
        (tmp_path / "empty").mkdir()
        (tmp_path / ".git").write_bytes(b"not looked at")
        assert list(observe_tree(tmp_path).walk()) == [
            (b"d/.git/HEAD", Entry("regular", raw_digest(b"h"))),
            (b"nowhere", Entry("symlink", raw_digest(b"none"))),
            (b"to-folder", Entry("symlink", raw_digest(b"d"))),
            (b"x", Entry("executable", raw_digest(b"x"))),
        ]

    def test_nothing(self, tmp_path: Path) -> None:
        """A folder without files is the empty tree; one that is missing or a link is an error."""
        (tmp_path / "empty/inner").mkdir(parents=True)
        assert list(observe_tree(tmp_path / "empty").walk()) == []
        (tmp_path / "link").symlink_to("empty")
        for path in (tmp_path / "missing", tmp_path / "link"):
            with pytest.raises(PortError):
                observe_tree(path)

    def test_large_files_are_streamed(self, tmp_path: Path) -> None:
        """A file of several chunks has the digest of its bytes."""
        data = os.urandom(1024) * 3000
        (tmp_path / "big").write_bytes(data)
        assert dict(observe_tree(tmp_path).walk()) == {b"big": Entry("regular", raw_digest(data))}

    def test_strange_times(self, tmp_path: Path) -> None:
        """Times before 1970 and far in the future do not matter."""
        (tmp_path / "a").write_bytes(b"a")
        before = observe_tree(tmp_path)
        for time in (-1, 2**33):
            os.utime(tmp_path / "a", (time, time))
            assert observe_tree(tmp_path) == before

    @pytest.mark.parametrize("kind", ["fifo", "socket"])
    def test_special_files(self, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """FIFOs and sockets are refused without being opened; once they are gone the folder is read."""
        (tmp_path / "d").mkdir()
        monkeypatch.chdir(tmp_path / "d")
        if kind == "fifo":
            os.mkfifo("p")
        else:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.bind("p")
        with pytest.raises(RefusedInput) as caught:
            observe_tree(tmp_path)
        assert caught.value.code == "refused.special-file"
        assert "d/p" in caught.value.message
        (tmp_path / "d/p").unlink()
        observe_tree(tmp_path)

    def test_depth_has_a_limit(self, tmp_path: Path) -> None:
        """A tree deeper than any path that is accepted is refused, not recursed into."""
        place = tmp_path
        for _ in range(199):
            place /= "d"
        place.mkdir(parents=True)
        (place / "f").touch()
        observe_tree(tmp_path)
        (place / "d").mkdir()
        (place / "d/f").touch()
        with pytest.raises(RefusedInput) as caught:
            observe_tree(tmp_path)
        assert caught.value.code == "refused.too-deep"

    @pytest.mark.parametrize("size", [10, 3 << 20])
    def test_a_file_that_changes_while_it_is_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
    ) -> None:
        """A write between the first look and the last makes the observation unstable, not wrong."""
        file = tmp_path / "a"
        file.write_bytes(b"x" * size)
        os.utime(file, ns=(1, 1))
        real = os.read

        def read(fd: int, count: int) -> bytes:
            data = real(fd, count)
            with file.open("r+b") as there:
                there.write(b"y")
            return data

        observe_tree(tmp_path)
        monkeypatch.setattr(os, "read", read)
        with pytest.raises(RefusedInput) as caught:
            observe_tree(tmp_path)
        assert caught.value.code == "refused.unstable"

    def test_a_file_that_vanishes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An entry that is gone when it is opened, or a folder that changed meanwhile, is unstable."""
        (tmp_path / "a").write_bytes(b"x")
        real = worktree_module._read_file

        def vanish(parent: int, name: bytes, path: bytes) -> Any:
            (tmp_path / "a").unlink()
            return real(parent, name, path)

        monkeypatch.setattr(worktree_module, "_read_file", vanish)
        with pytest.raises(RefusedInput) as caught:
            observe_tree(tmp_path)
        assert caught.value.code == "refused.unstable"

        def appear(parent: int, name: bytes, path: bytes) -> Any:
            (tmp_path / f"new{os.urandom(4).hex()}").touch()
            return real(parent, name, path)

        (tmp_path / "a").write_bytes(b"x")
        os.utime(tmp_path, ns=(1, 1))
        monkeypatch.setattr(worktree_module, "_read_file", appear)
        with pytest.raises(RefusedInput) as caught:
            observe_tree(tmp_path)
        assert caught.value.code == "refused.unstable"

    def test_what_cannot_be_read_is_not_absent(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A permission error is a typed refusal, other errors of the disk are errors of the port."""
        (tmp_path / "a").write_bytes(b"x")
        for number, code in ((13, "refused.unreadable"), (5, "port.disk")):

            def fail(parent: int, name: bytes, path: bytes, number: int = number) -> Any:
                raise OSError(number, os.strerror(number))

            monkeypatch.setattr(worktree_module, "_read_file", fail)
            with pytest.raises((RefusedInput, PortError)) as caught:
                observe_tree(tmp_path)
            assert caught.value.code == code


class TestFacts:
    def test_a_plain_checkout(self, sandbox: Any, opened: Repository) -> None:
        """HEAD on a branch, nothing in progress, nothing locked."""
        commit = sandbox.commit({b"a": b"x"})
        facts = worktree_facts(opened)
        assert facts.head == f"sha1:{commit}"
        assert facts.branch == "refs/heads/main"
        assert not facts.is_detached
        assert not facts.is_linked
        assert not facts.is_locked
        assert facts.operation is None
        assert facts.top_level == sandbox.path

    def test_an_unborn_and_a_detached_head(self, sandbox: Any, opened: Repository) -> None:
        """Before the first commit there is no head; detached there is no branch."""
        assert worktree_facts(opened).head is None
        commit = sandbox.commit({b"a": b"x"})
        sandbox.git("checkout", "-q", "--detach", "main")
        facts = worktree_facts(opened)
        assert facts.is_detached
        assert facts.head == f"sha1:{commit}"

    def test_locks_and_operations(self, sandbox: Any, opened: Repository) -> None:
        """A lock that somebody holds and an operation in progress are reported by name."""
        sandbox.commit({b"a": b"x"})
        (opened.git_dir / "index.lock").touch()
        (opened.git_dir / "MERGE_HEAD").touch()
        facts = worktree_facts(opened)
        assert facts.is_locked
        assert facts.operation == "MERGE_HEAD"

    def test_bare(self, make: Make) -> None:
        """A bare repository has no checkout to have facts about."""
        with Repository.open(make("bare.git", "--bare").path) as repository, pytest.raises(RefusedInput) as caught:
            worktree_facts(repository)
        assert caught.value.code == "refused.no-checkout"

    def test_a_damaged_head(self, sandbox: Any, opened: Repository) -> None:
        """A HEAD whose object is gone is an error, not an unborn head."""
        commit = sandbox.commit({b"a": b"x"})
        (sandbox.path / ".git/objects" / commit[:2] / commit[2:]).unlink()
        with pytest.raises(PortError) as caught:
            worktree_facts(opened)
        assert caught.value.code == "port.missing-object"

    def test_relations(self, sandbox: Any, opened: Repository, make: Make, tmp_path: Path) -> None:
        """Same, linked, clone and foreign are told apart by what is shared."""
        commit = sandbox.commit({b"a": b"x"})
        sandbox.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
        sandbox.git("clone", "-q", str(sandbox.path), str(tmp_path / "clone"))
        make("foreign").commit({b"b": b"y"})
        (tmp_path / "alias").symlink_to(sandbox.path)
        for name, expected in {
            "alias": "same",
            "linked": "linked",
            "clone": "clone",
            "foreign": "foreign",
        }.items():
            with Repository.open(tmp_path / name) as other:
                assert relation(opened, other, f"sha1:{commit}") == expected


class TestControlState:
    def test_every_part_is_seen(self, sandbox: Any, opened: Repository, tmp_path: Path) -> None:
        """Each kind of control change shows in its part; reading and packing change nothing."""
        commit = sandbox.commit({b"a": b"x"})
        sandbox.checkout()
        state = control_state(opened)
        assert state.differences(state) == ()
        sandbox.git("pack-refs", "--all")
        sandbox.git("status")
        assert control_state(opened) == state

        def changed(act: Callable[[], object]) -> tuple[str, ...]:
            nonlocal state
            act()
            before, state = state, control_state(opened)
            return before.differences(state)

        hook = sandbox.path / ".git/hooks/post-checkout"
        hook.parent.mkdir(exist_ok=True)
        assert changed(lambda: sandbox.git("update-ref", "refs/heads/x", commit)) == ("refs",)
        assert changed(lambda: sandbox.git("config", "a.b", "c")) == ("config",)
        assert changed(lambda: hook.write_text("#!/bin/sh\n")) == ("hooks",)
        assert changed(lambda: hook.chmod(0o755)) == ("hooks",)
        assert changed(lambda: sandbox.git("update-index", "--assume-unchanged", "a")) == ("index",)
        assert changed(lambda: sandbox.git("update-index", "--no-assume-unchanged", "a")) == ("index",)
        assert changed(lambda: sandbox.git("symbolic-ref", "HEAD", "refs/heads/x")) == ("head",)
        assert changed(lambda: sandbox.git("worktree", "add", "-q", "--detach", str(tmp_path / "w"))) == ("worktrees",)
        (sandbox.path / "a").write_bytes(b"changed")
        assert changed(lambda: sandbox.git("stash", "-q")) == ("refs", "stash")

    def test_odd_control_files(self, sandbox: Any, opened: Repository) -> None:
        """A hooks path that is a file, and a folder where a file should be, are states like others."""
        sandbox.commit({b"a": b"x"})
        hooks = sandbox.path / ".git/hooks"
        state = control_state(opened)
        for child in hooks.iterdir():
            child.unlink()
        (hooks / "folder").mkdir()
        other = control_state(opened)
        assert state.differences(other) == ("hooks",)
