"""Opening a ledger to read it: which one, and which pin vouches for it. Nothing is written beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from savant.cli.kinds import registry
from savant.cli.places import Places
from savant.contracts.envelope import parse_envelope
from savant.contracts.errors import SavantError, Unverifiable, UsageError
from savant.contracts.registry import Registry
from savant.identity.documents import LedgerPin
from savant.identity.pins import find_pin, read_pins
from savant.ledger.ed25519 import Ed25519Verifier
from savant.ledger.log import verify_store
from savant.ledger.place import is_ledger, ledger_directory
from savant.ledger.reading import open_copy
from savant.ledger.record import Statement, line_digest, parse_statement
from savant.ledger.sqlitestore import SqliteStore
from savant.ledger.verify import Pin, VerificationReport
from savant.repository.git import Repository
from savant.store.objects import FileObjectStore

OBJECTS: str = "objects"


class Reading(msgspec.Struct, frozen=True):
    """A ledger as it was when it was opened.

    :param bodies: the objects beside it, None where there are none.
    :param pin: what vouches for it, None where nothing does.
    """

    directory: Path
    store: SqliteStore
    bodies: FileObjectStore | None
    registry: Registry
    pin: Pin | None

    def verify(self) -> VerificationReport:
        """Check every record, link, key, signature, root and head."""
        return verify_store(self.store, self.registry, self.pin, verifier=Ed25519Verifier(), bodies=self.bodies)

    def lines(self) -> Iterator[bytes]:
        """Every line, in order."""
        return self.store.lines(0, self.store.tail().size)

    def statement(self, seq: int) -> tuple[bytes, Statement]:
        """The line and the statement of a record.

        :raises UsageError: ``usage.unknown-record``.
        :raises RefusedInput: when the line is malformed.
        """
        line = self.store.line(seq)
        if line is None:
            raise UsageError(
                "usage.unknown-record", f"The ledger has no record {seq}.", fix="List them: savant ledger log"
            )
        payload, _, _ = parse_envelope(line)
        return line, parse_statement(payload)


@contextmanager
def read_repository_ledger(
    places: Places, common_dir: Path, *, directory: Path | None = None, pin: Pin | None = None
) -> Iterator[Reading]:
    """A repository's ledger, or a copy of it elsewhere; the person's pin of that repository vouches for it.

    :param pin: another pin than the person's.
    :raises Unverifiable: ``unverifiable.no-ledger``, ``unverifiable.ledger-version``.
    """
    found = find_pin(read_pins(places.config), common_dir)
    with _open(places, directory or ledger_directory(common_dir), pin or _as_pin(found)) as reading:
        yield reading


@contextmanager
def read_ledger(places: Places, directory: Path, *, pin: Pin | None = None) -> Iterator[Reading]:
    """The ledger in a folder, of whatever repository: a pin of exactly this ledger vouches for it, if there is one."""
    with _open(places, directory, pin) as reading:
        if pin is not None:
            yield reading
            return
        first = reading.store.line(0)
        ledger = None if first is None else line_digest(first)
        found = next((p for p in read_pins(places.config).ledgers if p.ledger == ledger), None)
        yield Reading(reading.directory, reading.store, reading.bodies, reading.registry, _as_pin(found))


@contextmanager
def choose_ledger(
    places: Places, repo: str, ledger: str | None, *, repo_given: bool, pin: Pin | None
) -> Iterator[Reading]:
    """The ledger that a person named: a folder, or a repository; a folder beside a named repository has its pin."""
    if ledger is not None and not repo_given:
        with read_ledger(places, Path(ledger).absolute(), pin=pin) as reading:
            yield reading
        return
    with Repository.discover(Path(repo).absolute()) as repository:
        common_dir = repository.common_dir
    directory = None if ledger is None else Path(ledger).absolute()
    with read_repository_ledger(places, common_dir, directory=directory, pin=pin) as reading:
        yield reading


@contextmanager
def _open(places: Places, directory: Path, pin: Pin | None) -> Iterator[Reading]:
    if not is_ledger(directory):
        raise Unverifiable(
            "unverifiable.no-ledger",
            f"There is no Savant ledger in {directory}.",
            untouched="Nothing was written.",
            fix='savant run "..." makes one with its first run.',
        )
    places.scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
    with ExitStack() as stack:
        store = stack.enter_context(open_copy(directory, places.scratch))
        objects = directory / OBJECTS
        bodies = stack.enter_context(FileObjectStore(objects)) if objects.is_dir() else None
        yield Reading(directory, store, bodies, registry(), pin)


def pin_of(ledger: str | None, root: str | None) -> Pin | None:
    """The pin that a person typed, None when they typed none."""
    return None if ledger is None and root is None else Pin(ledger=ledger, root_keyid=root)


def _as_pin(found: LedgerPin | None) -> Pin | None:
    return None if found is None else Pin(ledger=found.ledger, root_keyid=found.root_keyid)


def readable(line: bytes) -> Statement | SavantError:
    """The statement of a line, or why it is not one."""
    try:
        payload, _, _ = parse_envelope(line)
        return parse_statement(payload)
    except SavantError as error:
        return error
