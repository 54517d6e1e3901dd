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


PLANNED: dict[str, Any] = {"planning": {"answer": step("shop/totals.py")}, "generation": act("workspace", FIXED)}


def test_an_answer_that_could_not_be_taken_is_told_to_the_next_attempt(shop: Shop, agent: Agent) -> None:
    """An edit that fits nowhere, and an answer in prose: the retry learns which and why, and does better."""
    stale = {"op": "edit", "path": "shop/totals.py", "old": "return nothing", "new": "x"}
    for failed, told in (
        ({"answer": {"summary": "", "edits": [stale]}}, "Edit 1 (edit of shop/totals.py) cannot be applied"),
        ({"text": "Here you are."}, "not one JSON value"),
    ):
        agent({**PLANNED, "generation": failed, "generation-again": act("answer", FIXED) | {"demanded": [told]}})
        ended = shop.run("Double it", "--agent", "claude", "--agent-mode", "answer", "--must-pass", "/bin/true")
        assert (ended.code, ended.json["disposition"]) == (0, "admitted"), ended.err
        attempts = shop.savant("show", ended.json["run"], "--format", "json").json["attempts"]
        assert [attempt["failure_kind"] for attempt in attempts] == ["malformed-output", None]


def test_the_same_work_by_the_same_agent_gives_the_same_documents(shop: Shop, agent: Agent) -> None:
    """Folders of the machine, times and run ids are in no document: two runs share session, candidate and receipt."""
    said = {**act("workspace", FIXED), "shell": "pwd >&2"}
    agent({**PLANNED, "generation": said})
    flags = ("Double it", "--agent", "claude", "--must-pass", "/bin/true")
    first, second = shop.run(*flags), shop.run(*flags)
    assert first.code == second.code == 0, first.err
    same = ("session", "candidate", "decision", "receipt")
    assert {name: first.json[name] for name in same} == {name: second.json[name] for name in same}


def test_the_host_plans_with_the_scope_as_its_promise(shop: Shop, agent: Agent) -> None:
    """Without a planning call the promise is ``--scope``: the same edit is admitted inside it and refused outside."""
    agent({"planning": {"status": 3}, "generation": act("workspace", FIXED)})
    flags = ("Double it", "--agent", "claude", "--planning", "host", "--must-pass", "/bin/true")
    inside = shop.run(*flags, "--scope", "shop/**")
    assert (inside.code, inside.json["disposition"]) == (0, "admitted"), inside.err
    outside = shop.run(*flags, "--scope", "docs/**", "--retries", "0", "--replans", "0")
    assert outside.code == 30, outside.out


def test_an_untested_version_is_a_warning_and_a_limitation(shop: Shop, agent: Agent) -> None:
    """The run goes on; the first screen and the record say it."""
    agent({**PLANNED, "version": "9.8.7"})
    ended = shop.run("Double it", "--agent", "claude", "--must-pass", "/bin/true")
    assert ended.code == 0, ended.err
    assert "WARNING: Claude Code 9.8.7 is outside the tested versions" in ended.err
    assert "agent Claude Code 9.8.7 in mode workspace, its own default model" in ended.err


def test_an_agent_that_is_not_installed_is_not_ready(shop: Shop, agent: Agent) -> None:
    """The command that installs it is named, nothing is recorded, and the exit code says that something is missing."""
    program = agent(PLANNED)
    program.unlink()
    ended = shop.run("Double it", "--agent", "claude")
    assert (ended.code, ended.json["code"]) == (40, "port.agent-missing")
    assert "npm install" in ended.json["fix"]
    assert not (shop.path / ".git" / "savant" / "ledger.sqlite3").exists()


def test_an_agent_that_says_no_version_is_not_ready(shop: Shop, agent: Agent) -> None:
    """It may be another program of the same name."""
    agent({**PLANNED, "version": "unknown"})
    ended = shop.run("Double it", "--agent", "claude")
    assert (ended.code, ended.json["code"]) == (40, "port.agent-probe")


def test_a_missing_credential_stops_before_any_call(
    shop: Shop, agent: Agent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without its key the run is not ready; the sources and the command that supplies one are named."""
    for name in ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    agent(PLANNED, credential="ANTHROPIC_API_KEY")
    ended = shop.run("Double it", "--agent", "claude", "--must-pass", "/bin/true")
    assert ended.code == 40
    assert "ANTHROPIC_API_KEY" in ended.out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--agent", "nobody"), "usage.agent-unknown"),
        (("--agent", "claude", "--recipe", "true"), "usage.provider"),
        (("--model", "m", "--recipe", "true"), "usage.agent-flag"),
        (("--disclose", "CLAUDE.md", "--recipe", "true"), "usage.agent-flag"),
        (("--agent", "claude", "--agent-mode", "acp"), "usage.agent-capability"),
        (("--agent", "claude", "--model", "--yolo"), "usage.agent-value"),
    ],
)
def test_flags_that_cannot_be_are_refused(shop: Shop, agent: Agent, words: tuple[str, ...], code: str) -> None:
    """Before anything is called."""
    agent(PLANNED)
    ended = shop.run("Double it", *words)
    assert (ended.code, ended.json["code"]) == (2, code)


def test_providers_says_what_is_here(shop: Shop, agent: Agent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every profile with its tested range; of the one that is here its version and whether that is tested."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    program = agent(PLANNED)
    listed = shop.savant("providers", "--format", "json", repo=False)
    assert listed.code == 0
    found = {row["name"]: row for row in listed.json["providers"]}
    assert {"claude", "codex", "gemini"} <= set(found)
    claude, codex = found["claude"], found["codex"]
    assert (claude["found"], claude["executable"], claude["version"]) == (True, str(program), "2.1.332")
    assert (claude["in_tested_range"], claude["credential"], claude["problem"]) == (True, [], "")
    assert (codex["found"], codex["version"], codex["in_tested_range"]) == (False, None, None)
    assert codex["fix"] == codex["install"]
    assert all(row["tested"]["from"] and row["tested"]["below"] for row in found.values())
    text = shop.savant("providers", repo=False).out
    assert "2.1.332" in text
    assert "not found" in text
    unasked = shop.savant("providers", "--no-probe", "--format", "json", repo=False).json["providers"]
    assert [row["version"] for row in unasked if row["found"]] == [None]


def test_providers_says_what_is_wrong(shop: Shop, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """An untested version, and a program that does not say its version."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    agent({"version": "9.9.9"})
    (old,) = [r for r in shop.savant("providers", "--format", "json", repo=False).json["providers"] if r["found"]]
    assert (old["version"], old["in_tested_range"]) == ("9.9.9", False)
    agent({"version": "?"})
    (broken,) = [r for r in shop.savant("providers", "--format", "json", repo=False).json["providers"] if r["found"]]
    assert broken["version"] is None
    assert "does not say its version" in broken["problem"]


def test_instruction_files_are_disclosed_on_the_command_line(shop: Shop, agent: Agent) -> None:
    """What is disclosed is in the prompts, in the first screen and in the recorded configuration, and only then."""
    shop.write("CLAUDE.md", "Always whistle.\n")
    shop.commit("instructions")
    agent({**PLANNED, "demanded": ["Always whistle."]})
    flags = ("Double it", "--agent", "claude", "--must-pass", "/bin/true")
    shown = shop.run(*flags, "--disclose", "CLAUDE.md")
    assert shown.code == 0, shown.out
    assert "instruction files of the repository shown to the agent: CLAUDE.md" in shown.err
    hidden = shop.run(*flags)
    assert (hidden.code, hidden.json["disposition"]) == (31, "provider-stopped")


def test_an_agent_without_the_containment_it_needs_is_not_ready(
    shop: Shop, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its version is asked anyway; the run is refused before any call, unless the person says that less will do."""
    agent({**PLANNED, "generation": act("workspace", FIXED)})
    monkeypatch.setenv("SAVANT_SANDBOX", "none")
    flags = ("Double it", "--agent", "claude", "--must-pass", "/bin/true")
    ended = shop.run(*flags)
    assert ended.code == 40, ended.out
    assert "agent Claude Code 2.1.332" in ended.err
    allowed = shop.run(*flags, "--allow-unsandboxed")
    assert (allowed.code, allowed.json["disposition"]) == (0, "admitted"), allowed.err
