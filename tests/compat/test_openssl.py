"""A record and a checkpoint are checked by openssl, with nothing of ours but the bytes."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from savant.contracts.document import seal
from savant.contracts.signing import Signer
from savant.contracts.twins import CountingEntropy
from savant.ledger import ROLES, Ed25519Signer, Intent, Ledger, Root, SqliteStore, create_ledger, observation, vkey
from savant.ledger.documents import Role

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")

SPKI_PREFIX = bytes.fromhex("302a300506032b6570032100")
"""RFC 8410: what stands before the 32 bytes of a public key in DER."""


def openssl_verifies(folder: Path, public_raw: bytes, message: bytes, signature: bytes) -> bool:
    (folder / "key.der").write_bytes(SPKI_PREFIX + public_raw)
    (folder / "message").write_bytes(message)
    (folder / "signature").write_bytes(signature)
    files = ("-inkey", "key.der", "-in", "message", "-sigfile", "signature")
    done = subprocess.run(
        ["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-rawin", *files],
        cwd=folder,
        capture_output=True,
        check=False,
        timeout=30,
    )
    return done.returncode == 0


@pytest.fixture
def signers() -> Mapping[Role, Signer]:
    entropy = CountingEntropy()
    return {role: Ed25519Signer.generate(entropy) for role in ROLES}


@pytest.fixture
def ledger(tmp_path: Path, signers: Mapping[Role, Signer]) -> Ledger:
    root = Root.of(Ed25519Signer.generate(CountingEntropy(b"root")))
    made = create_ledger(tmp_path / "ledger", signers, root, entropy=CountingEntropy(), observed=observation(0))
    body = seal(Intent(operation="apply", subject_digest=None, deadline_ms=None, detail="é"))
    made.append("apply", body, run=None, observed=observation(1))
    return made


def test_openssl_verifies_a_record(tmp_path: Path, ledger: Ledger, signers: Mapping[Role, Signer]) -> None:
    """The encoding before the signature is built here by hand, as an auditor's shell would."""
    line = json.loads(next(iter(SqliteStore(tmp_path / "ledger").lines(1, 2))))
    body = base64.b64decode(line["payload"])
    message = b"DSSEv1 28 application/vnd.in-toto+json %d " % len(body) + body
    signature = base64.b64decode(line["signatures"][0]["sig"])
    key = signers["apply"].public_raw
    assert openssl_verifies(tmp_path, key, message, signature)
    assert not openssl_verifies(tmp_path, key, message + b" ", signature)
    assert not openssl_verifies(tmp_path, signers["driver"].public_raw, message, signature)
    assert json.loads(body)["subject"][0]["digest"].keys() == {"sha256"}


def test_openssl_verifies_a_checkpoint(tmp_path: Path, ledger: Ledger, signers: Mapping[Role, Signer]) -> None:
    """The key is the end of the verifier key text, the signature the end of the last line."""
    note = ledger.checkpoint().note
    text, signatures = note.split("\n\n")
    raw = base64.b64decode(signatures.split()[2])
    key_text = vkey(ledger.authority.origin, signers["log"].public_raw)
    key = base64.b64decode(key_text.split("+", 2)[2])[1:]
    assert key_text.split("+")[1] == raw[:4].hex()
    assert openssl_verifies(tmp_path, key, (text + "\n").encode(), raw[4:])
    assert not openssl_verifies(tmp_path, key, text.encode(), raw[4:])
