"""How long 1,000 paths under 200 rules take, against one ``git check-ignore``: ``python benchmarks/bench_patterns.py``.

The floor is one process of git with the same rules in a ``.gitignore`` and the paths on its standard input. Ours reads
the rules anew each time, as a run does. Prints one JSON row and exits 1 when the limit is broken.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from savant.files.patterns import PatternSet, _compiled, parse

LIMIT = 5.0
ROUNDS = 15
SHAPES = ("/src/part{n}/**", "*.gen{n}", "/docs/**/page{n}.md", "/lib/mod{n}/*.py", "name{n}.txt")
RULES = [SHAPES[n % len(SHAPES)].format(n=n) for n in range(200)]
PLACES = ("lib/mod{m}/sub{n}/x{n}.py", "src/part{m}/deep/file{n}.py")
PATHS = [PLACES[n % 2].format(n=n, m=n % 300) for n in range(1_000)]


def ours() -> tuple[float, int]:
    """Seconds, and how many paths match."""
    parse.cache_clear()
    _compiled.cache_clear()
    start = time.perf_counter()
    rules = PatternSet.parse(RULES)
    found = sum(rules.matches(path.encode()) for path in PATHS)
    return time.perf_counter() - start, found


def floor(repository: Path) -> tuple[float, int]:
    """The same of one git process."""
    words = ["git", "-C", str(repository), "check-ignore", "--stdin", "--no-index"]
    start = time.perf_counter()
    done = subprocess.run(words, input="\n".join(PATHS), capture_output=True, text=True, check=False)
    return time.perf_counter() - start, len(done.stdout.splitlines())


def main() -> int:
    """Measure, print the row, say whether the limit holds and both agree."""
    with tempfile.TemporaryDirectory() as place:
        repository = Path(place)
        subprocess.run(["git", "init", "-q", str(repository)], check=True)
        (repository / ".gitignore").write_text("\n".join(RULES) + "\n")
        floor(repository)
        pairs = [(ours(), floor(repository)) for _ in range(ROUNDS)]
    ratio = statistics.median(a for (a, _), _ in pairs) / statistics.median(b for _, (b, _) in pairs)
    agree = all(mine == theirs for (_, mine), (_, theirs) in pairs)
    ok = ratio <= LIMIT and agree
    print(json.dumps({"name": "patterns", "ratio": round(ratio, 3), "limit": LIMIT, "agree": agree, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
