"""Reasons of the gate that need something to be broken or missing; and that each reason is reached by a command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from driver.gate import REASONS
from savant.cli.app import run_command
from savant.contracts.digest import digest
from tests.driver.runkit import FILES, RUN, Recorded, git, record_run

Ask = Callable[..., tuple[int, list[str]]]
HERE = Path(__file__).parent


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Ask the gate in a home of its own: the exit code and the codes of the first commit."""
    monkeypatch.setenv("SAVANT_HOME", str(tmp_path / "home"))

    def run(recorded: Recorded, *words: object) -> tuple[int, list[str]]:
        capsys.readouterr()
        code = run_command(
            ["gate", *map(str, words), "--repo", str(recorded.repo), "--mode", "all", "--format", "json"]
        )
        said: Any = json.loads(capsys.readouterr().out)
        return code, [reason["code"] for reason in said["reasons"]]

    return run


def governed(root: Path, **how: Any) -> tuple[Recorded, str]:
    """A run that was applied, and the commit that was made of it."""
    recorded = record_run(root, **how)
    target = root / "target"
    assert recorded.command("apply", "--repo", recorded.repo, "--new", target) == 0
    git(target, "commit", "--quiet", "--all", "--message", "a is two")
    return recorded, git(target, "rev-parse", "HEAD")


def path_of(recorded: Recorded, object_digest: str) -> Path:
    hex_ = object_digest.partition(":")[2]
    return recorded.directory / "objects" / hex_[:2] / hex_[2:]


def test_a_candidate_that_waits_for_a_person_governs_nothing(tmp_path: Path, ask: Ask) -> None:
    """The very bytes of it, committed by hand."""
    words = ("run", "Add CI", "--scope", ".travis.yml", "--recipe", "cp a.py .travis.yml", "--quiet")
    recorded = record_run(tmp_path, run=(*words, "--must-pass", "/bin/true"), expected=10)
    (recorded.repo / ".travis.yml").write_bytes(FILES["a.py"])
    git(recorded.repo, "add", "--all")
    git(recorded.repo, "commit", "--quiet", "--message", "by hand")
    assert ask(recorded) == (25, ["gate.not-admitted"])


def test_a_content_that_was_exchanged_makes_the_run_come_out_differently(tmp_path: Path, ask: Ask) -> None:
    """The ledger is whole and says otherwise than its objects: a check was made and failed."""
    recorded, commit = governed(tmp_path)
    assert ask(recorded, commit) == (0, ["gate.by-identity"])
    path = path_of(recorded, digest(b"a = 2\n"))
    path.chmod(0o600)
    path.write_bytes(b"a = 3\n")
    assert ask(recorded, commit) == (23, ["gate.replay-diverged"])


def test_a_body_that_is_gone_leaves_the_ledger_incomplete(tmp_path: Path, ask: Ask) -> None:
    """A document that is too large for a line lies beside the ledger; without it nothing can be told."""
    words = (*RUN, "--must-pass", f"/bin/true {'x' * 40_000}")
    recorded, commit = governed(tmp_path, run=words)
    assert ask(recorded, commit) == (0, ["gate.by-identity"])
    beside = [path for path in (recorded.directory / "objects").glob("??/*") if path.stat().st_size > 30_000]
    assert beside
    for path in beside:
        path.unlink()
    assert ask(recorded, commit) == (12, ["gate.ledger-incomplete"])


def test_what_cannot_be_judged_here_is_said(tmp_path: Path, ask: Ask) -> None:
    """A check of the base whose tool is not here: no verdict, not even a bad one."""
    config = FILES[".savant/config.toml"] + b'[[check]]\nid = "far"\ncommand = "no-such-tool-anywhere"\n'
    recorded = record_run(tmp_path, files={**FILES, ".savant/config.toml": config}, run=("runs",))
    (recorded.repo / "a.py").write_text("a = 2\n")
    git(recorded.repo, "commit", "--quiet", "--all", "--message", "by hand")
    assert ask(recorded, "--judge") == (12, ["gate.not-judged"])


def test_every_reason_is_reached_by_a_command() -> None:
    """Each code stands in a test that asks the gate through the command line."""
    folders = (HERE, HERE.parents[1] / "e2e")
    names = ("test_cmd_gate.py", "test_gate_codes.py", "test_gate_subjects.py", "test_bundle.py", "test_pipelines.py")
    text = "".join((folder / name).read_text() for folder in folders for name in names if (folder / name).exists())
    assert [code for code in REASONS if f'"{code}"' not in text] == []
