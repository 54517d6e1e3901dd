"""Application: exactly the admitted bytes into a dedicated target. The shell of O5B.

Every refusal comes before the first write. Then: contents kept, journal and marker durable, paths written through
handles, the whole target read again, three digests compared. The journal goes, and the target's lock with it, only when
the caller has recorded the receipt (:meth:`Application.finish`): a crash at any instant is found and finished by the
next command, and nobody else finishes what is still going on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec
from msgspec import structs

from admission.documents import Decision
from admission.documents import Receipt as AdmissionReceipt
from candidateapply.documents import Disposition, Journal, Marker, OnMismatch, Receipt, Request
from candidateapply.journal import TargetFiles, canonical_target
from candidateapply.observing import Observed, changed_by_others, input_below, observe
from candidateapply.plan import planned_writes, reversed_writes
from candidateapply.target import UNTOUCHED, refuse_checkout, refuse_conversion, refuse_hazards, verify_existing
from candidateapply.writing import keep_contents, write_changes
from runner.content import CandidateTree, change_set_of, verify_candidate
from runner.documents import Candidate
from runner.snapshot import BaseSnapshot
from savant.contracts.document import Sealed, digest_of, seal
from savant.contracts.errors import Conflict, RefusedInput, SavantError, Unverifiable, VerificationError
from savant.files.paths import to_raw
from savant.repository.git import Repository
from savant.repository.target import check_place, create_target, planned_entry, remove_target
from savant.repository.worktree import observe_tree
from savant.store.port import ObjectStore

Announce = Callable[[Sealed[Request], str], None]
"""Told durably what is about to be written and where, before anything is."""


class ApplyInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What may be applied, and where.

    :param target: a folder that does not exist yet (a worktree is made there), or a dedicated target that does.
    :param checkout: the checkout that the command was started for.
    """

    decision: Sealed[Decision]
    admission_receipt: Sealed[AdmissionReceipt]
    candidate: Sealed[Candidate]
    base: BaseSnapshot
    target: Path
    checkout: Path | None
    on_mismatch: OnMismatch


class ApplyPorts(msgspec.Struct, frozen=True, kw_only=True):
    """What an application does its work with.

    :param directory: the repository's Savant folder.
    """

    repository: Repository
    store: ObjectStore
    directory: Path
    announce: Announce


class Application(msgspec.Struct, frozen=True):
    """An application as it ended; ``finish`` when its receipt is recorded. Until then its target stays locked."""

    receipt: Sealed[Receipt]
    target: Path
    finish: Callable[[], None]


def apply_candidate(inputs: ApplyInputs, ports: ApplyPorts) -> Application:
    """Apply an admitted candidate.

    :raises RefusedInput: ``refused.apply-...``: not-admitted, wrong-artifact, lineage, hazard, conversion,
        unsupported-operation, invoking-checkout, not-dedicated, wrong-head, dirty, target-link, target-name; and
        ``refused.target-...`` for a place where no target can be made. Nothing was written.
    :raises Conflict: ``conflict.apply-consumed``, ``conflict.apply-locked``, ``conflict.apply-recovery-pending``,
        ``conflict.apply-worktree-entry``.
    :raises VerificationError: a candidate or blob that is not what its digest says; nothing was written.
    :raises Unverifiable: ``unverifiable.object-missing``; nothing was written.
    :raises PortError: the disk failed; the next command goes on.
    """
    target, request = canonical_target(inputs.target), seal(build_request(inputs))
    writes = planned_writes(inputs.candidate.document)
    tree = CandidateTree(inputs.base, inputs.candidate.document, ports.store)
    refuse_hazards(inputs.base, tree)
    contents = {to_raw(w.path): (w.after.mode, tree.read(to_raw(w.path))) for w in writes if w.after is not None}
    files = {path: data for path, (mode, data) in contents.items() if mode != "symlink"}
    removed = [to_raw(w.path) for w in writes if w.after is None]
    commit = inputs.candidate.document.base_commit
    refuse_conversion(ports.repository, commit, files, removed)
    refuse_checkout(target, inputs.checkout)
    places = TargetFiles(ports.directory)
    with ExitStack() as held:
        held.enter_context(places.locked(target))
        _refuse_taken(places, target)
        if request.document.target == "existing":
            verify_existing(
                target,
                ports.repository,
                inputs.base,
                also=lambda opened: refuse_conversion(opened, commit, files, removed),
            )
        else:
            check_place(ports.repository, target)
        journal = Journal(
            action="apply",
            phase="writing",
            target=str(target),
            entry="",
            request=request.document,
            receipt_digest=None,
            expected_before=request.document.input_digest,
            expected_after=request.document.final_digest,
            writes=writes,
        )
        keep_contents(inputs.base, writes, ports.store)
        if request.document.target == "existing":
            ports.announce(request, f"write to {target}")
        else:
            journal = _make(journal, inputs, ports, places)
        places.begin(journal)
        return carry_out(journal, inputs.base, ports.store, places, held.pop_all())


def _refuse_taken(places: TargetFiles, target: Path) -> None:
    if places.journal(target) is not None:
        raise Conflict(
            "conflict.apply-recovery-pending",
            f"An earlier write to {target} was interrupted.",
            untouched="Nothing was written.",
            fix="savant apply finishes it first; run it again.",
        )
    if places.marker(target) is None:
        return
    if _exists(target):
        raise places.consumed(target)
    places.release(target)  # the target that was consumed is gone: another one will stand there


def _make(journal: Journal, inputs: ApplyInputs, ports: ApplyPorts, places: TargetFiles) -> Journal:
    """Announce and make the target; the journal of the writes that follow. A failure leaves nothing behind."""
    target = Path(journal.target)
    entry = planned_entry(ports.repository, target)
    ports.announce(seal(journal.request), f"make the worktree {target} with its entry {entry}")
    journal = structs.replace(journal, entry=os.fsdecode(entry))
    places.begin(structs.replace(journal, phase="creating"))
    try:
        made = create_target(ports.repository, journal.request.base_commit, target, manifest=inputs.base.manifest)
        if made.entry != entry:
            remove_target(made)
            raise Conflict(
                "conflict.apply-worktree-entry",
                f"Somebody else made the worktree entry {entry} meanwhile.",
                untouched="The target was removed again.",
                fix="Try again.",
            )
    except SavantError:
        places.end(target)
        raise
    os.sync()  # its files are written without a sync of their own, and the journal will say that they are there
    return journal


def carry_out(
    journal: Journal, base: BaseSnapshot, store: ObjectStore, places: TargetFiles, held: ExitStack
) -> Application:
    """Write what a journal says and look at the whole target; also what recovery does after a crash.

    :param held: what holds the target's lock; closed when the application is finished, or by an error.
    """
    with held:
        target, request = Path(journal.target), journal.request
        places.consume(
            Marker(target=str(target), candidate_digest=request.candidate_digest, request_digest=digest_of(request))
        )
        detail, must_restore = _write(journal, store)
        observed = observe(target, base)
        found = (input_below(observed.manifest, journal.writes), observed.change.digest, observed.manifest.digest)
        disposition: Disposition = "mismatch-kept"
        if found == (request.input_digest, request.change_digest, request.final_digest):
            disposition, detail = "applied", ""
        else:
            detail = detail or "The target is not what was admitted."
            if must_restore or request.on_mismatch == "restore":
                disposition, words = _restore(journal, base, store)
                detail = f"{detail} {words}"
        receipt = _receipt(journal, disposition, found[0], observed, detail)
        still_held = held.pop_all()

    def finish() -> None:
        with still_held:
            if disposition == "mismatch-restored":
                places.release(target)
            places.end(target)

    return Application(receipt, target, finish)


def _write(journal: Journal, store: ObjectStore) -> tuple[str, bool]:
    """Write, unless somebody else wrote there; what went wrong, and whether the base must be restored for it."""
    target = Path(journal.target)
    foreign = changed_by_others(target, journal.writes)
    if foreign:
        return f"Somebody else changed {', '.join(foreign[:5])} meanwhile: nothing was written over it.", False
    try:
        write_changes(target, journal.writes, store)
    except (Conflict, RefusedInput) as error:
        return f"Something stands in the way: {error.message}", False
    except (Unverifiable, VerificationError) as error:
        return f"The interrupted application cannot be completed: {error.message}", True
    return "", False


def _restore(journal: Journal, base: BaseSnapshot, store: ObjectStore) -> tuple[Disposition, str]:
    target, back = Path(journal.target), reversed_writes(journal.writes)
    if not changed_by_others(target, back):
        try:
            write_changes(target, back, store)
        except (Conflict, RefusedInput, Unverifiable, VerificationError) as error:
            return "mismatch-kept", f"The base could not be restored: {error.message}"
    if observe_tree(target, expected=base.manifest).digest == journal.request.input_digest:
        return "mismatch-restored", "The base was restored."
    return "mismatch-kept", "The base could not be restored; the target was kept."


def _receipt(
    journal: Journal, disposition: Disposition, input_digest: str, observed: Observed, detail: str
) -> Sealed[Receipt]:
    request = journal.request
    return seal(
        Receipt(
            request_digest=digest_of(request),
            decision_digest=request.decision_digest,
            candidate_digest=request.candidate_digest,
            disposition=disposition,
            input_digest=input_digest,
            observed_final_digest=observed.manifest.digest,
            observed_change_digest=observed.change.digest,
            applied_paths=tuple(sorted((write.path for write in journal.writes), key=to_raw)),
            detail=detail,
        )
    )


def build_request(inputs: ApplyInputs) -> Request:
    """The application request: only of the digest that was admitted.

    :raises RefusedInput: ``refused.apply-not-admitted``, ``refused.apply-wrong-artifact``, ``refused.apply-lineage``.
    :raises VerificationError: ``unverified.candidate-...`` when the candidate is not what it says of its base.
    """
    decision, candidate = inputs.decision.document, inputs.candidate.document
    receipt, base = inputs.admission_receipt.document, inputs.base
    if decision.outcome not in ("admitted", "admitted-with-conditions"):
        raise _refused("not-admitted", f"The decision is {decision.outcome}: it does not allow an application.")
    if not decision.candidate_digest == inputs.candidate.digest == digest_of(candidate):
        raise _refused("wrong-artifact", "The candidate is not the one that was admitted.")
    for what, sealed in (("decision", inputs.decision), ("admission receipt", inputs.admission_receipt)):
        if sealed.digest != digest_of(sealed.document):
            raise _refused("lineage", f"The {what} is not the one that its digest names.")
    named = (receipt.decision_digest, receipt.candidate_digest, receipt.request_digest, receipt.outcome)
    if named != (inputs.decision.digest, inputs.candidate.digest, decision.request_digest, decision.outcome):
        raise _refused("lineage", "The admission receipt is of another decision or candidate.")
    if (candidate.base_commit, candidate.input_digest) != (base.document.document.base_commit, base.manifest.digest):
        raise _refused("lineage", "The base is not the one that the candidate was made from.")
    if tuple((o.path, o.kind) for o in candidate.operations) != tuple((e.path, e.kind) for e in decision.envelope):
        raise _refused("lineage", "The envelope of the decision is not the candidate's scope.")
    verify_candidate(base, candidate, change_set_of(candidate))
    return Request(
        admission_receipt_digest=inputs.admission_receipt.digest,
        decision_digest=inputs.decision.digest,
        candidate_digest=inputs.candidate.digest,
        base_commit=candidate.base_commit,
        input_digest=candidate.input_digest,
        change_digest=candidate.change_digest,
        final_digest=candidate.final_digest,
        envelope=decision.envelope,
        target="existing" if _exists(inputs.target) else "created",
        on_mismatch=inputs.on_mismatch,
    )


def _exists(target: Path) -> bool:
    return target.exists() and (not target.is_dir() or any(target.iterdir()))


def _refused(code: str, message: str) -> RefusedInput:
    return RefusedInput(
        f"refused.apply-{code}",
        message,
        untouched=UNTOUCHED,
        fix="savant show says what was decided about which candidate.",
    )
