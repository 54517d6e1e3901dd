"""A run that is stopped while an agent works: in order or not, no process of it is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.agents.product import PLAN, Product
from tests.agents.script import Script, Silent, Structured, Use
from tests.agents.toolbox import Shell

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.crash]

SECONDS: Final = "98765"
BUSY: Final = f"true; (setsid sleep {SECONDS} >/dev/null 2>&1 &); sleep {SECONDS}; true"


def processes_of(root: Path) -> dict[int, str]:
    """The processes whose words or environment name a folder, and their words."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words, environment = ((entry / name).read_bytes() for name in ("cmdline", "environ"))
        except OSError:
            continue
        if os.fsencode(root) in words + environment and int(entry.name) != os.getpid():
            found[int(entry.name)] = words.replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return found


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Wait a minute at most."""
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.02)


@contextmanager
def started(product: Product) -> Iterator[subprocess.Popen[bytes]]:
    """The command as a process of its own, for signals."""
    words = [*product.words("workspace"), "--repo", str(product.shop.path), "--format", "json"]
    streams = product.shop.root / "streams"
    with streams.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "savant.cli", "run", *words], stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("agent", ["claude", "codex"], indirect=True)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=lambda how: how.name)
def test_nothing_of_a_stopped_run_is_left(
    product: Product, home: Path, script: Callable[..., Script], how: signal.Signals
) -> None:
    """The agent is busy in its shell, also in a session of its own; the run is interrupted, or killed.

    Where nothing contains it, Claude Code gets no shell, and waits for its model.
    """
    if product.has_shell:
        one = script(Structured(PLAN), Use(Shell(BUSY)))
    else:
        one = script(Structured(PLAN), Silent())
    product.configure(home, one)
    root = product.shop.root

    def is_busy() -> bool:
        sleepers = list(processes_of(root).values()).count(f"sleep {SECONDS}")
        return sleepers == 2 if product.has_shell else len(one.requests) == 2

    with started(product) as process:
        wait_until(lambda: is_busy() or process.poll() is not None, "the agent never came to work")
        assert process.poll() is None, (root / "streams").read_text()
        assert any("node_modules" in words for words in processes_of(root).values()), "the agent itself is seen"
        process.send_signal(how)
        code = process.wait(60)
        wait_until(lambda: not processes_of(root), f"left over: {processes_of(root)}")
    assert (code == -signal.SIGKILL) is (how == signal.SIGKILL), (root / "streams").read_text()
    assert not product.target.exists()
    if how == signal.SIGKILL:
        shutil.rmtree(home / "scratch")  # whoever is killed does not tidy up
