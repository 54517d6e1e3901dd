"""The agents of the example tier, for real: an answer, an edit, a failure by its kind, and a whole run through the
command. Driven by ``make test-agents``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from commandprovider.profiles import Capability
from commandprovider.reading import document_in
from providerport.port import ProviderFailure
from tests.agents.modelserver import ModelServer
from tests.agents.product import BEFORE, FILE, PLAN, RIGHT, Product, edits
from tests.agents.rawkit import Driver
from tests.agents.script import Asked, Fail, Planned, Say, Script, Structured, Use
from tests.agents.toolbox import Edit, Read, Shell

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PATIENCE_S: Final = 300
LINES: Final = "x = 1\ny = 2\n"
ANSWER: Final = '{"steps": []}'
answering = pytest.mark.parametrize("agent", ["opencode", "aider", "llm"], indirect=True)
editing = pytest.mark.parametrize("agent", ["opencode", "aider", "mini-swe-agent"], indirect=True)
every = pytest.mark.parametrize("agent", ["opencode", "aider", "mini-swe-agent", "llm"], indirect=True)


def wants_a_title(asked: Asked) -> bool:
    """OpenCode also asks for a title of the conversation, at any time."""
    return not asked.tools and "title" in asked.prompt[:1000].lower()


def block(path: str, old: str, new: str) -> str:
    """An edit as aider's models write it."""
    return f"Changing it.\n\n{path}\n```python\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n```\n"


def edit_by(agent: str, path: str, old: str, new: str) -> list[Planned]:
    """The steps that replace a line, in the way of an agent."""
    match agent:
        case "aider":
            return [Say(block(path, old, new))]
        case "mini-swe-agent":
            end = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
            return [Use(Shell(f"sed -i 's/^{old}$/{new}/' {path}")), Use(Shell(end))]
        case _:
            return [Use(Read(path)), Use(Edit(path, old, new)), Say("Done.")]


@answering
def test_an_answer(driver: Driver, model_server: ModelServer, script: Callable[..., Script]) -> None:
    """The agent answers, and the answer is found in what it wrote."""
    one = script(Say(ANSWER), aside=wants_a_title)
    run = driver.run(model_server.url(one), "Answer.", wall_ms=PATIENCE_S * 1000)
    assert document_in(run.said()) == ANSWER.encode()


@editing
def test_an_edit(driver: Driver, model_server: ModelServer, script: Callable[..., Script]) -> None:
    """The agent changes the file, and only that file."""
    driver.cwd.mkdir()
    (driver.cwd / "a.py").write_text(LINES)
    one = script(*edit_by(driver.profile.name, "a.py", "x = 1", "x = 10"), aside=wants_a_title)
    run = driver.run(
        model_server.url(one),
        "Edit a.py.",
        capability="workspace",
        flags={"contained"},
        wall_ms=PATIENCE_S * 1000,
    )
    assert run.said().text
    assert {path.name: path.read_text() for path in driver.cwd.iterdir()} == {"a.py": "x = 10\ny = 2\n"}


@every
def test_a_refused_key(driver: Driver, model_server: ModelServer, script: Callable[..., Script]) -> None:
    """A failure that all of them report is told by its kind."""
    one = script(Fail(401, "authentication_error", "no such key"), forever=True, aside=wants_a_title)
    capability: Capability = "answer" if driver.profile.answer is not None else "workspace"
    run = driver.run(model_server.url(one), "Answer.", capability=capability, wall_ms=PATIENCE_S * 1000)
    with pytest.raises(ProviderFailure) as caught:
        run.said()
    assert caught.value.failure_kind == "auth"


@pytest.mark.e2e
@editing
def test_a_whole_run_in_a_copy(product: Product, home: Path, script: Callable[..., Script]) -> None:
    """The host plans within the scope, the agent edits the copy, and the change is applied."""
    one = script(*edit_by(product.agent.name, FILE, BEFORE, RIGHT), aside=wants_a_title)
    product.configure(home, one)
    given = ("--planning", "host", "--scope", FILE, "--retries", "0", "--deadline", str(PATIENCE_S))
    ended = product.run("workspace", *given)
    assert ended.code == 0, ended.out + ended.err
    assert RIGHT in (product.target / FILE).read_text()


@pytest.mark.e2e
@answering
def test_a_whole_run_by_answers(product: Product, home: Path, script: Callable[..., Script]) -> None:
    """The agent plans and answers with edits, and the change is applied."""
    one = script(Structured(PLAN), Structured(edits(RIGHT)), aside=wants_a_title)
    product.configure(home, one)
    ended = product.run("answer", "--retries", "0", "--deadline", str(PATIENCE_S))
    assert ended.code == 0, ended.out + ended.err
    assert RIGHT in (product.target / FILE).read_text()
