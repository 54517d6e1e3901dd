"""``gate``: whether an admitted and verified candidate explains a commit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from savant.cli.cmd_ledger import ledger_option
from savant.cli.exits import EXITS
from savant.cli.options import format_option, repository_option
from savant.cli.render import Output, short

if TYPE_CHECKING:
    from driver.gate import GateReport, Question
    from runner.snapshot import BaseSnapshot
    from savant.cli.places import Places
    from savant.cli.reading import Reading
    from savant.ledger.verify import VerificationReport
    from savant.repository.git import Repository

WORDS: Final = {
    "governed": "GOVERNED",
    "not-governed": "NOT GOVERNED",
    "cannot-tell": "CANNOT TELL",
}
MOVED: Final = "The checks ran on the base that the candidate was made from, not on this one."


@click.command("gate", help="Say whether an admitted and verified candidate explains a commit.")
@click.argument("commit", default="HEAD")
@click.option("--base", "base", metavar="REV", help="What the commit changes (default: its first parent).")
@repository_option
@ledger_option
@format_option
def gate(commit: str, base: str | None, repo: str, directory: str | None, format_: str) -> int:
    """Print the answer: exit 0 governed, 25 not governed, 12 cannot tell, 23 a check of the record failed."""
    from savant.cli.places import find_places
    from savant.repository.git import Repository

    output = Output(as_json=format_ == "json")
    with Repository.discover(Path(repo).absolute()) as repository:
        head_commit = repository.resolve_commit(commit)
        base_commit = _base_commit(repository, head_commit, base)
        folder = None if directory is None else Path(directory).absolute()
        report, question = _answer(find_places(), repository, folder, head_commit, base_commit, output)
    ending = _ending(report)
    code = EXITS[ending].code
    output.document("gate", ending, code, _members(report, head_commit, base_commit, question))
    if not output.as_json:
        _say(output, report, head_commit, base_commit, question)
    return code


def _base_commit(repository: Repository, head_commit: str, base: str | None) -> str | None:
    if base is not None:
        return repository.resolve_commit(base)
    parents = repository.parents(head_commit)
    return parents[0] if parents else None


def _answer(
    places: Places,
    repository: Repository,
    folder: Path | None,
    head_commit: str,
    base_commit: str | None,
    output: Output,
) -> tuple[GateReport, Question | None]:
    from driver.gate import GateReason, GateReport, cannot_tell, check_ledger
    from driver.gate_inputs import ask
    from runner.snapshot import BaseSnapshot
    from savant.cli.reading import read_repository_ledger
    from savant.contracts.errors import PortError, RefusedInput, Unverifiable

    if base_commit is None:
        return GateReport("not-governed", (GateReason("gate.no-base", head_commit),)), None
    try:
        before = BaseSnapshot.take(repository, base_commit, cache=None)
        after = BaseSnapshot.take(repository, head_commit, cache=None)
        question = ask(before, after)
    except (PortError, RefusedInput) as error:
        return cannot_tell("gate.unreadable", str(error)), None
    try:
        with read_repository_ledger(places, repository.common_dir, directory=folder) as reading:
            output.progress("verifying the ledger")
            verified = reading.verify()
            report = check_ledger(verified) or _decide(question, before, after, repository, reading, verified)
    except (PortError, RefusedInput, Unverifiable) as error:
        code = "gate.no-ledger" if error.code == "unverifiable.no-ledger" else "gate.unreadable"
        return cannot_tell(code, str(error)), question
    return report, question


def _decide(
    question: Question,
    before: BaseSnapshot,
    after: BaseSnapshot,
    repository: Repository,
    reading: Reading,
    verified: VerificationReport,
) -> GateReport:
    from driver.gate import decide_gate
    from driver.gate_inputs import judge_again, runs_about
    from driver.history import read_runs
    from savant.cli.replaying import replayer

    runs = [
        history
        for run_id in runs_about(question, reading.lines(), reading.registry, reading.bodies)
        for history in read_runs(reading.lines(), reading.registry, reading.bodies, only=run_id)
    ]
    return decide_gate(
        question,
        runs,
        rejudge=lambda match, decision: judge_again(question, before, after, match, decision),
        replay=replayer(repository, reading, verified),
    )


def _ending(report: GateReport) -> str:
    if report.is_failed_check:
        return "unverified"
    return {"governed": "ok", "not-governed": "not-governed", "cannot-tell": "undecided"}[report.answer]


def _members(report: GateReport, commit: str, base: str | None, question: Question | None) -> dict[str, Any]:
    match = report.match
    return {
        "answer": report.answer,
        "commit": commit,
        "base_commit": base,
        "policy": None if question is None else question.policy.digest,
        "policy_origin": None if question is None else question.policy.document.origin,
        "how": None if match is None else match.how,
        "run": None if match is None else match.history.run_id,
        "candidate": None if match is None else match.candidate.digest,
        "decision": None if report.decision is None else report.decision.digest,
        "reasons": [{"code": reason.code, "detail": reason.detail} for reason in report.reasons],
        "limitations": [MOVED] if match is not None and match.how == "change" else [],
    }


def _say(output: Output, report: GateReport, commit: str, base: str | None, question: Question | None) -> None:
    from driver.gate import REASONS

    output.say(f"{WORDS[report.answer]}: {short(commit)} on {short(base) if base else 'nothing'}")
    for reason in report.reasons:
        output.say(f"  {REASONS[reason.code]} [{reason.code}]", f"    {reason.detail}")
    if report.match is not None:
        if report.match.how == "change":
            output.say(f"  {MOVED}")
        output.say(f"  next: savant show {report.match.history.run_id[:12]}")
    if question is not None:
        output.say(f"  rules: {question.policy.document.origin} policy {short(question.policy.digest)} at the base")
