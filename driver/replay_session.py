"""The steps of a replay up to the plan review: the run, its lineage, its calls, the machine, the reviews.

Each decides one thing again and returns what it did, in words. It raises :class:`VerificationError` when the conclusion
comes out differently, and :class:`Unverifiable` when what it needs is not there.
"""

from __future__ import annotations

from admission.documents import Policy as AdmissionPolicy
from driver.config import evaluator_policy
from driver.documents import Savepoint
from driver.governed import governed_by, obligations_of
from driver.lineage import check_lineage
from driver.prepare import read_rules
from driver.replay_evidence import Evidence, differs, not_shown, verify_same
from driver.review import REVIEWER, review_plan
from evaluator.custody import judges_at
from evaluator.documents import Policy as EvaluatorPolicy
from providerport.documents import Receipt as CallReceipt
from providerport.documents import Request as CallRequest
from providerport.documents import Result
from providerport.mapping import complete_interpretation
from providerport.outcome import check_result, payload_digest, payload_of
from providerport.port import FileMode
from savant.contracts.document import digest_of, seal
from savant.identity.closure import closure_identity, is_record_path
from savant.identity.documents import Closure, Task
from savant.identity.graph import graph_identity
from savant.identity.workspace import workspace_identity
from savant.ledger.documents import RunClose, RunOpen
from synthesis.documents import Interpretation, Plan, PlanReview, Transition
from synthesis.documents import Receipt as SynthesisReceipt
from synthesis.machine import start


def run_is_whole(evidence: Evidence) -> str:
    """The run opened, closed, and lost no record on the way."""
    history = evidence.history
    opens = [i for i, entry in enumerate(history.entries) if isinstance(entry.body.document, RunOpen)]
    closes = [i for i, entry in enumerate(history.entries) if isinstance(entry.body.document, RunClose)]
    if not opens or opens[0] != 0:
        raise differs("run", "its first record does not open it")
    if not closes:
        raise not_shown("it was never closed: interrupted, not complete")
    for close in closes:
        document = history.entries[close].body.document
        assert isinstance(document, RunClose)
        begun = max((i for i in opens if i < close), default=0)
        if close - begun < document.records:
            raise differs("run", f"it counted {document.records} records, {close - begun} are there")
        if document.failed_appends:
            raise not_shown(f"{document.failed_appends} records could not be appended when it ran")
    return f"{len(history.entries)} records"


def lineage_holds(evidence: Evidence) -> str:
    """Every digest that a document names is a document of the run, and bound documents agree."""
    gaps = check_lineage(evidence.history)
    broken = next((gap for gap in gaps if gap.status == "broken"), None)
    if broken is not None:
        raise differs("lineage", f"record {broken.seq}: {broken.detail}")
    if gaps:
        raise not_shown(f"record {gaps[0].seq}: {gaps[0].detail}")
    return "every binding between documents holds"


def identities_follow(evidence: Evidence) -> str:
    """Workspace, graph, closure and the rules in force follow from the base commit's own objects and the task."""
    session = evidence.session.document
    base = evidence.snapshot(session.base_commit)
    rules, task = read_rules(base), evidence.one(Task, session.task_digest)
    snapshot = base.document.document
    records = [path for path in base.paths() if is_record_path(path)]
    workspace = workspace_identity(
        domain=rules.config.domain,
        object_format="sha256" if snapshot.base_commit.startswith("sha256:") else "sha1",
        base_commit=snapshot.base_commit,
        base_tree=snapshot.base_tree,
        base_manifest_digest=snapshot.base_manifest_digest,
    )
    closure = closure_identity(task, [(path, base.read(path)) for path in records])
    verify_same("identities", "the workspace", workspace.digest, session.workspace_digest)
    verify_same("identities", "the graph", graph_identity(snapshot.base_commit).digest, session.graph_digest)
    verify_same("identities", "the closure", closure.digest, session.closure_digest)
    verify_same("identities", "the obligations", obligations_of(closure.document), session.proof_obligations)
    policy = evidence.one(AdmissionPolicy, session.admission_policy_digest)
    origins = {policy.document.origin, rules.admission.document.origin}
    if origins == {"starter"} and policy.digest != rules.admission.digest:
        raise not_shown("the built-in policy of another version decided")
    verify_same("identities", "the admission policy", rules.admission.digest, policy.digest)
    judged = evidence.one(EvaluatorPolicy, session.evaluator_policy_digest).document
    for check in rules.trusted_part.document.evaluators:
        if check not in judged.evaluators:
            raise differs("identities", f"the evaluator {check.id} of the base did not judge")
    added = [check for check in judged.evaluators if check not in rules.trusted_part.document.evaluators]
    again = evaluator_policy(rules.config, added, network=judged.network == "open", as_of=judged.as_of)
    verify_same("identities", "the evaluator policy", digest_of(again), session.evaluator_policy_digest)
    return f"they follow from base {snapshot.base_commit}"


def interpretations_follow(evidence: Evidence) -> str:
    """Every call answers its request; interpretation and plan are what calls returned, completed by the closure."""
    history = evidence.history
    for receipt in history.all(CallReceipt):
        _call_follows(evidence, receipt.document)
    results = [sealed.document for sealed in history.all(Result) if sealed.document.outcome == "completed"]
    plans = {digest_of(result.plan) for result in results if result.plan is not None}
    for plan in history.all(Plan):
        if plan.digest not in plans:
            raise differs("interpretation", f"no call returned the plan {plan.digest}")
    for interpretation in history.all(Interpretation):
        closure = evidence.one(Closure, evidence.session.document.closure_digest).document
        completed = {
            digest_of(complete_interpretation(result.interpretation, evidence.session.document, governed_by(closure)))
            for result in results
            if result.interpretation is not None
        }
        if interpretation.digest not in completed:
            raise differs("interpretation", f"no call and no closure give the interpretation {interpretation.digest}")
    return f"{len(history.all(CallReceipt))} calls"


def _call_follows(evidence: Evidence, receipt: CallReceipt) -> None:
    request = evidence.one(CallRequest, receipt.request_digest)
    result = evidence.one(Result, receipt.result_digest).document
    problem = check_result(request, result)
    if problem is not None:
        raise differs("interpretation", problem)
    payload = payload_of(result)
    expected = None if payload is None else payload_digest(payload)
    said = (receipt.operation, receipt.outcome, receipt.failure_kind, receipt.payload_digest)
    if said != (result.operation, result.outcome, result.failure_kind, expected):
        raise differs("interpretation", f"a receipt says something else than its result {receipt.result_digest}")


def state_folds(evidence: Evidence) -> str:
    """The machine, run again over the recorded transitions, gives every recorded state and the recorded receipt."""
    history, state = evidence.history, evidence.final_state
    states = {digest_of(start(evidence.session.document)), *(t.document.state_digest for t in history.all(Transition))}
    for savepoint in history.all(Savepoint):
        if savepoint.document.state_digest not in states:
            raise differs("state", f"savepoint {savepoint.document.sequence} names a state that never was")
    recorded = {sealed.digest for sealed in history.all(SynthesisReceipt)}
    folded = set() if state.receipt is None else {digest_of(state.receipt)}
    if recorded - folded:
        raise differs("state", "the terminal receipt is not the one that the transitions lead to")
    if folded - recorded:
        raise not_shown("the terminal receipt is not among the records")
    return f"{len(history.all(Transition))} transitions to {state.phase}"


def reviews_follow(evidence: Evidence) -> str:
    """Each deterministic plan review, made again, is the recorded one."""
    count = 0
    session = evidence.session.document

    def mode(path: bytes) -> FileMode | None:
        return evidence.snapshot(session.base_commit).mode(path)

    for review in evidence.history.all(PlanReview):
        if review.document.reviewers != (REVIEWER,):
            raise not_shown(f"the review {review.digest} is not by the deterministic reviewer alone")
        plan = evidence.one(Plan, review.document.plan_digest)
        again = review_plan(
            plan.document,
            plan.digest,
            evidence.one(Interpretation, plan.document.interpretation_digest).document,
            evidence.one(AdmissionPolicy, session.admission_policy_digest).document,
            evidence.one(Task, session.task_digest).document.scope,
            judges_at(
                evidence.one(EvaluatorPolicy, session.evaluator_policy_digest).document.custody,
                mode,
            ),
        )
        verify_same("plan-review", "the review", seal(again).digest, review.digest)
        count += 1
    return f"{count} reviewed again"
