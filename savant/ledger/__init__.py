"""The provenance ledger: signed records, their chain and tree, checkpoints, the keyring and the stores.

It owns what a record is, who may sign it, how it is added and how it is verified. It never rewrites or deletes a
record, never makes a key, never decides anything about the documents it keeps, and reads no clock.
"""

from __future__ import annotations

from savant.ledger.checkpoint import Checkpoint, vkey
from savant.ledger.documents import DOCUMENTS, Intent, Role, RunClose, RunOpen
from savant.ledger.ed25519 import Ed25519Signer, Ed25519Verifier
from savant.ledger.keyring import ROLES, signers_of
from savant.ledger.log import Ledger, Mode, verify_store
from savant.ledger.memstore import MemoryStore
from savant.ledger.place import Root, create_ledger, is_ledger, ledger_directory, open_ledger
from savant.ledger.record import Bodies, Observed, RecordRef, observation
from savant.ledger.report import Pin, PinnedCheckpoint, VerificationReport
from savant.ledger.sqlitestore import SqliteStore
from savant.ledger.verify import verify_ledger

__all__ = [
    "DOCUMENTS",
    "ROLES",
    "Bodies",
    "Checkpoint",
    "Ed25519Signer",
    "Ed25519Verifier",
    "Intent",
    "Ledger",
    "MemoryStore",
    "Mode",
    "Observed",
    "Pin",
    "PinnedCheckpoint",
    "RecordRef",
    "Role",
    "Root",
    "RunClose",
    "RunOpen",
    "SqliteStore",
    "VerificationReport",
    "create_ledger",
    "is_ledger",
    "ledger_directory",
    "observation",
    "open_ledger",
    "signers_of",
    "verify_ledger",
    "verify_store",
    "vkey",
]
