"""Starting git without anything ambient: one command line prefix, one environment, one counter.

Nothing that the caller's process, the person's configuration or the repository's own configuration says may start a
program or change a byte: inherited ``GIT_*`` are dropped (the environment is built from scratch), system and global
configuration are not read, hooks, fsmonitor, pager, credential helpers and lazy fetches are off, no transport protocol
is allowed, replace refs and grafts are off, and ``--git-dir`` is pinned in every call.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final

from savant.contracts.errors import PortError

SEARCH_PATH: Final = "/usr/bin:/bin:/usr/local/bin:/opt/homebrew/bin:/run/current-system/sw/bin"
"""Where git is looked for, and the ``PATH`` of every git process."""

TIMEOUT_S: Final = 900
"""A single git command that takes longer has hung."""

ENVIRONMENT: Final = MappingProxyType(
    {
        "PATH": SEARCH_PATH,
        "HOME": "/nonexistent",
        "XDG_CONFIG_HOME": "/nonexistent",
        "LC_ALL": "C",
        "TZ": "UTC",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": "/nonexistent/grafts",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "GIT_EDITOR": "/bin/false",
        "GIT_PAGER": "cat",
    }
)

_OPTIONS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.quotePath=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "safe.bareRepository=explicit",
    "protocol.allow=never",
    "credential.helper=",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
)


def find_git(search_path: str = SEARCH_PATH) -> Path:
    """The absolute path of the git executable, looked up in fixed folders and never in an inherited ``PATH``.

    :raises PortError: ``port.git-missing``.
    """
    found = shutil.which("git", path=search_path)
    if found is None:
        raise PortError(
            "port.git-missing", f"No git executable in {search_path}.", fix="Install git 2.36 or later, then try again."
        )
    return Path(found).absolute()


class Git:
    """One git executable pinned to one git directory, counting the processes that it starts."""

    def __init__(self, executable: Path, git_dir: Path) -> None:
        self.executable = executable
        self.git_dir = git_dir
        self.starts = 0

    def command(self, arguments: Sequence[str], options: Sequence[str] = ()) -> list[str]:
        """The whole command line; ``options`` are further ``key=value`` settings."""
        line = [str(self.executable), "--no-pager", f"--git-dir={self.git_dir}"]
        for option in (*_OPTIONS, *options):
            line += ("-c", option)
        return [*line, *arguments]

    def start(
        self,
        arguments: Sequence[str],
        *,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stderr: int | IO[bytes] = subprocess.DEVNULL,
        options: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a git process whose standard output is a pipe; the caller ends it."""
        self.starts += 1
        try:
            return subprocess.Popen(
                self.command(arguments, options),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=dict(ENVIRONMENT),
                cwd=self.git_dir,
                bufsize=1 << 18,
            )
        except OSError as error:
            raise PortError("port.git-start", f"Cannot start {self.executable}: {error.strerror}.") from error

    def run(
        self,
        arguments: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one git command to its end and return what it said, whatever its exit status.

        :raises PortError: ``port.git-start``, ``port.git-timeout``.
        """
        self.starts += 1
        try:
            return subprocess.run(
                self.command(arguments, options),
                input=stdin,
                capture_output=True,
                env={**ENVIRONMENT, **(environment or {})},
                cwd=cwd or self.git_dir,
                timeout=TIMEOUT_S,
                check=False,
            )
        except OSError as error:
            raise PortError("port.git-start", f"Cannot start {self.executable}: {error.strerror}.") from error
        except subprocess.TimeoutExpired as error:
            raise PortError("port.git-timeout", f"git {_verb(arguments)} did not end in {TIMEOUT_S} s.") from error

    def output(
        self,
        arguments: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        cwd: Path | None = None,
    ) -> bytes:
        """The standard output of a git command that must succeed.

        :raises PortError: ``port.git-failed`` with git's own words, and those of :meth:`run`.
        """
        done = self.run(arguments, stdin=stdin, environment=environment, options=options, cwd=cwd)
        if done.returncode != 0:
            raise PortError("port.git-failed", f"git {_verb(arguments)} failed: {said(done.stderr)}")
        return done.stdout


def _verb(arguments: Sequence[str]) -> str:
    return next((word for word in arguments if not word.startswith("-")), "")


def said(stderr: bytes) -> str:
    """What git wrote to its standard error, in one bounded line."""
    return " ".join(stderr[:2000].decode("utf-8", "replace").split()) or "it gave no reason."
