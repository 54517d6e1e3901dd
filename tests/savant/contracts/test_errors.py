"""Errors carry a code of their family, a sentence, what is untouched, and what helps."""

from __future__ import annotations

import pytest

from savant.contracts import errors
from savant.contracts.errors import PortError, RefusedInput, SavantError


def test_an_error_says_its_sentence_and_its_code() -> None:
    """What a person reads and what a program branches on are both there."""
    error = RefusedInput("refused.link", "A link leaves the tree.", untouched="Nothing was written.", fix="savant diff")
    assert str(error) == "A link leaves the tree. [refused.link]"
    assert (error.code, error.message) == ("refused.link", "A link leaves the tree.")
    assert (error.untouched, error.fix) == ("Nothing was written.", "savant diff")


@pytest.mark.parametrize("code", ["usage.x", "refused", "refused.", "Refused.x", "refused.x\n", "", "refused..x"])
def test_a_code_of_another_family_or_form_is_marked_and_not_trusted(code: str) -> None:
    """An error is still raised, under a code that says that it was misnamed."""
    assert RefusedInput(code, "Something.").code == "refused.misnamed"


@pytest.mark.parametrize(
    "family", [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, SavantError)]
)
def test_every_family_keeps_a_code_of_its_own(family: type[SavantError]) -> None:
    """The code that belongs to a class passes unchanged."""
    code = f"{family.family}.some-thing.v2"
    assert family(code, "Something.").code == code


def test_a_port_error_says_whether_trying_again_may_help() -> None:
    """Not retryable is the default: repeating an effect is never assumed to be safe."""
    assert PortError("port.git", "git ended.").retryable is False
    error = PortError("port.git", "git ended.", retryable=True, untouched="The store.", fix="savant doctor")
    assert (error.retryable, error.untouched, error.fix) == (True, "The store.", "savant doctor")
