"""Asking the gate about commits: the ledger is opened and verified once, then commit after commit is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec
from msgspec.structs import replace

from driver.gate import GateReason, GateReport, Question, Replay, cannot_tell, check_ledger, decide_gate
from driver.gate_inputs import ask, judge_again, runs_about
from driver.history import read_runs
from driver.prepare import ledgers_at, read_rules
from runner.documents import Snapshot
from runner.snapshot import BaseSnapshot, base_limitations
from savant.cli.gate_subjects import Step, Subject
from savant.cli.options import today
from savant.contracts.document import seal
from savant.contracts.errors import PortError, RefusedInput, Unverifiable
from savant.ledger.verify import Pin
from savant.repository.build import build_manifest
from savant.repository.message import message_of, trailers

if TYPE_CHECKING:
    from admission.documents import CustodyLevel, Policy
    from savant.cli.places import Places
    from savant.cli.reading import Reading
    from savant.contracts.document import Sealed
    from savant.identity.ledgers import AcceptedLedger
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
    parents: int = 1
    custody: CustodyLevel = "A"
    """How the evidence of the answer is held."""


class Source(msgspec.Struct, frozen=True):
    """Evidence that was opened and verified once; or why every question to it has the same answer."""

    reading: Reading | None
    verified: VerificationReport | None
    stopped: GateReport | None
    custody: CustodyLevel = "A"


class Gate:
    """The gate of one repository. A context manager.

    :param folder: a copy of the ledger; None for the repository's own.
    :param evidence: bundles to read instead of a ledger.
    :param at: the commit whose ``.savant/ledgers.toml`` says whose evidence counts; None where none is asked about.
    """

    def __init__(
        self,
        places: Places,
        repository: Repository,
        folder: Path | None,
        say: Callable[[str], None],
        *,
        evidence: Sequence[Path] = (),
        at: str | None = None,
    ) -> None:
        self._places, self._repository, self._folder, self._say = places, repository, folder, say
        self._evidence, self._at = tuple(evidence), at
        self._stack = ExitStack()
        self._sources: tuple[Source, ...] = ()

    def __enter__(self) -> Self:
        """The gate, with its ledger or the evidence open, as far as there is any."""
        from savant.cli.reading import pin_of_ledger, read_evidence, read_repository_ledger

        if not self._evidence:
            own = read_repository_ledger(self._places, self._repository.common_dir, directory=self._folder)
            self._sources = (self._open(own, {}),)
            return self
        try:
            accepted = {ledger.id: ledger for ledger in self._accepted()}
        except (PortError, RefusedInput) as error:
            self._sources = (Source(None, None, cannot_tell("gate.unreadable", str(error))),)
            return self

        def pin(ledger: str) -> Pin | None:
            listed = accepted.get(ledger)
            return pin_of_ledger(self._places, ledger) if listed is None else Pin(ledger=ledger, root_keyid=listed.root)

        self._sources = tuple(
            self._open(read_evidence(self._places, path.absolute(), pin), accepted) for path in self._evidence
        )
        return self

    def _accepted(self) -> tuple[AcceptedLedger, ...]:
        return () if self._at is None else ledgers_at(self._take(self._at))

    def _open(self, opening: AbstractContextManager[Reading], accepted: Mapping[str, AcceptedLedger]) -> Source:
        try:
            reading = self._stack.enter_context(opening)
            self._say("verifying the ledger")
            verified = reading.verify()
        except (PortError, RefusedInput, Unverifiable) as error:
            code = "gate.no-ledger" if error.code == "unverifiable.no-ledger" else "gate.unreadable"
            return Source(None, None, cannot_tell(code, str(error)))
        listed = accepted.get(verified.ledger or "")
        is_of_ci = listed is not None and listed.held == "ci"
        return Source(reading, verified, check_ledger(verified), "B" if is_of_ci else "A")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the ledger."""
        self._stack.close()

    @property
    def sources(self) -> tuple[Source, ...]:
        """What was opened: the ledger, or one for each bundle."""
        return self._sources

    def stop(self, report: GateReport) -> None:
        """Answer every question from here on with this."""
        self._sources = tuple(replace(source, stopped=report) for source in self._sources)

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
        report, question, custody = self._answer(step, policy)
        if step.is_tree:
            return Judged(step, report, question, is_declared=False, parents=0, custody=custody)
        found = self._repository.find(self._repository.hex_id(step.commit))
        said = () if found is None else trailers(message_of(found.data))
        declared = any(key == RUN_TRAILER for key, _ in said)
        parents = len(self._repository.parents(step.commit))
        return Judged(step, report, question, declared, said, parents, custody)

    def _answer(self, step: Step, policy: Sealed[Policy] | None) -> tuple[GateReport, Question | None, CustodyLevel]:
        if step.base is None:
            return GateReport("not-governed", (GateReason("gate.no-base", step.commit),)), None, "A"
        try:
            before = self._take(step.base)
            after = tree_snapshot(self._repository, step.commit) if step.is_tree else self._take(step.commit)
            question = ask(before, after, policy)
        except (PortError, RefusedInput) as error:
            return cannot_tell("gate.unreadable", str(error)), None, "A"
        answers: list[tuple[GateReport, CustodyLevel]] = [
            (self._decide(question, before, after, source), source.custody) for source in self._sources
        ]
        report, custody = min(answers, key=lambda answer: _farness(answer[0]))
        return report, question, custody

    def _decide(self, question: Question, before: BaseSnapshot, after: BaseSnapshot, source: Source) -> GateReport:
        from savant.cli.replaying import replayer

        reading = source.reading
        if source.stopped is not None or reading is None:
            return source.stopped or cannot_tell("gate.no-ledger", "")
        try:
            return self._decided(question, before, after, reading, replayer(self._repository, reading, source.verified))
        except (PortError, RefusedInput, Unverifiable) as error:
            return cannot_tell("gate.unreadable", str(error))

    def _decided(
        self, question: Question, before: BaseSnapshot, after: BaseSnapshot, reading: Reading, replay: Replay
    ) -> GateReport:
        runs = [
            history
            for run_id in runs_about(question, reading.lines(), reading.registry, reading.bodies)
            for history in read_runs(reading.lines(), reading.registry, reading.bodies, only=run_id)
        ]
        return decide_gate(
            question,
            runs,
            rejudge=lambda match, decision: judge_again(question, before, after, match, decision, as_of=today()),
            replay=replay,
        )

    def _take(self, commit: str) -> BaseSnapshot:
        return BaseSnapshot.take(self._repository, commit, cache=None)


def _farness(report: GateReport) -> tuple[bool, bool, bool]:
    """How far an answer is from being the one to give, where several were opened: governed, then what failed."""
    codes = {reason.code for reason in report.reasons}
    return report.answer != "governed", not report.is_failed_check, codes <= {"gate.no-candidate"}


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
        ("gate.merge-commit", judged.parents > 1, f"{judged.parents} parents"),
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
