"""``python -m benchmarks``: every benchmark in turn; exits 1 when any limit is broken."""

from __future__ import annotations

import sys

from benchmarks import (
    bench_ledger,
    bench_manifest,
    bench_patterns,
    bench_run,
    bench_sandbox,
    bench_secrets,
    bench_start,
)

MODULES = (bench_start, bench_manifest, bench_ledger, bench_run, bench_sandbox, bench_patterns, bench_secrets)
sys.exit(max(module.main() for module in MODULES))
