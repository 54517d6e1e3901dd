"""What a start may load. Modules are named and no time is measured: a busy machine does not fail the test."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

HEAVY = ("acp", "pydantic", "pydantic_core", "git", "gitdb", "cryptography", "rich")
"""Third parties that no package may load by being imported."""

DENIED_AT_START = (
    *HEAVY,
    "msgspec",
    "blake3",
    "asyncio",
    "concurrent",
    "email",
    "http",
    "multiprocessing",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "tomllib",
    "unittest",
    "urllib.request",
    "xml",
)
"""What ``savant --version`` has no use for."""

START = """
import json, sys
from savant.cli.app import main
try:
    main(["--version"])
except SystemExit as ended:
    print(json.dumps({"code": ended.code, "modules": sorted(sys.modules)}))
"""

EACH = """
import importlib, json, sys
loaded, seen = {}, set(sys.modules)
for name in sys.argv[1:]:
    importlib.import_module(name)
    loaded[name] = sorted(set(sys.modules) - seen)
    seen |= set(sys.modules)
print(json.dumps(loaded))
"""


def python(code: str, *arguments: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return ran.stdout


def within(modules: list[str], denied: tuple[str, ...]) -> list[str]:
    return [name for name in modules if any(name == d or name.startswith(d + ".") for d in denied)]


def test_the_version_is_told_without_loading_what_it_does_not_need() -> None:
    """No parser, no cryptography, no database, no network and no stage of the pipeline is loaded."""
    said, report = python(START).splitlines()
    ended = json.loads(report)
    assert said.startswith("savant ")
    assert ended["code"] == 0
    assert within(ended["modules"], DENIED_AT_START) == []
    assert "savant.cli.app" in ended["modules"]


def test_no_stage_is_loaded_at_start(top_packages: tuple[str, ...]) -> None:
    """A command's packages are loaded when the command is called."""
    _, report = python(START).splitlines()
    stages = tuple(package for package in top_packages if package != "savant")
    assert within(json.loads(report)["modules"], stages) == []


def test_importing_a_package_loads_nothing_heavy(sources: Mapping[Path, object]) -> None:
    """Whoever needs a document or an error of a package does not pay for its adapters."""
    names = [".".join(path.parent.parts) for path in sources if path.name == "__init__.py"]
    loaded = json.loads(python(EACH, *names))
    assert len(loaded) > 16
    assert {name: within(modules, HEAVY) for name, modules in loaded.items() if within(modules, HEAVY)} == {}


@pytest.mark.parametrize("name", HEAVY)
def test_the_measurement_would_notice(name: str) -> None:
    """The positive control: a module that loads a denied one is reported."""
    loaded = json.loads(python(EACH, name))
    assert name in within(loaded[name], HEAVY)
