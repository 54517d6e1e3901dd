"""Runs with a coding agent through the command line: planning, edits, a retry that learns, admission, application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.commandprovider.fakeagent import install, step
from tests.e2e.conftest import Shop, git

TEST = "from shop.totals import total\n\n\ndef test_total():\n    assert total(2) == 4\n"
CONFIG = '[tool.pytest.ini_options]\npythonpath = ["."]\n'
FIXED = "def total(amount):\n    return amount * 2\n"
WRONG = "def total(amount):\n    return amount * 3\n"

Agent = Callable[..., Path]


@pytest.fixture
def agent(shop: Shop, home: Path, tmp_path: Path) -> Agent:
    """Installs the scripted agent and names it in the person's configuration."""
    shop.write("tests/test_totals.py", TEST)
    shop.write("pyproject.toml", CONFIG)
    shop.commit("a red test")

    def installed(script: Mapping[str, Any], **settings: str) -> Path:
        program = install(tmp_path / "agent", script)
        config = home / "config" / "config.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        lines = {"executable": str(program), "credential": "none", **settings}
        config.write_text("[agents.claude]\n" + "".join(f'{name} = "{value}"\n' for name, value in lines.items()))
        config.chmod(0o600)
        return program

    return installed


def act(mode: str, text: str) -> dict[str, Any]:
    """An edit of the one file, in the way of a mode."""
    if mode == "workspace":
        return {"write": {"shop/totals.py": text}, "text": "Changed total."}
    return {"answer": {"summary": "Changed total.", "edits": [{"op": "write", "path": "shop/totals.py", "text": text}]}}


@pytest.mark.parametrize("mode", ["answer", "workspace"])
def test_a_red_attempt_is_repaired_by_its_findings_admitted_and_applied(
    shop: Shop, agent: Agent, tool: Callable[[str], str], mode: str
) -> None:
    """The agent plans, fails the check, is told the findings, repairs it; the candidate is admitted and applied."""
    agent(
        {
            "planning": {"answer": step("shop/totals.py")},
            "generation": act(mode, WRONG),
            "generation-again": act(mode, FIXED),
            "forbidden": [str(shop.root)],
        }
    )
    before, target = shop.state(), shop.root / "applied"
    flags = ("--agent", "claude", "--agent-mode", mode, "--must-pass", f"{tool('pytest')} -q", "--apply", str(target))
    ended = shop.run("Double it", *flags)
    assert ended.code == 0, ended.out + ended.err
    assert ended.json["disposition"] == "applied-compliant"
    assert f"agent Claude Code 2.1.332 in mode {mode}" in ended.err
    assert (target / "shop" / "totals.py").read_text() == FIXED
    assert shop.state().files == before.files
    shown = shop.savant("show", ended.json["run"], "--format", "json").json
    assert [e["recommendation"] for e in shown["evaluations"]] == ["retry-generation", "accept"]
    assert git(target, "status", "--porcelain").split() == ["M", "shop/totals.py"]
