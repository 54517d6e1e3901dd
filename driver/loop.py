"""The loop: the current phase alone selects the next owner call; a savepoint is recorded before each.

It reads typed state, outcomes and receipts and nothing else. It ends with a terminal session, or with one of the
distinct stops that leave the session where it is.
"""

from __future__ import annotations

from driver.documents import RunDisposition, Savepoint, Stage
from driver.inputs import RunInputs, RunPorts
from driver.step import STEPS, Run
from savant.contracts.document import seal


def run_session(inputs: RunInputs, ports: RunPorts) -> tuple[Run, RunDisposition]:
    """Run the session until it is terminal or stops: ``candidate-ready``, ``terminal-failure`` or a stop.

    :raises SavantError: in mode ``enforce``, when a record cannot be made durable; nothing was done after it.
    """
    run = Run(inputs, ports)
    for identity in inputs.identities:
        ports.recorder.record_once("driver", identity)
    ports.recorder.record_once("evaluator", inputs.evaluator_policy)
    ports.recorder.record_once("admission", inputs.admission_policy)
    ports.recorder.record_once("driver", inputs.driver_policy)
    if inputs.is_accounted:
        ports.recorder.record_once("driver", inputs.accounting)
    ports.recorder.record_once("driver", inputs.session)
    while True:
        phase = run.host.state.phase
        if phase == "succeeded":
            return run, "candidate-ready"
        if phase == "failed":
            return run, "terminal-failure"
        if run.steps >= inputs.driver_policy.document.max_steps:
            return run, "step-limit-reached"
        if ports.cancellation.is_set():
            return run, "interrupted"
        next_call, step = STEPS[phase]
        savepoint(run, "synthesis", next_call, None)
        run.steps += 1
        stop = step(run)
        if stop is not None:
            return run, stop


def savepoint(run: Run, stage: Stage, next_call: str, subject: str | None) -> None:
    """Record where the run stands before its next owner call."""
    run.savepoints += 1
    run.ports.recorder.record(
        "driver",
        seal(
            Savepoint(
                session_digest=run.inputs.session.digest,
                sequence=run.savepoints,
                stage=stage,
                phase=run.host.state.phase,
                state_digest=run.host.digest,
                steps=run.steps,
                next_call=next_call,
                subject_digest=subject,
            )
        ),
    )
