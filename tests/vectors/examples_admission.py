"""One example document of each kind of admission: an edited test that waits, is acknowledged, applied and verified."""

from __future__ import annotations

from msgspec.structs import replace

from admission.acknowledge import NAMESPACE, statement_bytes, statement_for, verify_acknowledgement
from admission.compose import Chain, compose_receipt, compose_request
from admission.decide import decide
from admission.documents import Acknowledgement
from admission.policy import starter_policy
from admission.scope import derive_scope
from admission.verify import verify_target
from driver.built_ins import PLAIN
from evaluator.documents import Custody, ResultBinding
from evaluator.documents import Policy as EvaluatorPolicy
from evaluator.documents import Receipt as EvaluationReceipt
from runner.change import change_set, operations
from runner.documents import Candidate, CandidateOperation, FileState
from runner.documents import Receipt as RunnerReceipt
from savant.contracts.digest import digest
from savant.contracts.digest import to_raw as digest_bytes
from savant.contracts.document import Document, digest_of, kind_of, seal
from savant.files.paths import to_raw
from savant.ledger.ed25519 import Ed25519Signer, Ed25519Verifier
from savant.ledger.sshkey import PublicKey
from savant.ledger.sshsig import sign_sshsig
from savant.repository import Entry, diff, from_entries
from synthesis.documents import (
    Attempt,
    Budgets,
    Evaluation,
    IntendedChange,
    Plan,
    PlanStep,
    Session,
)
from synthesis.documents import Receipt as SynthesisReceipt

COMMIT = "sha1:" + "1" * 40
BEFORE = {b"cart.py": b"total = 0\n", b"tests/test_cart.py": b"def test_total(): assert False\n"}
AFTER = {b"cart.py": b"total = 1\n", b"tests/test_cart.py": b"def test_total(): assert True\n"}
SIGNER = Ed25519Signer(bytes(range(32)))
"""A key for examples only."""


def examples() -> dict[str, Document]:
    """The documents by kind: they fit each other and the trees above."""
    base, final = (
        from_entries((path, Entry("regular", digest_bytes(digest(data)))) for path, data in tree.items())
        for tree in (BEFORE, AFTER)
    )
    change = change_set(diff(base, final), lambda path: len(BEFORE[path]), lambda path: len(AFTER[path]))
    rules = seal(starter_policy())
    evaluator_policy = seal(
        EvaluatorPolicy(
            evaluators=(
                replace(
                    PLAIN,
                    id="pytest",
                    evaluator="command",
                    rule="no-regression",
                    argv=("python", "-m", "pytest"),
                    result_format="junit",
                    report_path="report.xml",
                    timeout_ms=600_000,
                    max_capture_bytes=1_000_000,
                    failure_class="tests",
                ),
            ),
            toolchain=(".venv",),
            environment=(),
            network="none",
            recommendations=(),
            normalisers=(),
            prepares=(),
            custody=Custody(tests=(), gates=()),
            excuses=(),
            as_of=None,
            max_findings=20,
            max_finding_bytes=2_000,
        )
    )
    session = seal(
        Session(
            repository_domain="example.org/shop",
            workspace_digest=digest(b"workspace"),
            task_digest=digest(b"task"),
            graph_digest=digest(b"graph"),
            closure_digest=digest(b"closure"),
            base_commit=COMMIT,
            base_manifest_digest=base.digest,
            evaluator_policy_digest=evaluator_policy.digest,
            admission_policy_digest=rules.digest,
            driver_policy_digest=digest(b"driver policy"),
            provider_config_digest=digest(b"provider configuration"),
            objective="Count the total.",
            budgets=Budgets(
                retries=2, replans=1, provider_calls=12, wall_clock_ms=1_200_000, tokens=None, cost_microunits=None
            ),
            retryable_outcomes=(),
            proof_obligations=(),
        )
    )
    plan = seal(
        Plan(
            interpretation_digest=digest(b"interpretation"),
            generation=1,
            promise="declared",
            steps=(
                PlanStep(
                    id="total",
                    description="Start the total at one and say so in the test.",
                    intended_changes=(
                        IntendedChange(pattern="cart.py", operations=("modify",)),
                        IntendedChange(pattern="tests/", operations=("create", "modify")),
                    ),
                    symbols=("total",),
                    expected_evidence=("pytest passes",),
                    discharges=(),
                    declares_gate_changes=True,
                ),
            ),
            assumptions=(),
            risks=(),
            stop_conditions=(),
        )
    )
    attempt = seal(
        Attempt(
            number=1,
            generation=1,
            plan_digest=plan.digest,
            provider_digest=digest(b"provider"),
            outcome="completed",
            failure_kind=None,
            input_digest=base.digest,
            change_digest=digest_of(change),
            final_digest=final.digest,
        )
    )
    candidate = seal(
        Candidate(
            session_digest=session.digest,
            workspace_digest=session.document.workspace_digest,
            plan_digest=plan.digest,
            generation=1,
            attempt_number=1,
            base_commit=COMMIT,
            input_digest=base.digest,
            change_digest=digest_of(change),
            final_digest=final.digest,
            operations=operations(change, base),
        )
    )
    runner_receipt = seal(
        RunnerReceipt(
            request_digest=digest(b"request"),
            snapshot_digest=digest(b"snapshot"),
            disposition="verified",
            provider_receipt_digest=digest(b"provider receipt"),
            result_digest=digest(b"result"),
            input_digest=base.digest,
            change_digest=digest_of(change),
            final_digest=final.digest,
            candidate_digest=candidate.digest,
            workspace_backend="copy",
            failure_code="",
            failure_detail="",
            quiescent=True,
            cleanup_succeeded=True,
            limitations=(),
        )
    )
    evaluation = seal(
        Evaluation(
            attempt_digest=attempt.digest,
            candidate_digest=candidate.digest,
            checks=(),
            failure_classes=(),
            recommendation="accept",
            limitations=(),
        )
    )
    evaluation_receipt = seal(
        EvaluationReceipt(
            session_digest=session.digest,
            attempt_digest=attempt.digest,
            runner_receipt_digest=runner_receipt.digest,
            policy_digest=evaluator_policy.digest,
            candidate_digest=candidate.digest,
            candidate_verified=True,
            results=(
                ResultBinding(
                    evaluator="pytest",
                    descriptor_digest=digest(b"descriptor"),
                    input_digest=digest(b"input"),
                    result_digest=digest(b"evaluator result"),
                ),
            ),
            evaluation_digest=evaluation.digest,
            disposition="evaluated",
            failure_code="",
            failure_detail="",
            cleanup_succeeded=True,
        )
    )
    synthesis_receipt = seal(
        SynthesisReceipt(
            session_digest=session.digest,
            reason="candidate-ready-for-admission",
            plan_digest=plan.digest,
            attempt_digest=attempt.digest,
            evaluation_digest=evaluation.digest,
            candidate_digest=candidate.digest,
            retries_consumed=0,
            replans_consumed=0,
            calls_consumed=3,
            drifted=(),
            limitations=(),
        )
    )
    chain = Chain(
        session=session,
        plan=plan,
        attempt=attempt,
        candidate=candidate,
        runner_receipt=runner_receipt,
        evaluator_policy=evaluator_policy,
        evaluation=evaluation,
        evaluation_receipt=evaluation_receipt,
        synthesis_receipt=synthesis_receipt,
        policy=rules,
        base_manifest_digest=base.digest,
        recomputed=change,
        final_digest=final.digest,
    )

    def before(operation: CandidateOperation, state: FileState) -> bytes:
        return BEFORE[to_raw(operation.path)][: state.size_bytes]

    def after(operation: CandidateOperation, state: FileState) -> bytes:
        return AFTER[to_raw(operation.path)][: state.size_bytes]

    request = compose_request(chain, derive_scope(candidate.document.operations, before, after), requester="Ada")
    statement = statement_for(seal(decide(request, rules)), "existing-tests", by="Grace", note="The old one was wrong.")
    acknowledgement = seal(
        Acknowledgement(
            statement=statement,
            public_key=PublicKey(SIGNER.public_raw).line,
            sshsig=sign_sshsig(SIGNER, NAMESPACE, statement_bytes(statement)),
        )
    )
    verified = verify_acknowledgement(acknowledgement, requester="Ada", verifier=Ed25519Verifier())
    decision = seal(decide(request, rules, [verified]))
    verification = verify_target(
        decision,
        candidate,
        digest(b"application receipt"),
        base=base,
        observed=final,
        observed_change_digest=digest_of(change),
        head_commit=COMMIT,
    )
    documents: tuple[Document, ...] = (
        rules.document,
        request.document,
        acknowledgement.document,
        decision.document,
        compose_receipt(request, decision).document,
        verification,
    )
    return {kind_of(document): document for document in documents}
