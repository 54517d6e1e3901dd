"""``gate``: whether an admitted and verified candidate explains a commit, a range, or what an event names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from savant.cli.cmd_ledger import ledger_option
from savant.cli.exits import EXITS
from savant.cli.options import GATE_MODES, evidence_option, repository_option
from savant.cli.render import Output, short
from savant.contracts.errors import UsageError

if TYPE_CHECKING:
    from savant.cli.gate_answers import Told
    from savant.cli.gate_output import Line
    from savant.cli.gating import Judged
    from savant.contracts.signing import Signer

WORDS: Final = {
    "governed": "GOVERNED",
    "not-governed": "NOT GOVERNED",
    "cannot-tell": "CANNOT TELL",
}
MOVED: Final = "The checks ran on the base that the candidate was made from, not on this one."
HERE: Final = "Nothing says how the commit was made: checks and rules were applied to it here."


@click.command("gate", help="Say whether admitted and verified candidates explain a commit, a range or a pull request.")
@click.argument("commit", metavar="[COMMIT|A..B]", default="HEAD")
@click.option("--base", "base", metavar="REV", help="What the commit changes (default: its first parent).")
@click.option("--tree", is_flag=True, help="COMMIT names a tree that nobody committed yet; --base is HEAD then.")
@click.option("--event", type=click.Path(), metavar="FILE", help="A forge's event: pull_request, merge_group, push.")
@click.option("--mode", type=click.Choice(GATE_MODES), help="Stop more than the policy of the target does.")
@click.option("--judge", is_flag=True, help="Judge here what nothing explains; recorded in this clone's ledger.")
@click.option(
    "--evaluate/--no-evaluate",
    default=None,
    help="Run the checks of governed commits again here (default: in CI, if the policy says so).",
)
@click.option("--check", multiple=True, metavar="CMD", help="A check beside those of the base, where something is run.")
@evidence_option
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
    from savant.cli.gate_answers import Asked, told_of
    from savant.cli.gate_subjects import subject_of, tree_subject
    from savant.cli.gating import Gate
    from savant.cli.places import find_places
    from savant.repository.git import Repository

    output = Output(as_json=flags["format_"] != "text")
    signer = _signer(flags)
    folder = None if flags["directory"] is None else Path(flags["directory"]).absolute()
    if folder is not None and flags["evidence"]:
        raise _usage("--ledger and --evidence are two places to look into.", "Give one of them.")
    places = find_places()
    asked = Asked(
        repo=flags["repo"],
        mode=flags["mode"],
        judge=flags["judge"],
        evaluate=flags["evaluate"],
        checks=flags["check"],
        seen=None if flags["seen"] is None else Path(flags["seen"]),
        is_ci=places.is_ci,
    )
    with Repository.discover(Path(flags["repo"]).absolute()) as repository:
        if flags["tree"]:
            verify_tree_flags(flags)
            subject = tree_subject(repository, flags["commit"], flags["base"])
        else:
            subject = subject_of(repository, flags["commit"], flags["base"], flags["event"])
        evidence = [Path(path) for path in flags["evidence"]]
        at = subject.target or (subject.steps[0].base if subject.steps else None)
        with Gate(places, repository, folder, output.progress, evidence=evidence, at=at) as gate_:
            told = told_of(gate_, subject, asked, output)
    if signer is not None:
        _summarise(told, flags, signer)
    return _show(output, told, flags)


def verify_tree_flags(flags: dict[str, Any]) -> None:
    """Return if a tree can be asked about so.

    :raises UsageError: ``usage.gate``.
    """
    if flags["event"] is not None or flags["judge"] or flags["evaluate"]:
        raise _usage(
            "A tree is compared with the ledger only: --event, --judge and --evaluate need a commit.",
            "Commit it, then ask about the commit.",
        )


def _usage(why: str, fix: str) -> UsageError:
    return UsageError("usage.gate", why, untouched="Nothing was written.", fix=fix)


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


def _show(output: Output, told: Told, flags: dict[str, Any]) -> int:
    from savant.cli.gate_output import FORMS, summary
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
        output.say(_verdict(told))
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
    from savant.cli.gate_answers import NEXT

    report, question = item.report, item.question
    match = report.match
    return {
        "answer": report.answer,
        "commit": item.step.commit,
        "base_commit": item.step.base,
        "declared": item.is_declared,
        "parents": item.parents,
        "custody": item.custody if item.report.answer == "governed" else None,
        "policy": None if question is None else question.policy.digest,
        "policy_origin": None if question is None else question.policy.document.origin,
        "how": None if match is None else match.how,
        "run": None if match is None else match.history.run_id,
        "candidate": None if match is None else match.candidate.digest,
        "decision": None if report.decision is None else report.decision.digest,
        "reasons": [
            {"code": reason.code, "detail": reason.detail, "next": NEXT.get(reason.code)} for reason in report.reasons
        ],
        "limitations": _limitations(item),
    }


def _limitations(item: Judged) -> list[str]:
    if item.report.match is not None:
        return [MOVED] if item.report.match.how == "change" else []
    return [HERE] if item.report.answer == "governed" else []


def _say(output: Output, item: Judged) -> None:
    from driver.gate import REASONS
    from savant.cli.gate_answers import CUSTODY, NEXT

    report, base = item.report, item.step.base
    output.say(f"{WORDS[report.answer]}: {short(item.step.commit)} on {short(base) if base else 'nothing'}")
    for reason in report.reasons:
        output.say(f"  {REASONS[reason.code]} [{reason.code}]", f"    {reason.detail}")
    if report.answer != "governed":
        output.say(*(f"  next: {NEXT[code]}" for code in dict.fromkeys(r.code for r in report.reasons) if code in NEXT))
    for limitation in _limitations(item):
        output.say(f"  {limitation}")
    if report.answer == "governed":
        output.say(f"  custody {item.custody}: {CUSTODY[item.custody]}")
    if report.match is not None:
        output.say(f"  next: savant show {report.match.history.run_id[:12]}")
    if item.question is not None:
        policy = item.question.policy
        output.say(f"  rules: {policy.document.origin} policy {short(policy.digest)}")
