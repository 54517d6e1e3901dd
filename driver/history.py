"""What the ledger says about a run: its records in order, each body accepted again. Reads, never decides.

The records' signatures and chain are the ledger verification's business (:mod:`savant.ledger.verify`); whoever acts on
a history verifies the ledger first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from savant.contracts.document import D, Document, Sealed
from savant.contracts.envelope import parse_envelope
from savant.contracts.errors import RefusedInput, Unverifiable
from savant.contracts.registry import Registry
from savant.ledger.documents import Role, RunClose
from savant.ledger.record import Bodies, Observed, accept_body, parse_statement


class HistoryEntry(msgspec.Struct, frozen=True):
    """One record of a run."""

    seq: int
    role: Role
    kind: str
    body: Sealed[Document]
    observed: Observed


class Record(msgspec.Struct, frozen=True):
    """One record of any run; ``entry`` is None where its kind was not asked for."""

    run_id: str
    seq: int
    observed: Observed
    entry: HistoryEntry | None


class RunHistory(msgspec.Struct):
    """The records of one run, in ledger order."""

    run_id: str
    entries: list[HistoryEntry] = msgspec.field(default_factory=list)

    def all(self, type_: type[D]) -> list[Sealed[D]]:
        """Every document of a type, in order."""
        return [entry.body for entry in self.entries if isinstance(entry.body.document, type_)]  # type: ignore[misc]

    def last(self, type_: type[D]) -> Sealed[D] | None:
        """The newest document of a type, or None."""
        found = self.all(type_)
        return found[-1] if found else None

    def need(self, type_: type[D]) -> Sealed[D]:
        """The newest document of a type.

        :raises Unverifiable: ``unverifiable.run-incomplete`` when the run never got there.
        """
        found = self.last(type_)
        if found is None:
            raise Unverifiable(
                "unverifiable.run-incomplete",
                f"Run {self.run_id[:12]} recorded no {type_.__name__.lower()}.",
                untouched="Nothing was written.",
                fix="savant show says how far the run came.",
            )
        return found

    def by_digest(self, type_: type[D], digest: str) -> Sealed[D]:
        """The document with a digest.

        :raises Unverifiable: ``unverifiable.run-incomplete``.
        """
        for sealed in self.all(type_):
            if sealed.digest == digest:
                return sealed
        raise Unverifiable(
            "unverifiable.run-incomplete", f"Run {self.run_id[:12]} recorded no {type_.__name__.lower()} {digest}."
        )

    def raw(self, digest: str) -> bytes:
        """The bytes of any recorded document.

        :raises Unverifiable: ``unverifiable.run-incomplete``.
        """
        for entry in self.entries:
            if entry.body.digest == digest:
                return entry.body.raw
        raise Unverifiable("unverifiable.run-incomplete", f"Run {self.run_id[:12]} recorded no document {digest}.")

    @property
    def is_closed(self) -> bool:
        """Whether the run ended in order; one without a close is interrupted, never complete."""
        return self.last(RunClose) is not None


def read_records(
    lines: Iterable[bytes],
    registry: Registry,
    bodies: Bodies | None,
    *,
    kinds: frozenset[str] | None = None,
    only: str | None = None,
    first_seq: int = 0,
) -> Iterator[Record]:
    """The records that belong to a run, in ledger order.

    :param lines: ledger lines from ``first_seq`` on.
    :param kinds: the kinds whose bodies are accepted; None for all of them.
    :param only: the id of the one run that is wanted.
    :raises SavantError: when a line or a body that is wanted cannot be accepted.
    """
    for seq, line in enumerate(lines, first_seq):
        payload, _, _ = parse_envelope(line)
        statement = parse_statement(payload)
        predicate = statement.predicate
        if predicate.run is None or (only is not None and predicate.run != only):
            continue
        entry = None
        if kinds is None or predicate.body_kind in kinds:
            body = accept_body(statement, registry, bodies)
            if body is None:
                raise Unverifiable("unverifiable.body-missing", f"The body of record {seq} is not here.")
            entry = HistoryEntry(seq, predicate.role, predicate.body_kind, body, predicate.observed)
        yield Record(predicate.run, seq, predicate.observed, entry)


def read_runs(
    lines: Iterable[bytes], registry: Registry, bodies: Bodies | None, *, only: str | None = None, first_seq: int = 0
) -> Iterator[RunHistory]:
    """The runs in the ledger, in the order in which they opened.

    :param lines: ledger lines from ``first_seq`` on.
    :param only: the id of the one run that is wanted.
    :raises SavantError: when a line or a body cannot be accepted.
    """
    runs: dict[str, RunHistory] = {}
    for record in read_records(lines, registry, bodies, only=only, first_seq=first_seq):
        if record.entry is not None:
            runs.setdefault(record.run_id, RunHistory(record.run_id)).entries.append(record.entry)
    yield from runs.values()


def list_runs(lines: Iterable[bytes]) -> tuple[str, ...]:
    """The ids of the runs in the ledger, in the order in which they opened; lines that cannot be read name none."""
    found: dict[str, None] = {}
    for line in lines:
        try:
            payload, _, _ = parse_envelope(line)
            run = parse_statement(payload).predicate.run
        except RefusedInput:
            continue
        if run is not None:
            found.setdefault(run)
    return tuple(found)
