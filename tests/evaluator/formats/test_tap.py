"""TAP streams as tools write them, and as nobody should."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.formats import cases
from evaluator.formats import tap as module
from evaluator.formats.tap import parse_tap
from savant.contracts.errors import RefusedInput


def read(text: str) -> list[tuple[str, str, str]]:
    return [(case.classname, case.name, case.status) for case in parse_tap(text.encode())]


def test_points_in_order_with_or_without_numbers_and_words() -> None:
    """The plan may come first or last."""
    assert read("TAP version 13\n1..3\nok 1 - adds\nnot ok 2 subtracts\nok\n") == [
        ("", "adds", "passed"),
        ("", "subtracts", "failed"),
        ("", "test 3", "passed"),
    ]
    assert read("ok 1 - last\n1..1\n") == [("", "last", "passed")]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("ok 1 - a # SKIP no disk", "skipped"),
        ("ok 1 - a # skip", "skipped"),
        ("not ok 1 - a # TODO later", "skipped"),
        ("ok 1 - a # TODO done already", "passed"),
        ("not ok 1 - a # SKIP", "skipped"),
        ("not ok 1 - a", "failed"),
    ],
)
def test_directives(line: str, status: str) -> None:
    """A skipped point and one that is expected to fail do not fail."""
    assert read(f"1..1\n{line}\n") == [("", "a", status)]


def test_the_words_after_a_failure_are_its_own() -> None:
    """A diagnostic block and comments explain the point above them; what follows a pass explains nothing."""
    text = "1..2\nok 1 - a\n# fine\nnot ok 2 - b\n  ---\n   \n  message: 'expected 1'\n  ...\n# at b.t line 3\n"
    first, second = parse_tap(text.encode())
    assert first.text == ""
    assert second.text == "message: 'expected 1'\nat b.t line 3"
    assert second.message == "expected 1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("# it broke", "it broke"),
        ("  ---\n  duration_ms: 1\n  error: |-\n    two\n    lines\n  ...", "two"),
        ("  ---\n  error: |-\n  ...", "error: |-"),
        ("  ---\n  at: 'b.t'\n  ...", "at: 'b.t'"),
    ],
)
def test_the_message_of_a_failure(words: str, message: str) -> None:
    """What a block calls the message or the error, however it is written; else the first thing that is said."""
    (case,) = parse_tap(f"1..1\nnot ok 1 - b\n{words}\n".encode())
    assert case.message == message


def test_what_stands_in_a_diagnostic_block_is_no_test_point() -> None:
    """It may look like a point, a plan or a bail out; only the end of its own block ends it."""
    block = "  ---\n\n  ok 7 - other\n  1..9\n  Bail out!\n    ...\n  ...\n"
    assert read(f"1..2\nnot ok 1 - a\n{block}ok 2 - b\n") == [("", "a", "failed"), ("", "b", "passed")]
    with pytest.raises(RefusedInput, match="block has no end"):
        parse_tap(b"1..1\nok 1 - a\n  ---\n  cut: off\n")


def test_words_are_kept_only_so_far() -> None:
    """A failure that is explained without end costs no more than its limit."""
    (case,) = parse_tap(b"1..1\nnot ok 1 - a\n" + b"# xx\n" * 100_000)
    assert len(case.text) == cases.MAX_TEXT


def test_words_before_a_subtest_that_nothing_closes_are_kept() -> None:
    """They belong to the point above them, not to the last one of the subtest."""
    text = "1..2\nnot ok 1 - a\n# why\n    1..1\n    not ok 1 - deep\n    # deeper\n1..2\nok 2 - b\n"
    with pytest.raises(RefusedInput, match="two plans"):
        parse_tap(text.encode())
    cases = parse_tap(text.replace("1..2\n", "", 1).encode())
    assert [(case.name, case.text) for case in cases] == [("a", "why"), ("deep", "deeper"), ("b", "")]


def test_a_subtest_carries_the_name_of_the_point_that_closes_it() -> None:
    """Two levels down the names are joined."""
    text = (
        "1..1\n# Subtest: math\n    # Subtest: adds\n        1..1\n        not ok 1 - two\n"
        "    not ok 1 - adds\n    1..1\nnot ok 1 - math\n"
    )
    assert read(text) == [
        ("math::adds", "two", "failed"),
        ("math", "adds", "failed"),
        ("", "math", "failed"),
    ]


def test_a_subtest_that_nothing_closes_is_told_all_the_same() -> None:
    """A failure in it is not lost."""
    assert ("", "deep", "failed") in read("1..1\nok 1 - top\n    not ok 1 - deep\n    1..1\n")


def test_no_point_is_no_case() -> None:
    """A plan of none is a whole stream."""
    assert read("1..0 # SKIP nothing to do\n") == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no plan"),
        ("ok 1 - a\n", "no plan"),
        ("1..2\nok 1 - a\n", "2 tests were planned and 1 told"),
        ("1..1\nok 1 - a\nok 2 - b\n", "1 tests were planned"),
        ("1..1\n1..1\nok 1\n", "two plans"),
        ("1..2\nok 1 - a\nBail out! disk full\n", "disk full"),
        ("TAP version 99\n1..1\nok 1\n", "version"),
        ("1..2\nok 1\nok 1\n", "comes at place 2"),
        ("1..1\n    ok 1 - cut off\nok 1 - top\n", "no plan"),
        ("1..1\n" + " " * 40 + "ok 1\n", "nested too deeply"),
    ],
)
def test_what_says_nothing_about_the_tree_is_refused(text: str, why: str) -> None:
    """A stream that was cut, bailed out, or does not fit its plan."""
    with pytest.raises(RefusedInput, match=why) as caught:
        parse_tap(text.encode())
    assert caught.value.code == "refused.tap"


def test_the_number_of_points_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit all is read."""
    monkeypatch.setattr(module, "MAX_CASES", 2)
    assert len(read("1..2\nok\nok\n")) == 2
    with pytest.raises(RefusedInput, match="more than 2"):
        read("1..3\nok\nok\nok\n")


@given(st.lists(st.sampled_from(["ok", "not ok 1 - a", "1..1", "    ok 1", "    1..1", "# x", "ok # skip"])))
def test_nothing_but_a_refusal_comes_of_anything_else(lines: list[str]) -> None:
    """Any lines are read or refused, and a failure is never lost in a stream that is read."""
    lost, code = False, "refused.tap"
    try:
        found = parse_tap("\n".join(lines).encode())
        lost = any(case.status == "failed" for case in found) is not ("not ok 1 - a" in lines)
    except RefusedInput as error:
        code = error.code
    assert (lost, code) == (False, "refused.tap")
