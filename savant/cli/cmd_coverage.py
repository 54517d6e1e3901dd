"""``coverage``: what stands behind each commit of a range."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from savant.cli.cmd_ledger import ledger_option
from savant.cli.exits import EXITS
from savant.cli.options import evidence_option, format_option, repository_option
from savant.cli.render import Output, short, table

if TYPE_CHECKING:
    from savant.cli.gating import Judged

HUMAN: Final = "savant-author"
EMERGENCY: Final = "savant-emergency"
WORDS: Final = {
    "governed": "governed",
    "declared-human": "declared human",
    "emergency": "emergency",
    "cannot-tell": "CANNOT TELL",
    "unexplained": "UNEXPLAINED",
}
"""What can stand behind a commit, as people read it."""


@click.command("coverage", help="Say for every commit of a range: governed, declared human, emergency or unexplained.")
@click.argument("commits", metavar="A..B")
@repository_option
@ledger_option
@evidence_option
@format_option
def coverage(commits: str, repo: str, directory: str | None, evidence: tuple[str, ...], format_: str) -> int:
    """Print each commit; exit 0 when every one is explained, 25 when one is not, 12 when one cannot be told."""
    from savant.cli.gate_subjects import subject_of
    from savant.cli.gating import Gate
    from savant.cli.places import find_places
    from savant.contracts.errors import UsageError
    from savant.repository.git import Repository

    output = Output(as_json=format_ == "json")
    if ".." not in commits:
        raise UsageError(
            "usage.gate", "A range is written A..B.", untouched="Nothing was written.", fix="savant coverage main..HEAD"
        )
    folder = None if directory is None else Path(directory).absolute()
    with Repository.discover(Path(repo).absolute()) as repository:
        subject = subject_of(repository, commits, None, None)
        paths = [Path(path) for path in evidence]
        at = subject.steps[0].base if subject.steps else None
        with Gate(find_places(), repository, folder, output.progress, evidence=paths, at=at) as asked:
            judged = [asked.judge(step, None) for step in subject.steps]
    kinds = [kind_of(item) for item in judged]
    ending = "not-governed" if "unexplained" in kinds else "undecided" if "cannot-tell" in kinds else "ok"
    code = EXITS[ending].code
    counts = {name: kinds.count(name) for name in WORDS}
    output.document(
        "coverage",
        ending,
        code,
        {
            "counts": counts,
            "commits": [
                {
                    "commit": item.step.commit,
                    "is": kind,
                    "said": [{"trailer": key, "value": value} for key, value in item.trailers],
                    "reasons": [{"code": reason.code, "detail": reason.detail} for reason in item.report.reasons],
                }
                for item, kind in zip(judged, kinds, strict=True)
            ],
        },
    )
    if not output.as_json:
        rows = [
            (short(item.step.commit), WORDS[kind], _why(item, kind)) for item, kind in zip(judged, kinds, strict=True)
        ]
        output.say(*table(rows))
        output.say(", ".join(f"{count} {WORDS[name]}" for name, count in counts.items() if count) or "no commit")
    return code


def kind_of(item: Judged) -> str:
    """What stands behind a commit. What it says of itself counts only where nothing explains it."""
    said = dict(item.trailers)
    if item.report.answer == "governed":
        return "governed"
    if said.get(EMERGENCY):
        return "emergency"
    if said.get(HUMAN, "").lower() == "human":
        return "declared-human"
    return "cannot-tell" if item.report.answer == "cannot-tell" else "unexplained"


def _why(item: Judged, kind: str) -> str:
    if kind == "emergency":
        return dict(item.trailers)[EMERGENCY]
    if kind == "declared-human":
        return "its author says so"
    return " ".join(f"[{reason.code}] {reason.detail}" for reason in item.report.reasons[:1])
