"""cosign verifies a record offline with its plain public key; skipped and counted where it is not installed."""

from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path

import pytest

from savant.contracts.document import seal
from savant.contracts.signing import Signer
from savant.contracts.twins import CountingEntropy
from savant.ledger import ROLES, Ed25519Signer, Intent, Root, SqliteStore, create_ledger, observation
from savant.ledger.documents import Role

pytestmark = pytest.mark.skipif(shutil.which("cosign") is None, reason="cosign is not installed")

SPKI_PREFIX = bytes.fromhex("302a300506032b6570032100")


@pytest.mark.parametrize(
    ("type_", "verifies"), [("savant.ledger.intent/v1", True), ("savant.runner.receipt/v1", False)]
)
def test_cosign_verifies_a_record_over_its_candidate(tmp_path: Path, type_: str, verifies: bool) -> None:
    """Signature, payload type, predicate type and subject; a wrong predicate type is refused."""
    entropy = CountingEntropy()
    signers: dict[Role, Signer] = {role: Ed25519Signer.generate(entropy) for role in ROLES}
    root = Root.of(Ed25519Signer.generate(entropy))
    ledger = create_ledger(tmp_path / "ledger", signers, root, entropy=entropy, observed=observation(0))
    body = seal(Intent(operation="apply", subject_digest=None, deadline_ms=None, detail=""))
    ledger.append("apply", body, run=None, observed=observation(1), candidate_raw=b"{}")
    (tmp_path / "record").write_bytes(next(iter(SqliteStore(tmp_path / "ledger").lines(1, 2))))
    (tmp_path / "candidate").write_bytes(b"{}")
    der = base64.b64encode(SPKI_PREFIX + signers["apply"].public_raw).decode()
    (tmp_path / "key.pem").write_text(f"-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n")
    options = ("--key", "key.pem", "--signature", "record", "--insecure-ignore-tlog=true")
    done = subprocess.run(
        [
            "cosign",
            "verify-blob-attestation",
            *options,
            "--type",
            f"https://savant-synthesis.invalid/{type_}",
            "candidate",
        ],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode == 0) == verifies, done.stderr
