"""Replay: one recorded run decided again from its records, step by step, naming the first that comes out differently.

Nothing that a record concludes is believed: the machine is folded again from its transitions, the plan reviewed again,
the evaluation composed again from its results, the candidate computed again from base and blobs, admission decided
again. A step *passes* when the conclusion is the recorded one, *fails* when it is not, and is *not shown* when what it
needs is not there (a base commit that this repository does not have, a blob that is gone, a run that was interrupted).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from driver import replay_decisions as decisions
from driver import replay_session as session
from driver.chain import chain_of
from driver.replay_budgets import budgets_hold
from driver.replay_containment import containment_holds
from driver.replay_evidence import Evidence
from savant.contracts.errors import PortError, RefusedInput, Unverifiable, VerificationError
from savant.ledger.verify import VerificationReport

__all__ = [
    "STEPS",
    "Evidence",
    "Outcome",
    "ReplayReport",
    "ReplayStep",
    "Status",
    "chain_of",
    "ledger_step",
    "replay_run",
    "unreadable",
    "worst",
]

Status: TypeAlias = Literal["pass", "fail", "not-shown"]
Outcome: TypeAlias = Literal["replayed", "diverged", "incomplete"]


class ReplayStep(msgspec.Struct, frozen=True):
    """One step: what was decided again, and how it came out."""

    name: str
    status: Status
    detail: str


class ReplayReport(msgspec.Struct, frozen=True):
    """The replay of one run."""

    run_id: str
    steps: tuple[ReplayStep, ...]

    @property
    def first_divergence(self) -> ReplayStep | None:
        """The first step that came out differently, or None."""
        return next((step for step in self.steps if step.status == "fail"), None)

    @property
    def outcome(self) -> Outcome:
        """``diverged`` when a step failed, ``incomplete`` when one was not shown, else ``replayed``."""
        if self.first_divergence is not None:
            return "diverged"
        return "incomplete" if any(step.status == "not-shown" for step in self.steps) else "replayed"


STEPS: Final[tuple[tuple[str, Callable[[Evidence], str]], ...]] = (
    ("run", session.run_is_whole),
    ("lineage", session.lineage_holds),
    ("identities", session.identities_follow),
    ("interpretation", session.interpretations_follow),
    ("state", session.state_folds),
    ("budgets", budgets_hold),
    ("plan-review", session.reviews_follow),
    ("candidate", decisions.candidates_follow),
    ("containment", containment_holds),
    ("evaluation", decisions.evaluations_follow),
    ("admission", decisions.decisions_follow),
    ("application", decisions.applications_agree),
    ("receipt", decisions.receipt_agrees),
)
"""Every step after the ledger's own verification, in the order in which a run goes. Each returns what it did."""


def ledger_step(report: VerificationReport | None) -> ReplayStep:
    """The ledger's verification as the first step; an intact ledger that nobody vouches for is not shown."""
    if report is None:
        return ReplayStep("ledger", "not-shown", "The ledger was not verified.")
    match report.outcome:
        case "verified":
            return ReplayStep("ledger", "pass", f"{report.records} records intact")
        case "self-consistent":
            return ReplayStep("ledger", "not-shown", "intact, not authenticated: no pin vouches for it")
        case "incomplete":
            missing = next(c for c in report.checks if c.status == "not-shown" and c.code is not None)
            return ReplayStep("ledger", "not-shown", f"{missing.name}: {missing.detail}")
        case "failed":
            failure = report.first_failure
            if failure is None:
                return ReplayStep("ledger", "fail", "a check failed")
            place = "" if failure.seq is None else f" at record {failure.seq}"
            return ReplayStep("ledger", "fail", f"{failure.name}{place}: {failure.detail} [{failure.code}]")


def replay_run(evidence: Evidence, ledger: VerificationReport | None) -> ReplayReport:
    """Decide one run again."""
    done = [ledger_step(ledger), *(_take(name, step, evidence) for name, step in STEPS)]
    return ReplayReport(evidence.history.run_id, tuple(done))


def unreadable(run_id: str, ledger: VerificationReport | None, error: Exception) -> ReplayReport:
    """The replay of a run whose records cannot be read at all."""
    status: Status = "not-shown" if isinstance(error, Unverifiable | PortError) else "fail"
    return ReplayReport(run_id, (ledger_step(ledger), ReplayStep("records", status, str(error))))


def worst(reports: Iterable[ReplayReport]) -> Outcome:
    """The outcome of several replays: one divergence decides; no run at all shows nothing."""
    outcomes: Sequence[Outcome] = [report.outcome for report in reports]
    if "diverged" in outcomes:
        return "diverged"
    return "incomplete" if not outcomes or "incomplete" in outcomes else "replayed"


def _take(name: str, step: Callable[[Evidence], str], evidence: Evidence) -> ReplayStep:
    try:
        return ReplayStep(name, "pass", step(evidence))
    except (Unverifiable, PortError) as error:
        return ReplayStep(name, "not-shown", str(error))
    except (VerificationError, RefusedInput) as error:
        return ReplayStep(name, "fail", str(error))
