"""The ten ways an attempt can end, and which evidence its receipt then holds: one table, everything else from it. Pure.

``present`` and ``absent`` are about null, and about the empty text; ``either`` leaves it open. What the table cannot
say is said in :func:`check_receipt`: a digest of a change exists only when nothing of the provider was left alive.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from runner.documents import Disposition, Receipt

Presence: TypeAlias = Literal["absent", "present", "either"]

MEMBERS: Final[tuple[str, ...]] = (
    "snapshot_digest",
    "input_digest",
    "workspace_backend",
    "provider_receipt_digest",
    "result_digest",
    "quiescent",
    "change_digest",
    "final_digest",
    "candidate_digest",
    "cleanup_succeeded",
    "failure_code",
    "failure_detail",
)
"""The evidence members of a receipt, in the order in which an attempt comes by them."""

_LETTERS: Final[Mapping[str, Presence]] = MappingProxyType({"-": "absent", "+": "present", "?": "either"})

_ROWS: Final[tuple[tuple[Disposition, str], ...]] = (
    # snapshot, input, backend | receipt, result, quiescent | change, final, candidate | cleanup | code, detail
    ("snapshot-failure", "--- --- --- - +?"),
    ("workspace-init-failure", "++- --- --- ? +?"),
    ("provider-construction-failure", "+++ --- --- + +?"),
    ("provider-run-error", "+++ --- --- + +?"),
    ("provider-non-completed", "+++ +++ --- + +?"),
    ("workspace-freeze-failure", "+++ +++ --- + +?"),
    ("evidence-computation-failure", "+++ +++ --- + +?"),
    ("seal-failure", "+++ +++ ++- + +?"),
    ("digest-mismatch", "+++ +++ +++ + +?"),
    ("verified", "+++ +++ +++ + --"),
)

TABLE: Final[Mapping[Disposition, Mapping[str, Presence]]] = MappingProxyType(
    {
        disposition: MappingProxyType(
            {member: _LETTERS[letter] for member, letter in zip(MEMBERS, letters.replace(" ", ""), strict=True)}
        )
        for disposition, letters in _ROWS
    }
)
"""For each disposition, whether each evidence member is there."""

MEANINGS: Final[Mapping[Disposition, str]] = MappingProxyType(
    {
        "snapshot-failure": "the base could not be read, or is not the session's",
        "workspace-init-failure": "no workspace could be made",
        "provider-construction-failure": "the provider could not be made",
        "provider-run-error": "the call itself broke: no result of any kind",
        "provider-non-completed": "the provider answered that it did not complete, or was made to",
        "workspace-freeze-failure": "the candidate could not be frozen: processes were left, or a normaliser broke",
        "evidence-computation-failure": "the difference to the base could not be computed",
        "seal-failure": "the candidate was refused (no change, a hazard), or could not be stored",
        "digest-mismatch": "the provider declared other digests; sealed with the true ones, and goes no further",
        "verified": "sealed, stored and read back",
    }
)


def check_receipt(receipt: Receipt) -> list[str]:
    """What is wrong with a receipt's evidence, one sentence each; empty when it fits its disposition."""
    problems = [
        f"{member} must be {expected} when an attempt ends as {receipt.disposition}."
        for member, expected in TABLE[receipt.disposition].items()
        if expected != "either" and (getattr(receipt, member) in (None, "")) is (expected == "present")
    ]
    if receipt.change_digest is not None and receipt.quiescent is not True:
        problems.append("change_digest was computed while the provider was not proven to have ended.")
    return problems


def table_markdown() -> str:
    """The table as Markdown, for the contract's page."""
    marks: Mapping[Presence, str] = {"absent": "-", "present": "yes", "either": "either"}
    lines = [
        "| Disposition | " + " | ".join(f"`{member}`" for member in MEMBERS) + " |",
        "| --- |" + " --- |" * len(MEMBERS),
    ]
    lines += [
        f"| `{disposition}` | " + " | ".join(marks[presence] for presence in row.values()) + " |"
        for disposition, row in TABLE.items()
    ]
    return "\n".join(lines) + "\n"
