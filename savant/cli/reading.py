"""Opening a ledger to read it: which one, and which pin vouches for it. Nothing is written beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from savant.cli.kinds import registry
from savant.cli.places import Places
from savant.contracts.envelope import parse_envelope
from savant.contracts.errors import SavantError, Unverifiable, UsageError
from savant.contracts.registry import Registry
from savant.files.atomic import remove_tree
from savant.identity.documents import LedgerPin
from savant.identity.pins import find_pin, read_pins
from savant.ledger.ed25519 import Ed25519Verifier
from savant.ledger.linefile import LineFile
from savant.ledger.log import verify_source
from savant.ledger.place import is_ledger, ledger_directory
from savant.ledger.port import Source
from savant.ledger.reading import open_copy
from savant.ledger.record import Statement, line_digest, parse_statement
from savant.ledger.verify import Pin, VerificationReport
from savant.repository.git import Repository
from savant.store.bundle import CHECKPOINT, HEAD, LINES, is_bundle, unpack
from savant.store.objects import FileObjectStore

OBJECTS: str = "objects"


class Reading(msgspec.Struct, frozen=True):
    """A ledger as it was when it was opened.

    :param bodies: the objects beside it, None where there are none.
    :param pin: what vouches for it, None where nothing does.
    """

    directory: Path
    store: Source
    bodies: FileObjectStore | None
    registry: Registry
    pin: Pin | None

    def verify(self) -> VerificationReport:
        """Check every record, link, key, signature, root and head."""
        return verify_source(self.store, self.registry, self.pin, verifier=Ed25519Verifier(), bodies=self.bodies)

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
        found = None if first is None else pin_of_ledger(places, line_digest(first))
        yield Reading(reading.directory, reading.store, reading.bodies, reading.registry, found)


@contextmanager
def read_evidence(places: Places, source: Path, pin: Callable[[str], Pin | None]) -> Iterator[Reading]:
    """A bundle that came from elsewhere, copied and checked first.

    :param pin: what vouches for a ledger, by its id as the bundle has it; never anything of the bundle.
    :raises RefusedInput: ``refused.bundle``; what a bundle's lines or checkpoint may be refused for.
    :raises PortError: ``port.bundle``, ``port.disk``.
    """
    places.scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
    place = Path(tempfile.mkdtemp(prefix="evidence-", dir=places.scratch))
    try:
        unpack(source, place)
        store = LineFile(place / LINES, place / CHECKPOINT, place / HEAD)
        first = store.line(0)
        vouching = None if first is None else pin(line_digest(first))
        with FileObjectStore(place / OBJECTS) as bodies:
            yield Reading(source, store, bodies, registry(), vouching)
    finally:
        remove_tree(place)


@contextmanager
def choose_ledger(
    places: Places, repo: str, ledger: str | None, *, repo_given: bool, pin: Pin | None
) -> Iterator[Reading]:
    """The ledger that a person named: a bundle, a folder, or a repository.

    A folder beside a named repository has its pin; a bundle has the pin of exactly its ledger, if there is one.
    """
    if ledger is not None and is_bundle(Path(ledger)):
        vouching = pin
        with read_evidence(
            places, Path(ledger).absolute(), lambda id_: vouching or pin_of_ledger(places, id_)
        ) as found:
            yield found
        return
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


def pin_of_ledger(places: Places, ledger: str) -> Pin | None:
    """What the person's configuration says about a ledger, of whatever repository; None where it says nothing."""
    return _as_pin(next((pin for pin in read_pins(places.config).ledgers if pin.ledger == ledger), None))


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
