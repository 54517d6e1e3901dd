"""What is installed is driven, or the account fails; what is not installed is counted with its reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ACCOUNT = Path(__file__).resolve().parents[2] / "tools" / "agents" / "account.py"
INSTALLED = {
    "npm": {"suite": "default", "lock": "x", "installed": {"one": {"version": "1.0"}, "two": {"version": "2.0"}}}
}
MISSING = {"npm": {"suite": "default", "missing": {"one": "npm and node are not installed"}}}
EXAMPLE = {"x": {"suite": "examples", "lock": "x", "installed": {"three": {"version": "3.0"}}}}

SOURCE = """
import pytest

@pytest.fixture
def agent(request):
    request.node.user_properties.append(("agent", request.param))

@pytest.mark.parametrize("agent", ["one", "one", "two"], indirect=True)
def test_drive(agent, request):
    if "skip" in request.config.args[-1]:
        pytest.skip("not now")

def test_other():
    pass
"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Real reports of runs in which the tests of two agents ran, and were skipped."""
    made = {}
    for name in ("ran", "skip"):
        folder = tmp_path_factory.mktemp(name)
        source = folder / f"test_{name}.py"
        source.write_text(SOURCE)
        made[name] = folder / "report.xml"
        words = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", f"--junit-xml={made[name]}", str(source)]
        subprocess.run([sys.executable, "-m", "pytest", *words], cwd=folder, check=True, capture_output=True)
    return made


def account(tmp_path: Path, report: Path, state: dict[str, Any] | None, *words: str) -> tuple[int, list[str]]:
    """The status and the lines of the account."""
    place = tmp_path / "state.json"
    if state is not None:
        place.write_text(json.dumps(state))
    argv = [sys.executable, str(ACCOUNT), str(report), "--state", str(place), *words]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()


def test_every_installed_agent_was_driven(tmp_path: Path, reports: dict[str, Path]) -> None:
    """The account counts, and is content."""
    assert account(tmp_path, reports["ran"], INSTALLED) == (
        0,
        ["agents: one (1.0): 2 ran, 0 skipped", "agents: two (2.0): 1 ran, 0 skipped"],
    )


def test_an_agent_that_is_not_installed_is_counted_with_the_reason(tmp_path: Path, reports: dict[str, Path]) -> None:
    """A machine without npm passes, and says what it did not do."""
    assert account(tmp_path, reports["skip"], MISSING) == (
        0,
        ["agents: one: 2 skipped, not installed: npm and node are not installed"],
    )


def test_installed_and_skipped_fails(tmp_path: Path, reports: dict[str, Path]) -> None:
    """A skip is no run."""
    code, lines = account(tmp_path, reports["skip"], INSTALLED)
    assert code == 1
    assert "installed, and not driven" in lines[0]


def test_installed_and_without_a_test_fails(tmp_path: Path, reports: dict[str, Path]) -> None:
    """A suite that lost its tests of an agent does not pass."""
    state = {**INSTALLED, **EXAMPLE}
    assert account(tmp_path, reports["ran"], state)[0] == 0
    code, lines = account(tmp_path, reports["ran"], state, "--examples")
    assert code == 1
    assert lines[-1].startswith("agents: three (3.0): 0 ran, 0 skipped: it is installed")


@pytest.mark.parametrize("state", [None, EXAMPLE])
def test_a_machine_where_nothing_was_installed_nor_tried_fails(
    tmp_path: Path, reports: dict[str, Path], state: dict[str, Any] | None
) -> None:
    """The reason for a skip comes from an attempt to install."""
    assert account(tmp_path, reports["ran"], state) == (1, ["agents: make agents did not run"])
