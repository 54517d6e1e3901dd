"""Undo: the base again, byte for byte, in the target of one application; refused when a person changed the target."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from candidateapply.apply import Announce
from candidateapply.documents import Journal, Receipt, Request, UndoReceipt
from candidateapply.journal import TargetFiles, canonical_target
from candidateapply.observing import changed_by_others
from candidateapply.plan import planned_writes, reversed_writes
from candidateapply.writing import keep_contents, write_changes
from runner.change import entry_of
from runner.documents import Candidate
from runner.snapshot import BaseSnapshot
from savant.contracts.document import Document, Sealed, digest_of, seal
from savant.contracts.errors import Conflict, RefusedInput, VerificationError
from savant.files.paths import to_raw, to_text
from savant.repository.manifest import Manifest, diff
from savant.repository.worktree import observe_tree
from savant.store.port import ObjectStore

SHOWN: Final = 5
UNTOUCHED: Final = "Nothing was undone."


class Undone(msgspec.Struct, frozen=True):
    """An undo as it ended; ``finish`` when its receipt is recorded."""

    receipt: Sealed[UndoReceipt]
    target: Path
    finish: Callable[[], None]


class UndoInputs(msgspec.Struct, frozen=True, kw_only=True):
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
    _refuse_lineage(inputs)
    candidate = inputs.candidate.document
    target, places = canonical_target(inputs.target), TargetFiles(directory)
    with ExitStack() as held:
        held.enter_context(places.locked(target))
        if places.journal(target) is not None:
            raise Conflict(
                "conflict.undo-recovery-pending",
                f"An earlier write to {target} was interrupted.",
                untouched=UNTOUCHED,
                fix="savant undo finishes it first; run it again.",
            )
        marker = places.marker(target)
        if marker is None or marker.request_digest != inputs.request.digest:
            what = "no application" if marker is None else "another application"
            raise RefusedInput(
                "refused.undo-not-applied",
                f"{target} holds {what}.",
                untouched=UNTOUCHED,
                fix="savant show says what was applied where.",
            )
        _refuse_changed(target, inputs.base, candidate)
        writes = planned_writes(candidate)
        keep_contents(inputs.base, writes, store)
        announce(inputs.request, f"restore the base in {target}")
        journal = Journal(
            action="undo",
            phase="writing",
            target=str(target),
            entry="",
            request=inputs.request.document,
            receipt_digest=inputs.receipt.digest,
            expected_before=candidate.final_digest,
            expected_after=candidate.input_digest,
            writes=reversed_writes(writes),
        )
        places.begin(journal)
        return carry_out_undo(journal, inputs.base, store, places, held.pop_all())


def _refuse_lineage(inputs: UndoInputs) -> None:
    receipt, request, candidate = inputs.receipt, inputs.request, inputs.candidate
    sealed: tuple[Sealed[Document], ...] = (receipt, request, candidate)
    named = (receipt.document.request_digest, receipt.document.candidate_digest, request.document.candidate_digest)
    if any(item.digest != digest_of(item.document) for item in sealed) or named != (
        request.digest,
        candidate.digest,
        candidate.digest,
    ):
        raise _foreign("The receipt is of another application.")
    if inputs.base.manifest.digest != candidate.document.input_digest:
        raise _foreign("The base is not the one that the candidate was made from.")


def _foreign(message: str) -> RefusedInput:
    return RefusedInput(
        "refused.undo-lineage", message, untouched=UNTOUCHED, fix="savant show says what was applied where."
    )


def carry_out_undo(
    journal: Journal, base: BaseSnapshot, store: ObjectStore, places: TargetFiles, held: ExitStack
) -> Undone:
    """Write what an undo's journal says; also what recovery does after a crash.

    :param held: what holds the target's lock; closed when the undo is finished, or by an error.
    :raises Conflict: ``conflict.undo-target-changed``: a path is neither as applied nor as in the base.
    :raises VerificationError: ``unverified.undo``.
    """
    with held:
        target = Path(journal.target)
        foreign = changed_by_others(target, journal.writes)
        if foreign:
            raise _changed(target, foreign)
        write_changes(target, journal.writes, store)
        found = observe_tree(target, expected=base.manifest)
        if found.digest != journal.request.input_digest or journal.receipt_digest is None:
            raise VerificationError(
                "unverified.undo",
                f"{target} is not the base after the undo: {_paths(base.manifest, found)}",
                fix="Take these paths out of the target, then run savant undo again.",
            )
        receipt = seal(
            UndoReceipt(
                application_receipt_digest=journal.receipt_digest,
                candidate_digest=journal.request.candidate_digest,
                restored_digest=found.digest,
                restored_paths=tuple(sorted((w.path for w in journal.writes), key=to_raw)),
            )
        )
        still_held = held.pop_all()

    def finish() -> None:
        with still_held:
            places.release(target)
            places.end(target)

    return Undone(receipt, target, finish)


def _refuse_changed(target: Path, base: BaseSnapshot, candidate: Candidate) -> None:
    try:
        found = observe_tree(target, expected=base.manifest)
    except RefusedInput as error:
        raise _changed(target, [error.message]) from error
    if found.digest == candidate.final_digest:
        return
    wanted = {to_raw(o.path): entry_of(o.after) for o in candidate.operations}
    differing = {path: after for path, _, after in diff(base.manifest, found)}
    changed = [
        p for p in {*wanted, *differing} if p not in wanted or wanted[p] != differing.get(p, base.manifest.get(p))
    ]
    raise _changed(target, [to_text(path) for path in sorted(changed)])


def _changed(target: Path, paths: list[str]) -> Conflict:
    return Conflict(
        "conflict.undo-target-changed",
        f"{target} was changed since it was applied: {', '.join(paths[:SHOWN])}",
        untouched="Nothing was undone and nothing was lost.",
        fix="Save your changes elsewhere and take them out of the target, then undo again.",
    )


def _paths(base: Manifest, found: Manifest) -> str:
    return ", ".join(to_text(path) for path, _, _ in diff(base, found)[:SHOWN])
