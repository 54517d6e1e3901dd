"""What the gate answers about a subject, and what of it the mode stops: the rules of the target over the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from driver.gate import GateReason, GateReport, cannot_tell
from savant.cli.gate_subjects import Subject
from savant.cli.gating import Gate, Judged, checked_again, judged_here, shaped
from savant.cli.options import GATE_MODES
from savant.cli.render import Output
from savant.contracts.errors import PortError, RefusedInput, UsageError

if TYPE_CHECKING:
    from admission.documents import CustodyLevel, Policy
    from savant.contracts.document import Sealed

CUSTODY: Final[Mapping[CustodyLevel, str]] = MappingProxyType(
    {
        "A": "every key is where the change was made",
        "B": "evaluators and admission signed in CI",
        "C": "signed in CI, and the ledger has only grown since it was seen before",
    }
)
"""How evidence is held, from the weakest."""


NEXT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gate.no-base": "savant gate COMMIT --base REV",
        "gate.nothing-changed": "nothing: the commit can be left out",
        "gate.no-candidate": "savant gate COMMIT --judge   (or --evidence BUNDLE, if it was recorded elsewhere)",
        "gate.differs": "savant gate COMMIT --judge   (or make the commit from the target as savant apply left it)",
        "gate.other-base": "savant gate COMMIT --base REV   with the base that the candidate was made from",
        "gate.not-admitted": "savant admit RUN --explain",
        "gate.not-verified": "savant apply RUN --new TARGET, then commit there   (changed since: savant verify)",
        "gate.starter-policy": "savant init, then commit .savant/ on the branch that the change goes to",
        "gate.refused-here": "savant policy show --base REV   for the rules there; then make the change anew on it",
        "gate.replay-diverged": "savant replay RUN   names the first step that differs",
        "gate.replay-incomplete": "savant replay RUN   says what is not there",
        "gate.evaluation-failed": "savant show   for the checks as they ran here",
        "gate.custody": "let CI run the checks again (--evaluate), or give evidence of a ledger that CI holds",
        "gate.older-ledger": "find out who replaced the ledger; remove the --seen file only if you know why",
        "gate.judged-waiting": "savant admit RUN --explain, then savant acknowledge CONDITION RUN",
        "gate.judged-refused": "savant show RUN",
        "gate.not-judged": "savant doctor",
        "gate.no-ledger": "savant gate COMMIT --evidence BUNDLE   (or --judge)",
        "gate.not-authenticated": "list the ledger in .savant/ledgers.toml of the target, or ask where it was made",
        "gate.ledger-incomplete": "savant ledger verify   says what is missing",
        "gate.ledger-failed": "savant ledger verify   names the record",
        "gate.unreadable": "mend what the sentence names; in a shallow clone: git fetch --unshallow",
    }
)
"""What a person does next about each reason that is none for being governed."""


class Told(msgspec.Struct, frozen=True):
    """The answers about a subject.

    :param mode: what is stopped.
    :param whole: all commits as one change, asked where one of them is not governed.
    :param rules: digests of the policies that decided, in order, each once.
    """

    subject: Subject
    mode: str
    judged: tuple[Judged, ...]
    whole: Judged | None
    rules: tuple[str, ...]

    @property
    def is_explained_as_one(self) -> bool:
        """Whether all commits together are one admitted change."""
        return self.whole is not None and self.whole.report.answer == "governed"

    def is_stopped(self, judged: Judged) -> bool:
        """Whether the mode stops a commit."""
        if judged.report.answer == "governed" or self.is_explained_as_one or self.mode == "report":
            return False
        return self.mode == "all" or judged.is_declared

    @property
    def shown(self) -> tuple[Judged, ...]:
        """What is shown: the commits, or the one change that explains them."""
        return (self.whole,) if self.whole is not None and self.is_explained_as_one else self.judged

    @property
    def ending(self) -> str:
        """The worst ending of what is stopped; ``ok`` if nothing is."""
        endings = {ending_of(item.report) for item in self.judged if self.is_stopped(item)}
        return next((name for name in ("unverified", "not-governed", "undecided") if name in endings), "ok")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """How the gate is asked.

    :param repo: where the repository is. :param checks: beside those of the base, where something is run.
    :param judge: whether what nothing explains is judged here. :param evaluate: None leaves it to rules and CI.
    :param seen: the ledger as it was seen last. :param is_ci: whether a pipeline asks.
    """

    repo: str
    mode: str | None = None
    judge: bool = False
    evaluate: bool | None = None
    checks: tuple[str, ...] = ()
    seen: Path | None = None
    is_ci: bool = False

    def evaluates(self, rules: Sealed[Policy] | None) -> bool:
        """Whether checks are run again: as it was said, else in CI where the policy says so."""
        if self.evaluate is not None:
            return self.evaluate
        return self.is_ci and rules is not None and rules.document.gate.evaluate


def told_of(gate: Gate, subject: Subject, asked: Asked, output: Output) -> Told:
    """The answers about a subject."""
    from savant.cli.judging import Judging

    is_pinned = asked.seen is not None and _was_seen(gate, asked.seen)
    policy: Sealed[Policy] | None = None
    unread: str | None = None
    if subject.target is not None:
        try:
            policy = gate.rules(subject.target)
        except (PortError, RefusedInput) as error:
            unread = str(error)
            gate.stop(cannot_tell("gate.unreadable", unread))
    judge = Judging(asked.repo, output, tuple(word for check in asked.checks for word in ("--check", check)))

    def answered(judged: Judged) -> Judged:
        rules = policy or (None if judged.question is None else judged.question.policy)
        if asked.evaluates(rules) and judged.report.match is not None:
            judged = checked_again(judged, judge)
            judged = replace(judged, custody="B") if asked.is_ci and judged.report.answer == "governed" else judged
        judged = _custody(judged, rules, is_pinned=is_pinned)
        if asked.judge and unread is None and judged.report.answer != "governed":
            judged = replace(judged_here(judged, judge), custody="B" if asked.is_ci else "A")
            judged = _custody(judged, rules, is_pinned=is_pinned)
        return shaped(judged, subject)

    found = [answered(gate.judge(step, policy)) for step in subject.steps]
    is_left = any(item.report.answer != "governed" for item in found)
    whole = gate.whole(subject, policy) if is_left else None
    whole = None if whole is None else answered(whole)
    questions = [item.question for item in (*found, *([whole] if whole else ())) if item.question is not None]
    rules = policy or next((question.policy for question in questions), None)
    strictest = max(_mode(rules, found, unread), asked.mode or GATE_MODES[0], key=GATE_MODES.index)
    digests = {question.policy.digest for question in questions}
    return Told(subject, strictest, tuple(found), whole, tuple(sorted(digests)))


def _was_seen(gate: Gate, path: Path) -> bool:
    """Whether the ledger was seen before and has only grown; what is seen now is kept for the next time.

    :raises UsageError: ``usage.gate`` for several bundles.
    """
    from savant.cli.seen import check_seen, write_seen

    if len(gate.sources) != 1:
        raise UsageError(
            "usage.gate", "--seen is about one ledger.", untouched="Nothing was written.", fix="Give one --evidence."
        )
    source = gate.sources[0]
    if source.reading is None or source.verified is None:
        return False
    was_there = path.exists()
    stopped = check_seen(path, source.reading, source.verified)
    if stopped is not None:
        gate.stop(stopped)
        return False
    if source.verified.outcome == "verified":
        write_seen(path, source.verified)
    return was_there


def _mode(rules: Sealed[Policy] | None, found: Sequence[Judged], unread: str | None) -> str:
    """What is stopped: as the rules say. Rules that are there and cannot be read may have said to stop everything."""
    if rules is not None and unread is None:
        return rules.document.gate.mode
    is_unread = any(reason.code == "gate.unreadable" for item in found for reason in item.report.reasons)
    return "all" if is_unread or unread is not None else "report"


def _custody(judged: Judged, rules: Sealed[Policy] | None, *, is_pinned: bool) -> Judged:
    """The answer with how its evidence is held, and not governed where the rules demand more than that."""
    level: CustodyLevel = "C" if judged.custody == "B" and is_pinned else judged.custody
    judged = replace(judged, custody=level)
    demanded = "A" if rules is None else rules.document.gate.custody
    if judged.report.answer != "governed" or demanded <= level:
        return judged
    detail = f"custody {demanded} is demanded; this is {level}: {CUSTODY[level]}"
    return replace(judged, report=GateReport("not-governed", (GateReason("gate.custody", detail),)))


def ending_of(report: GateReport) -> str:
    """The command's ending for an answer that is stopped."""
    if report.is_failed_check:
        return "unverified"
    return {"governed": "ok", "not-governed": "not-governed", "cannot-tell": "undecided"}[report.answer]
