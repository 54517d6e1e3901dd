"""One whole run: open, session, admission, application when it was asked for, receipt, close.

Each stage has a disposition of its own; a later stage runs only when the one before it allows it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from admission.compose import Chain
from admission.owners import owned_paths
from driver.admit import Admission, Recomputed, admit, recompute
from driver.documents import Receipt, RunDisposition
from driver.inputs import RunInputs, RunPorts
from driver.loop import run_session, savepoint
from driver.step import Run, present
from savant.contracts.document import Sealed, seal
from savant.contracts.errors import SavantError
from synthesis.documents import Limitation


class Applied(msgspec.Struct, frozen=True):
    """What an application came to: the run's disposition, and the digests it leaves."""

    disposition: RunDisposition
    application_receipt_digest: str | None
    verification_digest: str | None
    detail: str


Apply = Callable[[Run, Admission], Applied]
"""Applies an admitted candidate and verifies the target; given only with an explicit ``--apply``."""


class RunResult(msgspec.Struct, frozen=True):
    """How a run ended, for whoever shows it."""

    run: Run
    disposition: RunDisposition
    receipt: Sealed[Receipt]
    admission: Admission | None
    applied: Applied | None
    detail: str


DISPOSITION_OF: dict[str, RunDisposition] = {
    "admitted": "admitted",
    "admitted-with-conditions": "admitted-with-conditions",
    "waiting": "waiting",
    "refused": "admission-refused",
    "uncertifiable": "uncertifiable",
}
"""The run's disposition for each decision."""


def run_whole(inputs: RunInputs, ports: RunPorts, apply: Apply | None) -> RunResult:
    """Run one task to its end and record everything.

    :raises SavantError: in mode ``enforce``, when a record cannot be made durable.
    """
    recorder = ports.recorder
    recorder.open_run()
    for config in (inputs.provider_config, *inputs.auditor_configs):
        recorder.record_once("provider-host", config)
    run, disposition = run_session(inputs, ports)
    admission: Admission | None = None
    applied: Applied | None = None
    if disposition == "candidate-ready":
        admission = _admit(run)
        disposition = DISPOSITION_OF[admission.decision.document.outcome]
        ports.progress.say(f"admission: {admission.decision.document.outcome}")
        if apply is not None and disposition in ("admitted", "admitted-with-conditions"):
            applied = _apply(run, admission, apply)
            disposition = applied.disposition
    receipt = seal(_receipt(run, disposition, admission, applied))
    recorder.record("driver", receipt)
    recorder.close_run(disposition)
    recorder.checkpoint()
    detail = run.trace.stopped_by if applied is None else applied.detail
    return RunResult(run, disposition, receipt, admission, applied, detail)


def _admit(run: Run) -> Admission:
    inputs, trace, recorder = run.inputs, run.trace, run.ports.recorder
    candidate = present(trace.candidate)
    savepoint(run, "admission", "admission.decide", candidate.digest)

    def chain(recomputed: Recomputed) -> Chain:
        terminal = run.host.state.receipt
        return Chain(
            session=inputs.session,
            plan=present(trace.plan),
            attempt=present(trace.attempt),
            candidate=candidate,
            runner_receipt=present(trace.runner_receipt),
            evaluator_policy=inputs.evaluator_policy,
            evaluation=present(trace.evaluation),
            evaluation_receipt=present(trace.evaluation_receipt),
            synthesis_receipt=present(None if terminal is None else seal(terminal)),
            policy=inputs.admission_policy,
            base_manifest_digest=inputs.snapshot.manifest.digest,
            recomputed=recomputed.change_set,
            final_digest=recomputed.final_digest,
            amendment=run.amended,
        )

    recomputed = recompute(inputs.snapshot, candidate.document, run.ports.store, inputs.evaluator_policy.document)
    owners = owned_paths(recomputed.scope, inputs.owners, inputs.people, inputs.requester)
    admission = admit(chain, recomputed, requester=inputs.requester, owners=owners, as_of=inputs.as_of)
    recorder.record_once("admission", admission.request)
    recorder.record("admission", admission.decision, candidate_raw=candidate.raw)
    recorder.record("admission", admission.receipt, candidate_raw=candidate.raw)
    recorder.checkpoint()
    return admission


def _apply(run: Run, admission: Admission, apply: Apply) -> Applied:
    savepoint(run, "application-pending", "candidateapply.apply", present(run.trace.candidate).digest)
    try:
        return apply(run, admission)
    except SavantError as error:
        return Applied("apply-failed", None, None, str(error))


def _receipt(run: Run, disposition: RunDisposition, admission: Admission | None, applied: Applied | None) -> Receipt:
    state, trace = run.host.state, run.trace
    return Receipt(
        session_digest=run.inputs.session.digest,
        disposition=disposition,
        phase=state.phase,
        reason=None if state.receipt is None else state.receipt.reason,
        steps=run.steps,
        state_digest=run.host.digest,
        provider_receipts=tuple(run.calls.receipts),
        runner_receipts=tuple(trace.runner_receipts),
        evaluation_receipts=tuple(trace.evaluation_receipts),
        synthesis_receipt_digest=None if state.receipt is None else seal(state.receipt).digest,
        candidate_digest=None if trace.candidate is None else trace.candidate.digest,
        admission_request_digest=None if admission is None else admission.request.digest,
        decision_digest=None if admission is None else admission.decision.digest,
        application_receipt_digest=None if applied is None else applied.application_receipt_digest,
        verification_digest=None if applied is None else applied.verification_digest,
        limitations=tuple(_limitations(run)),
    )


def _limitations(run: Run) -> list[Limitation]:
    found = [*run.inputs.limitations]
    if run.ports.recorder.mode != "enforce":
        found.append(
            Limitation(
                source="driver.ledger",
                text=f"The ledger mode was {run.ports.recorder.mode}: effects were not held back for their records.",
                blocking=False,
            )
        )
    return found
