"""The JSON that agents wrap answers in: paths, numbers and the last object of a log."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commandprovider.envelopes import (
    MAX_NUMBER,
    count_of,
    json_object,
    json_text,
    json_value,
    last_object,
    microunits_of,
    scalar_text,
    values_at,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=12,
)


def test_an_object_is_taken_and_nothing_else() -> None:
    """White space around it is free; a list, a half, other text, not UTF-8 and a nest without end are none."""
    assert json_object(b' {"a": 1}\n') == {"a": 1}
    for raw in (b"", b"[1]", b'{"a": ', b'{"a": 1} x', b'{"a": "\xff"}', b'{"a": NaN}', b"[" * 100_000):
        assert json_object(raw) is None


def test_a_number_without_meaning_in_json_is_refused() -> None:
    """NaN and the infinities are no JSON."""
    for text in ("NaN", "Infinity", "-Infinity"):
        with pytest.raises(ValueError, match="no JSON number"):
            json_value(text)


@given(JSON)
def test_a_value_written_again_is_the_same_value(value: object) -> None:
    """Reading and writing are inverse where there is no fraction."""
    assert json_value(json_text(value)) == value


def test_a_fraction_is_written_as_a_number() -> None:
    """A decimal does not become text."""
    assert json_text(json_value('{"a":0.5}')) == '{"a":0.5}'


def test_paths_find_what_is_there_and_nothing_else() -> None:
    """A star stands for every member of an object or list; a missing member finds nothing."""
    value = {"a": {"x": {"n": 1}, "y": {"n": 2}}, "b": [{"n": 3}, 4], "c": None}
    assert list(values_at(value, "a.*.n")) == [1, 2]
    assert list(values_at(value, "b.*.n")) == [3]
    assert list(values_at(value, "b.*")) == [{"n": 3}, 4]
    assert list(values_at(value, "c")) == [None]
    for path in ("d", "c.x", "a.x.n.z", "c.*", "b.n"):
        assert list(values_at(value, path)) == []


def test_scalars_are_written_as_json_without_quotes() -> None:
    """Text is itself; an object is no scalar."""
    given_and_text = [(None, "null"), (True, "true"), (False, "false"), ("a", "a"), (7, "7"), (Decimal("0.5"), "0.5")]
    for value, text in given_and_text:
        assert scalar_text(value) == text
    assert scalar_text({}) is None
    assert scalar_text([]) is None


def test_counts_are_numbers_or_digits_with_commas() -> None:
    """Everything else is not reported rather than guessed."""
    assert [count_of(value) for value in (0, 7, MAX_NUMBER, "12", "1,234,567")] == [0, 7, MAX_NUMBER, 12, 1_234_567]
    for value in (True, -1, MAX_NUMBER + 1, "1.2k", "12,34", "", None, Decimal("1.5"), "9" * 40):
        assert count_of(value) is None


def test_money_is_rounded_up_to_a_millionth() -> None:
    """A price keeps what it was written with; what cannot be a price is not one."""
    assert microunits_of(json_value("0.00018399999999999997")) == 184
    assert microunits_of(json_value("1.5")) == 1_500_000
    assert microunits_of(2) == 2_000_000
    assert microunits_of(0) == 0
    for value in (True, "1.5", None, -1, json_value("-0.1"), json_value("1e400"), json_value("1e99999")):
        assert microunits_of(value) is None


def test_the_last_object_with_a_member_is_found_in_a_log() -> None:
    """An object that begins a line and has one of the members; what stands after it does not matter."""
    wanted = json.dumps({"error": {"message": "m"}}, indent=2)
    earlier = 'x {"error": {"message": "inside"}}\n{"error": {"message": "first"}}\n'
    log = f'{earlier}{wanted}\n{{"other": 1}}\n{{ broken\n'
    assert last_object(log, ("error.message",)) == {"error": {"message": "m"}}
    assert last_object(log, ("nothing",)) is None
    assert last_object('say {"error": {"message": "x"}}', ("error.message",)) is None
    assert last_object("", ("error.message",)) is None
