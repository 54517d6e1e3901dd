"""Excuses: by name, for a while, and only for checks of the evaluator that they name."""

from __future__ import annotations

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.documents import Excuse
from evaluator.excuses import ended, excuse_of, holds, is_like, may_end
from savant.contracts.scalars import as_set
from tests.evaluator.kit import config_of, policy_of


def excuse(id_: str = "slow-disk", *checks: str, expires: str | None = None, evaluator: str = "unit") -> Excuse:
    return Excuse(id=id_, evaluator=evaluator, checks=as_set(checks or ("*",)), reason="Slow.", expires=expires)


@pytest.mark.parametrize(
    ("as_of", "expires", "good"),
    [
        (None, None, True),
        ("2031-01-01", None, True),
        ("2030-06-01", "2030-06-01", True),
        ("2030-05-31", "2030-06-01", True),
        ("2030-06-02", "2030-06-01", False),
        (None, "2030-06-01", False),
    ],
)
def test_an_excuse_holds_up_to_and_with_its_last_day(as_of: str | None, expires: str | None, good: bool) -> None:
    """One that ends holds on no day that nobody named."""
    assert holds(excuse(expires=expires), as_of) is good
    assert may_end((excuse(expires=expires),)) is (expires is not None)


def test_an_excuse_is_found_by_evaluator_and_name() -> None:
    """The evaluator's name before a check's may be left out; another evaluator's check of that name is not excused."""
    policy = policy_of(config_of("unit"), excuses=(excuse("a", "tests.io::*"),))
    assert excuse_of(policy, "unit", "unit:tests.io::test_write") == "a"
    assert excuse_of(policy_of(excuses=(excuse("a", "unit:tests.io::*"),)), "unit", "unit:tests.io::x") == "a"
    assert excuse_of(policy, "unit", "unit:tests.net::test_write") is None
    assert excuse_of(policy, "lint", "lint:tests.io::test_write") is None


def test_an_excuse_that_has_ended_excuses_nothing_and_is_told() -> None:
    """The same excuse a day earlier does."""
    over = policy_of(excuses=(excuse(expires="2030-06-01"), excuse("b", "x")), as_of="2030-06-02")
    good = policy_of(excuses=(excuse(expires="2030-06-01"), excuse("b", "x")), as_of="2030-06-01")
    assert (excuse_of(over, "unit", "unit:y"), excuse_of(good, "unit", "unit:y")) == (None, "slow-disk")
    assert [item.id for item in ended(over, "unit")] == ["slow-disk"]
    assert list(ended(over, "lint")) == list(ended(good, "unit")) == []


@pytest.mark.parametrize(
    ("name", "pattern", "same"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("", "*", True),
        ("abc", "*", True),
        ("abc", "a*c", True),
        ("ac", "a*c", True),
        ("a", "a*a", False),
        ("abcbd", "*b*d", True),
        ("abab", "*ab*ab", True),
        ("ab", "*ab*ab", False),
        ("a[1]", "a[1]", True),
        ("a1", "a[1]", False),
        ("a.b", "a?b", False),
        ("axbyc", "a*x*y*c", True),
        ("aybxc", "a*x*y*c", False),
    ],
)
def test_only_a_star_is_special(name: str, pattern: str, same: bool) -> None:
    """Every other character is itself, brackets and question marks too."""
    assert is_like(name, pattern) is same


@given(st.text("ab*", max_size=6), st.text("ab", max_size=8))
def test_a_star_is_what_it_is_in_a_shell(pattern: str, name: str) -> None:
    """Compared with the pattern language of the standard library, which has more than a star."""
    assert is_like(name, pattern) is bool(re.match(fnmatch.translate(pattern), name))
