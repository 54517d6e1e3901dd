"""Raw git objects and revisions as values: strict, and refused by code."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from savant.contracts.errors import RefusedInput
from savant.repository.objects import (
    Commit,
    check_revision,
    hex_of,
    is_hex,
    mode_of,
    object_id,
    parse_commit,
    parse_tree,
    require_type,
    unborn_head,
)

ONE, TWO = "1" * 40, "2" * 40


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(RefusedInput) as caught:
        call()
    return caught.value.code


def test_commits() -> None:
    """The tree and the parents at the head of a commit are read in order; nothing after them counts."""
    head = f"tree {ONE}\nparent {TWO}\nparent {ONE}\n"
    assert parse_commit("sha1", f"{head}author A\n\nparent {TWO}\n".encode()) == Commit(
        f"sha1:{ONE}", (f"sha1:{TWO}", f"sha1:{ONE}")
    )
    assert parse_commit("sha1", f"tree {ONE}".encode()) == Commit(f"sha1:{ONE}", ())
    assert parse_commit("sha1", f"tree {ONE}\nauthor A\nparent {TWO}".encode()).parents == ()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "refused.malformed-object"),
        (b"parent " + ONE.encode(), "refused.malformed-object"),
        (b"\ntree " + ONE.encode(), "refused.malformed-object"),
        (b"tree 11", "refused.object-id"),
        (b"tree " + b"\xff" * 40, "refused.object-id"),
        (b"tree " + b"1" * 64, "refused.object-id"),
    ],
)
def test_malformed_commits(data: bytes, code: str) -> None:
    """A commit that does not begin with a tree of its own format is refused."""
    assert code_of(lambda: parse_commit("sha1", data)) == code


ENTRY = b"100644 a\0" + bytes(20)


@pytest.mark.parametrize(
    "data",
    [
        b"100644",
        b"100644 a",
        b"100644 a\0" + bytes(19),
        b" a\0" + bytes(20),
        b"10 644 a\0" + bytes(20),
        b"108644 a\0" + bytes(20),
        b"000000100644 a\0" + bytes(20),
        ENTRY + b"1",
    ],
)
def test_malformed_trees(data: bytes) -> None:
    """A tree that breaks off or has no proper mode is refused; the entry alone is fine."""
    assert code_of(lambda: parse_tree("sha1", data)) == "refused.malformed-object"
    assert [entry.path for entry in parse_tree("sha1", ENTRY)] == [b"a"]


def test_repeated_names() -> None:
    """A tree that lists a name twice is refused, also when git itself would read it."""
    assert code_of(lambda: parse_tree("sha1", ENTRY + ENTRY)) == "refused.duplicate-path"


def test_an_unborn_head() -> None:
    """The error says what to do."""
    assert unborn_head().code == "refused.unborn-head"
    assert "commit" in unborn_head().fix


@given(st.binary(max_size=120))
def test_no_bytes_break_the_parsers(data: bytes) -> None:
    """Any bytes are parsed or refused by a typed error."""
    for call in (
        lambda: parse_tree("sha1", data),
        lambda: parse_tree("sha256", data),
        lambda: parse_commit("sha1", data),
    ):
        try:
            call()
        except RefusedInput:
            continue


def test_modes() -> None:
    """Git's modes map to ours; what git does not know is refused."""
    modes = {0o100644: "regular", 0o100664: "regular", 0o100755: "executable", 0o120000: "symlink"}
    modes |= {0o160000: "gitlink", 0o040000: "tree"}
    assert {mode: mode_of(mode) for mode in modes} == modes
    for mode in (0, 0o644, 0o010000, 0o140000):
        assert code_of(lambda mode=mode: mode_of(mode)) == "refused.malformed-object"


def test_ids() -> None:
    """Ids have the length and the spelling of their format, with or without its name."""
    assert hex_of("sha1", f"sha1:{ONE}") == hex_of("sha1", ONE) == ONE
    assert is_hex("sha256", "a" * 64)
    assert not is_hex("sha256", "a" * 40)
    assert code_of(lambda: hex_of("sha256", f"sha1:{ONE}")) == "refused.object-id"
    assert object_id("sha1", "blob", b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    require_type(ONE, "blob", "blob")
    assert code_of(lambda: require_type(ONE, "tag", "blob")) == "refused.malformed-object"


def test_revisions() -> None:
    """Plain revisions pass; what could be an option, a path lookup or two words does not."""
    for rev in ("HEAD", "v1.0~3^2", "feature/x", "@{-1}", "\u00e9"):
        check_revision(rev)
    for rev in ("", "-x", ":x", "^x", "a b", "a\tb", "a\n", "\x7f", "x" * 1025):
        assert code_of(lambda rev=rev: check_revision(rev)) == "refused.unknown-revision"
