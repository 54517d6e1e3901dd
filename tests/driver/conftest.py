"""Bases that are made once, and worlds on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.snapshot import BaseSnapshot
from savant.process.posix import SupervisedRunner
from tests.driver.sessionkit import PLAIN, World, contents
from tests.runner.kit import take

BaseOf = Callable[[Mapping[bytes, bytes]], BaseSnapshot]
WorldOf = Callable[..., World]


@pytest.fixture(scope="session")
def base_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseOf]:
    """A base revision of exactly these files in a real repository; the same files give the same one."""
    made: dict[tuple[tuple[bytes, bytes], ...], BaseSnapshot] = {}
    opened = []

    def make(files: Mapping[bytes, bytes]) -> BaseSnapshot:
        key = tuple(sorted(files.items()))
        if key not in made:
            folder = tmp_path_factory.mktemp("base") / "repo"
            repository, made[key] = take(folder, contents(files))
            opened.append(repository)
        return made[key]

    yield make
    for repository in opened:
        repository.close()


@pytest.fixture
def world(base_of: BaseOf, tmp_path: Path) -> WorldOf:
    """A world on a base: ``world(provider, files=..., **members)``."""

    def make(provider: Any, *, files: Mapping[bytes, bytes] | None = None, **members: Any) -> World:
        base = base_of({**PLAIN, **(files or {})})
        return World(base, tmp_path / "scratch", provider, **members)

    return make


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[SupervisedRunner]:
    """The supervisor of real commands."""
    folder = tmp_path / "processes"
    folder.mkdir()
    with SupervisedRunner(folder) as runner:
        yield runner
