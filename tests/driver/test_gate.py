"""The gate's decision about a commit, from digests and records alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from admission.documents import Decision, Policy, Reason, Verification
from admission.policy import starter_policy
from candidateapply.documents import Receipt as ApplyReceipt
from driver import gate
from driver.gate import REASONS, GateReport, Match, Question, check_ledger, decide_gate, explains
from driver.history import HistoryEntry, RunHistory
from driver.replay import ReplayReport, ReplayStep
from runner.documents import Candidate
from savant.contracts.document import Document, Sealed, kind_of, seal
from savant.ledger.record import observation
from savant.ledger.verify import CHECKS, CheckResult, VerificationReport
from tests.vectors.examples import named

POLICY = seal(starter_policy("repository"))
STARTER = seal(starter_policy())
OPEN = seal(structs.replace(POLICY.document, gate_accepts_starter=True))
BASE, HEAD, CHANGE = named("base tree"), named("head tree"), named("change")
COMMIT, PARENT = "sha1:" + "c" * 40, "sha1:" + "b" * 40


def question(**changes: Any) -> Question:
    asked = Question(
        commit=COMMIT,
        base_commit=PARENT,
        base_digest=BASE,
        head_digest=HEAD,
        change_digest=CHANGE,
        policy=POLICY,
    )
    from msgspec import structs

    return structs.replace(asked, **changes)


def candidate(**changes: Any) -> Sealed[Candidate]:
    members: dict[str, Any] = {
        "session_digest": named("session"),
        "workspace_digest": named("workspace"),
        "plan_digest": named("plan"),
        "generation": 1,
        "attempt_number": 1,
        "base_commit": PARENT,
        "input_digest": BASE,
        "change_digest": CHANGE,
        "final_digest": HEAD,
        "operations": (),
    }
    return seal(Candidate(**{**members, **changes}))


def decision(of: Sealed[Candidate], **changes: Any) -> Sealed[Decision]:
    members: dict[str, Any] = {
        "request_digest": named("request"),
        "policy_digest": POLICY.digest,
        "candidate_digest": of.digest,
        "outcome": "admitted",
        "reasons": (),
        "conditions": (),
        "acknowledged": (),
        "envelope": (),
        "observed": (),
        "limitations": (),
        "unacknowledged_digest": None,
        "scope_only": True,
        "correctness_certified": False,
    }
    return seal(Decision(**{**members, **changes}))


def application(of: Sealed[Candidate], by: Sealed[Decision]) -> Sealed[ApplyReceipt]:
    return seal(
        ApplyReceipt(
            request_digest=named("application request"),
            decision_digest=by.digest,
            candidate_digest=of.digest,
            disposition="applied",
            input_digest=of.document.input_digest,
            observed_final_digest=of.document.final_digest,
            observed_change_digest=of.document.change_digest,
            applied_paths=(),
            detail="",
        )
    )


def verification(
    of: Sealed[Candidate], by: Sealed[Decision], applied: Sealed[ApplyReceipt], **changes: Any
) -> Sealed[Verification]:
    members: dict[str, Any] = {
        "decision_digest": by.digest,
        "candidate_digest": of.digest,
        "application_receipt_digest": applied.digest,
        "status": "scope-compliant",
        "head_commit": PARENT,
        "observed_final_digest": of.document.final_digest,
        "observed_change_digest": of.document.change_digest,
        "violations": (),
    }
    return seal(Verification(**{**members, **changes}))


def history(*documents: Sealed[Any]) -> RunHistory:
    entries = [
        HistoryEntry(seq, "driver", kind_of(sealed.document), sealed, observation(0))
        for seq, sealed in enumerate(documents, 1)
    ]
    return RunHistory("a" * 32, entries)


def governing(
    made: Sealed[Candidate] | None = None, policy: Sealed[Policy] = POLICY, **changes: Any
) -> tuple[Sealed[Document], ...]:
    made = made or candidate()
    decided = decision(made, policy_digest=policy.digest, **changes)
    applied = application(made, decided)
    return policy, made, decided, applied, verification(made, decided, applied)


def replayed(run: RunHistory) -> ReplayReport:
    return ReplayReport(run.run_id, (ReplayStep("ledger", "pass", ""),))


def answer(
    run: RunHistory | None, asked: Question | None = None, *, again: str = "admitted", replay: Any = replayed
) -> GateReport:
    def rejudge(match: Match, decided: Decision) -> Decision:
        reasons = (Reason(code="admission.waiting", rule="files", path=None, detail=""),)
        return structs.replace(decided, outcome=again, reasons=reasons)

    return decide_gate(asked or question(), [] if run is None else [run], rejudge=rejudge, replay=replay)


def codes(report: GateReport) -> list[str]:
    return [reason.code for reason in report.reasons]


def test_an_admitted_and_verified_candidate_governs_the_commit_it_became() -> None:
    """The commit's tree is the sealed one, its base the one it was made from."""
    run = history(*governing())
    report = answer(run)
    assert (report.answer, codes(report)) == ("governed", ["gate.by-identity"])
    assert report.match is not None
    assert (report.match.how, report.match.history) == ("identity", run)
    assert report.decision == run.last(Decision)


def test_the_same_change_on_another_base_governs_when_it_is_admitted_there() -> None:
    """By change: same paths, same states; the decision is made again on that base."""
    asked = question(base_digest=named("moved base"), head_digest=named("moved head"))
    run = history(*governing())
    assert codes(answer(run, asked)) == ["gate.by-change"]
    for outcome in ("waiting", "refused", "uncertifiable", "admitted-with-conditions"):
        report = answer(run, asked, again=outcome)
        assert (report.answer, codes(report)) == ("not-governed", ["gate.refused-here"])


def test_another_policy_at_the_base_decides_again() -> None:
    """By identity, but the rules in force at the base are not the ones that decided: they decide now."""
    other = seal(structs.replace(POLICY.document, allow=("src/**",)))
    run = history(*governing())
    assert answer(run, question(policy=other)).answer == "governed"
    assert codes(answer(run, question(policy=other), again="refused")) == ["gate.refused-here"]


def test_nothing_in_the_ledger_explains_it() -> None:
    """No run at all, or runs whose candidates have another tree and another change."""
    assert codes(answer(None)) == ["gate.no-candidate"]
    other = candidate(change_digest=named("other"), final_digest=named("other tree"), input_digest=named("other base"))
    report = answer(history(*governing(other)))
    assert (report.answer, codes(report)) == ("not-governed", ["gate.no-candidate"])


def test_an_admitted_candidate_of_this_base_says_where_the_commit_differs() -> None:
    """The paths are named; a candidate that was not admitted is not told."""
    other = candidate(change_digest=named("other"), final_digest=named("other tree"))
    report = answer(history(*governing(other)))
    assert (report.answer, codes(report)) == ("not-governed", ["gate.differs"])
    paths = sorted(operation.path for operation in other.document.operations)
    assert report.reasons[0].detail.endswith(f": {', '.join(paths)}")
    assert codes(answer(history(other))) == ["gate.no-candidate"]


def test_the_same_tree_from_another_base_does_not_explain_it() -> None:
    """A candidate with this tree was made from something else: this commit undoes or hides a change in between."""
    other = candidate(input_digest=named("other base"), change_digest=named("other change"))
    report = answer(history(*governing(other)))
    assert (report.answer, codes(report)) == ("not-governed", ["gate.other-base"])


@pytest.mark.parametrize("outcome", ["waiting", "refused", "uncertifiable"])
def test_a_candidate_that_was_not_admitted_governs_nothing(outcome: str) -> None:
    """Whatever else is recorded about it."""
    report = answer(history(*governing(outcome=outcome)))
    assert (report.answer, codes(report)) == ("not-governed", ["gate.not-admitted"])
    assert answer(history(*governing(outcome="admitted-with-conditions"))).answer == "governed"


def test_a_candidate_nobody_decided_about_governs_nothing() -> None:
    """Sealed is not admitted."""
    assert codes(answer(history(candidate()))) == ["gate.not-admitted"]


Change = Callable[[Sealed[Candidate], Sealed[Decision], Sealed[ApplyReceipt]], Sealed[Document] | None]


@pytest.mark.parametrize(
    "verified",
    [
        lambda made, decided, applied: None,
        lambda made, decided, applied: verification(made, decided, applied, status="scope-violated"),
        lambda made, decided, applied: verification(made, decided, applied, status="stale"),
        lambda made, decided, applied: verification(made, decided, applied, observed_final_digest=named("other")),
        lambda made, decided, applied: verification(made, decided, applied, observed_change_digest=named("other")),
        lambda made, decided, applied: verification(made, decided, applied, candidate_digest=named("other")),
        lambda made, decided, applied: verification(made, decided, applied, decision_digest=named("other")),
        lambda made, decided, applied: verification(made, decided, applied, application_receipt_digest=named("other")),
    ],
)
def test_admitted_is_not_enough(verified: Change) -> None:
    """Without a compliant verification of exactly this application of this candidate the answer is no."""
    made = candidate()
    decided = decision(made)
    applied = application(made, decided)
    seen = verified(made, decided, applied)
    documents = [POLICY, made, decided, applied, *([] if seen is None else [seen])]
    report = answer(history(*documents))
    assert (report.answer, codes(report)) == ("not-governed", ["gate.not-verified"])
    assert answer(history(POLICY, made, decided, applied, verification(made, decided, applied))).answer == "governed"


def test_the_starter_policy_does_not_count_unless_the_base_says_so() -> None:
    """A candidate that the built-in rules judged is refused, whoever made the commit, unless the base accepts it."""
    run = history(*governing(policy=STARTER))
    assert codes(answer(run)) == ["gate.starter-policy"]
    assert codes(answer(run, question(policy=STARTER))) == ["gate.starter-policy"]
    assert codes(answer(history(*governing()), question(policy=STARTER))) == ["gate.starter-policy"]
    assert answer(run, question(policy=OPEN)).answer == "governed"


@pytest.mark.parametrize(
    ("status", "code"), [("fail", "gate.replay-diverged"), ("not-shown", "gate.replay-incomplete")]
)
def test_a_run_that_does_not_replay_governs_nothing(status: Any, code: str) -> None:
    """What the record concludes is decided again; a difference or a gap makes the answer unknown, never yes or no."""

    def replay(run: RunHistory) -> ReplayReport:
        return ReplayReport(run.run_id, (ReplayStep("ledger", "pass", ""), ReplayStep("admission", status, "why")))

    report = answer(history(*governing()), replay=replay)
    assert (report.answer, codes(report)) == ("cannot-tell", [code])
    assert report.is_failed_check == (status == "fail")
    assert "admission: why" in report.reasons[0].detail


def test_one_match_that_holds_is_enough() -> None:
    """An unverified twin beside it changes nothing, in either order."""
    good, twin = history(*governing()), history(POLICY, candidate(), decision(candidate()))

    def decided(runs: list[RunHistory]) -> GateReport:
        return decide_gate(question(), runs, rejudge=lambda _, d: d, replay=replayed)

    assert decided([twin, good]).answer == decided([good, twin]).answer == "governed"
    assert decided([twin]).answer == "not-governed"


def test_an_empty_commit_is_explained_by_nothing() -> None:
    """There is no change; a candidate without one would match everything."""
    report = answer(history(*governing()), question(head_digest=BASE))
    assert (report.answer, codes(report)) == ("not-governed", ["gate.nothing-changed"])


def test_every_reason_is_a_sentence() -> None:
    """Codes that the decision can give are all described, and those that leave it open are among them."""
    assert set(REASONS) >= gate._CANNOT_TELL
    assert gate.FAILED <= gate._CANNOT_TELL
    assert all(sentence.endswith(".") for sentence in REASONS.values())


def ledger_report(outcome: Any, **failing: Any) -> VerificationReport:
    checks = tuple(
        CheckResult(name, **failing.get(name, {"status": "pass", "seq": None, "code": None, "detail": None}))
        for name in CHECKS
    )
    return VerificationReport(outcome, "blake3:" + "1" * 64, "SHA256:x", 3, 3, None, b"", (), checks)


def test_only_a_verified_ledger_is_believed() -> None:
    """Self-consistent, incomplete and failed ledgers give no answer; only the last one is a failed check."""
    gap = {"bodies": {"status": "not-shown", "seq": 2, "code": "unverifiable.body-missing", "detail": "gone"}}
    broken = {"chain": {"status": "fail", "seq": 2, "code": "unverified.link", "detail": "cut"}}
    assert check_ledger(ledger_report("verified")) is None
    found = [
        check_ledger(ledger_report("self-consistent")),
        check_ledger(ledger_report("incomplete", **gap)),
        check_ledger(ledger_report("failed", **broken)),
    ]
    assert [(r.answer, codes(r), r.is_failed_check) for r in found if r is not None] == [
        ("cannot-tell", ["gate.not-authenticated"], False),
        ("cannot-tell", ["gate.ledger-incomplete"], False),
        ("cannot-tell", ["gate.ledger-failed"], True),
    ]


def test_digests_alone_say_how_a_candidate_could_explain() -> None:
    """Identity needs both trees; the change alone is the other way; one tree is none."""
    assert explains(question(), candidate().document) == "identity"
    assert explains(question(base_digest=named("x"), head_digest=named("y")), candidate().document) == "change"
    assert explains(question(change_digest=named("z"), base_digest=named("x")), candidate().document) is None
