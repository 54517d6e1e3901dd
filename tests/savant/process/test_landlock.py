"""Landlock rulesets as values."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from savant.process import landlock


@pytest.mark.parametrize(
    ("abi", "handled", "scoped"),
    [
        (0, 0, 0),
        (1, 0x1FFF, 0),
        (2, 0x3FFF, 0),
        (3, 0x7FFF, 0),
        (4, 0x7FFF, 0),
        (5, 0xFFFF, 0),
        (6, 0xFFFF, 3),
        (9, 0xFFFF, 3),
    ],
)
def test_each_abi_handles_what_it_knows(abi: int, handled: int, scoped: int) -> None:
    """The rights and scopes are those of the kernel's documentation for the ABI, and of the last known one after it."""
    assert (landlock.handled(abi), landlock.scoped(abi)) == (handled, scoped)


@given(st.integers(1, 9))
def test_no_rule_grants_what_is_not_handled(abi: int) -> None:
    """The kernel refuses a rule with rights that the ruleset does not handle."""
    made = landlock.ruleset(
        abi, [("/usr", landlock.READ), ("/work", landlock.WRITE), ("/dev/null", landlock.USE_DEVICE)]
    )
    handled = made["handled"]
    assert isinstance(handled, int)
    assert isinstance(made["rules"], list)
    for _, rights in made["rules"]:
        assert rights & ~handled == 0
    assert landlock.READ & ~landlock.WRITE == 0


def test_reading_is_not_writing() -> None:
    """The rights to read change nothing."""
    changing = landlock.handled(9) & ~(landlock.EXECUTE | landlock.READ_FILE | landlock.READ_DIR)
    assert landlock.READ & changing == 0
    assert landlock.WRITE & landlock.TRUNCATE


def test_the_kernel_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is a number and does not change; a system that is not Linux has none."""
    landlock.find_abi.cache_clear()
    assert landlock.find_abi() >= 0
    asked = landlock.find_abi.cache_info().misses
    landlock.find_abi()
    assert landlock.find_abi.cache_info().misses == asked
    landlock.find_abi.cache_clear()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert landlock.find_abi() == 0
    landlock.find_abi.cache_clear()
