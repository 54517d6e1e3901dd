"""Every way a command can end, as one table: a name, its exit code, what a person reads.

Ranges that scripts can branch on: 0 allowed and done; 1 internal; 2 usage; 10-19 a person is needed; 20-29 refused;
30-39 no usable candidate; 40-49 not ready or environment; 50-59 application or verification.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from savant.contracts.errors import SavantError


class Exit(msgspec.Struct, frozen=True):
    """One ending: its code and its sentence."""

    code: int
    words: str


EXITS: Final[Mapping[str, Exit]] = MappingProxyType(
    {
        # what a run, an admission, an application or a verification came to
        "ok": Exit(0, "Done."),
        "candidate-ready": Exit(0, "Candidate ready; nothing applied."),
        "admitted": Exit(0, "ADMITTED: may be applied. Not proof that it is right; no person has reviewed it."),
        "admitted-with-conditions": Exit(0, "ADMITTED; its conditions were acknowledged by a person."),
        "applied-compliant": Exit(0, "APPLIED: the target holds exactly the admitted paths and bytes."),
        "internal": Exit(1, "Our bug; please report it."),
        "usage": Exit(2, "The command cannot be run as it was written."),
        "waiting": Exit(10, "WAITING for a person."),
        "escalated": Exit(11, "A person must decide; the work stopped."),
        "undecided": Exit(12, "CANNOT TELL: what is needed to answer is not there."),
        "verdicts-flip": Exit(13, "Verdicts would flip: a person must look at them."),
        "admission-refused": Exit(20, "REFUSED by a rule: nothing was written."),
        "uncertifiable": Exit(21, "CANNOT DECIDE: evidence missing."),
        "refused": Exit(22, "The input was refused; nothing was written."),
        "unverified": Exit(23, "A check was made and failed."),
        "unverifiable": Exit(24, "A check could not be made."),
        "not-governed": Exit(25, "NOT GOVERNED: no admitted and verified candidate explains it."),
        "terminal-failure": Exit(30, "No usable candidate."),
        "provider-stopped": Exit(31, "The provider did not answer; nothing was generated."),
        "runner-stopped": Exit(32, "The candidate could not be made or sealed."),
        "step-limit-reached": Exit(33, "The step limit was reached."),
        "not-ready": Exit(40, "Something is missing; no provider was called."),
        "resume-refused": Exit(41, "The run cannot be continued."),
        "port": Exit(42, "Something outside failed: git, the disk or a process."),
        "conflict": Exit(43, "Somebody else holds it, or it changed meanwhile."),
        "interrupted": Exit(44, "Interrupted; nothing was applied."),
        "apply-failed": Exit(50, "The candidate was not applied."),
        "applied-violated": Exit(51, "APPLIED, but the target differs from what was admitted."),
        "verification-failed": Exit(52, "The target could not be verified."),
        "scope-violated": Exit(53, "The target differs from what was admitted."),
        "stale": Exit(54, "The base or the decision changed since."),
        "incomplete": Exit(55, "The effect is durable, but what should follow it failed."),
        "undo-refused": Exit(56, "Nothing was undone: the target changed since."),
    }
)

NEEDS_A_PERSON: Final = frozenset({"architect-review-required", "escalated"})
"""Terminal reasons of the session that end with the code of ``escalated``."""


def exit_code(name: str) -> int:
    """The exit code of an ending."""
    return EXITS[name].code


def ending_of_run(disposition: str, reason: str | None) -> str:
    """The ending of a run: its disposition, or ``escalated`` where the session asks for a person."""
    if disposition == "terminal-failure" and reason in NEEDS_A_PERSON:
        return "escalated"
    return disposition


def ending_of_error(error: SavantError) -> str:
    """The ending of an error: the family of its code, application refusals and missing agents apart."""
    if error.code.startswith(("refused.apply-", "conflict.apply-")):
        return "apply-failed"
    if error.code in {"port.agent-missing", "port.agent-probe"}:
        return "not-ready"
    if error.code.startswith(("refused.undo-", "conflict.undo-")):
        return "undo-refused"
    return error.family
