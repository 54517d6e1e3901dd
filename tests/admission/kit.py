"""One admissible candidate, from its session to its decision, and ways to change one thing of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import structs

from admission.acknowledge import is_same_person
from admission.compose import Chain, compose_request
from admission.decide import VerifiedAcknowledgement, decide
from admission.documents import AcknowledgementStatement, Decision, Policy, Request, ScopeEntry
from admission.policy import starter_policy
from admission.scope import derive_scope
from driver.built_ins import PLAIN
from evaluator.documents import Custody, EvaluatorConfig, ResultBinding
from evaluator.documents import Policy as EvaluatorPolicy
from evaluator.documents import Receipt as EvaluationReceipt
from runner.change import change_set, operations
from runner.documents import Candidate, CandidateOperation, FileState
from runner.documents import Receipt as RunnerReceipt
from savant.contracts.digest import digest
from savant.contracts.digest import to_raw as digest_bytes
from savant.contracts.document import Sealed, digest_of, seal
from savant.contracts.scalars import as_set
from savant.files.paths import to_raw
from savant.ledger.sshkey import PublicKey
from savant.repository import Entry, Manifest, diff, from_entries, gitlink_digest
from synthesis.documents import (
    Attempt,
    Budgets,
    Evaluation,
    IntendedChange,
    OperationKind,
    Plan,
    PlanStep,
    Session,
)
from synthesis.documents import Receipt as SynthesisReceipt

COMMIT = "sha1:" + "1" * 40
KINDS: tuple[OperationKind, ...] = (
    "create",
    "modify",
    "delete",
    "rename",
    "copy",
    "mode-change",
    "symlink-change",
    "type-change",
    "gitlink-change",
)
ANYTHING = (IntendedChange(pattern="**", operations=as_set(KINDS)),)
Tree = Mapping[bytes, tuple[str, bytes]]
"""Path to mode and content; a gitlink's content is its commit."""


def named(text: str) -> str:
    return digest(text.encode())


def f(content: bytes) -> tuple[str, bytes]:
    return ("regular", content)


def x(content: bytes) -> tuple[str, bytes]:
    return ("executable", content)


def link(target: bytes) -> tuple[str, bytes]:
    return ("symlink", target)


def submodule(hex_digit: str) -> tuple[str, bytes]:
    return ("gitlink", b"sha1:" + hex_digit.encode() * 40)


def manifest_of(tree: Tree) -> Manifest:
    return from_entries((path, _entry(mode, content)) for path, (mode, content) in tree.items())


def _entry(mode: Any, content: bytes) -> Entry:
    if mode == "gitlink":
        return Entry(mode, gitlink_digest(content.decode()))
    return Entry(mode, digest_bytes(digest(content)))


def command_check(*, required: bool = True) -> EvaluatorConfig:
    return structs.replace(
        PLAIN,
        id="pytest",
        evaluator="command",
        required=required,
        rule="no-regression",
        argv=("pytest",),
        timeout_ms=1000,
        max_capture_bytes=1000,
        failure_class="tests",
    )


def scope_of(before: Tree, after: Tree) -> tuple[ScopeEntry, ...]:
    base, final = manifest_of(before), manifest_of(after)
    change = change_set(diff(base, final), lambda p: len(before[p][1]), lambda p: len(after[p][1]))

    def old(operation: CandidateOperation, _: FileState) -> bytes:
        return before[to_raw(operation.path)][1]

    def new(operation: CandidateOperation, _: FileState) -> bytes:
        return after[to_raw(operation.path)][1]

    return derive_scope(operations(change, base), old, new)


def make_chain(
    before: Tree,
    after: Tree,
    *,
    policy: Policy | None = None,
    promise: tuple[IntendedChange, ...] | None = ANYTHING,
    checks: tuple[EvaluatorConfig, ...] = (command_check(),),
) -> Chain:
    """The chain of a run that changed one tree into another, as the stages make it."""
    base, final = manifest_of(before), manifest_of(after)
    change = change_set(diff(base, final), lambda p: len(before[p][1]), lambda p: len(after[p][1]))
    rules = seal(policy or starter_policy())
    evaluator_policy = seal(
        EvaluatorPolicy(
            evaluators=as_set(checks),
            toolchain=(),
            environment=(),
            network="none",
            recommendations=(),
            normalisers=(),
            prepares=(),
            custody=Custody(tests=(), gates=()),
            excuses=(),
            as_of=None,
            max_findings=20,
            max_finding_bytes=1000,
        )
    )
    session = seal(
        Session(
            repository_domain="example.org/app",
            workspace_digest=named("workspace"),
            task_digest=named("task"),
            graph_digest=named("graph"),
            closure_digest=named("closure"),
            base_commit=COMMIT,
            base_manifest_digest=base.digest,
            evaluator_policy_digest=evaluator_policy.digest,
            admission_policy_digest=rules.digest,
            driver_policy_digest=named("driver"),
            provider_config_digest=named("provider"),
            objective="Keep the total.",
            budgets=Budgets(
                retries=1, replans=1, provider_calls=None, wall_clock_ms=None, tokens=None, cost_microunits=None
            ),
            retryable_outcomes=(),
            proof_obligations=(),
        )
    )
    plan = seal(
        Plan(
            interpretation_digest=named("interpretation"),
            generation=1,
            promise="none" if promise is None else "declared",
            steps=(
                PlanStep(
                    id="one",
                    description="",
                    intended_changes=promise or (),
                    symbols=(),
                    expected_evidence=(),
                    discharges=(),
                    declares_gate_changes=False,
                ),
            ),
            assumptions=(),
            risks=(),
            stop_conditions=(),
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
            request_digest=named("request"),
            snapshot_digest=named("snapshot"),
            disposition="verified",
            provider_receipt_digest=named("provider receipt"),
            result_digest=named("result"),
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
    attempt = seal(
        Attempt(
            number=1,
            generation=1,
            plan_digest=plan.digest,
            provider_digest=named("provider"),
            outcome="completed",
            failure_kind=None,
            input_digest=base.digest,
            change_digest=digest_of(change),
            final_digest=final.digest,
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
                    descriptor_digest=named("descriptor"),
                    input_digest=named("input"),
                    result_digest=named("evaluator result"),
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
    return Chain(
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


def make_request(before: Tree, after: Tree, *, requester: str = "Ada", **options: Any) -> Sealed[Request]:
    """The request about the change from one tree to another."""
    return compose_request(make_chain(before, after, **options), scope_of(before, after), requester=requester)


def judge(before: Tree, after: Tree, *, policy: Policy | None = None, **options: Any) -> Decision:
    """The decision without acknowledgements."""
    rules = policy or starter_policy()
    return decide(make_request(before, after, policy=rules, **options), seal(rules))


def acknowledge(
    bare: Decision,
    condition: str,
    *,
    by: str = "Grace",
    requester: str = "Ada",
    decision_digest: str | None = None,
    candidate_digest: str | None = None,
) -> VerifiedAcknowledgement:
    """An acknowledgement as it comes out of verification."""
    public = PublicKey(bytes(32))
    statement = AcknowledgementStatement(
        decision_digest=decision_digest or digest_of(bare),
        condition=condition,
        candidate_digest=candidate_digest or bare.candidate_digest,
        by=by,
        note="",
    )
    return VerifiedAcknowledgement(
        statement, named(f"{condition} {by}"), public.keyid, is_same_person(by, public, requester)
    )


def conditions(decision: Decision) -> set[str]:
    return {condition.id for condition in decision.conditions}


def refusals(decision: Decision) -> list[tuple[str, str | None]]:
    return [(reason.code, reason.path) for reason in decision.reasons]


def with_limits(policy: Policy, **limits: int) -> Policy:
    return structs.replace(policy, limits=structs.replace(policy.limits, **limits))


Choice = Literal["allow", "ask", "refuse"]
