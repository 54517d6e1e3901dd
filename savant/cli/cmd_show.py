"""``diff``, ``patch``, ``show`` and ``runs``: what a run made, for reading."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from savant.cli.options import format_option, repository_option, run_argument
from savant.cli.render import Output, short, table

if TYPE_CHECKING:
    from driver.history import RunHistory
    from savant.cli.workbench import Workbench
    from savant.store.database import RunRow


def patch_bytes(bench: Workbench, history: RunHistory) -> bytes:
    """The patch of a run's candidate, each content verified against its digest."""
    from runner.documents import FileState
    from runner.patch import patch_of
    from savant.cli.lookup import candidate_of, candidate_tree
    from savant.files.paths import to_raw

    candidate = candidate_of(history).document
    base, tree = candidate_tree(bench, candidate)
    contents: dict[str, bytes] = {}
    for operation in candidate.operations:
        path = to_raw(operation.path)
        for state, reader in ((operation.before, base), (operation.after, tree)):
            if state is not None and state.mode != "gitlink":
                contents[state.content_digest] = reader.read(path)

    def read(state: FileState) -> bytes:
        return contents.get(state.content_digest, state.content_digest.encode("ascii"))

    return patch_of(candidate.operations, read, object_format=bench.repository.object_format)


@click.command("patch", help="Write the candidate of a run to stdout, as a patch that git applies.")
@run_argument
@repository_option
def patch(run: str, repo: str) -> int:
    """Print the patch, byte for byte."""
    from savant.cli.lookup import find_run
    from savant.cli.workbench import Workbench

    with Workbench(repo) as bench:
        Output(as_json=False).raw(patch_bytes(bench, find_run(bench, run).history))
    return 0


@click.command("diff", help="Show the candidate of a run as a diff.")
@run_argument
@repository_option
@format_option
def diff(run: str, repo: str, format_: str) -> int:
    """Print the diff: coloured on a terminal, plain elsewhere."""
    from savant.cli.lookup import candidate_of, find_run
    from savant.cli.workbench import Workbench

    output = Output(as_json=format_ == "json")
    with Workbench(repo) as bench:
        history = find_run(bench, run).history
        text = patch_bytes(bench, history).decode("utf-8", "replace")
        candidate = candidate_of(history)
    output.document(
        "diff",
        "ok",
        0,
        {
            "run": history.run_id,
            "candidate": candidate.digest,
            "operations": [{"path": o.path, "kind": o.kind, "source": o.source} for o in candidate.document.operations],
            "diff": text,
        },
    )
    if not output.as_json:
        if sys.stdout.isatty():
            _coloured(text)
        else:
            output.say(*text.splitlines())
    return 0


def _coloured(text: str) -> None:
    from rich.console import Console
    from rich.text import Text

    from savant.cli.render import safe

    styles = {"+": "green", "-": "red", "@": "cyan", "d": "bold", "i": "dim"}
    console = Console(highlight=False, soft_wrap=True)
    for line in text.splitlines():
        console.print(Text(safe(line), style=styles.get(line[:1], "")))


@click.command("runs", help="List the runs of this repository, newest first.")
@repository_option
@click.option("--limit", type=click.IntRange(1, 10_000), default=20)
@format_option
def runs(repo: str, limit: int, format_: str) -> int:
    """Print the index of runs, brought up to the end of the ledger first."""
    from savant.cli.lookup import ledger_store, update_index
    from savant.cli.workbench import Workbench

    output = Output(as_json=format_ == "json")
    with Workbench(repo) as bench:
        rows: tuple[RunRow, ...] = ()
        if bench.has_ledger():
            with ledger_store(bench) as store:
                update_index(bench, store)
            rows = bench.database.list(limit=limit)
    output.document(
        "runs",
        "ok",
        0,
        {
            "runs": [
                {
                    "run": row.run_id,
                    "started_at_ms": row.started_at_ms,
                    "objective": row.objective,
                    "base_commit": row.base_commit,
                    "disposition": row.disposition,
                    "candidate": row.candidate_digest,
                }
                for row in rows
            ]
        },
    )
    if not output.as_json:
        output.say(
            *table(
                (row.run_id[:12], when(row.started_at_ms), row.disposition or "interrupted", row.objective[:70])
                for row in rows
            )
        )
        if not rows:
            output.say('No run yet. Start one: savant run "..."')
    return 0


@click.command("show", help="Show a run: attempts, checks, decision, application.")
@run_argument
@repository_option
@format_option
def show(run: str, repo: str, format_: str) -> int:
    """Print what a run did, from its records."""
    from savant.cli.cmd_usage import call_members
    from savant.cli.lookup import find_run
    from savant.cli.workbench import Workbench

    output = Output(as_json=format_ == "json")
    with Workbench(repo) as bench:
        found = find_run(bench, run)
        calls = bench.database.calls(found.history.run_id)
    members = {**summary(found.history), "calls": [call_members(row) for row in calls]}
    output.document("show", "ok", 0, members)
    if not output.as_json:
        output.say(*show_lines(members))
    return 0


def summary(history: RunHistory) -> dict[str, Any]:
    """What a run's records say, as plain data."""
    from admission.documents import Decision, Verification
    from candidateapply.documents import Receipt as ApplyReceipt
    from driver.documents import Receipt as RunReceipt
    from runner.documents import Candidate
    from synthesis.documents import Attempt, Evaluation, Session

    session, receipt, decision = history.last(Session), history.last(RunReceipt), history.last(Decision)
    candidate, applied = history.last(Candidate), history.last(ApplyReceipt)
    verification = history.last(Verification)
    return {
        "run": history.run_id,
        "objective": None if session is None else session.document.objective,
        "base_commit": None if session is None else session.document.base_commit,
        "disposition": None if receipt is None else receipt.document.disposition,
        "reason": None if receipt is None else receipt.document.reason,
        "closed": history.is_closed,
        "played": _played(history),
        "containment": {
            "provider": _containment(history, "savant.providerport.receipt/v1"),
            "checks": _containment(history, "savant.evaluator.result/v1"),
        },
        "attempts": [
            {"number": a.document.number, "outcome": a.document.outcome, "failure_kind": a.document.failure_kind}
            for a in history.all(Attempt)
        ],
        "evaluations": [
            {
                "recommendation": e.document.recommendation,
                "checks": [
                    {
                        "evaluator": c.evaluator,
                        "check": c.check,
                        "status": c.status,
                        "base_status": c.base_status,
                        "comparison": c.comparison,
                        "excuse": c.excuse,
                        "required": c.required,
                        "findings": [{"path": f.path, "line": f.line, "message": f.message} for f in c.findings],
                    }
                    for c in e.document.checks
                ],
                "limitations": [limitation.text for limitation in e.document.limitations],
            }
            for e in history.all(Evaluation)
        ],
        "candidate": None
        if candidate is None
        else {
            "digest": candidate.digest,
            "change": candidate.document.change_digest,
            "operations": [{"path": o.path, "kind": o.kind, "source": o.source} for o in candidate.document.operations],
        },
        "decision": None
        if decision is None
        else {
            "digest": decision.digest,
            "outcome": decision.document.outcome,
            "reasons": [{"code": r.code, "path": r.path, "detail": r.detail} for r in decision.document.reasons],
            "conditions": [
                {
                    "id": c.id,
                    "reason": c.reason,
                    "paths": list(c.paths),
                    "reviewers": None if c.reviewers is None else list(c.reviewers),
                }
                for c in decision.document.conditions
            ],
            "observed": [
                {"rule": o.rule, "enforcement": o.enforcement, "paths": list(o.paths)}
                for o in decision.document.observed
            ],
            "acknowledged": [
                {"condition": a.condition, "by": a.by, "is_requester": a.is_requester}
                for a in decision.document.acknowledged
            ],
            "limitations": [limitation.text for limitation in decision.document.limitations],
        },
        "application": None
        if applied is None
        else {"digest": applied.digest, "disposition": applied.document.disposition},
        "verification": None if verification is None else verification.document.status,
    }


def _containment(history: RunHistory, kind: str) -> dict[str, Any] | None:
    """The weakest containment that commands behind documents of a kind had, None where none ran."""
    from savant.contracts.containment import weakest

    seen = weakest(entry.observed.containment for entry in history.entries if entry.kind == kind)
    return None if seen is None else {"level": seen.level, "layers": list(seen.layers), "network": seen.network}


def _played(history: RunHistory) -> str | None:
    """The remark of a run whose provider calls were played, None where they were made."""
    from driver.recorder import PLAYED

    details = (entry.observed.detail or "" for entry in history.entries if entry.role == "provider-host")
    return next((detail for detail in details if detail.startswith(PLAYED)), None)


def show_lines(members: dict[str, Any]) -> Iterator[str]:
    """The summary for a person."""
    from savant.cli.cmd_usage import call_words
    from savant.contracts.containment import level_words

    yield f"run {members['run'][:12]}  {members['disposition'] or 'interrupted'}  {members['reason'] or ''}".rstrip()
    yield f"  task: {members['objective']}"
    yield f"  base: {members['base_commit']}"
    if members["played"] is not None:
        yield f"  provider: {members['played']}"
    for whose, seen in members["containment"].items():
        if seen is not None:
            yield f"  {whose}: sandbox {level_words(seen['level'])}; network: {seen['network']}"
    yield from (f"  {call_words(call)}" for call in members["calls"])
    for attempt, evaluation in zip_longest_lists(members["attempts"], members["evaluations"]):
        if attempt is not None:
            yield f"  attempt {attempt['number']}: {attempt['failure_kind'] or attempt['outcome']}"
        if evaluation is not None:
            yield f"    evaluation: {evaluation['recommendation']}"
            yield from ("    " + line for line in check_lines(evaluation["checks"]))
            decided = () if members["decision"] is None else members["decision"]["limitations"]
            yield from (f"    note: {text}" for text in evaluation["limitations"] if text not in decided)
    if members["candidate"] is not None:
        yield f"  candidate {short(members['candidate']['digest'])}"
        yield from (f"    {o['kind']:<14} {o['path']}" for o in members["candidate"]["operations"])
    if members["decision"] is not None:
        yield f"  decision: {members['decision']['outcome']}"
        yield from (f"    {r['code']}  {r['path'] or ''}  {r['detail']}" for r in members["decision"]["reasons"])
        yield from (f"    note: {text}" for text in members["decision"]["limitations"])
    if members["application"] is not None:
        yield f"  application: {members['application']['disposition']}"
    if members["verification"] is not None:
        yield f"  verification: {members['verification']}"


WORDS = {"still-failing": "failed before too", "unavailable": "DID NOT RUN"}
"""What people read instead of a status."""


def check_lines(checks: list[dict[str, Any]]) -> Iterator[str]:
    """The checks that did not simply pass, and a count of those that did."""
    passed = sum(1 for c in checks if c["status"] == "passed" and c["comparison"] in (None, "fixed"))
    for check in checks:
        state = check["comparison"] or check["status"]
        if check["status"] == "passed" and state in ("passed", "fixed", "new"):
            continue
        excused = "" if check["excuse"] is None else f" (excused by {check['excuse']})"
        yield f"{WORDS.get(state, state)}{excused}: {check['evaluator']} {check['check']}"
        for finding in check["findings"][:3]:
            place = f"{finding['path']}:{finding['line']}: " if finding["path"] and finding["line"] else ""
            yield f"    {place}{finding['message'].splitlines()[0] if finding['message'] else ''}"
    if passed:
        yield f"passed: {passed}"


def zip_longest_lists(first: list[Any], second: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Both lists side by side, None where one is shorter."""
    import itertools

    return itertools.zip_longest(first, second)


def when(at_ms: int) -> str:
    """A time for a person, UTC to the minute."""
    return dt.datetime.fromtimestamp(at_ms / 1000, tz=dt.UTC).strftime("%Y-%m-%d %H:%M")
