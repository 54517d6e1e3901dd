"""A real run decided again, and the first divergence of runs that were rewritten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace as replaced

from admission.documents import Decision
from admission.documents import Policy as AdmissionPolicy
from admission.documents import Receipt as AdmissionReceipt
from admission.documents import Request as AdmissionRequest
from driver.documents import Receipt as RunReceipt
from driver.documents import Savepoint
from driver.history import RunHistory
from driver.lineage import AGREEMENTS, BINDINGS, check_lineage
from driver.replay import STEPS, ReplayReport, ReplayStep, ledger_step, unreadable, worst
from evaluator.documents import Custody, Excuse
from evaluator.documents import Input as EvaluatorInput
from evaluator.documents import Policy as EvaluatorPolicy
from evaluator.documents import Receipt as EvaluationReceipt
from evaluator.documents import Result as EvaluatorResult
from providerport.documents import Receipt as CallReceipt
from providerport.documents import Result
from runner.documents import Candidate, ChangeSet, Snapshot
from runner.documents import Receipt as RunnerReceipt
from savant.contracts.document import Document
from savant.contracts.errors import Unverifiable, VerificationError
from savant.identity.documents import Closure, Graph, Workspace
from savant.ledger.documents import RunClose, RunOpen
from savant.ledger.verify import CheckResult
from savant.store.objects import MemoryObjectStore
from synthesis.documents import Attempt, Evaluation, Interpretation, Plan, PlanReview, Session, Transition
from synthesis.documents import Receipt as SynthesisReceipt
from tests.driver.runkit import (
    CONFIG,
    FILES,
    INTACT,
    RUN,
    Recorded,
    changed,
    forge,
    record_run,
    replace_body,
    replay,
    without,
)
from tests.vectors.examples import named

NAMES = ["ledger", *(name for name, _ in STEPS)]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """One admitted run of two attempts."""
    root = tmp_path_factory.mktemp("replay")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAVANT_HOME", str(root / "home"))
        yield record_run(root)


@pytest.fixture
def history(recorded: Recorded) -> RunHistory:
    return recorded.history()


def statuses(report: ReplayReport) -> dict[str, str]:
    return {step.name: step.status for step in report.steps}


def failing(report: ReplayReport) -> list[str]:
    return [step.name for step in report.steps if step.status == "fail"]


def test_a_recorded_run_comes_out_the_same(recorded: Recorded, history: RunHistory) -> None:
    """Every step of a run with a retry passes, in the order of a run."""
    report = replay(recorded, history)
    assert [step.name for step in report.steps] == NAMES
    assert set(statuses(report).values()) == {"pass"}
    assert (report.outcome, report.first_divergence) == ("replayed", None)


def test_a_ledger_that_nobody_vouches_for_is_not_shown(recorded: Recorded, history: RunHistory) -> None:
    """Not verified, self-consistent and incomplete ledgers leave the replay incomplete; a failed one diverges first."""
    gap = CheckResult("bodies", "not-shown", 2, "unverifiable.body-missing", "gone")
    broken = CheckResult("chain", "fail", 2, "unverified.link", "cut")
    reports = {
        None: "incomplete",
        replaced(INTACT, outcome="self-consistent"): "incomplete",
        replaced(INTACT, outcome="incomplete", checks=(gap,)): "incomplete",
        replaced(INTACT, outcome="failed", checks=(broken,)): "diverged",
    }
    for ledger, outcome in reports.items():
        report = replay(recorded, history, ledger=ledger)
        assert report.outcome == outcome
        assert {name for name, status in statuses(report).items() if status != "pass"} == {"ledger"}
    assert (
        ledger_step(replaced(INTACT, outcome="failed", checks=(broken,))).detail
        == "chain at record 2: cut [unverified.link]"
    )


EXCUSE = Excuse(id="none", evaluator="check", checks=("*",), reason="None.", expires=None)


def without_built_ins(policy: EvaluatorPolicy) -> EvaluatorPolicy:
    return structs.replace(policy, evaluators=tuple(e for e in policy.evaluators if e.evaluator == "command"))


FORGERIES: dict[str, tuple[type[Document], Callable[[Any], Document], str]] = {
    "a workspace of another base": (Workspace, changed(base_commit="sha1:" + "0" * 40), "lineage"),
    "a session with another objective": (Session, changed(objective="Something else"), "lineage"),
    "a candidate of another base": (Candidate, changed(base_commit="sha1:" + "0" * 40), "lineage"),
    "a decision of another policy": (Decision, changed(policy_digest=named("other")), "lineage"),
    "an admission receipt with another outcome": (AdmissionReceipt, changed(outcome="waiting"), "lineage"),
    "an interpretation that no call returned": (
        Interpretation,
        changed(assumptions=("It is easy.",)),
        "interpretation",
    ),
    "a plan that no call returned": (Plan, changed(risks=("None.",)), "interpretation"),
    "a workspace of another name": (Workspace, changed(repository_domain="example.org/other"), "lineage"),
    "a graph that saw something": (Graph, changed(nodes_digest=named("nodes")), "identities"),
    "a closure that left something open": (Closure, changed(open=("Something",)), "identities"),
    "a policy that is not the base's": (AdmissionPolicy, changed(ask=()), "identities"),
    "evaluators that are not the base's": (EvaluatorPolicy, without_built_ins, "identities"),
    "a custody of nothing": (EvaluatorPolicy, changed(custody=Custody(tests=(), gates=())), "identities"),
    "an excuse that the base does not have": (EvaluatorPolicy, changed(excuses=(EXCUSE,)), "identities"),
    "a day where nothing can end": (EvaluatorPolicy, changed(as_of="2030-01-01"), "identities"),
    "a toolchain that the base does not name": (EvaluatorPolicy, changed(toolchain=("elsewhere",)), "identities"),
    "a starter policy where the base has its own": (AdmissionPolicy, changed(origin="starter"), "identities"),
    "a call that ended otherwise": (CallReceipt, changed(outcome="unavailable", payload_digest=None), "interpretation"),
    "a result of another payload": (
        Result,
        lambda r: structs.replace(r, generation=structs.replace(r.generation, summary="x")),
        "interpretation",
    ),
    "a transition that never was": (Transition, changed(events=("aborted",)), "state"),
    "a savepoint of no state": (Savepoint, changed(state_digest=named("state")), "state"),
    "another terminal receipt": (SynthesisReceipt, changed(calls_consumed=0), "state"),
    "an attempt that ended otherwise": (Attempt, changed(number=7), "state"),
    "a review that found something": (PlanReview, changed(outcome="escalate"), "state"),
    "an evaluation that recommends otherwise": (Evaluation, changed(recommendation="retry-generation"), "state"),
    "a snapshot with other limitations": (Snapshot, changed(base_tree="sha1:" + "0" * 40), "candidate"),
    "folders that no step prepared": (EvaluatorInput, changed(prepared_digest=named("folders")), "evaluation"),
    "a result that failed": (EvaluatorResult, changed(outcome="unavailable"), "evaluation"),
    "a result with a failure class": (EvaluatorResult, changed(failure_classes=("regression",)), "evaluation"),
    "a scope with fewer lines": (
        AdmissionRequest,
        lambda r: structs.replace(r, scope=tuple(structs.replace(e, added_lines=0) for e in r.scope)),
        "admission",
    ),
    "a request by somebody else": (AdmissionRequest, changed(requester="Eve"), "admission"),
    "a lineage check that failed": (AdmissionRequest, lambda r: structs.replace(r, lineage=r.lineage[1:]), "admission"),
    "a decision without an envelope": (Decision, changed(envelope=()), "admission"),
    "a decision that refused": (Decision, changed(outcome="refused"), "lineage"),
    "a runner receipt with a failure": (RunnerReceipt, changed(disposition="seal-failure"), "candidate"),
    "an evaluation receipt that evaluated nothing": (
        EvaluationReceipt,
        changed(disposition="composition-failure"),
        "evaluation",
    ),
    "a receipt with another disposition": (RunReceipt, changed(disposition="waiting"), "receipt"),
    "a receipt of fewer calls": (
        RunReceipt,
        lambda r: structs.replace(r, provider_receipts=r.provider_receipts[1:]),
        "receipt",
    ),
    "a receipt of another state": (RunReceipt, changed(state_digest=named("state")), "receipt"),
    "a receipt of another phase": (RunReceipt, changed(phase="failed"), "receipt"),
    "a close that counted more": (RunClose, changed(records=10_000), "run"),
}
"""What was changed, and the step that must find it when every digest was changed along with it."""


@pytest.mark.parametrize("name", FORGERIES)
def test_a_consistent_rewrite_is_found_by_the_step_that_decides_it_again(
    recorded: Recorded, history: RunHistory, name: str
) -> None:
    """A forger who holds every key and repairs every digest still meets what follows from the inputs."""
    type_, change, step = FORGERIES[name]
    report = replay(recorded, forge(history, type_, change))
    assert report.outcome == "diverged"
    assert report.first_divergence is not None
    assert report.first_divergence.name == step, report.steps


@pytest.mark.parametrize(
    ("type_", "member", "step"),
    [
        (Evaluation, {"recommendation": "retry-generation"}, "evaluation"),
        (PlanReview, {"findings": (), "outcome": "revise"}, "plan-review"),
        (Candidate, {"final_digest": named("other")}, "candidate"),
        (AdmissionPolicy, {"allow": ("nothing/**",)}, "admission"),
        (ChangeSet, {"changes": ()}, "candidate"),
        (Decision, {"outcome": "waiting"}, "admission"),
    ],
)
def test_each_conclusion_is_decided_again_and_not_only_bound(
    recorded: Recorded, history: RunHistory, type_: type[Document], member: dict[str, Any], step: str
) -> None:
    """The step itself fails, beside whatever earlier step noticed the rewrite."""
    assert step in failing(replay(recorded, forge(history, type_, changed(**member))))


def test_one_changed_document_breaks_the_lineage(recorded: Recorded, history: RunHistory) -> None:
    """Without repairing digests, whatever named the document names nothing now."""
    for type_, member in (
        (Session, {"objective": "x"}),
        (Evaluation, {"limitations": ()}),
        (Decision, {"reasons": ()}),
    ):
        report = replay(recorded, replace_body(history, type_, changed(**member)))
        if replace_body(history, type_, changed(**member)).entries != history.entries:
            assert report.first_divergence is not None
            assert report.first_divergence.name == "lineage"


def test_a_record_that_is_missing_is_missed(recorded: Recorded, history: RunHistory) -> None:
    """The close counts, so a record that is gone diverges; a run that was never closed is not shown as whole."""
    assert failing(replay(recorded, without(history, Graph)))[0] == "run"
    open_ended = replay(recorded, without(history, RunClose))
    assert (open_ended.outcome, statuses(open_ended)["run"]) == ("incomplete", "not-shown")
    assert failing(replay(recorded, without(history, RunOpen)))[0] == "run"
    lossy = replay(recorded, replace_body(history, RunClose, changed(failed_appends=1)))
    assert statuses(lossy)["run"] == "not-shown"


def test_what_is_not_here_is_not_shown(recorded: Recorded, history: RunHistory) -> None:
    """Without the repository, the store or a blob, what needs them is not shown, and nothing diverges."""
    for report in (
        replay(recorded, history, has_base=False),
        replay(recorded, history, store=None),
        replay(recorded, history, store=MemoryObjectStore()),
    ):
        assert report.outcome == "incomplete"
        missing = {n for n, status in statuses(report).items() if status != "pass"}
        assert missing - {"identities"} == {"candidate", "admission"}


def test_a_blob_that_was_replaced_diverges(recorded: Recorded, history: RunHistory, tmp_path: Path) -> None:
    """The store recomputes what it gives; damaged bytes are a difference, not a gap."""
    import shutil

    from savant.store.objects import FileObjectStore

    shutil.copytree(recorded.directory / "objects", tmp_path / "objects")
    content = history.need(Candidate).document.operations[0].after
    assert content is not None
    hex_ = content.content_digest.removeprefix("blake3:")
    blob = tmp_path / "objects" / hex_[:2] / hex_[2:]
    blob.chmod(0o600)
    blob.write_bytes(b"a = 9\n")
    with FileObjectStore(tmp_path / "objects") as store:
        report = replay(recorded, history, store=store)
    assert report.first_divergence is not None
    assert report.first_divergence.name == "candidate"


def test_a_run_without_a_session_shows_nothing(recorded: Recorded) -> None:
    """A run that only opened and closed is whole and has nothing else to show; two sessions are a contradiction."""
    history = recorded.history()
    ends = [entry for entry in history.entries if isinstance(entry.body.document, RunOpen)]
    report = replay(recorded, RunHistory(history.run_id, ends))
    assert report.outcome == "incomplete"
    twice = RunHistory(history.run_id, [*history.entries])
    session = next(i for i, e in enumerate(twice.entries) if isinstance(e.body.document, Session))
    other = replace_body(history, Session, changed(objective="Another"))
    twice.entries.insert(session, other.entries[session])
    assert "state" in failing(replay(recorded, twice))


def test_the_lineage_table_names_members_that_hold_digests() -> None:
    """Every member in the tables exists in its document and in the other one it must agree with."""
    for type_, members in BINDINGS.items():
        for member in members:
            assert member in type_.__struct_fields__
            assert member.endswith(("_digest", "_receipts"))
    for type_, agreements in AGREEMENTS.items():
        for agreement in agreements:
            assert agreement.by in BINDINGS[type_]
            for own, theirs in agreement.members.items():
                assert own in type_.__struct_fields__
                assert theirs in agreement.target.__struct_fields__


def test_an_evaluation_of_a_candidate_that_its_attempt_did_not_make_is_broken(history: RunHistory) -> None:
    """Attempt and candidate of one evaluation have the same three digests."""
    first, last = history.all(Candidate)
    assert first.digest != last.digest
    crossed = replace_body(history, Evaluation, changed(candidate_digest=first.digest))
    assert check_lineage(history) == []
    assert any("attempt did not make" in gap.detail for gap in check_lineage(crossed))


def test_unreadable_records_are_one_step() -> None:
    """A damaged record diverges, a missing body is not shown."""
    damaged = unreadable("a" * 32, INTACT, VerificationError("unverified.digest", "no"))
    missing = unreadable("a" * 32, INTACT, Unverifiable("unverifiable.body-missing", "gone"))
    assert (damaged.outcome, missing.outcome) == ("diverged", "incomplete")
    assert [step.name for step in damaged.steps] == ["ledger", "records"]


def test_the_worst_run_decides() -> None:
    """One divergence diverges all; nothing to replay shows nothing."""
    reports = {
        status: ReplayReport("a" * 32, (ReplayStep("run", status, ""),)) for status in ("pass", "fail", "not-shown")
    }
    assert worst([]) == "incomplete"
    assert worst([reports["pass"]]) == "replayed"
    assert worst([reports["pass"], reports["not-shown"]]) == "incomplete"
    assert worst([reports["not-shown"], reports["fail"], reports["pass"]]) == "diverged"


def test_the_built_in_rules_of_another_version_are_not_shown(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the base has no rules, a built-in policy that this version does not have cannot be derived again."""
    root = tmp_path_factory.mktemp("starter")
    monkeypatch.setenv("SAVANT_HOME", str(root / "home"))
    recorded = record_run(root, {"a.py": b"a = 1\n"})
    history = recorded.history()
    assert statuses(replay(recorded, history))["identities"] == "pass"
    other = replay(recorded, forge(history, AdmissionPolicy, changed(no_required_check="allow")))
    assert statuses(other)["identities"] == "not-shown"


def test_what_the_run_did_not_record_is_not_shown(recorded: Recorded, history: RunHistory) -> None:
    """A review by others, a receipt that is not there, an evaluation without one: a gap, not a divergence, there."""
    reviewed = forge(history, PlanReview, changed(reviewers=("somebody",)))
    assert statuses(replay(recorded, reviewed))["plan-review"] == "not-shown"
    for type_, step in (
        (SynthesisReceipt, "state"),
        (RunReceipt, "receipt"),
        (EvaluationReceipt, "evaluation"),
        (Closure, "interpretation"),
    ):
        assert statuses(replay(recorded, without(history, type_)))[step] == "not-shown"


STEP = b"""
[[prepare]]
id = "deps"
command = "mkdir deps"
locks = ["b.py"]
outputs = ["deps"]
"""


def test_what_was_prepared_is_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digests of steps and files follow from policy and trees; another one, or none, is a divergence."""
    monkeypatch.setenv("SAVANT_HOME", str(tmp_path / "home"))
    recorded = record_run(tmp_path, {**FILES, ".savant/config.toml": CONFIG + STEP}, (*RUN, "--allow-unsandboxed"))
    history = recorded.history()
    given = [sealed.document for sealed in history.all(EvaluatorInput)]
    assert len({one.prepared_digest for one in given}) == 2
    assert set(statuses(replay(recorded, history)).values()) == {"pass"}
    nth = max(n for n, one in enumerate(given) if one.prepared_digest is not None)
    for other in (named("folders"), None):
        forged = forge(history, EvaluatorInput, changed(prepared_digest=other), nth=nth)
        assert failing(replay(recorded, forged))[0] == "evaluation"
