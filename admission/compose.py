"""The composition of a sealed chain into an admission request: every lineage check is data in it. Pure.

A check that fails does not stop the composition: it is recorded, and the decision is then ``uncertifiable``.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from admission.documents import Decision, LineageCheck, Owned, Policy, Receipt, Request, ScopeEntry
from admission.facts import can_expire
from evaluator.dispositions import check_receipt as check_evaluation_receipt
from evaluator.documents import COMMAND_KINDS
from evaluator.documents import Policy as EvaluatorPolicy
from evaluator.documents import Receipt as EvaluationReceipt
from runner.dispositions import check_receipt as check_runner_receipt
from runner.documents import Candidate, ChangeSet
from runner.documents import Receipt as RunnerReceipt
from runner.promise import promise_of
from savant.contracts.document import Sealed, digest_of, seal
from synthesis.documents import Attempt, Evaluation, IntendedChange, Plan, Session
from synthesis.documents import Receipt as SynthesisReceipt


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one candidate rests on.

    :param recomputed: the change set and final manifest digest as computed again from the base and the stored blobs;
        None when they could not be.
    :param final_digest: of that computation.
    :param amendment: what the plan's promise was widened by; empty when it was not.
    """

    session: Sealed[Session]
    plan: Sealed[Plan]
    attempt: Sealed[Attempt]
    candidate: Sealed[Candidate]
    runner_receipt: Sealed[RunnerReceipt]
    evaluator_policy: Sealed[EvaluatorPolicy]
    evaluation: Sealed[Evaluation]
    evaluation_receipt: Sealed[EvaluationReceipt]
    synthesis_receipt: Sealed[SynthesisReceipt]
    policy: Sealed[Policy]
    base_manifest_digest: str
    recomputed: ChangeSet | None
    final_digest: str | None
    amendment: tuple[IntendedChange, ...] = ()


def compose_request(
    chain: Chain,
    scope: tuple[ScopeEntry, ...],
    *,
    requester: str,
    custody: tuple[str, ...] = (),
    owners: tuple[Owned, ...] = (),
    as_of: str | None = None,
) -> Sealed[Request]:
    """The admission request of a chain; its scope is the difference of the base and sealed manifests.

    :param custody: the changed paths that judge, a set, see :func:`evaluator.custody.custody_paths`.
    :param owners: the changed paths by their owners at the base, see :func:`admission.owners.owned_paths`.
    :param as_of: the day on which exceptions are judged; left out of the request where none can end.
    """
    candidate = chain.candidate.document
    evaluators = chain.evaluator_policy.document.evaluators
    return seal(
        Request(
            session_digest=chain.session.digest,
            plan_digest=chain.plan.digest,
            attempt_digest=chain.attempt.digest,
            evaluation_digest=chain.evaluation.digest,
            synthesis_receipt_digest=chain.synthesis_receipt.digest,
            runner_receipt_digest=chain.runner_receipt.digest,
            evaluation_receipt_digest=chain.evaluation_receipt.digest,
            candidate_digest=chain.candidate.digest,
            policy_digest=chain.policy.digest,
            base_commit=candidate.base_commit,
            input_digest=candidate.input_digest,
            change_digest=candidate.change_digest,
            final_digest=candidate.final_digest,
            scope=scope,
            custody=custody,
            owners=owners,
            promise=promise_of(chain.plan.document),
            amendment=chain.amendment,
            required_checks=sum(1 for e in evaluators if e.required and e.evaluator in COMMAND_KINDS),
            lineage=tuple(check_lineage(chain, scope)),
            limitations=tuple(
                dict.fromkeys((*chain.runner_receipt.document.limitations, *chain.evaluation.document.limitations))
            ),
            requester=requester,
            as_of=as_of if can_expire(chain.policy.document) else None,
        )
    )


def compose_receipt(request: Sealed[Request], decision: Sealed[Decision]) -> Sealed[Receipt]:
    """The composition receipt: the decision beside the frozen synthesis receipt."""
    return seal(
        Receipt(
            request_digest=request.digest,
            decision_digest=decision.digest,
            outcome=decision.document.outcome,
            synthesis_receipt_digest=request.document.synthesis_receipt_digest,
            candidate_digest=request.document.candidate_digest,
            lineage=request.document.lineage,
        )
    )


def check_lineage(chain: Chain, scope: tuple[ScopeEntry, ...]) -> Iterator[LineageCheck]:
    """Every lineage check of the composition, in a fixed order."""
    session, plan, attempt = chain.session, chain.plan.document, chain.attempt
    candidate, runner = chain.candidate.document, chain.runner_receipt.document
    evaluation, judged = chain.evaluation.document, chain.evaluation_receipt.document
    receipt = chain.synthesis_receipt.document
    yield _same("o1.session", session.digest, receipt.session_digest, candidate.session_digest, judged.session_digest)
    yield _same("o1.reason", receipt.reason, "candidate-ready-for-admission")
    yield _same("o1.plan", chain.plan.digest, receipt.plan_digest, candidate.plan_digest, attempt.document.plan_digest)
    yield _same("o1.generation", plan.generation, candidate.generation, attempt.document.generation)
    yield _same("o1.attempt", attempt.digest, receipt.attempt_digest, evaluation.attempt_digest, judged.attempt_digest)
    yield _same("o1.attempt-number", attempt.document.number, candidate.attempt_number)
    yield _same("o1.attempt-outcome", attempt.document.outcome, "completed")
    yield _same("o1.evaluation", chain.evaluation.digest, receipt.evaluation_digest, judged.evaluation_digest)
    yield _same("o1.recommendation", evaluation.recommendation, "accept")
    yield _same(
        "o1.candidate",
        chain.candidate.digest,
        receipt.candidate_digest,
        evaluation.candidate_digest,
        judged.candidate_digest,
        runner.candidate_digest,
    )
    yield _same("o3.disposition", runner.disposition, "verified")
    yield _sound("o3.evidence", check_runner_receipt(runner))
    yield _same("o3.receipt", chain.runner_receipt.digest, judged.runner_receipt_digest)
    yield _same("o3.workspace", candidate.workspace_digest, session.document.workspace_digest)
    yield _same("o3.base", candidate.base_commit, session.document.base_commit)
    yield _same(
        "o3.input-digest",
        candidate.input_digest,
        chain.base_manifest_digest,
        session.document.base_manifest_digest,
        attempt.document.input_digest,
        runner.input_digest,
    )
    recomputed = None if chain.recomputed is None else digest_of(chain.recomputed)
    yield _same(
        "o3.change-digest", candidate.change_digest, recomputed, attempt.document.change_digest, runner.change_digest
    )
    yield _same(
        "o3.final-digest",
        candidate.final_digest,
        chain.final_digest,
        attempt.document.final_digest,
        runner.final_digest,
    )
    yield _same("o4.disposition", judged.disposition, "evaluated")
    yield _sound("o4.evidence", check_evaluation_receipt(judged))
    yield _same("o4.candidate-verified", judged.candidate_verified, True)
    yield _same(
        "o4.policy", chain.evaluator_policy.digest, session.document.evaluator_policy_digest, judged.policy_digest
    )
    yield _same("o5.policy", chain.policy.digest, session.document.admission_policy_digest)
    yield _same(
        "o5.scope",
        [(o.path, o.kind, o.source, o.before, o.after) for o in candidate.operations],
        [(entry.path, entry.kind, entry.source, entry.before, entry.after) for entry in scope],
    )


def _sound(name: str, problems: list[str]) -> LineageCheck:
    return LineageCheck(name=name, passed=not problems, detail=" ".join(problems)[:1_000])


def _same(name: str, first: object, *others: object) -> LineageCheck:
    differing = [other for other in others if other != first]
    detail = f"{first} is not {differing[0]}"[:1_000] if differing else ""
    return LineageCheck(name=name, passed=not differing, detail=detail)
