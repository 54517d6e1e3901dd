"""What ``init --ci`` and ``--hook`` write, as far as it can be tried without a forge."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from savant.cli.workflows import CHECKOUT, PIPELINES
from tests.e2e.conftest import GIT_ENV, Shop, git

GATES = {"github": r"        run: \|\n((?:          .*\n)+)\Z", "gitlab": r"    - \|\n((?:      .*\n)+)"}
"""Where the gate's script is in each pipeline."""


def script_of(forge: str, savant: Path) -> str:
    """The gate's script, with the command as it is installed here."""
    (block,) = re.findall(GATES[forge], PIPELINES[forge].text("1"))
    named = {"github": '"$RUNNER_TEMP/savant/bin/savant"', "gitlab": "/opt/savant/bin/savant"}[forge]
    assert named in block
    return textwrap.dedent(block).replace(named, str(savant))


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


class Pipeline:
    """A clone of the shop as a forge's runner has it, and the gate's script there."""

    def __init__(self, shop: Shop, forge: str, base: str, branch: str) -> None:
        self.root = shop.root / f"runner-{forge}"
        self.root.mkdir()
        self.clone = self.root / "clone"
        git(self.root, "clone", "-q", "--branch", branch, str(shop.path), str(self.clone))
        self.head = git(self.clone, "rev-parse", "HEAD")
        event = self.root / "event.json"
        event.write_text(json.dumps({"pull_request": {"base": {"sha": base}, "head": {"sha": self.head}}}))
        self._script = script_of(forge, Path(sys.executable).parent / "savant")
        self._env = {
            **GIT_ENV,
            "CI": "true",
            "SAVANT_HOME": str(self.root / "home"),
            "RUNNER_TEMP": str(self.root),
            "BASE": base,
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_STEP_SUMMARY": str(self.root / "summary.md"),
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": base,
            "CI_COMMIT_SHA": self.head,
        }

    def run(self, *more: str) -> tuple[int, str]:
        """The exit status and what the forge is told; more words for the gate are put behind its own."""
        shutil.rmtree(self.root / "evidence", ignore_errors=True)
        script = self._script.replace('gate "$@"', " ".join(['gate "$@"', *map(shlex.quote, more)]))
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        done = subprocess.run(command, cwd=self.clone, env=self._env, capture_output=True, text=True, check=False)
        report = self.clone / "savant-gate.xml"
        return done.returncode, done.stdout + done.stderr + (report.read_text() if report.exists() else "")


@pytest.mark.parametrize(("forge", "told"), [("github", "::warning title=savant "), ("gitlab", "<testsuite ")])
def test_the_script_of_each_pipeline_judges_what_nothing_explains(shop: Shop, forge: str, told: str) -> None:
    """A clone without a ledger: the change is judged there, reported, and nothing is stopped by default."""
    base = git(shop.path, "rev-parse", "HEAD")
    git(shop.path, "checkout", "-q", "-b", "work")
    shop.write("shop/totals.py", "def total(amount):\n    return amount + 0\n")
    shop.commit("work")
    pipeline = Pipeline(shop, forge, base, "work")
    code, said = pipeline.run()
    assert code == 0, said
    assert told in said  # no check is configured: a person is needed
    assert "gate.judged-waiting" in said
    assert pipeline.run("--mode", "all")[0] == 25
    code, said = pipeline.run("--mode", "all", "--check", "/bin/true")
    assert code == 0, said
    if forge == "github":
        assert "judged" in (pipeline.root / "summary.md").read_text()


@pytest.mark.parametrize("forge", PIPELINES)
def test_the_script_of_each_pipeline_finds_the_evidence_of_a_run(shop: Shop, forge: str) -> None:
    """The commit names its run, a branch has the bundle, the target lists the ledger: governed, and not judged."""
    run = shop.admitted()
    described = shop.savant("bundle", run, "--output", str(shop.root / "first.tar"), "--format", "json").json
    shop.savant("init", "--no-try-checks")
    listed = f'[[ledger]]\nid = "{described["ledger"]}"\nroot = "{described["root"]}"\n'
    (shop.path / ".savant/ledgers.toml").write_text(listed)
    base = shop.commit("rules")
    run = shop.admitted()
    target = shop.root / "target"
    assert shop.savant("apply", run, "--new", str(target)).code == 0
    git(target, "checkout", "-q", "-b", "work")
    git(target, "commit", "-q", "--all", "--message", "more", "--trailer", f"Savant-Run: {run}")
    for command in shop.savant("bundle", run, "--branch", "--output", str(shop.root / "b"), "--format", "json").json[
        "commands"
    ][:2]:
        subprocess.run(command, shell=True, cwd=shop.path, check=True, env=GIT_ENV)
    pipeline = Pipeline(shop, forge, base, "work")
    code, said = pipeline.run("--no-evaluate", "--mode", "all", "--format", "json")
    assert code == 0, said
    assert '"gate.by-identity"' in said
    assert "gate.judged" not in said
    git(shop.path, "branch", "-D", f"savant-evidence/{run}")
    git(pipeline.clone, "update-ref", "-d", f"refs/remotes/origin/savant-evidence/{run}")
    code, said = pipeline.run("--no-evaluate", "--mode", "all", "--format", "json")
    assert "gate.judged" in said


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


def test_the_hook_asks_about_every_commit_of_a_branch_that_is_new_there(shop: Shop) -> None:
    """Not about its tip alone: an ungoverned commit below a governed one is met."""
    shop.savant("init", "--no-try-checks", "--hook")
    policy = shop.path / ".savant/policy.toml"
    policy.write_text(re.sub(r'(?m)^mode = "report"', 'mode = "all"', policy.read_text()))
    shop.commit("rules")
    remote = shop.root / "remote.git"
    git(shop.root, "init", "-q", "--bare", str(remote))
    git(shop.path, "remote", "add", "origin", str(remote))
    git(shop.path, "push", "-q", "--no-verify", "origin", "main")
    git(shop.path, "checkout", "-q", "-b", "work")
    shop.write("README.txt", "by hand\n")
    below = shop.commit("by hand")
    run = shop.admitted()
    target = shop.root / "target"
    assert shop.savant("apply", run, "--new", str(target)).code == 0
    git(target, "commit", "-q", "--all", "--message", "governed")
    git(shop.path, "merge", "-q", "--ff-only", git(target, "rev-parse", "HEAD"))
    assert shop.savant("gate", "HEAD", "--mode", "all").code == 0
    beside = Path(sys.executable).parent
    environment = {**GIT_ENV, "PATH": f"{beside}:{GIT_ENV['PATH']}", "SAVANT_HOME": os.environ["SAVANT_HOME"]}
    command = ["git", "push", "-q", "origin", "work"]
    done = subprocess.run(command, cwd=shop.path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert below[:10] in done.stdout + done.stderr


def entries() -> dict[str, str]:
    """The entry of each hook that pre-commit is offered, by its stage."""
    text = (Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text()
    found = re.findall(r"(?m)^  entry: (.*)\n  language: python\n  stages: \[(.*)\]$", text)
    return {stage: entry for entry, stage in found}


def test_the_hooks_of_pre_commit_ask_the_gate(shop: Shop) -> None:
    """As pre-commit starts them: what is staged, then what is pushed; stopped as the policy says, else let through."""
    beside = Path(sys.executable).parent
    environment = {**GIT_ENV, "PATH": f"{beside}:{GIT_ENV['PATH']}", "SAVANT_HOME": os.environ["SAVANT_HOME"]}

    def hook(stage: str, **more: str) -> tuple[int, str]:
        words = shlex.split(entries()[stage])
        done = subprocess.run(
            words, cwd=shop.path, env={**environment, **more}, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    shop.savant("init", "--no-try-checks")
    policy = shop.path / ".savant/policy.toml"
    policy.write_text(re.sub(r'(?m)^mode = "report"', 'mode = "all"', policy.read_text()))
    base = shop.commit("rules")
    run = shop.admitted()
    target = shop.root / "target"
    assert shop.savant("apply", run, "--new", str(target)).code == 0
    shutil.copy(target / "shop/totals.py", shop.path / "shop/totals.py")
    git(shop.path, "add", "--all")
    code, said = hook("pre-commit")
    assert (code, "GOVERNED" in said) == (0, True), said
    (shop.path / "shop/totals.py").write_text("by hand\n")
    git(shop.path, "add", "--all")
    code, said = hook("pre-commit")
    assert (code, "NOT GOVERNED" in said) == (25, True), said
    head = shop.commit("by hand")
    refs = {"PRE_COMMIT_FROM_REF": base, "PRE_COMMIT_TO_REF": head}
    assert hook("pre-push", **refs)[0] == 25
    assert hook("pre-push")[0] == 25  # a first push, for which pre-commit names nothing
    assert shop.savant("gate", "..").code == 2
    assert hook("pre-push", PRE_COMMIT_FROM_REF=f"{base}~1", PRE_COMMIT_TO_REF=f"{base}~1")[0] == 0
