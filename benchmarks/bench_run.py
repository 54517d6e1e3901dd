"""A whole run against its floor: ``python benchmarks/bench_run.py``. Agent and evaluators cost next to nothing here.

The floor is a script that does the same necessary work with the same calls: its own interpreter and a bare one (the
supervisor's), as many git processes, as many durable SQLite commits of the same size as the run wrote records, as many
other processes, and the same trees written to the same disk and removed again (the candidate's copy, and one fresh copy
for the check). The records are counted in a real run. Runs are interleaved and medians compared.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.bench_manifest import make_repository

LIMIT = 3.0
ROUNDS = 5
SIZES = (50, 5_000)

FLOOR = """
import os, shutil, sqlite3, subprocess, sys, tempfile
repo, scratch, records, starts, commands, copies = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
listing = b""
for _ in range(starts - 1):
    subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, capture_output=True, check=True)
listing = subprocess.run(["git", "ls-tree", "-r", "-z", "HEAD"], cwd=repo, capture_output=True, check=True).stdout
rows = [record.split(b"\\t", 1) for record in listing.split(b"\\0")[:-1]]
place = tempfile.mkdtemp(dir=scratch)
for copy in range(copies):
    root = os.path.join(os.fsencode(place), b"%d" % copy)
    with tempfile.TemporaryFile() as requests:
        requests.write(b"\\n".join(facts.split(b" ")[2] for facts, _ in rows) + b"\\n")
        requests.seek(0)
        with subprocess.Popen(
            ["git", "cat-file", "--batch", "--buffer"], stdin=requests, stdout=subprocess.PIPE, cwd=repo, bufsize=1 << 18
        ) as process:
            folders = set()
            for _, path in rows:
                size = int(process.stdout.readline().split()[2])
                data = process.stdout.read(size)
                process.stdout.read(1)
                target = os.path.join(root, path)
                folder = os.path.dirname(target)
                if folder not in folders:
                    os.makedirs(folder, exist_ok=True)
                    folders.add(folder)
                fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
                os.write(fd, data)
                os.close(fd)
    shutil.rmtree(root)
database = sqlite3.connect(os.path.join(place, "ledger"), isolation_level=None)
database.execute("pragma journal_mode = wal")
database.execute("pragma synchronous = full")
database.execute("create table record (seq integer primary key, line blob)")
for number in range(records):
    database.execute("begin immediate")
    database.execute("insert into record values (?, ?)", (number, os.urandom(2500)))
    database.execute("commit")
subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
for _ in range(commands):
    subprocess.run(["/bin/true"], check=True)
shutil.rmtree(place)
"""


def seconds(command: list[str], environment: dict[str, str]) -> float:
    """How long a command takes as a whole process."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return time.perf_counter() - start


def measure(folder: Path, files: int) -> dict[str, object]:
    """The ratio of one size."""
    repository, scratch = folder / f"r{files}", folder / "scratch"
    make_repository(repository, files)
    scratch.mkdir(exist_ok=True)
    environment = {**os.environ, "SAVANT_HOME": str(folder / "home")}
    run = [
        str(Path(sys.executable).parent / "savant"),
        *("run", "Add a line", "--repo", str(repository), "--quiet", "--format", "json"),
        *("--recipe", "/bin/sh -c 'echo x >> package0/module0/file0.py'", "--must-pass", "/bin/true"),
    ]
    first = json.loads(subprocess.run(run, check=True, capture_output=True, env=environment).stdout)
    ledger = [str(Path(sys.executable).parent / "savant"), "ledger", "log", "--repo", str(repository)]
    listed = subprocess.run(
        [*ledger, "--run", first["run"], "--limit", "10000", "--format", "json"],
        check=True,
        capture_output=True,
        env=environment,
    )
    records = len(json.loads(listed.stdout)["records"])
    # the run's git processes (snapshot, uncommitted files), the recipe and the check, the two copies they work in
    floor = [sys.executable, "-c", FLOOR, str(repository), str(scratch), str(records), "9", "2", "2"]
    seconds(floor, environment)
    pairs = [(seconds(run, environment), seconds(floor, environment)) for _ in range(ROUNDS)]
    ratio = statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs)
    shutil.rmtree(repository)
    return {
        "name": "run-copy-workspace",
        "files": files,
        "records": records,
        "ratio": round(ratio, 3),
        "limit": LIMIT,
        "ok": ratio <= LIMIT,
    }


def main() -> int:
    """Measure both sizes, print a row each, say whether the limits hold."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(Path(folder), files) for files in SIZES]
    for row in rows:
        print(json.dumps(row))
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
