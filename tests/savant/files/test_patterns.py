"""Patterns: what they match, what is no pattern, and that a hostile one costs little."""

from __future__ import annotations

import re
import time
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from savant.contracts.errors import RefusedInput
from savant.files.patterns import Pattern, PatternSet, literal, parse


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("src/app.py", ["src/app.py"], ["x/src/app.py", "src/app.py/x", "src/App.py"]),
        ("/Makefile", ["Makefile"], ["a/Makefile"]),
        ("Makefile", ["Makefile", "a/Makefile", "a/b/Makefile"], ["xMakefile", "Makefile/a", "makefile"]),
        ("*.lock", ["a.lock", ".lock", "x/y.lock"], ["a.lock/x", "a.locks"]),
        ("*", ["a", "a/b", ".x"], []),
        ("**", ["a", "a/b/c"], []),
        ("/*", ["a"], ["a/b"]),
        ("src/*", ["src/a"], ["src/a/b", "src"]),
        ("docs/", ["docs/a", "docs/a/b"], ["docs", "x/docs/a", "docsx/a"]),
        ("docs/**", ["docs/a", "docs/a/b"], ["docs", "x/docs/a"]),
        ("docs/**/", ["docs/a", "docs/a/b"], ["docs"]),
        ("**/build/", ["build/a", "x/build/a", "x/y/build/a/b"], ["build", "x/build", "xbuild/a"]),
        ("**/test/*.py", ["test/a.py", "x/y/test/b.py"], ["test/x/a.py", "xtest/a.py"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "ab", "a/b/c"]),
        ("a/**/**/b", ["a/b", "a/x/b"], ["a"]),
        ("**/a/**/b/**", ["a/b/c", "x/a/y/b/z/w"], ["a/b", "b/a/c"]),
        ("**/x/y/**/z", ["x/x/y/z", "q/x/y/a/z"], ["x/a/y/z"]),
        ("v?.txt", ["v1.txt", "v\u00e9.txt", "a/v2.txt"], ["v.txt", "v12.txt"]),
        ("[a-c0]x", ["ax", "cx", "0x"], ["dx", "-x", "x"]),
        ("[!a-c]x", ["dx", "\u00e9x"], ["ax"]),
        ("[]a]x", ["]x", "ax"], ["bx"]),
        ("[a-]x", ["ax", "-x"], ["bx"]),
        ("[-a]x", ["ax", "-x"], ["bx"]),
        ("x[+-9]y", ["x.y", "x1y"], ["x/y"]),
        ("x[!b]y", ["xay"], ["x/y", "xby"]),
        ("[\u00e0-\u00ef]", ["\u00e9"], ["\u00f0"]),
        ("[[]x", ["[x"], ["x"]),
        ("100%25.txt", ["100%.txt"], ["100%25.txt"]),
        ("%2A", ["*", "a/*"], ["b"]),
        ("%21x", ["!x"], ["x"]),
        ("a!b", ["a!b"], ["ab"]),
        ("a%5Cb", ["a\\b"], ["a/b"]),
        ("a.b", ["a.b"], ["axb"]),
        ("a\nb", ["a\nb"], ["a"]),
        ("a*b*c", ["abc", "axbyc", "abbcc", "abcbc"], ["acb", "ab/c"]),
        ("*a*", ["a", "xay"], ["b"]),
        ("a*a", ["aa", "axa"], ["a"]),
    ],
)
def test_meaning(pattern: str, yes: list[str], no: list[str]) -> None:
    """The table of the module's docstring, row by row."""
    parsed = parse(pattern)
    assert [path for path in yes if not parsed.matches(path.encode())] == []
    assert [path for path in no if parsed.matches(path.encode())] == []


def test_bytes_that_are_no_text() -> None:
    """A byte outside UTF-8 is one character, and can be written as its escape."""
    assert parse("bokm%E5l").matches(b"bokm\xe5l")
    assert parse("bokm?l").matches(b"bokm\xe5l")
    assert parse("bokm*").matches(b"bokm\xe5l")
    assert parse("caf%C3%A9").matches("caf\u00e9".encode())
    assert not parse("bokm%E5l").matches("bokm\u00e5l".encode())
    assert not parse("caf\u00e9").matches("cafe\u0301".encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "//a",
        "a//b",
        "./a",
        "a/..",
        "../a",
        "a/./b",
        "!a",
        "a\\b",
        "%",
        "%e5",
        "%2",
        "%2F",
        "a%00",
        "[",
        "[a",
        "[]",
        "[!]",
        "[^a]",
        "[[:alpha:]]",
        "[c-a]",
        "[%41]",
        "a[/]b",
        "a**",
        "**a/b",
        "***",
        "a/x**/b",
        "\ud800",
        "a" * 4097,
    ],
)
def test_what_is_no_pattern_is_refused(text: str) -> None:
    """Nothing ambiguous is guessed."""
    with pytest.raises(RefusedInput) as caught:
        parse(text)
    assert caught.value.code == "refused.bad-pattern"
    assert len(caught.value.message) < 400


def test_a_pattern_is_its_text() -> None:
    """Patterns compare, hash and print as their text."""
    assert parse("a/b") == parse("a/b")
    assert parse("a/b") != parse("/a/b")
    assert len({parse("a/b"), parse("a/b")}) == 1
    assert str(parse("a/b")) == "a/b"
    assert repr(parse("a/b")) == "Pattern(text='a/b')"


def test_a_set_matches_if_any_does() -> None:
    """The first that matches is named; the empty set matches nothing."""
    both = PatternSet.parse(["*.py", "src/**"])
    assert both.first(b"src/a.py") == parse("*.py")
    assert both.first(b"src/a.c") == parse("src/**")
    assert both.first(b"x.c") is None
    assert both.matches(b"x.py")
    assert not both.matches(b"x.c")
    assert [str(pattern) for pattern in both] == ["*.py", "src/**"]
    assert len(both) == 2
    assert not PatternSet(()).matches(b"a")
    with pytest.raises(RefusedInput):
        PatternSet.parse(["a", ""])


names = st.binary(min_size=1, max_size=6).filter(lambda c: b"/" not in c and b"\0" not in c and c not in {b".", b".."})
raw_paths = st.lists(names, min_size=1, max_size=4).map(b"/".join)


@given(raw_paths, raw_paths)
def test_a_literal_matches_its_path_only(raw: bytes, other: bytes) -> None:
    """The literal pattern of any path matches that path and no other."""
    pattern = parse(literal(raw))
    assert pattern.matches(raw)
    assert pattern.matches(other) == (raw == other)


@given(st.text(max_size=20))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    """No text makes the parser fail in another way."""
    try:
        pattern = parse(text)
    except RefusedInput:
        return
    assert isinstance(pattern, Pattern)
    assert isinstance(pattern.matches(b"a/b"), bool)


def naive(pattern: str, path: str) -> bool:
    """The language by its plain definition, with unlimited backtracking; small inputs only."""

    @lru_cache(None)
    def within(glob: str, name: str) -> bool:
        if not glob:
            return not name
        if glob[0] == "*":
            return within(glob[1:], name) or bool(name and within(glob, name[1:]))
        return bool(name) and glob[0] in ("?", name[0]) and within(glob[1:], name[1:])

    @lru_cache(None)
    def across(globs: tuple[str, ...], parts: tuple[str, ...]) -> bool:
        if not globs:
            return not parts
        if globs[0] == "**":
            if len(globs) == 1:
                return bool(parts)
            return across(globs[1:], parts) or bool(parts and across(globs, parts[1:]))
        return bool(parts) and within(globs[0], parts[0]) and across(globs[1:], parts[1:])

    body = pattern.removeprefix("/")
    globs = [glob for glob in body.split("/") if glob]
    if "/" not in pattern:
        globs.insert(0, "**")
    if body.endswith("/"):
        globs.append("**")
    # Adjacent ** at the end must leave something for each other: they are one.
    merged = [glob for at, glob in enumerate(globs) if not (glob == "**" and globs[at + 1 : at + 2] == ["**"])]
    return across(tuple(merged), tuple(path.split("/")))


glob_components = st.one_of(
    st.just("**"), st.text("ab*?", min_size=1, max_size=5).map(lambda glob: re.sub(r"\*+", "*", glob))
)
globs = st.builds(
    lambda slash, parts, below: slash + "/".join(parts) + below,
    st.sampled_from(["", "/"]),
    st.lists(glob_components, min_size=1, max_size=6),
    st.sampled_from(["", "/"]),
)
small_paths = st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=6).map("/".join)


@settings(max_examples=600)
@given(globs, small_paths)
def test_it_agrees_with_the_plain_definition(pattern: str, path: str) -> None:
    """Committing to the first match of a star loses no match and adds none."""
    assert parse(pattern).matches(path.encode()) == naive(pattern, path)


hostile = st.builds(
    lambda unit, times, tail: (unit * times)[:2000].rstrip("/*") + tail,
    st.sampled_from(["*a", "*a*b", "**/a/", "**/*a/", "*/", "**/*/", "*a/", "?*", "*?", "[ab]*", "**/a*a/**/", "*aa"]),
    st.integers(1, 1000),
    st.sampled_from(["", "/**", "b", "/*b", "*b"]),
)
long_paths = st.builds(
    lambda unit, times: (unit * times)[:4096].strip("/"),
    st.sampled_from(["a", "a/", "ab/", "aa/aab/", "a" * 254 + "/", "ab" * 120 + "/"]),
    st.integers(1, 4096),
)


@settings(max_examples=150, deadline=None)
@given(hostile, long_paths)
def test_a_hostile_pattern_costs_little(pattern: str, path: str) -> None:
    """No pattern and path within the limits take more than a moment; backtracking would take years."""
    try:
        parsed = parse(pattern)
    except RefusedInput:
        return
    started = time.process_time()
    parsed.matches(path.encode())
    assert time.process_time() - started < 5
