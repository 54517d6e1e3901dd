"""A person at a shell: commands run in this process, with a home of their own, on a real repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from savant.cli.app import run_command
from savant.process.port import Level
from savant.process.posix import SupervisedRunner
from savant.repository.git import Repository
from savant.repository.worktree import ControlState, control_state, observe_tree

BIN = Path(sys.executable).parent
GIT_ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.test",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.test",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}


def git(directory: Path, *arguments: str) -> str:
    """Run git as a person would, without anybody's configuration."""
    done = subprocess.run(["git", *arguments], cwd=directory, env=GIT_ENV, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@cache
def strongest() -> Level:
    """The strongest sandbox level that can be had on this machine."""
    with tempfile.TemporaryDirectory() as place, SupervisedRunner(Path(place)) as runner:
        return runner.level


class Ended(msgspec.Struct, frozen=True):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        return dict(json.loads(self.out))


class Untouched(msgspec.Struct, frozen=True):
    """What must be as it was: the checkout's files and git's own state, worktree entries apart."""

    files: str
    control: ControlState
    worktrees: tuple[str, ...]


class Shop:
    """A repository with a small package, its person, and a shell."""

    def __init__(self, root: Path, capfd: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.path = root / "shop"
        self._capfd = capfd
        self._patch = patch
        self._had_agent = False
        self.path.mkdir()
        git(self.path, "init", "-q", "-b", "main")
        self.write("shop/__init__.py", "")
        self.write("shop/totals.py", "def total(amount):\n    return amount\n")
        self.write("README.txt", "A shop.\n")
        self.commit("base")

    def write(self, name: str, text: str) -> None:
        """Write a file into the checkout."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def commit(self, message: str) -> str:
        """Commit everything; the commit's id."""
        git(self.path, "add", "-A")
        git(self.path, "commit", "-q", "-m", message)
        return git(self.path, "rev-parse", "HEAD")

    def uncontained(self) -> None:
        """Let commands change files outside their own from here on: the test looks there for what they did."""
        self.contained("none")

    def contained(self, word: str) -> None:
        """Contain commands at most so much from here on."""
        self._patch.setenv("SAVANT_SANDBOX", word)

    def savant(self, *arguments: str, repo: bool = True) -> Ended:
        """Run a command in this process."""
        self._capfd.readouterr()
        arguments = self._allowed(arguments)
        words = [*arguments, *(("--repo", str(self.path)) if repo else ())]
        code = run_command(words)
        captured = self._capfd.readouterr()
        return Ended(code, captured.out, captured.err)

    def _allowed(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """What is typed where no agent can be contained: the person allows it, and so for the replay of such a run."""
        self._had_agent = self._had_agent or "--agent" in arguments
        is_for_agent = "--agent" in arguments or ("--cassette" in arguments and self._had_agent)
        if arguments[:1] != ("run",) or not is_for_agent or "SAVANT_SANDBOX" in os.environ or strongest() >= "S2":
            return arguments
        return (*arguments, *(() if "--allow-unsandboxed" in arguments else ("--allow-unsandboxed",)))

    def run(self, *arguments: str) -> Ended:
        """``savant run`` with JSON output."""
        return self.savant("run", *arguments, "--format", "json")

    def state(self) -> Untouched:
        """What a refusal must leave as it is."""
        with Repository.open(self.path) as repository:
            control = control_state(repository)
        return Untouched(
            observe_tree(self.path).digest, control, tuple(git(self.path, "worktree", "list").splitlines())
        )

    def admitted(self, *, script: str = "echo '# more' >> shop/totals.py") -> str:
        """A run that is admitted, by a recipe of one shell command and one check; its id."""
        ended = self.run("Change it", "--recipe", f"/bin/sh -c {json.dumps(script)}", "--must-pass", "/bin/true")
        assert ended.code == 0, (ended.out, ended.err)
        assert ended.json["disposition"] == "admitted"
        return str(ended.json["run"])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home: configuration, keys and scratch in one folder."""
    place = tmp_path / "home"
    monkeypatch.setenv("SAVANT_HOME", str(place))
    monkeypatch.chdir(tmp_path)
    return place


@pytest.fixture
def shop(
    tmp_path: Path, home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    """The shop."""
    assert home.parent == tmp_path
    yield Shop(tmp_path, capfd, monkeypatch)
    leftovers = home / "scratch"
    assert not leftovers.exists() or not list(leftovers.iterdir()), "a command left something in the scratch folder"


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """The absolute path of a tool of this environment."""

    def find(name: str) -> str:
        beside = BIN / name
        found = str(beside) if beside.exists() else shutil.which(name)
        assert found is not None, f"{name} is not installed"
        return found

    return find
