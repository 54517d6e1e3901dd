"""JUnit XML from an untrusted place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.formats import cases
from evaluator.formats import junit as module
from evaluator.formats.cases import TestCase, is_worse
from evaluator.formats.junit import parse_junit
from savant.contracts.errors import RefusedInput


def refusal(raw: bytes) -> str:
    with pytest.raises(RefusedInput) as caught:
        parse_junit(raw)
    assert caught.value.code == "refused.junit"
    return caught.value.message


def suite(inner: str) -> bytes:
    return f"<testsuites><testsuite>{inner}</testsuite></testsuites>".encode()


def test_each_outcome_is_read() -> None:
    """Passed, failed, errored and skipped cases, with the words of the failure, in order."""
    raw = suite(
        '<properties><property name="a"/></properties>'
        '<testcase classname="m" name="ok"><system-out>words</system-out></testcase>'
        '<testcase classname="m" name="bad"><failure message="no">tr<b>a</b>ce</failure></testcase>'
        '<testcase classname="m" name="broken"><error>boom</error></testcase>'
        '<testcase classname="m" name="later"><skipped message="why"/></testcase>'
        '<testcase status="notrun"/>'
    )
    assert parse_junit(raw) == (
        TestCase("m", "ok", "passed", "", ""),
        TestCase("m", "bad", "failed", "no", "trace"),
        TestCase("m", "broken", "failed", "", "boom"),
        TestCase("m", "later", "skipped", "why", ""),
        TestCase("", "", "skipped", "", ""),
    )


def test_a_single_suite_is_a_root() -> None:
    """Both roots in use are read, and a report of nothing is a report of nothing."""
    assert parse_junit(b'<testsuite><testcase name="a"/></testsuite>')[0].name == "a"
    assert parse_junit(b"<testsuites/>") == ()


@pytest.mark.parametrize("words", ["<failure>x</failure><skipped/>", "<skipped/><error>x</error>"])
def test_the_worst_outcome_in_a_case_wins(words: str) -> None:
    """A case that both failed and was skipped has failed, in either order, with the words of the failure."""
    (case,) = parse_junit(suite(f'<testcase name="a">{words}</testcase>'))
    assert (case.status, case.text) == ("failed", "x")


def test_an_outcome_in_another_place_is_none() -> None:
    """Only a direct child of a case is its outcome."""
    (case,) = parse_junit(suite('<testcase name="a"><properties><failure/></properties></testcase><failure/>'))
    assert case.status == "passed"


def test_a_repeated_case_keeps_its_worst() -> None:
    """Told several times, a case keeps its worst outcome, wherever in the report that is."""
    good, bad = '<testcase name="a"/>', '<testcase name="a"><failure message="m"/></testcase>'
    for order in (good + bad + good, bad + good, good + bad):
        assert parse_junit(suite(order)) == (TestCase("", "a", "failed", "m", ""),)
    assert len(parse_junit(suite(good + good.replace('"a"', '"b"')))) == 2


DOCTYPES = [
    b"<!DOCTYPE testsuite><testsuite/>",
    b'<!DOCTYPE a [<!ENTITY x "y">]><testsuite>&x;</testsuite>',
    b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><testsuite/>',
    '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE a [<!ENTITY x "y">]><testsuite>&x;</testsuite>'.encode("utf-16"),
]


@pytest.mark.parametrize("raw", DOCTYPES)
def test_a_document_type_is_refused(raw: bytes) -> None:
    """A document type is refused before any entity of it is read, in any encoding."""
    assert "document type" in refusal(raw)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "not XML"),
        (b"OK", "not XML"),
        (b"\xff\xfe\x00", "not XML"),
        (b"<testsuite>", "not XML"),
        (b"<testsuite/><testsuite/>", "not XML"),
        (b"<testsuite>&x;</testsuite>", "not XML"),
        (b'<?xml version="1.0" encoding="no-such"?><testsuite/>', "not XML"),
        (b"<html/>", "root is 'html'"),
        (b'<testcase name="a"/>', "root is 'testcase'"),
        (suite("<testcase><testcase/></testcase>"), "inside a test case"),
        (b"<testsuite>" + b"<a>" * 60 + b"</a>" * 60 + b"</testsuite>", "nested too deeply"),
    ],
)
def test_what_is_no_report_is_refused(raw: bytes, words: str) -> None:
    """Anything but a plain, bounded report is refused in words."""
    assert words in refusal(raw)


def test_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Size and number of cases are limited, names and texts are cut; at the limit all is read."""
    two = suite('<testcase name="a"/><testcase name="b"/>')
    monkeypatch.setattr(module, "MAX_CASES", 2)
    monkeypatch.setattr(cases, "MAX_REPORT_BYTES", len(two))
    monkeypatch.setattr(module, "MAX_NAME", 1)
    monkeypatch.setattr(module, "MAX_TEXT", 1)
    assert len(parse_junit(two)) == 2
    assert "bytes" in refusal(two + b" ")
    monkeypatch.setattr(cases, "MAX_REPORT_BYTES", 1_000)
    assert "more than 2 cases" in refusal(suite('<testcase name="a"/><testcase name="b"/><testcase name="c"/>'))
    (case,) = parse_junit(suite('<testcase classname="xy" name="xy"><failure message="xy">xy</failure></testcase>'))
    assert case == TestCase("x", "x", "failed", "x", "y")


def test_how_to_end_has_an_order() -> None:
    """Unavailable is worse than failed, than skipped, than passed."""
    order = ["passed", "skipped", "failed", "unavailable"]
    for i, one in enumerate(order):
        for j, other in enumerate(order):
            assert is_worse(one, other) == (i > j)  # type: ignore[arg-type]


@given(st.binary(max_size=200) | st.text(max_size=200).map(suite))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """No input raises anything but the refusal."""
    try:
        cases = parse_junit(raw)
    except RefusedInput as error:
        code = error.code
    else:
        code = "refused.junit" if all(isinstance(case, TestCase) for case in cases) else "odd"
    assert code == "refused.junit"
