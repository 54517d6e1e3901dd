"""Findings: what is normalised, what is kept, where it points, and what it costs."""

from __future__ import annotations

import re
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.findings import (
    MAX_EXCERPT_CHARACTERS,
    MAX_MESSAGE_CHARACTERS,
    MAX_NAME_CHARACTERS,
    bound,
    check_name,
    located_findings,
    make_finding,
    normalise,
    normalise_name,
    size_of,
)
from savant.contracts.scalars import Name
from tests.evaluator.kit import finding_of

SURFACE = "/scratch/check-x1/surface"
PATHS = frozenset({"src/a.py", "tests/test_a.py"})


@pytest.mark.parametrize(
    ("raw", "normal"),
    [
        (f"{SURFACE}/src/a.py:3: E1", "src/a.py:3: E1"),
        (f"in {SURFACE} itself", "in <surface> itself"),
        ("<A object at 0x7f00aabbccdd>", "<A object at 0x…>"),
        ("0xff is a value", "0xff is a value"),
        ("at 2026-01-02T03:04:05.678Z and 2026-01-02 03:04", "at <time> and <time>"),
        ("at 13:14:15,123 today", "at <time> today"),
        ("1 failed in 0.12s", "1 failed in <duration>"),
        ("built in 12 ms after 3 s", "built in <duration> after <duration>"),
        ("assert '3s' == '5s'", "assert '3s' == '5s'"),
        ("/tmp/pytest-of-me/pytest-3/x.txt: gone", "<tmp>: gone"),
        ("/scratch/home/tmp/pytest-of-me/pytest-0", "tmp/pytest-of-<user>/pytest-0"),
        ("pid 123 and pid=7", "pid <n> and pid <n>"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("a\r\nb\rc\x00d\te", "a\nb?c?d\te"),
    ],
)
def test_what_differs_between_two_runs_is_taken_out(raw: str, normal: str) -> None:
    """Places, addresses, times, durations, colours and control characters go; values that a test is about stay."""
    assert normalise(raw, (SURFACE, "/scratch/home")) == normal


def test_the_longest_surface_is_taken_first() -> None:
    """A surface inside another one leaves no part of itself behind."""
    assert normalise("/a/b/c.py", ("/a", "/a/b")) == "c.py"


def test_the_times_in_a_name_stay() -> None:
    """Two tests that differ in a duration or time of day alone keep two names; places and addresses go."""
    raw = f"test_wait[0.5s-12:00:00-0x7f00aabbccdd-{SURFACE}/x]"
    assert normalise_name(raw, (SURFACE,)) == "test_wait[0.5s-12:00:00-0x…-x]"


@given(st.text(max_size=200))
def test_normalising_twice_is_normalising_once(text: str) -> None:
    """What was normalised is left as it is, and is printable but for line breaks and tabs."""
    once = normalise(text, ())
    assert all(c in "\n\t" or c.isprintable() for c in once)
    assert normalise(once, ()) == once


def test_a_plain_name_is_kept() -> None:
    """A name in the alphabet of names is the evaluator, a colon and its parts; empty parts are left out."""
    assert check_name("pytest", "tests.test_a", "test_b") == "pytest:tests.test_a::test_b"
    assert check_name("pytest", "", "test_b") == "pytest:test_b"


@pytest.mark.parametrize(("one", "two"), [("t[a b]", "t[a_b]"), ("x" * 300, "x" * 301), ("ä", "ö")])
def test_names_that_are_cleaned_or_cut_stay_apart(one: str, two: str) -> None:
    """Cleaning or cutting never makes one name of two."""
    assert check_name("e", one) != check_name("e", two)


@given(st.text(max_size=400), st.text(max_size=400))
def test_every_name_is_a_name(classname: str, name: str) -> None:
    """Whatever a report says, the check's name fits a document and is the same each time."""
    made = check_name("e", classname, name)
    assert msgspec.convert(made, Name, strict=True) == check_name("e", classname, name)
    assert len(made) <= MAX_NAME_CHARACTERS


def test_the_place_is_the_last_one_in_the_candidate() -> None:
    """Of all places in the output, the last that is a path of the candidate is the finding's."""
    output = "src/a.py:3: in f\n./tests/test_a.py:7: AssertionError\nlib/other.py:9: no path of it\nsrc/a.py:0: no line"
    finding = make_finding("e", "failed", "boom", output, paths=PATHS)
    assert (finding.path, finding.line) == ("tests/test_a.py", 7)
    absolute = make_finding("e", "failed", "boom", "/usr/src/a.py:3: in f", paths=PATHS)
    assert (absolute.path, absolute.line) == (None, None)


def test_a_finding_is_bounded() -> None:
    """A message keeps its beginning, an excerpt its end; a message of nothing is the status."""
    finding = make_finding("e", "failed", "m" * 1_000, "x" * 5_000 + "END", paths=PATHS)
    assert len(finding.message) == MAX_MESSAGE_CHARACTERS
    assert len(finding.excerpt) == MAX_EXCERPT_CHARACTERS + 1
    assert finding.excerpt.startswith("…")
    assert finding.excerpt.endswith("END")
    assert make_finding("e", "unavailable", " ", "", paths=PATHS).message == "unavailable"


def test_a_linter_line_is_a_finding() -> None:
    """Lines that begin with a place in the candidate are findings, up to the limit; others are not."""
    output = "src/a.py:3:5: E501 too long\n  ./src/a.py:4: W1\nsrc/none.py:1: no\n"
    output += "words src/a.py:9: no\ntests/test_a.py:5: last\n"
    found = located_findings("ruff", output, paths=PATHS, limit=10)
    assert [(f.path, f.line, f.message) for f in found] == [
        ("src/a.py", 3, "src/a.py:3:5: E501 too long"),
        ("src/a.py", 4, "./src/a.py:4: W1"),
        ("tests/test_a.py", 5, "tests/test_a.py:5: last"),
    ]
    assert located_findings("ruff", output, paths=PATHS, limit=2) == found[:2]


@pytest.mark.parametrize("hostile", ["a" * 400_000, "a/" * 200_000, "a." * 200_000, "1" * 400_000, "\x1b[" * 200_000])
def test_hostile_output_takes_time_in_proportion(hostile: str) -> None:
    """Output made to be slow to read is read in a time that is linear in it: seconds would be minutes otherwise."""
    started = time.process_time()
    text = normalise(hostile, (SURFACE,))
    make_finding("e", "failed", text, text, paths=PATHS)
    located_findings("e", text, paths=PATHS, limit=3)
    assert time.process_time() - started < 20


@given(
    st.lists(
        st.builds(
            lambda n, m: finding_of("e", excerpt="x" * n, message="m" * m), st.integers(0, 90), st.integers(0, 9)
        ),
        max_size=6,
    ),
    st.integers(0, 5),
    st.integers(0, 900),
)
def test_what_is_kept_fits(findings: list[object], count: int, size: int) -> None:
    """What is kept is within both limits, in order, and unchanged but for excerpts that had to go."""
    kept = bound(findings, max_findings=count, max_bytes=size)  # type: ignore[arg-type]
    assert len(kept) <= count
    assert sum(map(size_of, kept)) <= size
    whole = iter(findings)
    assert all(any(one in (other, finding_of("e", message=other.message)) for other in whole) for one in kept)  # type: ignore[attr-defined]


def test_a_finding_that_does_not_fit_loses_its_excerpt_first() -> None:
    """The excerpt goes before the finding does; one that fits not even so is left out, and later ones are tried."""
    long, short = finding_of("e", message="m" * 300), finding_of("e", excerpt="x" * 200)
    bare = finding_of("e")
    assert bound([long, short], max_findings=5, max_bytes=size_of(bare)) == (bare,)
    assert bound([short], max_findings=5, max_bytes=size_of(short)) == (short,)


def test_the_normalised_forms_are_stable_words() -> None:
    """The words that stand for what was taken out are not taken out themselves."""
    words = "<surface> <tmp> <time> <duration> pid <n> 0x… pytest-of-<user>"
    assert normalise(words, (SURFACE,)) == words
    assert re.search(r"\d", words.replace("0x…", "")) is None
