"""What cannot be installed is written down with its reason; what comes with another hash is an error."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools" / "agents"
VERSIONS = {"claude": "2.1.332 (Claude Code)", "codex": "codex-cli 0.171.0", "gemini": "0.61.0"}


class Machine:
    """A copy of the tool, and a PATH with what a test puts there."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._bin = root / "bin"
        self._bin.mkdir()
        (root / "tools").mkdir()
        shutil.copytree(TOOLS, root / "tools" / "agents", ignore=shutil.ignore_patterns("__pycache__"))

    def program(self, name: str, text: str) -> None:
        """Put a shell script on the PATH."""
        path = self._bin / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def install(self) -> subprocess.CompletedProcess[str]:
        """Run the tool."""
        argv = [sys.executable, str(self._root / "tools" / "agents" / "install.py")]
        env = {"PATH": str(self._bin), "HOME": str(self._root)}
        return subprocess.run(argv, env=env, check=False, capture_output=True, text=True)

    @property
    def state(self) -> dict[str, Any]:
        """What the tool wrote down."""
        return dict(json.loads((self._root / ".agents" / "state.json").read_text()))

    @property
    def calls(self) -> list[str]:
        """How npm was called."""
        log = self._root / "npm.log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without npm."""
    return Machine(tmp_path)


def fails(said: str) -> str:
    """An npm that fails."""
    return f'echo "{said}" >&2; exit 1'


def works() -> str:
    """An npm that puts programs in their places."""
    place = "node_modules/.bin"
    made = "".join(
        f"/bin/cat > {place}/{name} <<'E'\n#!/bin/sh\necho '{version}'\nE\n/bin/chmod 755 {place}/{name}\n"
        for name, version in VERSIONS.items()
    )
    folders = "node_modules/.bin node_modules/@anthropic-ai/claude-code"
    return f'echo "$@" >> "$HOME/npm.log"\n/bin/mkdir -p {folders}\n{made}'


def test_without_npm_the_reason_is_written_down(machine: Machine) -> None:
    """No npm is no failure, and the tests can say why they skip."""
    done = machine.install()
    assert done.returncode == 0, done.stderr
    assert set(machine.state["npm"]["missing"]) == set(VERSIONS)
    assert set(machine.state["npm"]["missing"].values()) == {"npm and node are not installed"}


def test_without_a_network_the_reason_is_npms(machine: Machine) -> None:
    """What npm says first is the reason."""
    machine.program("node", "exit 0")
    machine.program("npm", fails("npm error code ENOTFOUND\nnpm error network nobody answers"))
    assert machine.install().returncode == 0
    assert set(machine.state["npm"]["missing"].values()) == {"network nobody answers"}


@pytest.mark.parametrize("code", ["EINTEGRITY", "EUSAGE"])
def test_another_hash_than_the_locks_is_an_error(machine: Machine, code: str) -> None:
    """Something else than what was tested is not skipped over."""
    machine.program("node", "exit 0")
    machine.program("npm", fails(f"npm error code {code}"))
    done = machine.install()
    assert done.returncode == 1
    assert code in done.stderr
    assert "npm" not in machine.state


def test_what_is_installed_is_asked_its_version_and_not_installed_again(machine: Machine) -> None:
    """Npm runs once, without install scripts; a changed lock makes it run again."""
    machine.program("node", "exit 0")
    machine.program("npm", works())
    assert machine.install().returncode == 0
    assert {name: here["version"] for name, here in machine.state["npm"]["installed"].items()} == {
        "claude": "2.1.332",
        "codex": "0.171.0",
        "gemini": "0.61.0",
    }
    assert machine.install().returncode == 0
    assert [call.split()[:2] for call in machine.calls] == [["ci", "--ignore-scripts"]]
    lock = machine._root / "tools" / "agents" / "package-lock.json"
    lock.write_text(lock.read_text() + os.linesep)
    assert machine.install().returncode == 0
    assert len(machine.calls) == 2


def test_what_does_not_say_its_version_is_not_installed(machine: Machine) -> None:
    """A program that cannot be run here is none, and the others are there."""
    machine.program("node", "exit 0")
    machine.program("npm", works().replace("codex-cli 0.171.0", "cannot run"))
    assert machine.install().returncode == 0
    assert machine.state["npm"]["missing"] == {"codex": "codex was installed and does not say its version"}
    assert set(machine.state["npm"]["installed"]) == {"claude", "gemini"}
