"""The replay of audits: what auditors said is resolved again, from the recorded answers and the two trees."""

from __future__ import annotations

from msgspec.structs import replace

from driver.replay_evidence import Evidence, differs, not_shown, verify_same
from evaluator.audit import audit_checks, judge_audit, task_of
from evaluator.documents import Audit, AuditConfig, EvaluatorConfig
from evaluator.documents import Policy as EvaluatorPolicy
from evaluator.documents import Result as EvaluatorResult
from providerport.documents import AuditReport, AuditTask, Capabilities, Request
from providerport.documents import Receipt as CallReceipt
from providerport.documents import Result as CallResult
from runner.documents import Candidate
from savant.contracts.canonical import encode_struct
from savant.contracts.digest import digest as digest_of_bytes
from savant.contracts.document import Sealed, digest_of
from synthesis.documents import Plan


def audits_follow(evidence: Evidence) -> int:
    """Each audit, made again from what was asked and answered, is the recorded one, and so is the result it gives.

    :raises VerificationError: ``unverified.replay-evaluation``.
    :raises Unverifiable: where something of it is not there.
    """
    results = [sealed.document for sealed in evidence.history.all(EvaluatorResult)]
    named = {result.audit_digest: result for result in results if result.audit_digest is not None}
    audits = evidence.history.all(Audit)
    verify_same("evaluation", "the audits that results name", sorted(named), sorted({a.digest for a in audits}))
    for audit in audits:
        _follows(evidence, audit, named[audit.digest])
    return len(audits)


def _follows(evidence: Evidence, audit: Sealed[Audit], result: EvaluatorResult) -> None:
    session = evidence.session.document
    policy = evidence.one(EvaluatorPolicy, session.evaluator_policy_digest).document
    config = next((item for item in policy.evaluators if item.id == result.evaluator), None)
    if config is None or config.audit is None:
        raise differs("evaluation", f"no audit is called {result.evaluator}")
    document = audit.document
    candidate = evidence.one(Candidate, document.candidate_digest)
    base, tree = evidence.tree(candidate.document)
    plan = evidence.one(Plan, candidate.document.plan_digest).document
    task = task_of(candidate, plan, session.objective, base, tree, max_bytes=config.audit.max_diff_bytes)
    reports: list[tuple[str, AuditReport]] = []
    for digest, auditor in _asked(document, config.audit):
        asked = replace(task, audited=reports[0][1] if reports else None)
        reports.append((digest, _report(evidence, digest, asked, auditor)))
    again = judge_audit(document.candidate_digest, reports[0], reports[1] if len(reports) > 1 else None, base, tree)
    verify_same("evaluation", "the audit", digest_of(again), audit.digest)
    _result_follows(config, again, result, [report for _, report in reports])


def _asked(document: Audit, chosen: AuditConfig) -> list[tuple[str, str]]:
    """The results that an audit names, each with the configuration of who had to be asked."""
    pairs = [
        (document.reviewer_result_digest, chosen.reviewer_digest),
        (document.adversary_result_digest, chosen.adversary_digest),
    ]
    if (pairs[1][0] is None) is not (pairs[1][1] is None):
        raise differs("evaluation", "an audit is there without the adversary that was committed to")
    return [(digest, auditor) for digest, auditor in pairs if digest is not None and auditor is not None]


def _report(evidence: Evidence, digest: str, task: AuditTask, auditor: str) -> AuditReport:
    """The report in a recorded answer, if it was asked of who was committed to, and about this task."""
    report = evidence.one(CallResult, digest).document.audit
    receipt = next((r.document for r in evidence.history.all(CallReceipt) if r.document.result_digest == digest), None)
    if report is None or receipt is None:
        raise not_shown(f"no report is in the answer {digest}")
    asked = evidence.one(Request, receipt.request_digest).document
    found = None if asked.audit is None else digest_of_bytes(encode_struct(asked.audit))
    verify_same("evaluation", "the task of an audit", digest_of_bytes(encode_struct(task)), found)
    who = evidence.one(Capabilities, receipt.capabilities_digest).document.identity_digest
    verify_same("evaluation", "who audited", who, auditor)
    return report


def _result_follows(config: EvaluatorConfig, audit: Audit, result: EvaluatorResult, reports: list[AuditReport]) -> None:
    checks, classes, told = audit_checks(config, audit, reports)
    verify_same("evaluation", "the checks of an audit", result.checks, checks)
    verify_same("evaluation", "the failure classes of an audit", result.failure_classes, classes)
    verify_same("evaluation", "what an audit says besides", result.limitations[: len(told)], told)
