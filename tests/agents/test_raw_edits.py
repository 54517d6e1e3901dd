"""Real agents at work in a folder: they read, edit, write and run, and whatever they started ends with them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from providerport.port import ProviderFailure
from savant.process.effects import ThreadCancellation
from tests.agents.modelserver import ModelServer
from tests.agents.rawkit import Driver
from tests.agents.script import Say, Script, Use
from tests.agents.toolbox import Edit, Read, Shell, Write
from tests.e2e.conftest import strongest

pytestmark = pytest.mark.slow

FIRST: Final = ("claude", "codex")
EVERY: Final = (*FIRST, "gemini")
first = pytest.mark.parametrize("agent", FIRST, indirect=True)
every = pytest.mark.parametrize("agent", EVERY, indirect=True)
MARK: Final = "SAVANT_TEST_MARK"


def files(folder: Path) -> dict[str, str]:
    """What lies in a folder."""
    return {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*") if p.is_file()}


def marked(mark: str) -> list[int]:
    """The processes that inherited a mark."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"{MARK}={mark}".encode() in environment.split(b"\0"):
            found.append(int(entry.name))
    return found


@every
def test_a_folder_is_worked_on(driver: Driver, model_server: ModelServer, script: Callable[..., Script]) -> None:
    """Reading, editing a line and making a file in a new folder all happen, and nothing else is left there."""
    driver.cwd.mkdir()
    (driver.cwd / "a.py").write_text("x = 1\ny = 2\n")
    one = script(Use(Read("a.py")), Use(Edit("a.py", "x = 1", "x = 10")), Use(Write("b/c.txt", "new\n")), Say("done"))
    run = driver.run(model_server.url(one), "Do it.", capability="workspace", flags={"contained"})
    assert run.said().text == "done"
    assert files(driver.cwd) == {"a.py": "x = 10\ny = 2\n", "b/c.txt": "new\n"}
    assert "y = 2" in one.requests[1].prompt


@first
def test_an_agent_without_our_sandbox_still_works(
    driver: Driver, model_server: ModelServer, script: Callable[..., Script]
) -> None:
    """Where nothing contains it, the agent's own restrictions are on, and an edit is still possible.

    Codex makes namespaces for that, and quietly changes nothing where it may not.
    """
    driver.cwd.mkdir()
    is_able = driver.profile.name != "codex" or strongest() >= "S2"
    one = script(Use(Write("b.txt", "new\n")), Say("done"))
    run = driver.run(model_server.url(one), "Do it.", capability="workspace")
    assert run.said().text == "done"
    assert files(driver.cwd) == ({"b.txt": "new\n"} if is_able else {})


@first
def test_reading_is_all_that_an_answer_may_do(
    driver: Driver, model_server: ModelServer, script: Callable[..., Script]
) -> None:
    """An agent that answers about a folder is offered no tool to write with; a shell at most, where it is contained."""
    driver.cwd.mkdir()
    (driver.cwd / "a.py").write_text("x = 1\n")
    one = script(Use(Read("a.py")), Say("x is 1"))
    run = driver.run(model_server.url(one), "What is x?", flags={"readable", "contained"})
    assert run.said().text == "x is 1"
    assert "x = 1" in one.requests[1].prompt
    assert not {"Write", "Edit", "apply_patch"} & set(one.requests[0].tools)


@first
def test_what_an_agent_started_ends_with_it(
    driver: Driver, model_server: ModelServer, script: Callable[..., Script]
) -> None:
    """A cancelled agent that is busy in its shell leaves no process, also none in a session of its own."""
    driver.cwd.mkdir()
    busy = "(setsid sleep 987 >/dev/null 2>&1 &); touch started; sleep 987; true"
    one = script(Use(Shell(f"true; {busy}")), Say("done"), forever=True)
    mark = uuid.uuid4().hex
    cancellation = ThreadCancellation()
    seen: list[int] = []

    def cancel() -> None:
        until = time.monotonic() + 60
        while not (driver.cwd / "started").exists() and time.monotonic() < until:
            time.sleep(0.02)
        seen.extend(marked(mark))
        cancellation.set()

    waiting = threading.Thread(target=cancel)
    waiting.start()
    run = driver.run(
        model_server.url(one),
        "Work.",
        capability="workspace",
        flags={"contained"},
        marks={MARK: mark},
        cancellation=cancellation,
    )
    waiting.join()
    assert (driver.cwd / "started").exists(), (run.ended.stdout[-2000:], run.ended.stderr[-2000:])
    assert len(seen) >= 3, "the agent, its shell and what the shell started"
    assert run.ended.is_quiescent
    assert marked(mark) == []
    with pytest.raises(ProviderFailure) as caught:
        run.said()
    assert caught.value.failure_kind == "cancelled"
