"""Real git repositories in temporary folders, built by a git that is as hermetic as the tests need."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from savant.repository import Repository

GIT = shutil.which("git") or "git"
ENVIRONMENT = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
}

Content = bytes | tuple[str, bytes]
"""File content, or ("x", content) for an executable, ("l", target) for a link, ("g", hex) for a gitlink."""


class Sandbox:
    """A repository to prepare by plain git and to open by ours."""

    def __init__(self, path: Path, *init: str) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "-q", "-b", "main", *init)

    def git(self, *arguments: str | bytes, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        done = subprocess.run(
            [GIT, *arguments],
            input=stdin,
            cwd=self.path,
            env={**ENVIRONMENT, **(env or {})},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def blob(self, data: bytes) -> str:
        return self.git("hash-object", "-w", "-t", "blob", "--stdin", stdin=data).decode().strip()

    def commit(self, files: Mapping[bytes, Content], *, parent: str | None = None, branch: str = "main") -> str:
        """Commit exactly these files through plumbing; the hex id."""
        lines = b""
        for path, content in files.items():
            kind, data = content if isinstance(content, tuple) else ("", content)
            oid = data.decode() if kind == "g" else self.blob(data)
            mode = {"": b"100644", "x": b"100755", "l": b"120000", "g": b"160000"}[kind]
            lines += mode + b" " + oid.encode() + b"\t" + path + b"\0"
        index = {"GIT_INDEX_FILE": str(self.git_dir / "sandbox-index")}
        self.git("read-tree", "--empty", env=index)
        self.git("update-index", "-z", "--index-info", stdin=lines, env=index)
        tree = self.git("write-tree", "--missing-ok", env=index).decode().strip()
        return self.commit_tree(tree, parent=parent, branch=branch)

    def commit_tree(self, tree: str, *, parent: str | None = None, branch: str = "main") -> str:
        parents = ["-p", parent] if parent else []
        commit = self.git("commit-tree", tree, "-m", "m", *parents).decode().strip()
        self.git("update-ref", f"refs/heads/{branch}", commit)
        return commit

    def raw_tree(self, *entries: tuple[bytes, bytes, str]) -> str:
        """Write a tree object from (octal mode, name, hex id) without git's checks; the hex id."""
        raw = b"".join(mode + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in entries)
        return self.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=raw).decode().strip()

    @property
    def git_dir(self) -> Path:
        dot_git = self.path / ".git"
        return dot_git if dot_git.is_dir() else self.path

    def checkout(self) -> None:
        self.git("reset", "-q", "--hard")


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Sandbox]:
    def make(name: str = "repo", *init: str) -> Sandbox:
        return Sandbox(tmp_path / name, *init)

    return make


@pytest.fixture
def sandbox(make: Callable[..., Sandbox]) -> Sandbox:
    return make()


@pytest.fixture
def opened(sandbox: Sandbox) -> Iterator[Repository]:
    with Repository.open(sandbox.path) as repository:
        yield repository


FILES: Mapping[bytes, Content] = {
    b"README.md": b"# hello\n",
    b"empty": b"",
    b"run.sh": ("x", b"#!/bin/sh\n"),
    b"src/a.py": b"a = 1\n",
    b"src/b.py": b"b = 2\r\n",
    b"src/deep/er/c.py": b"c\0d",
    b"src-x/same.py": b"a = 1\n",
    b"link": ("l", b"src/a.py"),
    b"src/up": ("l", b"../README.md"),
    b"vendor/sub": ("g", b"1" * 40),
    b'new\nline"q\tt': b"odd\n",
    b"bokm\xe5l": b"latin\n",
    b"dir\\f": b"backslash\n",
    b"caf\xc3\xa9": b"nfc\n",
}
"""A tree with every entry mode and the names that break naive tools."""


@pytest.fixture
def files() -> Mapping[bytes, Content]:
    return FILES
