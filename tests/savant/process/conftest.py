"""What the tests of processes share: runners, commands and ways to see that a process is gone."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from savant.process.port import Command, Limits
from savant.process.posix import SupervisedRunner

ROOMY = Limits(wall_ms=60_000, stdout_bytes=1 << 20, stderr_bytes=1 << 20, grace_ms=2000)


class Cancel:
    """A cancellation of threads."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def is_set(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        self._event.set()

    def wait(self, timeout_ms: int) -> bool:
        return self._event.wait(timeout_ms / 1000)


@pytest.fixture
def cancel() -> Cancel:
    return Cancel()


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[SupervisedRunner]:
    with SupervisedRunner(tmp_path / "scratch") as made:
        yield made


Make = Callable[..., Command]


@pytest.fixture
def shell(tmp_path: Path) -> Make:
    def make(script: str, *arguments: str, limits: Limits = ROOMY, stdin: bytes = b"") -> Command:
        argv = ("/bin/sh", "-c", script, "sh", *arguments)
        env = (("PATH", "/usr/local/bin:/usr/bin:/bin"),)
        return Command(argv=argv, cwd=tmp_path, env=env, limits=limits, stdin=stdin)

    return make


@pytest.fixture
def python(tmp_path: Path) -> Make:
    def make(code: str, *arguments: str, limits: Limits = ROOMY, stdin: bytes = b"") -> Command:
        argv = (sys.executable, "-I", "-S", "-c", code, *arguments)
        return Command(argv=argv, cwd=tmp_path, env=(), limits=limits, stdin=stdin)

    return make


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in (b"Z", b"X")


def eventually(condition: Callable[[], bool], patience_s: float = 30.0) -> bool:
    """Whether the condition comes true before patience runs out."""
    give_up = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.005)
    return True


@pytest.fixture
def alive() -> Callable[[int], bool]:
    return is_alive


@pytest.fixture
def wait_for() -> Callable[[Callable[[], bool]], bool]:
    return eventually


@pytest.fixture
def pid_in(tmp_path: Path) -> Callable[[str], int]:
    """The number that a process wrote into a file, waiting for it."""

    def read(name: str) -> int:
        path = tmp_path / name
        assert eventually(lambda: path.exists() and path.read_text().endswith("\n"))
        return int(path.read_text())

    return read


@pytest.fixture
def as_root() -> bool:
    return os.geteuid() == 0
