"""What a person's configuration remembers: the ledger of each repository, and check policies that were trusted.

A pin says which ledger is the right one: its id and its root key's fingerprint, per common git directory. It is what
makes ``verified`` more than ``self-consistent``. One canonical JSON file, replaced as a whole, durably.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from savant.contracts.document import Document, Part, accept, seal
from savant.contracts.envelope import KeyId
from savant.contracts.scalars import Digest, NonEmptyText, Set, as_set
from savant.files.atomic import lock, read_optional, write_atomic

PIN_FILE: Final = "pins.json"
MAX_PIN_BYTES: Final = 1024 * 1024


class LedgerPin(Part, frozen=True, kw_only=True):
    """The ledger that belongs to a repository on this machine."""

    repository: NonEmptyText
    ledger: Digest
    root_keyid: KeyId


class Pins(Document, frozen=True, kw_only=True, tag="savant.identity.pins/v1"):
    """Everything that the person decided to trust."""

    ledgers: Set[LedgerPin]
    trusted_policies: Set[Digest]


NOTHING: Final = Pins(ledgers=(), trusted_policies=())


def read_pins(config: Path) -> Pins:
    """The pins in the person's configuration folder; none when there is no file.

    :raises RefusedInput: when the file is malformed: it is never guessed at.
    """
    raw = read_optional(config / PIN_FILE, max_bytes=MAX_PIN_BYTES)
    return NOTHING if raw is None else accept(raw, Pins).document


def find_pin(pins: Pins, repository: Path) -> LedgerPin | None:
    """The pin of a repository, by its common git directory."""
    name = str(repository.resolve())
    return next((pin for pin in pins.ledgers if pin.repository == name), None)


def add_pin(config: Path, repository: Path, *, ledger: str, root_keyid: str) -> None:
    """Remember the ledger of a repository, replacing what was remembered of it."""
    pin = LedgerPin(repository=str(repository.resolve()), ledger=ledger, root_keyid=root_keyid)

    def change(pins: Pins) -> Pins:
        others = [known for known in pins.ledgers if known.repository != pin.repository]
        return Pins(ledgers=as_set([*others, pin]), trusted_policies=pins.trusted_policies)

    _update(config, change)


def trust_policy(config: Path, digest: str) -> None:
    """Remember that the check commands of this evaluator policy may run unsandboxed."""
    _update(
        config,
        lambda pins: Pins(ledgers=pins.ledgers, trusted_policies=as_set([*pins.trusted_policies, digest])),
    )


def _update(config: Path, change: Callable[[Pins], Pins]) -> None:
    config.mkdir(mode=0o700, parents=True, exist_ok=True)
    with lock(config / (PIN_FILE + ".lock")):
        write_atomic(config / PIN_FILE, seal(change(read_pins(config))).raw)
