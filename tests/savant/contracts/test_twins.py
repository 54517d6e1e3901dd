"""What the twins promise beyond their ports: they stand still, and they repeat."""

from __future__ import annotations

import subprocess
import sys

import pytest

from savant.contracts.errors import UsageError
from savant.contracts.twins import CountingEntropy, FixedClock


def test_a_fixed_clock_moves_only_when_told_to() -> None:
    """Both clocks advance together; a step of the wall clock leaves the monotonic one alone."""
    clock = FixedClock(now_ms=1_000, monotonic_ms=5)
    assert (clock.now_ms(), clock.monotonic_ms()) == (clock.now_ms(), clock.monotonic_ms()) == (1_000, 5)
    clock.advance(20)
    clock.advance(0)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1_020, 25)
    clock.set_wall(7)
    assert (clock.now_ms(), clock.monotonic_ms()) == (7, 25)


def test_a_fixed_clock_does_not_advance_backwards() -> None:
    """The monotonic promise holds for the twin too."""
    clock = FixedClock()
    with pytest.raises(UsageError) as refused:
        clock.advance(-1)
    assert refused.value.code == "usage.clock-backwards"
    assert clock.monotonic_ms() == 0


def test_counted_bytes_depend_on_the_seed_and_the_calls_alone() -> None:
    """Two twins with one seed agree, call by call; another seed gives other bytes."""
    a, b, other = CountingEntropy(b"x"), CountingEntropy(b"x"), CountingEntropy(b"y")
    drawn = [a.token(40), a.token(3), a.token(40)]
    assert [b.token(40), b.token(3), b.token(40)] == drawn
    assert drawn[0] != drawn[2]
    assert other.token(40) != drawn[0]


def test_counted_bytes_are_the_same_in_another_process() -> None:
    """No hash seed and no address takes part."""
    code = "from savant.contracts.twins import CountingEntropy as C; print(C(b's').token(33).hex())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == CountingEntropy(b"s").token(33).hex()
