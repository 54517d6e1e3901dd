"""CODEOWNERS as the code hosts read it, and refused by its line where they differ or would pass over it."""

from __future__ import annotations

import pytest

from savant.contracts.errors import RefusedInput
from savant.identity.owners import MAX_OWNERS_BYTES, MAX_WILDCARDS, OWNERS_PATHS, read_owners

PLACE = b".github/CODEOWNERS"


def of(text: str, path: str) -> tuple[str, ...]:
    return read_owners(text.encode(), PLACE).of(path.encode())


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*", ["a", "a/b.py"], []),
        ("*.js", ["a.js", "x/y.js"], ["a.jsx"]),
        ("/build/logs/", ["build/logs/a", "build/logs/b/c"], ["x/build/logs/a", "build/logs"]),
        ("docs/*", ["docs/a.md"], ["docs/x/a.md"]),
        ("apps/", ["apps/a", "x/apps/b/c"], ["apps"]),
        ("/scripts", ["scripts", "scripts/a"], ["x/scripts"]),
        ("**/logs", ["logs/a", "x/y/logs/b"], ["alogs/a"]),
        ("a\\ b.txt", ["a b.txt"], ["a", "b.txt"]),
        ("/src/**/gen.py", ["src/gen.py", "src/a/b/gen.py"], ["gen.py"]),
    ],
)
def test_patterns_match_as_on_the_hosts(pattern: str, inside: list[str], outside: list[str]) -> None:
    """The examples of their documentation."""
    owners = read_owners(f"{pattern} @ada\n".encode(), PLACE)
    assert all(owners.of(path.encode()) == ("@ada",) for path in inside)
    assert all(owners.of(path.encode()) == () for path in outside)


def test_the_last_line_that_matches_decides() -> None:
    """Also when it names nobody; its owners are sorted and named once."""
    text = "* @zoe @ada @ada\n/docs/ grace@example.org\n/docs/free/\n"
    assert of(text, "a.py") == ("@ada", "@zoe")
    assert of(text, "docs/a.md") == ("grace@example.org",)
    assert of(text, "docs/free/a.md") == ()


def test_comments_name_nobody() -> None:
    """A whole line, or the end of one, whatever stands in it."""
    assert of("# @eve\n\n*.py @ada # ask @eve, or eve@example.org\n", "a.py") == ("@ada",)


def test_a_path_that_is_no_text_has_owners_too() -> None:
    """Names are bytes."""
    assert read_owners(b"* @ada\n", PLACE).of(b"caf\xe9.py") == ("@ada",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("*.py ada\n", "names 'ada'"),
        ("[Backend] @ada\n", "section"),
        ("^[Backend]\n", "section"),
        ("!a.py @ada\n", "negation"),
        ("a[bc].py @ada\n", "range"),
        ("/ @ada\n", "matches nothing"),
        ("/" + "**/a/" * (MAX_WILDCARDS + 1) + " @ada\n", "wildcards"),
        ("a\x0bb @ada\n", "is no line"),
        ("a" * 5_000 + " @ada\n", "is no line"),
        ("a\0b @ada\n", "is no line"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_line(text: str, problem: str) -> None:
    """Never passed over: that would be an owner who is not asked. The line before it is fine."""
    assert of("* @ada\n", "a") == ("@ada",)
    with pytest.raises(RefusedInput) as error:
        read_owners(b"* @ada\n" + text.encode(), PLACE)
    assert error.value.code == "refused.codeowners"
    assert ".github/CODEOWNERS at the base: line 2" in str(error.value)
    assert problem in str(error.value)
    assert error.value.fix


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"#" * (MAX_OWNERS_BYTES + 1)])
def test_a_file_that_is_no_text_or_too_large_is_refused(raw: bytes) -> None:
    """As a whole."""
    with pytest.raises(RefusedInput) as error:
        read_owners(raw, PLACE)
    assert "the file" in str(error.value)


def test_a_hostile_pattern_costs_little() -> None:
    """As many stars as are allowed against a name that almost matches."""
    owners = read_owners(("*a" * MAX_WILDCARDS + "b @ada\n").encode(), PLACE)
    assert owners.of(b"a" * 100) == ()


def test_the_places_are_those_of_the_hosts() -> None:
    """In the order in which they look."""
    assert OWNERS_PATHS == (b".github/CODEOWNERS", b"CODEOWNERS", b"docs/CODEOWNERS")
