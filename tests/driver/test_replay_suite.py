"""A held-out suite in a replay: it was committed to, and whoever ran it has shown it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec import structs

from driver.history import RunHistory
from evaluator.documents import Suite
from tests.driver.runkit import RUN, Recorded, record_run, replace_body, replay, without


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """An admitted run whose suite has run."""
    root = tmp_path_factory.mktemp("held")
    (root / "suite").mkdir()
    (root / "suite" / "two.txt").write_text("a = 2\n")
    held = ("--held-out", str(root / "suite"), "--held-out-check", "/usr/bin/diff {suite}/two.txt a.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAVANT_HOME", str(root / "home"))
        yield record_run(root, run=(*RUN, *held))


def evaluation(recorded: Recorded, history: RunHistory) -> tuple[str, str]:
    step = next(step for step in replay(recorded, history).steps if step.name == "evaluation")
    return step.status, step.detail


def test_a_suite_that_was_committed_to_and_shown_is_replayed(recorded: Recorded) -> None:
    """The positive control."""
    assert replay(recorded, recorded.history()).outcome == "replayed"
    assert len(recorded.history().all(Suite)) == 1


def test_a_suite_that_was_moved_or_not_shown_is_found(recorded: Recorded) -> None:
    """Another one than the policy names, and none where one has run."""
    history = recorded.history()
    moved = replace_body(history, Suite, lambda suite: structs.replace(suite, files=()))
    status, detail = evaluation(recorded, moved)
    assert (status, "nobody committed to" in detail) == ("fail", True)
    status, detail = evaluation(recorded, without(history, Suite))
    assert (status, "the suite that has run" in detail) == ("fail", True)
