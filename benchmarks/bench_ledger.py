"""The ledger against its floors: ``python benchmarks/bench_ledger.py`` prints JSON rows and exits 1 when a limit broke.

- durable append: at least 0.6 of building nothing, signing the same bytes and writing the same line with ``fsync``;
- full verification: at least 0.7 of bare Ed25519 verification of the same messages by the same library;
- flat memory: four times the records may not need a quarter more (a store reads 256 lines at a time).

Floor and subject alternate in one process; each number is a median.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from savant.contracts.document import Document, Sealed, seal
from savant.contracts.envelope import PAYLOAD_TYPE, pae, parse_envelope
from savant.contracts.registry import Registry
from savant.contracts.signing import Signer
from savant.contracts.twins import CountingEntropy
from savant.ledger import (
    DOCUMENTS,
    ROLES,
    Ed25519Signer,
    Ed25519Verifier,
    Intent,
    Ledger,
    Root,
    SqliteStore,
    create_ledger,
    observation,
    verify_ledger,
)
from savant.ledger.documents import Role

APPENDS = 100
VERIFIED = 500
ROUNDS = 11
REGISTRY = Registry(DOCUMENTS)


def main() -> int:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        ledger = new_ledger(Path(name) / "ledger")
        rows = [append_row(ledger, Path(name)), verify_row(ledger, Path(name)), memory_row(Path(name))]
        ledger.close()
    for row in rows:
        print(json.dumps(row))
    return 0 if all(row["ok"] for row in rows) else 1


def new_ledger(directory: Path) -> Ledger:
    entropy = CountingEntropy()
    signers: dict[Role, Signer] = {role: Ed25519Signer.generate(entropy) for role in ROLES}
    root = Root.of(Ed25519Signer.generate(entropy))
    return create_ledger(directory, signers, root, entropy=entropy, observed=observation(0))


def body(number: int) -> Sealed[Document]:
    """A document of the usual size: about 900 bytes."""
    return seal(Intent(operation="bench", subject_digest=None, deadline_ms=number, detail="x" * 800))


SEEN = observation(1, host="bench")


def append(ledger: Ledger, bodies: list[Sealed[Document]]) -> None:
    for item in bodies:
        ledger.append("driver", item, run="0" * 32, observed=SEEN)


def append_row(ledger: Ledger, directory: Path) -> dict[str, object]:
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    append(ledger, [body(0)])
    line = next(iter(SqliteStore(directory / "ledger").lines(1, 2)))
    message = pae(PAYLOAD_TYPE, parse_envelope(line)[0])

    def floor() -> None:
        with (directory / "floor").open("ab", buffering=0) as file:
            for _ in range(APPENDS):
                key.sign(message)
                file.write(line)
                os.fsync(file.fileno())

    rounds = iter(range(ROUNDS + 1))

    def subject() -> Callable[[], None]:
        start = next(rounds) * APPENDS
        bodies = [body(number) for number in range(start, start + APPENDS)]
        return lambda: append(ledger, bodies)

    return at_least("durable append against sign and fsync", 0.6, lambda: floor, subject)


def verify_row(ledger: Ledger, directory: Path) -> dict[str, object]:
    lines, checkpoints = records(ledger, directory, VERIFIED)
    keys = {
        e.keyid: Ed25519PublicKey.from_public_bytes(bytes.fromhex(e.public_key)) for e in ledger.authority.keys.entries
    }
    bare = []
    for line in lines:
        payload, keyid, signature = parse_envelope(line)
        bare.append((keys[keyid], signature, pae(PAYLOAD_TYPE, payload)))

    def floor() -> None:
        for key, signature, message in bare:
            key.verify(signature, message)

    def subject() -> None:
        report = verify_ledger(lines, checkpoints, None, REGISTRY, None, verifier=Ed25519Verifier())
        if [check.name for check in report.checks if check.status == "fail"] != ["head"]:
            raise SystemExit("the ledger of the benchmark does not verify")

    return at_least("full verification against bare Ed25519", 0.7, lambda: floor, lambda: subject)


def memory_row(directory: Path) -> dict[str, object]:
    store = SqliteStore(directory / "ledger")
    few = peak(store.lines(0, 300))
    many = peak(store.lines(0, 1_200))
    store.close()
    ratio = many / few
    return {"name": "memory of 1,200 records against 300", "ratio": round(ratio, 3), "limit": 1.25, "ok": ratio <= 1.25}


def peak(lines: Iterator[bytes]) -> int:
    tracemalloc.start()
    verify_ledger(lines, (), None, REGISTRY, None, verifier=Ed25519Verifier())
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def records(ledger: Ledger, directory: Path, count: int) -> tuple[list[bytes], list[tuple[int, str]]]:
    ledger.checkpoint()
    store = SqliteStore(directory / "ledger")
    lines, checkpoints = list(store.lines(0, count)), [item for item in store.checkpoints() if item[0] <= count]
    store.close()
    return lines, checkpoints


def at_least(
    name: str, limit: float, floor: Callable[[], Callable[[], None]], subject: Callable[[], Callable[[], None]]
) -> dict[str, object]:
    """A row; the makers prepare a round outside the clock. The first round warms up and does not count."""
    ratios = []
    for _ in range(ROUNDS + 1):
        floor_s, subject_s = timed(floor()), timed(subject())
        ratios.append(floor_s / subject_s)
    ratio = statistics.median(ratios[1:])
    return {"name": name, "ratio": round(ratio, 3), "limit": limit, "ok": ratio >= limit}


def timed(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
