"""From a run's records to the sealed chain that admission judges, and the acknowledgements that count. Pure."""

from __future__ import annotations

from typing import cast

from admission.compose import Chain
from admission.documents import Acknowledgement, Decision, Policy, Request
from driver.admit import Recomputed
from driver.documents import Amendment
from driver.history import RunHistory
from evaluator.documents import Policy as EvaluatorPolicy
from evaluator.documents import Receipt as EvaluationReceipt
from runner.documents import Candidate
from runner.documents import Receipt as RunnerReceipt
from runner.snapshot import BaseSnapshot
from savant.contracts.document import Sealed
from synthesis.documents import Attempt, Evaluation, IntendedChange, Plan, Session
from synthesis.documents import Receipt as SynthesisReceipt


def chain_of(
    history: RunHistory, snapshot: BaseSnapshot, recomputed: Recomputed, request: Request | None = None
) -> Chain:
    """The chain of an admission request, each document by the digest that the request names.

    The policies are the session's, not the request's: the composition compares them.

    :param snapshot: the candidate's base, as it is in the repository now.
    :param request: the newest one of the run when None.
    :raises Unverifiable: ``unverifiable.run-incomplete``.
    """
    named = history.need(Request).document if request is None else request
    session = history.by_digest(Session, named.session_digest)
    return Chain(
        session=session,
        plan=history.by_digest(Plan, named.plan_digest),
        attempt=history.by_digest(Attempt, named.attempt_digest),
        candidate=history.by_digest(Candidate, named.candidate_digest),
        runner_receipt=history.by_digest(RunnerReceipt, named.runner_receipt_digest),
        evaluator_policy=history.by_digest(EvaluatorPolicy, session.document.evaluator_policy_digest),
        evaluation=history.by_digest(Evaluation, named.evaluation_digest),
        evaluation_receipt=history.by_digest(EvaluationReceipt, named.evaluation_receipt_digest),
        synthesis_receipt=history.by_digest(SynthesisReceipt, named.synthesis_receipt_digest),
        policy=history.by_digest(Policy, session.document.admission_policy_digest),
        base_manifest_digest=snapshot.manifest.digest,
        recomputed=recomputed.change_set,
        final_digest=recomputed.final_digest,
        amendment=next(
            (
                made.document.changes
                for made in history.all(Amendment)
                if made.document.plan_digest == named.plan_digest
            ),
            (),
        ),
    )


def _amendment_of(history: RunHistory, plan_digest: str) -> tuple[IntendedChange, ...]:
    """What the promise of a plan was widened by; empty when it was not."""
    made = (sealed.document for sealed in history.all(Amendment))
    return next((amendment.changes for amendment in made if amendment.plan_digest == plan_digest), ())


def acknowledgements_of(
    history: RunHistory, bare: Sealed[Decision], *, before: int | None = None
) -> list[Sealed[Acknowledgement]]:
    """The newest acknowledgement of each condition of a candidate, in the order in which conditions were first met.

    One that was signed for an earlier decision of the run, judged as on another day, is left out where its condition is
    no longer one; where it still is, the decision says that it is stale.

    :param bare: the decision without acknowledgements.
    :param before: only what was recorded before this record.
    """
    candidate = bare.document.candidate_digest
    newest: dict[str, Sealed[Acknowledgement]] = {}
    earlier: set[str] = set()
    for entry in history.entries:
        document = entry.body.document
        if before is not None and entry.seq >= before:
            break
        if isinstance(document, Decision) and document.unacknowledged_digest is None:
            earlier.add(entry.body.digest)
        if isinstance(document, Acknowledgement) and document.statement.candidate_digest == candidate:
            newest[document.statement.condition] = cast("Sealed[Acknowledgement]", entry.body)
    asked = {condition.id for condition in bare.document.conditions}
    return [
        found
        for condition, found in newest.items()
        if condition in asked or found.document.statement.decision_digest not in earlier - {bare.digest}
    ]
