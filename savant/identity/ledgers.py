"""Whose evidence counts in a project: ledgers by their id. Pure.

They stand in ``.savant/ledgers.toml``, and the gate reads it from the branch that a change goes to::

    [[ledger]]
    id = "blake3:..."  # what savant bundle says
    root = "SHA256:..."  # the fingerprint of its root key; may be left out
    held = "ci"  # where its keys are: "person" (the default), or "ci"
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from savant.contracts.errors import RefusedInput
from savant.contracts.scalars import Digest, NonEmptyText

LEDGERS_PATH: Final = b".savant/ledgers.toml"
MAX_LEDGERS_BYTES: Final = 1024 * 1024


class AcceptedLedger(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A ledger whose evidence counts, and who holds its keys."""

    id: Digest
    root: NonEmptyText | None = None
    held: Literal["person", "ci"] = "person"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ledger: tuple[AcceptedLedger, ...]


def read_ledgers(raw: bytes) -> tuple[AcceptedLedger, ...]:
    """The ledgers of a project, in the file's order.

    :raises RefusedInput: ``refused.ledgers`` naming the key and the fix.
    """
    import tomllib

    if len(raw) > MAX_LEDGERS_BYTES:
        raise _refused(f"the file has {len(raw)} bytes; {MAX_LEDGERS_BYTES} are allowed")
    try:
        found = msgspec.convert(tomllib.loads(raw.decode("utf-8")), _File, strict=True).ledger
    except msgspec.ValidationError as error:
        raise _refused(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise _refused(f"it is not TOML: {error}") from error
    if len({ledger.id for ledger in found}) != len(found):
        raise _refused("a ledger is listed twice")
    return found


def _refused(why: str) -> RefusedInput:
    return RefusedInput(
        "refused.ledgers",
        f".savant/ledgers.toml: {why}",
        untouched="No evidence was read.",
        fix="Correct .savant/ledgers.toml on the branch that the change goes to.",
    )
