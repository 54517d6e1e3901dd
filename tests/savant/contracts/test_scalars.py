"""The scalar types accept what they name and nothing else."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from savant.contracts import canonical, scalars
from savant.contracts.errors import InternalError

HEX = "0123456789abcdef" * 4

ACCEPTED: list[tuple[Any, Any]] = [
    (scalars.Digest, f"blake3:{HEX}"),
    (scalars.Sha256, HEX),
    (scalars.GitId, f"sha1:{HEX[:40]}"),
    (scalars.GitId, f"sha256:{HEX}"),
    (scalars.Name, "a"),
    (scalars.Name, "src/Thing:1.0_x@y+z-w"),
    (scalars.Name, "a" * 200),
    (scalars.Code, "refused.path-traversal"),
    (scalars.Code, "refused"),
    (scalars.Text, ""),
    (scalars.Text, "x" * 65_536),
    (scalars.NonEmptyText, "\n"),
    (scalars.PathText, "a/b"),
    (scalars.PatternText, "**"),
    (scalars.Count, 0),
    (scalars.Count, 2**53 - 1),
    (scalars.Positive, 1),
    (scalars.Milliseconds, 0),
    (scalars.Bytes, 0),
    (scalars.Date, "2026-02-28"),
]

REFUSED: list[tuple[Any, Any]] = [
    (scalars.Digest, f"blake3:{HEX}\n"),
    (scalars.Digest, f"blake3:{HEX.upper()}"),
    (scalars.Digest, f"sha256:{HEX}"),
    (scalars.Digest, f"blake3:{HEX}0"),
    (scalars.Digest, HEX),
    (scalars.Sha256, HEX[1:]),
    (scalars.Sha256, HEX + "\n"),
    (scalars.GitId, f"sha1:{HEX}"),
    (scalars.GitId, f"sha256:{HEX[:40]}"),
    (scalars.GitId, f"sha1:{HEX[:40]}\n"),
    (scalars.Name, ""),
    (scalars.Name, "-a"),
    (scalars.Name, "a b"),
    (scalars.Name, "a\n"),
    (scalars.Name, "a" * 201),
    (scalars.Name, "\u00e9"),
    (scalars.Code, "Refused.x"),
    (scalars.Code, "refused."),
    (scalars.Code, "refused..x"),
    (scalars.Code, "refused.x\n"),
    (scalars.Text, "x" * 65_537),
    (scalars.NonEmptyText, ""),
    (scalars.PathText, ""),
    (scalars.PatternText, ""),
    (scalars.Count, -1),
    (scalars.Count, 2**53),
    (scalars.Count, True),
    (scalars.Count, "1"),
    (scalars.Positive, 0),
    (scalars.Milliseconds, 1.5),
    (scalars.Date, "2026-13-01"),
    (scalars.Date, "2026-00-10"),
    (scalars.Date, "2026-01-32"),
    (scalars.Date, "26-01-01"),
    (scalars.Date, "2026-01-01\n"),
    (scalars.Date, "\u0662\u0660\u0662\u0666-01-01"),
]


@pytest.mark.parametrize(("type_", "value"), ACCEPTED)
def test_a_value_in_range_is_accepted(type_: Any, value: object) -> None:
    """What the type names passes unchanged."""
    assert msgspec.convert(value, type_, strict=True) == value


@pytest.mark.parametrize(("type_", "value"), REFUSED)
def test_a_value_out_of_range_is_refused(type_: Any, value: object) -> None:
    """Other lengths, cases, signs, digits and a trailing newline do not pass."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(value, type_, strict=True)


@given(st.lists(st.text(max_size=5) | st.integers(0, 200), max_size=20))
def test_a_set_is_sorted_by_canonical_bytes_without_repeats(items: list[str | int]) -> None:
    """The written order depends on the elements alone."""
    value = scalars.as_set(items)
    keys = [canonical.encode(item) for item in value]
    assert all(a < b for a, b in itertools.pairwise(keys))
    assert set(keys) == {canonical.encode(item) for item in items}


@given(st.permutations(["b", "a", "10", "9", "\u00e9"]))
def test_the_order_of_arrival_does_not_show_in_a_set(items: list[str]) -> None:
    """Any permutation gives the same set."""
    assert scalars.as_set(items) == ("10", "9", "a", "b", "\u00e9")


def test_an_element_without_canonical_bytes_is_our_bug() -> None:
    """A set cannot hold what a document cannot hold."""
    with pytest.raises(InternalError) as refused:
        scalars.as_set(["\ud800"])
    assert refused.value.code == "internal.not-canonical"
    assert scalars.as_set(["\U0001f600"]) == ("\U0001f600",)
