"""What every format is read into: cases with a name, how each ended, and the words of its failure. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from savant.contracts.errors import RefusedInput
from synthesis.documents import CheckStatus

MAX_REPORT_BYTES: Final = 32 * 1024 * 1024
MAX_CASES: Final = 200_000
MAX_TEXT: Final = 20_000
MAX_NAME: Final = 1_000
Clean: TypeAlias = Callable[[str], str]
"""Takes out of a text what differs from run to run: the places of disposable copies, times."""

_SEVERITY: Final[Mapping[CheckStatus, int]] = MappingProxyType(
    {"unavailable": 3, "failed": 2, "skipped": 1, "passed": 0}
)


class TestCase(msgspec.Struct, frozen=True):
    """One case: where it belongs, its name, how it ended, and the words of its failure."""

    __test__ = False

    classname: str
    name: str
    status: CheckStatus
    message: str
    text: str


def is_worse(status: CheckStatus, other: CheckStatus) -> bool:
    """Whether the first way to end says more against a case than the second."""
    return _SEVERITY[status] > _SEVERITY[other]


def refused_report(code: str, title: str, why: str) -> RefusedInput:
    """The refusal of a report: ``refused.<code>``."""
    return RefusedInput(f"refused.{code}", f"The {title} report is refused: {why}.")


def check_report(code: str, title: str, raw: bytes) -> None:
    """Return if a report is small enough to be read.

    :raises RefusedInput: ``refused.<code>``.
    """
    if len(raw) > MAX_REPORT_BYTES:
        raise refused_report(code, title, f"it has {len(raw)} bytes")
