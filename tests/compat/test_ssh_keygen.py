"""OpenSSH and we agree, both ways: signatures, key files, fingerprints."""

from __future__ import annotations

import hashlib
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from savant.contracts.errors import SavantError
from savant.contracts.twins import CountingEntropy
from savant.identity.keys import create_keys, load_private_key
from savant.ledger.ed25519 import Ed25519Signer, Ed25519Verifier
from savant.ledger.sshkey import SK_ED25519, PublicKey, parse_public_line, wire_string
from savant.ledger.sshsig import MAGIC, armour, sign_sshsig, signed_bytes, verify_sshsig

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")

NAMESPACE = "genesis-v1@savant"
MESSAGE = b"a statement\n\x00\xff"


def keygen(*arguments: str | Path, data: bytes = b"", check: bool = True) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["ssh-keygen", *map(str, arguments)], input=data, capture_output=True, check=check, timeout=30
    )


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """A key that ssh-keygen made."""
    keygen("-q", "-t", "ed25519", "-N", "", "-C", "somebody", "-f", tmp_path / "id")
    return tmp_path / "id"


def verified_by_keygen(folder: Path, public: PublicKey, signature: str, namespace: str, message: bytes) -> bool:
    (folder / "allowed").write_text(f"root@ledger {public.line}\n")
    (folder / "signature").write_text(signature)
    done = keygen(
        *("-Y", "verify", "-f", folder / "allowed", "-I", "root@ledger", "-n", namespace, "-s", folder / "signature"),
        data=message,
        check=False,
    )
    return done.returncode == 0


def test_ssh_keygen_verifies_what_we_sign(tmp_path: Path) -> None:
    """And refuses another purpose and another message."""
    signer = Ed25519Signer.generate(CountingEntropy())
    public = PublicKey(signer.public_raw)
    signature = sign_sshsig(signer, NAMESPACE, MESSAGE)
    assert verified_by_keygen(tmp_path, public, signature, NAMESPACE, MESSAGE)
    assert not verified_by_keygen(tmp_path, public, signature, "keyring-v1@savant", MESSAGE)
    assert not verified_by_keygen(tmp_path, public, signature, NAMESPACE, MESSAGE + b".")


def test_we_verify_what_ssh_keygen_signs_and_write_the_same_bytes(tmp_path: Path, key_file: Path) -> None:
    """SHA-512 by default, SHA-256 when asked; with the same key our signature is theirs."""
    public = parse_public_line(key_file.with_suffix(".pub").read_text())
    signer = load_private_key(key_file)
    for number, options in enumerate(([], ["-O", "hashalg=sha256"])):
        message = tmp_path / f"message{number}"
        message.write_bytes(MESSAGE)
        keygen("-Y", "sign", "-q", "-f", key_file, "-n", NAMESPACE, *options, message)
        theirs = message.with_name(message.name + ".sig").read_text()
        parsed = verify_sshsig(theirs, MESSAGE, namespace=NAMESPACE, public=public, verifier=Ed25519Verifier())
        assert parsed.hash_name == (b"sha256" if options else b"sha512")
        assert (sign_sshsig(signer, NAMESPACE, MESSAGE) == theirs) == (not options)


def test_fingerprints_and_lines_are_theirs(key_file: Path) -> None:
    """``ssh-keygen -l`` and ``-y``."""
    signer = load_private_key(key_file)
    assert keygen("-l", "-f", key_file).stdout.split()[1].decode() == signer.keyid
    assert keygen("-y", "-f", key_file).stdout.decode().startswith(PublicKey(signer.public_raw).line)


def test_ssh_keygen_reads_the_keys_that_we_make(tmp_path: Path) -> None:
    """Every file of a new key folder, with the public key that we know."""
    keys = create_keys(tmp_path / "keys", CountingEntropy())
    for role, signer in keys.signers.items():
        line = keygen("-y", "-f", keys.directory / role).stdout.decode()
        assert parse_public_line(line).raw == signer.public_raw


def test_a_passphrase_or_another_type_is_refused_with_a_way_out(tmp_path: Path, key_file: Path) -> None:
    """The plain key beside them is read."""
    load_private_key(key_file)
    keygen("-q", "-t", "ed25519", "-N", "secret", "-f", tmp_path / "locked")
    keygen("-q", "-t", "ecdsa", "-N", "", "-f", tmp_path / "other")
    for name in ("locked", "other"):
        with pytest.raises(SavantError) as caught:
            load_private_key(tmp_path / name)
        assert caught.value.code == "refused.key-format"
        assert caught.value.fix


def test_ssh_keygen_and_we_agree_about_a_security_key(tmp_path: Path) -> None:
    """A signature as a touched security key makes it; without the touch we refuse it."""
    signer = Ed25519Signer.generate(CountingEntropy(b"sk"))
    public = PublicKey(signer.public_raw, b"ssh:")
    outer = hashlib.sha256(signed_bytes(NAMESPACE, b"sha512", MESSAGE)).digest()

    def made(flags: int) -> str:
        tail = struct.pack(">BI", flags, 7)
        signature = signer.sign(hashlib.sha256(b"ssh:").digest() + tail + outer)
        inner = wire_string(SK_ED25519) + wire_string(signature) + tail
        parts = (public.blob, NAMESPACE.encode(), b"", b"sha512", inner)
        return armour(MAGIC + struct.pack(">I", 1) + b"".join(map(wire_string, parts)))

    assert verified_by_keygen(tmp_path, public, made(1), NAMESPACE, MESSAGE)
    verify_sshsig(made(1), MESSAGE, namespace=NAMESPACE, public=public, verifier=Ed25519Verifier())
    with pytest.raises(SavantError) as caught:
        verify_sshsig(made(0), MESSAGE, namespace=NAMESPACE, public=public, verifier=Ed25519Verifier())
    assert caught.value.code == "unverified.presence"
