"""The run database as a fold of the ledger: the same rows, in whatever pieces the ledger was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from driver.documents import Accounting, CallLimit, Price
from driver.index import Lines, follow, rebuild
from driver.indexing import disposition_after
from driver.run import run_whole
from providerport.documents import Receipt as CallReceipt
from providerport.port import Call, Usage
from providerport.scripted import ANSWERS_INTERPRETATION, Answer, Edit, write_files
from savant.contracts.digest import digest as digest_of_bytes
from savant.contracts.envelope import parse_envelope
from savant.contracts.errors import SavantError, Unverifiable, VerificationError
from savant.ledger.documents import Intent
from savant.ledger.record import line_digest, parse_statement
from savant.store.database import RunDatabase
from savant.store.rows import (
    ClaimRow,
    ConfigurationRow,
    MessageRow,
    PlanRow,
    Position,
    RunRow,
    SessionRow,
    TemplateRow,
    UsageRow,
)
from synthesis.documents import Plan, Session
from tests.driver.sessionkit import GOOD, PROVIDER_CONFIG, REGISTRY, RUN, World, planning, script
from tests.driver.test_loop import WorldOf

OTHER = "b" * 32
KINDS = (RunRow, SessionRow, TemplateRow, ConfigurationRow, ClaimRow, PlanRow, UsageRow, MessageRow)
PRICED = Accounting(
    model="",
    call=CallLimit(tokens_in=10, tokens_out=10),
    price=Price(input_microunits=1_000_000, cached_microunits=0, output_microunits=2_000_000),
)


class Kept(msgspec.Struct, frozen=True):
    """A ledger as a list of lines, and what lies beside it."""

    lines: tuple[bytes, ...]
    objects: dict[str, bytes]

    def get(self, digest: str) -> bytes:
        raw = self.objects.get(digest)
        if raw is None:
            raise Unverifiable("unverifiable.object-missing", "It is gone.")
        return raw

    def put(self, raw: bytes) -> str:
        raise AssertionError("Reading a ledger writes nothing beside it.")

    def upto(self, size: int) -> Lines:
        return Lines(size, lambda start, stop: iter(self.lines[start : min(stop, size)]))

    @property
    def all(self) -> Lines:
        return self.upto(len(self.lines))

    def without(self, drop: Callable[[Any], bool]) -> Kept:
        """The ledger without the records whose body is dropped; nobody verifies the chain here."""
        return replace(self, lines=tuple(line for line in self.lines if not drop(body_of(line))))


def body_of(line: bytes) -> Any:
    predicate = parse_statement(parse_envelope(line)[0]).predicate
    return None if predicate.body_ref else REGISTRY.accept(bytes(predicate.body)).document


def seq_of(kept: Kept, wanted: Callable[[Any], bool]) -> int:
    return next(seq for seq, line in enumerate(kept.lines) if wanted(body_of(line)))


def kept(w: World) -> Kept:
    objects = {name: store.get(name) for store in (w.objects, w.bodies) for name in store.digests()}
    return Kept(tuple(w.store.lines(0, w.store.tail().size)), objects)


def loud(call: Call) -> Any:
    call.observer.note("thinking")
    call.observer.note("deeply\n\x1b[1m")
    return ANSWERS_INTERPRETATION.payload(call)  # type: ignore[operator]


@pytest.fixture
def two(world: WorldOf, tmp_path: Path) -> Kept:
    """Two runs whose records interleave: while the first one generates, the second one runs from start to end."""
    second = world(script(GOOD, interpretations=[Answer(ANSWERS_INTERPRETATION.payload, Usage(1, 2, 3, 0, True))]))

    def meanwhile(call: Call) -> None:
        ports = replace(second.ports(), recorder=second.ports().recorder.of_run(OTHER))
        run_whole(second.inputs(), ports, None)
        write_files({b"src/a.py": b"a = 2\n"})(call)  # type: ignore[arg-type]

    first = world(
        script(
            Edit(meanwhile),  # type: ignore[arg-type]
            interpretations=[Answer(loud, Usage(7, 5, None, 3))],
            plans=[Answer(planning().payload, Usage(4, 0, 9))],
            reports_usage=True,
        )
    )
    first.accounting = PRICED
    second.store, second.ledger, second.bodies = first.store, first.ledger, first.bodies
    second.scratch = tmp_path / "second"
    assert first.whole().receipt.document.candidate_digest is not None
    made = kept(first)
    return replace(made, objects={**kept(second).objects, **made.objects})


@pytest.fixture
def database(tmp_path: Path) -> Iterator[RunDatabase]:
    with RunDatabase(tmp_path / "runs.db") as database:
        yield database


def read(database: RunDatabase, ledger: Kept, lines: Lines | None = None) -> int:
    return follow(database, lines or ledger.all, REGISTRY, ledger)


def everything(database: RunDatabase) -> dict[type, tuple[Any, ...]]:
    return {kind: database.rows(kind) for kind in KINDS} | {Position: (database.position(),)}


def test_the_rows_of_a_run(database: RunDatabase, two: Kept) -> None:
    """Run, session, provider, plan, calls and messages are there, each with what its records say."""
    assert read(database, two) == sum(
        parse_statement(parse_envelope(x)[0]).predicate.run is not None for x in two.lines
    )
    assert [(run.run_id, run.phase) for run in database.rows(RunRow)] == [(RUN, "succeeded"), (OTHER, "succeeded")]
    first, second = database.rows(RunRow)
    session = next(body for line in two.lines if isinstance(body := body_of(line), Session))
    assert (first.objective, first.base_commit) == (session.objective, session.base_commit)
    assert first.disposition is not None
    assert first.candidate_digest is not None
    assert (
        first.ledger_first_seq < second.ledger_first_seq < (second.ledger_last_seq or 0) < (first.ledger_last_seq or 0)
    )
    assert (first.accounting is None, second.accounting is None) == (False, True)
    (row,) = database.rows(SessionRow)
    assert (row.session_digest, row.config_digest) == (first.session_digest, PROVIDER_CONFIG.digest)
    assert [t.name for t in database.rows(TemplateRow)] == ["import"]
    assert [(c.provider, c.model, c.body.encode()) for c in database.rows(ConfigurationRow)] == [
        ("import", None, PROVIDER_CONFIG.raw)
    ]
    assert sorted((c.provider, c.reports_usage) for c in database.rows(ClaimRow)) == [
        ("scripted", False),
        ("scripted", True),
    ]
    assert {(p.run_id, p.status, p.generation) for p in database.rows(PlanRow)} == {
        (RUN, "converged", 1),
        (OTHER, "converged", 1),
    }


def test_the_calls_of_a_run(database: RunDatabase, two: Kept) -> None:
    """Each call is one row, with what was reported, what it costs by the price in force, and nothing invented."""
    read(database, two)
    calls = [
        (c.operation, c.outcome, c.tokens_in, c.tokens_out, c.tokens_cached, c.cost_microunits, c.priced_microunits)
        for c in database.calls(RUN)
    ]
    assert calls == [
        ("interpretation", "completed", 7, 5, 3, None, 14),
        ("planning", "completed", 4, 0, None, 9, 4),
        ("generation", "completed", None, None, None, None, None),
    ]
    assert [c.is_notional for c in database.calls(RUN)] == [False, False, None]
    other = database.calls(OTHER)
    assert [(c.tokens_in, c.cost_microunits, c.priced_microunits, c.is_notional) for c in other] == [
        (1, 3, None, True),
        (None, None, None, None),
        (None, None, None, None),
    ]
    interpretation = database.calls(RUN)[0]
    assert database.rows(MessageRow) == (
        MessageRow(interpretation.seq, 1, "thinking"),
        MessageRow(interpretation.seq, 2, "deeply\n\x1b[1m"),
    )


def test_reading_in_pieces_gives_what_reading_at_once_gives(tmp_path: Path, two: Kept) -> None:
    """Wherever the reading stopped and went on, in this run or in another, the rows are the rebuilt ones."""
    with RunDatabase(tmp_path / "whole.db") as whole, RunDatabase(tmp_path / "pieces.db") as pieces:
        read(whole, two)
        expected = everything(whole)
        assert rebuild(whole, two.all, REGISTRY, two) > 0
        assert everything(whole) == expected

        @settings(max_examples=25)
        @given(st.sets(st.integers(1, len(two.lines) - 1)))
        def check(cuts: set[int]) -> None:
            pieces.clear()
            for size in (*sorted(cuts), len(two.lines)):
                read(pieces, two, two.upto(size))
            assert everything(pieces) == expected

        check()


def test_nothing_is_read_twice(database: RunDatabase, two: Kept) -> None:
    """A ledger that did not grow costs no reading; an empty one has nothing to read."""
    assert read(database, two) > 0
    assert read(database, two) == 0
    assert database.position() == Position(line_digest(two.lines[0]), len(two.lines), line_digest(two.lines[-1]))
    assert follow(database, two.upto(0), REGISTRY, two) == 0
    assert rebuild(database, two.upto(0), REGISTRY, two) == 0
    assert database.position() is None


@pytest.mark.parametrize("kind", ["another", "shorter", "different"])
def test_a_ledger_that_is_not_the_one_that_was_read(database: RunDatabase, two: Kept, kind: str) -> None:
    """Another ledger, one that was cut off, one that differs where it was left: read from its start, nothing kept."""
    read(database, two, two.upto(len(two.lines) - 3))
    first = two.without(lambda _: False)
    match kind:
        case "another":
            now = replace(first, lines=first.lines[1:])
        case "shorter":
            now = replace(first, lines=first.lines[:20])
        case _:
            now = two.without(lambda body: isinstance(body, Plan))
    read(database, now)
    with RunDatabase(Path(database._path).with_name("fresh.db")) as fresh:
        read(fresh, now)
        assert everything(database) == everything(fresh)
    assert len(database.rows(PlanRow)) == (0 if kind != "another" else 2)


def test_a_call_that_never_ended_is_a_row(database: RunDatabase, two: Kept) -> None:
    """A killed run leaves an intent without a receipt: the call is listed, and everything about it is unknown."""
    place = seq_of(two, lambda body: isinstance(body, Intent) and body.operation == "provider.interpretation")
    read(database, two, two.upto(place + 1))
    (call,) = database.calls(RUN)
    assert (call.seq, call.operation, call.outcome, call.duration_ms) == (place, "interpretation", None, None)
    assert (call.tokens_in, call.cost_microunits, call.is_notional, call.capabilities_digest) == (None,) * 4
    read(database, two)
    assert database.calls(RUN)[0].outcome == "completed"
    assert database.calls(RUN)[0].seq == place


def test_a_call_whose_intent_was_lost_is_a_row(database: RunDatabase, two: Kept) -> None:
    """In mode record an intent may be missing; the receipt alone is enough for the row."""
    lost = two.without(lambda body: isinstance(body, Intent))
    read(database, lost)
    assert len(database.calls(RUN)) == 3
    assert database.calls(RUN)[0].seq == seq_of(lost, lambda body: isinstance(body, CallReceipt))


def test_documents_that_were_lost_leave_their_place_empty(database: RunDatabase, two: Kept) -> None:
    """Without the configuration, the claim or the plan, what names them is there and names nobody."""
    lost = two.without(lambda body: type(body).__name__ in {"Config", "Capabilities", "Plan"})
    read(database, lost)
    assert {row.config_digest for row in database.rows(SessionRow)} == {None}
    assert {row.capabilities_digest for row in database.rows(UsageRow)} == {None}
    assert database.rows(PlanRow) == ()
    assert database.calls(RUN)[0].tokens_in == 7


def test_what_was_said_may_be_gone(database: RunDatabase, two: Kept) -> None:
    """Thrown-away transcripts leave the call without messages; damaged ones are an error, and nothing is written."""
    read(database, two)
    (said,) = {name for name, raw in two.objects.items() if b"thinking" in raw and b"observations" in raw}
    gone = replace(two, objects={name: raw for name, raw in two.objects.items() if name != said})
    rebuild(database, gone.all, REGISTRY, gone)
    assert database.rows(MessageRow) == ()
    assert len(database.calls(RUN)) == 3
    before = everything(database)
    damaged = replace(two, objects={**two.objects, said: two.objects[said].replace(b"thinking", b"drinking")})
    with pytest.raises(VerificationError):
        rebuild(database, damaged.all, REGISTRY, damaged)
    assert everything(database) == before


def test_a_record_that_cannot_be_read_writes_nothing(database: RunDatabase, two: Kept) -> None:
    """The rows stay what they were before the damaged part, and the reading goes on there when it is repaired."""
    half = len(two.lines) // 2
    read(database, two, two.upto(half))
    before = everything(database)
    broken = replace(two, lines=(*two.lines[: half + 3], b"{}", *two.lines[half + 4 :]))
    with pytest.raises(SavantError):
        read(database, broken)
    assert everything(database) == before
    read(database, two)
    assert database.position() == Position(line_digest(two.lines[0]), len(two.lines), digest_of_bytes(two.lines[-1]))


@pytest.mark.parametrize(
    ("application", "status", "disposition"),
    [
        ("applied", "scope-compliant", "applied-compliant"),
        ("mismatch-kept", "scope-compliant", "applied-violated"),
        ("applied", "scope-violated", "applied-violated"),
        ("applied", "uncertifiable", "verification-failed"),
        ("applied", "stale", "verification-failed"),
        ("mismatch-restored", "scope-compliant", "apply-failed"),
    ],
)
def test_what_a_run_came_to_by_an_application(application: str, status: str, disposition: str) -> None:
    """The application and the verification that followed it decide together."""
    assert disposition_after(application, status) == disposition


def lines_of(store: Sequence[bytes]) -> Lines:
    return Lines(len(store), lambda start, stop: iter(store[start:stop]))


def test_the_digest_of_a_line_that_is_not_there() -> None:
    """It is None, not an error: the ledger may be shorter than what was read."""
    assert lines_of([b"a"]).digest(0) == digest_of_bytes(b"a")
    assert lines_of([b"a"]).digest(1) is None
