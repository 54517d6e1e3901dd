"""The records of a ledger as rows for people, and the one that a person means. Reads, never decides."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from savant.cli.reading import Reading, readable
from savant.contracts.errors import SavantError, UsageError
from savant.ledger.record import Statement, line_digest

WORDS_FROM: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "savant.ledger.intent": ("operation",),
        "savant.ledger.run-open": ("mode",),
        "savant.ledger.run-close": ("disposition",),
        "savant.synthesis.transition": ("command", "phase_after"),
        "savant.synthesis.attempt": ("outcome",),
        "savant.synthesis.evaluation": ("recommendation",),
        "savant.synthesis.receipt": ("reason",),
        "savant.providerport.receipt": ("operation", "outcome"),
        "savant.runner.receipt": ("disposition",),
        "savant.evaluator.receipt": ("disposition",),
        "savant.admission.decision": ("outcome",),
        "savant.admission.verification": ("status",),
        "savant.candidateapply.receipt": ("disposition",),
        "savant.driver.receipt": ("disposition",),
        "savant.driver.savepoint": ("next_call",),
    }
)
"""Which members of a body the log shows, by kind without its version."""


def record_rows(reading: Reading) -> Iterator[dict[str, Any]]:
    """One row per record, oldest first; a line that cannot be read is a row that says so."""
    for seq, line in enumerate(reading.lines()):
        statement = readable(line)
        if isinstance(statement, SavantError):
            yield {"seq": seq, "at_ms": None, "role": None, "kind": None, "what": f"UNREADABLE: {statement.code}"} | {
                "run": None,
                "body_digest": None,
                "line_digest": line_digest(line),
            }
            continue
        predicate = statement.predicate
        yield {
            "seq": seq,
            "at_ms": predicate.observed.at_ms,
            "role": predicate.role,
            "kind": predicate.body_kind,
            "what": record_words(statement),
            "run": predicate.run,
            "body_digest": predicate.body_blake3,
            "line_digest": line_digest(line),
        }


def record_words(statement: Statement) -> str:
    """What a record is, in words: its kind, and for a few kinds what it says."""
    predicate = statement.predicate
    package, _, name = predicate.body_kind.partition("/")[0].removeprefix("savant.").partition(".")
    words = f"{package} {name}".replace("-", " ")
    members = WORDS_FROM.get(predicate.body_kind.partition("/")[0])
    if members is None or predicate.body_ref:
        return words
    try:
        body = json.loads(bytes(predicate.body))
    except (ValueError, RecursionError):
        return words
    said = " ".join(str(body[member]) for member in members if isinstance(body, dict) and body.get(member))
    return f"{words}: {said}" if said else words


def find_record(reading: Reading, text: str) -> tuple[int, list[int]]:
    """The newest record that is meant, and the other records of the same document.

    :raises UsageError: ``usage.unknown-record``, ``usage.ambiguous-record``.
    """
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text), []
    prefix = text.lower().removeprefix("blake3:")
    found: dict[str, list[int]] = {}
    for seq, line in enumerate(reading.lines()):
        digests = {line_digest(line)}
        statement = readable(line)
        if not isinstance(statement, SavantError):
            digests.add(statement.predicate.body_blake3)
        for digest in digests:
            if digest.partition(":")[2].startswith(prefix):
                found.setdefault(digest, []).append(seq)
    if not prefix or not found:
        raise UsageError(
            "usage.unknown-record", f"No record's digest begins with {text[:100]!r}.", fix="savant ledger log"
        )
    if len(found) > 1:
        raise UsageError(
            "usage.ambiguous-record",
            f"{text!r} begins several digests: {', '.join(sorted(found)[:5])}.",
            fix="Write more of it.",
        )
    (places,) = found.values()
    return places[-1], places[:-1]
