"""``replay`` from the command line, on a run that the command line made."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from savant.cli.app import run_command
from savant.ledger.sqlitestore import DATABASE_NAME
from tests.driver.runkit import Recorded, record_run


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """One admitted run of two attempts."""
    root = tmp_path_factory.mktemp("replay")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAVANT_HOME", str(root / "home"))
        yield record_run(root)


def ask(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    capsys.readouterr()
    code = run_command([*map(str, arguments), "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_latest_run_replays(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0, every step listed, and nothing in the repository was written."""
    before = {p: p.stat().st_mtime_ns for p in recorded.repo.rglob("*")}
    code, said = ask(capsys, "replay", "--repo", recorded.repo)
    (run,) = said["runs"]
    assert (code, said["ending"], said["outcome"], run["first_divergence"]) == (0, "ok", "replayed", None)
    assert run["steps"][0]["name"] == "ledger"
    assert {step["status"] for step in run["steps"]} == {"pass"}
    assert {p: p.stat().st_mtime_ns for p in recorded.repo.rglob("*")} == before


def test_people_read_words(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    """One line per step, and the verdict."""
    assert run_command(["replay", "--repo", str(recorded.repo)]) == 0
    out = capsys.readouterr().out
    assert out.count("pass") == 11
    assert "REPLAYED" in out


def test_a_run_is_named_by_a_prefix_or_all_are_taken(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    """A unique prefix, all runs, and what names none."""
    run = recorded.history().run_id
    assert ask(capsys, "replay", run[:8].upper(), "--repo", recorded.repo)[1]["runs"][0]["run"] == run
    assert [r["run"] for r in ask(capsys, "replay", "--all", "--repo", recorded.repo)[1]["runs"]] == [run]
    code, said = ask(capsys, "replay", "zz", "--repo", recorded.repo)
    assert (code, said["code"]) == (2, "usage.unknown-run")


def test_a_tampered_copy_diverges_at_the_ledger(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A record whose line was changed is named; the copy before the change replays."""
    copy = tmp_path / "copy"
    shutil.copytree(recorded.directory, copy)
    assert ask(capsys, "replay", "--repo", recorded.repo, "--ledger", copy)[0] == 0
    with sqlite3.connect(copy / DATABASE_NAME) as connection:
        (line,) = connection.execute("SELECT line FROM record WHERE seq = 54").fetchone()
        connection.execute("UPDATE record SET line = ? WHERE seq = 54", (line.replace(b"A", b"B", 1),))
    connection.close()
    code, said = ask(capsys, "replay", "--repo", recorded.repo, "--ledger", copy)
    assert (code, said["ending"], said["runs"][0]["first_divergence"]) == (23, "unverified", "ledger")


def test_without_a_pin_nobody_says_that_it_is_the_right_ledger(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another person's configuration does not vouch: incomplete, not replayed."""
    monkeypatch.setenv("SAVANT_HOME", str(tmp_path / "stranger"))
    code, said = ask(capsys, "replay", "--repo", recorded.repo)
    steps = {step["name"]: step["status"] for step in said["runs"][0]["steps"]}
    assert (code, said["outcome"], steps.pop("ledger")) == (12, "incomplete", "not-shown")
    assert set(steps.values()) == {"pass"}
