"""A whole run against its floor: ``python -m benchmarks.bench_run``. The agent is one ``sh``; no evaluator runs.

The floor is a script that does the same necessary work with the same calls, and nothing else: an interpreter with the
third-party libraries that the work needs (click, msgspec, blake3, cryptography, sqlite3), a bare interpreter (the
supervisor's), as many git processes, the base tree read, hashed, written to the same disk and removed again (the copy
that the tool works in), as many signed, hashed and durably committed records, as many synced files, one ``sh``. The
counts are taken from a real run, not assumed. Runs are interleaved and medians compared.
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
WAITING = 10
"""The exit code of a run that no check measured: it waits for a person."""

FLOOR = """
import os, shutil, sqlite3, subprocess, sys, tempfile
import blake3, click, msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
repo, scratch, records, starts, syncs = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
for _ in range(starts - 2):
    subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, capture_output=True, check=True)
listing = subprocess.run(["git", "ls-tree", "-r", "-z", "HEAD"], cwd=repo, capture_output=True, check=True).stdout
rows = [record.split(b"\\t", 1) for record in listing.split(b"\\0")[:-1]]
place = tempfile.mkdtemp(dir=scratch)
root = os.path.join(os.fsencode(place), b"copy")
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
            blake3.blake3(data).digest()
            target = os.path.join(root, path)
            folder = os.path.dirname(target)
            if folder not in folders:
                os.makedirs(folder, exist_ok=True)
                folders.add(folder)
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(fd, data)
            os.close(fd)
subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
subprocess.run(["/bin/sh", "-c", "echo x >> package0/module0/file0.py"], cwd=root, check=True)
shutil.rmtree(root)
key = Ed25519PrivateKey.generate()
database = sqlite3.connect(os.path.join(place, "ledger"), isolation_level=None)
database.execute("pragma journal_mode = wal")
database.execute("pragma synchronous = full")
database.execute("create table record (seq integer primary key, line blob)")
for number in range(records):
    line = os.urandom(2500)
    blake3.blake3(line).digest()
    line += key.sign(line)
    database.execute("begin immediate")
    database.execute("insert into record values (?, ?)", (number, line))
    database.execute("commit")
for number in range(syncs):
    fd = os.open(os.path.join(place, str(number)), os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(fd, b"x")
    os.fsync(fd)
    os.close(fd)
shutil.rmtree(place)
"""

COUNTED = """
import json, os, subprocess, sys
counts = {"git": 0, "syncs": 0}
popen, fsync = subprocess.Popen.__init__, os.fsync
def counted_popen(self, args, *rest, **named):
    counts["git"] += os.path.basename(str(args[0])) == "git"
    return popen(self, args, *rest, **named)
def counted_fsync(fd):
    counts["syncs"] += 1
    return fsync(fd)
subprocess.Popen.__init__, os.fsync = counted_popen, counted_fsync
from savant.cli.app import run_command
run_command(sys.argv[1:])
print(json.dumps(counts), file=sys.stderr)
"""
"""Runs a command of ours and counts the git processes it starts and the files and folders it syncs."""


def seconds(command: list[str], environment: dict[str, str]) -> float:
    """How long a command takes as a whole process."""
    start = time.perf_counter()
    done = subprocess.run(command, check=False, capture_output=True, env=environment)
    assert done.returncode in (0, WAITING), done.stderr
    return time.perf_counter() - start


def _records(repository: Path, run: str, environment: dict[str, str]) -> int:
    """How many records a run wrote."""
    log = [str(Path(sys.executable).parent / "savant"), "ledger", "log", "--repo", str(repository)]
    listed = subprocess.run(
        [*log, "--run", run, "--limit", "10000", "--format", "json"], check=True, capture_output=True, env=environment
    )
    return len(json.loads(listed.stdout)["records"])


def measure(folder: Path, files: int) -> dict[str, object]:
    """The ratio of one size."""
    repository, scratch = folder / f"r{files}", folder / "scratch"
    make_repository(repository, files)
    scratch.mkdir(exist_ok=True)
    environment = {**os.environ, "SAVANT_HOME": str(folder / "home")}
    arguments = ("run", "Add a line", "--repo", str(repository), "--quiet", "--format", "json")
    arguments += ("--recipe", "/bin/sh -c 'echo x >> package0/module0/file0.py'")
    run = [str(Path(sys.executable).parent / "savant"), *arguments]
    subprocess.run(run, check=False, capture_output=True, env=environment)
    counted = subprocess.run(
        [sys.executable, "-c", COUNTED, *arguments], check=True, capture_output=True, env=environment
    )
    counts, first = json.loads(counted.stderr.splitlines()[-1]), json.loads(counted.stdout)
    assert first["ending"] == "waiting", first
    records = _records(repository, first["run"], environment)
    numbers = map(str, (records, counts["git"], counts["syncs"]))
    floor = [sys.executable, "-c", FLOOR, str(repository), str(scratch), *numbers]
    seconds(floor, environment)
    pairs = [(seconds(run, environment), seconds(floor, environment)) for _ in range(ROUNDS)]
    ratio = statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs)
    shutil.rmtree(repository)
    return {
        "name": "run-copy-workspace",
        "files": files,
        "records": records,
        **counts,
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
