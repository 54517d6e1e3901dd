"""How long a contained command takes, against the bare chain that contains it: ``python benchmarks/bench_sandbox.py``.

One command through the runner at level S3, against ``prlimit`` and ``bwrap`` with the same limits, the same options and
the same filter started by ``subprocess``, in the same run. Prints one JSON row and exits 1 when the limit is broken.
Where level S3 cannot be had the row says so, and nothing is broken.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from savant.process.host import look
from savant.process.port import Command, Limits, Mount, Sandbox
from savant.process.posix import SupervisedRunner
from savant.process.sandbox import bubblewrap_options, plan

LIMIT = 1.5
ROUNDS = 61


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def command(folder: Path) -> Command:
    """A short command with a writable folder and every limit."""
    return Command(
        argv=("/bin/true",),
        cwd=folder,
        env=(("PATH", "/usr/bin:/bin"), ("HOME", str(folder))),
        limits=Limits(
            wall_ms=60_000,
            stdout_bytes=1 << 20,
            stderr_bytes=1 << 20,
            file_bytes=1 << 30,
            open_files=256,
            cpu_ms=60_000,
        ),
        sandbox=Sandbox(level="S3", network=False, mounts=(Mount(folder, folder, writable=True),)),
    )


def chain(of: Command, filters: bytes) -> None:
    """The same command under ``prlimit`` and ``bwrap``, by hand."""
    limits = of.limits
    fd = os.memfd_create("filter")
    try:
        os.write(fd, filters)
        os.lseek(fd, 0, os.SEEK_SET)
        bounds = ("--core=0", f"--fsize={limits.file_bytes}", f"--nofile={limits.open_files}", "--cpu=60")
        options = bubblewrap_options(of, look())
        subprocess.run(
            ["prlimit", *bounds, "bwrap", *options, "--seccomp", str(fd), "--", *of.argv],
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            pass_fds=[fd],
        )
    finally:
        os.close(fd)


def main() -> int:
    """Measure, print the row, say whether the limit holds."""
    with tempfile.TemporaryDirectory() as place, SupervisedRunner(Path(place) / "scratch") as runner:
        if runner.level != "S3":
            why = runner.offer().missing[0].why
            print(json.dumps({"name": "sandbox", "ratio": None, "limit": LIMIT, "ok": True, "skipped": why}))
            return 0
        folder = Path(place) / "folder"
        folder.mkdir()
        ours = command(folder)
        filters = plan(ours, look()).blobs[-1]
        if not runner.run(ours).is_success:
            raise SystemExit("The contained command does not run.")
        chain(ours, filters)
        pairs = [(seconds(lambda: runner.run(ours)), seconds(lambda: chain(ours, filters))) for _ in range(ROUNDS)]
    ratio = statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs)
    ok = ratio <= LIMIT
    print(json.dumps({"name": "sandbox", "ratio": round(ratio, 3), "limit": LIMIT, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
