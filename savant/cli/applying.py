"""Applying, verifying and undoing from the command line: the same steps for ``run --apply`` and ``apply``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from admission.documents import Decision
from admission.documents import Receipt as AdmissionReceipt
from candidateapply.apply import Application, ApplyInputs, ApplyPorts, apply_candidate
from candidateapply.documents import Receipt, Request
from candidateapply.record import Verified, verify_application
from candidateapply.recover import recover, words
from candidateapply.undo import Undone
from driver.admit import Admission
from driver.documents import RunDisposition
from driver.history import read_runs
from driver.indexing import disposition_after
from driver.recorder import Recorder
from driver.run import Applied, Apply
from driver.step import Run, present
from runner.documents import Candidate
from runner.snapshot import BaseSnapshot
from savant.cli.lookup import ledger_store
from savant.cli.workbench import Workbench
from savant.contracts.document import Sealed, digest_of


class Chosen(msgspec.Struct, frozen=True):
    """An admitted candidate as it is applied: its decision, receipt and base."""

    decision: Sealed[Decision]
    receipt: Sealed[AdmissionReceipt]
    candidate: Sealed[Candidate]
    base: BaseSnapshot


def announcer(recorder: Recorder, operation: str) -> Callable[[Sealed[Request], str], None]:
    """Records the request and the intent before anything is written."""

    def announce(request: Sealed[Request], words: str) -> None:
        recorder.record_once("apply", request)
        recorder.intent("apply", operation, subject=request.digest, detail=words)

    return announce


def apply_chosen(
    bench: Workbench, chosen: Chosen, target: Path, on_mismatch: Literal["keep", "restore"], recorder: Recorder
) -> tuple[Application, Verified]:
    """Apply, record, and verify independently.

    :raises SavantError: every refusal of an application; nothing was written then.
    """
    application = apply_candidate(
        ApplyInputs(
            decision=chosen.decision,
            admission_receipt=chosen.receipt,
            candidate=chosen.candidate,
            base=chosen.base,
            target=target,
            checkout=bench.checkout,
            on_mismatch=on_mismatch,
        ),
        ApplyPorts(
            repository=bench.repository,
            store=bench.store,
            directory=bench.directory,
            announce=announcer(recorder, "candidateapply.apply"),
        ),
    )
    recorder.record("apply", application.receipt, detail=str(application.target), candidate_raw=chosen.candidate.raw)
    application.finish()
    return application, verify_chosen(bench, chosen, application.receipt, application.target, recorder)


def verify_chosen(
    bench: Workbench, chosen: Chosen, receipt: Sealed[Receipt], target: Path, recorder: Recorder
) -> Verified:
    """Look at a target and record what is there, whatever it is."""
    verified = verify_application(
        chosen.decision,
        chosen.candidate,
        receipt,
        chosen.base,
        target,
        git=bench.repository.git.executable,
    )
    recorder.record("verify", verified.verification, detail=str(target), candidate_raw=chosen.candidate.raw)
    recorder.record("verify", verified.record, detail=str(target), candidate_raw=chosen.candidate.raw)
    recorder.checkpoint()
    return verified


def disposition_of(application: Application, verified: Verified) -> RunDisposition:
    """The run's disposition after an application."""
    return disposition_after(application.receipt.document.disposition, verified.verification.document.status)


def applier(bench: Workbench, target: str, on_mismatch: Literal["keep", "restore"], recorder: Recorder) -> Apply:
    """The apply step of ``run --apply TARGET``."""
    place = (bench.places.cwd / target).absolute()

    def apply(run: Run, admission: Admission) -> Applied:
        chosen = Chosen(admission.decision, admission.receipt, present(run.trace.candidate), run.inputs.snapshot)
        for line in finish_interrupted(bench, recorder):
            run.ports.progress.say(line)
        application, verified = apply_chosen(bench, chosen, place, on_mismatch, recorder)
        return Applied(
            disposition_of(application, verified),
            application.receipt.digest,
            verified.verification.digest,
            f"target {application.target}. {application.receipt.document.detail}".rstrip(),
        )

    return apply


def finish_interrupted(bench: Workbench, recorder: Recorder) -> list[str]:
    """Finish what an earlier, interrupted application or undo left, record it in its own run, and say so."""

    def base_of(commit: str) -> BaseSnapshot:
        return BaseSnapshot.take(bench.repository, commit, cache=bench.cache)

    lines = []
    for journal, outcome in recover(bench.directory, bench.store, base_of):
        if isinstance(outcome, Application | Undone):
            owner = _run_of(bench, digest_of(journal.request))
            own = recorder if owner is None else recorder.of_run(owner)
            own.record("apply", outcome.receipt, detail=f"recovered: {outcome.target}")
            outcome.finish()
        lines.append(words(journal, outcome))
    return lines


def _run_of(bench: Workbench, request_digest: str) -> str | None:
    """The run that recorded an application request; None when the ledger does not hold it."""
    with ledger_store(bench) as store:
        for history in read_runs(store.lines(0, store.tail().size), bench.registry, bench.store):
            if any(request.digest == request_digest for request in history.all(Request)):
                return history.run_id
    return None
