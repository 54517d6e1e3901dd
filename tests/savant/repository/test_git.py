"""Reading real repositories: exact objects, typed refusals, and nothing ambient that starts a program."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from savant.contracts.errors import PortError, RefusedInput, VerificationError
from savant.repository import ObjectReader, Repository
from savant.repository.launch import Git, find_git

Make = Callable[..., Any]


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises((RefusedInput, PortError, VerificationError)) as caught:
        call()
    return caught.value.code


class TestOpen:
    def test_a_checkout(self, sandbox: Any) -> None:
        """A checkout opens at its folder, with its git directory pinned and its format known."""
        with Repository.open(sandbox.path) as repository:
            assert repository.git_dir == repository.common_dir == sandbox.path / ".git"
            assert repository.top_level == sandbox.path
            assert repository.object_format == "sha1"
            assert repository.git_starts == 1

    def test_bare(self, make: Make) -> None:
        """A bare repository opens and has no checkout."""
        bare = make("bare.git", "--bare")
        commit = bare.commit({b"a": b"x"})
        with Repository.open(bare.path) as repository:
            assert repository.top_level is None
            assert repository.git_dir == bare.path
            assert repository.resolve_commit("main") == f"sha1:{commit}"

    def test_linked_worktree(self, sandbox: Any, tmp_path: Path) -> None:
        """A linked worktree has its own git directory and HEAD, and shares the object store."""
        sandbox.commit({b"a": b"x"})
        sandbox.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
        with Repository.open(tmp_path / "linked") as repository:
            assert repository.top_level == tmp_path / "linked"
            assert repository.git_dir == sandbox.path / ".git/worktrees/linked"
            assert repository.common_dir == sandbox.path / ".git"
            assert repository.read_blob(sandbox.blob(b"x")) == b"x"

    def test_only_the_given_folder(self, sandbox: Any) -> None:
        """Opening never climbs to a parent; discovering does, and says where it arrived."""
        inner = sandbox.path / "inner"
        inner.mkdir()
        assert code_of(lambda: Repository.open(inner)) == "refused.not-a-repository"
        with Repository.discover(inner) as repository:
            assert repository.top_level == sandbox.path

    @pytest.mark.parametrize("text", [b"", b"gitdir: nowhere\n", b"what"])
    def test_a_broken_gitfile(self, tmp_path: Path, text: bytes) -> None:
        """A .git file that leads nowhere is no repository."""
        (tmp_path / ".git").write_bytes(text)
        assert code_of(lambda: Repository.open(tmp_path)) == "refused.not-a-repository"
        assert code_of(lambda: Repository.discover(tmp_path)) == "refused.not-a-repository"

    def test_nothing_there(self, tmp_path: Path) -> None:
        """A folder that does not exist or holds nothing is no repository."""
        assert code_of(lambda: Repository.open(tmp_path / "none")) == "refused.not-a-repository"
        assert code_of(lambda: Repository.open(tmp_path)) == "refused.not-a-repository"

    def test_an_unknown_extension(self, sandbox: Any) -> None:
        """Git decides whether it understands the format; ours is a typed refusal with git's own words."""
        config = sandbox.path / ".git/config"
        config.write_text(config.read_text().replace("repositoryformatversion = 0", "repositoryformatversion = 1"))
        sandbox.git("config", "extensions.futureThing", "true")
        with pytest.raises(RefusedInput) as caught:
            Repository.open(sandbox.path)
        assert caught.value.code == "refused.unsupported-repository"
        assert "futurething" in caught.value.message.lower()

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository away")
    def test_a_foreign_owner(self, sandbox: Any) -> None:
        """A repository of another user is refused with the way out, and read when the caller vouches for it."""
        commit = sandbox.commit({b"a": b"x"})
        for place in (sandbox.path / ".git", sandbox.path):
            os.chown(place, 12345, -1)
            with pytest.raises(RefusedInput) as caught:
                Repository.open(sandbox.path)
            assert caught.value.code == "refused.foreign-ownership"
            assert "chown" in caught.value.fix
        with Repository.open(sandbox.path, trust_owner=True) as repository:
            assert repository.resolve_commit("main") == f"sha1:{commit}"

    def test_a_missing_git(self, sandbox: Any, tmp_path: Path) -> None:
        """Without a git executable the error names it; with one it is an absolute path."""
        assert code_of(lambda: Repository.open(sandbox.path, git=tmp_path / "git")) == "port.git-start"
        assert code_of(lambda: find_git(str(tmp_path))) == "port.git-missing"
        assert find_git().is_absolute()

    def test_a_redirected_worktree(self, sandbox: Any, tmp_path: Path) -> None:
        """core.worktree and core.bare in the repository's configuration change nothing that is read."""
        commit = sandbox.commit({b"a": b"x"})
        sandbox.git("config", "core.worktree", str(tmp_path / "decoy"))
        sandbox.git("config", "core.bare", "false")
        with Repository.open(sandbox.path) as repository:
            assert repository.top_level == sandbox.path
            assert [e.path for e in repository.list_tree(repository.tree_of(f"sha1:{commit}"))] == [b"a"]


class TestResolve:
    def test_names(self, sandbox: Any, opened: Repository) -> None:
        """Branches, tags, ids with and without format, HEAD, and expressions all give the commit's id."""
        first = sandbox.commit({b"a": b"1"})
        second = sandbox.commit({b"a": b"2"}, parent=first)
        sandbox.git("tag", "-a", "v1", "-m", "t", first)
        for name in ("main", "HEAD", "@", second, f"sha1:{second}", second[:10], "refs/heads/main"):
            assert opened.resolve_commit(name) == f"sha1:{second}"
        for name in ("v1", "HEAD~1", "main^", "v1^{commit}"):
            assert opened.resolve_commit(name) == f"sha1:{first}"
        assert opened.parents(second) == (f"sha1:{first}",)
        assert opened.parents(f"sha1:{first}") == ()

    @pytest.mark.parametrize(
        "rev",
        [
            "",
            "nowhere",
            "-q",
            "--all",
            ":a",
            "HEAD:a",
            "^HEAD",
            "a b",
            "x\ny",
            "x\0",
            "HEAD^{tree}",
            "0" * 40,
            "x" * 2000,
        ],
    )
    def test_what_names_no_commit(self, sandbox: Any, opened: Repository, rev: str) -> None:
        """Options, paths, trees, spaces and unknown names are refused; HEAD still resolves afterwards."""
        commit = sandbox.commit({b"a": b"1"})
        assert code_of(lambda: opened.resolve_commit(rev)) == "refused.unknown-revision"
        assert opened.resolve_commit("HEAD") == f"sha1:{commit}"

    def test_an_unborn_head(self, opened: Repository) -> None:
        """Before the first commit HEAD is refused by its own code."""
        assert code_of(lambda: opened.resolve_commit("HEAD")) == "refused.unborn-head"
        assert code_of(lambda: opened.resolve_commit("main")) == "refused.unknown-revision"

    def test_a_detached_head(self, sandbox: Any, opened: Repository) -> None:
        """A detached HEAD needs no branch."""
        commit = sandbox.commit({b"a": b"1"})
        sandbox.git("checkout", "-q", "--detach", "main")
        assert opened.resolve_commit("HEAD") == f"sha1:{commit}"

    def test_an_id_wins_over_a_branch_of_its_name(self, sandbox: Any, opened: Repository) -> None:
        """A branch named like the base's id does not redirect it."""
        first = sandbox.commit({b"a": b"1"})
        second = sandbox.commit({b"a": b"2"}, branch="other")
        sandbox.git("update-ref", f"refs/heads/{first}", second)
        assert opened.resolve_commit(first) == f"sha1:{first}"
        assert opened.resolve_commit(f"refs/heads/{first}") == f"sha1:{second}"

    def test_replace_refs_are_off(self, sandbox: Any, opened: Repository) -> None:
        """A replacement object is not used, for commits and for blobs."""
        first = sandbox.commit({b"a": b"1"})
        second = sandbox.commit({b"a": b"2"}, branch="other")
        sandbox.git("replace", first, second)
        sandbox.git("replace", sandbox.blob(b"1"), sandbox.blob(b"2"))
        assert opened.tree_of(first) != opened.tree_of(second)
        assert opened.read_blob(sandbox.blob(b"1")) == b"1"
        assert list(opened.read_blobs([sandbox.blob(b"1")])) == [(sandbox.blob(b"1"), b"1")]

    def test_grafts_are_off(self, sandbox: Any, opened: Repository) -> None:
        """A grafts file invents no parent."""
        first = sandbox.commit({b"a": b"1"})
        second = sandbox.commit({b"a": b"2"}, branch="other")
        (sandbox.path / ".git/info").mkdir(exist_ok=True)
        (sandbox.path / ".git/info/grafts").write_text(f"{second} {first}\n")
        assert opened.parents(second) == ()
        assert code_of(lambda: opened.resolve_commit("other~1")) == "refused.unknown-revision"

    def test_a_shallow_clone(self, sandbox: Any, tmp_path: Path) -> None:
        """The tip of a shallow clone is read; its absent parent is a missing object, not an empty history."""
        first = sandbox.commit({b"a": b"1"})
        second = sandbox.commit({b"a": b"2"}, parent=first)
        sandbox.git("clone", "-q", "--depth=1", f"file://{sandbox.path}", str(tmp_path / "shallow"))
        with Repository.open(tmp_path / "shallow") as repository:
            assert repository.resolve_commit("HEAD") == f"sha1:{second}"
            assert repository.parents(second) == (f"sha1:{first}",)
            assert code_of(lambda: repository.tree_of(first)) == "port.missing-object"

    def test_a_ref_to_a_missing_object(self, sandbox: Any, opened: Repository) -> None:
        """A name that is known but whose object is gone is a missing object."""
        commit = sandbox.commit({b"a": b"1"})
        (sandbox.path / ".git/objects" / commit[:2] / commit[2:]).unlink()
        assert code_of(lambda: opened.resolve_commit("main")) == "port.missing-object"
        assert code_of(lambda: opened.resolve_commit("HEAD")) == "port.missing-object"

    def test_packed_refs_and_objects(self, sandbox: Any, opened: Repository) -> None:
        """Refs and objects that exist only in packs are found, also by a reader that was started before."""
        first = sandbox.commit({b"a": b"1"})
        assert opened.resolve_commit("main") == f"sha1:{first}"
        second = sandbox.commit({b"a": b"2"}, parent=first)
        sandbox.git("pack-refs", "--all")
        sandbox.git("gc", "-q", "--prune=now")
        assert opened.resolve_commit("main") == f"sha1:{second}"
        assert opened.tree_of(first) != opened.tree_of(second)


class TestObjects:
    def test_listing(self, sandbox: Any, opened: Repository, files: Mapping[bytes, Any]) -> None:
        """A listing has every path as raw bytes with its mode and id, and sizes when asked."""
        tree = opened.tree_of(sandbox.commit(files))
        entries = {entry.path: entry for entry in opened.list_tree(tree, sizes=True)}
        assert set(entries) == set(files)
        modes = {"x": "executable", "l": "symlink", "g": "gitlink"}
        for path, content in files.items():
            kind, data = content if isinstance(content, tuple) else ("", content)
            assert entries[path].mode == modes.get(kind, "regular")
            if kind == "g":
                assert (entries[path].oid, entries[path].size) == (data.decode(), None)
            else:
                assert opened.read_blob(entries[path].oid) == data
                assert entries[path].size == len(data)
        with_trees = [entry.path for entry in opened.list_tree(tree, trees=True) if entry.mode == "tree"]
        assert b"src/deep" in with_trees

    def test_many_blobs_in_order(self, sandbox: Any, opened: Repository) -> None:
        """Many blobs come in the order asked for, repeats included, whatever their sizes, by one git process."""
        contents = [b"", b"x", b"y" * 300_000, b"\n", b"z" * (1 << 18), b"x"]
        oids = [sandbox.blob(content) for content in contents]
        before = opened.git_starts
        assert list(opened.read_blobs(oids)) == list(zip(oids, contents, strict=True))
        assert opened.git_starts == before + 1
        assert list(opened.read_blobs([])) == []

    def test_thousands_of_requests_do_not_deadlock(self, sandbox: Any, opened: Repository) -> None:
        """More requests and more answers than any pipe holds go through, point by point and in bulk."""
        big = sandbox.blob(b"0123456789abcdef" * 4096)
        oids = [big] * 3000
        assert sum(len(data) for _, data in opened.read_blobs(oids)) == 3000 * 65536
        assert sum(len(found.data) for found in opened.read_objects(oids)) == 3000 * 65536

    def test_stopping_early_leaves_no_process(self, sandbox: Any, opened: Repository) -> None:
        """A reader that is abandoned in the middle ends its git process."""
        big = sandbox.blob(b"x" * 1_000_000)
        with opened.bulk([big.encode()] * 50) as reading:
            next(reading.chunks())
            process = reading._process
            assert process is not None
            assert process.poll() is None
        assert process.returncode is not None

    def test_missing(self, sandbox: Any, opened: Repository) -> None:
        """A missing object is the same typed error on every way to read it, and the next read works."""
        good = sandbox.blob(b"good")
        absent = "0" * 40
        for call in (
            lambda: opened.read_blob(absent),
            lambda: list(opened.read_blobs([good, absent])),
            lambda: list(opened.read_objects([good, absent])),
            lambda: opened.list_tree(absent),
            lambda: opened.tree_of(absent),
        ):
            assert code_of(call) == "port.missing-object"
        assert opened.read_blob(good) == b"good"

    def test_a_partial_clone_fetches_nothing(self, sandbox: Any, tmp_path: Path) -> None:
        """A blob that a partial clone left out is missing although its origin could be reached."""
        sandbox.commit({b"a": b"content"})
        sandbox.git("config", "uploadpack.allowFilter", "true")
        sandbox.git("clone", "-q", "--bare", "--filter=blob:none", f"file://{sandbox.path}", str(tmp_path / "partial"))
        blob = sandbox.blob(b"content")
        with Repository.open(tmp_path / "partial") as repository:
            tree = repository.tree_of(repository.resolve_commit("main"))
            assert [entry.oid for entry in repository.list_tree(tree)] == [blob]
            assert code_of(lambda: repository.read_blob(blob)) == "port.missing-object"
            assert code_of(lambda: list(repository.read_blobs([blob]))) == "port.missing-object"
        sandbox.git("-C", str(tmp_path / "partial"), "cat-file", "-e", blob)  # the control: git itself would fetch it

    def test_a_size_limit(self, sandbox: Any, opened: Repository) -> None:
        """A blob above the limit is refused before it is read; at the limit it is read."""
        oid = sandbox.blob(b"12345")
        assert opened.read_blob(oid, max_bytes=5) == b"12345"
        assert code_of(lambda: opened.read_blob(oid, max_bytes=4)) == "refused.size-limit"
        assert code_of(lambda: list(opened.read_blobs([oid], max_bytes=4))) == "refused.size-limit"
        assert list(opened.read_blobs([oid], max_bytes=5)) == [(oid, b"12345")]

    def test_types_are_checked(self, sandbox: Any, opened: Repository) -> None:
        """A tree is not a blob and a blob is not a commit."""
        commit = sandbox.commit({b"a": b"1"})
        tree = opened.hex_id(opened.tree_of(commit))
        assert code_of(lambda: opened.read_blob(tree)) == "refused.malformed-object"
        assert code_of(lambda: list(opened.read_blobs([tree]))) == "refused.malformed-object"
        assert code_of(lambda: opened.tree_of(sandbox.blob(b"1"))) == "refused.unknown-revision"

    @pytest.mark.parametrize("oid", ["", "HEAD", "sha256:" + "0" * 40, "0" * 39, "0" * 40 + "\n", "A" * 40, "0" * 64])
    def test_only_ids_are_ids(self, opened: Repository, oid: str) -> None:
        """Where an object id is asked for, nothing else is handed to git."""
        for call in (opened.read_blob, opened.tree_of, opened.list_tree):
            assert code_of(lambda call=call: call(oid)) == "refused.object-id"

    def test_a_swapped_loose_object_is_found_out(self, sandbox: Any, opened: Repository) -> None:
        """An object file that holds another object's bytes does not pass a point read."""
        good, evil = sandbox.blob(b"good"), sandbox.blob(b"evil")
        objects = sandbox.path / ".git/objects"
        victim = objects / good[:2] / good[2:]
        victim.chmod(stat.S_IRUSR | stat.S_IWUSR)
        victim.write_bytes((objects / evil[:2] / evil[2:]).read_bytes())
        assert opened.read_blob(evil) == b"evil"
        assert code_of(lambda: opened.read_blob(good)) == "unverified.git-object"

    def test_a_reader_can_be_closed_and_used_again(self, sandbox: Any, opened: Repository) -> None:
        """Closing ends the process; a later read starts another one."""
        oid = sandbox.blob(b"x")
        with ObjectReader(opened.git, "sha1") as reader:
            assert reader.read(oid).data == b"x"
            process = reader._process
            assert process is not None
        assert process.returncode is not None
        assert reader.read(oid).type == "blob"
        reader.close()

    def test_sha256(self, make: Make, files: Mapping[bytes, Any]) -> None:
        """A SHA-256 repository has 64-digit ids everywhere and refuses 40-digit ones."""
        sandbox = make("long", "--object-format=sha256")
        commit = sandbox.commit({b"a": b"x", b"d/b": b"y"})
        with Repository.open(sandbox.path) as repository:
            assert repository.object_format == "sha256"
            assert repository.resolve_commit("HEAD") == f"sha256:{commit}"
            (first, _) = repository.list_tree(repository.tree_of(commit))
            assert repository.read_blob(first.oid) == b"x"
            assert code_of(lambda: repository.read_blob("0" * 40)) == "refused.object-id"


class TestHermetic:
    FILES: Final = {b".gitattributes": b"* filter=evil eol=crlf ident\n", b"a": b"$Id$\n"}

    @pytest.fixture
    def canary(self, tmp_path: Path) -> Path:
        return tmp_path / "canary"

    @pytest.fixture
    def hostile(self, sandbox: Any, canary: Path, tmp_path: Path) -> Any:
        """A repository whose hooks, filters, fsmonitor, pager and editor all leave a canary."""
        sandbox.commit(self.FILES)
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
        program.chmod(0o755)
        for key in (
            "core.fsmonitor",
            "core.pager",
            "core.editor",
            "core.sshCommand",
            "filter.evil.smudge",
            "filter.evil.clean",
            "filter.evil.process",
            "diff.evil.textconv",
            "credential.helper",
            "gpg.program",
            "core.alternateRefsCommand",
        ):
            sandbox.git("config", key, str(program))
        hooks = sandbox.path / ".git/hooks"
        hooks.mkdir(exist_ok=True)
        for hook in ("post-checkout", "reference-transaction", "post-index-change", "pre-commit"):
            (hooks / hook).symlink_to(program)
        (sandbox.path / ".git/info").mkdir(exist_ok=True)
        (sandbox.path / ".git/info/attributes").write_text("* filter=evil diff=evil\n")
        return sandbox

    def test_no_program_of_the_repository_runs(self, hostile: Any, canary: Path) -> None:
        """Reading everything from a hostile repository starts none of its programs and changes no byte."""
        with Repository.open(hostile.path) as repository:
            tree = repository.tree_of(repository.resolve_commit("HEAD"))
            oids = [entry.oid for entry in repository.list_tree(tree)]
            assert dict(repository.read_blobs(oids)) == {hostile.blob(data): data for data in self.FILES.values()}
        assert not canary.exists()
        hostile.git("update-ref", "refs/heads/control", "main")  # the control: git itself runs a hook
        assert canary.exists()

    def test_no_inherited_variable_counts(self, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """GIT_DIR, GIT_OBJECT_DIRECTORY, injected configuration and HOME of the caller change nothing."""
        real, decoy = make("real"), make("decoy")
        commit = real.commit({b"a": b"real"})
        decoy.commit({b"a": b"decoy"})
        for name, value in {
            "GIT_DIR": str(decoy.path / ".git"),
            "GIT_WORK_TREE": str(decoy.path),
            "GIT_OBJECT_DIRECTORY": str(decoy.path / ".git/objects"),
            "GIT_NAMESPACE": "decoy",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.bare",
            "GIT_CONFIG_VALUE_0": "nonsense",
            "GIT_TRACE": str(tmp_path / "trace"),
            "PATH": str(tmp_path),
            "HOME": str(tmp_path),
        }.items():
            monkeypatch.setenv(name, value)
        (tmp_path / ".gitconfig").write_text("[core\n")
        with Repository.open(real.path) as repository:
            assert repository.resolve_commit("HEAD") == f"sha1:{commit}"
        assert not (tmp_path / "trace").exists()

    def test_a_failing_command_says_so(self, opened: Repository) -> None:
        """A git command that fails is a typed error with git's own words."""
        with pytest.raises(PortError) as caught:
            opened.git.output(["cat-file", "-p", "nothing"])
        assert caught.value.code == "port.git-failed"
        assert "nothing" in caught.value.message

    def test_every_start_is_counted(self, opened: Repository) -> None:
        """The counter counts what failed to start as well: it is an upper bound."""
        git = Git(Path("/nonexistent/git"), opened.git_dir)
        assert code_of(lambda: git.run(["version"])) == "port.git-start"
        assert code_of(lambda: git.start(["version"])) == "port.git-start"
        assert git.starts == 2
