"""Paths: one text spelling, what is refused, what collides."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from savant.contracts.errors import RefusedInput
from savant.files.paths import check_path, collision_key, is_reserved, join, parents, to_raw, to_text

components = st.binary(min_size=1, max_size=12).filter(
    lambda c: b"/" not in c and b"\0" not in c and c not in {b".", b".."}
)
raw_paths = st.lists(components, min_size=1, max_size=5).map(b"/".join)


def code_of(call: object, *arguments: object) -> str:
    with pytest.raises(RefusedInput) as caught:
        call(*arguments)  # type: ignore[operator]
    return caught.value.code


@given(st.binary(max_size=60))
@example(b"\xc3\xa9\xc3")
@example(b"%41")
@example(b"\xed\xb3\x83")  # the bytes of a surrogate
def test_text_and_raw_are_inverse(raw: bytes) -> None:
    """Every byte string has a text that is printable on one line and leads back to it."""
    text = to_text(raw)
    assert to_raw(text) == raw
    assert "\\" not in text
    assert len(text.splitlines()) <= 1
    assert all(unicodedata.category(character) not in {"Cc", "Cs"} for character in text)


@given(st.text(max_size=30))
def test_no_second_spelling_is_accepted(text: str) -> None:
    """Whatever text is accepted is the text of its bytes."""
    try:
        raw = to_raw(text)
    except RefusedInput:
        return
    assert to_text(raw) == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"src/app.py", "src/app.py"),
        ("caf\u00e9".encode(), "caf\u00e9"),
        (b"bokm\xe5l", "bokm%E5l"),
        (b"a\nb\tc", "a%0Ab%09c"),
        (b"100%", "100%25"),
        (b"a\\b", "a%5Cb"),
        (b"\x7f", "%7F"),
        ("\u0085".encode(), "%C2%85"),
        ("\u202e".encode(), "%E2%80%AE"),
        ("\u2028".encode(), "%E2%80%A8"),
        (b'q"t', 'q"t'),
    ],
)
def test_spelling(raw: bytes, text: str) -> None:
    """Only what would mislead or break a line is escaped, in upper-case hexadecimal."""
    assert to_text(raw) == text
    assert to_raw(text) == raw


@pytest.mark.parametrize("text", ["%", "%4", "%zz", "%e5", "%41", "a\\b", "a\nb", "%C3%A9", "\ud800", "x%2"])
def test_wrong_spellings_are_refused(text: str) -> None:
    """A lone percent sign, lower case, a needless escape and a bare control character are all refused."""
    assert code_of(to_raw, text) == "refused.bad-path"


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "refused.bad-path"),
        (b"/", "refused.absolute-path"),
        (b"/abs/x", "refused.absolute-path"),
        (b"..", "refused.path-traversal"),
        (b"a/../../x", "refused.path-traversal"),
        (b"a/..", "refused.path-traversal"),
        (b"a//b", "refused.bad-path"),
        (b"./a", "refused.bad-path"),
        (b"a/.", "refused.bad-path"),
        (b"a/", "refused.bad-path"),
        (b"a\0b", "refused.bad-path"),
        (b"a" * 256, "refused.bad-path"),
        (b"/".join([b"a" * 200] * 21), "refused.bad-path"),
    ],
)
def test_unsafe_paths_are_refused(raw: bytes, code: str) -> None:
    """Each way out of the tree, and each path git could not hold, has its code."""
    assert code_of(check_path, raw) == code


@pytest.mark.parametrize(
    "raw",
    [b"a", b"...", b"..a", b"a..", b".hidden/x", b"dir\\f", b"a\nb", b"bokm\xe5l", b"C:x", b"CON", b"a" * 255, b"x."],
)
def test_odd_but_legal_paths_are_accepted(raw: bytes) -> None:
    """What only looks odd is a path."""
    check_path(raw)


@given(raw_paths)
def test_generated_paths_are_accepted(raw: bytes) -> None:
    """Any sequence of legal components is a path."""
    check_path(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b".git",
        b"a/.git/config",
        b".GIT/config",
        b".Git",
        b".git.",
        b".git ",
        b".git . .",
        b".git./x",
        b".git:x",
        b".git::$INDEX_ALLOCATION",
        b".git ::x",
        b"git~1",
        b"a/GIT~1/b",
        b"git~1.",
        b"git~2",
        ".g\u200cit".encode(),
        "\ufeff.git".encode(),
        ".\u200dGi\u202et/x".encode(),
        b"a\\.git\\config",
        unicodedata.normalize("NFD", ".git").encode(),
    ],
)
def test_control_paths_are_seen_in_disguise(raw: bytes) -> None:
    """Every spelling that some file system opens as the control folder is reserved."""
    assert is_reserved(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b".gitignore",
        b".gitmodules",
        b".gitattributes",
        b".github/workflows/ci.yml",
        b"git",
        b"a.git",
        b"x/repo.git/y",
        b"..git",
        b"git~x",
        b"git~",
        b"git~1x",
        b".gi\xfft",
        b" .git",
        ".g\u0131t".encode(),
    ],
)
def test_neighbours_of_the_control_path_are_free(raw: bytes) -> None:
    """Names that only resemble the control folder are ordinary."""
    assert not is_reserved(raw)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("README", "readme"),
        ("caf\u00e9", "cafe\u0301"),
        ("CAF\u00c9", "cafe\u0301"),
        ("stra\u00dfe", "STRASSE"),
        ("\ufb01le", "file"),
        ("\u212a", "k"),
        ("\u017f", "s"),
        ("a/B", "A/b"),
        ("\u1e9e", "ss"),
    ],
)
def test_collisions_share_a_key(one: str, other: str) -> None:
    """Case, full folds and normal forms collide."""
    assert collision_key(one.encode()) == collision_key(other.encode())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"a", b"b"),
        ("\u0131.txt".encode(), b"i.txt"),
        (b"a/b", b"a\\b"),
        (b"bokm\xe5l", b"bokm\xc5l"),
        (b"\xc3\xa9", b"\xe9"),
    ],
)
def test_different_names_have_different_keys(one: bytes, other: bytes) -> None:
    """Dotless i, other bytes and other separators stay apart."""
    assert collision_key(one) != collision_key(other)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=10))
def test_the_key_ignores_case_and_form(name: str) -> None:
    """A name collides with its upper case where folding says so, and with each of its normal forms."""
    key = collision_key(name.encode())
    for form in ("NFC", "NFD"):
        assert collision_key(unicodedata.normalize(form, name).encode()) == key
    assume(name.casefold() == name.upper().casefold())
    assert collision_key(name.upper().encode()) == key


@given(raw_paths)
def test_parents_and_join_agree(raw: bytes) -> None:
    """The parents are the proper prefixes, outermost first, and joining the components gives the path."""
    parts = raw.split(b"/")
    above = parents(raw)
    assert len(above) == len(parts) - 1
    assert all(raw.startswith(parent + b"/") for parent in above)
    assert list(above) == sorted(above, key=len)
    assert join(*parts) == raw


def test_join_checks_each_part() -> None:
    """A part cannot climb, restart at the root or be empty."""
    assert join(b"a/b", b"c") == b"a/b/c"
    assert code_of(join, b"a", b"..") == "refused.path-traversal"
    assert code_of(join, b"a", b"/b") == "refused.absolute-path"
    assert code_of(join, b"a", b"") == "refused.bad-path"
    assert code_of(join) == "refused.bad-path"


def test_a_long_path_is_shown_short() -> None:
    """A message holds at most a part of a hostile path."""
    with pytest.raises(RefusedInput) as caught:
        check_path(b"/" + b"a" * 100_000)
    assert len(caught.value.message) < 400
