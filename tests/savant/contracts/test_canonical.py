"""Canonical bytes: one value, one spelling."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from savant.contracts import canonical
from savant.contracts.canonical import MAX_INTEGER
from savant.contracts.document import Part
from savant.contracts.errors import InternalError, RefusedInput

NAMES = st.text(st.characters(max_codepoint=127), max_size=6)
SCALARS = st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=20
)


class Pair(Part, frozen=True, kw_only=True):
    left: Any
    right: Any


@given(VALUES)
def test_decoding_the_canonical_bytes_gives_the_value_back(value: object) -> None:
    """Every value of the profile survives its own encoding."""
    assert canonical.decode(canonical.encode(value), object) == value


@given(VALUES)
def test_the_order_in_which_members_were_added_does_not_show(value: object) -> None:
    """A value built in reverse member order has the same bytes."""

    def reverse(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: reverse(item[key]) for key in reversed(list(item))}
        return [reverse(i) for i in item] if isinstance(item, list) else item

    assert canonical.encode(reverse(value)) == canonical.encode(value)


@given(VALUES, st.sampled_from([{"indent": 1}, {"separators": (", ", ": ")}, {"separators": (",", ": ")}]))
def test_another_spelling_of_the_same_value_is_refused(value: object, style: dict[str, Any]) -> None:
    """Where another JSON writer spells a value differently, only the canonical spelling is accepted."""
    other = json.dumps(value, ensure_ascii=False, sort_keys=True, **style).encode()
    if other == canonical.encode(value):
        assert canonical.decode(other, object) == value
        return
    with pytest.raises(RefusedInput) as refused:
        canonical.decode(other, object)
    assert refused.value.code == "refused.not-canonical"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"a":1,"a":1}', "refused.not-canonical"),
        ('{"b":1,"a":2}', "refused.not-canonical"),
        ('"\\u0041"', "refused.not-canonical"),
        ('"\\/"', "refused.not-canonical"),
        ("-0", "refused.not-canonical"),
        ("7.0", "refused.not-canonical"),
        ("0.5", "refused.not-canonical"),
        ("9007199254740992", "refused.not-canonical"),
        ('{"\u00e9":1}', "refused.not-canonical"),
        (" 1", "refused.not-canonical"),
        ("1\n", "refused.not-canonical"),
        ("\ufeff1", "refused.malformed"),
        ("1 2", "refused.malformed"),
        ("01", "refused.malformed"),
        ("NaN", "refused.malformed"),
        ('"\\ud800 and more"', "refused.malformed"),
        ('"\\udc00 and more"', "refused.malformed"),
        ("", "refused.malformed"),
        ("[" * 100_000, "refused.malformed"),
    ],
)
def test_bytes_that_are_not_the_one_spelling_are_refused(text: str, code: str) -> None:
    """Duplicate members, other orders, escapes, numbers, marks and trailing data do not pass."""
    with pytest.raises(RefusedInput) as refused:
        canonical.decode(text.encode(), object)
    assert refused.value.code == code


def test_invalid_utf8_is_refused() -> None:
    """Bytes that are no text are malformed, inside a string as well as outside."""
    for raw in (b'"\xff"', b'"\xed\xa0\x80"', b"\xff"):
        with pytest.raises(RefusedInput) as refused:
            canonical.decode(raw, object)
        assert refused.value.code == "refused.malformed"


def test_the_same_values_in_their_one_spelling_are_accepted() -> None:
    """The positive control of the refusals above."""
    for raw in (b'{"a":2,"b":1}', b'"A"', b'"/"', b"0", b"7", b"9007199254740991", '"\u00e9"'.encode(), b'"\\u001f"'):
        assert canonical.encode(canonical.decode(raw, object)) == raw


@pytest.mark.parametrize(
    "value",
    [
        1.0,
        float("nan"),
        MAX_INTEGER + 1,
        -MAX_INTEGER - 1,
        2**80,
        {1: "a"},
        {"\u00e9": 1},
        "\ud800",
        ["x", {"a": "\udfff"}],
        b"bytes",
        {1, 2},
        object(),
        Pair(left=object(), right=1),
        Pair(left=0.5, right=1),
    ],
)
def test_a_value_outside_the_profile_has_no_canonical_bytes(value: object) -> None:
    """Floats, large integers, foreign names and objects are our bug, never silently written."""
    with pytest.raises(InternalError) as refused:
        canonical.encode(value)
    assert refused.value.code == "internal.not-canonical"


def test_a_value_that_contains_itself_has_no_canonical_bytes() -> None:
    """Endless nesting ends in an error with a code."""
    value: list[object] = []
    value.append(value)
    with pytest.raises(InternalError) as refused:
        canonical.encode(value)
    assert refused.value.code == "internal.not-canonical"


def test_the_largest_integers_are_inside() -> None:
    """The bounds are inclusive."""
    assert canonical.encode([MAX_INTEGER, -MAX_INTEGER]) == b"[9007199254740991,-9007199254740991]"


def test_a_struct_is_written_like_the_object_it_stands_for() -> None:
    """Struct and builtins agree, on the checked path and on the fast one."""
    value = Pair(left=("x", None), right={"b": 1, "a": True})
    expected = b'{"left":["x",null],"right":{"a":true,"b":1}}'
    assert canonical.encode(value) == expected
    assert canonical.encode_struct(value) == expected
    assert canonical.encode(msgspec.to_builtins(value)) == expected


@pytest.mark.parametrize("value", ["\ud800", object()])
def test_the_fast_path_refuses_what_json_cannot_hold(value: object) -> None:
    """A lone surrogate or a foreign object in a struct is an error with a code, not one of the encoder's."""
    with pytest.raises(InternalError) as refused:
        canonical.encode_struct(Pair(left=value, right=1))
    assert refused.value.code == "internal.not-canonical"


def test_strict_decoding_coerces_nothing() -> None:
    """A number is not a string and an unknown member is not dropped."""
    for raw in (b'{"left":1,"right":2,"x":3}', b'{"left":1}', b"[1,2]"):
        with pytest.raises(RefusedInput) as refused:
            canonical.decode_any_spelling(raw, Pair)
        assert refused.value.code == "refused.malformed"
    assert canonical.decode_any_spelling(b' {"right": 2, "left": 1}', Pair) == Pair(left=1, right=2)
