"""The admission step: compose the sealed chain, decide, record the decision and its receipt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from admission.compose import Chain, compose_receipt, compose_request
from admission.decide import VerifiedAcknowledgement, decide
from admission.documents import Decision, Receipt, Request, ScopeEntry
from admission.documents import Policy as AdmissionPolicy
from admission.scope import derive_scope
from driver.history import RunHistory
from evaluator.documents import Policy as EvaluatorPolicy
from evaluator.documents import Receipt as EvaluationReceipt
from runner.content import CandidateTree, change_set_of
from runner.documents import Candidate, CandidateOperation, ChangeSet, FileState
from runner.documents import Receipt as RunnerReceipt
from runner.snapshot import BaseSnapshot
from savant.contracts.document import Sealed, seal
from savant.contracts.errors import SavantError
from savant.files.paths import to_raw
from savant.store.port import ObjectStore
from synthesis.documents import Attempt, Evaluation, Plan, Session
from synthesis.documents import Receipt as SynthesisReceipt


@dataclass(frozen=True, slots=True)
class Admission:
    """A request, the decision about it, and the composition receipt."""

    request: Sealed[Request]
    decision: Sealed[Decision]
    receipt: Sealed[Receipt]


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What the candidate is when it is computed again: nothing of it when it cannot be."""

    change_set: ChangeSet | None
    final_digest: str | None
    scope: tuple[ScopeEntry, ...]


def recompute(snapshot: BaseSnapshot, candidate: Candidate, store: ObjectStore) -> Recomputed:
    """The change set, final digest and scope of a candidate, from the base's objects and the stored blobs."""
    try:
        tree = CandidateTree(snapshot, candidate, store)

        def before(operation: CandidateOperation, _: FileState) -> bytes:
            return snapshot.read(to_raw(operation.path))

        def after(operation: CandidateOperation, _: FileState) -> bytes:
            return tree.read(to_raw(operation.path))

        scope = derive_scope(candidate.operations, before, after)
    except SavantError:
        return Recomputed(None, None, ())
    return Recomputed(change_set_of(candidate), tree.manifest.digest, scope)


def admit(
    chain: Callable[[Recomputed], Chain],
    recomputed: Recomputed,
    *,
    requester: str,
    acknowledgements: Sequence[VerifiedAcknowledgement] = (),
) -> Admission:
    """Decide the admission of a candidate.

    :param chain: makes the chain from what was recomputed.
    """
    composed = chain(recomputed)
    request = compose_request(composed, recomputed.scope, requester=requester)
    decision = seal(decide(request, composed.policy, acknowledgements))
    return Admission(request, decision, compose_receipt(request, decision))


def chain_of(history: RunHistory, request: Request, base_manifest_digest: str, recomputed: Recomputed) -> Chain:
    """The chain of an admission request, taken from a run's records by the digests that the request names.

    :raises Unverifiable: ``unverifiable.run-incomplete`` when a document is not among the records.
    """
    session = history.by_digest(Session, request.session_digest)
    return Chain(
        session=session,
        plan=history.by_digest(Plan, request.plan_digest),
        attempt=history.by_digest(Attempt, request.attempt_digest),
        candidate=history.by_digest(Candidate, request.candidate_digest),
        runner_receipt=history.by_digest(RunnerReceipt, request.runner_receipt_digest),
        evaluator_policy=history.by_digest(EvaluatorPolicy, session.document.evaluator_policy_digest),
        evaluation=history.by_digest(Evaluation, request.evaluation_digest),
        evaluation_receipt=history.by_digest(EvaluationReceipt, request.evaluation_receipt_digest),
        synthesis_receipt=history.by_digest(SynthesisReceipt, request.synthesis_receipt_digest),
        policy=history.by_digest(AdmissionPolicy, session.document.admission_policy_digest),
        base_manifest_digest=base_manifest_digest,
        recomputed=recomputed.change_set,
        final_digest=recomputed.final_digest,
    )
