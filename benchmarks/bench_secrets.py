"""How long the scan for secrets takes, against looking at each line: ``python benchmarks/bench_secrets.py``.

The floor is the same expressions on every line of the same text, which is this project's own Python. Both find the
same. Prints one JSON row and exits 1 when the limit is broken.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

from evaluator.checks import secrets

LIMIT = 0.4
ROUNDS = 3
FOLDERS = ("evaluator", "driver", "savant", "runner")


def main() -> int:
    """Measure, print the row, say whether the limit holds and both agree."""
    root = Path(__file__).parent.parent
    lines = [line for name in FOLDERS for path in sorted((root / name).rglob("*.py")) for line in _lines(path)]
    numbered = list(enumerate(lines, 1))
    ratios, agree = [], True
    for _ in range(ROUNDS):
        start = time.perf_counter()
        found = secrets.find_secrets(numbered)
        middle = time.perf_counter()
        floor = tuple(secret for item in numbered for secret in secrets._in_line(*item))  # noqa: SLF001 - the floor
        ratios.append((middle - start) / (time.perf_counter() - middle))
        agree = agree and found == floor
    ratio = statistics.median(ratios)
    ok = ratio <= LIMIT and agree
    print(json.dumps({"name": "secrets", "ratio": round(ratio, 3), "limit": LIMIT, "agree": agree, "ok": ok}))
    return 0 if ok else 1


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


if __name__ == "__main__":
    sys.exit(main())
