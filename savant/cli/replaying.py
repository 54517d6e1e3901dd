"""Replaying the runs of an open ledger: its verification once, then run after run from its records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from driver.history import RunHistory, list_runs, read_runs
from driver.replay import ReplayReport, replay_run, unreadable
from driver.replay_evidence import Evidence
from runner.snapshot import BaseSnapshot
from savant.cli.reading import Reading
from savant.contracts.errors import SavantError, UsageError
from savant.ledger.ed25519 import Ed25519Verifier
from savant.ledger.verify import VerificationReport
from savant.repository.git import Repository

LATEST = "latest"


def replay_runs(
    repository: Repository, reading: Reading, wanted: str | None, say: Callable[[str], None]
) -> Iterator[ReplayReport]:
    """Replay one run (a prefix of its id, or ``latest``), or every run when ``wanted`` is None.

    The base's manifests are computed from the repository's objects, never taken from a cache.

    :raises UsageError: ``usage.no-run``, ``usage.unknown-run``, ``usage.ambiguous-run``.
    """
    ids = choose_runs(list_runs(reading.lines()), wanted)
    say("verifying the ledger")
    report = reading.verify()
    replay = replayer(repository, reading, report)
    for run_id in ids:
        say(f"replaying run {run_id[:12]}")
        try:
            history = next(iter(read_runs(reading.lines(), reading.registry, reading.bodies, only=run_id)))
        except SavantError as error:
            yield unreadable(run_id, report, error)
            continue
        yield replay(history)


def replayer(
    repository: Repository, reading: Reading, report: VerificationReport | None = None
) -> Callable[[RunHistory], ReplayReport]:
    """A function that replays one run of a ledger; the ledger is verified here when no report is given."""
    ledger = report or reading.verify()

    @lru_cache(maxsize=4)
    def base(commit: str) -> BaseSnapshot:
        return BaseSnapshot.take(repository, commit, cache=None)

    def replay(history: RunHistory) -> ReplayReport:
        return replay_run(Evidence(history, base, reading.bodies, Ed25519Verifier()), ledger)

    return replay


def choose_runs(ids: tuple[str, ...], wanted: str | None) -> tuple[str, ...]:
    """The ids that are meant, of those in the ledger, oldest first.

    :raises UsageError: ``usage.no-run``, ``usage.unknown-run``, ``usage.ambiguous-run``.
    """
    if not ids:
        raise UsageError("usage.no-run", "There is no run in this ledger yet.", fix='Start one: savant run "..."')
    if wanted is None:
        return ids
    if wanted == LATEST:
        return ids[-1:]
    found = tuple(run for run in ids if run.startswith(wanted.lower()))
    if not found or not wanted:
        raise UsageError("usage.unknown-run", f"No run's id begins with {wanted[:200]!r}.", fix="savant runs")
    if len(found) > 1:
        raise UsageError(
            "usage.ambiguous-run",
            f"{wanted!r} begins the ids of several runs: {', '.join(found[:10])}.",
            fix="Write more of the id.",
        )
    return found
