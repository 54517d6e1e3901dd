"""Manifests against their floor, in one process: ``python benchmarks/bench_manifest.py``.

Prints one JSON row per measurement, ``{name, files, ratio, limit, ok}``, and exits 1 when a limit is broken. The floor
of a cold manifest is the same necessary work with the same calls: ``ls-tree -r -z``, one ``cat-file --batch --buffer``
and BLAKE3 of the same bytes in Python. Runs are interleaved and medians compared, so that a busy machine slows both.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from savant.contracts.digest import raw_digest
from savant.repository import Repository, build_manifest
from savant.repository.cache import SqliteManifestCache
from savant.repository.launch import ENVIRONMENT

COLD_LIMIT = 1.3
WARM_STARTS_LIMIT = 3
ROUNDS = 15


def make_repository(path: Path, files: int) -> None:
    """A committed, packed tree of so many text files of 1 to 12 kB in folders of about a dozen."""
    rng = random.Random(files)
    path.mkdir()
    for number in range(files):
        folder = path / f"package{number // 120}" / f"module{number // 12 % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file{number}.py").write_bytes(rng.randbytes(32).hex().encode() * rng.randrange(16, 190))
    environment = {
        **ENVIRONMENT,
        **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "m"], ["gc", "-q"]):
        subprocess.run(["git", *arguments], cwd=path, env=environment, check=True)


def floor(path: Path) -> None:
    """What any manifest of a commit has to do."""
    listing = subprocess.run(
        ["git", "ls-tree", "-r", "-z", "HEAD"], cwd=path, env=dict(ENVIRONMENT), capture_output=True, check=True
    ).stdout
    oids = list(dict.fromkeys(record.split(b"\t", 1)[0].split(b" ")[2] for record in listing.split(b"\0")[:-1]))
    with tempfile.TemporaryFile() as requests:
        requests.write(b"\n".join(oids) + b"\n")
        requests.seek(0)
        command = ["git", "cat-file", "--batch", "--buffer"]
        with subprocess.Popen(
            command, stdin=requests, stdout=subprocess.PIPE, cwd=path, env=dict(ENVIRONMENT), bufsize=1 << 18
        ) as process:
            assert process.stdout is not None
            for _ in oids:
                size = int(process.stdout.readline().split()[2])
                raw_digest(process.stdout.read(size))
                process.stdout.read(1)


def seconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def measure(folder: Path, files: int) -> list[dict[str, object]]:
    path = folder / f"repository{files}"
    make_repository(path, files)
    with Repository.open(path) as repository:
        tree = repository.tree_of(repository.resolve_commit("HEAD"))
        floors, colds = [], []
        for _ in range(ROUNDS):
            floors.append(seconds(lambda: floor(path)))
            colds.append(seconds(lambda: build_manifest(repository, tree)))
    ratio = round(statistics.median(colds) / statistics.median(floors), 3)
    rows: list[dict[str, object]] = [
        {"name": "manifest-cold", "files": files, "ratio": ratio, "limit": COLD_LIMIT, "ok": ratio <= COLD_LIMIT}
    ]
    database = folder / f"cache{files}.sqlite"
    for name in ("fill", "manifest-warm-git-starts"):
        with Repository.open(path) as repository, SqliteManifestCache(database) as cache:
            manifest = build_manifest(repository, repository.tree_of(repository.resolve_commit("HEAD")), cache)
            if name != "fill":
                assert len(list(manifest.walk())) == files
                starts = repository.git_starts
                is_ok = starts <= WARM_STARTS_LIMIT
                rows.append({"name": name, "files": files, "ratio": starts, "limit": WARM_STARTS_LIMIT, "ok": is_ok})
    return rows


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for files in (50, 5000) for row in measure(Path(folder), files)]
    for row in rows:
        print(json.dumps(row))
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
