"""The workspace: its rules, its closing, its copy, and the same candidate whichever way it was made."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from providerport.port import FileMode, Workspace
from runner.overlay import Content, Limits, Overlay
from runner.seal import compute_evidence
from runner.snapshot import BaseSnapshot
from runner.workspace import CandidateWorkspace
from savant.contracts.errors import PortError, RefusedInput
from savant.files.paths import parents
from savant.repository import from_entries
from tests.runner.kit import FILES, DictBase, trees


@pytest.fixture
def workspace(snapshot: BaseSnapshot, scratch: Path) -> CandidateWorkspace:
    return CandidateWorkspace(snapshot, scratch, Limits(file_bytes=1000, total_bytes=3000, paths=50))


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(RefusedInput) as caught:
        call()
    return caught.value.code


BAD = {
    b"/etc/x": "refused.absolute-path",
    b"a/../x": "refused.path-traversal",
    b"a//b": "refused.bad-path",
    b"": "refused.bad-path",
    b".git/config": "refused.reserved-path",
    b"a/.GIT/hooks/x": "refused.reserved-path",
    b"a/git~1": "refused.reserved-path",
    b"docs/latest/x": "refused.write-through-symlink",
    b"/".join([b"d"] * 201): "refused.too-deep",
}


@pytest.mark.parametrize("path", sorted(BAD))
def test_every_call_checks_its_path(workspace: CandidateWorkspace, path: bytes) -> None:
    """No call takes an unsafe path, and none of them changes the candidate; safe ones pass."""
    calls: list[Callable[[], object]] = [
        lambda: workspace.mode(path),
        lambda: workspace.read(path),
        lambda: workspace.write(path, b"x"),
        lambda: workspace.edit(path, b"a", b"b"),
        lambda: workspace.delete(path),
        lambda: workspace.rename(path, b"ok"),
        lambda: workspace.rename(b"README.md", path),
        lambda: workspace.set_mode(path, executable=True),
        lambda: workspace.symlink(path, b"target"),
        lambda: workspace.set_gitlink(path, "1" * 40),
    ]
    assert {refused(call) for call in calls} == {BAD[path]}
    assert workspace.overlay.changes == {}
    workspace.write(b"safe/path", b"x")
    assert workspace.read(b"safe/path") == b"x"


def test_reading_shows_candidate_and_base(workspace: CandidateWorkspace) -> None:
    """Reads show the candidate as it is now; the base stays readable whatever the candidate did."""
    workspace.write(b"src/a.py", b"new")
    workspace.delete(b"README.md")
    assert workspace.read(b"src/a.py") == b"new"
    assert workspace.read_base(b"src/a.py") == b"a = 1\n"
    assert workspace.mode(b"README.md") is None
    assert refused(lambda: workspace.read(b"README.md")) == "refused.no-such-path"
    assert workspace.read_base(b"README.md") == b"# hello\n"
    assert workspace.mode(b"docs") is None
    assert workspace.read(b"docs/latest") == b"guide.md"
    assert refused(lambda: workspace.read(b"vendor/sub")) == "refused.no-such-path"
    assert refused(lambda: workspace.read_base(b"none")) == "refused.no-such-path"
    assert list(workspace.paths()) == sorted(FILES.keys() - {b"README.md"})


def test_writing_keeps_or_sets_the_executable_bit(workspace: CandidateWorkspace) -> None:
    """None keeps a file's bit and makes a new file regular; a link is replaced by a regular file."""
    workspace.write(b"bin/run", b"#!")
    workspace.write(b"new", b"")
    workspace.write(b"tool", b"", executable=True)
    workspace.write(b"docs/latest", b"text")
    modes = {path: workspace.mode(path) for path in (b"bin/run", b"new", b"tool", b"docs/latest", b"docs/guide.md")}
    assert list(modes.values()) == ["executable", "regular", "executable", "regular", "regular"]
    workspace.set_mode(b"bin/run", executable=False)
    workspace.set_mode(b"new", executable=False)
    assert workspace.mode(b"bin/run") == "regular"
    for path in (b"vendor/sub", b"none"):
        assert refused(lambda path=path: workspace.set_mode(path, executable=True)).startswith("refused.no")  # type: ignore[misc]


def test_an_edit_needs_exactly_one_occurrence(workspace: CandidateWorkspace) -> None:
    """A text edit is refused when its text occurs nowhere, twice or overlapping itself; once is fine."""
    workspace.write(b"t", b"aXbXaaa")
    for old in (b"", b"Y", b"X", b"aa"):
        assert refused(lambda old=old: workspace.edit(b"t", old, b"-")) == "refused.edit-not-unique"  # type: ignore[misc]
    workspace.edit(b"t", b"Xb", b"-")
    assert workspace.read(b"t") == b"a-Xaaa"
    assert refused(lambda: workspace.edit(b"docs/latest", b"guide", b"x")) == "refused.not-regular"


def test_renames_move_files_and_links_and_nothing_else(workspace: CandidateWorkspace) -> None:
    """A rename replaces its destination and keeps the mode; folders, submodules and absent paths cannot be moved."""
    workspace.rename(b"bin/run", b"src/a.py")
    assert (workspace.mode(b"src/a.py"), workspace.mode(b"bin/run")) == ("executable", None)
    workspace.rename(b"docs/latest", b"moved")
    assert workspace.read(b"moved") == b"guide.md"
    workspace.rename(b"empty", b"Empty")
    assert workspace.mode(b"Empty") == "regular"
    assert refused(lambda: workspace.rename(b"src", b"x")) == "refused.no-such-path"
    assert refused(lambda: workspace.rename(b"vendor/sub", b"x")) == "refused.gitlink-change"
    assert refused(lambda: workspace.rename(b"README.md", b"README.md/x")) == "refused.file-directory-conflict"
    assert refused(lambda: workspace.rename(b"README.md", b"src")) == "refused.file-directory-conflict"
    workspace.rename(b"README.md", b"README.md")
    assert workspace.read(b"README.md") == b"# hello\n"


def test_a_path_is_a_file_or_a_folder(workspace: CandidateWorkspace) -> None:
    """A file cannot be written over a folder or below a file until what is in the way is deleted."""
    assert refused(lambda: workspace.write(b"src", b"")) == "refused.file-directory-conflict"
    assert refused(lambda: workspace.write(b"README.md/x", b"")) == "refused.file-directory-conflict"
    assert refused(lambda: workspace.delete(b"src")) == "refused.is-a-folder"
    for path in [path for path in workspace.paths() if path.startswith(b"src/")]:
        workspace.delete(path)
    workspace.symlink(b"src", b"docs")
    workspace.delete(b"README.md")
    workspace.delete(b"README.md")
    workspace.write(b"README.md/x", b"")
    assert workspace.mode(b"src") == "symlink"
    workspace.delete(b"src")
    workspace.write(b"src/again", b"")
    assert workspace.mode(b"src/again") == "regular"
    workspace.delete(b"src/again")
    workspace.write(b"src", b"")
    assert workspace.mode(b"src") == "regular"


@pytest.mark.parametrize("target", [b"", b"a\0b", b"x" * 4096])
def test_a_link_target_must_fit_a_link(workspace: CandidateWorkspace, target: bytes) -> None:
    """Only what no link can hold is refused at the call; where a link leads is judged at the seal."""
    assert refused(lambda: workspace.symlink(b"l", target)) == "refused.bad-link-target"
    workspace.symlink(b"l", b"../../etc/passwd")
    assert workspace.read(b"l") == b"../../etc/passwd"


def test_submodules_are_kept_pointed_elsewhere_or_replaced_by_name(workspace: CandidateWorkspace) -> None:
    """Whatever happens to a submodule shows as its own path; a wrong commit id is refused."""
    workspace.set_gitlink(b"vendor/sub", "2" * 40)
    assert workspace.mode(b"vendor/sub") == "gitlink"
    assert refused(lambda: workspace.read(b"vendor/sub")) == "refused.no-such-path"
    workspace.write(b"vendor/sub/file", b"x")
    assert workspace.mode(b"vendor/sub") is None
    assert workspace.overlay.changes[b"vendor/sub"] is None
    for wrong in ("1" * 39, "HEAD", "sha256:" + "1" * 40, "sha1:" + "1" * 64):
        assert refused(lambda wrong=wrong: workspace.set_gitlink(b"s", wrong)) == "refused.object-id"  # type: ignore[misc]
    workspace.set_gitlink(b"s", "sha256:" + "1" * 64)
    assert workspace.overlay.changes[b"s"] == Content("gitlink", b"sha256:" + b"1" * 64)


def test_limits_are_at_n_and_not_before(workspace: CandidateWorkspace) -> None:
    """A file, the total and the number of paths are each accepted at the limit and refused beyond it."""
    workspace.write(b"1", b"x" * 1000)
    assert refused(lambda: workspace.write(b"1", b"x" * 1001)) == "refused.size-limit"
    workspace.write(b"2", b"x" * 1000)
    workspace.write(b"3", b"x" * 1000)
    assert refused(lambda: workspace.write(b"4", b"x")) == "refused.size-limit"
    workspace.rename(b"3", b"4")
    workspace.write(b"4", b"")
    for number in range(46):
        workspace.write(b"n%d" % number, b"")
    assert refused(lambda: workspace.write(b"one more", b"")) == "refused.size-limit"
    workspace.write(b"n1", b"again")


def test_closing_waits_and_refuses_everything_after(workspace: CandidateWorkspace) -> None:
    """Close returns only when the call in flight has ended; every later call fails closed; closing again is fine."""
    order: list[str] = []
    entered = threading.Event()

    def call() -> None:
        with workspace._open():
            entered.set()
            order.append("call")
            closing.wait(5)
            order.append("call ended")

    closing = threading.Event()
    worker = threading.Thread(target=call)
    worker.start()
    assert entered.wait(5)
    closer = threading.Thread(target=lambda: (workspace.close(), order.append("closed")))
    closer.start()
    closing.set()
    worker.join(5)
    closer.join(5)
    assert order == ["call", "call ended", "closed"]
    workspace.close()
    calls: list[Callable[[], object]] = [
        lambda: workspace.mode(b"a"),
        lambda: workspace.read(b"a"),
        lambda: workspace.read_base(b"a"),
        lambda: list(workspace.paths()),
        lambda: workspace.write(b"a", b""),
        lambda: workspace.edit(b"a", b"", b""),
        lambda: workspace.delete(b"a"),
        lambda: workspace.rename(b"a", b"b"),
        lambda: workspace.set_mode(b"a", executable=True),
        lambda: workspace.symlink(b"a", b"b"),
        lambda: workspace.set_gitlink(b"a", "1" * 40),
        workspace.materialise,
        workspace.absorb,
    ]
    assert {refused(call) for call in calls} == {"refused.workspace-closed"}


def everything(folder: Path) -> set[Path]:
    return {Path(place) / name for place, folders, files in os.walk(folder) for name in (*folders, *files)}


def test_the_copy_is_the_candidate_and_private(workspace: CandidateWorkspace, scratch: Path) -> None:
    """The copy holds exactly the candidate: bytes, modes and links whatever the umask is; submodules are empty."""
    workspace.write(b"new/tool", b"#!", executable=True)
    workspace.delete(b"README.md")
    previous = os.umask(0o077)
    try:
        folder = workspace.materialise()
    finally:
        os.umask(previous)
    assert folder.parent == scratch
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    found = {}
    for path in (path for path in everything(folder) if path.is_symlink() or not path.is_dir()):
        if path.is_symlink():
            content = Content("symlink", os.fsencode(path.readlink()))
        else:
            modes: dict[int, FileMode] = {0o755: "executable", 0o644: "regular"}
            content = Content(modes[stat.S_IMODE(path.stat().st_mode)], path.read_bytes())
        found[os.fsencode(path.relative_to(folder))] = content
    expected = {path: content for path, content in FILES.items() if content.mode != "gitlink"}
    del expected[b"README.md"]
    expected[b"new/tool"] = Content("executable", b"#!")
    assert found == expected
    assert list((folder / "vendor/sub").iterdir()) == []
    assert workspace.materialise() == folder
    assert workspace.dispose()
    assert list(scratch.iterdir()) == []
    assert workspace.dispose()


def absorb(workspace: CandidateWorkspace, change: Callable[[Path], object]) -> dict[bytes, Content | None]:
    change(workspace.materialise())
    workspace.absorb()
    manifest = workspace.overlay.base.manifest
    return {
        path: content
        for path, content in workspace.overlay.changes.items()
        if (None if content is None else content.entry) != manifest.get(path)
    }


ABSORBED: dict[str, tuple[Callable[[Path], object], dict[bytes, Content | None]]] = {
    "nothing": (lambda _: None, {}),
    "create": (lambda f: (f / "n").write_bytes(b"n"), {b"n": Content("regular", b"n")}),
    "ignored": (
        lambda f: ((f / ".gitignore").write_bytes(b"*.log\n"), (f / "x.log").write_bytes(b"x")),
        {b".gitignore": Content("regular", b"*.log\n"), b"x.log": Content("regular", b"x")},
    ),
    "modify": (lambda f: (f / "src/a.py").write_bytes(b"a = 3\n"), {b"src/a.py": Content("regular", b"a = 3\n")}),
    "delete": (lambda f: (f / "src/a.py").unlink(), {b"src/a.py": None}),
    "executable": (lambda f: (f / "src/a.py").chmod(0o755), {b"src/a.py": Content("executable", b"a = 1\n")}),
    "not executable": (lambda f: (f / "bin/run").chmod(0o644), {b"bin/run": Content("regular", b"#!/bin/sh\n")}),
    "group bits": (lambda f: (f / "bin/run").chmod(0o700), {}),
    "rename": (
        lambda f: (f / "src/a.py").rename(f / "b.py"),
        {b"src/a.py": None, b"b.py": Content("regular", b"a = 1\n")},
    ),
    "retarget": (
        lambda f: ((f / "docs/latest").unlink(), (f / "docs/latest").symlink_to("../empty")),
        {b"docs/latest": Content("symlink", b"../empty")},
    ),
    "file to link": (
        lambda f: ((f / "empty").unlink(), (f / "empty").symlink_to("docs")),
        {b"empty": Content("symlink", b"docs")},
    ),
    "link to file": (
        lambda f: ((f / "docs/latest").unlink(), (f / "docs/latest").write_bytes(b"")),
        {b"docs/latest": Content("regular", b"")},
    ),
    "folder to link": (
        lambda f: (shutil.rmtree(f / "docs"), (f / "docs").symlink_to("src")),
        {b"docs": Content("symlink", b"src"), b"docs/guide.md": None, b"docs/latest": None},
    ),
    "file to folder": (
        lambda f: ((f / "empty").unlink(), (f / "empty").mkdir(), (f / "empty/x").write_bytes(b"x")),
        {b"empty": None, b"empty/x": Content("regular", b"x")},
    ),
    "empty folder": (lambda f: (f / "d/e").mkdir(parents=True), {}),
    "touched": (lambda f: os.utime(f / "src/a.py", (-1, 2**33)), {}),
    "rewritten alike": (lambda f: (f / "src/a.py").write_bytes(b"a = 1\n"), {}),
    "hard link": (
        lambda f: os.link(f / "README.md", f / "hard"),
        {b"hard": Content("regular", b"# hello\n")},
    ),
    "odd name": (
        lambda f: Path(os.fsdecode(os.fsencode(f) + b"/\xff\n")).write_bytes(b"o"),
        {b"\xff\n": Content("regular", b"o")},
    ),
    "inside a submodule": (
        lambda f: (f / "vendor/sub/x").write_bytes(b"x"),
        {b"vendor/sub": None, b"vendor/sub/x": Content("regular", b"x")},
    ),
    "empty folder in a submodule": (lambda f: (f / "vendor/sub/e").mkdir(), {}),
    "submodule removed": (lambda f: (f / "vendor/sub").rmdir(), {b"vendor/sub": None}),
    "submodule replaced": (
        lambda f: ((f / "vendor/sub").rmdir(), (f / "vendor/sub").write_bytes(b"s")),
        {b"vendor/sub": Content("regular", b"s")},
    ),
}


@pytest.mark.parametrize("name", sorted(ABSORBED))
def test_absorbing_finds_every_kind_of_change(workspace: CandidateWorkspace, name: str) -> None:
    """What happened to the real files is exactly what the candidate then holds, whatever ignore rules say."""
    change, expected = ABSORBED[name]
    assert absorb(workspace, change) == expected
    assert absorb(workspace, lambda _: None) == expected


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "fifo": (lambda f: os.mkfifo(f / "src/p"), "refused.special-file"),
    "nested repository": (lambda f: (f / "x/.git").mkdir(parents=True), "refused.reserved-path"),
    "git file": (lambda f: (f / ".git").write_bytes(b"gitdir: /x"), "refused.reserved-path"),
    "disguised": (lambda f: (f / "src/.GiT").mkdir(), "refused.reserved-path"),
    "repository in a submodule": (lambda f: (f / "vendor/sub/.git").mkdir(), "refused.reserved-path"),
    "too large": (lambda f: (f / "big").write_bytes(b"x" * 1001), "refused.size-limit"),
    "sparse": (lambda f: os.truncate(f / "src/a.py", 1 << 40), "refused.size-limit"),
    "too much": (lambda f: [(f / f"{n}").write_bytes(b"x" * 1000) for n in range(4)], "refused.size-limit"),
    "too many": (lambda f: [(f / f"{n}").write_bytes(b"") for n in range(60)], "refused.size-limit"),
    "too many folders": (lambda f: [(f / f"{n}").mkdir() for n in range(60)], "refused.size-limit"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_no_candidate_may_hold_is_refused_as_a_whole(workspace: CandidateWorkspace, name: str) -> None:
    """A refused copy changes nothing; when the cause is gone the rest is taken."""
    change, code = REFUSED[name]
    folder = workspace.materialise()
    before = everything(folder)
    (folder / "README.md").write_bytes(b"good")
    change(folder)
    assert refused(workspace.absorb) == code
    assert workspace.overlay.changes == {}
    assert workspace.materialise() == folder
    for added in sorted(everything(folder) - before, key=lambda path: len(path.parts)):
        if added.is_dir():
            shutil.rmtree(added)
        else:
            added.unlink(missing_ok=True)
    (folder / "src/a.py").write_bytes(b"a = 1\n")
    assert absorb(workspace, lambda _: None) == {b"README.md": Content("regular", b"good")}


def test_folders_are_followed_to_the_depth_of_a_manifest_only(snapshot: BaseSnapshot, scratch: Path) -> None:
    """A path of as many names as a manifest may have is taken; one more is refused before it is followed."""
    workspace = CandidateWorkspace(snapshot, scratch)
    folder = workspace.materialise()
    deepest = folder.joinpath(*["d"] * 199)
    deepest.mkdir(parents=True)
    (deepest / "f").write_bytes(b"f")
    workspace.absorb()
    assert workspace.read(b"d/" * 199 + b"f") == b"f"
    workspace.materialise()
    (deepest / "e").mkdir()
    (deepest / "e" / "f").write_bytes(b"f")
    assert refused(workspace.absorb) == "refused.too-deep"


@pytest.mark.parametrize("name", [b"a.py", b"src"])
def test_what_cannot_be_read_is_not_taken_for_absent(
    name: bytes, workspace: CandidateWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file or folder without permissions is refused by name; when they are back it is read. (Root reads all.)"""
    import runner.scan as module

    folder = workspace.materialise()
    (folder / "src/a.py").write_bytes(b"secret")
    opens = os.open

    def denied(path: bytes, flags: int, **named: int) -> int:
        if path == name:
            raise PermissionError(13, "Permission denied")
        return opens(path, flags, **named)

    with monkeypatch.context() as patched:
        patched.setattr(module.os, "open", denied)
        assert refused(workspace.absorb) == "refused.unreadable"
    workspace.absorb()
    assert workspace.read(b"src/a.py") == b"secret"


def test_edits_on_both_sides_meet_in_the_candidate(workspace: CandidateWorkspace) -> None:
    """Calls made while the copy is out survive the absorbing, and the next copy shows them."""
    folder = workspace.materialise()
    workspace.write(b"api", b"api")
    workspace.delete(b"docs/guide.md")
    workspace.delete(b"src/deep/er/c.bin")
    workspace.write(b"bin/sub/x", b"x", executable=True)
    workspace.symlink(b"empty", b"api")
    (folder / "disk").write_bytes(b"disk")
    workspace.absorb()
    assert (workspace.read(b"api"), workspace.read(b"disk")) == (b"api", b"disk")
    again = workspace.materialise()
    assert again == folder
    assert (again / "api").read_bytes() == b"api"
    assert os.access(again / "bin/sub/x", os.X_OK)
    assert (again / "empty").readlink() == Path("api")
    assert not (again / "docs/guide.md").exists()
    assert not (again / "src/deep").exists()
    changed = {b"api", b"disk", b"docs/guide.md", b"src/deep/er/c.bin", b"bin/sub/x", b"empty"}
    assert absorb(workspace, lambda _: None).keys() == changed


def test_a_copy_that_cannot_be_brought_up_to_date_is_made_afresh(workspace: CandidateWorkspace) -> None:
    """An empty folder in the way of a new file, or a changed submodule, costs a new copy and nothing else."""
    folder = workspace.materialise()
    (folder / "way").mkdir()
    workspace.absorb()
    workspace.write(b"way", b"file")
    again = workspace.materialise()
    assert (again / "way").read_bytes() == b"file"
    workspace.absorb()
    workspace.write(b"vendor/sub/x", b"x")
    workspace.set_gitlink(b"third/party", "3" * 40)
    last = workspace.materialise()
    assert (last / "vendor/sub/x").read_bytes() == b"x"
    assert list((last / "third/party").iterdir()) == []
    workspace.absorb()
    workspace.set_gitlink(b"fourth", "3" * 40)
    assert (workspace.materialise() / "fourth").is_dir()
    workspace.absorb()
    assert workspace.mode(b"fourth") == "gitlink"


def test_a_missing_scratch_folder_is_a_disk_error(snapshot: BaseSnapshot, scratch: Path) -> None:
    """A workspace without a place for its copy is not made at all."""
    with pytest.raises(PortError):
        CandidateWorkspace(snapshot, scratch / "missing")
    assert isinstance(CandidateWorkspace(snapshot, scratch), CandidateWorkspace)


def test_it_is_the_ports_workspace(workspace: CandidateWorkspace) -> None:
    """The class offers every member of the port."""
    port: Workspace = workspace
    members = [name for name in vars(Workspace) if not name.startswith("_")]
    assert [name for name in members if not hasattr(port, name)] == []


@settings(max_examples=40, deadline=None)
@given(trees(), trees())
def test_by_calls_or_by_files_the_candidate_is_the_same(
    before: dict[bytes, Content], after: dict[bytes, Content]
) -> None:
    """The same change made through the calls and made to real files gives equal manifests, whatever the trees."""
    with tempfile.TemporaryDirectory() as name:
        gone = sorted(before.keys() - after.keys())
        made = sorted((path, content) for path, content in after.items() if before.get(path) != content)
        called, filed = (CandidateWorkspace(DictBase(before), Path(name)) for _ in range(2))
        for path in gone:
            called.delete(path)
        for path, content in made:
            put(called, path, content)
        folder = filed.materialise()
        for path in [*gone, *(path for path, _ in made if path in before)]:
            remove(folder / os.fsdecode(path))
        for path in gone:
            for above in (folder / os.fsdecode(path)).parents[: path.count(b"/")]:
                with suppress(OSError):
                    above.rmdir()
        for path, content in made:
            place = folder / os.fsdecode(path)
            place.parent.mkdir(parents=True, exist_ok=True)
            if content.mode == "symlink":
                place.symlink_to(os.fsdecode(content.data))
            elif content.mode != "gitlink":
                place.write_bytes(content.data)
                place.chmod(0o755 if content.mode == "executable" else 0o644)
        filed.absorb()
        for path, content in made:
            if content.mode == "gitlink":
                put(filed, path, content)
        manifests = [compute_evidence(w.overlay.base, w.overlay.changes).final_manifest for w in (called, filed)]
        assert manifests[0] == manifests[1] == DictBase(after).manifest
        assert called.dispose()
        assert filed.dispose()


def put(workspace: CandidateWorkspace, path: bytes, content: Content) -> None:
    match content.mode:
        case "symlink":
            workspace.symlink(path, content.data)
        case "gitlink":
            workspace.set_gitlink(path, content.data.decode())
        case mode:
            workspace.write(path, content.data, executable=mode == "executable")


def remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink()


def test_a_copy_that_cannot_be_removed_is_said_to_be_left(
    workspace: CandidateWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Disposing answers whether nothing is left; it closes either way."""
    import runner.workspace as module

    workspace.materialise()

    def failing(path: Path) -> None:
        raise PortError("port.disk", "Busy.")

    with monkeypatch.context() as patched:
        patched.setattr(module, "remove_tree", failing)
        assert not workspace.dispose()
    assert refused(workspace.materialise) == "refused.workspace-closed"
    assert workspace.dispose()


def test_absorbing_before_there_is_a_copy_is_nothing(workspace: CandidateWorkspace) -> None:
    """Without real files there is nothing to take."""
    workspace.absorb()
    assert workspace.overlay.changes == {}
    assert workspace.backend == "memory"


NAMES = st.sampled_from([b"a", b"b", b"c", b"d"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
DATA = st.binary(max_size=3)
START = {
    b"a": Content("regular", b"1"),
    b"b/a": Content("executable", b"2"),
    b"b/b": Content("symlink", b"a"),
    b"c/a/a": Content("regular", b"1"),
    b"d/d": Content("gitlink", b"sha1:" + b"1" * 40),
}


class Model(RuleBasedStateMachine):
    """A workspace against a dict that follows the same rules in the plainest way."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = Path(tempfile.mkdtemp())
        self.workspace = CandidateWorkspace(DictBase(START), self.scratch)
        self.files: dict[bytes, Content] = dict(START)

    def teardown(self) -> None:
        assert self.workspace.dispose()
        self.scratch.rmdir()

    def allowed(self, path: bytes) -> bool:
        """Whether a file may be put at a path."""
        above = [path[:at] for at, byte in enumerate(path) if byte == ord("/")]
        blocked = any(place in self.files and self.files[place].mode != "gitlink" for place in above)
        return not blocked and not any(other.startswith(path + b"/") for other in self.files)

    def put(self, path: bytes, content: Content) -> None:
        for at, byte in enumerate(path):
            if byte == ord("/"):
                self.files.pop(path[:at], None)
        self.files[path] = content

    def attempt(self, allowed: bool, call: Callable[[], object]) -> None:
        if allowed:
            call()
        else:
            with pytest.raises(RefusedInput):
                call()

    @rule(path=PATHS, data=DATA, executable=st.sampled_from([None, True, False]))
    def write(self, path: bytes, data: bytes, executable: bool | None) -> None:
        allowed = self.allowed(path)
        self.attempt(allowed, lambda: self.workspace.write(path, data, executable=executable))
        if allowed:
            old = self.files.get(path)
            keeps = old is not None and old.mode == "executable"
            self.put(path, Content("executable" if (keeps if executable is None else executable) else "regular", data))

    @rule(path=PATHS, leads=st.sampled_from([b"a", b"b/a", b"../x"]))
    def symlink(self, path: bytes, leads: bytes) -> None:
        allowed = self.allowed(path)
        self.attempt(allowed, lambda: self.workspace.symlink(path, leads))
        if allowed:
            self.put(path, Content("symlink", leads))

    @rule(path=PATHS)
    def delete(self, path: bytes) -> None:
        above = [path[:at] for at, byte in enumerate(path) if byte == ord("/")]
        through = any(place in self.files and self.files[place].mode == "symlink" for place in above)
        folder = any(other.startswith(path + b"/") for other in self.files)
        self.attempt(not through and not folder, lambda: self.workspace.delete(path))
        if not through and not folder:
            self.files.pop(path, None)

    @rule(source=PATHS, destination=PATHS)
    def rename(self, source: bytes, destination: bytes) -> None:
        content = self.files.get(source)
        allowed = content is not None and content.mode != "gitlink" and self.allowed(destination)
        self.attempt(allowed, lambda: self.workspace.rename(source, destination))
        if allowed and content is not None and source != destination:
            self.put(destination, content)
            del self.files[source]

    @rule(path=PATHS, executable=st.booleans())
    def set_mode(self, path: bytes, executable: bool) -> None:
        content = self.files.get(path)
        allowed = content is not None and content.mode in ("regular", "executable")
        self.attempt(allowed, lambda: self.workspace.set_mode(path, executable=executable))
        if allowed and content is not None:
            self.files[path] = Content("executable" if executable else "regular", content.data)

    @rule(path=PATHS, data=DATA)
    def on_disk(self, path: bytes, data: bytes) -> None:
        """The same change by real files, through the copy, where a file system allows it."""
        folder = self.workspace.materialise()
        place = folder / os.fsdecode(path)
        allowed = self.allowed(path) and not place.is_dir()
        if allowed:
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.is_symlink() or place.exists():
                place.unlink()
            place.write_bytes(data)
        self.workspace.absorb()
        if allowed:
            self.put(path, Content("regular", data))

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def remove_on_disk(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.files)))
        place = self.workspace.materialise() / os.fsdecode(path)
        if self.files[path].mode == "gitlink":
            shutil.rmtree(place)
        else:
            place.unlink()
        self.workspace.absorb()
        del self.files[path]

    @initialize()
    def start(self) -> None:
        assert list(self.workspace.paths()) == sorted(START)

    @invariant()
    def shows_what_the_model_shows(self) -> None:
        overlay = self.workspace.overlay
        assert overlay.paths() == sorted(self.files)
        for path, content in self.files.items():
            assert overlay.mode(path) == content.mode
            if content.mode != "gitlink":
                assert overlay.read(path) == content.data

    @invariant()
    def has_the_models_manifest(self) -> None:
        evidence = compute_evidence(self.workspace.overlay.base, self.workspace.overlay.changes)
        assert evidence.final_manifest == from_entries((p, c.entry) for p, c in self.files.items())

    @invariant()
    def keeps_its_accounts(self) -> None:
        overlay: Overlay = self.workspace.overlay
        contents = [content for content in overlay.changes.values() if content is not None]
        assert overlay._total_bytes == sum(len(content.data) for content in contents)
        present = [path for path, content in overlay.changes.items() if content is not None]
        assert +overlay._below == Counter(above for path in present for above in parents(path))


Model.TestCase.settings = settings(max_examples=60, stateful_step_count=15, deadline=None)
TestModel = Model.TestCase
