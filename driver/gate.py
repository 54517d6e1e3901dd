"""The gate: whether an admitted and verified candidate explains a commit. Pure; what it needs comes in.

A candidate explains a commit *by identity*, when it was made from the tree that the commit stands on and its sealed
tree is the commit's; or *by change*, when the same paths have the same states before and after on another base, and
admission decided again, under the rules of that base, admits it. The rules come from the base, never from the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec

from admission.documents import Decision, Policy, Verification
from candidateapply.documents import Receipt as ApplyReceipt
from driver.history import RunHistory
from driver.replay import ReplayReport
from runner.documents import Candidate, PathChange
from savant.contracts.document import Sealed
from savant.ledger.verify import VerificationReport

Answer: TypeAlias = Literal["governed", "not-governed", "cannot-tell"]
How: TypeAlias = Literal["identity", "change"]
MAX_NAMED: Final = 20

REASONS: Final = MappingProxyType(
    {
        "gate.by-identity": "The commit is, byte for byte, what was admitted, on the base that it was made from.",
        "gate.by-change": "The commit makes, path for path, the change that was admitted, on another base.",
        "gate.no-base": "The commit has no parent, so there is nothing that it changes.",
        "gate.nothing-changed": "The commit has the tree of its base: there is no change to explain.",
        "gate.no-candidate": "No candidate in the ledger has this tree or this change.",
        "gate.differs": "A candidate was made from this base, and the commit is not what was admitted.",
        "gate.other-base": "A candidate has this tree, but it was made from another base.",
        "gate.not-admitted": "The candidate was not admitted.",
        "gate.not-verified": "The candidate was admitted, but no verification saw it applied exactly.",
        "gate.starter-policy": "The built-in starter policy judged the candidate, and this base does not accept that.",
        "gate.refused-here": "Judged again by the rules of this base, the candidate is not admitted.",
        "gate.replay-diverged": "The run was decided again and came out differently.",
        "gate.replay-incomplete": "The run cannot be decided again as a whole.",
        "gate.evaluation-failed": "The checks were run again here, and the commit did not pass them.",
        "gate.custody": "The evidence is held more weakly than the rules of the target demand.",
        "gate.older-ledger": "The ledger is older than the one that was seen before, or is another one.",
        "gate.judged": "Nothing says how the commit was made; judged here, checks and rules let it pass.",
        "gate.judged-waiting": "Nothing says how the commit was made; judged here, a person is needed.",
        "gate.judged-refused": "Nothing says how the commit was made; judged here, it does not pass.",
        "gate.not-judged": "The commit could not be judged here.",
        "gate.merge-commit": "It is a merge, and was compared with its first parent.",
        "gate.merge-group": "It is part of the group of a merge queue, on what the queue put before it.",
        "gate.as-one": "Several commits were taken as the one change that they make together, as a squash would.",
        "gate.no-ledger": "There is no ledger to look into.",
        "gate.not-authenticated": "The ledger is intact, but no pin says that it is the right one.",
        "gate.ledger-incomplete": "The ledger cannot be verified as a whole.",
        "gate.ledger-failed": "The verification of the ledger failed.",
        "gate.unreadable": "Something that the answer needs cannot be read here.",
    }
)
"""Every reason of an answer, as a sentence."""

ADMITTED: Final = frozenset({"admitted", "admitted-with-conditions"})

_CANNOT_TELL: Final = frozenset(
    {
        "gate.replay-diverged",
        "gate.replay-incomplete",
        "gate.no-ledger",
        "gate.not-authenticated",
        "gate.ledger-incomplete",
        "gate.ledger-failed",
        "gate.unreadable",
        "gate.older-ledger",
        "gate.not-judged",
    }
)
FAILED: Final = frozenset({"gate.ledger-failed", "gate.replay-diverged", "gate.older-ledger"})
"""Reasons that say that a check was made and failed, beside those that say that none could be made."""


class Question(msgspec.Struct, frozen=True):
    """What is asked about: a commit on a base, by the digests of their manifests and of the change between them.

    :param policy: the admission policy that is in force at the base.
    :param changes: every path that the commit changes, in order.
    """

    commit: str
    base_commit: str
    base_digest: str
    head_digest: str
    change_digest: str
    policy: Sealed[Policy]
    changes: tuple[PathChange, ...] = ()


class Match(msgspec.Struct, frozen=True):
    """A candidate that could explain the commit, with the records of its run."""

    how: How
    history: RunHistory
    candidate: Sealed[Candidate]


class GateReason(msgspec.Struct, frozen=True):
    """One reason: a code of :data:`REASONS` and what it is about."""

    code: str
    detail: str


class GateReport(msgspec.Struct, frozen=True):
    """The answer, and the match that gave it."""

    answer: Answer
    reasons: tuple[GateReason, ...]
    match: Match | None = None
    decision: Sealed[Decision] | None = None

    @property
    def is_failed_check(self) -> bool:
        """Whether the answer cannot be given because a check failed."""
        return self.answer == "cannot-tell" and any(reason.code in FAILED for reason in self.reasons)


Rejudge: TypeAlias = Callable[[Match, Decision], Decision]
"""Admission decided again for a match, by the rules and on the base of the question, without acknowledgements."""

Replay: TypeAlias = Callable[[RunHistory], ReplayReport]


def cannot_tell(code: str, detail: str) -> GateReport:
    """The answer when something that every answer needs is not there."""
    return GateReport("cannot-tell", (GateReason(code, detail),))


def check_ledger(report: VerificationReport) -> GateReport | None:
    """The answer when a ledger cannot be believed; None when it was verified under a pin."""
    match report.outcome:
        case "verified":
            return None
        case "self-consistent":
            return cannot_tell("gate.not-authenticated", f"ledger {report.ledger}")
        case "incomplete":
            missing = [c for c in report.checks if c.status == "not-shown" and c.code is not None]
            return cannot_tell("gate.ledger-incomplete", missing[0].detail or missing[0].name if missing else "")
        case "failed":
            first = report.first_failure
            return cannot_tell("gate.ledger-failed", "" if first is None else f"{first.name}: {first.detail}")


def explains(question: Question, candidate: Candidate) -> How | None:
    """How a candidate could explain the commit, by digests alone."""
    if (candidate.input_digest, candidate.final_digest) == (question.base_digest, question.head_digest):
        return "identity"
    return "change" if candidate.change_digest == question.change_digest else None


def decide_gate(question: Question, runs: Iterable[RunHistory], *, rejudge: Rejudge, replay: Replay) -> GateReport:
    """The answer about a commit, from the runs of a ledger that was verified under a pin.

    One match that passes everything governs the commit. Without one the answer is *cannot tell* when a match failed
    only because something is missing or does not replay, else *not governed*.
    """
    if question.base_digest == question.head_digest:
        return GateReport("not-governed", (GateReason("gate.nothing-changed", question.base_commit),))
    reasons: list[GateReason] = []
    near: list[GateReason] = []
    for history in runs:
        for candidate in history.all(Candidate):
            how = explains(question, candidate.document)
            if how is None:
                if candidate.document.final_digest == question.head_digest:
                    reasons.append(
                        GateReason("gate.other-base", _run(history) + f", made from {candidate.document.base_commit}")
                    )
                elif candidate.document.input_digest == question.base_digest and _is_admitted(history, candidate):
                    near.append(GateReason("gate.differs", f"{_run(history)}: {_differing(question, candidate)}"))
                continue
            match = Match(how, history, candidate)
            found = _judge(question, match, rejudge, replay)
            if found.answer == "governed":
                return found
            reasons.extend(found.reasons)
    reasons = reasons or near
    if not reasons:
        reasons.append(GateReason("gate.no-candidate", f"tree {question.head_digest}, change {question.change_digest}"))
    blocked = any(reason.code in _CANNOT_TELL for reason in reasons)
    return GateReport("cannot-tell" if blocked else "not-governed", tuple(dict.fromkeys(reasons)))


def _is_admitted(history: RunHistory, candidate: Sealed[Candidate]) -> bool:
    return any(
        d.document.outcome in ADMITTED and d.document.candidate_digest == candidate.digest
        for d in history.all(Decision)
    )


def _differing(question: Question, candidate: Sealed[Candidate]) -> str:
    """The paths at which a commit is not what a candidate made of the same base."""
    ours = {change.path: change.after for change in question.changes}
    theirs = {operation.path: operation.after for operation in candidate.document.operations}
    both = {*ours, *theirs}
    paths = sorted(path for path in both if not (path in ours and path in theirs and ours[path] == theirs[path]))
    more = f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
    return ", ".join(paths[:MAX_NAMED]) + more


def _judge(question: Question, match: Match, rejudge: Rejudge, replay: Replay) -> GateReport:
    """One match: admitted, verified, under rules that count here, and the whole run decided again."""
    run, decisions = _run(match.history), _decisions(match)
    admitted = [decision for decision in decisions if decision.document.outcome in ADMITTED]
    if not admitted:
        outcome = decisions[-1].document.outcome if decisions else "not decided"
        return _no("gate.not-admitted", f"{run}: {outcome}")
    verified = [decision for decision in admitted if _is_verified(match, decision)]
    if not verified:
        return _no("gate.not-verified", run)
    decision = verified[-1]
    judged_by = match.history.by_digest(Policy, decision.document.policy_digest)
    policy = question.policy.document
    if "starter" in (judged_by.document.origin, policy.origin) and not policy.gate_accepts_starter:
        return _no("gate.starter-policy", run)
    if match.how == "change" or judged_by.digest != question.policy.digest:
        again = rejudge(match, decision.document)
        if again.outcome != "admitted":
            why = ", ".join(f"{reason.code} ({reason.path or reason.rule})" for reason in again.reasons)
            return _no("gate.refused-here", f"{run}: {again.outcome}: {why}")
    replayed = replay(match.history)
    if replayed.outcome != "replayed":
        step = next(step for step in replayed.steps if step.status != "pass")
        first = replayed.first_divergence or step
        code = "gate.replay-diverged" if replayed.outcome == "diverged" else "gate.replay-incomplete"
        return _no(code, f"{run}: {first.name}: {first.detail}")
    reason = GateReason(f"gate.by-{match.how}", f"{run}, candidate {match.candidate.digest}")
    return GateReport("governed", (reason,), match, decision)


def _decisions(match: Match) -> list[Sealed[Decision]]:
    return [d for d in match.history.all(Decision) if d.document.candidate_digest == match.candidate.digest]


def _is_verified(match: Match, decision: Sealed[Decision]) -> bool:
    """Whether somebody looked at a target of this decision and saw exactly the candidate."""
    return any(True for _ in _verifications(match, decision))


def _verifications(match: Match, decision: Sealed[Decision]) -> Iterator[Verification]:
    candidate, history = match.candidate, match.history
    applied = {
        receipt.digest
        for receipt in history.all(ApplyReceipt)
        if (receipt.document.candidate_digest, receipt.document.decision_digest) == (candidate.digest, decision.digest)
    }
    for sealed in history.all(Verification):
        document = sealed.document
        bound = (document.candidate_digest, document.decision_digest) == (candidate.digest, decision.digest)
        seen = (document.observed_final_digest, document.observed_change_digest)
        exact = seen == (candidate.document.final_digest, candidate.document.change_digest)
        if bound and exact and document.status == "scope-compliant" and document.application_receipt_digest in applied:
            yield document


def _no(code: str, detail: str) -> GateReport:
    return GateReport("cannot-tell" if code in _CANNOT_TELL else "not-governed", (GateReason(code, detail),))


def _run(history: RunHistory) -> str:
    return f"run {history.run_id[:12]}"
