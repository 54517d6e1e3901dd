"""A real ledger in a folder, and runs in it, for tests that read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from savant.contracts.document import Document, seal
from savant.contracts.twins import CountingEntropy
from savant.ledger.documents import Intent, Role, RunClose, RunOpen
from savant.ledger.ed25519 import Ed25519Signer
from savant.ledger.keyring import ROLES
from savant.ledger.log import Ledger
from savant.ledger.place import Root, create_ledger
from savant.ledger.record import Bodies, observation
from tests.vectors.examples import INTERPRETATION, SESSION

ROOT = Ed25519Signer(b"\xfe" * 32)
SIGNERS: dict[Role, Ed25519Signer] = {role: Ed25519Signer(bytes([n]) * 32) for n, role in enumerate(ROLES, 1)}
RUN_A, RUN_B = "a" * 32, "b" * 32
NOW_MS = 1_700_000_000_000


def make_ledger(directory: Path, *, bodies: Bodies | None = None) -> Ledger:
    return create_ledger(
        directory, SIGNERS, Root.of(ROOT), entropy=CountingEntropy(), observed=observation(NOW_MS), bodies=bodies
    )


def record(ledger: Ledger, run: str | None, role: Role, document: Document) -> int:
    return ledger.append(role, seal(document), run=run, observed=observation(NOW_MS)).seq


def small_run(ledger: Ledger, run: str, documents: Iterable[tuple[Role, Document]] | None = None) -> None:
    """A run that opened, recorded a few documents and closed."""
    inside = (
        tuple(documents)
        if documents is not None
        else (
            ("driver", SESSION),
            (
                "provider-host",
                Intent(operation="provider.interpretation", subject_digest=None, deadline_ms=1, detail=""),
            ),
            ("driver", INTERPRETATION),
        )
    )
    record(ledger, run, "log", RunOpen(mode="enforce"))
    for role, document in inside:
        record(ledger, run, role, document)
    record(ledger, run, "log", RunClose(disposition="terminal-failure", records=len(inside) + 1, failed_appends=0))
