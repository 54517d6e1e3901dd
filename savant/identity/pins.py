"""What a person's configuration remembers: the ledger of each repository, and check policies that were trusted.

A pin says which ledger is the right one: its id and its root key's fingerprint, per common git directory. It is what
makes ``verified`` more than ``self-consistent``. One canonical JSON file, replaced as a whole, durably.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from savant.contracts.document import accept, seal
from savant.contracts.errors import RefusedInput
from savant.contracts.scalars import as_set
from savant.files.atomic import lock, read_optional, write_atomic
from savant.files.paths import to_text
from savant.identity.documents import LedgerPin, Pins

PIN_FILE: Final = "pins.json"
MAX_PIN_BYTES: Final = 1024 * 1024


NOTHING: Final = Pins(ledgers=(), trusted_policies=())


def read_pins(config: Path) -> Pins:
    """The pins in the person's configuration folder; none when there is no file.

    :raises RefusedInput: ``refused.pins`` when the file is not as we wrote it: it is never guessed at;
        ``refused.not-regular``, ``refused.too-large``.
    """
    path = config / PIN_FILE
    raw = read_optional(path, max_bytes=MAX_PIN_BYTES)
    if raw is None:
        return NOTHING
    try:
        return accept(raw, Pins).document
    except RefusedInput as error:
        raise RefusedInput(
            "refused.pins",
            f"{path} is not what Savant wrote: {error}",
            untouched="Nothing was trusted and nothing was changed.",
            fix=f"Restore {path} from your backup, or remove it and pin the ledgers of your repositories again.",
        ) from error


def find_pin(pins: Pins, repository: Path) -> LedgerPin | None:
    """The pin of a repository, by its common git directory."""
    name = _name(repository)
    return next((pin for pin in pins.ledgers if pin.repository == name), None)


def _name(repository: Path) -> str:
    """The repository's real path, spelt as paths are in documents."""
    return to_text(os.fsencode(repository.resolve()))


def add_pin(config: Path, repository: Path, *, ledger: str, root_keyid: str) -> None:
    """Remember the ledger of a repository, replacing what was remembered of it."""
    pin = LedgerPin(repository=_name(repository), ledger=ledger, root_keyid=root_keyid)

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
