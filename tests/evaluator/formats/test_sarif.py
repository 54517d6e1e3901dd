"""SARIF logs as tools write them, and as nobody should."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.formats import TestCase, cases
from evaluator.formats import sarif as module
from evaluator.formats.sarif import parse_sarif
from savant.contracts.errors import RefusedInput


def result(rule: str = "E1", uri: str = "src/a.py", line: int = 3, **more: Any) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}
    return {"ruleId": rule, "message": {"text": "bad name"}, "locations": [{"physicalLocation": place}], **more}


def log(*results: dict[str, Any], **run: Any) -> bytes:
    whole = {"tool": {"driver": {"name": "lint"}}, "results": list(results), **run}
    return json.dumps({"version": "2.1.0", "$schema": "any", "runs": [whole]}).encode()


def test_a_result_is_a_failed_case_named_without_its_line() -> None:
    """Rule, path and words make the name; the place is in the text."""
    (low,) = parse_sarif(log(result(line=3)))
    (high,) = parse_sarif(log(result(line=30)))
    assert (low.classname, low.status, low.message) == ("E1", "failed", "bad name")
    assert low.name == high.name
    assert low.name.startswith("src/a.py@")
    assert low.text == "src/a.py:3: bad name"
    (other,) = parse_sarif(log(result(message={"text": "worse name"})))
    assert other.name != low.name


def test_numbers_in_words_are_no_part_of_the_name() -> None:
    """They are lines, columns and measures, which move; the words with them are told."""
    (low,) = parse_sarif(log(result(message={"text": "x is defined at line 3"})))
    (high,) = parse_sarif(log(result(message={"text": "x is defined at line 30"})))
    assert low.name == high.name
    assert (low.message, high.message) == ("x is defined at line 3", "x is defined at line 30")


def test_names_are_cleaned_before_they_are_made() -> None:
    """Two copies of one tree in two folders give one name, where path and words have the folder in them."""

    def read(place: str) -> TestCase:
        found = result(uri=f"file://{place}/src/a.py", message={"text": f"see {place}/b.py"})
        return parse_sarif(log(found), lambda text: text.replace(f"{place}/", ""))[0]

    assert read("/tmp/one").name == read("/tmp/other").name
    assert read("/tmp/one").name.startswith("src/a.py@")


def test_a_message_may_be_kept_elsewhere() -> None:
    """Then its name and what belongs into it are its words."""
    (case,) = parse_sarif(log(result(message={"id": "default", "arguments": ["x", "y"]})))
    assert case.message == "default x y"


def test_the_rules_of_an_extension() -> None:
    """A rule is looked for in the component that is named, and believed only under its own name."""
    note = {"id": "N", "defaultConfiguration": {"level": "note"}}
    tool = {"driver": {"name": "lint", "rules": [note]}, "extensions": [{"name": "pack", "rules": [{"id": "E"}, note]}]}

    def count(**rule: Any) -> int:
        return len(parse_sarif(log({"message": {"text": "x"}, "rule": rule}, tool=tool)))

    assert count(id="E", index=0, toolComponent={"index": 0}) == 1
    assert count(id="N", index=1, toolComponent={"index": 0}) == 0
    assert count(id="N/1", index=0) == 0
    assert count(id="E", index=0) == 1
    assert count(id="E", index=0, toolComponent={"index": 9}) == 1


def test_a_fingerprint_wins_over_the_words() -> None:
    """Two words with one fingerprint are one result; two fingerprints are two."""
    one, two, three = (
        parse_sarif(log(result(message={"text": words}, partialFingerprints={"v1": mark})))[0].name
        for words, mark in (("a", "1"), ("b", "1"), ("a", "2"))
    )
    assert one == two
    assert one != three


def test_a_run_that_found_nothing_has_no_case() -> None:
    """That is a result: the tool looked."""
    assert parse_sarif(log()) == ()
    assert parse_sarif(b"\xef\xbb\xbf" + log()) == ()


@pytest.mark.parametrize(
    ("more", "fails"),
    [
        ({}, True),
        ({"level": "error"}, True),
        ({"level": "warning"}, True),
        ({"level": "note"}, False),
        ({"level": "none"}, False),
        ({"kind": "pass"}, False),
        ({"kind": "informational"}, False),
        ({"baselineState": "absent"}, False),
        ({"baselineState": "unchanged"}, True),
        ({"suppressions": [{"kind": "inSource"}]}, False),
        ({"suppressions": [{"kind": "external", "status": "accepted"}]}, False),
        ({"suppressions": [{"kind": "external", "status": "underReview"}]}, True),
        ({"suppressions": []}, True),
    ],
)
def test_what_fails(more: dict[str, Any], fails: bool) -> None:
    """Errors and warnings that nobody suppressed fail; without a level it is a warning."""
    assert bool(parse_sarif(log(result(**more)))) is fails


def test_the_level_of_the_rule_holds_where_a_result_has_none() -> None:
    """A rule is found by its index or its id, and gives its name where only the index is told."""
    rules = [{"id": "N1", "defaultConfiguration": {"level": "note"}}, {"id": "W1", "defaultConfiguration": None}]
    tool = {"driver": {"name": "lint", "rules": rules}}
    assert parse_sarif(log(result("N1"), tool=tool)) == ()
    assert parse_sarif(log(result("N1", level="error"), tool=tool))
    bare = {"message": {"text": "x"}, "ruleIndex": 1}
    (case,) = parse_sarif(log(bare, tool=tool))
    assert (case.classname, case.text) == ("W1", "x")
    by_reference = {"message": {"markdown": "*x*"}, "rule": {"index": 0}}
    assert parse_sarif(log(by_reference, tool=tool)) == ()
    (nameless,) = parse_sarif(log({"message": {"text": "x"}, "ruleIndex": 9}, tool=tool))
    assert nameless.classname == "result"


def test_a_place_may_be_told_by_index_as_a_url_or_without_a_line() -> None:
    """What is percent-encoded is decoded; a location without a file is no place."""
    by_index = {"artifactLocation": {"index": 0}}
    artifacts = [{"location": {"uri": "src/with%20space.py"}}]
    (case,) = parse_sarif(log(result(locations=[{"physicalLocation": by_index}]), artifacts=artifacts))
    assert case.text == "src/with space.py: bad name"
    (url,) = parse_sarif(log(result(uri="file:///work/src/a.py")))
    assert url.text == "/work/src/a.py:3: bad name"
    choices: tuple[Any, ...] = ([], [{}], [{"physicalLocation": {}}], None)
    for locations in choices:
        (case,) = parse_sarif(log(result(locations=locations)))
        assert case.text == "bad name"


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "no SARIF log"),
        (b"[]", "no SARIF log"),
        (b"\xff", "no SARIF log"),
        (b'{"version": "2.1.0"}', "no SARIF log"),
        (b'{"version": "2.0.0", "runs": []}', "version"),
        (b'{"version": "2.1.0", "runs": []}', "no run"),
        (b"[" * 100_000, "no SARIF log"),
        (log(results=None), "did not look"),
        (log(invocations=[{"executionSuccessful": False}]), "run failed"),
        (
            log(
                invocations=[
                    {"toolExecutionNotifications": [{"level": "error", "message": {"text": "no such file"}}]},
                ]
            ),
            "no such file",
        ),
        (
            log(
                invocations=[
                    {"toolConfigurationNotifications": [{"level": "error", "message": {"text": "bad option"}}]},
                ]
            ),
            "bad option",
        ),
    ],
)
def test_what_says_nothing_about_the_tree_is_refused(raw: bytes, why: str) -> None:
    """No log, another version, no run, one that failed or did not look."""
    with pytest.raises(RefusedInput, match=why) as caught:
        parse_sarif(raw)
    assert caught.value.code == "refused.sarif"


def test_a_warning_of_the_tool_is_no_failure() -> None:
    """Only errors say that it could not look."""
    notes = [{"level": "warning", "message": {"text": "slow"}}]
    invocations = [{"executionSuccessful": True, "toolExecutionNotifications": notes}]
    assert len(parse_sarif(log(result(), invocations=invocations))) == 1


def test_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Size and number of results are limited; at the limit all is read."""
    two = log(result("A"), result("B"))
    monkeypatch.setattr(module, "MAX_CASES", 2)
    monkeypatch.setattr(cases, "MAX_REPORT_BYTES", len(two))
    assert len(parse_sarif(two)) == 2
    monkeypatch.setattr(module, "MAX_CASES", 1)
    with pytest.raises(RefusedInput, match="more than 1"):
        parse_sarif(two)
    monkeypatch.setattr(cases, "MAX_REPORT_BYTES", len(two) - 1)
    with pytest.raises(RefusedInput, match="bytes"):
        parse_sarif(two)


@given(
    st.binary(max_size=300)
    | st.recursive(st.none() | st.text(max_size=5), st.lists).map(
        lambda value: json.dumps({"version": "2.1.0", "runs": value}).encode()
    )
)
def test_nothing_but_a_refusal_comes_of_anything_else(raw: bytes) -> None:
    """Any bytes are read or refused."""
    code = "refused.sarif"
    try:
        parse_sarif(raw)
    except RefusedInput as error:
        code = error.code
    assert code == "refused.sarif"
