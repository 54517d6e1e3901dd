"""``ledger log``, ``ledger show``, ``ledger verify`` and ``replay``: reading the record, never writing it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from savant.cli.exits import EXITS
from savant.cli.options import format_option, repository_option
from savant.cli.render import Output, short, table

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from driver.replay import ReplayReport
    from savant.cli.reading import Reading
    from savant.ledger.verify import CheckResult, VerificationReport

F = TypeVar("F", bound=Callable[..., Any])

VERIFY_ENDINGS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "verified": ("ok", "RECORD INTACT: every record, link, key and signature is as it was made."),
        "self-consistent": ("undecided", "INTACT, NOT AUTHENTICATED (no pin): nobody outside vouches for this ledger."),
        "incomplete": ("undecided", "CANNOT TELL: no check failed, but not everything was shown."),
        "failed": ("unverified", "REFUSED: the record is not what was written."),
    }
)
"""The outcome of a verification: the command's ending, and what people read."""

REPLAY_ENDINGS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "replayed": ("ok", "REPLAYED: every decision was made again and came out the same."),
        "incomplete": ("undecided", "CANNOT TELL: nothing differs, but not everything could be decided again."),
        "diverged": ("unverified", "DIVERGED: the record does not say what its inputs say."),
    }
)

CHECK_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bytes": "each line is one canonical envelope",
        "schema": "each statement and body is a closed document",
        "bodies": "large bodies beside the ledger are the ones named",
        "chain": "each record follows the one before it",
        "roles": "each signer may sign what it signed",
        "signatures": "each signature is good",
        "tree": "the tree head covers exactly these lines",
        "checkpoint": "checkpoints are signed and in order",
        "consistency": "each checkpoint extends the one before it",
        "head": "the saved head is in the store",
        "pin": "it is the ledger that was pinned",
    }
)
"""What each check of the ledger says, for a person."""


def ledger_option(function: F) -> F:
    """``--ledger PATH``: a copy of a ledger instead of the repository's."""
    return click.option(
        "--ledger",
        "directory",
        type=click.Path(exists=True),
        help="Read a copy of a ledger in this folder, or a bundle, instead of the repository's.",
    )(function)


def pin_options(function: F) -> F:
    """``--pin`` and ``--root``: what the ledger must be, beside or instead of the person's configuration."""
    by_root = click.option("--root", metavar="KEYID", help="The root key fingerprint (SHA256:...) that it must have.")
    return click.option("--pin", metavar="ID", help="The ledger id (blake3:...) that it must have.")(by_root(function))


@click.group("ledger", help="Read and verify the ledger. Nothing is ever written by these commands.")
def ledger() -> None:
    """The group."""


@ledger.command("log", help="List the records, oldest first.")
@repository_option
@ledger_option
@click.option("--run", "run", help="Only the records of this run (a prefix of its id).")
@click.option("--limit", type=click.IntRange(1), default=None, help="Only the newest so many.")
@format_option
def log(repo: str, directory: str | None, run: str | None, limit: int | None, format_: str) -> int:
    """Print one line per record."""
    from collections import deque

    from savant.cli.records import record_rows

    output = Output(as_json=format_ == "json")
    with reading_of(repo, directory) as reading:
        wanted = "" if run is None else run.lower()
        rows = deque((row for row in record_rows(reading) if (row["run"] or "").startswith(wanted)), maxlen=limit)
    output.document("ledger-log", "ok", 0, {"ledger": str(reading.directory), "records": list(rows)})
    if not output.as_json:
        output.say(*table(_row_cells(row) for row in rows))
    return 0


def _row_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    from savant.cli.cmd_show import when

    return (
        str(row["seq"]),
        "-" if row["at_ms"] is None else when(row["at_ms"]),
        row["role"] or "-",
        row["what"],
        "-" if row["run"] is None else row["run"][:12],
        short(row["body_digest"] or row["line_digest"]),
    )


@ledger.command("show", help="Show one record, by its number or a prefix of its body's or line's digest.")
@click.argument("record", metavar="SEQ|DIGEST")
@repository_option
@ledger_option
@format_option
def show_record(record: str, repo: str, directory: str | None, format_: str) -> int:
    """Print the whole statement, its body and who signed it."""
    from savant.cli.records import find_record
    from savant.contracts.envelope import parse_envelope, to_base64
    from savant.ledger.record import accept_body, line_digest

    output = Output(as_json=format_ == "json")
    with reading_of(repo, directory) as reading:
        seq, others = find_record(reading, record)
        line, statement = reading.statement(seq)
        body = accept_body(statement, reading.registry, reading.bodies)
    payload, keyid, signature = parse_envelope(line)
    members: dict[str, Any] = {
        "seq": seq,
        "also": others,
        "line_digest": line_digest(line),
        "keyid": keyid,
        "signature": to_base64(signature),
        "statement": json.loads(payload),
        "body": None if body is None else json.loads(body.raw),
    }
    output.document("ledger-show", "ok", 0, members)
    if not output.as_json:
        if statement.predicate.body_ref:
            where = "beside the ledger" if body is not None else "elsewhere and is not here"
            output.say(f"The body lies {where}, by its digest.")
        if others:
            output.say("The same document is also recorded as " + ", ".join(str(other) for other in others) + ".")
        output.say(*json.dumps(members, indent=2, sort_keys=True, ensure_ascii=True).splitlines())
        output.say("", "Shown as it stands; savant ledger verify checks it.")
    return 0


@ledger.command("verify", help="Verify the whole ledger: every record, link, key, signature, tree head and the pin.")
@repository_option
@ledger_option
@pin_options
@format_option
def verify(repo: str, directory: str | None, pin: str | None, root: str | None, format_: str) -> int:
    """Print the report: exit 0 intact, 23 a check failed, 12 not authenticated or not everything shown."""
    output = Output(as_json=format_ == "json")
    with reading_of(repo, directory, pin=pin, root=root) as reading:
        report = reading.verify()
    ending, words = VERIFY_ENDINGS[report.outcome]
    code = EXITS[ending].code
    output.document("ledger-verify", ending, code, {"directory": str(reading.directory), **report_members(report)})
    if not output.as_json:
        output.say(*table((c.status, c.name, _check_words(c)) for c in report.checks))
        output.say("", words)
        output.say(f"  ledger {report.ledger or 'unknown'}", f"  root   {report.root_keyid or 'unknown'}")
        output.say(f"  {report.records} records, {report.covered} under a signed checkpoint, in {reading.directory}")
        if report.recoveries:
            output.say(f"  records were lost once; the root signed for it at {_numbers(report.recoveries)}")
        if report.outcome == "self-consistent":
            output.say("  next: savant ledger verify --pin ID, with an id that you had from its owner")
    return code


def report_members(report: VerificationReport) -> dict[str, Any]:
    """A verification report as plain data."""
    return {
        "outcome": report.outcome,
        "ledger_id": report.ledger,
        "root_keyid": report.root_keyid,
        "records": report.records,
        "covered": report.covered,
        "last": report.last,
        "tree_root_sha256": report.root.hex(),
        "recoveries": list(report.recoveries),
        "checks": [
            {"name": c.name, "status": c.status, "seq": c.seq, "code": c.code, "detail": c.detail}
            for c in report.checks
        ],
    }


def _check_words(check: CheckResult) -> str:
    if check.code is None:
        return CHECK_WORDS[check.name] if check.status == "pass" else "nothing to check"
    place = "" if check.seq is None else f"record {check.seq}: "
    return f"{place}{check.detail} [{check.code}]"


def _numbers(values: tuple[int, ...]) -> str:
    return ", ".join(str(value) for value in values)


def reading_of(
    repo: str, directory: str | None, *, pin: str | None = None, root: str | None = None
) -> AbstractContextManager[Reading]:
    """The ledger of the options; ``--repo`` counts as given only when a person wrote it."""
    from savant.cli.places import find_places
    from savant.cli.reading import choose_ledger, pin_of

    source = click.get_current_context().get_parameter_source("repo")
    given = source is not None and source is not ParameterSource.DEFAULT
    return choose_ledger(find_places(), repo, directory, repo_given=given, pin=pin_of(pin, root))


@click.command("replay", help="Decide a recorded run again from its records, and name the first difference.")
@click.argument("run", metavar="[RUN]", default="latest")
@click.option("--all", "all_runs", is_flag=True, help="Every run of the ledger.")
@repository_option
@ledger_option
@pin_options
@format_option
def replay(
    run: str, all_runs: bool, repo: str, directory: str | None, pin: str | None, root: str | None, format_: str
) -> int:
    """Print each step of each run: exit 0 replayed, 23 diverged, 12 something could not be decided again."""
    from driver.replay import worst
    from savant.cli.places import find_places
    from savant.cli.reading import choose_ledger, pin_of
    from savant.cli.replaying import replay_runs
    from savant.repository.git import Repository

    output = Output(as_json=format_ == "json")
    places = find_places()
    with (
        Repository.discover(Path(repo).absolute()) as repository,
        choose_ledger(places, repo, directory, repo_given=True, pin=pin_of(pin, root)) as reading,
    ):
        reports = list(replay_runs(repository, reading, None if all_runs else run, output.progress))
    outcome = worst(reports)
    ending, words = REPLAY_ENDINGS[outcome]
    code = EXITS[ending].code
    output.document("replay", ending, code, {"outcome": outcome, "runs": [replay_members(r) for r in reports]})
    if not output.as_json:
        for report in reports:
            output.say(f"run {report.run_id[:12]}: {report.outcome}")
            output.say(*("  " + line for line in table((s.status, s.name, s.detail) for s in report.steps)))
            if report.first_divergence is not None:
                output.say(f"  first divergence: {report.first_divergence.name}: {report.first_divergence.detail}")
        output.say("", words)
    return code


def replay_members(report: ReplayReport) -> dict[str, Any]:
    """A replay report as plain data."""
    first = report.first_divergence
    return {
        "run": report.run_id,
        "outcome": report.outcome,
        "first_divergence": None if first is None else first.name,
        "steps": [{"name": s.name, "status": s.status, "detail": s.detail} for s in report.steps],
    }
