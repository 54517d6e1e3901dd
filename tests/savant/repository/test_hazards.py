"""Hazards: what a candidate introduces is found, what the base already holds blocks nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from savant.contracts.digest import raw_digest
from savant.contracts.errors import VerificationError
from savant.repository import Entry, Manifest, from_entries, gitlink_digest, link_digest
from savant.repository.hazards import BaseLimitation, base_limitations, check_candidate

Files = Mapping[bytes, object]
LINK = Entry("gitlink", gitlink_digest("sha1:" + "1" * 40))
OTHER_LINK = Entry("gitlink", gitlink_digest("sha1:" + "2" * 40))

TARGETS: dict[bytes, bytes] = {}


def link(target: bytes) -> Entry:
    TARGETS[link_digest(target)] = target
    return Entry("symlink", link_digest(target))


def tree(files: Files) -> Manifest:
    def entry(content: object) -> Entry:
        if isinstance(content, Entry):
            return content
        assert isinstance(content, bytes)
        return Entry("regular", raw_digest(content))

    return from_entries((path, entry(content)) for path, content in files.items())


def found(base: Files, final: Files) -> list[tuple[str, bytes]]:
    hazards = check_candidate(tree(base), tree(final), lambda _, entry: TARGETS[entry.digest])
    return [(hazard.code, hazard.path) for hazard in hazards]


def adds(path: bytes, content: object = b"new", base: Files | None = None) -> list[str]:
    base = base or {b"README.md": b"r", b"src/a.py": b"a", b"src/deep/b.py": b"b"}
    return [code for code, _ in found(base, {**base, path: content})]


@pytest.mark.parametrize(
    "path",
    [
        b".git/config",
        b".GIT/config",
        b".Git",
        b"src/.git/hooks/x",
        b".git./x",
        b".git /x",
        b".git . ./x",
        b".git::$INDEX_ALLOCATION/x",
        b".git:x",
        b"git~1/x",
        b".g\xe2\x80\x8cit/x",
        b"a\\.git\\x",
    ],
)
def test_git_own_names(path: bytes) -> None:
    """Git's folder is refused in every disguise, at any depth."""
    assert adds(path) == ["reserved-path"]


@pytest.mark.parametrize("path", [b".github/x", b".gitignore", b"git", b"x.git", b"CON", b"aux.txt", b"C:x", b"\xe5l"])
def test_names_that_are_fine(path: bytes) -> None:
    """Similar, foreign and odd names are not git's own and are left to the person's policy."""
    assert adds(path) == []


def test_writing_where_the_base_is_odd() -> None:
    """The base's own odd file blocks nothing while it is unchanged; changing it does, deleting it does not."""
    base = {b"git~1/x": b"old", b"a": b"a"}
    assert found(base, {**base, b"a": b"changed"}) == []
    assert found(base, {**base, b"git~1/x": b"changed"}) == [("reserved-path", b"git~1/x")]
    assert found(base, {b"a": b"a"}) == []


def test_long_names() -> None:
    """A name or path that no disk can hold is refused; the longest ones that can be held are not."""
    assert adds(b"x" * 255) == []
    assert adds(b"x" * 256) == ["bad-path"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (b"readme.md", "case-collision"),
        (b"SRC/new.py", "case-collision"),
        (b"src/A.py", "case-collision"),
        (b"src/Deep/x", "case-collision"),
    ],
)
def test_collisions_with_the_base(path: bytes, code: str) -> None:
    """A new name is compared with everything beside it, also with unchanged names, at every level."""
    assert adds(path) == [code]


@pytest.mark.parametrize(
    ("one", "other", "code"),
    [
        ("caf\u00e9", "cafe\u0301", "unicode-collision"),
        ("stra\u00dfe", "STRASSE", "case-collision"),
        ("\ufb01x", "fix", "case-collision"),
        ("\u212a", "k", "case-collision"),
        ("\u017f", "s", "case-collision"),
    ],
)
def test_collisions_of_letters(one: str, other: str, code: str) -> None:
    """Full case folding and normalisation decide, not lower-casing; both new names are named when both are new."""
    assert adds(other.encode(), base={one.encode(): b"x"}) == [code]
    assert found({}, {one.encode(): b"x", other.encode(): b"y"}) == [
        (code, path) for path in sorted([one.encode(), other.encode()])
    ]


def test_what_is_no_collision() -> None:
    """The dotless i is another letter in every locale, and bytes that are no text only equal themselves."""
    assert adds("\u0131.txt".encode(), base={b"i.txt": b"x"}) == []
    assert adds(b"\xff", base={b"\xfe": b"x"}) == []
    assert adds(b"src2/A.py") == []


def test_a_rename_of_case_only() -> None:
    """Renaming Foo to foo is fine, since the old name leaves; keeping both is not."""
    assert found({b"Foo.txt": b"x", b"D/a": b"x"}, {b"foo.txt": b"x", b"d/a": b"x"}) == []
    assert found({b"Foo.txt": b"x"}, {b"Foo.txt": b"x", b"foo.txt": b"x"}) == [("case-collision", b"foo.txt")]


def test_collisions_of_the_base() -> None:
    """A base that has collisions stays usable: other changes, changes to the colliding files, new files beside them."""
    base = {b"xt_DSCP.h": b"1", b"xt_dscp.h": b"2", b"a": b"a"}
    assert found(base, {**base, b"a": b"b", b"new": b"n", b"xt_dscp.h": b"3"}) == []
    assert found(base, {**base, b"xt_Dscp.h": b"3"}) == [("case-collision", b"xt_Dscp.h")] * 2


@pytest.mark.parametrize(
    ("path", "target", "codes"),
    [
        (b"l", b"README.md", []),
        (b"l", b"./src//deep/../a.py", []),
        (b"l", b"missing/thing", []),
        (b"l", b".", []),
        (b"src/l", b"..", []),
        (b"src/deep/l", b"../../README.md", []),
        (b"l", b"/etc/passwd", ["symlink-escape"]),
        (b"l", b"..", ["symlink-escape"]),
        (b"l", b"../x", ["symlink-escape"]),
        (b"src/l", b"../../x", ["symlink-escape"]),
        (b"l", b"src/../../x/README.md", ["symlink-escape"]),
        (b"l", b".git", ["symlink-control"]),
        (b"l", b".git/hooks", ["symlink-control"]),
        (b"src/l", b"../.GIT/config", ["symlink-control"]),
        (b"l", b"src/git~1", ["symlink-control"]),
        (b".gitmodules", b"README.md", ["symlink-control"]),
        (b"src/.gitattributes", b"a.py", ["symlink-control"]),
        (b"l", b"l", ["symlink-loop"]),
        (b"l", b"l/x", ["symlink-loop"]),
        (b"l", b"", ["symlink-bad-target"]),
        (b"l", b"x" * 4096, ["symlink-bad-target"]),
    ],
)
def test_links(path: bytes, target: bytes, codes: list[str]) -> None:
    """Where a new link leads is worked out from the names in the final tree."""
    assert adds(path, link(target)) == codes


def test_links_through_links() -> None:
    """Two links that are harmless alone are followed together, new ones and those of the base."""
    base: Files = {b"a/b/c/f": b"f", b"up": link(b"a/b")}
    assert adds(b"l", link(b"up/../../x"), base) == []
    assert adds(b"l", link(b"up/../../../x"), base) == ["symlink-escape"]
    assert adds(b"l", link(b"up/c/f"), base) == []
    base = {b"out": link(b"/tmp"), b"f": b"f"}
    assert adds(b"l", link(b"out/x"), base) == ["symlink-escape"]
    assert found(base, {**base, b"f": b"g"}) == []
    one: Files = {b"x": link(b"y"), b"y": link(b"x")}
    assert found({}, one) == [("symlink-loop", b"x"), ("symlink-loop", b"y")]


def test_old_links_that_a_new_one_turns() -> None:
    """An unchanged link that leaves the tree only since another link changed is the candidate's doing."""
    base: Files = {b"a/b/f": b"f", b"d/e/f": b"f", b"l": link(b"d/e/../../f")}
    final = {b"a/b/f": b"f", b"d/e": link(b"../a"), b"l": link(b"d/e/../../f")}
    assert found(base, final) == [("symlink-escape", b"l")]
    assert found(base, {**base, b"m": link(b"a")}) == []


def test_a_directory_becomes_a_link() -> None:
    """Replacing a folder by a link inside the tree is fine, and each of its files is a removal."""
    assert found({b"d/f": b"f", b"src/x": b"x"}, {b"d": link(b"src"), b"src/x": b"x"}) == []


def test_submodules() -> None:
    """Adding, moving, removing or filling a submodule is refused; leaving it alone is not."""
    base: Files = {b"sub": LINK, b"a": b"a"}
    assert found(base, {**base, b"a": b"b"}) == []
    assert found(base, {b"a": b"a"}) == [("gitlink-change", b"sub")]
    assert found(base, {**base, b"sub": OTHER_LINK}) == [("gitlink-change", b"sub")]
    assert found(base, {b"a": b"a", b"sub/f": b"f"}) == [("gitlink-change", b"sub")]
    assert found({b"a": b"a"}, base) == [("gitlink-change", b"sub")]


def test_targets_are_checked() -> None:
    """A target that is not the digested one is an error, not a verdict."""
    with pytest.raises(VerificationError) as caught:
        check_candidate(tree({}), tree({b"l": link(b"a")}), lambda *_: b"b")
    assert caught.value.code == "unverified.link-target"


def test_the_details_name_the_places() -> None:
    """A person reads which names collide and where a link leads."""
    base = tree({b"src/A": b"x"})
    final = base.with_changes({b"SRC/y": Entry("regular", raw_digest(b"")), b"l": link(b"/etc")})
    details = [hazard.detail for hazard in check_candidate(base, final, lambda _, entry: TARGETS[entry.digest])]
    assert details == ["'SRC' would stand beside 'src'.", "The link 'l' to '/etc' leads out of the tree."]


NAMES = st.sampled_from([b"a", b"A", b"d/x", b"D/x", b"d/y", b".git", b"git~1/z"])


@given(st.dictionaries(NAMES, st.binary(max_size=1), max_size=4))
def test_an_unchanged_tree_has_no_hazard(files: dict[bytes, bytes]) -> None:
    """Whatever a base holds, leaving it alone or emptying it introduces nothing."""
    assert found(files, files) == []
    assert found(files, {}) == []


def test_base_limitations() -> None:
    """Everything odd in a base is counted by kind with its first example; an ordinary base has none."""
    base = tree(
        {
            b"README": b"1",
            b"readme": b"2",
            b"d/caf\xc3\xa9": b"3",
            b"d/cafe\xcc\x81": b"4",
            b"e/Readme": b"5",
            b"e/readme": b"6",
            b"git~1/x": b"7",
            b"bokm\xe5l": b"8",
            b"sub": LINK,
            b"s/sub": LINK,
        }
    )
    assert base_limitations(base) == [
        BaseLimitation("base-case-collision", 2, b"e/readme"),
        BaseLimitation("base-name-not-utf8", 1, b"bokm\xe5l"),
        BaseLimitation("base-reserved-path", 1, b"git~1"),
        BaseLimitation("base-submodule", 2, b"s/sub"),
        BaseLimitation("base-unicode-collision", 1, b"d/caf\xc3\xa9"),
    ]
    assert base_limitations(tree({b"a": b"a", b"d/e/f": b"f"})) == []
