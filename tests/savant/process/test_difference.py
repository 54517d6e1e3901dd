"""Differences of folders: what is read, what is told apart, and that a difference made again gives the same tree."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from savant.contracts.digest import digest
from savant.contracts.errors import Conflict, PortError, RefusedInput, SavantError
from savant.files.paths import parents
from savant.files.tree import open_root
from savant.process import difference as module
from savant.process.difference import (
    Change,
    Node,
    Nodes,
    apply,
    check_changes,
    difference,
    read_tree,
    tree_digest,
    written_alike,
)
from savant.process.documents import ChangeKind

Plan = Mapping[bytes, tuple[ChangeKind, bytes]]


def build(root: Path, plan: Plan) -> None:
    for path, (kind, data) in plan.items():
        place = Path(os.fsdecode(os.fsencode(root) + b"/" + path))
        place.parent.mkdir(parents=True, exist_ok=True)
        match kind:
            case "regular" | "executable":
                place.write_bytes(data)
                place.chmod(0o755 if kind == "executable" else 0o644)
            case "symlink":
                place.symlink_to(os.fsdecode(data))
            case "folder":
                place.mkdir()
            case "special":
                os.mkfifo(place)


def seen(root: Path) -> Nodes:
    with open_root(root) as fd:
        return read_tree(fd).nodes


def expected(plan: Plan) -> Nodes:
    with_content: set[ChangeKind] = {"regular", "executable", "symlink"}
    return {path: Node(kind, digest(data) if kind in with_content else None) for path, (kind, data) in plan.items()}


def blobs(plan: Plan) -> Mapping[str, bytes]:
    return {digest(data): data for _, data in plan.values()}


components = st.sampled_from([b"a", b"b", b"B", "é".encode(), b"\xff", b"%2F", b"x y"])
paths = st.lists(components, min_size=1, max_size=3).map(b"/".join)
FILES: tuple[ChangeKind, ...] = ("regular", "executable")
LINKS: tuple[ChangeKind, ...] = ("symlink",)
EMPTY: tuple[ChangeKind, ...] = ("folder", "special")
nodes = st.one_of(
    st.tuples(st.sampled_from(FILES), st.binary(max_size=4)),
    st.tuples(st.sampled_from(LINKS), st.sampled_from([b"a", b"../b", b"/etc/passwd", b"\xfe"])),
    st.tuples(st.sampled_from(EMPTY), st.just(b"")),
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    drawn = draw(st.dictionaries(paths, nodes, max_size=8))
    above = {folder for path in drawn for folder in parents(path)}
    return {path: node for path, node in drawn.items() if path not in above}


@settings(max_examples=60, deadline=None)
@given(plans(), plans())
def test_a_difference_made_again_gives_the_same_tree(before: Plan, after: Plan) -> None:
    """For any two trees the difference, applied to the first, gives the second: kinds, bytes, links, empty folders."""
    with tempfile.TemporaryDirectory() as name:
        first, second = Path(name, "first"), Path(name, "second")
        first.mkdir()
        second.mkdir()
        build(first, before)
        build(second, after)
        assert seen(first) == expected(before)
        changes = difference(seen(first), seen(second))
        check_changes(changes)
        with open_root(first) as root:
            apply(root, changes, blobs(after).__getitem__)
        assert seen(first) == seen(second)
        assert difference(seen(first), seen(second)) == ()
        assert tree_digest(seen(first)) == tree_digest(seen(second))


@settings(max_examples=60)
@given(plans(), plans())
def test_trees_have_one_digest_exactly_when_they_are_equal(one: Plan, other: Plan) -> None:
    """The digest tells apart what differs in a path, a kind or a content."""
    first, second = expected(one), expected(other)
    assert (tree_digest(first) == tree_digest(second)) == (first == second)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("kept")
    yield inside
    assert (tmp_path / "outside" / "kept").read_text() == "kept"
    assert [one.name for one in (tmp_path / "outside").iterdir()] == ["kept"]


def test_what_git_owns_is_one_node_that_is_not_looked_into(folder: Path) -> None:
    """A repository that a tool made is seen by its name alone, and made again as an empty folder."""
    build(folder, {b".git/config": ("regular", b"hooks"), b"sub/.GIT": ("regular", b"x")})
    tree = seen(folder)
    assert tree == {b".git": Node("folder", None), b"sub/.GIT": Node("folder", None)}
    again = folder.parent / "again"
    again.mkdir()
    with open_root(again) as root:
        apply(root, difference({}, tree), lambda _: b"")
    assert (again / ".git").is_dir()
    assert not list((again / ".git").iterdir())


def test_a_link_is_never_followed(folder: Path) -> None:
    """A link in the way of a write is refused; reading it sees the link and not what it leads to."""
    (folder / "way").symlink_to("../outside")
    assert seen(folder) == {b"way": Node("symlink", digest(b"../outside"))}
    change = Change(b"way/new", Node("regular", digest(b"x")))
    with open_root(folder) as root, pytest.raises(RefusedInput) as caught:
        apply(root, [change], lambda _: b"x")
    assert caught.value.code == "refused.write-through-symlink"
    (folder / "way").unlink()
    with open_root(folder) as root:
        apply(root, [change], lambda _: b"x")
    assert (folder / "way" / "new").read_bytes() == b"x"


def test_a_folder_that_is_not_the_expected_one_is_a_conflict(folder: Path) -> None:
    """A file where a folder should be, and a full folder where a file should be, are typed errors."""
    build(folder, {b"file": ("regular", b""), b"full/x": ("regular", b"")})
    with open_root(folder) as root:
        with pytest.raises(Conflict):
            apply(root, [Change(b"file/new", Node("folder", None))], lambda _: b"")
        with pytest.raises(PortError):
            apply(root, [Change(b"full", Node("regular", digest(b"")))], lambda _: b"")
        apply(root, [Change(b"full/x", None), Change(b"full", Node("regular", digest(b"")))], lambda _: b"")
    assert (folder / "full").read_bytes() == b""


def test_a_folder_that_cannot_be_read_as_a_whole_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many entries and too deep folders are refused before they cost anything."""
    build(folder, {b"a/b/c": ("regular", b""), b"d": ("regular", b"")})
    assert len(seen(folder)) == 2
    for name, limit in (("MAX_ENTRIES", 3), ("MAX_DEPTH", 2)):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, limit)
            with pytest.raises(PortError) as caught:
                seen(folder)
            assert caught.value.code == "port.cassette-tree"


def test_what_was_written_alike_is_told(folder: Path) -> None:
    """A file that was replaced by its equal, or written again, differs in nothing but its stamp, and is named."""
    build(folder, {b"a": ("regular", b"x"), b"b": ("regular", b"x"), b"c": ("executable", b"x")})
    with open_root(folder) as root:
        before = read_tree(root)
        (folder / "new").write_bytes(b"x")
        (folder / "new").rename(folder / "a")
        (folder / "b").write_bytes(b"y")
        after = read_tree(root)
        assert written_alike(before, after) == (Change(b"a", Node("regular", digest(b"x"))),)
        assert difference(before.nodes, after.nodes) == (Change(b"b", Node("regular", digest(b"y"))),)
        apply(root, written_alike(before, after), lambda _: b"x")
        assert written_alike(after, read_tree(root)) == (Change(b"a", Node("regular", digest(b"x"))),)
        assert written_alike(after, after) == ()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([Change(b"../x", None)], "refused.path-traversal"),
        ([Change(b"/x", None)], "refused.absolute-path"),
        ([Change(b"a//x", None)], "refused.bad-path"),
        ([Change(b".git/config", Node("regular", digest(b"")))], "refused.reserved-path"),
        ([Change(b"a/.Git/hooks/x", Node("folder", None))], "refused.reserved-path"),
        ([Change(b"a/.git", Node("regular", digest(b"")))], "refused.reserved-path"),
        ([Change(b"a", None), Change(b"a", Node("folder", None))], "refused.cassette"),
        ([Change(b"a", Node("regular", None))], "refused.cassette"),
        ([Change(b"a", Node("folder", digest(b"")))], "refused.cassette"),
    ],
)
def test_a_difference_from_outside_is_checked(changes: list[Change], code: str) -> None:
    """Paths that leave the folder or belong to git, repeats, and content that does not fit its kind are refused."""
    with pytest.raises(SavantError) as caught:
        check_changes(changes)
    assert caught.value.code == code
    check_changes([Change(b"a/.git", Node("folder", None)), Change(b"b", None), Change(b"c", Node("special", None))])
