"""The recorder: one path to the ledger, in three modes."""

from __future__ import annotations

import pytest

from driver.recorder import MAX_DETAIL, PLAYED, ModeName, Recorder
from providerport.documents import Capabilities
from providerport.port import Usage
from savant.contracts.document import seal
from savant.contracts.errors import PortError, VerificationError
from savant.contracts.twins import FixedClock
from savant.ledger.documents import Intent, RunClose, RunOpen
from tests.driver.sessionkit import RUN, BrokenLedger, World, memory_ledger, script
from tests.driver.test_loop import WorldOf
from tests.vectors.examples import INTERPRETATION, SESSION


def made(ledger: BrokenLedger | None, mode: ModeName = "enforce") -> Recorder:
    return Recorder(ledger, run_id=RUN, mode=mode, clock=FixedClock(now_ms=7), host="h", tool="savant/1")


@pytest.fixture
def w(world: WorldOf) -> World:
    return world(script())


def test_a_record_holds_what_was_observed(w: World) -> None:
    """Time, host, tool, duration, usage and detail are observations beside the document, never in it."""
    recorder = made(w.ledger)
    recorder.record(
        "driver",
        seal(SESSION),
        duration_ms=5,
        usage=Usage(1, 2, 3, 4, is_notional=True),
        detail="x" * 3_000,
        attachments={"log": seal(SESSION).digest},
    )
    (entry,) = w.entries
    seen = entry.observed
    assert (seen.at_ms, seen.host, seen.tool, seen.duration_ms) == (7, "h", "savant/1", 5)
    assert (seen.tokens_in, seen.tokens_out, seen.cost_microunits, seen.tokens_cached) == (1, 2, 3, 4)
    assert seen.cost_notional is True
    assert seen.detail == "x" * MAX_DETAIL
    assert [(kept.name, kept.digest) for kept in seen.attachments] == [("log", seal(SESSION).digest)]
    assert entry.body.digest == seal(SESSION).digest
    assert (recorder.records, recorder.first_seq, recorder.last_seq) == (1, entry.seq, entry.seq)


def test_a_played_run_says_so_wherever_the_provider_spoke(w: World) -> None:
    """The remark stands in front of every record of the provider's host and in no other; nobody paid for its usage."""
    recorder = Recorder(
        w.ledger, run_id=RUN, mode="enforce", clock=FixedClock(now_ms=7), host="h", tool="savant/1", remark=PLAYED
    )
    claim = seal(
        Capabilities(
            provider="p",
            provider_kind="recipe",
            model="",
            identity_digest=seal(SESSION).digest,
            operations=(),
            reports_usage=False,
        )
    )
    intent = seal(Intent(operation="provider.planning", subject_digest=None, deadline_ms=None, detail=""))
    recorder.record("provider-host", claim, usage=Usage(1, 2, 3), detail="more")
    recorder.record("provider-host", intent)
    recorder.record("driver", seal(SESSION), usage=Usage(1, 2, 3))
    made(w.ledger).record("provider-host", claim, usage=Usage(1, 2, 3))
    seen = [(entry.observed.detail, entry.observed.cost_notional) for entry in w.entries]
    assert seen == [(f"{PLAYED}; more", True), (PLAYED, None), (None, False), (None, False)]


def test_once_is_once_for_each_role(w: World) -> None:
    """The same document by the same role is recorded once, by ``record`` as often as it is given."""
    recorder = made(w.ledger)
    for _ in range(2):
        recorder.record_once("driver", seal(SESSION))
    recorder.record_once("driver", seal(INTERPRETATION))
    assert len(w.entries) == 2
    recorder.record("driver", seal(SESSION))
    assert len(w.entries) == 3


def test_a_run_is_opened_and_closed_with_its_counts(w: World) -> None:
    """The open says the mode; the close counts the records before it, and a checkpoint covers it."""
    recorder = made(w.ledger)
    recorder.open_run()
    recorder.intent("driver", "x.y", subject=None, deadline_ms=4, detail="d")
    recorder.close_run("admitted")
    opened, intent, closed = (entry.body.document for entry in w.entries)
    assert opened == RunOpen(mode="enforce")
    assert intent == Intent(operation="x.y", subject_digest=None, deadline_ms=4, detail="d")
    assert closed == RunClose(disposition="admitted", records=2, failed_appends=0)
    last = w.store.last_checkpoint()
    assert last is not None
    assert last[0] == w.store.tail().size


@pytest.mark.parametrize("mode", ["off", "record", "enforce"])
def test_without_a_ledger_or_in_mode_off_nothing_is_recorded(w: World, mode: ModeName) -> None:
    """No ledger and mode off are the same silence."""
    for recorder in (made(None, mode), made(w.ledger, "off")):
        recorder.open_run()
        recorder.record_once("driver", seal(SESSION))
        recorder.close_run("admitted")
        recorder.checkpoint()
        assert (recorder.records, recorder.failures, recorder.first_seq) == (0, 0, None)
    assert w.entries == []
    assert made(None).ledger_id is None
    assert made(w.ledger).ledger_id == w.ledger.ledger_id


def test_a_failure_stops_under_enforce_and_is_counted_under_record(w: World) -> None:
    """Both count it; only enforce raises. What came before and after is there."""
    modes: tuple[ModeName, ...] = ("record", "enforce")
    for mode in modes:
        _, ledger, _ = memory_ledger()
        recorder = made(ledger, mode)
        recorder.open_run()
        ledger.fails_at = 0
        if mode == "enforce":
            with pytest.raises(PortError):
                recorder.record("driver", seal(SESSION))
        else:
            recorder.record("driver", seal(SESSION))
        ledger.fails_at = None
        recorder.record("driver", seal(INTERPRETATION))
        assert (recorder.failures, recorder.records) == (1, 2)


def test_a_record_whose_checkpoint_failed_is_a_record(w: World) -> None:
    """The close is durable though its checkpoint is not: it counts as a record and as a failure."""
    recorder = made(w.ledger, "record")
    recorder.open_run()
    w.ledger.checkpoint_fails = True
    recorder.close_run("admitted")
    assert (recorder.records, recorder.failures, len(w.entries)) == (2, 1, 2)
    recorder.checkpoint()
    assert recorder.failures == 2
    enforcing = made(w.ledger)
    with pytest.raises(PortError):
        enforcing.checkpoint()
    w.ledger.checkpoint_fails = False
    enforcing.checkpoint()
    assert enforcing.failures == 1


def test_a_role_that_may_not_say_it_is_refused(w: World) -> None:
    """The recorder lends no role the word of another: a session recorded by apply is not a session."""
    with pytest.raises(VerificationError) as caught:
        made(w.ledger).record("apply", seal(SESSION))
    assert caught.value.code == "unverified.role"
    made(w.ledger).record("driver", seal(SESSION))
    assert len(w.entries) == 1


def test_no_usage_is_not_a_usage_of_nothing(w: World) -> None:
    """Whether a subscription pays is unknown where nothing was reported, and said where something was."""
    recorder = made(w.ledger)
    recorder.record("driver", seal(SESSION))
    recorder.record("driver", seal(SESSION), usage=Usage())
    recorder.record("driver", seal(SESSION), usage=Usage(0, 0, 0, 0))
    seen = [(e.observed.tokens_in, e.observed.cost_microunits, e.observed.cost_notional) for e in w.entries]
    assert seen == [(None, None, None), (None, None, False), (0, 0, False)]
