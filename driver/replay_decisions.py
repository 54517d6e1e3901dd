"""The steps of a replay from the candidate on: seal, evaluation, admission, application, the run's receipt.

Each decides one thing again and returns what it did, in words; see :mod:`driver.replay_session`.
"""

from __future__ import annotations

from typing import cast

from admission.acknowledge import verify_acknowledgement
from admission.compose import compose_receipt, compose_request
from admission.decide import decide
from admission.documents import Decision, Verification
from admission.documents import Policy as AdmissionPolicy
from admission.documents import Receipt as AdmissionReceipt
from admission.documents import Request as AdmissionRequest
from admission.owners import owned_paths
from admission.scope import derive_scope, known_secrets
from candidateapply.documents import Receipt as ApplyReceipt
from candidateapply.documents import UndoReceipt, VerificationRecord
from driver.admit import Recomputed
from driver.amend import amend
from driver.chain import acknowledgements_of, chain_of
from driver.documents import Amendment
from driver.documents import Receipt as RunReceipt
from driver.governed import evidence_of_obligations
from driver.prepare import owners_at, people_at
from driver.replay_audit import audits_follow
from driver.replay_evidence import Evidence, differs, not_shown, verify_same
from driver.replay_suite import suites_follow
from evaluator.compose import CompositionFailure, compose
from evaluator.custody import custody_paths, hold
from evaluator.dispositions import check_receipt as check_evaluation_receipt
from evaluator.documents import COMMAND_KINDS, ResultBinding
from evaluator.documents import Input as EvaluatorInput
from evaluator.documents import Policy as EvaluatorPolicy
from evaluator.documents import Receipt as EvaluationReceipt
from evaluator.documents import Result as EvaluatorResult
from evaluator.locks import prepared_digest
from providerport.documents import Receipt as CallReceipt
from runner.content import change_set_of
from runner.dispositions import check_receipt as check_runner_receipt
from runner.documents import Candidate, CandidateOperation, ChangeSet, FileState, Snapshot
from runner.documents import Receipt as RunnerReceipt
from savant.contracts.document import Sealed, digest_of, seal
from savant.contracts.scalars import as_set
from savant.files.paths import to_raw
from savant.identity.documents import Closure, Task
from synthesis.documents import Evaluation, Plan


def candidates_follow(evidence: Evidence) -> str:
    """Each candidate's change set, labels and three digests follow from the base commit's own objects, blobs read."""
    for snapshot in evidence.history.all(Snapshot):
        again = evidence.snapshot(snapshot.document.base_commit).document
        verify_same("candidate", "the base", again.digest, snapshot.digest)
    candidates = evidence.history.all(Candidate)
    for candidate in candidates:
        change = evidence.one(ChangeSet, candidate.document.change_digest)
        verify_same("candidate", "the change set", digest_of(change_set_of(candidate.document)), change.digest)
        verify_same("candidate", "the change", digest_of(evidence.changes(candidate.document)), change.digest)
    for receipt in evidence.history.all(RunnerReceipt):
        _fits("candidate", check_runner_receipt(receipt.document))
    _amendment_follows(evidence)
    return f"{len(candidates)} computed again from the base"


def _amendment_follows(evidence: Evidence) -> None:
    """Return if there is at most one amendment, before its candidate, and it is what attempt and policy give."""
    entries = evidence.history.entries
    amendments = [entry for entry in entries if isinstance(entry.body.document, Amendment)]
    if len(amendments) > 1:
        raise differs("candidate", "the promise was amended more than once")
    for entry in amendments:
        recorded = cast("Amendment", entry.body.document)
        sealed = (e.body.document for e in entries if isinstance(e.body.document, Candidate) and e.seq > entry.seq)
        named = (recorded.attempt_number, recorded.change_digest)
        candidate = next((c for c in sealed if (c.attempt_number, c.change_digest) == named), None)
        if candidate is None:
            raise differs("candidate", "no candidate that was sealed later belongs to the amendment")
        again = amend(
            evidence.one(Plan, recorded.plan_digest),
            candidate.operations,
            evidence.one(AdmissionPolicy, evidence.session.document.admission_policy_digest).document,
            evidence.one(Task, evidence.session.document.task_digest).document.scope,
            attempt_number=candidate.attempt_number,
            change_digest=candidate.change_digest,
        )
        verify_same("candidate", "the amendment", None if again is None else digest_of(again), entry.body.digest)


def evaluations_follow(evidence: Evidence) -> str:
    """Each evaluation, composed again from the recorded results and the policy, is the recorded one."""
    evaluations = evidence.history.all(Evaluation)
    for evaluation in evaluations:
        verify_same("evaluation", "the evaluation", digest_of(_recompose(evidence, evaluation)), evaluation.digest)
    for receipt in evidence.history.all(EvaluationReceipt):
        _fits("evaluation", check_evaluation_receipt(receipt.document))
    suites_follow(evidence)
    audits = audits_follow(evidence)
    return f"{len(evaluations)} composed again" + (f", {audits} audits resolved again" if audits else "")


def _fits(step: str, problems: list[str]) -> None:
    """Return if a receipt holds the evidence that its disposition asks for."""
    if problems:
        raise differs(step, problems[0])


def _recompose(evidence: Evidence, evaluation: Sealed[Evaluation]) -> Evaluation:
    receipts = [r.document for r in evidence.history.all(EvaluationReceipt)]
    receipt = next((r for r in receipts if r.evaluation_digest == evaluation.digest), None)
    if receipt is None:
        raise not_shown(f"no receipt names the evaluation {evaluation.digest}")
    session = evidence.session.document
    policy = evidence.one(EvaluatorPolicy, session.evaluator_policy_digest).document
    closure = evidence.one(Closure, session.closure_digest).document
    results = [_result(evidence, binding) for binding in receipt.results]
    _preparations_follow(evidence, policy, receipt)
    composed = compose(
        evaluation.document.attempt_digest,
        evaluation.document.candidate_digest,
        policy,
        results,
        obligations=evidence_of_obligations(closure),
    )
    if isinstance(composed, CompositionFailure):
        raise differs("evaluation", f"no evaluation can be composed: {composed.code}: {composed.detail}")
    return composed


def _preparations_follow(evidence: Evidence, policy: EvaluatorPolicy, receipt: EvaluationReceipt) -> None:
    """Return if every command's folders were prepared from the files that the policy names: none where it has no steps.

    They are those of what was judged, and, where the rule compares, of the base.
    """
    configs = {config.id: config for config in policy.evaluators}
    for binding in receipt.results:
        given = evidence.one(EvaluatorInput, binding.input_digest).document
        config = configs.get(given.evaluator)
        again: tuple[str | None, str | None] = (None, None)
        if policy.prepares and config is not None and config.evaluator in COMMAND_KINDS:
            candidate = evidence.one(Candidate, given.candidate_digest).document
            base, tree = evidence.tree(candidate)
            judged = hold(policy.custody, base, tree, candidate.operations).tree
            of_base = None if config.rule == "all-pass" else prepared_digest(policy.prepares, base)
            again = prepared_digest(policy.prepares, judged), of_base
        recorded = given.prepared_digest, given.base_prepared_digest
        verify_same("evaluation", f"what {given.evaluator} was prepared from", again, recorded)


def _result(evidence: Evidence, binding: ResultBinding) -> EvaluatorResult:
    """The result of a binding, if its descriptor and input are the ones bound."""
    result = evidence.one(EvaluatorResult, binding.result_digest).document
    named = (result.evaluator, result.descriptor_digest, result.input_digest)
    verify_same(
        "evaluation",
        "the binding of a result",
        named,
        (binding.evaluator, binding.descriptor_digest, binding.input_digest),
    )
    return result


def decisions_follow(evidence: Evidence) -> str:
    """Every request composed again from its chain, every decision decided again on its signed acknowledgements."""
    history = evidence.history
    for request in history.all(AdmissionRequest):
        verify_same("admission", "the request", _request(evidence, request.document).digest, request.digest)
    decided = 0
    for entry in history.entries:
        if isinstance(entry.body.document, Decision):
            again = _decide_again(evidence, entry.body.document, entry.seq)
            verify_same("admission", "the decision", digest_of(again), entry.body.digest)
            decided += 1
    for receipt in history.all(AdmissionReceipt):
        request = evidence.one(AdmissionRequest, receipt.document.request_digest)
        decision = evidence.one(Decision, receipt.document.decision_digest)
        verify_same("admission", "the receipt", compose_receipt(request, decision).digest, receipt.digest)
    return f"{decided} decided again"


def _decide_again(evidence: Evidence, decision: Decision, seq: int) -> Decision:
    """The decision on the acknowledgements that were recorded before it; none for one that people sign."""
    request = evidence.one(AdmissionRequest, decision.request_digest)
    policy = evidence.one(AdmissionPolicy, decision.policy_digest)
    bare = seal(decide(request, policy))
    if decision.unacknowledged_digest is None:
        return bare.document
    acknowledgements = acknowledgements_of(evidence.history, bare, before=seq)
    people = people_at(evidence.snapshot(request.document.base_commit)) if acknowledgements else None
    verified = [
        verify_acknowledgement(found, requester=request.document.requester, verifier=evidence.verifier, people=people)
        for found in acknowledgements
    ]
    return decide(request, policy, verified)


def _request(evidence: Evidence, request: AdmissionRequest) -> Sealed[AdmissionRequest]:
    candidate = evidence.one(Candidate, request.candidate_digest).document
    base, tree = evidence.tree(candidate)

    def before(operation: CandidateOperation, state: FileState) -> bytes:
        del state
        return base.read(to_raw(operation.path))

    def after(operation: CandidateOperation, state: FileState) -> bytes:
        del state
        return tree.read(to_raw(operation.path))

    judging = evidence.one(EvaluatorPolicy, evidence.session.document.evaluator_policy_digest).document
    scope = derive_scope(candidate.operations, before, after, known=known_secrets(judging))
    custody = as_set(custody_paths(judging.custody, candidate.operations, before, after))
    recomputed = Recomputed(evidence.changes(candidate), tree.manifest.digest, scope, custody)
    requester = evidence.one(Task, evidence.session.document.task_digest).document.requester
    policy = evidence.one(AdmissionPolicy, request.policy_digest).document
    owners = owned_paths(scope, owners_at(base, policy), people_at(base), requester)
    chain = chain_of(evidence.history, base, recomputed, request)
    return compose_request(chain, scope, requester=requester, custody=custody, owners=owners, as_of=request.as_of)


def applications_agree(evidence: Evidence) -> str:
    """What was written, seen and undone has the digests of the admitted candidate, or says that it has not."""
    history = evidence.history
    count = 0
    for applied in history.all(ApplyReceipt):
        document, candidate = applied.document, evidence.one(Candidate, applied.document.candidate_digest).document
        observed = (document.input_digest, document.observed_change_digest, document.observed_final_digest)
        is_exact = observed == _three(candidate)
        if is_exact != (document.disposition == "applied"):
            raise differs("application", f"{document.disposition} does not fit the digests that were observed")
        paths = {operation.path for operation in candidate.operations}
        verify_same("application", "the paths that were written", paths, set(document.applied_paths))
        count += 1
    for verification in history.all(Verification):
        seen = verification.document
        candidate = evidence.one(Candidate, seen.candidate_digest).document
        target = (seen.head_commit, seen.observed_final_digest, seen.observed_change_digest, seen.violations)
        is_exact = target == (candidate.base_commit, candidate.final_digest, candidate.change_digest, ())
        if seen.status == "scope-compliant" and not is_exact:
            raise differs("application", "a verification says scope-compliant about another tree")
        count += 1
    for undone in history.all(UndoReceipt):
        candidate = evidence.one(Candidate, undone.document.candidate_digest).document
        verify_same("application", "the restored tree", undone.document.restored_digest, candidate.input_digest)
        count += 1
    return f"{count} records of it agree" if count else "nothing was applied"


def receipt_agrees(evidence: Evidence) -> str:
    """The run's receipt lists exactly what the run recorded before it, and its disposition follows from that."""
    history = evidence.history
    receipts = [entry for entry in history.entries if isinstance(entry.body.document, RunReceipt)]
    if not receipts:
        raise not_shown("the run has no receipt")
    for entry in receipts:
        document = entry.body.document
        assert isinstance(document, RunReceipt)
        for member, type_ in (
            ("provider_receipts", CallReceipt),
            ("runner_receipts", RunnerReceipt),
            ("evaluation_receipts", EvaluationReceipt),
        ):
            listed = [
                e.body.digest for e in history.entries if e.seq < entry.seq and isinstance(e.body.document, type_)
            ]
            verify_same("receipt", member, tuple(getattr(document, member)), tuple(listed))
        if document.disposition != "resume-refused":
            verify_same("receipt", "the final state", document.state_digest, digest_of(evidence.final_state))
            verify_same("receipt", "the phase", document.phase, evidence.final_state.phase)
        expected = _expected_dispositions(evidence, document)
        if expected and document.disposition not in expected:
            raise differs("receipt", f"it says {document.disposition}, its records say {' or '.join(expected)}")
    return "it lists what the run recorded, and its disposition follows"


def _expected_dispositions(evidence: Evidence, receipt: RunReceipt) -> tuple[str, ...]:
    """What the disposition may be, by the last of verification, application and decision; empty when there is none."""
    if receipt.verification_digest is not None:
        compliant = _status(evidence, receipt.verification_digest) == "scope-compliant"
        return ("applied-compliant",) if compliant else ("applied-violated", "verification-failed")
    if receipt.application_receipt_digest is not None:
        return ("applied-violated", "apply-failed", "verification-failed", "interrupted")
    if receipt.decision_digest is not None:
        outcome = evidence.one(Decision, receipt.decision_digest).document.outcome
        return ("admission-refused" if outcome == "refused" else outcome, "apply-failed", "interrupted")
    return ()


def _status(evidence: Evidence, digest: str) -> str:
    for record in evidence.history.all(VerificationRecord):
        if record.digest == digest:
            return record.document.status
    return evidence.one(Verification, digest).document.status


def _three(document: Candidate) -> tuple[str, str, str]:
    return document.input_digest, document.change_digest, document.final_digest
