"""``apply``, ``undo`` and ``verify``: what happens to a target, always recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from savant.cli.exits import EXITS, exit_code
from savant.cli.options import format_option, repository_option
from savant.cli.render import Output

if TYPE_CHECKING:
    from admission.documents import Verification
    from candidateapply.documents import Receipt
    from driver.history import RunHistory
    from driver.recorder import Recorder
    from savant.cli.applying import Chosen
    from savant.cli.workbench import Workbench
    from savant.contracts.document import Sealed


@click.command(
    "apply",
    help="Apply an admitted candidate into a dedicated worktree. Never commits, never touches your checkout.",
)
@click.argument("run", metavar="[RUN]", default="latest")
@click.argument("target", required=False, type=click.Path())
@repository_option
@click.option("--new", is_flag=True, help="Into a fresh worktree beside the repository (or at TARGET).")
@click.option("--on-mismatch", type=click.Choice(["keep", "restore"]), default="keep", help="If the target differs.")
@format_option
def apply(
    run: str, target: str | None, repo: str, new: bool, on_mismatch: Literal["keep", "restore"], format_: str
) -> int:
    """Apply the candidate of a run."""
    from savant.cli.applying import apply_chosen, disposition_of, finish_interrupted
    from savant.cli.workbench import Workbench
    from savant.contracts.errors import UsageError

    output = Output(as_json=format_ == "json")
    if target is None and new and ("/" in run or run.startswith(".")):
        run, target = "latest", run
    with Workbench(repo) as bench, recording(bench, run) as (history, recorder):
        if target is None and not new:
            raise UsageError(
                "usage.apply-target",
                "An application needs a target.",
                untouched="Nothing was written.",
                fix="savant apply --new makes a worktree beside the repository.",
            )
        place = _new_place(bench, history.run_id) if target is None else (bench.places.cwd / target).absolute()
        for line in finish_interrupted(bench, recorder):
            output.progress(line)
        chosen = choose(bench, history)
        application, verified = apply_chosen(bench, chosen, place, on_mismatch, recorder)
        ending = disposition_of(application, verified)
    code = exit_code(ending)
    receipt = application.receipt
    output.document(
        "apply",
        ending,
        code,
        {
            "run": history.run_id,
            "target": str(application.target),
            "receipt": receipt.digest,
            "disposition": receipt.document.disposition,
            "verification": verified.verification.document.status,
            "paths": list(receipt.document.applied_paths),
        },
    )
    if not output.as_json:
        output.say(f"{EXITS[ending].words}  (run {history.run_id[:12]})", f"  target: {application.target}")
        output.say(*_violations(verified.verification))
        output.say("  HEAD is detached at the base, nothing is staged, your checkout was not touched.")
        if ending == "applied-compliant":
            output.say(
                f"  next: git -C {application.target} status",
                f"  next: git -C {application.target} switch -c NAME && git -C {application.target} add -A",
                f'  next: git -C {application.target} commit --trailer "Savant-Run: {history.run_id}"',
                f"  next: savant undo {application.target}",
            )
    return code


@click.command("undo", help="Restore the base in a target, byte for byte. Refuses when you changed the target since.")
@click.argument("target", required=False, type=click.Path())
@repository_option
@format_option
def undo(target: str | None, repo: str, format_: str) -> int:
    """Undo the newest application, or the one in a target."""
    from candidateapply.documents import Request
    from candidateapply.undo import UndoInputs, undo_application
    from savant.cli.applying import announcer, finish_interrupted
    from savant.cli.workbench import Workbench

    output = Output(as_json=format_ == "json")
    with Workbench(repo) as bench:
        history, receipt, place = applied_in(bench, target)
        with recording(bench, history.run_id) as (history, recorder):
            for line in finish_interrupted(bench, recorder):
                output.progress(line)
            chosen = choose(bench, history, receipt)
            undone = undo_application(
                UndoInputs(
                    request=history.by_digest(Request, receipt.document.request_digest),
                    receipt=receipt,
                    candidate=chosen.candidate,
                    base=chosen.base,
                    target=place,
                ),
                bench.store,
                bench.directory,
                announcer(recorder, "candidateapply.undo"),
            )
            recorder.record("apply", undone.receipt, detail=str(place), candidate_raw=chosen.candidate.raw)
            undone.finish()
            recorder.checkpoint()
    output.document(
        "undo",
        "ok",
        0,
        {
            "run": history.run_id,
            "target": str(place),
            "receipt": undone.receipt.digest,
            "paths": list(undone.receipt.document.restored_paths),
        },
    )
    if not output.as_json:
        output.say(
            f"UNDONE: {place} is the base again, byte for byte.",
            f"  next: git -C {bench.checkout or bench.repository.git_dir} worktree remove {place}",
        )
    return 0


STATUS_ENDING = {
    "scope-compliant": "ok",
    "scope-violated": "scope-violated",
    "stale": "stale",
    "uncertifiable": "verification-failed",
}
STATUS_WORDS = {
    "scope-compliant": "VERIFIED: exactly the admitted paths and bytes.",
    "scope-violated": "CHANGED: the target differs from what was admitted.",
    "stale": "STALE: the base or the decision changed since.",
    "uncertifiable": "CANNOT DECIDE: the target could not be read.",
}


@click.command("verify", help="Look at a target independently of what was written, and record what is there.")
@click.argument("target", required=False, type=click.Path())
@repository_option
@format_option
def verify(target: str | None, repo: str, format_: str) -> int:
    """Verify the newest application, or the one in a target."""
    from savant.cli.applying import verify_chosen
    from savant.cli.workbench import Workbench

    output = Output(as_json=format_ == "json")
    with Workbench(repo) as bench:
        history, receipt, place = applied_in(bench, target)
        with recording(bench, history.run_id) as (history, recorder):
            verified = verify_chosen(bench, choose(bench, history, receipt), receipt, place, recorder)
    document = verified.verification.document
    ending = STATUS_ENDING[document.status]
    code = exit_code(ending)
    output.document(
        "verify",
        ending,
        code,
        {
            "run": history.run_id,
            "target": str(place),
            "status": document.status,
            "verification": verified.verification.digest,
            "violations": [{"code": v.code, "path": v.path} for v in document.violations],
        },
    )
    if not output.as_json:
        output.say(STATUS_WORDS[document.status], f"  target: {place}", *_violations(verified.verification))
        output.say("  recorded; nothing was written to the target.")
    return code


def _violations(verification: Sealed[Verification]) -> list[str]:
    return [f"  {v.path}: {v.detail}" for v in verification.document.violations[:20]]


@contextmanager
def recording(bench: Workbench, run: str) -> Iterator[tuple[RunHistory, Recorder]]:
    """The run's records, from a ledger that was verified first, and a recorder that goes on with the run."""
    from driver.recorder import Recorder
    from savant.cli.app import VERSION
    from savant.cli.ledgers import pin_of, writable_ledger
    from savant.cli.lookup import find_run
    from savant.contracts.errors import VerificationError

    bench.need_ledger()
    with writable_ledger(bench) as opened:
        report = opened.ledger.verify(bench.registry, pin_of(bench))
        failure = report.first_failure
        if failure is not None:
            raise VerificationError(
                "unverified.ledger",
                f"The ledger does not verify: {failure.name} at record {failure.seq}: {failure.detail}",
                untouched="Nothing was written.",
                fix="savant ledger verify shows every check.",
            )
        found = find_run(bench, run)
        recorder = Recorder(
            opened.ledger,
            run_id=found.history.run_id,
            mode="enforce",
            clock=bench.clock,
            host=bench.host,
            tool=f"savant/{VERSION}",
        )
        yield found.history, recorder


def choose(bench: Workbench, history: RunHistory, receipt: Sealed[Receipt] | None = None) -> Chosen:
    """The decision, receipt and candidate of a run: the newest decision, or the one that was applied."""
    from admission.documents import Decision
    from admission.documents import Receipt as AdmissionReceipt
    from runner.documents import Candidate
    from runner.snapshot import BaseSnapshot
    from savant.cli.applying import Chosen

    if receipt is None:
        decision = history.need(Decision)
    else:
        decision = history.by_digest(Decision, receipt.document.decision_digest)
    admitted = next(r for r in reversed(history.all(AdmissionReceipt)) if r.document.decision_digest == decision.digest)
    candidate = history.by_digest(Candidate, decision.document.candidate_digest)
    base = BaseSnapshot.take(bench.repository, candidate.document.base_commit, cache=bench.cache)
    return Chosen(decision, admitted, candidate, base)


def applied_in(bench: Workbench, target: str | None) -> tuple[RunHistory, Sealed[Receipt], Path]:
    """The newest application, or the newest in a target (a path, or a run's id): its run, receipt and place.

    :raises UsageError: ``usage.not-applied``.
    """
    from candidateapply.documents import Receipt
    from driver.history import read_runs
    from savant.cli.lookup import ledger_store
    from savant.contracts.errors import UsageError

    wanted = None if target is None else (bench.places.cwd / target).absolute()
    newest: tuple[int, RunHistory, Sealed[Receipt], Path] | None = None
    with ledger_store(bench) as store:
        for history in read_runs(store.lines(0, store.tail().size), bench.registry, bench.store):
            for entry in history.entries:
                if not isinstance(entry.body.document, Receipt):
                    continue
                place = Path((entry.observed.detail or "").removeprefix("recovered: "))
                is_wanted = (
                    wanted is None
                    or (place.exists() and wanted.exists() and place.samefile(wanted))
                    or place == wanted
                    or (target is not None and history.run_id.startswith(target))
                )
                if is_wanted and (newest is None or entry.seq > newest[0]):
                    newest = (entry.seq, history, entry.body, place)  # type: ignore[assignment]
    if newest is None:
        raise UsageError(
            "usage.not-applied",
            "Nothing was applied there." if target else "Nothing was applied yet.",
            untouched="Nothing was written.",
            fix="savant runs lists the runs; savant apply applies one.",
        )
    return newest[1], newest[2], newest[3]


def _new_place(bench: Workbench, run_id: str) -> Path:
    """``../<repository>-savant-<run>``: beside the checkout, never inside it."""
    root = bench.checkout or bench.repository.common_dir
    return root.parent / f"{root.name.removesuffix('.git')}-savant-{run_id[:8]}"
