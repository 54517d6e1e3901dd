"""How long ``savant --version`` takes, against ``python -c pass``: ``python benchmarks/bench_start.py``.

Prints one JSON row and exits 1 when the limit is broken. Runs are interleaved and medians compared.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

LIMIT = 5.0
ROUNDS = 21


def seconds(command: list[str]) -> float:
    """How long a command takes as a whole process."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> int:
    """Measure, print the row, say whether the limit holds."""
    ours = [str(Path(sys.executable).parent / "savant"), "--version"]
    floor = [sys.executable, "-c", "pass"]
    seconds(ours)
    pairs = [(seconds(ours), seconds(floor)) for _ in range(ROUNDS)]
    ratio = statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs)
    ok = ratio <= LIMIT
    print(json.dumps({"name": "start", "ratio": round(ratio, 3), "limit": LIMIT, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
