"""``replay`` from the command line, on a run that the command line made."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from admission.documents import Decision, Verification
from candidateapply.documents import Receipt as ApplyReceipt
from candidateapply.documents import UndoReceipt
from driver.replay import STEPS
from savant.cli.app import run_command
from savant.contracts.document import Document
from savant.identity.keys import encode_private
from savant.ledger.sqlitestore import DATABASE_NAME
from savant.repository.sample import create_sample
from tests.driver.runkit import FILES, Recorded, changed, forge, record_run, replay
from tests.vectors.examples import named


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
    assert out.count("  pass  ") == 1 + len(STEPS)
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


ASKING = ("run", "Change the build", "--recipe", "sed -i s/1/2/ Makefile", "--must-pass", "true", "--quiet")
"""A change of a file that the policy asks a person about."""


def test_a_run_with_every_later_step_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Waiting, acknowledged, admitted again, applied, changed by a person, verified, undone: all of it follows."""
    monkeypatch.setenv("SAVANT_HOME", str(tmp_path / "home"))
    recorded = record_run(tmp_path, {**FILES, "Makefile": b"all:\n\techo 1\n"}, ASKING, expected=10)
    key = tmp_path / "key"
    key.write_bytes(encode_private(b"k" * 32))
    key.chmod(0o600)
    repo, target = ("--repo", recorded.repo), tmp_path / "target"
    assert ask(capsys, "replay", *repo)[0] == 0
    (condition,) = recorded.history().need(Decision).document.conditions
    assert recorded.command("acknowledge", condition.id, *repo, "--key", key) == 0
    assert recorded.command("admit", *repo) == 0
    assert recorded.command("apply", *repo, "--new", target) == 0
    (target / "a.py").write_bytes(b"mine")
    assert recorded.command("verify", *repo, target) == 53
    (target / "a.py").write_bytes(FILES["a.py"])
    assert recorded.command("verify", *repo, target) == 0
    assert recorded.command("undo", *repo, target) == 0
    code, said = ask(capsys, "replay", *repo)
    steps = {step["name"]: step["detail"] for step in said["runs"][0]["steps"]}
    assert (code, said["runs"][0]["first_divergence"]) == (0, None)
    assert steps["admission"] == "2 decided again"
    assert steps["application"] == "5 records of it agree"


@pytest.mark.parametrize(
    ("type_", "member"),
    [
        (ApplyReceipt, {"observed_final_digest": named("other")}),
        (ApplyReceipt, {"disposition": "mismatch-kept"}),
        (ApplyReceipt, {"applied_paths": ("b.py",)}),
        (Verification, {"observed_final_digest": named("other")}),
        (Verification, {"head_commit": "sha1:" + "0" * 40}),
        (UndoReceipt, {"restored_digest": named("other")}),
    ],
)
def test_an_application_that_says_something_else_diverges(
    undone: Recorded, type_: type[Document], member: dict[str, Any]
) -> None:
    """What was written, seen and restored is compared with the candidate's digests; untouched records agree."""
    history = undone.history()
    assert replay(undone, history).outcome == "replayed"
    report = replay(undone, forge(history, type_, changed(**member)))
    assert report.first_divergence is not None
    assert report.first_divergence.name == "application"


@pytest.fixture(scope="module")
def undone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """A run that was applied and undone."""
    root = tmp_path_factory.mktemp("undone")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAVANT_HOME", str(root / "home"))
        recorded = record_run(root)
        assert recorded.command("apply", "--repo", recorded.repo, "--new", root / "target") == 0
        assert recorded.command("undo", "--repo", recorded.repo, root / "target") == 0
        yield recorded


@pytest.mark.parametrize(
    ("run", "expected", "phase"),
    [
        (("--recipe", "sed -i s/1/2/ a.py", "--must-pass", "false"), 30, "failed"),
        (("--recipe", "true", "--must-pass", "true"), None, "failed"),
        (("--recipe", "sed -i s/1/2/ .savant/policy.toml", "--must-pass", "true"), None, None),
    ],
)
def test_runs_that_came_to_nothing_replay_too(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    run: tuple[str, ...],
    expected: int | None,
    phase: str | None,
) -> None:
    """Exhausted retries, no change, a refused path: what they ended with follows from their records."""
    monkeypatch.setenv("SAVANT_HOME", str(tmp_path / "home"))
    repo = tmp_path / "repo"
    create_sample(repo, FILES, message="base")
    code = run_command(["run", "Try", *run, "--repo", str(repo), "--quiet"])
    assert code != 0
    assert expected in (None, code)
    status, said = ask(capsys, "replay", "--repo", repo)
    (found,) = said["runs"]
    assert (status, found["first_divergence"]) == (0, None), found
    steps = {step["name"]: step["detail"] for step in found["steps"]}
    assert phase is None or steps["state"].endswith(phase)
