"""Runs with an agent that speaks the Agent Client Protocol, through the command line and from a cassette."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commandprovider.fakeacp import install_acp, planned
from tests.commandprovider.fakeagent import step
from tests.e2e.conftest import Shop, git
from tests.e2e.tapes import documents, everything, histories

pytestmark = [pytest.mark.e2e]

KEY = "sk-ant-test-0123456789abcdef"
TEST = "from shop.totals import total\n\n\ndef test_total():\n    assert total(2) == 4\n"
CONFIG = '[tool.pytest.ini_options]\npythonpath = ["."]\n'
FIXED = "def total(amount):\n    return amount * 2  # {cwd}\n"
WRONG = "def total(amount):\n    return amount * 3\n"
USAGE = {"usage": {"inputTokens": 10, "outputTokens": 7, "totalTokens": 17}}


def turn(text: str) -> list[dict[str, Any]]:
    """Read over the protocol, write over it, and say so."""
    return [
        {"read": "shop/totals.py"},
        {"write": ["shop/totals.py", text]},
        {"tool": {"kind": "edit"}},
        {"say": "Changed total."},
    ]


SCRIPT: dict[str, Any] = {
    "planning": planned(json.dumps(step("shop/totals.py"))),
    "generation": turn(WRONG),
    "generation-again": turn(FIXED),
    "result": USAGE,
}


@pytest.fixture
def install(shop: Shop, home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], Path]:
    """Installs the scripted agent, names it in the person's configuration and gives it a key."""
    shop.write("tests/test_totals.py", TEST)
    shop.write("pyproject.toml", CONFIG)
    shop.commit("a red test")
    config = home / "config" / "config.toml"

    def made(script: dict[str, Any]) -> Path:
        program = install_acp(shop.root / "agent", script)
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(f'[agents.claude-acp]\nexecutable = "{program}"\n')
        config.chmod(0o600)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        return program

    return made


def test_a_red_attempt_is_repaired_by_its_findings_admitted_and_applied(
    shop: Shop, install: Callable[[dict[str, Any]], Path], tool: Callable[[str], str]
) -> None:
    """The agent plans, edits over the protocol, fails the check, repairs it; the candidate is admitted and applied."""
    install(SCRIPT | {"forbidden": [str(shop.root)]})
    before, target = shop.state(), shop.root / "applied"
    check = f"{tool('pytest')} -q -p no:cacheprovider"
    ended = shop.run("Double it", "--agent", "claude-acp", "--must-pass", check, "--apply", str(target))
    assert ended.code == 0, ended.out + ended.err
    assert ended.json["disposition"] == "applied-compliant"
    assert "agent Claude Agent (ACP) 0.49.0 in mode acp" in ended.err
    assert (target / "shop" / "totals.py").read_text() == FIXED
    assert git(target, "status", "--porcelain").split() == ["M", "shop/totals.py"]
    assert shop.state().files == before.files
    shown = shop.savant("show", ended.json["run"], "--format", "json").json
    assert [e["recommendation"] for e in shown["evaluations"]] == ["retry-generation", "accept"]
    assert [call["tokens_in"] for call in shown["calls"]] == [0, 10, 10, 10]


def test_a_failure_is_recorded_by_its_kind(shop: Shop, install: Callable[[dict[str, Any]], Path]) -> None:
    """An error of the protocol is the call's failure kind, and the run stops without a change."""
    error = {"code": -32603, "message": "Internal error: no", "data": {"errorKind": "authentication_failed"}}
    install(SCRIPT | {"generation": [{"write": ["shop/totals.py", FIXED]}, {"error": error}]})
    ended = shop.run(
        "Double it", "--agent", "claude-acp", "--must-pass", "/bin/true", "--retries", "0", "--replans", "0"
    )
    assert ended.code != 0
    calls = shop.savant("show", ended.json["run"], "--format", "json").json["calls"]
    assert [call["failure_kind"] for call in calls] == [None, None, "auth"]


def test_a_conversation_is_played_without_the_agent(
    shop: Shop, home: Path, install: Callable[[dict[str, Any]], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole run with a retry comes again from what was said, on a machine that has neither the agent nor a key."""
    program = install(SCRIPT)
    check, cassette = "/bin/sh -c 'grep -q \"amount . 2\" shop/totals.py'", shop.root / "cassette"
    flags = ("Double it", "--agent", "claude-acp")
    recorded = shop.run(*flags, "--must-pass", check, "--record-cassette", str(cassette))
    assert (recorded.code, recorded.json["disposition"]) == (0, "admitted"), recorded.out + recorded.err
    kept = everything(cassette)
    assert KEY.encode() not in kept
    assert str(shop.root).encode() not in kept

    monkeypatch.delenv("ANTHROPIC_API_KEY")
    (home / "config" / "config.toml").unlink()
    program.unlink()
    played = shop.run("--must-pass", check, "--cassette", str(cassette))
    assert (played.code, played.json["disposition"]) == (0, "admitted"), played.out + played.err
    assert (played.json["cassette"]["left"], played.json["cassette"]["missed"]) == (0, None)
    first, second = histories(shop)
    assert documents(first) == documents(second)
