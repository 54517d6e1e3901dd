"""Undo: the base again, byte for byte, in the target of one application; refused when a person changed the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from candidateapply.apply import Announce
from candidateapply.documents import Journal, Receipt, Request, UndoReceipt
from candidateapply.journal import TargetFiles, canonical_target
from candidateapply.plan import planned_writes, reversed_writes
from candidateapply.writing import keep_contents, observe, write_changes
from runner.change import entry_of
from runner.documents import Candidate
from runner.snapshot import BaseSnapshot
from savant.contracts.document import Sealed, seal
from savant.contracts.errors import Conflict, RefusedInput, VerificationError
from savant.files.paths import to_raw, to_text
from savant.repository.manifest import Manifest, diff
from savant.store.port import ObjectStore

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Undone:
    """An undo as it ended; ``finish`` when its receipt is recorded."""

    receipt: Sealed[UndoReceipt]
    target: Path
    finish: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoInputs:
    """Which application is undone, and where it was made."""

    request: Sealed[Request]
    receipt: Sealed[Receipt]
    candidate: Sealed[Candidate]
    base: BaseSnapshot
    target: Path


def undo_application(inputs: UndoInputs, store: ObjectStore, directory: Path, announce: Announce) -> Undone:
    """Restore the base in a target.

    :raises RefusedInput: ``refused.undo-lineage``, ``refused.undo-not-applied``.
    :raises Conflict: ``conflict.undo-target-changed`` naming the paths; nothing was lost. ``conflict.apply-locked``,
        ``conflict.undo-recovery-pending``.
    :raises VerificationError: ``unverified.undo`` when the target is not the base afterwards.
    """
    receipt, candidate = inputs.receipt.document, inputs.candidate.document
    if (receipt.candidate_digest, receipt.request_digest) != (inputs.candidate.digest, inputs.request.digest):
        raise RefusedInput(
            "refused.undo-lineage", "The receipt is of another application.", untouched="Nothing was undone."
        )
    target, files = canonical_target(inputs.target), TargetFiles(directory)
    with files.locked(target):
        if files.journal(target) is not None:
            raise Conflict(
                "conflict.undo-recovery-pending",
                f"An earlier write to {target} was interrupted.",
                untouched="Nothing was undone.",
                fix="savant apply finishes it first.",
            )
        if not files.is_consumed(target):
            raise RefusedInput(
                "refused.undo-not-applied", f"{target} holds no application.", untouched="Nothing was undone."
            )
        _refuse_changed(target, inputs.base, candidate.final_digest, candidate)
        writes = planned_writes(candidate)
        keep_contents(inputs.base, writes, store)
        announce(inputs.request, f"restore the base in {target}")
        journal = Journal(
            action="undo",
            target=str(target),
            request=inputs.request.document,
            receipt_digest=inputs.receipt.digest,
            expected_before=candidate.final_digest,
            expected_after=candidate.input_digest,
            writes=reversed_writes(writes),
        )
        files.begin(journal)
        return carry_out_undo(journal, inputs.base, store, files)


def carry_out_undo(journal: Journal, base: BaseSnapshot, store: ObjectStore, files: TargetFiles) -> Undone:
    """Write what an undo's journal says; also what recovery does after a crash."""
    target = Path(journal.target)
    write_changes(target, journal.writes, store)
    found = observe(target, base).manifest
    if found.digest != journal.request.input_digest or journal.receipt_digest is None:
        raise VerificationError(
            "unverified.undo",
            f"{target} is not the base after the undo: {_paths(base.manifest, found)}",
            fix="Look at the paths; savant verify says what is there.",
        )
    receipt = seal(
        UndoReceipt(
            application_receipt_digest=journal.receipt_digest,
            candidate_digest=journal.request.candidate_digest,
            restored_digest=found.digest,
            restored_paths=tuple(sorted((w.path for w in journal.writes), key=to_raw)),
        )
    )

    def finish() -> None:
        files.release(target)
        files.end(target)

    return Undone(receipt, target, finish)


def _refuse_changed(target: Path, base: BaseSnapshot, final_digest: str, candidate: Candidate) -> None:
    found = observe(target, base).manifest
    if found.digest == final_digest:
        return
    wanted = {to_raw(o.path): entry_of(o.after) for o in candidate.operations}
    differing = {path: after for path, _, after in diff(base.manifest, found)}
    changed = [path for path in {*wanted, *differing} if path not in wanted or wanted[path] != found.get(path)]
    shown = ", ".join(to_text(path) for path in sorted(changed)[:SHOWN])
    raise Conflict(
        "conflict.undo-target-changed",
        f"{target} was changed since it was applied: {shown or 'paths differ'}",
        untouched="Nothing was undone and nothing was lost.",
        fix="Save your changes elsewhere and take them out of the target, then undo again.",
    )


def _paths(base: Manifest, found: Manifest) -> str:
    return ", ".join(to_text(path) for path, _, _ in diff(base, found)[:SHOWN])
