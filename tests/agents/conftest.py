"""One model server for a whole session; each test has scripts of its own on it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.agents.modelserver import ModelServer
from tests.agents.script import Planned, Script


@pytest.fixture(scope="session")
def model_server() -> Iterator[ModelServer]:
    """The server, without a script."""
    with ModelServer() as server:
        yield server


_NUMBERS = itertools.count(1)


@pytest.fixture
def script(model_server: ModelServer) -> Iterator[Callable[..., Script]]:
    """Add a script to the server; at the end it had every step asked for, and nothing it could not do."""
    added: list[Script] = []

    def add(*steps: Planned, forever: bool = False) -> Script:
        one = model_server.script(f"test-{next(_NUMBERS)}", steps, forever=forever)
        added.append(one)
        return one

    yield add
    assert [problem for one in added for problem in one.problems] == []
    assert [one.left for one in added] == [0] * len(added), "the agent did not ask for every step"
