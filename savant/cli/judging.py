"""A commit judged here: an import of it is run, its record goes into this clone's own ledger, signed by its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from driver.gate import GateReason, GateReport, cannot_tell
from savant.cli.render import Output
from savant.contracts.errors import SavantError

if TYPE_CHECKING:
    from driver.run import RunResult

PASSED: Final = frozenset({"admitted", "admitted-with-conditions"})


class Judging:
    """Judges commits by importing them; each pair of commits once."""

    def __init__(self, repo: str, output: Output, more: tuple[str, ...]) -> None:
        self._repo, self._output, self._more = repo, output, more
        self._known: dict[tuple[str, str], GateReport] = {}

    def __call__(self, commit: str, base: str) -> GateReport:
        """The answer about a commit on a base."""
        key = (commit, base)
        if key not in self._known:
            self._known[key] = self._judge(commit.partition(":")[2], base.partition(":")[2])
        return self._known[key]

    def _judge(self, commit: str, base: str) -> GateReport:
        from savant.cli.cmd_run import run, run_here

        self._output.progress(f"judging {commit[:12]} on {base[:12]}")
        words = ["--from-commit", f"{base}..{commit}", "--repo", self._repo, "--quiet", *self._more]
        try:
            flags: dict[str, Any] = run.make_context("run", words).params
            result = run_here(flags, Output(as_json=True, quiet=True))
        except SavantError as error:
            return cannot_tell("gate.not-judged", str(error))
        if result is None:
            return cannot_tell("gate.not-judged", "Something is missing here: savant run says what.")
        ended, run_id = result
        told = f"run {run_id[:12]}: {ended.disposition}{_why(ended)}"
        if ended.disposition in PASSED:
            return GateReport("governed", (GateReason("gate.judged", told),))
        if ended.disposition == "waiting":
            return GateReport("not-governed", (GateReason("gate.judged-waiting", told),))
        return GateReport("not-governed", (GateReason("gate.judged-refused", f"{told} {ended.detail}".strip()),))


def _why(ended: RunResult) -> str:
    """The rules that decided, where a decision was made."""
    if ended.admission is None or ended.disposition in PASSED:
        return ""
    rules = dict.fromkeys(reason.rule for reason in ended.admission.decision.document.reasons)
    return f" ({', '.join(rules)})"
