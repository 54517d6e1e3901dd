"""The error tree. An exception means a broken promise; a verdict or a refusal is a document.

::

    SavantError                 internal
    |-- UsageError              usage         the caller asked for something impossible
    |-- Conflict                conflict      somebody else holds it, or it changed meanwhile
    |-- RefusedInput            refused       untrusted or malformed input was refused
    |-- VerificationError       unverified    a check was made and it failed
    |-- Unverifiable            unverifiable  a check could not be made
    |-- PortError               port          an effect failed (git, disk, process); may be retryable
    |-- CommittedButIncomplete  incomplete    the effect is durable, a follow-up failed
    `-- InternalError           internal      our bug

The word beside a class is its family: the part before the first dot of every ``code`` it carries. Exit codes are
chosen from the family in :mod:`savant.cli.exits`, nowhere else.
"""

from __future__ import annotations

import re
from typing import ClassVar, final

_CODE = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)+")


class SavantError(Exception):
    """The root: a dotted ``code``, a sentence, what is untouched, and the next command.

    :param code: dotted, its first part is the class's family (``refused.path-traversal``).
    :param message: one sentence for a person: what was refused and why.
    :param untouched: what was not changed, as a sentence; empty when nothing could have been.
    :param fix: the next command or edit that helps; empty when there is none.
    """

    family: ClassVar[str] = "internal"

    def __init__(self, code: str, message: str, *, untouched: str = "", fix: str = "") -> None:
        if _CODE.fullmatch(code) is None or code.partition(".")[0] != self.family:
            code = f"{self.family}.misnamed"
        super().__init__(message)
        self.code = code
        self.message = message
        self.untouched = untouched
        self.fix = fix

    def __str__(self) -> str:
        """The sentence, with its code in brackets."""
        return f"{self.message} [{self.code}]"


class UsageError(SavantError):
    """The caller asked for something that cannot be: a wrong flag, an unknown name, a misuse of an API."""

    family = "usage"


class Conflict(SavantError):
    """Somebody else holds the thing, or it changed between reading and writing."""

    family = "conflict"


class RefusedInput(SavantError):
    """Untrusted or malformed input was refused before any effect."""

    family = "refused"


class VerificationError(SavantError):
    """A check was made and its answer is no: a digest, a signature, a chain."""

    family = "unverified"


class Unverifiable(SavantError):
    """A check could not be made: what it needs is not there."""

    family = "unverifiable"


class PortError(SavantError):
    """An effect failed: git, the disk, a process, the clock. Nothing was half-written."""

    family = "port"

    def __init__(self, code: str, message: str, *, retryable: bool = False, untouched: str = "", fix: str = "") -> None:
        super().__init__(code, message, untouched=untouched, fix=fix)
        self.retryable = retryable


class CommittedButIncomplete(SavantError):
    """The effect is durable but something that should follow it failed; do not repeat the effect."""

    family = "incomplete"


@final
class InternalError(SavantError):
    """Our bug: an invariant that the code promised does not hold."""

    family = "internal"
