"""The bindings between a run's documents, as a table, and the check of them. Pure.

A member that holds a digest names one document. Where the run recorded documents of that kind and none has the digest,
the lineage is broken; where it recorded none of that kind, the binding is not shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec

from admission import documents as admission
from candidateapply import documents as candidateapply
from commandprovider.documents import Config as ProviderConfig
from driver import documents as driver
from driver.history import HistoryEntry, RunHistory
from evaluator import documents as evaluator
from providerport import documents as providerport
from runner import documents as runner
from savant.contracts.document import Document, kind_of
from savant.identity import documents as identity
from synthesis import documents as synthesis

Targets: TypeAlias = tuple[type[Document], ...]

BINDINGS: Final[Mapping[type[Document], Mapping[str, Targets]]] = MappingProxyType(
    {
        identity.Closure: {"task_digest": (identity.Task,)},
        synthesis.Session: {
            "workspace_digest": (identity.Workspace,),
            "task_digest": (identity.Task,),
            "graph_digest": (identity.Graph,),
            "closure_digest": (identity.Closure,),
            "evaluator_policy_digest": (evaluator.Policy,),
            "admission_policy_digest": (admission.Policy,),
            "driver_policy_digest": (driver.Policy,),
            "provider_config_digest": (ProviderConfig,),
        },
        synthesis.Interpretation: {"session_digest": (synthesis.Session,)},
        synthesis.Plan: {"interpretation_digest": (synthesis.Interpretation,)},
        synthesis.PlanReview: {"plan_digest": (synthesis.Plan,)},
        synthesis.Attempt: {"plan_digest": (synthesis.Plan,)},
        synthesis.Evaluation: {
            "attempt_digest": (synthesis.Attempt,),
            "candidate_digest": (runner.Candidate,),
        },
        synthesis.Receipt: {
            "session_digest": (synthesis.Session,),
            "plan_digest": (synthesis.Plan,),
            "attempt_digest": (synthesis.Attempt,),
            "evaluation_digest": (synthesis.Evaluation,),
            "candidate_digest": (runner.Candidate,),
        },
        synthesis.ProofDischarge: {
            "candidate_digest": (runner.Candidate,),
            "evidence_digest": (evaluator.Result,),
        },
        synthesis.Transition: {"session_digest": (synthesis.Session,)},
        providerport.Request: {"session_digest": (synthesis.Session,)},
        providerport.Result: {"request_digest": (providerport.Request,)},
        providerport.Receipt: {
            "request_digest": (providerport.Request,),
            "capabilities_digest": (providerport.Capabilities,),
            "result_digest": (providerport.Result,),
        },
        runner.Candidate: {
            "session_digest": (synthesis.Session,),
            "workspace_digest": (identity.Workspace,),
            "plan_digest": (synthesis.Plan,),
            "change_digest": (runner.ChangeSet,),
        },
        runner.Receipt: {
            "request_digest": (providerport.Request,),
            "snapshot_digest": (runner.Snapshot,),
            "provider_receipt_digest": (providerport.Receipt,),
            "result_digest": (providerport.Result,),
            "candidate_digest": (runner.Candidate,),
        },
        evaluator.Input: {
            "session_digest": (synthesis.Session,),
            "attempt_digest": (synthesis.Attempt,),
            "candidate_digest": (runner.Candidate,),
            "policy_digest": (evaluator.Policy,),
        },
        evaluator.Audit: {
            "candidate_digest": (runner.Candidate,),
            "reviewer_result_digest": (providerport.Result,),
            "adversary_result_digest": (providerport.Result,),
        },
        evaluator.Result: {
            "audit_digest": (evaluator.Audit,),
            "descriptor_digest": (evaluator.Descriptor,),
            "input_digest": (evaluator.Input,),
        },
        evaluator.Receipt: {
            "session_digest": (synthesis.Session,),
            "attempt_digest": (synthesis.Attempt,),
            "runner_receipt_digest": (runner.Receipt,),
            "policy_digest": (evaluator.Policy,),
            "candidate_digest": (runner.Candidate,),
            "evaluation_digest": (synthesis.Evaluation,),
        },
        admission.Request: {
            "session_digest": (synthesis.Session,),
            "plan_digest": (synthesis.Plan,),
            "attempt_digest": (synthesis.Attempt,),
            "evaluation_digest": (synthesis.Evaluation,),
            "synthesis_receipt_digest": (synthesis.Receipt,),
            "runner_receipt_digest": (runner.Receipt,),
            "evaluation_receipt_digest": (evaluator.Receipt,),
            "candidate_digest": (runner.Candidate,),
            "policy_digest": (admission.Policy,),
        },
        admission.Decision: {
            "request_digest": (admission.Request,),
            "policy_digest": (admission.Policy,),
            "candidate_digest": (runner.Candidate,),
            "unacknowledged_digest": (admission.Decision,),
        },
        admission.Receipt: {
            "request_digest": (admission.Request,),
            "decision_digest": (admission.Decision,),
            "synthesis_receipt_digest": (synthesis.Receipt,),
            "candidate_digest": (runner.Candidate,),
        },
        admission.Verification: {
            "decision_digest": (admission.Decision,),
            "candidate_digest": (runner.Candidate,),
            "application_receipt_digest": (candidateapply.Receipt,),
        },
        candidateapply.Request: {
            "admission_receipt_digest": (admission.Receipt,),
            "decision_digest": (admission.Decision,),
            "candidate_digest": (runner.Candidate,),
        },
        candidateapply.Receipt: {
            "request_digest": (candidateapply.Request,),
            "decision_digest": (admission.Decision,),
            "candidate_digest": (runner.Candidate,),
        },
        candidateapply.VerificationRecord: {
            "application_receipt_digest": (candidateapply.Receipt,),
            "decision_digest": (admission.Decision,),
            "candidate_digest": (runner.Candidate,),
            "verification_digest": (admission.Verification,),
        },
        candidateapply.UndoReceipt: {
            "application_receipt_digest": (candidateapply.Receipt,),
            "candidate_digest": (runner.Candidate,),
        },
        driver.Savepoint: {"session_digest": (synthesis.Session,)},
        driver.Receipt: {
            "session_digest": (synthesis.Session,),
            "provider_receipts": (providerport.Receipt,),
            "runner_receipts": (runner.Receipt,),
            "evaluation_receipts": (evaluator.Receipt,),
            "synthesis_receipt_digest": (synthesis.Receipt,),
            "candidate_digest": (runner.Candidate,),
            "admission_request_digest": (admission.Request,),
            "decision_digest": (admission.Decision,),
            "application_receipt_digest": (candidateapply.Receipt,),
            "verification_digest": (admission.Verification, candidateapply.VerificationRecord),
        },
    }
)
"""Document type, member that holds digests, and the types one of which each digest must name."""


class Agreement(msgspec.Struct, frozen=True):
    """Members that a document shares with the one that its member ``by`` names: its own name to the other's."""

    by: str
    target: type[Document]
    members: Mapping[str, str]


_THREE: Final = ("input_digest", "change_digest", "final_digest")


def _agree(by: str, target: type[Document], *same: str, **other: str) -> Agreement:
    return Agreement(by, target, MappingProxyType({**{name: name for name in same}, **other}))


AGREEMENTS: Final[Mapping[type[Document], tuple[Agreement, ...]]] = MappingProxyType(
    {
        synthesis.Session: (
            _agree("workspace_digest", identity.Workspace, "repository_domain", "base_commit", "base_manifest_digest"),
            _agree("task_digest", identity.Task, "objective"),
        ),
        synthesis.Interpretation: (_agree("session_digest", synthesis.Session, "objective"),),
        runner.Candidate: (
            _agree(
                "session_digest",
                synthesis.Session,
                "base_commit",
                "workspace_digest",
                input_digest="base_manifest_digest",
            ),
            _agree("plan_digest", synthesis.Plan, "generation"),
        ),
        runner.Receipt: (_agree("candidate_digest", runner.Candidate, *_THREE),),
        admission.Request: (_agree("candidate_digest", runner.Candidate, "base_commit", "plan_digest", *_THREE),),
        admission.Decision: (_agree("request_digest", admission.Request, "candidate_digest", "policy_digest"),),
        admission.Receipt: (
            _agree("request_digest", admission.Request, "candidate_digest", "synthesis_receipt_digest"),
            _agree("decision_digest", admission.Decision, "candidate_digest", "request_digest", "outcome"),
        ),
        candidateapply.Request: (
            _agree("candidate_digest", runner.Candidate, "base_commit", *_THREE),
            _agree("decision_digest", admission.Decision, "candidate_digest", "envelope"),
            _agree("admission_receipt_digest", admission.Receipt, "candidate_digest", "decision_digest"),
        ),
        candidateapply.Receipt: (
            _agree("request_digest", candidateapply.Request, "candidate_digest", "decision_digest"),
        ),
        admission.Verification: (
            _agree("application_receipt_digest", candidateapply.Receipt, "candidate_digest", "decision_digest"),
        ),
        candidateapply.VerificationRecord: (
            _agree(
                "verification_digest",
                admission.Verification,
                "application_receipt_digest",
                "candidate_digest",
                "decision_digest",
                "observed_change_digest",
                "status",
            ),
        ),
        candidateapply.UndoReceipt: (_agree("application_receipt_digest", candidateapply.Receipt, "candidate_digest"),),
    }
)
"""Document type, and what each document that it names must say the same about."""


class Gap(msgspec.Struct, frozen=True):
    """A binding that does not hold (``broken``), or whose other end the run did not record (``not-shown``)."""

    seq: int
    status: Literal["broken", "not-shown"]
    detail: str


def check_lineage(history: RunHistory) -> list[Gap]:
    """Every binding of a run that is broken or not shown, in the order of its records."""
    known: dict[type[Document], set[str]] = {}
    for entry in history.entries:
        known.setdefault(type(entry.body.document), set()).add(entry.body.digest)
    return [gap for entry in history.entries for gap in (*_bindings(entry, known), *_agreements(entry, history))]


def _bindings(entry: HistoryEntry, known: Mapping[type[Document], set[str]]) -> Iterator[Gap]:
    document = entry.body.document
    for member, targets in BINDINGS.get(type(document), {}).items():
        value = getattr(document, member)
        for digest in (value,) if isinstance(value, str) else value or ():
            present = [known[target] for target in targets if target in known]
            if any(digest in digests for digests in present):
                continue
            names = " or ".join(kind_of(target) for target in targets)
            detail = f"{entry.kind} {member} names {digest}, "
            if present:
                yield Gap(entry.seq, "broken", detail + f"which is no {names} of this run.")
            else:
                yield Gap(entry.seq, "not-shown", detail + f"but the run recorded no {names}.")


def _agreements(entry: HistoryEntry, history: RunHistory) -> Iterator[Gap]:
    """Members that two bound documents must share."""
    document = entry.body.document
    for agreement in AGREEMENTS.get(type(document), ()):
        for other in history.all(agreement.target):
            if other.digest != getattr(document, agreement.by):
                continue
            for own, theirs in agreement.members.items():
                if getattr(document, own) != getattr(other.document, theirs):
                    detail = f"{entry.kind} has another {own} than the {kind_of(agreement.target)} it is bound to."
                    yield Gap(entry.seq, "broken", detail)
    if isinstance(document, synthesis.Evaluation):
        named = (document.attempt_digest, document.candidate_digest)
        pair = [e.body.document for digest in named for e in history.entries if e.body.digest == digest]
        if len({tuple(getattr(item, member, None) for member in _THREE) for item in pair}) > 1:
            yield Gap(entry.seq, "broken", f"{entry.kind} names a candidate that its attempt did not make.")
