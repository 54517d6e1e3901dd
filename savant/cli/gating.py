"""Asking the gate about commits: the ledger is opened and verified once, then commit after commit is judged."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec
from msgspec.structs import replace

from driver.gate import GateReason, GateReport, Question, cannot_tell, check_ledger, decide_gate
from driver.gate_inputs import ask, judge_again, runs_about
from driver.history import read_runs
from driver.prepare import read_rules
from runner.documents import Snapshot
from runner.snapshot import BaseSnapshot, base_limitations
from savant.cli.gate_subjects import Step, Subject
from savant.cli.options import today
from savant.contracts.document import seal
from savant.contracts.errors import PortError, RefusedInput, Unverifiable
from savant.repository.build import build_manifest
from savant.repository.message import message_of, trailers

if TYPE_CHECKING:
    from admission.documents import Policy
    from savant.cli.places import Places
    from savant.cli.reading import Reading
    from savant.contracts.document import Sealed
    from savant.ledger.verify import VerificationReport
    from savant.repository.git import Repository

RUN_TRAILER: Final = "savant-run"
"""The trailer of a commit that says that it is governed: the run's id."""

Judge = Callable[[str, str], GateReport]
"""A commit judged here on a base, by checks and rules, whoever made it."""


class Judged(msgspec.Struct, frozen=True):
    """One commit and its answer. ``is_declared``: the commit says that it is governed."""

    step: Step
    report: GateReport
    question: Question | None
    is_declared: bool
    trailers: tuple[tuple[str, str], ...] = ()
    has_parents: int = 1


class Gate:
    """The gate of one repository. A context manager."""

    def __init__(self, places: Places, repository: Repository, folder: Path | None, say: Callable[[str], None]) -> None:
        self._places, self._repository, self._folder, self._say = places, repository, folder, say
        self._stack = ExitStack()
        self._reading: Reading | None = None
        self._verified: VerificationReport | None = None
        self._stopped: GateReport | None = None

    def __enter__(self) -> Self:
        """The gate, with its ledger open if there is one."""
        from savant.cli.reading import read_repository_ledger

        try:
            self._reading = self._stack.enter_context(
                read_repository_ledger(self._places, self._repository.common_dir, directory=self._folder)
            )
            self._say("verifying the ledger")
            self._verified = self._reading.verify()
            self._stopped = check_ledger(self._verified)
        except (PortError, RefusedInput, Unverifiable) as error:
            code = "gate.no-ledger" if error.code == "unverifiable.no-ledger" else "gate.unreadable"
            self._stopped = cannot_tell(code, str(error))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the ledger."""
        self._stack.close()

    @property
    def reading(self) -> Reading | None:
        """The ledger; None where there is none."""
        return self._reading

    @property
    def verified(self) -> VerificationReport | None:
        """What its verification came to."""
        return self._verified

    def stop(self, report: GateReport) -> None:
        """Answer every question from here on with this."""
        self._stopped = report

    def rules(self, commit: str) -> Sealed[Policy]:
        """The admission policy in force at a commit.

        :raises RefusedInput: as :func:`driver.prepare.read_rules`.
        """
        return read_rules(self._take(commit)).admission

    def whole(self, subject: Subject, policy: Sealed[Policy] | None) -> Judged | None:
        """All commits of a subject as one change; None where that is not asked."""
        return None if subject.whole is None else self.judge(subject.whole, policy)

    def judge(self, step: Step, policy: Sealed[Policy] | None) -> Judged:
        """The answer about one commit.

        :param policy: the rules of the branch that it goes to; None for those of its own base.
        """
        if step.is_tree:
            return Judged(step, *self._answer(step, policy), is_declared=False, has_parents=0)
        found = self._repository.find(self._repository.hex_id(step.commit))
        said = () if found is None else trailers(message_of(found.data))
        declared = any(key == RUN_TRAILER for key, _ in said)
        parents = len(self._repository.parents(step.commit))
        report, question = self._answer(step, policy)
        return Judged(step, report, question, declared, said, parents)

    def _answer(self, step: Step, policy: Sealed[Policy] | None) -> tuple[GateReport, Question | None]:
        if step.base is None:
            return GateReport("not-governed", (GateReason("gate.no-base", step.commit),)), None
        try:
            before = self._take(step.base)
            after = tree_snapshot(self._repository, step.commit) if step.is_tree else self._take(step.commit)
            question = ask(before, after, policy)
        except (PortError, RefusedInput) as error:
            return cannot_tell("gate.unreadable", str(error)), None
        if self._stopped is not None or self._reading is None:
            return self._stopped or cannot_tell("gate.no-ledger", ""), question
        try:
            return self._decide(question, before, after, self._reading), question
        except (PortError, RefusedInput, Unverifiable) as error:
            return cannot_tell("gate.unreadable", str(error)), question

    def _decide(self, question: Question, before: BaseSnapshot, after: BaseSnapshot, reading: Reading) -> GateReport:
        from savant.cli.replaying import replayer

        runs = [
            history
            for run_id in runs_about(question, reading.lines(), reading.registry, reading.bodies)
            for history in read_runs(reading.lines(), reading.registry, reading.bodies, only=run_id)
        ]
        return decide_gate(
            question,
            runs,
            rejudge=lambda match, decision: judge_again(question, before, after, match, decision, as_of=today()),
            replay=replayer(self._repository, reading, self._verified),
        )

    def _take(self, commit: str) -> BaseSnapshot:
        return BaseSnapshot.take(self._repository, commit, cache=None)


def tree_snapshot(repository: Repository, tree: str) -> BaseSnapshot:
    """A tree that belongs to no commit, to be read as one; its id stands for the commit's.

    Errors as :meth:`runner.snapshot.BaseSnapshot.take`.
    """
    manifest = build_manifest(repository, tree, None)
    document = Snapshot(
        base_commit=tree,
        base_tree=tree,
        base_manifest_digest=manifest.digest,
        limitations=base_limitations(manifest),
    )
    return BaseSnapshot(repository, seal(document), manifest)


def shaped(judged: Judged, subject: Subject) -> Judged:
    """The answer with what is to be known of how the commit came to be where it stands."""
    codes = (
        ("gate.merge-commit", judged.has_parents > 1, f"{judged.has_parents} parents"),
        ("gate.merge-group", subject.name == "merge group", f"on {judged.step.base}"),
        ("gate.as-one", judged.step == subject.whole, f"{len(subject.steps)} commits"),
    )
    more = tuple(GateReason(code, detail) for code, holds, detail in codes if holds)
    return replace(judged, report=replace(judged.report, reasons=(*judged.report.reasons, *more))) if more else judged


def judged_here(judged: Judged, judge: Judge) -> Judged:
    """The answer about a commit that nothing explains, judged here; a check of the record that failed stays that."""
    if judged.step.base is None or judged.report.answer == "governed" or judged.report.is_failed_check:
        return judged
    return replace(judged, report=judge(judged.step.commit, judged.step.base))


def checked_again(judged: Judged, judge: Judge) -> Judged:
    """The answer about a governed commit after its checks were run again here."""
    report, base = judged.report, judged.step.base
    if base is None or report.answer != "governed":
        return judged
    again = judge(judged.step.commit, base)
    codes: dict[str, Any] = {reason.code: reason for reason in again.reasons}
    if "gate.judged" in codes or "gate.judged-waiting" in codes:
        return judged
    if again.answer == "cannot-tell":
        return replace(judged, report=again)
    detail = next(iter(again.reasons)).detail
    return replace(judged, report=GateReport("not-governed", (GateReason("gate.evaluation-failed", detail),)))
