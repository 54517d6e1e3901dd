"""Opening the repository's ledger for writing: keys found or made, the ledger pinned in the person's configuration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from savant.cli.workbench import Workbench
from savant.contracts.errors import Conflict, InternalError
from savant.files.atomic import lock
from savant.identity.keys import create_keys, load_keys
from savant.identity.pins import add_pin, find_pin, read_pins
from savant.ledger.ed25519 import Ed25519Verifier
from savant.ledger.log import Ledger
from savant.ledger.place import Root, create_ledger, open_ledger
from savant.ledger.record import observation
from savant.ledger.sqlitestore import SqliteStore
from savant.ledger.verify import Pin


class OpenLedger(msgspec.Struct, frozen=True):
    """A ledger that may be appended to, and whether this command made it."""

    ledger: Ledger
    created: bool
    keys: Path


@contextmanager
def writable_ledger(bench: Workbench) -> Iterator[OpenLedger]:
    """The ledger of the repository, made with fresh keys when there is none yet.

    :raises Conflict: ``conflict.ledger-gone`` when a pinned ledger is no longer there.
    :raises Unverifiable: ``unverifiable.keys-missing``: keys are never made for a ledger that exists.
    :raises SavantError: as opening the ledger and reading keys do.
    """
    bench.directory.mkdir(mode=0o700, exist_ok=True)
    with lock(bench.directory / "open.lock"):
        opened = _open(bench) if bench.has_ledger() else _create(bench)
    try:
        yield opened
    finally:
        opened.ledger.close()


def pin_of(bench: Workbench) -> Pin | None:
    """What the person's configuration says about this repository's ledger."""
    pin = find_pin(read_pins(bench.places.config), bench.repository.common_dir)
    return None if pin is None else Pin(ledger=pin.ledger, root_keyid=pin.root_keyid)


def _create(bench: Workbench) -> OpenLedger:
    if pin_of(bench) is not None:
        raise Conflict(
            "conflict.ledger-gone",
            f"This repository had a ledger, and {bench.directory} no longer holds it.",
            untouched="Nothing was written; no key was made.",
            fix=f"Restore it, or remove its entry from {bench.places.config / 'pins.json'} to begin a new one.",
        )
    keys = create_keys(bench.places.data / "keys", bench.entropy)
    if keys.root is None:  # pragma: no cover - create_keys makes it
        raise InternalError("internal.root", "No root key was made.")
    ledger = create_ledger(
        bench.directory,
        keys.signers,
        Root.of(keys.root),
        entropy=bench.entropy,
        observed=observation(bench.clock.now_ms(), host=bench.host),
        bodies=bench.store,
    )
    _remember(bench, ledger)
    return OpenLedger(ledger, created=True, keys=keys.directory)


def _open(bench: Workbench) -> OpenLedger:
    pin = pin_of(bench)
    root_keyid = root_of(bench) if pin is None or pin.root_keyid is None else pin.root_keyid
    keys = load_keys(bench.places.data / "keys", root_keyid)
    ledger = open_ledger(bench.directory, keys.signers, bodies=bench.store, pin=pin)
    if pin is None:
        _remember(bench, ledger)
    return OpenLedger(ledger, created=False, keys=keys.directory)


def root_of(bench: Workbench) -> str:
    """The fingerprint of the root key that the ledger itself names."""
    store = SqliteStore(bench.directory)
    try:
        return Ledger(store, {}, verifier=Ed25519Verifier(), is_recovering=True).pin.root_keyid or ""
    finally:
        store.close()


def _remember(bench: Workbench, ledger: Ledger) -> None:
    pin = ledger.pin
    add_pin(
        bench.places.config,
        bench.repository.common_dir,
        ledger=pin.ledger or ledger.ledger_id,
        root_keyid=pin.root_keyid or "",
    )
