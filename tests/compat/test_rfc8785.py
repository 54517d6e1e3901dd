"""Inside our profile, canonical bytes are RFC 8785: an independent implementation writes the same ones."""

from __future__ import annotations

from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from savant.contracts import canonical
from savant.contracts.canonical import MAX_INTEGER

NAMES = st.text(st.characters(max_codepoint=127), max_size=6)
SCALARS = st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | st.text(max_size=10)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=25
)


@given(VALUES)
def test_both_write_the_same_bytes(value: Any) -> None:
    """For every value of the profile."""
    assert canonical.encode(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("plane", range(17))
def test_both_escape_the_same_characters(plane: int) -> None:
    """Every Unicode scalar value, one plane at a time."""
    text = "".join(chr(c) for c in range(plane << 16, (plane + 1) << 16) if not 0xD800 <= c <= 0xDFFF)
    assert canonical.encode(text) == rfc8785.dumps(text)


def test_both_order_members_alike() -> None:
    """Every ASCII character as the first and as the second one of a name."""
    names = {chr(a) + chr(b) for a in range(128) for b in range(0, 128, 7)} | {""}
    value: Any = dict.fromkeys(names, 0)
    assert canonical.encode(value) == rfc8785.dumps(value)
