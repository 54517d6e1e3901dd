"""What verification answers: named checks, an outcome, and what an auditor pinned. Values only."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

CheckName: TypeAlias = Literal[
    "bytes",
    "schema",
    "bodies",
    "chain",
    "roles",
    "signatures",
    "tree",
    "checkpoint",
    "consistency",
    "head",
    "pin",
]
Status: TypeAlias = Literal["pass", "fail", "not-shown"]
Outcome: TypeAlias = Literal["verified", "self-consistent", "incomplete", "failed"]

CHECKS: Final[tuple[CheckName, ...]] = (
    "bytes",
    "schema",
    "bodies",
    "chain",
    "roles",
    "signatures",
    "tree",
    "checkpoint",
    "consistency",
    "head",
    "pin",
)
"""Every check, in the order of a report."""

_MAY_STAY_UNSHOWN: Final = frozenset({"bodies", "consistency", "pin"})
"""Checks that have nothing to do in an honest ledger (no large body, a single checkpoint) or without a pin."""


class PinnedCheckpoint(msgspec.Struct, frozen=True):
    """A tree head that somebody saw before: its size and 32-byte root."""

    size: int
    root: bytes


class Pin(msgspec.Struct, frozen=True):
    """What the auditor knows from elsewhere. Any part may be None; the first two decide which ledger this is."""

    ledger: str | None = None
    root_keyid: str | None = None
    checkpoint: PinnedCheckpoint | None = None

    @property
    def names_a_ledger(self) -> bool:
        """Whether it can vouch for a ledger."""
        return self.ledger is not None or self.root_keyid is not None


class CheckResult(msgspec.Struct, frozen=True):
    """One named check. ``seq``, ``code`` and ``detail`` tell the first thing that was wrong or missing."""

    name: CheckName
    status: Status
    seq: int | None
    code: str | None
    detail: str | None


class VerificationReport(msgspec.Struct, frozen=True):
    """The answer. ``covered`` records lie under the last good checkpoint; ``recoveries`` are their sequence numbers."""

    outcome: Outcome
    ledger: str | None
    root_keyid: str | None
    records: int
    covered: int
    last: str | None
    root: bytes
    recoveries: tuple[int, ...]
    checks: tuple[CheckResult, ...]

    def __getitem__(self, name: CheckName) -> CheckResult:
        """One check by its name."""
        return self.checks[CHECKS.index(name)]

    @property
    def first_failure(self) -> CheckResult | None:
        """The failed check with the earliest record, or None."""
        failed = [check for check in self.checks if check.status == "fail"]
        return min(failed, key=lambda check: _place(check.seq), default=None)


class Notes:
    """The first failure and the first gap of each check, and whether it ever had something to do."""

    def __init__(self) -> None:
        self._done: set[CheckName] = set()
        self._failed: dict[CheckName, tuple[int | None, str, str]] = {}
        self._missing: dict[CheckName, tuple[int | None, str, str]] = {}

    def done(self, *names: CheckName) -> None:
        """These checks had something to do."""
        self._done.update(names)

    def fail(self, name: CheckName, seq: int | None, code: str, detail: str) -> None:
        """Something was wrong; the earliest record is kept."""
        known = self._failed.get(name)
        if known is None or _place(seq) < _place(known[0]):
            self._failed[name] = seq, code, detail

    def missing(self, name: CheckName, seq: int | None, code: str, detail: str) -> None:
        """Something could not be shown; the first is kept."""
        self._missing.setdefault(name, (seq, code, detail))

    def result(self, name: CheckName) -> CheckResult:
        """What became of a check."""
        if name in self._failed:
            return CheckResult(name, "fail", *self._failed[name])
        if name in self._missing:
            return CheckResult(name, "not-shown", *self._missing[name])
        return CheckResult(name, "pass" if name in self._done else "not-shown", None, None, None)


def outcome_of(checks: tuple[CheckResult, ...], pin: Pin) -> Outcome:
    """The outcome that follows from the checks."""
    if any(check.status == "fail" for check in checks):
        return "failed"
    if any(
        check.status == "not-shown" and not (check.name in _MAY_STAY_UNSHOWN and check.code is None) for check in checks
    ):
        return "incomplete"
    return "verified" if pin.names_a_ledger else "self-consistent"


def _place(seq: int | None) -> int:
    return -1 if seq is None else seq
