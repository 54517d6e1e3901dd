"""Private keys in the person's data folder: one file per role, in OpenSSH form, readable by nobody else.

A ledger's keys lie in one folder named after its root key's fingerprint, so the ledger itself says where to look. The
root of a newcomer is made here too; an organisation's root is somebody's own SSH key and never comes here. Keys are
independent random ones: no role can be computed from another.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from savant.contracts.effects import Entropy
from savant.contracts.errors import Conflict, PortError, RefusedInput, Unverifiable
from savant.contracts.signing import Signer
from savant.files.atomic import fsync_directory, read_regular, write_atomic
from savant.ledger.documents import Role
from savant.ledger.ed25519 import SEED_BYTES, Ed25519Signer
from savant.ledger.keyring import ROLES

ROOT: Final = "root"
MAX_KEY_BYTES: Final = 16 * 1024
_FORBIDDEN_BITS: Final = stat.S_IRWXG | stat.S_IRWXO


class KeySet(msgspec.Struct, frozen=True):
    """The keys of one ledger that are at hand."""

    directory: Path
    root: Signer | None
    signers: Mapping[Role, Signer]


def key_directory(parent: Path, root_keyid: str) -> Path:
    """The folder of the keys of the ledger whose root has this fingerprint."""
    return parent / root_keyid.removeprefix("SHA256:").replace("/", "_").replace("+", "-")


def create_keys(parent: Path, entropy: Entropy) -> KeySet:
    """Make a root key and one key per role, and keep them durably; all of them or none.

    :param parent: the person's key folder; it is made for nobody else to read.
    :raises Conflict: ``conflict.keys-exist``.
    :raises PortError: ``port.disk``.
    """
    seeds: dict[str, bytes] = {role: entropy.token(SEED_BYTES) for role in ROLES}
    root_seed = entropy.token(SEED_BYTES)
    root = Ed25519Signer(root_seed)
    directory = key_directory(parent, root.keyid)
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        working = Path(tempfile.mkdtemp(prefix=".new-", dir=parent))
    except OSError as error:
        raise _disk(parent, error) from error
    try:
        for name, seed in {ROOT: root_seed, **seeds}.items():
            write_atomic(working / name, encode_private(seed), mode=0o600)
        fsync_directory(working)
        if os.path.lexists(directory):
            raise Conflict("conflict.keys-exist", f"There are keys in {directory} already.")
        working = working.rename(directory)
        fsync_directory(parent)
    except OSError as error:
        shutil.rmtree(working, ignore_errors=True)
        raise _disk(parent, error) from error
    except BaseException:
        shutil.rmtree(working, ignore_errors=True)
        raise
    signers: dict[Role, Signer] = {role: Ed25519Signer(seeds[role]) for role in ROLES}
    return KeySet(directory, root, MappingProxyType(signers))


def load_keys(parent: Path, root_keyid: str) -> KeySet:
    """The keys of a ledger that are in the person's key folder; a role whose file is missing is left out.

    :raises Unverifiable: ``unverifiable.keys-missing`` when there is no folder for this ledger.
    :raises RefusedInput: ``refused.key-permissions``, ``refused.key-owner``, ``refused.key-format``; and as
        :func:`savant.files.atomic.read_regular`.
    """
    directory = key_directory(parent, root_keyid)
    if not os.path.lexists(directory):
        raise Unverifiable(
            "unverifiable.keys-missing",
            f"The private keys of this ledger (root {root_keyid}) are not in {parent}.",
            untouched="Nothing was recorded; no key was made.",
            fix="Restore the folder from your backup, or run from the account that made the ledger.",
        )
    verify_private(directory)
    if not directory.is_dir():
        raise RefusedInput("refused.key-format", f"{directory} is not a folder of keys.")
    signers: dict[Role, Signer] = {}
    for role in ROLES:
        path = directory / role
        if os.path.lexists(path):
            signers[role] = load_private_key(path)
    root = load_private_key(directory / ROOT) if os.path.lexists(directory / ROOT) else None
    if root is not None and root.keyid != root_keyid:
        raise RefusedInput("refused.key-format", f"The root key in {directory} is another ledger's.")
    return KeySet(directory, root, MappingProxyType(signers))


def verify_private(path: Path) -> None:
    """Return if nobody but its owner can use a key file or folder, and its owner is who runs us.

    :raises RefusedInput: ``refused.key-permissions`` for a link or for permission bits of others,
        ``refused.key-owner``.
    """
    facts = path.lstat()
    if stat.S_ISLNK(facts.st_mode) or facts.st_mode & _FORBIDDEN_BITS:
        bits = "700" if stat.S_ISDIR(facts.st_mode) else "600"
        raise RefusedInput(
            "refused.key-permissions",
            f"Others can read or replace the key {path}, or it is a link.",
            untouched="The key was not used.",
            fix=f"chmod {bits} {path}",
        )
    if facts.st_uid != os.geteuid():
        raise RefusedInput("refused.key-owner", f"The key {path} belongs to another user.", fix="Use your own key.")


def load_private_key(path: Path) -> Ed25519Signer:
    """An unencrypted OpenSSH ed25519 private key.

    :raises RefusedInput: ``refused.key-permissions``, ``refused.key-owner``, ``refused.key-format`` (another type, or
        encrypted: keys of an agent cannot be read from a file).
    :raises PortError: ``port.not-found``.
    """
    if not os.path.lexists(path):
        raise PortError("port.not-found", f"There is no key at {path}.", fix="Make one: ssh-keygen -t ed25519")
    verify_private(path)
    return Ed25519Signer(decode_private(read_regular(path, max_bytes=MAX_KEY_BYTES), path))


def encode_private(seed: bytes) -> bytes:
    """The OpenSSH private key file of a seed, unencrypted."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.from_private_bytes(seed)
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def decode_private(raw: bytes, path: Path) -> bytes:
    """The seed of an OpenSSH private key file.

    :raises RefusedInput: ``refused.key-format``.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    try:
        key = load_ssh_private_key(raw, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise RefusedInput(
            "refused.key-format",
            f"{path} is not an unencrypted OpenSSH private key that can be used here.",
            untouched="Nothing was signed.",
            fix="Use an unencrypted ed25519 key file: ssh-keygen -t ed25519 -N '' -f FILE",
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise RefusedInput(
            "refused.key-format", f"{path} is not an ed25519 key.", fix="Make one: ssh-keygen -t ed25519"
        )
    return key.private_bytes_raw()


def _disk(path: Path, error: OSError) -> PortError:
    return PortError(
        "port.disk", f"The key folder {path} cannot be written: {error.strerror}.", untouched="No key was kept."
    )
