"""``gate``: whether an admitted and verified candidate explains a commit, a range, or what an event names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from savant.cli.cmd_ledger import ledger_option
from savant.cli.exits import EXITS
from savant.cli.options import repository_option
from savant.cli.render import Output, short
from savant.contracts.errors import UsageError

if TYPE_CHECKING:
    from admission.documents import Policy
    from driver.gate import GateReport
    from savant.cli.gate_output import Line
    from savant.cli.gate_subjects import Subject
    from savant.cli.gating import Gate, Judged
    from savant.contracts.document import Sealed
    from savant.contracts.signing import Signer

WORDS: Final = {
    "governed": "GOVERNED",
    "not-governed": "NOT GOVERNED",
    "cannot-tell": "CANNOT TELL",
}
MOVED: Final = "The checks ran on the base that the candidate was made from, not on this one."
HERE: Final = "Nothing says how the commit was made: checks and rules were applied to it here."
MODES: Final = ("report", "declared", "all")
"""From the one that stops least."""


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
        endings = {_ending(item.report) for item in self.judged if self.is_stopped(item)}
        return next((name for name in ("unverified", "not-governed", "undecided") if name in endings), "ok")


@click.command("gate", help="Say whether admitted and verified candidates explain a commit, a range or a pull request.")
@click.argument("commit", metavar="[COMMIT|A..B]", default="HEAD")
@click.option("--base", "base", metavar="REV", help="What the commit changes (default: its first parent).")
@click.option("--tree", is_flag=True, help="COMMIT names a tree that nobody committed yet; --base is HEAD then.")
@click.option("--event", type=click.Path(), metavar="FILE", help="A forge's event: pull_request, merge_group, push.")
@click.option("--mode", type=click.Choice(MODES), help="Stop more than the policy of the target does.")
@click.option("--judge", is_flag=True, help="Judge here what nothing explains; recorded in this clone's ledger.")
@click.option(
    "--evaluate/--no-evaluate",
    default=None,
    help="Run the checks of governed commits again here (default: in CI, if the policy says so).",
)
@click.option("--check", multiple=True, metavar="CMD", help="A check beside those of the base, where something is run.")
@click.option("--seen", type=click.Path(), metavar="FILE", help="The ledger as it was seen last: it may only grow.")
@click.option("--summary", type=click.Path(), metavar="FILE", help="Append a summary in Markdown to this file.")
@click.option("--vsa", type=click.Path(), metavar="FILE", help="Write the answer as a signed verification summary.")
@click.option("--vsa-key", type=click.Path(), metavar="KEY", help="The key that signs it: an OpenSSH ed25519 file.")
@click.option("--vsa-resource", metavar="URI", help="The repository as those who check the summary name it.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "sarif", "junit", "github"]),
    default="text",
    help="How to print the result; github: annotations.",
)
@repository_option
@ledger_option
def gate(**flags: Any) -> int:
    """Print the answer: exit 0 nothing is stopped, 25 not governed, 12 cannot tell, 23 a check of the record failed."""
    from savant.cli.places import find_places
    from savant.repository.git import Repository

    output = Output(as_json=flags["format_"] != "text")
    signer = _signer(flags)
    folder = None if flags["directory"] is None else Path(flags["directory"]).absolute()
    places = find_places()
    with Repository.discover(Path(flags["repo"]).absolute()) as repository:
        from savant.cli.gate_subjects import subject_of, tree_subject
        from savant.cli.gating import Gate

        if flags["tree"]:
            verify_tree_flags(flags)
            subject = tree_subject(repository, flags["commit"], flags["base"])
        else:
            subject = subject_of(repository, flags["commit"], flags["base"], flags["event"])
        with Gate(places, repository, folder, output.progress) as asked:
            told = _told(asked, subject, flags, output, is_ci=places.is_ci)
    if signer is not None:
        _summarise(told, flags, signer)
    return _show(output, told, flags)


def verify_tree_flags(flags: dict[str, Any]) -> None:
    """Return if a tree can be asked about so.

    :raises UsageError: ``usage.gate``.
    """
    if flags["event"] is not None or flags["judge"] or flags["evaluate"]:
        raise UsageError(
            "usage.gate",
            "A tree is compared with the ledger only: --event, --judge and --evaluate need a commit.",
            fix="Commit it, then ask about the commit.",
        )


def _signer(flags: dict[str, Any]) -> Signer | None:
    """The key of the summary, before anything else is done; None where no summary is asked for."""
    from savant.cli.vsa import verify_flags

    verify_flags(flags["vsa"], flags["vsa_key"], flags["vsa_resource"])
    if flags["vsa"] is None:
        return None
    from savant.identity.keys import load_private_key

    return load_private_key(Path(flags["vsa_key"]).absolute())


def _summarise(told: Told, flags: dict[str, Any], signer: Signer) -> None:
    from savant.cli.app import VERSION
    from savant.cli.vsa import Answers, write_vsa

    answers = Answers(told.subject.name, told.subject.head, told.shown, told.rules)
    write_vsa(Path(flags["vsa"]), answers, flags["vsa_resource"], VERSION, signer)


def _told(asked: Gate, subject: Subject, flags: dict[str, Any], output: Output, *, is_ci: bool) -> Told:
    from driver.gate import cannot_tell
    from savant.cli.gating import checked_again, judged_here, shaped
    from savant.cli.judging import Judging
    from savant.cli.seen import check_seen, write_seen
    from savant.contracts.errors import PortError, RefusedInput

    seen = None if flags["seen"] is None else Path(flags["seen"])
    if seen is not None and asked.reading is not None and asked.verified is not None:
        stopped = check_seen(seen, asked.reading, asked.verified)
        if stopped is not None:
            asked.stop(stopped)
        elif asked.verified.outcome == "verified":
            write_seen(seen, asked.verified)
    policy: Sealed[Policy] | None = None
    unread: str | None = None
    if subject.target is not None:
        try:
            policy = asked.rules(subject.target)
        except (PortError, RefusedInput) as error:
            unread = str(error)
            asked.stop(cannot_tell("gate.unreadable", unread))
    judge = Judging(flags["repo"], output, tuple(word for check in flags["check"] for word in ("--check", check)))

    def answered(judged: Judged) -> Judged:
        rules = policy or (None if judged.question is None else judged.question.policy)
        judged = _custody(judged, rules)
        if flags["judge"] and unread is None:
            judged = judged_here(judged, judge)
        if _evaluates(flags["evaluate"], rules, is_ci=is_ci) and judged.report.match is not None:
            judged = checked_again(judged, judge)
        return shaped(judged, subject)

    found = [answered(asked.judge(step, policy)) for step in subject.steps]
    is_left = any(item.report.answer != "governed" for item in found)
    whole = asked.whole(subject, policy) if is_left else None
    whole = None if whole is None else answered(whole)
    questions = [item.question for item in (*found, *([whole] if whole else ())) if item.question is not None]
    rules = policy or next((question.policy for question in questions), None)
    strictest = max(_mode(rules, found, unread), flags["mode"] or MODES[0], key=MODES.index)
    digests = {question.policy.digest for question in questions}
    return Told(subject, strictest, tuple(found), whole, tuple(sorted(digests)))


def _mode(rules: Sealed[Policy] | None, found: Sequence[Judged], unread: str | None) -> str:
    """What is stopped: as the rules say. Rules that are there and cannot be read may have said to stop everything."""
    if rules is not None and unread is None:
        return rules.document.gate.mode
    is_unread = any(reason.code == "gate.unreadable" for item in found for reason in item.report.reasons)
    return "all" if is_unread or unread is not None else "report"


def _evaluates(asked: bool | None, rules: Sealed[Policy] | None, *, is_ci: bool) -> bool:
    """Whether checks are run again: as it was said, else in CI where the policy says so."""
    if asked is not None:
        return asked
    return is_ci and rules is not None and rules.document.gate.evaluate


def _custody(judged: Judged, rules: Sealed[Policy] | None) -> Judged:
    """The answer where the rules demand that evidence is held by more than the person who made it."""
    from driver.gate import GateReason, GateReport

    demanded = "A" if rules is None else rules.document.gate.custody
    if judged.report.answer != "governed" or demanded == "A":
        return judged
    detail = f"custody {demanded} is demanded; this ledger is held where it was made, which is A"
    return msgspec.structs.replace(judged, report=GateReport("not-governed", (GateReason("gate.custody", detail),)))


def _show(output: Output, told: Told, flags: dict[str, Any]) -> int:
    from savant.cli.gate_output import FORMS, summary
    from savant.cli.render import safe
    from savant.files.atomic import read_optional, write_atomic

    code = EXITS[told.ending].code
    lines = [_line(told, item) for item in told.shown]
    if flags["summary"] is not None:
        path = Path(flags["summary"])
        before = read_optional(path, max_bytes=64 * 1024 * 1024) or b""
        write_atomic(path, before + summary(lines, _verdict(told)).encode("utf-8"), mode=0o644)
    if flags["format_"] in FORMS:
        from savant.cli.app import VERSION

        output.raw(FORMS[flags["format_"]](lines, VERSION).encode("utf-8"))
    elif flags["format_"] == "json":
        output.document("gate", told.ending, code, _members(told))
    else:
        for item in told.shown:
            _say(output, item)
        output.say(safe(_verdict(told)))
    return code


def _verdict(told: Told) -> str:
    stopped = sum(told.is_stopped(item) for item in told.judged)
    governed = sum(item.report.answer == "governed" for item in told.judged)
    if told.is_explained_as_one:
        return f"{len(told.judged)} commits, one governed change; mode {told.mode}: nothing is stopped"
    words = f"{governed} of {len(told.judged)} governed; mode {told.mode}"
    if told.mode == "report" and governed < len(told.judged):
        return f"{words}: reported, nothing is stopped"
    return f"{words}: {stopped} stopped" if stopped else f"{words}: nothing is stopped"


def _line(told: Told, item: Judged) -> Line:
    from driver.gate import REASONS
    from savant.cli.gate_output import Line

    reasons = tuple((reason.code, REASONS[reason.code], reason.detail) for reason in item.report.reasons)
    return Line(item.step.commit, item.step.base or "", item.report.answer, told.is_stopped(item), reasons)


def _ending(report: GateReport) -> str:
    if report.is_failed_check:
        return "unverified"
    return {"governed": "ok", "not-governed": "not-governed", "cannot-tell": "undecided"}[report.answer]


def _members(told: Told) -> dict[str, Any]:
    shown: Sequence[Judged] = told.shown
    commits = [{**_commit(item), "stopped": told.is_stopped(item)} for item in shown]
    return {
        **(commits[0] if len(commits) == 1 else {}),
        "subject": told.subject.name,
        "mode": told.mode,
        "stopped": any(told.is_stopped(item) for item in told.judged),
        "commits": commits,
    }


def _commit(item: Judged) -> dict[str, Any]:
    report, question = item.report, item.question
    match = report.match
    return {
        "answer": report.answer,
        "commit": item.step.commit,
        "base_commit": item.step.base,
        "declared": item.is_declared,
        "parents": item.has_parents,
        "policy": None if question is None else question.policy.digest,
        "policy_origin": None if question is None else question.policy.document.origin,
        "how": None if match is None else match.how,
        "run": None if match is None else match.history.run_id,
        "candidate": None if match is None else match.candidate.digest,
        "decision": None if report.decision is None else report.decision.digest,
        "reasons": [{"code": reason.code, "detail": reason.detail} for reason in report.reasons],
        "limitations": _limitations(item),
    }


def _limitations(item: Judged) -> list[str]:
    if item.report.match is not None:
        return [MOVED] if item.report.match.how == "change" else []
    return [HERE] if item.report.answer == "governed" else []


def _say(output: Output, item: Judged) -> None:
    from driver.gate import REASONS

    report, base = item.report, item.step.base
    output.say(f"{WORDS[report.answer]}: {short(item.step.commit)} on {short(base) if base else 'nothing'}")
    for reason in report.reasons:
        output.say(f"  {REASONS[reason.code]} [{reason.code}]", f"    {reason.detail}")
    for limitation in _limitations(item):
        output.say(f"  {limitation}")
    if report.match is not None:
        output.say(f"  next: savant show {report.match.history.run_id[:12]}")
    if item.question is not None:
        policy = item.question.policy
        output.say(f"  rules: {policy.document.origin} policy {short(policy.digest)}")
