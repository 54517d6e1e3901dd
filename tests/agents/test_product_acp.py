"""Whole runs with agents that speak the Agent Client Protocol: their files are the candidate's workspace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.agents.installed import in_full
from tests.agents.product import BEFORE, FILE, PLAN, RED, RIGHT, WRONG, Product
from tests.agents.script import Asked, Fail, Say, Script, Structured, Use
from tests.agents.toolbox import Edit, Read
from tests.e2e.conftest import git

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(300)]

REST: Final = ("claude-acp", "codex-acp", "opencode")
speaking = pytest.mark.parametrize(
    "agent", ["gemini", *(pytest.param(name, marks=in_full) for name in REST)], indirect=True
)


def wants_a_title(asked: Asked) -> bool:
    """Some agents also ask for a title of the conversation, at any time."""
    return not asked.tools and "title" in asked.prompt[:1000].lower()


@speaking
def test_files_over_the_protocol_are_repaired_by_findings_and_applied(
    product: Product, home: Path, script: Callable[..., Script]
) -> None:
    """The agent plans, edits through the protocol, is told the findings, repairs it; the change is applied."""
    attempts = [
        step for line in (WRONG, RIGHT) for step in (Use(Read(FILE)), Use(Edit(FILE, BEFORE, line)), Say("Done."))
    ]
    one = script(Structured(PLAN), *attempts, aside=wants_a_title)
    product.configure(home, one)
    ended = product.run("acp")
    assert ended.code == 0, ended.out + ended.err + "\n".join(asked.prompt[-3000:] for asked in one.requests[-1:])
    assert ended.json["disposition"] == "applied-compliant"
    assert RIGHT in (product.target / FILE).read_text()
    assert git(product.target, "status", "--porcelain").split() == ["M", FILE]
    prompts = [asked.prompt for asked in one.requests]
    assert RED not in "".join(prompts[:4])
    assert all(RED in prompt for prompt in prompts[4:])


@speaking
def test_a_failure_over_the_protocol_is_recorded_by_its_kind(
    product: Product, home: Path, script: Callable[..., Script]
) -> None:
    """An error object of the protocol becomes the failure kind; OpenCode's names none, and guessing is no reading."""
    one = script(Fail(401, "authentication_error", "no such key"), forever=True, aside=wants_a_title)
    product.configure(home, one)
    ended = product.run("acp", "--retries", "0", "--replans", "0")
    kind = "crash" if product.agent.name == "opencode" else "auth"
    assert product.calls(ended.json["run"])[-1]["failure_kind"] == kind, ended.out + ended.err
    assert not product.target.exists()
