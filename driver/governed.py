"""From a closure to what the host puts into every interpretation, and to the obligations of the session. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from providerport.mapping import Governed
from savant.contracts.scalars import as_set
from savant.identity.documents import Closure, RecordKind

MEMBER_OF: Final[Mapping[RecordKind, str]] = MappingProxyType(
    {
        "intent": "applicable_intent",
        "invariant": "binding_invariants",
        "contract": "relevant_contracts",
        "owner": "authority_boundaries",
        "known-failure-mode": "known_failure_modes",
        "forbidden-fix": "forbidden_fixes",
    }
)
"""Where each kind of record goes in an interpretation; a proof obligation goes into the session."""


def governed_by(closure: Closure) -> Governed:
    """What the records of a closure say, by member of the interpretation, in the closure's order."""
    lists: dict[str, tuple[str, ...]] = {
        member: tuple(record.text for record in closure.records if record.record_kind == kind)
        for kind, member in MEMBER_OF.items()
    }
    return Governed(**lists, limitations=closure.limitations)


def obligations_of(closure: Closure) -> tuple[str, ...]:
    """The proof obligations of a closure, as a set value."""
    return as_set(record.text for record in closure.records if record.record_kind == "proof-obligation")


def evidence_of_obligations(closure: Closure) -> dict[str, str | None]:
    """By record id, the evaluator that discharges each proof obligation; None where no check can."""
    return {record.id: record.evidence for record in closure.records if record.record_kind == "proof-obligation"}
