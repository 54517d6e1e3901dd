"""The admission step: the candidate is computed again from the base and the stored blobs, and the chain decided."""

from __future__ import annotations

import pytest

from admission.documents import Decision
from admission.documents import Request as AdmissionRequest
from driver.admit import admit, recompute
from driver.chain import chain_of
from runner.documents import Candidate
from savant.contracts.document import digest_of
from savant.store.objects import MemoryObjectStore
from tests.driver.sessionkit import GOOD, World, script
from tests.driver.test_loop import Rotten, WorldOf
from tests.driver.test_run import ALLOWS


@pytest.fixture
def w(world: WorldOf) -> World:
    """A world in which one run was admitted."""
    made = world(script(GOOD), files=ALLOWS)
    assert made.whole().disposition == "admitted"
    return made


def test_a_candidate_is_computed_again(w: World) -> None:
    """Change set, final digest and scope are what the candidate says, from the base and the blobs alone."""
    (candidate,) = w.all(Candidate)
    again = recompute(w.snapshot, candidate, w.objects, w.inputs().evaluator_policy.document)
    assert again.change_set is not None
    assert digest_of(again.change_set) == candidate.change_digest
    assert again.final_digest == candidate.final_digest
    assert [(e.path, e.kind, e.added_lines, e.removed_lines) for e in again.scope] == [("src/a.py", "modify", 1, 1)]


@pytest.mark.parametrize("store", [MemoryObjectStore(), "rotten"])
def test_a_candidate_without_its_blobs_is_nothing(w: World, store: object) -> None:
    """A blob that is missing or other gives no digests and no scope: whatever is decided is uncertifiable."""
    (candidate,) = w.all(Candidate)
    if store == "rotten":
        store = Rotten(0)
        for digest in w.objects.digests():
            store.put(w.objects.get(digest))
    again = recompute(w.snapshot, candidate, store, w.inputs().evaluator_policy.document)  # type: ignore[arg-type]
    assert (again.change_set, again.final_digest, again.scope) == (None, None, ())
    made = admit(lambda recomputed: chain_of(w.history, w.snapshot, recomputed), again, requester="")
    assert made.decision.document.outcome == "uncertifiable"
    assert made.receipt.document.outcome == "uncertifiable"


def test_the_same_chain_is_decided_the_same(w: World) -> None:
    """From the records alone: the same request, decision and receipt, byte for byte."""
    (candidate,) = w.all(Candidate)
    again = recompute(w.snapshot, candidate, w.objects, w.inputs().evaluator_policy.document)
    made = admit(lambda recomputed: chain_of(w.history, w.snapshot, recomputed), again, requester="")
    assert made.decision.document == w.all(Decision)[0]
    assert made.request.document == w.all(AdmissionRequest)[0]
    assert (made.receipt.document.request_digest, made.receipt.document.decision_digest) == (
        made.request.digest,
        made.decision.digest,
    )
    other = admit(lambda recomputed: chain_of(w.history, w.snapshot, recomputed), again, requester="Ada")
    assert other.request.digest != made.request.digest


def test_another_base_breaks_the_chain(w: World, world: WorldOf) -> None:
    """A base that is not the session's gives other digests."""
    (candidate,) = w.all(Candidate)
    foreign = world(script(), files={**ALLOWS, b"more": b"x"})
    again = recompute(foreign.snapshot, candidate, w.objects, w.inputs().evaluator_policy.document)
    assert again.final_digest != candidate.final_digest
    made = admit(lambda recomputed: chain_of(w.history, foreign.snapshot, recomputed), again, requester="")
    assert made.decision.document.outcome == "uncertifiable"
