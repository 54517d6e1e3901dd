"""What ran with less containment than was demanded of it, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from savant.contracts.containment import Containment, Demand, level_words
from synthesis.documents import Limitation

ALLOWED: Final = "a person allowed it with --allow-unsandboxed."


def shortfall(source: str, what: str, seen: Containment | None, demand: Demand) -> Limitation | None:
    """The limitation of commands that ran below their demand, because a person allowed it; None where they did not.

    :param what: who ran, in the plural, to begin a sentence with.
    """
    if seen is None or seen.level >= demand.level:
        return None
    text = (
        f"{what} ran at sandbox level {level_words(seen.level)}, and {level_words(demand.level)} is demanded: {ALLOWED}"
    )
    return Limitation(source=source, text=text, blocking=False)


def says_shortfall(limitations: Iterable[Limitation]) -> bool:
    """Whether one of the limitations says that something ran below its demand."""
    return any(limitation.text.endswith(ALLOWED) for limitation in limitations)
