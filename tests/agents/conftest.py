"""One model server for a whole session; each test has scripts of its own on it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from savant.process.posix import SupervisedRunner
from tests.agents.installed import Installed, need
from tests.agents.modelserver import ModelServer
from tests.agents.product import Product, person_of
from tests.agents.rawkit import Driver
from tests.agents.script import Planned, Script
from tests.e2e.conftest import Shop, home, shop

__all__ = ["home", "shop"]


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

    def add(*steps: Planned, **how: Any) -> Script:
        one = model_server.script(f"test-{next(_NUMBERS)}", steps, **how)
        added.append(one)
        return one

    yield add
    assert [problem for one in added for problem in one.problems] == []
    assert [one.left for one in added] == [0] * len(added), "the agent did not ask for every step"


@pytest.fixture
def agent(request: pytest.FixtureRequest) -> Installed:
    """The agent named by the parameter; the test counts for it, also when it is skipped."""
    request.node.user_properties.append(("agent", request.param))
    return need(request.param)


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedRunner]:
    """One process runner for the session."""
    with SupervisedRunner(tmp_path_factory.mktemp("streams")) as one:
        yield one


@pytest.fixture
def driver(agent: Installed, runner: SupervisedRunner, tmp_path: Path) -> Driver:
    """The agent with nothing of the product around it but the process runner."""
    return Driver(tmp_path, runner, agent)


@pytest.fixture
def product(agent: Installed, shop: Shop, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Product:
    """The agent behind the command line."""
    person_of(agent, shop.root, monkeypatch)
    return Product(shop, agent, model_server)
