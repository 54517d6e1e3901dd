"""Install the agents that the tests drive for real into ``.agents``, from locks that hold versions and hashes only.

``python tools/agents/install.py`` installs what the default suite needs; ``--examples`` the rest too. What is there,
and what is not and why, is written to ``.agents/state.json``; the tests skip by it and ``account.py`` judges by it.
That an agent cannot be installed here (no npm, no network) is no failure; that something came with another hash is.
Packages' own install scripts do not run, except the named ones that put an agent's program in its place.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from commandprovider.profiles import PROFILES

HERE: Final = Path(__file__).resolve().parent
PLACE: Final = HERE.parent.parent / ".agents"
STATE: Final = PLACE / "state.json"
INSTALL_S: Final = 900
PROBE_S: Final = 60
PROTOCOL_S: Final = 15
"""For agents that say their version over their protocol, some of which stay until they are ended."""


class Agent(NamedTuple):
    """One agent of a group: the name of its profile, and its program below the group's folder."""

    name: str
    program: str


class Group(NamedTuple):
    """What is installed together, into ``.agents/<name>``, by npm or into an environment of Python.

    :param suite: whose tests drive them: ``default`` or ``examples``.
    :param lock: the file that names versions and hashes.
    :param scripts: install scripts that have to run, below the group's folder.
    """

    name: str
    suite: str
    lock: Path
    agents: tuple[Agent, ...]
    scripts: tuple[str, ...] = ()


class Missing(Exception):
    """A group cannot be installed here."""


class Wrong(Exception):
    """What came is not what the lock names."""


CORE: Final = (
    Group(
        "npm",
        "default",
        HERE / "package-lock.json",
        (
            Agent("claude", "node_modules/.bin/claude"),
            Agent("codex", "node_modules/.bin/codex"),
            Agent("gemini", "node_modules/.bin/gemini"),
        ),
        ("node_modules/@anthropic-ai/claude-code/install.cjs",),
    ),
)
EXAMPLES: Final = (
    Group(
        "npm-examples",
        "examples",
        HERE / "examples" / "package-lock.json",
        (
            Agent("claude-acp", "node_modules/.bin/claude-agent-acp"),
            Agent("codex-acp", "node_modules/.bin/codex-acp"),
            Agent("opencode", "node_modules/opencode-linux-x64/bin/opencode"),
        ),
    ),
    Group("aider", "examples", HERE / "examples" / "aider.lock", (Agent("aider", "bin/aider"),)),
    Group("mini", "examples", HERE / "examples" / "mini-swe-agent.lock", (Agent("mini-swe-agent", "bin/mini"),)),
    Group("llm", "examples", HERE / "examples" / "llm.lock", (Agent("llm", "bin/llm"),)),
)


def main(words: Sequence[str]) -> int:
    """Install what is asked for; 1 if something came that the lock does not name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--examples", action="store_true", help="the agents of make test-agents too")
    groups = CORE + (EXAMPLES if parser.parse_args(words).examples else ())
    PLACE.mkdir(exist_ok=True)
    try:
        for group in groups:
            _provide(group)
    except Wrong as error:
        print(f"agents: {error}", file=sys.stderr)
        return 1
    return 0


def _provide(group: Group) -> None:
    digest = _digest(group)
    state = _read_state()
    known = state.get(group.name, {})
    if known.get("lock") == digest and all((PLACE / group.name / agent.program).exists() for agent in group.agents):
        print(f"agents: {group.name}: as the lock says")
        return
    state.pop(group.name, None)
    _write_state(state)
    told: dict[str, Any] = {"suite": group.suite, "installed": {}, "missing": {}}
    try:
        _install(group)
        told["lock"] = digest
    except Missing as missing:
        told["missing"] = {agent.name: str(missing) for agent in group.agents}
    for agent in group.agents if "lock" in told else ():
        try:
            told["installed"][agent.name] = {"program": agent.program, "version": _version(group, agent)}
        except Missing as missing:
            told["missing"][agent.name] = str(missing)
    _write_state({**state, group.name: told})
    for name, here in told["installed"].items():
        print(f"agents: {name}: {here['version']}")
    for name, why in told["missing"].items():
        print(f"agents: {name}: not installed: {why}")


def _digest(group: Group) -> str:
    told = [*group.agents, *group.scripts]
    return hashlib.sha256(repr(told).encode() + group.lock.read_bytes()).hexdigest()


def _install(group: Group) -> None:
    folder = PLACE / group.name
    shutil.rmtree(folder, ignore_errors=True)
    if group.lock.name == "package-lock.json":
        _by_npm(group, folder)
    else:
        _run([sys.executable, "-m", "venv", str(folder)], PLACE)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--require-hashes", "--requirement", str(group.lock)], PLACE)


def _by_npm(group: Group, folder: Path) -> None:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        raise Missing("npm and node are not installed")
    folder.mkdir()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(group.lock.with_name(name), folder)
    quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--prefer-offline", "--engine-strict=false"]
    _run([npm, "ci", "--ignore-scripts", *quiet], folder)
    for script in group.scripts:
        path = folder / script
        _run([node, path.name], path.parent)


_WRONG: Final = re.compile(r"EINTEGRITY|EUSAGE|DO NOT MATCH THE HASHES|--require-hashes mode")
_REASON: Final = re.compile(r"(?m)^(?:npm (?:error|ERR!)|ERROR:)\s+(?!A complete log|code )(\S.*)$")


def _run(argv: Sequence[str], cwd: Path) -> None:
    try:
        done = subprocess.run(
            argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Missing(f"{Path(argv[0]).name} did not end within {INSTALL_S} s") from error
    except OSError as error:
        raise Missing(f"{Path(argv[0]).name} cannot be run: {error.strerror}") from error
    if done.returncode == 0:
        return
    said = done.stderr + done.stdout
    if _WRONG.search(said):
        raise Wrong(said.strip())
    reason = _REASON.search(said)
    raise Missing(reason[1] if reason else f"{Path(argv[0]).name} ended with status {done.returncode}")


def _version(group: Group, agent: Agent) -> str:
    """What the agent says about itself when its profile asks; it has to run here to count as installed."""
    program = PLACE / group.name / agent.program
    probe = PROFILES[agent.name].probe
    path = os.pathsep.join([str(program.parent), os.environ.get("PATH", os.defpath)])
    with tempfile.TemporaryDirectory() as home:
        try:
            done = subprocess.run(
                [str(program), *probe.argv],
                cwd=home,
                env={"PATH": path, "HOME": home},
                input=probe.stdin,
                capture_output=True,
                text=True,
                timeout=PROBE_S if not probe.stdin else PROTOCOL_S,
                check=False,
            )
            said = done.stdout
        except subprocess.TimeoutExpired as error:
            said = (error.stdout or b"").decode("utf-8", "replace")
        except OSError as error:
            raise Missing(f"{agent.name} cannot be run: {error.strerror}") from error
    found = re.search(probe.pattern, said, re.MULTILINE)
    if found is None:
        raise Missing(f"{agent.name} was installed and does not say its version")
    return found["version"]


def _read_state() -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads(STATE.read_text("utf-8")))
    return {}


def _write_state(state: dict[str, Any]) -> None:
    new = STATE.with_suffix(".new")
    new.write_text(json.dumps(state, indent=1, sort_keys=True) + "\n", "utf-8")
    new.replace(STATE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
