"""What the ledger says about a run, read from a real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from driver.history import RunHistory, list_runs, read_runs
from savant.cli.kinds import registry
from savant.contracts.document import digest_of
from savant.contracts.errors import RefusedInput, Unverifiable, VerificationError
from savant.ledger.documents import RunClose, RunOpen
from savant.ledger.sqlitestore import SqliteStore
from savant.store.objects import MemoryObjectStore
from synthesis.documents import Interpretation, Plan, Session
from tests.driver.ledgerkit import RUN_A, RUN_B, make_ledger, record, small_run
from tests.vectors.examples import INTERPRETATION, PLAN, SESSION

REGISTRY = registry()


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[list[bytes]]:
    """A ledger in which run A closed and run B, begun meanwhile, did not."""
    ledger = make_ledger(tmp_path / "ledger")
    record(ledger, RUN_B, "log", RunOpen(mode="record"))
    small_run(ledger, RUN_A)
    record(ledger, RUN_B, "driver", SESSION)
    ledger.close()
    store = SqliteStore(tmp_path / "ledger")
    yield list(store.lines(0, store.tail().size))
    store.close()


def test_the_records_of_each_run_are_read_apart_and_in_order(lines: list[bytes]) -> None:
    """Records of runs that interleave are told apart; the genesis belongs to none."""
    runs = {run.run_id: run for run in read_runs(lines, REGISTRY, None)}
    assert list(runs) == [RUN_B, RUN_A]
    assert [type(e.body.document).__name__ for e in runs[RUN_A].entries] == [
        "RunOpen",
        "Session",
        "Intent",
        "Interpretation",
        "RunClose",
    ]
    assert [e.seq for e in runs[RUN_B].entries] == [1, 7]
    assert [e.role for e in runs[RUN_A].entries][:3] == ["log", "driver", "provider-host"]


def test_one_run_can_be_read_from_where_it_begins(lines: list[bytes]) -> None:
    """``only`` and ``first_seq`` give the same records with the same numbers."""
    (whole,) = read_runs(lines, REGISTRY, None, only=RUN_A)
    (part,) = read_runs(lines[2:], REGISTRY, None, only=RUN_A, first_seq=2)
    assert part.entries == whole.entries
    assert list(read_runs(lines, REGISTRY, None, only="c" * 32)) == []


def test_documents_are_found_by_type_and_digest(lines: list[bytes]) -> None:
    """The newest of a type, all of a type, one by digest, and the bytes of any."""
    (run,) = read_runs(lines, REGISTRY, None, only=RUN_A)
    assert run.need(Session).document == SESSION
    assert [sealed.document for sealed in run.all(Interpretation)] == [INTERPRETATION]
    assert run.by_digest(Session, digest_of(SESSION)).document == SESSION
    assert run.raw(digest_of(INTERPRETATION)) == run.need(Interpretation).raw
    assert run.last(Plan) is None


@pytest.mark.parametrize("ask", ["need", "by_digest", "raw"])
def test_what_a_run_never_recorded_is_named_as_missing(lines: list[bytes], ask: str) -> None:
    """Asking for a plan that is not there says so; it is never made up."""
    (run,) = read_runs(lines, REGISTRY, None, only=RUN_A)
    calls = {
        "need": lambda: run.need(Plan),
        "by_digest": lambda: run.by_digest(Plan, digest_of(PLAN)),
        "raw": lambda: run.raw(digest_of(PLAN)),
    }
    with pytest.raises(Unverifiable) as caught:
        calls[ask]()
    assert caught.value.code == "unverifiable.run-incomplete"


def test_a_run_without_a_close_is_not_complete(lines: list[bytes]) -> None:
    """Only a run-close closes a run."""
    runs = {run.run_id: run for run in read_runs(lines, REGISTRY, None)}
    assert runs[RUN_A].is_closed
    assert not runs[RUN_B].is_closed
    assert not RunHistory("c" * 32).is_closed


def test_a_body_that_lies_elsewhere_must_be_handed_in(tmp_path: Path) -> None:
    """A large document is read from the object store, verified; without the store it is missing, not skipped."""
    bodies = MemoryObjectStore()
    ledger = make_ledger(tmp_path / "ledger", bodies=bodies)
    large = structs.replace(SESSION, objective="x" * 60_000)
    small_run(ledger, RUN_A, [("driver", large)])
    ledger.close()
    store = SqliteStore(tmp_path / "ledger")
    lines = list(store.lines(0, store.tail().size))
    store.close()
    (run,) = read_runs(lines, REGISTRY, bodies)
    assert run.need(Session).document == large
    with pytest.raises(Unverifiable) as caught:
        list(read_runs(lines, REGISTRY, None))
    assert caught.value.code == "unverifiable.body-missing"


def test_a_changed_body_is_not_read(lines: list[bytes]) -> None:
    """A line whose body was replaced is refused, whatever its signature says; the untouched lines are accepted."""
    from savant.contracts.envelope import encode_envelope, parse_envelope

    payload, keyid, signature = parse_envelope(lines[3])
    assert b"Keep the total" in payload
    forged = encode_envelope(payload.replace(b"Keep the total", b"Drop the total"), keyid=keyid, signature=signature)
    list(read_runs(lines, REGISTRY, None))
    with pytest.raises(VerificationError) as caught:
        list(read_runs([*lines[:3], forged, *lines[4:]], REGISTRY, None))
    assert caught.value.code == "unverified.digest"


def test_the_runs_are_listed_even_between_lines_that_cannot_be_read(lines: list[bytes]) -> None:
    """A damaged line names no run and hides no other; reading the runs themselves refuses it."""
    damaged = [*lines[:4], b"{}", *lines[5:]]
    assert list_runs(lines) == list_runs(damaged) == (RUN_B, RUN_A)
    with pytest.raises(RefusedInput):
        list(read_runs(damaged, REGISTRY, None))


def test_the_close_counts_the_records(lines: list[bytes]) -> None:
    """The kit's close says how many records came before it, as the recorder's does."""
    (run,) = read_runs(lines, REGISTRY, None, only=RUN_A)
    assert run.need(RunClose).document.records == len(run.entries) - 1
