"""Which real agents are here, as ``make agents`` found; a test that needs another one is skipped and says why."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from commandprovider.profiles import PROFILES

ROOT: Final = Path(__file__).resolve().parents[2]
PLACE: Final = ROOT / ".agents"
DEFAULT: Final = ("claude", "codex", "gemini")
"""What the default suite drives; everything else is driven by ``make test-agents``."""

IN_FULL: Final = os.environ.get("SAVANT_AGENT_EXAMPLES") == "1"
"""Whether this is ``make test-agents``."""

in_full = pytest.mark.skipif(not IN_FULL, reason="make test-agents drives the rest")
"""For what would make the default suite slow."""

_ARCHITECTURES: Final = {"x86_64": "x64", "aarch64": "arm64"}


class Installed(msgspec.Struct, frozen=True):
    """An agent that is here.

    :param wrapper: what a person's PATH leads to. :param native: the program itself.
    """

    name: str
    version: str
    wrapper: Path
    native: Path


def installed(name: str) -> Installed | str:
    """The agent, or why it is not here."""
    if name not in DEFAULT and not IN_FULL:
        return "driven by make test-agents only"
    state = _state()
    for group, told in state.items():
        if name in told.get("missing", {}):
            return f"{name} could not be installed: {told['missing'][name]}"
        if name in told.get("installed", {}):
            here = told["installed"][name]
            wrapper = PLACE / group / here["program"]
            return Installed(name, here["version"], wrapper, _native(PLACE / group, name) or wrapper)
    return f"{name} is not installed; make agents installs it"


def need(name: str) -> Installed:
    """The agent; skips the test that asks where it is not here."""
    found = installed(name)
    if isinstance(found, str):
        pytest.skip(found)
    return found


def _state() -> Mapping[str, Mapping[str, Any]]:
    try:
        return dict(json.loads((PLACE / "state.json").read_text("utf-8")))
    except FileNotFoundError:
        return {}


def _native(folder: Path, name: str) -> Path | None:
    profile = PROFILES.get(name)
    if profile is None or profile.native is None:
        return None
    system, machine = platform.system().lower(), platform.machine()
    pattern = profile.native.binary.format(os=system, arch=_ARCHITECTURES.get(machine, machine))
    return next((folder / "node_modules").glob(pattern), None)
