"""What contained a foreign command, as it was seen: an observation of the machine. Pure.

It stands in the ledger record that attests a receipt and never inside a document, so that two machines that do the
same work make the same documents. The levels and their words are the same everywhere: demands, records, screens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec

from savant.contracts.document import Part
from savant.contracts.scalars import Name, Set, as_set

SandboxLevel: TypeAlias = Literal["S0", "S1", "S2", "S3"]
"""What contains a command: from session, limits and sweep (S0) to namespaces with a root of their own (S3)."""

LEVEL_WORDS: Final[Mapping[SandboxLevel, str]] = MappingProxyType(
    {"S3": "full", "S2": "reduced", "S1": "weak", "S0": "none"}
)
"""The word that people read and write for each level."""

LEVELS_BY_WORD: Final[Mapping[str, SandboxLevel]] = MappingProxyType({word: lvl for lvl, word in LEVEL_WORDS.items()})
"""The level of each word."""


class Containment(Part, frozen=True, kw_only=True):
    """The containment that commands had.

    ``layers`` names what was active; ``network`` is ``open`` unless nothing outside could be reached.
    """

    level: SandboxLevel
    layers: Set[Name]
    network: Literal["open", "none"]


class Demand(msgspec.Struct, frozen=True):
    """The least containment that a command should have, and whether a person said that less will do this once."""

    level: SandboxLevel = "S0"
    is_waived: bool = False

    @property
    def minimum(self) -> SandboxLevel:
        """The level below which it does not run."""
        return "S0" if self.is_waived else self.level


def weakest(seen: Iterable[Containment | None]) -> Containment | None:
    """What several commands had at least: the lowest level, the common layers, ``open`` if one was. None for none."""
    known = [one for one in seen if one is not None]
    if not known:
        return None
    layers = set(known[0].layers).intersection(*(one.layers for one in known[1:]))
    return Containment(
        level=min(one.level for one in known),
        layers=as_set(layers),
        network="open" if any(one.network == "open" for one in known) else "none",
    )


def level_words(level: SandboxLevel) -> str:
    """A level for a person: its word and its sign, ``reduced (S2)``."""
    return f"{LEVEL_WORDS[level]} ({level})"
