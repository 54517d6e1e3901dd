"""What ``init --ci`` and ``--hook`` write, as far as it can be tried without a forge."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from savant.cli.workflows import CHECKOUT, PIPELINES
from tests.e2e.conftest import GIT_ENV, Shop, git


def words_of(text: str) -> list[str]:
    """The gate's command in a pipeline, its folded lines put together, without the shell's redirection."""
    (line,) = re.findall(r'savant(?:"|) gate (.*?)(?:\n\n|\n  artifacts|\Z)', text, re.DOTALL)
    return ["gate", *shlex.split(" ".join(line.split()).partition(" > ")[0])]


@pytest.mark.parametrize("forge", PIPELINES)
def test_a_pipeline_is_written_once(shop: Shop, forge: str) -> None:
    """Beside the rules; what is there is kept, and nothing is written through a link."""
    words = ("init", "--no-try-checks", "--ci", forge, "--format", "json")
    first = shop.savant(*words).json
    assert first["written"] == ["config.toml", "policy.toml", PIPELINES[forge].path]
    path = shop.path / PIPELINES[forge].path
    text = path.read_text()
    assert "savant-synthesis==" in text
    assert (
        shop.savant("init", "--no-try-checks", "--ci", forge, "--format", "json").json["kept"][-1]
        == PIPELINES[forge].path
    )
    path.unlink()
    path.symlink_to(shop.path / "README.txt")
    assert (
        PIPELINES[forge].path in shop.savant("init", "--no-try-checks", "--ci", forge, "--format", "json").json["kept"]
    )
    assert (shop.path / "README.txt").read_text() == "A shop.\n"


def test_the_pipeline_of_github_has_no_more_than_it_needs() -> None:
    """It reads, keeps no credential, uses one action by its digest, and nothing of the event in a shell."""
    text = PIPELINES["github"].text("1")
    assert "permissions:\n  contents: read\n" in text
    assert "persist-credentials: false" in text
    assert re.findall(r"uses: (\S+)", text) == [CHECKOUT.partition(" ")[0]]
    assert re.fullmatch(r"actions/checkout@[0-9a-f]{40}", CHECKOUT.partition(" ")[0])
    assert re.findall(r"run: .*\$\{\{", text) == []
    assert "pull_request_target" not in text


def test_the_command_of_each_pipeline_runs_in_a_clone(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone without a ledger: the change is judged there, reported, and nothing is stopped by default."""
    base = git(shop.path, "rev-parse", "HEAD")
    git(shop.path, "checkout", "-q", "-b", "work")
    shop.write("shop/totals.py", "def total(amount):\n    return amount + 0\n")
    head = shop.commit("work")
    clone = shop.root / "clone"
    git(shop.root, "clone", "-q", "--branch", "work", str(shop.path), str(clone))
    event = shop.root / "event.json"
    event.write_text(json.dumps({"pull_request": {"base": {"sha": base}, "head": {"sha": head}}}))
    values = {
        "$GITHUB_EVENT_PATH": str(event),
        "$GITHUB_STEP_SUMMARY": str(shop.root / "summary.md"),
        "$CI_MERGE_REQUEST_DIFF_BASE_SHA..$CI_COMMIT_SHA": f"{base}..{head}",
    }
    monkeypatch.setenv("CI", "true")
    for forge in PIPELINES:
        words = [values.get(word, word) for word in words_of(PIPELINES[forge].text("1"))]
        ended = shop.savant(*words, "--repo", str(clone), repo=False)
        assert ended.code == 0, (words, ended.out, ended.err)
        told = {"github": "::warning title=savant ", "gitlab": "<testsuite "}[forge]
        assert told in ended.out  # no check is configured: a person is needed
        assert "gate.judged-waiting" in ended.out
        stopped = shop.savant(*words, "--mode", "all", "--repo", str(clone), repo=False)
        assert stopped.code == 25
        passed = shop.savant(*words, "--mode", "all", "--check", "/bin/true", "--repo", str(clone), repo=False)
        assert passed.code == 0, (passed.out, passed.err)
    assert "judged" in (shop.root / "summary.md").read_text()


def test_the_hook_asks_the_gate_before_a_push(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git runs it; under a policy that stops, an ungoverned commit is not pushed, and a deletion asks nothing."""
    shop.savant("init", "--no-try-checks", "--hook")
    hook = shop.path / ".git/hooks/pre-push"
    assert stat.S_IMODE(hook.stat().st_mode) == 0o755
    policy = shop.path / ".savant/policy.toml"
    policy.write_text(re.sub(r'(?m)^mode = "report"', 'mode = "all"', policy.read_text()))
    shop.commit("rules")
    remote = shop.root / "remote.git"
    git(shop.root, "init", "-q", "--bare", str(remote))
    beside = Path(sys.executable).parent
    environment = {**GIT_ENV, "PATH": f"{beside}:{GIT_ENV['PATH']}", "SAVANT_HOME": os.environ["SAVANT_HOME"]}

    def push(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["git", "push", "-q", str(remote), *words]
        return subprocess.run(command, cwd=shop.path, env=environment, capture_output=True, text=True, check=False)

    git(shop.path, "push", "-q", "--no-verify", str(remote), "main")
    shop.write("README.txt", "mine\n")
    shop.commit("by hand")
    refused = push("main")
    assert refused.returncode != 0
    assert "CANNOT TELL" in refused.stdout + refused.stderr
    git(shop.path, "reset", "-q", "--hard", "HEAD~1")
    assert push("main").returncode == 0
    git(shop.path, "push", "-q", "--no-verify", str(remote), "main:other")
    assert push("--delete", "other").returncode == 0
