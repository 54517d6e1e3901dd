"""The task's identity: the words, the scope, and what is not known about them."""

from __future__ import annotations

import pytest

from savant.contracts.errors import RefusedInput, UsageError
from savant.identity.task import MAX_OBJECTIVE_CHARACTERS, task_identity


def test_the_same_words_are_the_same_task() -> None:
    """White space around them and the order of the scope do not matter; everything else does."""
    task = task_identity("Fix it.", scope=["b", "a"], requester="Ada")
    assert task_identity("  Fix it.\n", scope=["a", "b", "a"], requester="Ada") == task
    others = [
        task_identity("Fix it!", scope=["a", "b"], requester="Ada"),
        task_identity("Fix it.", scope=["a"], requester="Ada"),
        task_identity("Fix it.", scope=["a", "b"]),
        task_identity("Fix it.", scope=["a", "b"], requester="Ada", task_class="import"),
    ]
    assert len({task.digest, *(other.digest for other in others)}) == 5


def test_an_unsigned_task_says_so() -> None:
    """The requester is a name that somebody typed."""
    task = task_identity("Fix it.", requester="Ada").document
    assert (task.signed, task.requester) == (False, "Ada")
    assert [limit.source for limit in task.limitations] == ["identity.task"]


@pytest.mark.parametrize("words", ["", " \n\t", "x" * (MAX_OBJECTIVE_CHARACTERS + 1), "caf\udce9"])
def test_an_objective_that_is_none_is_refused(words: str) -> None:
    """Empty, too long, or bytes of a command line that are no text."""
    assert task_identity("x" * MAX_OBJECTIVE_CHARACTERS).document.objective
    with pytest.raises(UsageError) as error:
        task_identity(words)
    assert error.value.code == "usage.objective"


def test_a_requester_that_is_no_text_is_refused() -> None:
    """Text in any script is one."""
    assert task_identity("Fix it.", requester="Åda").document.requester
    with pytest.raises(UsageError) as error:
        task_identity("Fix it.", requester="\udcff")
    assert error.value.code == "usage.requester"


@pytest.mark.parametrize("pattern", ["!x", "a//b", "", "\udcff/x"])
def test_a_scope_that_is_no_pattern_is_refused(pattern: str) -> None:
    """Before anything is sealed, whatever the pattern holds."""
    with pytest.raises(RefusedInput) as error:
        task_identity("Fix it.", scope=["src/**", pattern])
    assert error.value.code == "refused.bad-pattern"
