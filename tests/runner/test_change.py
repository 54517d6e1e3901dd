"""The proposed change: labels, the change set, and that it makes of its base exactly the final tree."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from msgspec import structs

from runner.change import apply_change, is_policy_path, operations, required_kinds
from runner.documents import CandidateOperation, ChangeSet
from runner.overlay import Content
from runner.seal import Evidence, compute_evidence
from savant.contracts.document import digest_of
from savant.contracts.errors import InternalError, VerificationError
from savant.repository import Entry, diff, from_entries
from tests.runner.kit import DictBase, trees

R, X, L = "regular", "executable", "symlink"
SUB = Content("gitlink", b"sha1:" + b"1" * 40)
OTHER_SUB = Content("gitlink", b"sha1:" + b"2" * 40)


def file(data: bytes, mode: str = R) -> Content:
    return Content(mode, data)  # type: ignore[arg-type]


def evidence(before: Mapping[bytes, Content], after: Mapping[bytes, Content]) -> Evidence:
    gone = dict.fromkeys(before.keys() - after.keys())
    return compute_evidence(DictBase(before), {**gone, **after})


def labels(before: Mapping[bytes, Content], after: Mapping[bytes, Content]) -> list[tuple[str, str, str | None]]:
    return [(op.path, op.kind, op.source) for op in evidence(before, after).operations]


KINDS: dict[str, tuple[dict[bytes, Content], dict[bytes, Content], list[tuple[str, str, str | None]]]] = {
    "create": ({}, {b"a": file(b"1")}, [("a", "create", None)]),
    "create empty": ({b"e": file(b"")}, {b"e": file(b""), b"f": file(b"")}, [("f", "create", None)]),
    "modify": ({b"a": file(b"1")}, {b"a": file(b"2")}, [("a", "modify", None)]),
    "modify with mode": ({b"a": file(b"1")}, {b"a": file(b"2", X)}, [("a", "modify", None)]),
    "delete": ({b"a": file(b"1")}, {}, [("a", "delete", None)]),
    "delete link": ({b"a": file(b"1", L)}, {}, [("a", "delete", None)]),
    "rename": ({b"a": file(b"1")}, {b"b": file(b"1")}, [("a", "delete", None), ("b", "rename", "a")]),
    "rename keeps the mode": (
        {b"a": file(b"1")},
        {b"b": file(b"1", X)},
        [("a", "delete", None), ("b", "create", None)],
    ),
    "copy": ({b"a": file(b"1")}, {b"a": file(b"1"), b"b": file(b"1")}, [("b", "copy", "a")]),
    "copy of what changed": (
        {b"a": file(b"1")},
        {b"a": file(b"2"), b"b": file(b"1")},
        [("a", "modify", None), ("b", "copy", "a")],
    ),
    "rename once, then copy": (
        {b"a": file(b"1")},
        {b"b": file(b"1"), b"c": file(b"1")},
        [("a", "delete", None), ("b", "rename", "a"), ("c", "copy", "a")],
    ),
    "smallest sources first": (
        {b"a": file(b"1"), b"b": file(b"1"), b"z": file(b"1")},
        {b"x": file(b"1"), b"y": file(b"1"), b"z": file(b"1")},
        [("a", "delete", None), ("b", "delete", None), ("x", "rename", "a"), ("y", "rename", "b")],
    ),
    "mode change": ({b"a": file(b"1")}, {b"a": file(b"1", X)}, [("a", "mode-change", None)]),
    "new link": ({}, {b"a": file(b"b", L)}, [("a", "symlink-change", None)]),
    "moved link": (
        {b"a": file(b"t", L)},
        {b"b": file(b"t", L)},
        [("a", "delete", None), ("b", "symlink-change", None)],
    ),
    "retargeted link": ({b"a": file(b"b", L)}, {b"a": file(b"c", L)}, [("a", "symlink-change", None)]),
    "file to link": ({b"a": file(b"1")}, {b"a": file(b"1", L)}, [("a", "type-change", None)]),
    "link to file": ({b"a": file(b"1", L)}, {b"a": file(b"1", X)}, [("a", "type-change", None)]),
    "folder to link": (
        {b"d/x": file(b"1")},
        {b"d": file(b"e", L)},
        [("d", "symlink-change", None), ("d/x", "delete", None)],
    ),
    "file to folder": (
        {b"d": file(b"1")},
        {b"d/x": file(b"1")},
        [("d", "delete", None), ("d/x", "rename", "d")],
    ),
    "new submodule": ({}, {b"s": SUB}, [("s", "gitlink-change", None)]),
    "moved pointer": ({b"s": SUB}, {b"s": OTHER_SUB}, [("s", "gitlink-change", None)]),
    "removed submodule": ({b"s": SUB}, {}, [("s", "gitlink-change", None)]),
    "submodule to file": ({b"s": SUB}, {b"s": file(b"1")}, [("s", "gitlink-change", None)]),
    "submodule to folder": (
        {b"s": SUB},
        {b"s/x": file(b"1")},
        [("s", "gitlink-change", None), ("s/x", "create", None)],
    ),
    "nothing": ({b"a": file(b"1")}, {b"a": file(b"1")}, []),
}


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_kind_of_change_has_its_label(name: str) -> None:
    """Each before and after gives exactly these operations, and the change applied to the base gives the final tree."""
    before, after, expected = KINDS[name]
    found = evidence(before, after)
    assert labels(before, after) == expected
    base = DictBase(before)
    assert apply_change(base.manifest, found.change_set.document) == DictBase(after).manifest == found.final_manifest


def test_sizes_digests_and_blobs_are_the_contents() -> None:
    """A state holds the size of what stands there, a submodule's being 0; blobs are what the change puts in place."""
    found = evidence({b"a": file(b"12"), b"s": SUB}, {b"a": file(b"123"), b"l": file(b"a", L), b"s": OTHER_SUB})
    sizes = [(op.before and op.before.size_bytes, op.after and op.after.size_bytes) for op in found.operations]
    assert sizes == [(2, 3), (None, 1), (0, 0)]
    assert sorted(found.blobs.values()) == [b"123", b"a"]


def test_a_change_names_no_base() -> None:
    """The same change on a moved base has the same digest; another change has another."""
    one = evidence({b"a": file(b"1")}, {b"a": file(b"2")})
    moved = evidence({b"a": file(b"1"), b"x": file(b"x")}, {b"a": file(b"2"), b"x": file(b"x")})
    other = evidence({b"a": file(b"1")}, {b"a": file(b"3")})
    assert one.change_set.digest == moved.change_set.digest != other.change_set.digest
    assert one.final_manifest != moved.final_manifest


@pytest.mark.parametrize(
    ("path", "flag"),
    [
        (b".savant/policy.toml", True),
        (b".savant", True),
        (b".Savant/x", True),
        (b"a/.savant/x", False),
        (b".savantx", False),
    ],
)
def test_policy_changes_are_flagged(path: bytes, flag: bool) -> None:
    """The flag marks ``.savant`` at the root, however it is spelt, and nothing else."""
    assert is_policy_path(path) is flag
    assert [op.policy_change for op in evidence({}, {path: file(b"1")}).operations] == [flag]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("create", [("create",)]),
        ("rename", [("delete",), ("create",)]),
        ("copy", [("create",)]),
        ("modify", [("modify",)]),
        ("modify with mode", [("modify", "mode-change")]),
        ("file to link", [("type-change",)]),
        ("removed submodule", [("gitlink-change",)]),
    ],
)
def test_an_envelope_is_asked_for_what_a_label_stands_on(name: str, kinds: list[tuple[str, ...]]) -> None:
    """Rename and copy need their create; content and mode changed together need both."""
    before, after, _ = KINDS[name]
    assert [required_kinds(op) for op in evidence(before, after).operations] == kinds


def change_of(before: Mapping[bytes, Content], after: Mapping[bytes, Content]) -> ChangeSet:
    return evidence(before, after).change_set.document


@pytest.mark.parametrize(
    ("base", "code"),
    [
        ({b"a": file(b"other"), b"b": file(b"1")}, "unverified.change-base"),
        ({b"b": file(b"1")}, "unverified.change-base"),
        ({b"a/x": file(b"1"), b"b": file(b"1")}, "unverified.change-base"),
        ({b"a": file(b"1", X), b"b": file(b"1")}, "unverified.change-base"),
    ],
)
def test_a_change_applies_only_where_it_was_made(base: dict[bytes, Content], code: str) -> None:
    """A base that does not hold what the change starts from is refused; the right one is not."""
    change = change_of({b"a": file(b"1"), b"b": file(b"1")}, {b"a": file(b"2")})
    with pytest.raises(VerificationError) as caught:
        apply_change(DictBase(base).manifest, change)
    assert caught.value.code == code
    right = apply_change(DictBase({b"a": file(b"1"), b"b": file(b"1")}).manifest, change)
    assert right == DictBase({b"a": file(b"2")}).manifest


def test_a_change_set_is_ordered_and_says_only_changes() -> None:
    """Repeated, disordered and empty changes are no change set."""
    base = DictBase({b"a": file(b"1"), b"b": file(b"1")}).manifest
    first, second = change_of({b"a": file(b"1"), b"b": file(b"1")}, {}).changes
    idle = structs.replace(first, after=first.before)
    for changes in [(second, first), (first, first), (idle,)]:
        with pytest.raises(VerificationError) as caught:
            apply_change(base, ChangeSet(changes=changes))
        assert caught.value.code == "unverified.change-order"
    assert apply_change(base, ChangeSet(changes=(first, second))) == from_entries([])


def test_a_folder_is_no_state() -> None:
    """A difference that names a folder is our bug."""
    from runner.change import change_set

    tree = Entry("tree", b"\0" * 32)
    with pytest.raises(InternalError):
        change_set([(b"a", None, tree)], lambda _: 0, lambda _: 0)


@given(trees(), trees())
def test_the_change_between_any_two_trees_makes_one_of_the_other(
    before: dict[bytes, Content], after: dict[bytes, Content]
) -> None:
    """Applied to its base a change gives the final tree; it has a path exactly where trees differ; labels follow."""
    found = evidence(before, after)
    base, final = DictBase(before).manifest, DictBase(after).manifest
    assert found.final_manifest == final
    assert apply_change(base, found.change_set.document) == final
    differing = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert len(found.operations) == len(differing) == len(diff(base, final))
    assert operations(found.change_set.document, base) == found.operations
    assert digest_of(found.change_set.document) == found.change_set.digest
    check_labels(found.operations)


def check_labels(found: tuple[CandidateOperation, ...]) -> None:
    renamed = [op.source for op in found if op.kind == "rename"]
    assert len(renamed) == len(set(renamed))
    deleted = {op.path: op.before for op in found if op.kind == "delete"}
    for op in found:
        assert (op.source is not None) is (op.kind in ("rename", "copy"))
        if op.kind == "rename":
            assert deleted[op.source or ""] == op.after
