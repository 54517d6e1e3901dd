"""Where a ledger lives, and how one begins: ``savant/`` in the repository's common git directory, by default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import msgspec

from savant.contracts.document import Sealed, seal
from savant.contracts.effects import Entropy
from savant.contracts.errors import Conflict, UsageError
from savant.contracts.signing import Signer
from savant.files.atomic import fsync_directory, remove_tree
from savant.files.tree import disk_error
from savant.ledger.authority import GENESIS_NAMESPACE, genesis_document, open_genesis_statement
from savant.ledger.documents import Continues, Genesis, Role, RootStatement
from savant.ledger.ed25519 import Ed25519Verifier
from savant.ledger.keyring import key_entry
from savant.ledger.log import Ledger
from savant.ledger.port import ManyVerifier, Store
from savant.ledger.record import NO_PREVIOUS, Bodies, Draft, Observed, Position, make_line
from savant.ledger.sqlitestore import DATABASE_NAME, HEAD_NAME, SqliteStore
from savant.ledger.sshkey import PublicKey
from savant.ledger.sshsig import sign_sshsig
from savant.ledger.verify import Pin

DIRECTORY_NAME: Final = "savant"
"""The folder inside the common git directory."""

_NONCE_BYTES: Final = 16


class Root(msgspec.Struct, frozen=True):
    """The root key: its public half, and a way to make an armoured SSH signature: ``sign(namespace, message)``."""

    public: PublicKey
    sign: Callable[[str, bytes], str]

    @classmethod
    def of(cls, signer: Signer) -> Root:
        """A root whose key is at hand, as a newcomer's is."""
        return cls(PublicKey(signer.public_raw), lambda namespace, message: sign_sshsig(signer, namespace, message))

    def statement(self, text: bytes, namespace: str) -> Sealed[RootStatement]:
        """The root statement over the canonical bytes of a document."""
        return seal(RootStatement(statement=text.decode("utf-8"), sshsig=self.sign(namespace, text)))


def ledger_directory(common_git_directory: Path) -> Path:
    """The default place of a repository's ledger."""
    return common_git_directory / DIRECTORY_NAME


def is_ledger(directory: Path) -> bool:
    """Whether a ledger was begun in this directory. Its database appears together with its genesis, or not at all."""
    return (directory / DATABASE_NAME).exists()


def begin(
    store: Store,
    signers: Mapping[Role, Signer],
    root: Root,
    *,
    entropy: Entropy,
    observed: Observed,
    verifier: ManyVerifier,
    continues: Continues | None = None,
) -> None:
    """Write the genesis into an empty store; the first checkpoint follows when it is opened.

    :raises UsageError: ``usage.no-log-key``.
    :raises Conflict: ``conflict.ledger-exists``.
    :raises RefusedInput: ``refused.shared-key`` and everything else that a keyring refuses.
    :raises VerificationError: when the root's signature is not the root's.
    """
    if "log" not in signers:
        raise UsageError("usage.no-log-key", "A ledger needs a log key from its first record on.")
    nonce = entropy.token(_NONCE_BYTES).hex()
    entries = [key_entry(signer, role, nonce=nonce, from_seq=0) for role, signer in signers.items()]
    genesis: Sealed[Genesis] = seal(genesis_document(nonce, root.public.line, entries, continues))
    body = root.statement(genesis.raw, GENESIS_NAMESPACE)
    open_genesis_statement(body.document, verifier)
    position = Position(id=None, seq=0, prev=NO_PREVIOUS, epoch=0)
    line = make_line(Draft(position, "log", None, observed, body, None, by_reference=False), signers["log"], None)
    with store.transaction() as transaction:
        if transaction.tail().size or transaction.read_head() is not None:
            raise Conflict("conflict.ledger-exists", "The store holds a ledger.", untouched="It was left alone.")
        transaction.insert(0, line, is_authority=False)


def create_ledger(
    directory: Path,
    signers: Mapping[Role, Signer],
    root: Root,
    *,
    entropy: Entropy,
    observed: Observed,
    bodies: Bodies | None = None,
    continues: Continues | None = None,
) -> Ledger:
    """Begin a ledger in a directory, on a local disk, and open it.

    :param signers: the keys of epoch 0 by role; ``log`` must be one of them.
    :raises UsageError: ``usage.no-log-key``.
    :raises Conflict: ``conflict.ledger-exists``.
    :raises RefusedInput: ``refused.network-disk``, ``refused.shared-key``.
    :raises PortError: when the disk fails.
    """
    if is_ledger(directory):
        raise _exists(directory)
    verifier = Ed25519Verifier()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        staging = Path(mkdtemp(prefix=".new-", dir=directory))
    except OSError as error:
        raise disk_error(error, f"Cannot make the ledger folder {str(directory)!r}") from error
    try:
        store = SqliteStore(staging, create=True)
        try:
            begin(store, signers, root, entropy=entropy, observed=observed, verifier=verifier, continues=continues)
            Ledger(store, signers, verifier=verifier)
        finally:
            store.close()
        _publish(staging, directory)
    finally:
        remove_tree(staging)
    return open_ledger(directory, signers, bodies=bodies)


def _publish(staging: Path, directory: Path) -> None:
    """Give the finished files their names: of several beginners one wins, and a crash leaves no half of a ledger."""
    try:
        (directory / DATABASE_NAME).hardlink_to(staging / DATABASE_NAME)
        with suppress(FileExistsError):  # whoever opened it in the meantime wrote a head as good as ours
            (directory / HEAD_NAME).hardlink_to(staging / HEAD_NAME)
    except FileExistsError as error:
        raise _exists(directory) from error
    except OSError as error:
        raise disk_error(error, f"Cannot place the ledger in {str(directory)!r}") from error
    fsync_directory(directory)


def _exists(directory: Path) -> Conflict:
    return Conflict(
        "conflict.ledger-exists", f"There is a ledger in {directory} already.", untouched="It was left alone."
    )


def open_ledger(
    directory: Path,
    signers: Mapping[Role, Signer],
    *,
    bodies: Bodies | None = None,
    pin: Pin | None = None,
    is_recovering: bool = False,
) -> Ledger:
    """Open the ledger of a directory for appending.

    :raises Unverifiable: ``unverifiable.no-ledger``, ``unverifiable.ledger-version``.
    :raises SavantError: as :class:`savant.ledger.log.Ledger`.
    """
    store = SqliteStore(directory)
    try:
        return Ledger(store, signers, verifier=Ed25519Verifier(), bodies=bodies, pin=pin, is_recovering=is_recovering)
    except BaseException:
        store.close()
        raise
