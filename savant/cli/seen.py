"""The ledger as it was seen last, in a file of the person's or of a pipeline's cache: it may grow, and nothing else."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from driver.gate import GateReport, cannot_tell
from savant.files.atomic import read_optional, write_atomic
from savant.ledger.merkle import leaf_hash, tree_root

if TYPE_CHECKING:
    from savant.cli.reading import Reading
    from savant.ledger.verify import VerificationReport

MAX_BYTES: Final = 64 * 1024


def check_seen(path: Path, reading: Reading, report: VerificationReport) -> GateReport | None:
    """The answer when the ledger is not the one that was seen, grown or the same; None when it is, or none was seen.

    Errors as reading a file.
    """
    raw = read_optional(path, max_bytes=MAX_BYTES)
    if raw is None:
        return None
    try:
        seen: Any = json.loads(raw)
        ledger, records, root = seen["ledger"], int(seen["records"]), bytes.fromhex(seen["root"])
    except (ValueError, KeyError, TypeError):
        return cannot_tell("gate.older-ledger", f"{path} does not say what was seen")
    if ledger != report.ledger:
        return cannot_tell("gate.older-ledger", f"seen was {ledger}, this is {report.ledger}")
    if report.records < records:
        return cannot_tell("gate.older-ledger", f"{records} records were seen, this has {report.records}")
    if _root(reading, records) != root:
        return cannot_tell("gate.older-ledger", f"its first {records} records are not those that were seen")
    return None


def write_seen(path: Path, report: VerificationReport) -> None:
    """Keep what was verified for the next time. Errors as writing a file."""
    told = {"ledger": report.ledger, "records": report.records, "root": report.root.hex()}
    write_atomic(path, (json.dumps(told, sort_keys=True) + "\n").encode("ascii"), mode=0o644)


def _root(reading: Reading, records: int) -> bytes:
    return tree_root(leaf_hash(line) for line in islice(reading.lines(), records))
