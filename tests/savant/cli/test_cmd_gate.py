"""``gate`` on real commits: what a run, its application and git made of them."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from admission.policy import policy_toml, starter_policy
from driver.gate import REASONS
from savant.cli.app import run_command
from savant.cli.gate_answers import NEXT
from savant.ledger.sqlitestore import DATABASE_NAME
from tests.driver.runkit import FILES, Recorded, git, record_run

Ask = Callable[..., tuple[int, Any]]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Ask the gate with JSON output: its exit code and its document."""

    def run(recorded: Recorded, *arguments: object) -> tuple[int, Any]:
        capsys.readouterr()
        words = ["gate", *map(str, arguments), "--repo", str(recorded.repo), "--format", "json", "--mode", "all"]
        code = run_command(words)
        return code, json.loads(capsys.readouterr().out)

    return run


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setenv("SAVANT_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def applied(home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Recorded, str]:
    """An admitted, applied and verified run, and the commit that somebody made in the target."""
    root = tmp_path_factory.mktemp("applied")
    recorded = record_run(root)
    return recorded, apply_and_commit(recorded, root / "target")


def apply_and_commit(recorded: Recorded, target: Path) -> str:
    assert recorded.command("apply", "--repo", recorded.repo, "--new", target) == 0
    git(target, "commit", "--quiet", "--all", "--message", "a is two")
    return git(target, "rev-parse", "HEAD")


@pytest.fixture
def branch(applied: tuple[Recorded, str]) -> Iterator[Callable[..., None]]:
    """A branch from the base, for this test alone; commits files on it."""
    repo = applied[0].repo
    git(repo, "checkout", "--quiet", "-B", "work", "main")

    def commit(message: str, **files: str) -> None:
        for name, text in files.items():
            (repo / name.replace("_", ".")).write_text(text)
        git(repo, "add", "--all")
        git(repo, "commit", "--quiet", "--message", message)

    yield commit
    git(repo, "reset", "--quiet", "--hard")
    git(repo, "checkout", "--quiet", "main")


def codes(said: Any) -> list[str]:
    return [reason["code"] for reason in said["reasons"]]


def test_the_commit_of_a_target_is_governed(applied: tuple[Recorded, str], ask: Ask) -> None:
    """By identity, and nothing in the repository is written."""
    recorded, commit = applied
    before = {p: p.stat().st_mtime_ns for p in recorded.repo.rglob("*")}
    code, said = ask(recorded, commit)
    assert (code, said["answer"], said["how"], codes(said)) == (0, "governed", "identity", ["gate.by-identity"])
    assert {p: p.stat().st_mtime_ns for p in recorded.repo.rglob("*")} == before
    assert said["run"] == recorded.history().run_id
    assert said["limitations"] == []


def test_people_read_words(applied: tuple[Recorded, str], capsys: pytest.CaptureFixture[str]) -> None:
    """The answer, the reason, the rules."""
    recorded, commit = applied
    assert run_command(["gate", commit, "--repo", str(recorded.repo)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("GOVERNED: ")
    assert "[gate.by-identity]" in out
    assert "repository policy" in out


def test_an_admitted_candidate_that_nobody_applied_is_not_governed(home: Path, tmp_path: Path, ask: Ask) -> None:
    """The same bytes, committed from the patch: admitted, never verified."""
    recorded = record_run(tmp_path)
    (recorded.repo / "a.py").write_text("a = 2\n")
    git(recorded.repo, "commit", "--quiet", "--all", "--message", "by hand")
    code, said = ask(recorded)
    assert (code, said["ending"], codes(said)) == (25, "not-governed", ["gate.not-verified"])
    again = apply_and_commit(recorded, tmp_path / "target")
    assert ask(recorded, again)[1]["answer"] == "governed"
    assert ask(recorded)[1]["answer"] == "governed"


def test_the_change_on_a_moved_base_is_governed_by_the_rules_there(
    applied: tuple[Recorded, str], branch: Callable[..., None], ask: Ask
) -> None:
    """Cherry-picked onto another base: by change, and the answer says that the checks did not run there."""
    recorded, commit = applied
    branch("something else", c_py="c = 1\n")
    git(recorded.repo, "cherry-pick", commit)
    code, said = ask(recorded)
    assert (code, said["how"], codes(said)) == (0, "change", ["gate.by-change"])
    assert said["limitations"] == ["The checks ran on the base that the candidate was made from, not on this one."]


def test_a_stricter_rule_at_the_moved_base_refuses(
    applied: tuple[Recorded, str], branch: Callable[..., None], ask: Ask
) -> None:
    """The policy in force is the one of the base that the commit stands on."""
    recorded, commit = applied
    strict = structs.replace(starter_policy(), allow=("b.py",))
    (recorded.repo / ".savant" / "policy.toml").write_text(policy_toml(strict))
    branch("stricter rules")
    git(recorded.repo, "cherry-pick", commit)
    code, said = ask(recorded)
    assert (code, codes(said)) == (25, ["gate.refused-here"])


def test_the_head_cannot_bring_its_own_rules(
    applied: tuple[Recorded, str], branch: Callable[..., None], ask: Ask
) -> None:
    """A commit that also loosens the policy is another tree and another change."""
    recorded, commit = applied
    git(recorded.repo, "cherry-pick", "--no-commit", commit)
    (recorded.repo / ".savant" / "policy.toml").write_bytes(FILES[".savant/policy.toml"] + b"# mine\n")
    branch("both")
    code, said = ask(recorded)
    assert (code, codes(said)) == (25, ["gate.differs"])
    assert said["reasons"][0]["detail"].endswith(": .savant/policy.toml")


def test_a_merge_is_compared_with_its_first_parent(
    applied: tuple[Recorded, str], branch: Callable[..., None], ask: Ask
) -> None:
    """What the merge brings into the branch is the governed change."""
    recorded, commit = applied
    branch("something else", c_py="c = 1\n")
    git(recorded.repo, "merge", "--quiet", "--no-ff", "--no-edit", commit)
    said = ask(recorded)[1]
    assert (said["how"], codes(said)) == ("change", ["gate.by-change", "gate.merge-commit"])


def test_a_branch_can_be_asked_about_as_one_change(
    applied: tuple[Recorded, str], branch: Callable[..., None], ask: Ask
) -> None:
    """Two commits that together make the candidate: governed from the base on, neither of them alone."""
    recorded, _ = applied
    branch("halfway", a_py="a = 3\n")
    branch("there", a_py="a = 2\n")
    code, said = ask(recorded, "HEAD", "--base", "main")
    assert (code, said["how"]) == (0, "identity")
    code, said = ask(recorded)
    assert (code, codes(said)) == (25, ["gate.other-base"])
    assert ask(recorded, "HEAD~1")[0] == 25


def test_one_byte_more_is_not_governed(applied: tuple[Recorded, str], branch: Callable[..., None], ask: Ask) -> None:
    """The commit does something that was not admitted."""
    branch("nearly", a_py="a = 2\n\n")
    code, said = ask(applied[0])
    assert (code, codes(said)) == (25, ["gate.differs"])
    assert said["reasons"][0]["detail"].endswith(": a.py")


def test_commits_without_a_change_have_nothing_to_explain(
    applied: tuple[Recorded, str], branch: Callable[..., None], ask: Ask
) -> None:
    """The first commit of all, and an empty one."""
    recorded, _ = applied
    assert codes(ask(recorded, "main")[1]) == ["gate.no-base"]
    git(recorded.repo, "commit", "--quiet", "--allow-empty", "--message", "empty")
    code, said = ask(recorded)
    assert (code, codes(said)) == (25, ["gate.nothing-changed"])


def test_the_built_in_rules_count_only_where_the_base_says_so(home: Path, tmp_path: Path, ask: Ask) -> None:
    """Without rules at the base nothing is governed; a base that accepts the starter policy accepts its candidates."""
    recorded = record_run(tmp_path, {"a.py": b"a = 1\n"})
    commit = apply_and_commit(recorded, tmp_path / "target")
    code, said = ask(recorded, commit)
    assert (code, said["policy_origin"], codes(said)) == (25, "starter", ["gate.starter-policy"])
    accepting = structs.replace(starter_policy(), gate_accepts_starter=True)
    (recorded.repo / ".savant").mkdir()
    (recorded.repo / ".savant" / "policy.toml").write_text(policy_toml(accepting))
    git(recorded.repo, "add", "--all")
    git(recorded.repo, "commit", "--quiet", "--message", "rules")
    git(recorded.repo, "cherry-pick", commit)
    code, said = ask(recorded)
    assert (code, said["policy_origin"], said["how"]) == (0, "repository", "change")


def test_without_a_ledger_or_a_pin_nobody_can_tell(
    applied: tuple[Recorded, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    """A clone has no ledger; another person's configuration has no pin."""
    recorded, commit = applied
    clone = tmp_path / "clone"
    git(recorded.repo, "clone", "--quiet", str(recorded.repo), str(clone))
    git(recorded.repo, "push", "--quiet", str(clone), f"{commit}:refs/heads/change")
    code, said = ask(Recorded(clone, recorded.home), "change")
    assert (code, said["ending"], codes(said)) == (12, "undecided", ["gate.no-ledger"])
    monkeypatch.setenv("SAVANT_HOME", str(tmp_path / "stranger"))
    code, said = ask(recorded, commit)
    assert (code, codes(said)) == (12, ["gate.not-authenticated"])


def test_a_tampered_ledger_never_governs(applied: tuple[Recorded, str], tmp_path: Path, ask: Ask) -> None:
    """A copy of the ledger answers as the ledger does; one changed record, and the check has failed."""
    recorded, commit = applied
    copy = tmp_path / "copy"
    shutil.copytree(recorded.directory, copy)
    assert ask(recorded, commit, "--ledger", copy)[0] == 0
    with sqlite3.connect(copy / DATABASE_NAME) as connection:
        (line,) = connection.execute("SELECT line FROM record WHERE seq = 20").fetchone()
        connection.execute("UPDATE record SET line = ? WHERE seq = 20", (line.replace(b"A", b"B", 1),))
    connection.close()
    code, said = ask(recorded, commit, "--ledger", copy)
    assert (code, said["answer"], said["ending"], codes(said)) == (
        23,
        "cannot-tell",
        "unverified",
        ["gate.ledger-failed"],
    )


def test_a_run_that_cannot_be_replayed_whole_governs_nothing(
    applied: tuple[Recorded, str], tmp_path: Path, ask: Ask
) -> None:
    """Without the stored blobs the ledger is still intact, but the candidate cannot be computed again."""
    recorded, commit = applied
    copy = tmp_path / "copy"
    shutil.copytree(recorded.directory, copy)
    for blob in (copy / "objects").rglob("*"):
        if blob.is_file() and blob.read_bytes() == b"a = 2\n":
            blob.unlink()
    code, said = ask(recorded, commit, "--ledger", copy)
    assert (code, codes(said)) == (12, ["gate.replay-incomplete"])


def test_every_reason_that_stops_says_what_to_do_next() -> None:
    """All but those that go with a governed commit, or say only how a commit came to be."""
    silent = {"gate.by-identity", "gate.by-change", "gate.judged"}
    silent |= {"gate.merge-commit", "gate.merge-group", "gate.as-one"}
    assert set(NEXT) == set(REASONS) - silent


def test_people_are_told_what_to_do_next(
    home: Path, tmp_path: Path, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words and for programs."""
    recorded = record_run(tmp_path)
    (recorded.repo / "a.py").write_text("a = 2\n")
    git(recorded.repo, "commit", "--quiet", "--all", "--message", "by hand")
    assert ask(recorded)[1]["reasons"][0]["next"] == NEXT["gate.not-verified"]
    run_command(["gate", "--repo", str(recorded.repo)])
    assert f"next: {NEXT['gate.not-verified']}" in capsys.readouterr().out
