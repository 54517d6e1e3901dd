"""One attempt: from the pinned base to a sealed candidate, or to a receipt that says exactly where it ended.

The shell of O3. It reads like a list of port calls; each either gives the next piece of evidence or ends the attempt
with one of ten dispositions (:mod:`runner.dispositions`). Every attempt starts from the base with a fresh provider and
a fresh workspace; the workspace is closed before anything is computed, and removed on every path out.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from providerport.documents import Result
from providerport.execute import Execution
from providerport.port import Provider
from runner.dispositions import check_receipt
from runner.documents import Disposition, Receipt
from runner.inputs import AttemptInputs, AttemptOutcome, AttemptPorts, Execute, check_inputs
from runner.normalise import NormaliserFailed, run_normalisers
from runner.overlay import Limits
from runner.seal import CandidateIdentity, Evidence, SealedCandidate, check_seal, compute_evidence, seal_candidate
from runner.shortfall import shortfall
from runner.snapshot import BaseSnapshot
from runner.workspace import Backend, CandidateWorkspace
from savant.contracts.containment import Containment, Demand, weakest
from savant.contracts.document import seal
from savant.contracts.errors import InternalError, SavantError
from savant.files.atomic import remove_tree
from savant.files.paths import to_text
from savant.store.port import ObjectStore
from synthesis.documents import Attempt, FailureKind, Finding, Limitation, Outcome

__all__ = ["AttemptInputs", "AttemptOutcome", "AttemptPorts", "Execute", "check_inputs", "run_attempt"]

MAX_FINDINGS: Final = 100
"""How many findings explain a refused seal; the last one then counts the rest."""

MAX_DETAIL_CHARACTERS: Final = 4_000


class _Ended(msgspec.Struct, frozen=True):
    """Where an attempt ended. ``blame`` is what the session records of it; None when the host is at fault."""

    disposition: Disposition
    code: str = ""
    detail: str = ""
    blame: tuple[Outcome, FailureKind | None] | None = None
    findings: tuple[Finding, ...] = ()


class _Evidence(msgspec.Struct):
    """What an attempt has come by so far."""

    snapshot: BaseSnapshot | None = None
    backend: Backend | None = None
    execution: Execution | None = None
    computed: Evidence | None = None
    sealed: SealedCandidate | None = None
    normalised: Containment | None = None
    cleaned: bool | None = None

    @property
    def quiescent(self) -> bool | None:
        """Whether nothing of the provider is alive; None before the call."""
        return None if self.execution is None else self.execution.ended and self.execution.remaining == 0


class _Stop(Exception):
    def __init__(self, ended: _Ended) -> None:
        super().__init__(ended.disposition)
        self.ended = ended


def run_attempt(inputs: AttemptInputs, ports: AttemptPorts) -> AttemptOutcome:
    """Make one attempt.

    :raises UsageError: ``usage.attempt`` when the inputs do not belong together; nothing was done.
    :raises InternalError: our bug; the workspace is removed.
    """
    check_inputs(inputs)
    evidence = _Evidence()
    try:
        ended = _attempt(inputs, ports, evidence)
    except _Stop as stop:
        ended = stop.ended
    return _outcome(inputs, ports, evidence, ended)


def _attempt(inputs: AttemptInputs, ports: AttemptPorts, evidence: _Evidence) -> _Ended:
    base = evidence.snapshot = _snapshot(inputs)
    with _Workspace(base, inputs.limits, ports.scratch, evidence) as (workspace, scratch):
        provider = _provider(ports)
        execution = evidence.execution = _execute(provider, base, workspace, inputs, ports)
        workspace.close()
        evidence.backend = workspace.backend
        result = execution.result.document
        if result.outcome != "completed":
            return _Ended(
                "provider-non-completed",
                f"provider.{result.outcome}",
                result.detail,
                (result.outcome, result.failure_kind),
                _told(result, ports),
            )
        rejected = _freeze(inputs, ports, workspace, scratch, evidence)
        computed = evidence.computed = _compute(base, workspace)
        findings = _refusals(base, computed, rejected)
        if findings is not None:
            return findings
        sealed = evidence.sealed = _seal(base, computed, inputs, ports.store)
        return _compare(execution, sealed)


def _snapshot(inputs: AttemptInputs) -> BaseSnapshot:
    try:
        base = inputs.snapshot if isinstance(inputs.snapshot, BaseSnapshot) else inputs.snapshot()
    except SavantError as error:
        _stop("snapshot-failure", error)
    session, document = inputs.state.session, base.document.document
    if (document.base_commit, document.base_manifest_digest) != (session.base_commit, session.base_manifest_digest):
        raise _Stop(_Ended("snapshot-failure", "snapshot.other-base", "The snapshot is not the session's base."))
    return base


class _Workspace:
    """A workspace with its scratch folder; both are gone, or said not to be, when the block ends."""

    def __init__(self, base: BaseSnapshot, limits: Limits, scratch: Path, evidence: _Evidence) -> None:
        self._base, self._limits, self._evidence = base, limits, evidence
        self._parent = scratch
        self._scratch: Path | None = None
        self._workspace: CandidateWorkspace | None = None

    def __enter__(self) -> tuple[CandidateWorkspace, Path]:
        try:
            self._scratch = Path(tempfile.mkdtemp(prefix="attempt-", dir=self._parent))
            self._workspace = CandidateWorkspace(self._base, self._scratch, self._limits)
        except SavantError as error:
            self._clean()
            _stop("workspace-init-failure", error)
        except OSError:
            self._clean()
            detail = "The scratch folder cannot be written."
            raise _Stop(_Ended("workspace-init-failure", "port.disk", detail)) from None
        self._evidence.backend = "memory"
        assert self._scratch is not None
        return self._workspace, self._scratch

    def __exit__(self, *_: object) -> None:
        if self._workspace is not None:
            self._workspace.close()
            self._evidence.backend = self._workspace.backend
        self._clean()

    def _clean(self) -> None:
        if self._scratch is None:
            return
        self._evidence.cleaned = False
        with suppress(SavantError, OSError):
            remove_tree(self._scratch)
            self._evidence.cleaned = True


def _provider(ports: AttemptPorts) -> Provider:
    try:
        return ports.provider_factory()
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything, and the attempt must end typed
        _stop("provider-construction-failure", error)


def _execute(
    provider: Provider, base: BaseSnapshot, workspace: CandidateWorkspace, inputs: AttemptInputs, ports: AttemptPorts
) -> Execution:
    try:
        return ports.execute(provider, inputs.request, cancellation=ports.cancellation, base=base, workspace=workspace)
    except InternalError:
        raise
    except Exception as error:  # noqa: BLE001 - see _provider
        _stop("provider-run-error", error)


def _freeze(
    inputs: AttemptInputs, ports: AttemptPorts, workspace: CandidateWorkspace, scratch: Path, evidence: _Evidence
) -> NormaliserFailed | None:
    """Normalise what nobody else can change any more; the failure that the candidate is to blame for."""
    if not evidence.quiescent:
        raise _Stop(
            _Ended(
                "workspace-freeze-failure",
                "provider.not-quiescent",
                "Something of the provider may still be running, so nothing it left was looked at.",
            )
        )
    try:
        done = run_normalisers(inputs.normalisers, workspace, ports.processes, scratch, ports.cancellation, ports.sight)
    except SavantError as error:
        _stop("workspace-freeze-failure", error)
    evidence.normalised = done.containment
    if not isinstance(done, NormaliserFailed):
        return None
    if done.blame == "host":
        raise _Stop(_Ended("workspace-freeze-failure", done.code, done.message))
    return done


def _compute(base: BaseSnapshot, workspace: CandidateWorkspace) -> Evidence:
    try:
        return compute_evidence(base, workspace.overlay.changes)
    except SavantError as error:
        _stop("evidence-computation-failure", error)


def _refusals(base: BaseSnapshot, computed: Evidence, rejected: NormaliserFailed | None) -> _Ended | None:
    """The end of an attempt whose candidate is not sealed, with the findings that explain it; None to seal it."""
    if not computed.change_set.document.changes:
        return _refused("no-change", "no-change", [_finding(None, "The candidate does not differ from the base.")])
    if rejected is not None:
        paths = rejected.paths[:MAX_FINDINGS]
        return _refused(rejected.code, "denied", [_finding(path, rejected.message) for path in paths])
    problems = check_seal(base, computed)
    if not problems:
        return None
    findings = [_finding(problem.path, problem.message) for problem in problems]
    return _refused(problems[0].code, "denied", findings)


def _told(result: Result, ports: AttemptPorts) -> tuple[Finding, ...]:
    """What the next attempt is told about an answer that could not be taken; nothing where no answer is to blame."""
    if result.outcome != "invalid-output" or not result.detail:
        return ()
    message = _without_places(result.detail, ports.scratch)[:MAX_DETAIL_CHARACTERS]
    return (Finding(check="answer", status="failed", path=None, line=None, message=message, excerpt=""),)


def _refused(code: str, kind: FailureKind, findings: list[Finding]) -> _Ended:
    kept = findings[:MAX_FINDINGS]
    if len(findings) > MAX_FINDINGS:
        kept[-1] = _finding(None, f"{len(findings) - MAX_FINDINGS + 1} more paths are refused.")
    return _Ended("seal-failure", code, findings[0].message, ("invalid-output", kind), tuple(kept))


def _finding(path: bytes | None, message: str) -> Finding:
    shown = None if path is None else to_text(path)
    return Finding(check="seal", status="failed", path=shown, line=None, message=message, excerpt="")


def _seal(base: BaseSnapshot, computed: Evidence, inputs: AttemptInputs, store: ObjectStore) -> SealedCandidate:
    state = inputs.state
    identity = CandidateIdentity(
        session_digest=inputs.request.document.session_digest,
        workspace_digest=inputs.workspace_digest,
        plan_digest=inputs.plan.digest,
        generation=state.generation,
        attempt_number=inputs.request.document.attempt_number or 0,
        base_commit=base.document.document.base_commit,
    )
    try:
        return seal_candidate(base, computed, identity, store)
    except SavantError as error:
        _stop("seal-failure", error)


def _compare(execution: Execution, sealed: SealedCandidate) -> _Ended:
    """Declared digests are compared with the true ones, never used and never repaired."""
    claim = execution.result.document.generation
    candidate = sealed.candidate.document
    if claim is not None:
        for name, declared, computed in (
            ("change", claim.declared_change_digest, candidate.change_digest),
            ("final", claim.declared_final_digest, candidate.final_digest),
        ):
            if declared is not None and declared != computed:
                message = f"The provider declared the {name} digest {declared}; it is {computed}."
                blame: tuple[Outcome, FailureKind] = ("invalid-output", "malformed-output")
                return _Ended("digest-mismatch", f"digest.{name}", message, blame, (_finding(None, message),))
    return _Ended("verified", blame=("completed", None))


def _stop(disposition: Disposition, error: Exception) -> NoReturn:
    if isinstance(error, InternalError):
        raise error
    if isinstance(error, SavantError):
        raise _Stop(_Ended(disposition, error.code, error.message)) from error
    raise _Stop(_Ended(disposition, "provider.raised", f"It raised {type(error).__name__}.")) from error


def _outcome(inputs: AttemptInputs, ports: AttemptPorts, evidence: _Evidence, ended: _Ended) -> AttemptOutcome:
    execution, computed, sealed = evidence.execution, evidence.computed, evidence.sealed
    snapshot = None if ended.disposition == "snapshot-failure" else evidence.snapshot
    receipt = Receipt(
        request_digest=inputs.request.digest,
        snapshot_digest=None if snapshot is None else snapshot.document.digest,
        disposition=ended.disposition,
        provider_receipt_digest=None if execution is None else execution.receipt.digest,
        result_digest=None if execution is None else execution.result.digest,
        input_digest=None if snapshot is None else snapshot.manifest.digest,
        change_digest=None if computed is None else computed.change_set.digest,
        final_digest=None if computed is None else computed.final_manifest.digest,
        candidate_digest=None if sealed is None else sealed.candidate.digest,
        workspace_backend=evidence.backend,
        failure_code=ended.code,
        failure_detail=_without_places(ended.detail, ports.scratch)[:MAX_DETAIL_CHARACTERS],
        quiescent=evidence.quiescent,
        cleanup_succeeded=evidence.cleaned,
        limitations=(
            *(() if snapshot is None else snapshot.document.document.limitations),
            *_less_than_demanded(inputs, evidence),
        ),
    )
    problems = check_receipt(receipt)
    if problems:
        raise InternalError("internal.runner-receipt", " ".join(problems))
    return AttemptOutcome(
        receipt=seal(receipt),
        execution=execution,
        attempt=None if ended.blame is None else _recorded(inputs, evidence, ended, ended.blame),
        candidate=None if sealed is None else sealed.candidate,
        change_set=None if sealed is None else sealed.change_set,
        findings=ended.findings,
        containment=weakest((None if execution is None else execution.containment, evidence.normalised)),
    )


def _less_than_demanded(inputs: AttemptInputs, evidence: _Evidence) -> Iterator[Limitation]:
    """What ran with less containment than it should have, because a person allowed it."""
    execution = evidence.execution
    formatters = max((one.demanded for one in inputs.normalisers), key=lambda demand: demand.level, default=Demand())
    for what, seen, demand in (
        ("The provider's commands", None if execution is None else execution.containment, inputs.demanded),
        ("Formatters", evidence.normalised, formatters),
    ):
        limitation = shortfall("runner.sandbox", what, seen, demand)
        if limitation is not None:
            yield limitation


def _without_places(text: str, scratch: Path) -> str:
    """The text without names that differ from run to run."""
    return re.sub(re.escape(str(scratch)) + r"(/(attempt|candidate)-\w+)*", "<scratch>", text)


def _recorded(
    inputs: AttemptInputs, evidence: _Evidence, ended: _Ended, blame: tuple[Outcome, FailureKind | None]
) -> Attempt:
    """What the session records: the three digests only for a candidate that goes on."""
    assert evidence.execution is not None
    sealed = evidence.sealed if ended.disposition == "verified" else None
    candidate = None if sealed is None else sealed.candidate.document
    outcome, failure_kind = blame
    return Attempt(
        number=inputs.request.document.attempt_number or 0,
        generation=inputs.state.generation,
        plan_digest=inputs.plan.digest,
        provider_digest=evidence.execution.capabilities.document.identity_digest,
        outcome=outcome,
        failure_kind=failure_kind,
        input_digest=None if candidate is None else candidate.input_digest,
        change_digest=None if candidate is None else candidate.change_digest,
        final_digest=None if candidate is None else candidate.final_digest,
    )
