"""A person at a shell with real agents on the PATH, whose model is a script of the test."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from commandprovider.profiles import PROFILES
from savant.process.port import Level
from tests.agents.installed import Installed
from tests.agents.modelserver import ModelServer
from tests.agents.rawkit import KEY, base_url, model_of
from tests.agents.script import Script
from tests.e2e.conftest import Ended, Shop, strongest

TEST: Final = """\
import os
import sys

sys.path.insert(0, os.getcwd())
from shop.totals import total

found = total(2)
if found != 4:
    sys.exit(f"total(2) is {found} and not 4")
"""
"""A check that is quick, because the agents are what is tested here."""

FILE: Final = "shop/totals.py"
BEFORE: Final = "    return amount"
WRONG: Final = "    return amount * 3"
RIGHT: Final = "    return amount * 2"
RED: Final = "total(2) is 6 and not 4"
"""What the check says about the wrong one."""

PLAN: Final[dict[str, Any]] = {
    "steps": [
        {
            "id": "step-1",
            "description": "Make total return the double.",
            "intended_changes": [{"pattern": FILE, "operations": ["modify"]}],
            "symbols": ["total"],
            "expected_evidence": ["the tests pass"],
            "discharges": [],
            "declares_gate_changes": False,
        }
    ],
    "assumptions": [],
    "risks": [],
    "stop_conditions": [],
}

_LEVELS: Final[dict[str, Level]] = {"none": "S0", "weak": "S1", "reduced": "S2", "full": "S3"}


def edits(line: str) -> dict[str, Any]:
    """The answer that replaces the one line that matters."""
    absent = dict.fromkeys(("text", "base64", "to", "executable"))
    return {
        "summary": "Changed total.",
        "edits": [{"op": "edit", "path": FILE, "old": BEFORE + "\n", "new": line + "\n", **absent}],
    }


class Product:
    """The installed agent, the shop with a red check, and the command."""

    def __init__(self, shop: Shop, agent: Installed, server: ModelServer) -> None:
        self.shop = shop
        self.agent = agent
        self._server = server
        shop.write("check.py", TEST)
        shop.commit("a red check")

    @property
    def level(self) -> Level:
        """The sandbox level of a run here."""
        return min(strongest(), _LEVELS[os.environ.get("SAVANT_SANDBOX", "full")])

    @property
    def has_shell(self) -> bool:
        """Whether the agent may run commands here; Codex always may, in its own sandbox where it has none of ours."""
        return self.level > "S0" or self.agent.name == "codex"

    @property
    def target(self) -> Path:
        """Where an admitted change goes."""
        return self.shop.root / "applied"

    def configure(self, home: Path, script: Script, **settings: str) -> None:
        """Write the person's configuration: the agent's model is the script."""
        url = base_url(self.agent.name, self._server.url(script))
        lines = {"base_url": url, "model": model_of(self.agent.name), **settings}
        path = home / "config" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        table = "".join(f'{name} = "{value}"\n' for name, value in lines.items())
        path.write_text(f"[agents.{self.agent.name}]\n{table}")
        path.chmod(0o600)

    def words(self, mode: str) -> tuple[str, ...]:
        """The words of a run with the agent, the red check, and application."""
        check = f"{sys.executable} check.py"
        chosen = ("--agent", self.agent.name, "--agent-mode", mode)
        allowed = () if self.level >= "S2" else ("--allow-unsandboxed",)
        return ("Let total return the double.", *chosen, *allowed, "--must-pass", check, "--apply", str(self.target))

    def run(self, mode: str, *arguments: str) -> Ended:
        """``savant run``."""
        return self.shop.run(*self.words(mode), *arguments)

    def calls(self, run: str) -> list[dict[str, Any]]:
        """The calls of a run as the record has them."""
        return list(self.shop.savant("show", run, "--format", "json").json["calls"])


def person_of(agent: Installed, root: Path, patch: pytest.MonkeyPatch) -> None:
    """An environment in which the agent is found on the PATH and has a key, and nothing else of ours is seen."""
    patch.setenv("PATH", os.pathsep.join([str(agent.wrapper.parent), os.environ["PATH"]]))
    patch.setenv("HOME", str(root / "person"))
    for profile in PROFILES.values():
        for source in profile.sources:
            patch.delenv(source.name, raising=False)
    patch.setenv(PROFILES[agent.name].sources[0].name, KEY)
