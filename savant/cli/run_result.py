"""How a run ended, for programs and for people: the verdict, what was touched, why, the next command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from savant.cli.amounts import calls_words
from savant.cli.exits import EXITS, ending_of_run, exit_code
from savant.cli.render import Output

if TYPE_CHECKING:
    from driver.run import RunResult
    from savant.cli.cassettes import TapeEnd


def show_result(output: Output, result: RunResult, run_id: str, directory: Path, tape: TapeEnd) -> int:
    """Print how a run ended, as JSON or as sentences; its exit code."""
    receipt = result.receipt.document
    ending = ending_of_run(result.disposition, receipt.reason)
    code = exit_code(ending) or (exit_code("port") if tape.failed else 0)
    decision = None if result.admission is None else result.admission.decision
    output.document(
        "run",
        ending,
        code,
        {
            "run": run_id,
            "disposition": result.disposition,
            "reason": receipt.reason,
            "detail": result.detail,
            "receipt": result.receipt.digest,
            "session": receipt.session_digest,
            "candidate": receipt.candidate_digest,
            "decision": None if decision is None else decision.digest,
            "conditions": [] if decision is None else [c.id for c in decision.document.conditions],
            "reasons": []
            if decision is None
            else [{"code": r.code, "path": r.path} for r in decision.document.reasons],
            "limitations": limitations_of(result),
            "ledger": result.run.ports.recorder.ledger_id,
            "failed_appends": result.run.ports.recorder.failures,
            "cassette": tape.members,
        },
    )
    if not output.as_json:
        output.say(*_words(result, ending, run_id, directory))
        output.say(*(f"  {line}" for line in tape.lines))
    return code


def limitations_of(result: RunResult) -> list[str]:
    """What the verdict does not say: the decision's limitations, then the run's own."""
    decision = () if result.admission is None else result.admission.decision.document.limitations
    return list(dict.fromkeys(limit.text for limit in (*decision, *result.receipt.document.limitations)))


def _words(result: RunResult, ending: str, run_id: str, directory: Path) -> Iterator[str]:
    receipt, short_id = result.receipt.document, run_id[:12]
    yield f"{EXITS[ending].words}  (run {short_id})"
    if receipt.reason is not None and result.disposition == "terminal-failure":
        yield f"  why: {receipt.reason}"
    if result.detail:
        yield f"  {result.detail}"
    if result.disposition == "terminal-failure":
        yield from _last_findings(result)
    decision = None if result.admission is None else result.admission.decision.document
    if decision is not None:
        for condition in decision.conditions:
            yield f"  asks [{condition.id}]: {condition.reason} {', '.join(condition.paths[:5])}".rstrip()
        for reason in decision.reasons:
            if decision.outcome in ("refused", "uncertifiable"):
                yield f"  {reason.code} (rule {reason.rule}): {reason.path or ''} {reason.detail}"
    yield from (f"  note: {text}" for text in limitations_of(result))
    used = calls_words(result.run.calls.uses)
    if used:
        yield f"  {used}"
    yield f"  recorded in {directory}; your checkout was not touched."
    yield from (f"  next: {command}" for command in _next(ending, short_id))


def _last_findings(result: RunResult) -> Iterator[str]:
    for finding in result.run.trace.findings[:5]:
        place = "" if finding.path is None else f"{finding.path}:{finding.line or ''} "
        yield f"  {finding.check}: {place}{finding.message.splitlines()[0]}"


NEXT: dict[str, Sequence[str]] = {
    "admitted": ("savant diff {run}", "savant apply {run} --new"),
    "admitted-with-conditions": ("savant diff {run}", "savant apply {run} --new"),
    "waiting": ("savant admit {run} --explain", "savant acknowledge CONDITION {run} --key ~/.ssh/id_ed25519"),
    "admission-refused": ("savant admit {run} --explain", "savant diff {run}"),
    "uncertifiable": ("savant replay {run}",),
    "terminal-failure": ("savant show {run}",),
    "escalated": ("savant show {run}",),
    "provider-stopped": ("savant show {run}",),
    "runner-stopped": ("savant show {run}",),
    "step-limit-reached": ("savant show {run}",),
    "applied-compliant": ("savant undo {run}",),
    "applied-violated": ("savant verify {run}", "savant undo {run}"),
    "apply-failed": ("savant apply {run} --new",),
}
"""The next commands for each ending."""


def _next(ending: str, run_id: str) -> Iterator[str]:
    for text in NEXT.get(ending, ()):
        yield text.format(run=run_id)
