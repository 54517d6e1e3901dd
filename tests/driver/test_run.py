"""A whole run: the decision that follows the session, application when asked for, one receipt, one close."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from admission.documents import Decision
from admission.documents import Receipt as AdmissionReceipt
from admission.documents import Request as AdmissionRequest
from admission.policy import policy_toml, starter_policy
from driver.admit import Admission
from driver.documents import Receipt, RunDisposition, Savepoint
from driver.run import DISPOSITION_OF, Applied
from driver.step import Run
from providerport.scripted import Edit, Fail, write_files
from savant.contracts.document import digest_of
from savant.contracts.errors import PortError, RefusedInput
from savant.ledger.documents import Intent, RunClose, RunOpen
from tests.driver.sessionkit import GOOD, REGISTRY, RUN, World, check, planning, script
from tests.driver.test_loop import Rotten

WorldOf = Callable[..., World]


def policy(**changes: Any) -> Mapping[bytes, bytes]:
    """The base with a policy of its own that asks for no required check."""
    made = structs.replace(starter_policy(), **{"no_required_check": "allow", **changes})
    return {b".savant/policy.toml": policy_toml(made).encode()}


ALLOWS = policy()
SMALL = policy(limits=structs.replace(starter_policy().limits, files_ask=1, files_refuse=1))
TWO = Edit(write_files({b"src/a.py": b"a = 2\n", b"src/b.py": b"b = 2\n"}))


def outcome(w: World) -> tuple[RunDisposition, RunDisposition]:
    """The disposition that was returned, and the one that was closed with."""
    result = w.whole()
    (receipt,), (close,) = w.all(Receipt), w.all(RunClose)
    assert result.receipt.document == receipt
    assert receipt.disposition == result.disposition
    return result.disposition, close.disposition  # type: ignore[return-value]


def test_a_run_is_opened_first_and_closed_last(world: WorldOf) -> None:
    """The first record is the open, the last the close with the counts; the receipt stands just before it."""
    w = world(script(GOOD), files=ALLOWS)
    assert outcome(w) == ("admitted", "admitted")
    documents = [entry.body.document for entry in w.entries]
    assert isinstance(documents[0], RunOpen)
    assert isinstance(documents[-1], RunClose)
    assert isinstance(documents[-2], Receipt)
    assert (documents[-1].records, documents[-1].failed_appends) == (len(documents) - 1, 0)
    assert w.ledger.verify(REGISTRY).first_failure is None


def test_an_admitted_run_binds_every_digest(world: WorldOf) -> None:
    """The receipt names the decision, its request and the candidate; the admission has its savepoint before it."""
    w = world(script(GOOD), files=ALLOWS)
    result = w.whole()
    receipt = result.receipt.document
    (request,), (decision,), (composed,) = w.all(AdmissionRequest), w.all(Decision), w.all(AdmissionReceipt)
    assert (receipt.decision_digest, receipt.admission_request_digest) == (digest_of(decision), digest_of(request))
    assert composed.decision_digest == receipt.decision_digest
    assert decision.outcome == "admitted"
    assert receipt.candidate_digest == decision.candidate_digest
    assert receipt.reason == "candidate-ready-for-admission"
    assert (len(receipt.provider_receipts), len(receipt.runner_receipts), len(receipt.evaluation_receipts)) == (3, 1, 1)
    last = w.all(Savepoint)[-1]
    assert (last.stage, last.next_call, last.subject_digest) == (
        "admission",
        "admission.decide",
        decision.candidate_digest,
    )
    kinds = [type(entry.body.document) for entry in w.entries]
    assert kinds.index(AdmissionRequest) > max(i for i, kind in enumerate(kinds) if kind is Savepoint)
    assert receipt.limitations == ()


def test_every_decision_has_its_disposition() -> None:
    """The table covers the five outcomes, each with a disposition of its own."""
    assert len(set(DISPOSITION_OF.values())) == len(DISPOSITION_OF) == 5


@pytest.mark.parametrize(
    ("provider", "files", "disposition"),
    [
        (script(GOOD), ALLOWS, "admitted"),
        (script(GOOD), {}, "waiting"),
        (script(GOOD), SMALL, "admitted"),
        (script(TWO), SMALL, "admission-refused"),
        (script(*[Fail("unavailable", "overloaded")] * 3), ALLOWS, "terminal-failure"),
        (script(GOOD, interpretations=[Fail("unavailable", "network")]), ALLOWS, "provider-stopped"),
    ],
)
def test_each_ending_is_returned_recorded_and_closed_with(
    world: WorldOf, provider: Any, files: Mapping[bytes, bytes], disposition: RunDisposition
) -> None:
    """Returned disposition, receipt and close are one word; a decision exists exactly after a ready candidate."""
    w = world(provider, files=files)
    assert outcome(w) == (disposition, disposition)
    decided = disposition not in ("terminal-failure", "provider-stopped")
    assert bool(w.all(Decision)) is decided
    assert (w.all(Receipt)[0].decision_digest is not None) is decided


def test_accepted_and_then_refused(world: WorldOf) -> None:
    """A limit that only admission knows refuses a candidate that evaluation accepted; both are on record."""
    w = world(script(TWO), files=SMALL)
    result = w.whole()
    assert result.receipt.document.reason == "candidate-ready-for-admission"
    (decision,) = w.all(Decision)
    assert (decision.outcome, decision.envelope) == ("refused", ())
    assert result.disposition == "admission-refused"


def test_a_blob_that_rots_between_evaluation_and_admission_is_uncertifiable(world: WorldOf) -> None:
    """What evaluation read cannot be computed again: nothing is admitted, and the decision names the checks."""
    reads = Rotten(10**6)
    assert outcome(world(script(GOOD), files=ALLOWS, objects=reads))[0] == "admitted"
    most = max(reads.reads.values())
    rotten = [outcome(world(script(GOOD), files=ALLOWS, objects=Rotten(good)))[0] for good in range(1, most + 1)]
    lost = rotten.index("uncertifiable")
    assert lost > 0
    assert rotten == ["terminal-failure"] * lost + ["uncertifiable"] * (most - lost - 1) + ["admitted"]


def test_the_decision_of_an_uncertifiable_run_names_the_broken_checks(world: WorldOf) -> None:
    """Change and final digest cannot be established, so nothing else is decided."""
    w = next(
        w
        for good in range(1, 100)
        if outcome(w := world(script(GOOD), files=ALLOWS, objects=Rotten(good)))[0] == "uncertifiable"
    )
    (decision,) = w.all(Decision)
    assert {r.rule for r in decision.reasons} == {"o3.change-digest", "o3.final-digest", "o5.scope"}
    assert decision.envelope == ()


# -- application ------------------------------------------------------------------------------------------------------


def applying(result: Applied | Exception, seen: list[Admission]) -> Callable[[Run, Admission], Applied]:
    def apply(run: Run, admission: Admission) -> Applied:
        seen.append(admission)
        if isinstance(result, Exception):
            raise result
        return result

    return apply


def test_application_follows_an_admission_and_nothing_else(world: WorldOf) -> None:
    """It is called once after a savepoint of its own, with the recorded decision; never for a waiting run."""
    done = Applied("applied-compliant", "blake3:" + "1" * 64, "blake3:" + "2" * 64, "target x.")
    seen: list[Admission] = []
    w = world(script(GOOD), files=ALLOWS)
    result = w.whole(applying(done, seen))
    receipt = result.receipt.document
    assert (result.disposition, receipt.disposition) == ("applied-compliant", "applied-compliant")
    assert (receipt.application_receipt_digest, receipt.verification_digest) == (
        done.application_receipt_digest,
        done.verification_digest,
    )
    assert [a.decision.document for a in seen] == w.all(Decision)
    assert w.all(Savepoint)[-1].next_call == "candidateapply.apply"
    assert result.detail == "target x."
    for provider, files in ((script(GOOD), {}), (script(TWO), SMALL)):
        waiting = world(provider, files=files)
        assert waiting.whole(applying(done, seen)).applied is None
    assert len(seen) == 1


@pytest.mark.parametrize("error", [RefusedInput("refused.apply-dirty", "dirty"), PortError("port.disk", "full")])
def test_an_application_that_is_refused_or_breaks_is_a_disposition(world: WorldOf, error: Exception) -> None:
    """The run ends in order: its decision stands, the receipt says ``apply-failed``."""
    w = world(script(GOOD), files=ALLOWS)
    result = w.whole(applying(error, []))
    assert (result.disposition, w.all(RunClose)[0].disposition) == ("apply-failed", "apply-failed")
    assert w.all(Receipt)[0].application_receipt_digest is None
    assert str(error) in result.detail


# -- the ledger -------------------------------------------------------------------------------------------------------


def test_mode_off_records_nothing_and_says_so(world: WorldOf) -> None:
    """The run goes through; no record, and a limitation in the receipt."""
    w = world(script(GOOD), files=ALLOWS, mode="off")
    result = w.whole()
    assert (result.disposition, w.store.tail().size) == ("admitted", 1)
    assert [limit.source for limit in result.receipt.document.limitations] == ["driver.ledger"]


def test_mode_record_counts_what_could_not_be_recorded(world: WorldOf) -> None:
    """A disk that fails after five records stops nothing; every later append is counted."""
    whole = world(script(GOOD), files=ALLOWS, mode="record")
    assert outcome(whole)[0] == "admitted"
    w = world(script(GOOD), files=ALLOWS, mode="record")
    w.ledger.fails_at = 5
    result = w.whole()
    recorder = result.run.ports.recorder
    assert result.disposition == "admitted"
    assert (recorder.records, len(w.entries)) == (5, 5)
    assert recorder.failures == len(whole.entries) - 5
    assert [limit.source for limit in result.receipt.document.limitations] == ["driver.ledger"]


def test_mode_enforce_stops_before_the_effect(world: WorldOf) -> None:
    """Whatever append fails, no call was made whose intent is not on record."""
    whole = world(script(GOOD), files=ALLOWS)
    whole.whole()
    for good in range(len(whole.entries)):
        provider = script(GOOD)
        w = world(provider, files=ALLOWS)
        w.ledger.fails_at = good
        with pytest.raises(PortError):
            w.whole()
        assert len(w.entries) == good
        intents = sum(intent.operation.startswith("provider.") for intent in w.all(Intent))
        assert provider.calls() == intents


def test_a_checkpoint_that_fails_under_enforce_withholds_the_verdict(world: WorldOf) -> None:
    """Nothing is returned as admitted that a checkpoint does not cover; under record it is counted."""
    w = world(script(GOOD), files=ALLOWS)
    w.ledger.checkpoint_fails = True
    with pytest.raises(PortError):
        w.whole()
    recording = world(script(GOOD), files=ALLOWS, mode="record")
    recording.ledger.checkpoint_fails = True
    result = recording.whole()
    assert result.disposition == "admitted"
    assert result.run.ports.recorder.failures == 3


# -- governance -------------------------------------------------------------------------------------------------------


def test_the_same_run_twice_makes_the_same_documents(world: WorldOf) -> None:
    """Two runs on two ledgers differ in nothing but what was observed."""
    both = [world(script(TWO, GOOD, plans=[planning(patterns=("src/a.py",))] * 2), files=ALLOWS) for _ in range(2)]
    for w in both:
        w.whole()
    first, second = ([entry.body.digest for entry in w.entries] for w in both)
    assert first == second
    assert both[0].history.run_id == RUN


def test_what_a_check_said_is_said_to_a_person(world: WorldOf) -> None:
    """The first finding of a red evaluation is a line of progress."""
    w = world(script(TWO, GOOD, plans=[planning(patterns=("src/a.py",))] * 2), files=ALLOWS)
    w.whole()
    assert any("src/b.py" in line or "not promised" in line for line in w.progress.lines)
    assert "admission: admitted" in w.progress.lines


def test_an_unresolved_check_never_makes_an_admission(world: WorldOf) -> None:
    """A required check without its tool is no credit: the run fails and nothing is decided."""
    w = world(script(GOOD), files=ALLOWS)
    w.asked = replace(w.asked, checks=(check(["no-such-tool"]),))
    assert outcome(w) == ("terminal-failure", "terminal-failure")
    assert w.all(Decision) == []
