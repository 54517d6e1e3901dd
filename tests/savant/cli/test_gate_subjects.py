"""Ranges, events, modes and forms of the gate on real commits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from evaluator.formats import parse_junit, parse_sarif
from savant.cli.app import run_command
from tests.driver.runkit import Recorded, git, record_run

Asked = tuple[int, str]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setenv("SAVANT_HOME", str(folder))
        patch.delenv("CI", raising=False)
        yield folder


@pytest.fixture(scope="module")
def made(home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Recorded, str]:
    """An applied run and the commit of its target."""
    root = tmp_path_factory.mktemp("made")
    recorded = record_run(root)
    assert recorded.command("apply", "--repo", recorded.repo, "--new", root / "target") == 0
    git(root / "target", "commit", "--quiet", "--all", "--message", "a is two")
    return recorded, git(root / "target", "rev-parse", "HEAD")


@pytest.fixture
def work(made: tuple[Recorded, str]) -> Iterator[Callable[..., str]]:
    """A branch from main for this test; commits with a message."""
    repo = made[0].repo
    git(repo, "checkout", "--quiet", "-B", "work", "main")

    def commit(message: str, **files: str) -> str:
        for name, text in files.items():
            (repo / name.replace("_", ".")).write_text(text)
        git(repo, "add", "--all")
        git(repo, "commit", "--quiet", "--allow-empty", "--message", message)
        return git(repo, "rev-parse", "HEAD")

    yield commit
    git(repo, "reset", "--quiet", "--hard")
    git(repo, "checkout", "--quiet", "main")


@pytest.fixture
def ask(made: tuple[Recorded, str], capsys: pytest.CaptureFixture[str]) -> Callable[..., Asked]:
    def run(*words: object, command: str = "gate") -> Asked:
        capsys.readouterr()
        code = run_command([command, *map(str, words), "--repo", str(made[0].repo)])
        return code, capsys.readouterr().out

    return run


def told(asked: Asked) -> tuple[int, Any]:
    return asked[0], json.loads(asked[1])


def event(tmp_path: Path, **members: Any) -> Path:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(members))
    return path


def test_each_commit_of_a_range_is_judged(
    made: tuple[Recorded, str], work: Callable[..., str], ask: Callable[..., Asked]
) -> None:
    """One is governed and one is not; the default reports, all stops, and declared stops what says it is governed."""
    git(made[0].repo, "cherry-pick", made[1])
    work("by hand", c_py="c = 1\n")
    code, said = told(ask("main..work", "--format", "json"))
    assert (code, said["mode"], said["stopped"]) == (0, "report", False)
    assert [item["answer"] for item in said["commits"]] == ["governed", "not-governed"]
    code, said = told(ask("main..work", "--format", "json", "--mode", "all"))
    assert (code, [item["stopped"] for item in said["commits"]]) == (25, [False, True])
    assert ask("main..work", "--mode", "declared")[0] == 0
    work("claimed\n\nSavant-Run: 0123456789ab\n", d_py="d = 1\n")
    code, said = told(ask("main..work", "--format", "json", "--mode", "declared"))
    assert (code, [item["stopped"] for item in said["commits"]]) == (25, [False, False, True])


def test_several_commits_may_be_one_governed_change(
    made: tuple[Recorded, str], work: Callable[..., str], ask: Callable[..., Asked]
) -> None:
    """The same change in two steps, as one whole; squashed, it is one commit that makes it."""
    work("half", a_py="a = 1.5\n")
    work("whole", a_py="a = 2\n")
    code, said = told(ask("main..work", "--format", "json", "--mode", "all"))
    assert (code, said["answer"], len(said["commits"])) == (0, "governed", 1)
    assert [reason["code"] for reason in said["reasons"]] == ["gate.by-identity", "gate.as-one"]
    git(made[0].repo, "reset", "--quiet", "--soft", "main")
    work("squashed")
    code, said = told(ask("main..work", "--format", "json", "--mode", "all"))
    assert (code, said["how"], said["reasons"][0]["code"]) == (0, "identity", "gate.by-identity")


def test_events_of_a_forge(
    made: tuple[Recorded, str], work: Callable[..., str], ask: Callable[..., Asked], tmp_path: Path
) -> None:
    """A pull request is judged by its head on the common commit, a merge group and a push by their ends."""
    repo, main = made[0].repo, git(made[0].repo, "rev-parse", "main")
    git(repo, "cherry-pick", made[1])
    head = git(repo, "rev-parse", "HEAD")
    git(repo, "checkout", "--quiet", "--detach", "main")
    (repo / "z.py").write_text("z = 1\n")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", "main moves on")
    moved = git(repo, "rev-parse", "HEAD")
    git(repo, "merge", "--quiet", "--no-ff", "--no-edit", head)
    merged = git(repo, "rev-parse", "HEAD")
    for members, name, how in (
        ({"pull_request": {"base": {"sha": moved}, "head": {"sha": head}}}, "pull request", "identity"),
        ({"merge_group": {"base_sha": moved, "head_sha": merged}}, "merge group", "change"),
        ({"before": main, "after": head}, "push", "identity"),
        ({"before": "0" * 40, "after": head}, "push", "identity"),
    ):
        code, said = told(ask("--event", event(tmp_path, **members), "--format", "json", "--mode", "all"))
        assert (code, said["subject"], said["how"]) == (0, name, how)
        shape = [reason["code"] for reason in said["reasons"]][1:]
        assert shape == (["gate.merge-commit", "gate.merge-group"] if name == "merge group" else [])
    assert said["parents"] == 1


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"pull_request": {}},
        {"pull_request": {"base": {"sha": "main"}, "head": {"sha": "--upload-pack=x"}}},
        {"merge_group": []},
        {"before": 1, "after": 2},
    ],
)
def test_an_event_that_names_no_commit_is_refused(
    made: tuple[Recorded, str], ask: Callable[..., Asked], tmp_path: Path, members: dict[str, Any]
) -> None:
    """Names of branches and options are no ids."""
    assert ask("--event", event(tmp_path, **members))[0] == 22
    (tmp_path / "event.json").write_text("[")
    assert ask("--event", tmp_path / "event.json")[0] == 22


def test_the_forms(
    made: tuple[Recorded, str], work: Callable[..., str], ask: Callable[..., Asked], tmp_path: Path
) -> None:
    """Our own strict readers take SARIF and JUnit; annotations and summary hold no markup of others."""
    git(made[0].repo, "cherry-pick", made[1])
    head = work("by hand | `x` <b>", c_py="c = 1\n")
    code, out = ask("main..work", "--format", "sarif", "--mode", "all")
    (case,) = parse_sarif(out.encode())
    assert (code, case.classname) == (25, "gate.no-candidate")
    code, out = ask("main..work", "--format", "junit", "--mode", "all")
    assert [c.status for c in parse_junit(out.encode())] == ["passed", "failed"]
    assert ET.fromstring(out.encode()).tag == "testsuites"
    assert [c.status for c in parse_junit(ask("main..work", "--format", "junit")[1].encode())] == ["passed", "skipped"]
    code, out = ask("main..work", "--format", "github", "--mode", "all", "--summary", tmp_path / "summary.md")
    assert out.startswith(f"::error title=savant {head[:12]}::")
    assert out.count("\n") == 1
    assert ask("main..work", "--format", "github")[1].startswith("::warning ")
    summary = (tmp_path / "summary.md").read_text()
    assert f"| `{head[:12]}` | not-governed |" in summary
    ask("main..work", "--summary", tmp_path / "summary.md")
    assert (tmp_path / "summary.md").read_text().startswith(summary)
    text = ask("main..work", "--mode", "all")[1]
    assert text.splitlines()[-1] == "1 of 2 governed; mode all: 1 stopped"


def test_the_ledger_may_only_grow(made: tuple[Recorded, str], ask: Callable[..., Asked], tmp_path: Path) -> None:
    """What was seen is kept; a ledger that is shorter, another one, or has other records is refused."""
    seen = tmp_path / "seen.json"
    words = (made[1], "--seen", seen, "--mode", "all", "--format", "json")
    assert told(ask(*words))[0] == 0
    kept = json.loads(seen.read_text())
    assert told(ask(*words))[0] == 0
    for changed in (
        {**kept, "records": kept["records"] + 1},
        {**kept, "root": "00" * 32},
        {**kept, "ledger": "blake3:" + "0" * 64},
        {},
    ):
        seen.write_text(json.dumps(changed))
        code, said = told(ask(*words))
        assert (code, said["answer"], said["reasons"][0]["code"]) == (23, "cannot-tell", "gate.older-ledger")
        assert json.loads(seen.read_text()) == changed


def test_what_nothing_explains_is_judged_here(
    made: tuple[Recorded, str], work: Callable[..., str], ask: Callable[..., Asked]
) -> None:
    """By an import into this clone's own ledger: it passes, or a person is needed, or it does not pass."""
    work("by hand", a_py="a = 3\n")
    words = ("--judge", "--format", "json", "--mode", "all", "--check")
    code, said = told(ask(*words, "/bin/true"))
    assert (code, said["answer"], said["reasons"][0]["code"]) == (0, "governed", "gate.judged"), said
    assert said["limitations"] == ["Nothing says how the commit was made: checks and rules were applied to it here."]
    code, said = told(ask(*words, "/usr/bin/grep -q 1 a.py"))
    assert (code, said["reasons"][0]["code"]) == (25, "gate.judged-refused"), said


def test_checks_of_a_governed_commit_run_again(
    made: tuple[Recorded, str], ask: Callable[..., Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for, or in CI as the policy says; a check that fails here stops it."""
    bad = ("--check", "/usr/bin/grep -q 1 a.py", "--format", "json", "--mode", "all")
    code, said = told(ask(made[1], "--evaluate", *bad))
    assert (code, said["reasons"][0]["code"]) == (25, "gate.evaluation-failed"), said
    assert told(ask(made[1], *bad))[0] == 0
    monkeypatch.setenv("CI", "true")
    assert told(ask(made[1], *bad))[0] == 25
    assert told(ask(made[1], "--no-evaluate", *bad))[0] == 0
    assert told(ask(made[1], "--evaluate", "--check", "/bin/true", "--format", "json", "--mode", "all"))[0] == 0


def test_coverage_says_what_stands_behind_each_commit(
    made: tuple[Recorded, str], work: Callable[..., str], ask: Callable[..., Asked]
) -> None:
    """Governed by evidence; the rest by what it says of itself, which never makes it governed."""
    git(made[0].repo, "cherry-pick", made[1])
    work("mine\n\nSavant-Author: human\n", c_py="c = 1\n")
    work("now\n\nSavant-Emergency: the shop is down\n", d_py="d = 1\n")
    code, said = told(ask("main..work", "--format", "json", command="coverage"))
    assert (code, [item["is"] for item in said["commits"]]) == (0, ["governed", "declared-human", "emergency"])
    work("who knows\n\nSavant-Run: 0123\n", e_py="e = 1\n")
    code, out = ask("main..work", command="coverage")
    assert code == 25
    assert "the shop is down" in out
    assert out.splitlines()[-1] == "1 governed, 1 declared human, 1 emergency, 1 UNEXPLAINED"
    assert ask("work", command="coverage")[0] == 2
    assert ask("work..work", command="coverage") == (0, "no commit\n")


def test_commits_as_one_change_are_held_to_what_one_commit_is_held_to(
    made: tuple[Recorded, str], work: Callable[..., str], ask: Callable[..., Asked]
) -> None:
    """The checks run again on the whole, and the custody that the target demands counts for it."""
    work("half", a_py="a = 1.5\n")
    work("whole", a_py="a = 2\n")
    words = ("main..work", "--format", "json", "--mode", "all")
    assert told(ask(*words, "--evaluate", "--check", "/bin/true"))[0] == 0
    assert told(ask(*words, "--evaluate", "--check", "/usr/bin/grep -q 1 a.py"))[0] == 25
    policy = made[0].repo / ".savant/policy.toml"
    git(made[0].repo, "checkout", "--quiet", "-B", "strict", "main")
    policy.write_text(re.sub(r'(?m)^custody = "A"', 'custody = "B"', policy.read_text()))
    git(made[0].repo, "commit", "--quiet", "--all", "--message", "custody")
    git(made[0].repo, "checkout", "--quiet", "work")
    code, said = told(ask("strict..work", "--format", "json", "--mode", "all"))
    assert (code, [item["answer"] for item in said["commits"]]) == (25, ["not-governed", "not-governed"])


def test_commits_that_pass_only_together_are_judged_as_one(work: Callable[..., str], ask: Callable[..., Asked]) -> None:
    """A commit on the way may be broken where the change as a whole is judged here."""
    work("broken", a_py="a = 9\n")
    work("mended", a_py="a = 11\n")
    words = ("main..work", "--judge", "--format", "json", "--mode", "all", "--check")
    code, said = told(ask(*words, "/usr/bin/grep -q 1 a.py"))
    assert (code, said["answer"], len(said["commits"])) == (0, "governed", 1), said
    work("broken again", a_py="a = 9\n")
    code, said = told(ask(*words, "/usr/bin/grep -q 1 a.py"))
    assert (code, [item["stopped"] for item in said["commits"]]) == (25, [True, False, True])


def test_rules_that_cannot_be_read_stop(
    made: tuple[Recorded, str], work: Callable[..., str], ask: Callable[..., Asked], tmp_path: Path
) -> None:
    """They may have said to stop everything: a broken policy at the target, and a base that a shallow clone lacks."""
    work("half", a_py="a = 1.5\n")
    assert told(ask("main..work", "--format", "json"))[0] == 0
    git(made[0].repo, "checkout", "--quiet", "-B", "broken", "main")
    (made[0].repo / ".savant/policy.toml").write_text("mode = \n")
    git(made[0].repo, "commit", "--quiet", "--all", "--message", "broken")
    git(made[0].repo, "checkout", "--quiet", "work")
    for more in ((), ("--judge", "--check", "/bin/true")):
        code, said = told(ask("broken..work", "--format", "json", *more))
        assert (code, said["mode"], said["commits"][0]["reasons"][0]["code"]) == (12, "all", "gate.unreadable"), said
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth", "1", "--branch", "work", made[0].repo.as_uri(), str(clone))
    assert run_command(["gate", "--repo", str(clone)]) == 12


def test_a_damaged_record_is_not_judged_away(
    made: tuple[Recorded, str], work: Callable[..., str], ask: Callable[..., Asked], tmp_path: Path
) -> None:
    """``--judge`` is for what nothing explains; a ledger that was rolled back stays refused."""
    work("by hand", a_py="a = 3\n")
    seen = tmp_path / "seen.json"
    words = ("--seen", seen, "--judge", "--check", "/bin/true", "--mode", "all", "--format", "json")
    assert told(ask(*words))[0] == 0
    seen.write_text(json.dumps({**json.loads(seen.read_text()), "root": "00" * 32}))
    code, said = told(ask(*words))
    assert (code, said["reasons"][0]["code"]) == (23, "gate.older-ledger"), said


def test_a_tree_that_nobody_committed_yet(
    made: tuple[Recorded, str],
    work: Callable[..., str],
    ask: Callable[..., Asked],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The index of an applied worktree is governed on its base; one byte more is not; checks need a commit."""
    repo = made[0].repo
    tree = git(repo, "rev-parse", made[1] + "^{tree}")
    words = ("--tree", "--format", "json", "--mode", "all")
    code, said = told(ask(tree, "--base", "main", *words))
    assert (code, said["subject"], said["answer"], said["how"]) == (0, "tree", "governed", "identity"), said
    assert told(ask(tree, *words))[0] == 0
    (repo / "a.py").write_text("a = 2\n\n")
    git(repo, "add", "a.py")
    code, said = told(ask(git(repo, "write-tree"), *words))
    assert (code, said["reasons"][0]["code"]) == (25, "gate.differs"), said
    blob = git(repo, "rev-parse", "main:a.py")
    assert ask("0" * 40, *words)[0] == ask(blob, *words)[0] == 22
    assert ask(tree, "--judge", *words)[0] == ask(tree, "--evaluate", *words)[0] == 2
    monkeypatch.setenv("CI", "true")
    assert told(ask(tree, *words))[0] == 12
    assert told(ask(tree, "--no-evaluate", *words))[0] == 0
