"""Whole runs through the command with real agents: a plan, a red attempt, a repair by its findings, application."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.agents.installed import in_full
from tests.agents.product import BEFORE, FILE, PLAN, RED, RIGHT, TEST, WRONG, Product, edits
from tests.agents.protocols.adapter import Usage
from tests.agents.script import Say, Script, Structured, Use
from tests.agents.toolbox import Edit, Read
from tests.e2e.conftest import Ended, git

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

AGENTS: Final = ["claude", "codex", pytest.param("gemini", marks=in_full)]
first_class = pytest.mark.parametrize("agent", AGENTS, indirect=True)


def is_applied(product: Product, ended: Ended, script: Script) -> None:
    """The change is in the target and nothing else is, and what the model's service counted is what was recorded."""
    assert ended.code == 0, ended.out + ended.err
    assert ended.json["disposition"] == "applied-compliant"
    assert RIGHT in (product.target / FILE).read_text()
    assert git(product.target, "status", "--porcelain").split() == ["M", FILE]
    calls = product.calls(ended.json["run"])
    assert [call["operation"] for call in calls] == ["interpretation", "planning", "generation", "generation"]
    assert sum(call["tokens_in"] for call in calls) == Usage().tokens_in * len(script.requests)
    assert sum(call["tokens_out"] for call in calls) == Usage().tokens_out * len(script.requests)


@first_class
def test_answers_are_repaired_by_findings_and_applied(
    product: Product, home: Path, script: Callable[..., Script]
) -> None:
    """The agent plans and answers with edits; the second ones, made with the findings, are admitted and applied."""
    one = script(Structured(PLAN), Structured(edits(WRONG)), Structured(edits(RIGHT)))
    product.configure(home, one)
    before = product.shop.state()
    ended = product.run("answer")
    is_applied(product, ended, one)
    assert product.shop.state().files == before.files
    planning, generation, retry = (asked.prompt for asked in one.requests)
    assert "Let total return the double." in planning
    assert TEST.strip() in planning
    assert "Make total return the double." in generation
    assert RED not in generation
    assert RED in retry


@first_class
def test_a_copy_is_repaired_by_findings_and_applied(
    product: Product, home: Path, script: Callable[..., Script]
) -> None:
    """The agent reads the repository and plans, then works in copies of it; the repaired one is applied."""
    attempts = [
        step for line in (WRONG, RIGHT) for step in (Use(Read(FILE)), Use(Edit(FILE, BEFORE, line)), Say("Done."))
    ]
    one = script(Use(Read(FILE)), Structured(PLAN), *attempts)
    product.configure(home, one)
    ended = product.run("workspace")
    is_applied(product, ended, one)
    prompts = [asked.prompt for asked in one.requests]
    assert BEFORE in prompts[1]
    assert RED not in "".join(prompts[:5])
    assert all(RED in prompt for prompt in prompts[5:])
