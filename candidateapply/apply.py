"""Application: exactly the admitted bytes into a dedicated target. The shell of O5B.

Every refusal comes before the first write. Then: contents kept, journal and marker durable, paths written through
handles, the whole target read again, three digests compared. The journal goes only when the caller has recorded the
receipt (:meth:`Application.finish`), so a crash at any instant is found and finished by the next command.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from admission.documents import Decision
from admission.documents import Receipt as AdmissionReceipt
from candidateapply.documents import Journal, Marker, OnMismatch, Receipt, Request
from candidateapply.journal import TargetFiles, canonical_target
from candidateapply.plan import planned_writes, reversed_writes
from candidateapply.target import refuse_checkout, verify_existing
from candidateapply.writing import keep_contents, observe, write_changes
from runner.content import CandidateTree, change_set_of, verify_candidate
from runner.documents import Candidate
from runner.snapshot import BaseSnapshot
from savant.contracts.document import Sealed, digest_of, seal
from savant.contracts.errors import Conflict, RefusedInput
from savant.files.paths import to_raw
from savant.repository.conversion import converted_paths
from savant.repository.git import Repository
from savant.repository.target import check_place, create_target, planned_entry
from savant.store.port import ObjectStore

Announce = Callable[[Sealed[Request], str], None]
"""Told durably what is about to be written and where, before anything is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyInputs:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyPorts:
    """What an application does its work with.

    :param directory: the repository's Savant folder.
    """

    repository: Repository
    store: ObjectStore
    directory: Path
    announce: Announce


@dataclass(frozen=True, slots=True)
class Application:
    """An application as it ended; ``finish`` when its receipt is recorded."""

    receipt: Sealed[Receipt]
    target: Path
    finish: Callable[[], None]


def apply_candidate(inputs: ApplyInputs, ports: ApplyPorts) -> Application:
    """Apply an admitted candidate.

    :raises RefusedInput: ``refused.apply-…``: not admitted, wrong artifact, lineage, hazard, conversion, unsupported
        operation, invoking checkout, not dedicated, wrong HEAD, dirty; nothing was written.
    :raises Conflict: ``conflict.apply-consumed``, ``conflict.apply-locked``, ``conflict.apply-recovery-pending``.
    :raises VerificationError: a candidate or blob that is not what its digest says; nothing was written.
    :raises PortError: the disk failed; the next command goes on.
    """
    request = seal(build_request(inputs))
    writes = planned_writes(inputs.candidate.document)
    tree = CandidateTree(inputs.base, inputs.candidate.document, ports.store)
    _refuse_conversion(inputs, tree, ports.repository)
    target, files = canonical_target(inputs.target), TargetFiles(ports.directory)
    refuse_checkout(target, inputs.checkout)
    with files.locked(target):
        if files.journal(target) is not None:
            raise Conflict(
                "conflict.apply-recovery-pending",
                f"An earlier write to {target} was interrupted.",
                untouched="Nothing was written.",
                fix="savant apply finishes it first; run it again.",
            )
        if files.is_consumed(target):
            raise files.consumed(target)
        _make_ready(inputs, ports, request, target)
        keep_contents(inputs.base, writes, ports.store)
        journal = Journal(
            action="apply",
            target=str(target),
            request=request.document,
            receipt_digest=None,
            expected_before=inputs.candidate.document.input_digest,
            expected_after=inputs.candidate.document.final_digest,
            writes=writes,
        )
        files.begin(journal)
        return carry_out(journal, inputs.base, ports.store, files)


def carry_out(journal: Journal, base: BaseSnapshot, store: ObjectStore, files: TargetFiles) -> Application:
    """Write what a journal says and look at the whole target; also what recovery does after a crash."""
    target, request = Path(journal.target), journal.request
    files.consume(
        Marker(target=str(target), candidate_digest=request.candidate_digest, request_digest=digest_of(request))
    )
    write_changes(target, journal.writes, store)
    observed = observe(target, base)
    same = (observed.manifest.digest, observed.change.digest) == (request.final_digest, request.change_digest)
    detail = "" if same else "The target is not what was admitted."
    restored = False
    if not same and request.on_mismatch == "restore":
        write_changes(target, reversed_writes(journal.writes), store)
        restored = observe(target, base).manifest.digest == request.input_digest
        detail += " The base was restored." if restored else " The base could not be restored; the target was kept."
    receipt = seal(
        Receipt(
            request_digest=digest_of(request),
            decision_digest=request.decision_digest,
            candidate_digest=request.candidate_digest,
            disposition="applied" if same else "mismatch-restored" if restored else "mismatch-kept",
            input_digest=base.manifest.digest,
            observed_final_digest=observed.manifest.digest,
            observed_change_digest=observed.change.digest,
            applied_paths=tuple(write.path for write in sorted(journal.writes, key=lambda w: to_raw(w.path))),
            detail=detail,
        )
    )

    def finish() -> None:
        if restored:
            files.release(target)
        files.end(target)

    return Application(receipt, target, finish)


def build_request(inputs: ApplyInputs) -> Request:
    """The application request: only of the digest that was admitted.

    :raises RefusedInput: ``refused.apply-not-admitted``, ``refused.apply-wrong-artifact``, ``refused.apply-lineage``.
    """
    decision, candidate = inputs.decision.document, inputs.candidate.document
    if decision.outcome not in ("admitted", "admitted-with-conditions"):
        raise _refused("not-admitted", f"The decision is {decision.outcome}: it does not allow an application.")
    if decision.candidate_digest != digest_of(candidate) or inputs.candidate.digest != digest_of(candidate):
        raise _refused("wrong-artifact", "The candidate is not the one that was admitted.")
    receipt = inputs.admission_receipt.document
    if (receipt.decision_digest, receipt.candidate_digest) != (digest_of(decision), inputs.candidate.digest):
        raise _refused("lineage", "The admission receipt is of another decision or candidate.")
    if (candidate.base_commit, candidate.input_digest) != (
        inputs.base.document.document.base_commit,
        inputs.base.manifest.digest,
    ):
        raise _refused("lineage", "The base is not the one that the candidate was made from.")
    if tuple((o.path, o.kind) for o in candidate.operations) != tuple((e.path, e.kind) for e in decision.envelope):
        raise _refused("lineage", "The envelope of the decision is not the candidate's scope.")
    verify_candidate(inputs.base, candidate, change_set_of(candidate))
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


def _refuse_conversion(inputs: ApplyInputs, tree: CandidateTree, repository: Repository) -> None:
    operations = inputs.candidate.document.operations
    contents = {
        to_raw(o.path): tree.read(to_raw(o.path))
        for o in operations
        if o.after is not None and o.after.mode in ("regular", "executable")
    }
    removed = [to_raw(o.path) for o in operations if o.after is None]
    blamed = converted_paths(repository, inputs.candidate.document.base_commit, contents, removed=removed)
    if blamed:
        path, attribute = blamed[0]
        raise _refused(
            "conversion",
            f"git would store other bytes than the admitted ones for {path.decode('utf-8', 'replace')} ({attribute}).",
            fix="Change the attribute at the base, or the file so that the conversion leaves it alone.",
        )


def _make_ready(inputs: ApplyInputs, ports: ApplyPorts, request: Sealed[Request], target: Path) -> None:
    """Announce, then make the target, or prove that the existing one is the base to the byte."""
    if request.document.target == "existing":
        verify_existing(target, ports.repository, inputs.base, git=ports.repository.git.executable)
        ports.announce(request, f"write to {target}")
        return
    check_place(ports.repository, target)
    entry = planned_entry(ports.repository, target)
    ports.announce(request, f"make the worktree {target} with its entry {entry}")
    create_target(ports.repository, request.document.base_commit, target, manifest=inputs.base.manifest)


def _refused(code: str, message: str, *, fix: str = "") -> RefusedInput:
    return RefusedInput(f"refused.apply-{code}", message, untouched="The target was not touched.", fix=fix)
