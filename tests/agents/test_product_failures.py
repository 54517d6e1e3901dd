"""Runs through the command in which the model's service fails: the record says what kind of failure it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest

from synthesis.documents import FailureKind
from tests.agents.product import FILE, PLAN, RIGHT, Product, edits
from tests.agents.script import Asked, Fail, Overflow, Planned, Say, Script, Silent, Step, Structured, Truncated

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

FIRST: Final = ("claude", "codex")
first = pytest.mark.parametrize("agent", FIRST, indirect=True)

TEXT: Final = json.dumps(PLAN)
LONG_PLAN: Final = json.dumps({**PLAN, "risks": ["word " * 200] * 220})


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What the service does for as long as it is asked, and the kind that it is."""

    name: str
    step: Planned
    kind: FailureKind
    deadline_s: int = 60


CASES: Final = (
    Case(name="429", step=Fail(429, "rate_limit_error", "slow down"), kind="rate-limited"),
    Case(name="500", step=Fail(500, "api_error", "it broke"), kind="overloaded"),
    Case(name="401", step=Fail(401, "authentication_error", "no such key"), kind="auth"),
    Case(name="overflow", step=Overflow(), kind="context-overflow"),
    Case(name="prose", step=Say(f"Here you are:\n```json\n{TEXT}\n```\n"), kind="malformed-output"),
    Case(name="truncated", step=Truncated(TEXT, "body"), kind="bad-gateway"),
    Case(name="empty", step=Say(""), kind="malformed-output"),
    Case(name="silent", step=Silent(), kind="timeout", deadline_s=4),
)
for_each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@first
@for_each_case
def test_a_failure_is_recorded_by_its_kind(
    product: Product, home: Path, script: Callable[..., Script], case: Case
) -> None:
    """The planning call fails as the service did, nothing is generated, and the person is told."""
    one = script(case.step, forever=True)
    product.configure(home, one)
    ended = product.run("answer", "--retries", "0", "--replans", "0", "--deadline", str(case.deadline_s))
    interpretation, planning = product.calls(ended.json["run"])
    assert interpretation["outcome"] == "completed"
    assert (planning["operation"], planning["failure_kind"]) == ("planning", case.kind)
    assert ended.json["disposition"] == "provider-stopped"
    assert not product.target.exists()


@first
def test_a_long_plan_in_a_fence_is_taken(product: Product, home: Path, script: Callable[..., Script]) -> None:
    """More than a pipe holds, in a fence and not through the agent's own tool for it, is a plan all the same."""

    def plan_or_edits(asked: Asked) -> Step:
        is_planning = "The plan that was accepted" not in asked.prompt
        return Say(f"```json\n{LONG_PLAN}\n```") if is_planning else Structured(edits(RIGHT))

    assert len(LONG_PLAN) > 200_000
    one = script(plan_or_edits, forever=True)
    product.configure(home, one)
    ended = product.run("answer", "--retries", "0")
    assert ended.json["disposition"] == "applied-compliant", ended.out + ended.err
    assert RIGHT in (product.target / FILE).read_text()
