"""Which evidence an evaluation receipt holds, by disposition: one table for the validator, the docs and the tests."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from evaluator.documents import Disposition, Receipt

Presence = Literal["present", "absent", "either"]


class Row(msgspec.Struct, frozen=True):
    """The evidence of one disposition."""

    candidate: Presence
    verified: bool
    results: Presence
    evaluation: Presence
    cleanup: Presence


DISPOSITIONS: Final[Mapping[Disposition, Row]] = MappingProxyType(
    {
        "invalid-output-terminated": Row("absent", False, "absent", "absent", "absent"),
        "candidate-load-failure": Row("either", False, "absent", "absent", "absent"),
        "materialization-failure": Row("present", True, "either", "absent", "present"),
        "required-evaluator-unavailable": Row("present", True, "either", "absent", "present"),
        "composition-failure": Row("present", True, "either", "absent", "present"),
        "evaluated": Row("present", True, "either", "present", "present"),
    }
)


def check_receipt(receipt: Receipt) -> list[str]:
    """What is wrong with a receipt's evidence; empty when it is as the table says."""
    row = DISPOSITIONS[receipt.disposition]
    held: tuple[tuple[str, Presence, bool], ...] = (
        ("candidate_digest", row.candidate, receipt.candidate_digest is not None),
        ("results", row.results, bool(receipt.results)),
        ("evaluation_digest", row.evaluation, receipt.evaluation_digest is not None),
        ("cleanup_succeeded", row.cleanup, receipt.cleanup_succeeded is not None),
    )
    problems = [
        f"{name} must be {presence}"
        for name, presence, there in held
        if presence != "either" and there != (presence == "present")
    ]
    if receipt.candidate_verified is not row.verified:
        problems.append(f"candidate_verified must be {row.verified}")
    if bool(receipt.failure_code) is (receipt.disposition == "evaluated"):
        problems.append("failure_code is there exactly when nothing was evaluated")
    return problems


def table_markdown() -> str:
    """The table for the docs."""
    lines = [
        "| Disposition | candidate | verified | results | evaluation | cleanup |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in DISPOSITIONS.items():
        lines.append(
            f"| `{name}` | {row.candidate} | {'yes' if row.verified else 'no'} | {row.results} | {row.evaluation} "
            f"| {row.cleanup} |"
        )
    return "\n".join(lines) + "\n"
