"""Key files: made once, read by their owner alone, never guessed."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from savant.contracts.errors import Conflict, PortError, RefusedInput, SavantError, Unverifiable
from savant.contracts.twins import CountingEntropy
from savant.files.atomic import fsync_directory, write_atomic
from savant.identity import keys as module
from savant.identity.keys import (
    MAX_KEY_BYTES,
    KeySet,
    create_keys,
    decode_private,
    encode_private,
    key_directory,
    load_keys,
    load_private_key,
)
from savant.ledger.ed25519 import Ed25519Signer, Ed25519Verifier
from savant.ledger.keyring import ROLES
from savant.ledger.sshkey import PublicKey

SEED = bytes(range(32))
needs_ssh_keygen = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")


@pytest.fixture
def made(tmp_path: Path) -> KeySet:
    return create_keys(tmp_path / "keys", CountingEntropy())


def code_of(call: Any) -> str:
    with pytest.raises(SavantError) as caught:
        call()
    return caught.value.code


def again(made: KeySet) -> KeySet:
    assert made.root is not None
    return load_keys(made.directory.parent, made.root.keyid)


def test_every_role_and_the_root_get_a_key_of_their_own(made: KeySet) -> None:
    """Nine different keys."""
    assert made.root is not None
    assert set(made.signers) == set(ROLES)
    assert len({signer.public_raw for signer in (made.root, *made.signers.values())}) == len(ROLES) + 1


def test_what_was_made_is_read_again(made: KeySet) -> None:
    """The same keys: what one signs, the other's public key verifies."""
    loaded = again(made)
    assert loaded.root is not None
    assert made.root is not None
    assert loaded.root.public_raw == made.root.public_raw
    for role, signer in loaded.signers.items():
        Ed25519Verifier().verify(made.signers[role].public_raw, signer.sign(b"m"), b"m")
        assert signer.keyid == made.signers[role].keyid


def test_only_the_owner_can_read_them(made: KeySet) -> None:
    """0600 in a folder of 0700, whatever the umask is; nothing else is left in the key folder."""
    assert stat.S_IMODE(made.directory.stat().st_mode) == 0o700
    files = list(made.directory.iterdir())
    assert {path.name for path in files} == {"root", *ROLES}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert list(made.directory.parent.iterdir()) == [made.directory]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_a_key_that_others_can_use_is_refused(made: KeySet, mode: int) -> None:
    """With the command that mends it; after it the key is read."""
    path = made.directory / "driver"
    path.chmod(mode)
    with pytest.raises(RefusedInput) as caught:
        again(made)
    assert caught.value.code == "refused.key-permissions"
    assert caught.value.fix == f"chmod 600 {path}"
    path.chmod(0o600)
    assert "driver" in again(made).signers


def test_a_folder_that_others_can_use_is_refused(made: KeySet) -> None:
    """Whoever may write there may replace a key."""
    made.directory.chmod(0o750)
    assert code_of(lambda: again(made)) == "refused.key-permissions"
    made.directory.chmod(0o700)
    again(made)


def test_a_link_is_refused(made: KeySet, tmp_path: Path) -> None:
    """Also one to a sound key, and a dangling one."""
    path = made.directory / "driver"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert code_of(lambda: again(made)) == "refused.key-permissions"
    (tmp_path / "elsewhere").unlink()
    assert code_of(lambda: again(made)) == "refused.key-permissions"


def test_a_key_of_another_user_is_refused(made: KeySet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner may change it."""
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert code_of(lambda: again(made)) == "refused.key-owner"


def test_missing_keys_are_said_and_never_made(made: KeySet) -> None:
    """A role without a file is left out; a ledger without a folder is an error, and no folder appears."""
    (made.directory / "evaluator").unlink()
    (made.directory / "root").unlink()
    loaded = again(made)
    assert loaded.root is None
    assert set(loaded.signers) == set(ROLES) - {"evaluator"}
    parent = made.directory.parent
    with pytest.raises(Unverifiable) as caught:
        load_keys(parent, "SHA256:" + "A" * 43)
    assert caught.value.code == "unverifiable.keys-missing"
    assert caught.value.fix
    assert list(parent.iterdir()) == [made.directory]


def test_the_root_of_another_ledger_is_refused(made: KeySet, tmp_path: Path) -> None:
    """The folder is named after its root."""
    other = create_keys(tmp_path / "other", CountingEntropy(b"other"))
    (made.directory / "root").write_bytes((other.directory / "root").read_bytes())
    assert code_of(lambda: again(made)) == "refused.key-format"


def test_keys_are_never_replaced(tmp_path: Path) -> None:
    """The same entropy again finds the folder, leaves it alone and leaves nothing beside it."""
    first = create_keys(tmp_path, CountingEntropy())
    before = {path.name: path.read_bytes() for path in first.directory.iterdir()}
    with pytest.raises(Conflict):
        create_keys(tmp_path, CountingEntropy())
    assert {path.name: path.read_bytes() for path in first.directory.iterdir()} == before
    assert list(tmp_path.iterdir()) == [first.directory]


def test_a_disk_that_cannot_be_written_leaves_no_half_of_a_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the way; a failure in the middle."""
    (tmp_path / "file").touch()
    with pytest.raises(PortError):
        create_keys(tmp_path / "file", CountingEntropy())

    def failing(*_: object, **__: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(module, "write_atomic", failing)
    with pytest.raises(PortError) as caught:
        create_keys(tmp_path / "keys", CountingEntropy())
    assert caught.value.code == "port.disk"
    assert list((tmp_path / "keys").iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"not a key", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"])
def test_anything_else_in_the_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """Not an OpenSSH private key."""
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    assert code_of(lambda: load_private_key(path)) == "refused.key-format"
    assert code_of(lambda: load_private_key(tmp_path / "none")) == "port.not-found"


def test_the_folder_name_is_the_root_fingerprint_without_path_characters() -> None:
    """Base64 has two that a path cannot hold, or should not."""
    assert key_directory(Path("/k"), "SHA256:ab/cd+ef") == Path("/k/ab_cd-ef")


@pytest.mark.parametrize("failing", range(len(ROLES) + 4))
def test_no_failure_leaves_half_a_folder(failing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever write or sync fails, the last one too: nothing is left, under the final name or another."""
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1
        if calls > failing:
            raise PortError("port.disk", "The disk is full.")

    real_write, real_sync = write_atomic, fsync_directory

    def write(path: Path, data: bytes, *, mode: int) -> None:
        count()
        real_write(path, data, mode=mode)

    def sync(path: Path) -> None:
        count()
        real_sync(path)

    monkeypatch.setattr(module, "write_atomic", write)
    monkeypatch.setattr(module, "fsync_directory", sync)
    parent = tmp_path / "keys"
    if failing == len(ROLES) + 3:  # the positive control: as many calls as there are
        assert len(list(create_keys(parent, CountingEntropy()).directory.iterdir())) == len(ROLES) + 1
        return
    with pytest.raises(PortError):
        create_keys(parent, CountingEntropy())
    assert list(parent.iterdir()) == []


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the moment of the rename every key is in the folder; when it fails nothing is kept."""
    real = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if target.parent == tmp_path:
            assert {path.name for path in self.iterdir()} == {"root", *ROLES}
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    assert code_of(lambda: create_keys(tmp_path, CountingEntropy())) == "port.disk"
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_found_under_no_root(made: KeySet) -> None:
    """A folder that never got its name holds nobody's keys."""
    shutil.copytree(made.directory, made.directory.parent / ".new-abc")
    assert again(made).directory == made.directory


def test_a_link_to_the_folder_is_refused(made: KeySet, tmp_path: Path) -> None:
    """Also one to sound keys; and a file is no folder of keys."""
    made.directory.rename(tmp_path / "elsewhere")
    made.directory.symlink_to(tmp_path / "elsewhere")
    assert code_of(lambda: again(made)) == "refused.key-permissions"
    made.directory.unlink()
    made.directory.touch(0o600)
    assert code_of(lambda: again(made)) == "refused.key-format"


def test_a_key_is_a_small_regular_file(tmp_path: Path) -> None:
    """A good key is read; neither a folder nor more bytes than a key has."""
    path = tmp_path / "key"
    path.write_bytes(encode_private(SEED))
    path.chmod(0o600)
    assert load_private_key(path).keyid == Ed25519Signer(SEED).keyid
    path.write_bytes(b"x" * (MAX_KEY_BYTES + 1))
    assert code_of(lambda: load_private_key(path)) == "refused.too-large"
    path.unlink()
    path.mkdir(mode=0o700)
    assert code_of(lambda: load_private_key(path)) == "refused.not-regular"


def test_another_kind_of_key_is_refused(tmp_path: Path) -> None:
    """Only ed25519 signs here; the fix says how to make one."""
    assert decode_private(encode_private(SEED), tmp_path) == SEED
    raw = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    with pytest.raises(RefusedInput) as caught:
        decode_private(raw, tmp_path / "id")
    assert caught.value.code == "refused.key-format"
    assert "ssh-keygen -t ed25519" in caught.value.fix


def ssh_keygen(*arguments: object) -> str:
    done = subprocess.run(["ssh-keygen", *map(str, arguments)], capture_output=True, check=True, text=True)
    return done.stdout


@needs_ssh_keygen
def test_ssh_keygen_reads_what_we_write(made: KeySet) -> None:
    """The public half and the fingerprint of every file are the ones we print."""
    assert made.root is not None
    for name, signer in (("root", made.root), *made.signers.items()):
        path = made.directory / name
        assert ssh_keygen("-y", "-f", path).split()[:2] == PublicKey(signer.public_raw).line.split()
    assert made.root.keyid in ssh_keygen("-l", "-f", made.directory / "root")


@needs_ssh_keygen
def test_we_read_what_ssh_keygen_writes(tmp_path: Path) -> None:
    """An ed25519 key is read; an encrypted one and an RSA key are refused."""
    path = tmp_path / "id"
    ssh_keygen("-q", "-t", "ed25519", "-N", "", "-f", path)
    assert load_private_key(path).keyid in ssh_keygen("-l", "-f", path)
    others: dict[str, tuple[str, ...]] = {
        "locked": ("ed25519", "-N", "secret-word"),
        "rsa": ("rsa", "-b", "2048", "-N", ""),
    }
    for name, arguments in others.items():
        ssh_keygen("-q", "-f", tmp_path / name, "-t", *arguments)
        with pytest.raises(RefusedInput) as caught:
            load_private_key(tmp_path / name)
        assert caught.value.code == "refused.key-format"
