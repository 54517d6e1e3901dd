"""One attempt from end to end: each disposition reached by a real run, and the same run giving the same bytes."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import get_args

import pytest
from msgspec import structs
from msgspec.structs import replace

from providerport.documents import GenerationClaim
from providerport.port import Call, Workspace
from providerport.scripted import Answer, Edit, Fail, Raise, ScriptedProvider, Step, claim, write_files
from runner.attempt import AttemptOutcome, run_attempt
from runner.content import CandidateTree, load_candidate
from runner.dispositions import MEMBERS, TABLE, check_receipt
from runner.documents import Disposition
from runner.overlay import Content, Limits
from runner.snapshot import BaseSnapshot
from savant.contracts.containment import Containment, Demand
from savant.contracts.digest import digest
from savant.contracts.document import accept, seal
from savant.contracts.errors import InternalError, PortError, RefusedInput, UsageError
from savant.process.effects import ThreadCancellation
from savant.store.objects import FileObjectStore, MemoryObjectStore
from synthesis.commands import RecordAttempt
from synthesis.machine import Transitioned, transition
from tests.runner.kit import bound_execute, inputs_of, ports_of, take

CHANGE = write_files({b"src/a.py": b"a = 2\n", b"docs/guide.md": None, b"new/file": b"new\n"})


def run(base: BaseSnapshot, scratch: Path, step: Step, **ports: object) -> AttemptOutcome:
    def provider() -> ScriptedProvider:
        return ScriptedProvider({"generation": [step]})

    outcome = run_attempt(inputs_of(base), ports_of(scratch, **{"provider_factory": provider, **ports}))
    assert check_receipt(outcome.receipt.document) == []
    assert list(scratch.iterdir()) == []
    return outcome


class FailingStore(MemoryObjectStore):
    """A store whose disk is full."""

    def put_many(self, items: Iterable[bytes]) -> list[str]:
        raise PortError("port.disk", "The disk is full.", retryable=True)


def broken_base(base: BaseSnapshot) -> BaseSnapshot:
    """A base that can be looked at and not read."""

    class Unreadable(BaseSnapshot):
        def read(self, path: bytes) -> bytes:
            raise PortError("port.missing-object", "Gone.")

        def read_many(self, paths: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
            yield from ((path, self.read(path)) for path in paths)

    return Unreadable(base._source, base.document, base.manifest)


def snapshot_failure(base: BaseSnapshot, scratch: Path) -> AttemptOutcome:
    def no_snapshot() -> BaseSnapshot:
        raise PortError("port.missing-object", f"Nothing at {scratch}/attempt-abc.")

    return run_attempt(inputs_of(base, snapshot=no_snapshot), ports_of(scratch))


def workspace_init_failure(base: BaseSnapshot, scratch: Path) -> AttemptOutcome:
    return run_attempt(inputs_of(base), ports_of(scratch / "missing"))


def provider_construction_failure(base: BaseSnapshot, scratch: Path) -> AttemptOutcome:
    def factory() -> ScriptedProvider:
        raise ValueError("secret in a message")

    return run_attempt(inputs_of(base), ports_of(scratch, provider_factory=factory))


def provider_run_error(base: BaseSnapshot, scratch: Path) -> AttemptOutcome:
    def execute(*_: object, **__: object) -> None:
        raise OSError("lost")

    return run_attempt(inputs_of(base), ports_of(scratch, execute=execute))


def provider_non_completed(base: BaseSnapshot, scratch: Path) -> AttemptOutcome:
    return run(base, scratch, Fail("unavailable", "rate-limited", "Too many."))


def leave_processes(call: Call) -> GenerationClaim:
    call.observer.processes(survivors=1, remaining=1)
    return claim()


def workspace_freeze_failure(base: BaseSnapshot, scratch: Path) -> AttemptOutcome:
    return run(base, scratch, Answer(leave_processes))


def evidence_computation_failure(base: BaseSnapshot, scratch: Path) -> AttemptOutcome:
    return run(broken_base(base), scratch, Edit(CHANGE))


def seal_failure(base: BaseSnapshot, scratch: Path) -> AttemptOutcome:
    return run(base, scratch, Edit(lambda workspace: workspace.symlink(b"escape", b"/etc/passwd")))


def declare_wrongly(call: Call) -> GenerationClaim:
    assert call.workspace is not None
    CHANGE(call.workspace)
    return GenerationClaim(summary="", declared_change_digest=digest(b"other"), declared_final_digest=None)


def digest_mismatch(base: BaseSnapshot, scratch: Path) -> AttemptOutcome:
    return run(base, scratch, Answer(declare_wrongly))


def verified(base: BaseSnapshot, scratch: Path) -> AttemptOutcome:
    return run(base, scratch, Edit(CHANGE))


ENDS: dict[Disposition, tuple[Callable[[BaseSnapshot, Path], AttemptOutcome], str, tuple[str, str | None] | None]] = {
    "snapshot-failure": (snapshot_failure, "port.missing-object", None),
    "workspace-init-failure": (workspace_init_failure, "port.disk", None),
    "provider-construction-failure": (provider_construction_failure, "provider.raised", None),
    "provider-run-error": (provider_run_error, "provider.raised", None),
    "provider-non-completed": (provider_non_completed, "provider.unavailable", ("unavailable", "rate-limited")),
    "workspace-freeze-failure": (workspace_freeze_failure, "provider.not-quiescent", None),
    "evidence-computation-failure": (evidence_computation_failure, "port.missing-object", None),
    "seal-failure": (seal_failure, "hazard.symlink-escape", ("invalid-output", "denied")),
    "digest-mismatch": (digest_mismatch, "digest.change", ("invalid-output", "malformed-output")),
    "verified": (verified, "", ("completed", None)),
}


@pytest.mark.parametrize("disposition", get_args(Disposition))
def test_each_disposition_is_reached_and_its_receipt_holds_exactly_its_evidence(
    disposition: Disposition, snapshot: BaseSnapshot, scratch: Path
) -> None:
    """A real run ends as each row says, with the row's evidence, and the session gets what the row is to blame for."""
    make, code, blame = ENDS[disposition]
    outcome = make(snapshot, scratch)
    receipt = outcome.receipt.document
    assert (receipt.disposition, receipt.failure_code) == (disposition, code)
    assert check_receipt(receipt) == []
    for member in MEMBERS:
        if TABLE[disposition][member] != "either":
            is_there = getattr(receipt, member) not in (None, "")
            assert is_there is (TABLE[disposition][member] == "present"), member
    attempt = outcome.attempt
    assert (None if attempt is None else (attempt.outcome, attempt.failure_kind)) == blame
    assert (outcome.candidate is not None) is (disposition in ("digest-mismatch", "verified"))
    assert "secret" not in receipt.failure_detail
    assert str(scratch) not in receipt.failure_detail


@pytest.mark.parametrize("disposition", ["provider-non-completed", "seal-failure", "digest-mismatch", "verified"])
def test_the_session_accepts_the_attempt(disposition: Disposition, snapshot: BaseSnapshot, scratch: Path) -> None:
    """What an attempt hands over is what the machine takes: digests exactly when there is a candidate that goes on."""
    attempt = ENDS[disposition][0](snapshot, scratch).attempt
    assert attempt is not None
    moved = transition(inputs_of(snapshot).state, RecordAttempt(attempt))
    assert isinstance(moved, Transitioned)
    assert (moved.state.phase == "evaluating") is (disposition == "verified")


def test_the_candidate_can_be_loaded_and_read(snapshot: BaseSnapshot, scratch: Path, tmp_path: Path) -> None:
    """A sealed candidate is complete in the store: documents, blobs, and every file of the tree through them."""
    with FileObjectStore(tmp_path / "objects") as store:
        outcome = run(snapshot, scratch, Edit(CHANGE), store=store)
        assert outcome.candidate is not None
        assert outcome.attempt is not None
        loaded = load_candidate(store, outcome.candidate.digest)
        tree = CandidateTree(snapshot, loaded.document, store)
        assert tree.manifest.digest == outcome.attempt.final_digest
        assert tree.read(b"src/a.py") == b"a = 2\n"
        assert tree.mode(b"docs/guide.md") is None
        assert set(tree.paths()) == set(snapshot.paths()) - {b"docs/guide.md"} | {b"new/file"}


def test_equal_runs_give_equal_bytes(snapshot: BaseSnapshot, scratch: Path) -> None:
    """Two runs of the same work give the same receipt, candidate and change set, whatever the folders were called."""

    def edit(workspace: Workspace) -> None:
        folder = workspace.materialise()
        (folder / "made.txt").write_bytes(b"made\n")
        workspace.absorb()

    outcomes = [run(snapshot, scratch, Edit(edit)) for _ in range(2)]
    raws = [(o.receipt.raw, o.candidate and o.candidate.raw, o.change_set and o.change_set.raw) for o in outcomes]
    assert raws[0] == raws[1]
    assert outcomes[0].receipt.document.workspace_backend == "copy"


def test_the_cost_of_a_candidate_follows_the_change(tmp_path: Path, scratch: Path) -> None:
    """In a repository of 300 files a one-line change stores one blob and two documents, and names one path."""
    files = {b"pkg%d/mod%d.py" % (i % 20, i): Content("regular", b"x = %d\n" % i) for i in range(300)}
    repository, base = take(tmp_path / "large", files)
    store = MemoryObjectStore()
    with repository:
        outcome = run(base, scratch, Edit(write_files({b"pkg3/mod3.py": b"x = 4\n"})), store=store)
    assert outcome.candidate is not None
    assert [op.path for op in outcome.candidate.document.operations] == ["pkg3/mod3.py"]
    assert len(list(store.digests())) == 3


def test_no_difference_is_its_own_end(snapshot: BaseSnapshot, scratch: Path) -> None:
    """A provider that completes without a difference, even after writing, ends as no-change and may be retried."""

    def rewrite(workspace: Workspace) -> None:
        workspace.write(b"src/a.py", b"a = 1\n")
        (workspace.materialise() / "folder").mkdir()
        workspace.absorb()

    outcome = run(snapshot, scratch, Edit(rewrite))
    receipt = outcome.receipt.document
    assert (receipt.disposition, receipt.failure_code) == ("seal-failure", "no-change")
    assert receipt.final_digest == receipt.input_digest
    assert outcome.attempt is not None
    assert outcome.attempt.failure_kind == "no-change"
    assert [finding.check for finding in outcome.findings] == ["seal"]


def test_a_refused_seal_says_why_for_every_path(snapshot: BaseSnapshot, scratch: Path) -> None:
    """The findings of a refused seal name each hazard's path, bounded, so that the next request can carry them."""

    def edit(workspace: Workspace) -> None:
        for number in range(150):
            workspace.symlink(b"link%03d" % number, b"../outside")

    outcome = run(snapshot, scratch, Edit(edit))
    assert len(outcome.findings) == 100
    assert outcome.findings[0].path == "link000"
    assert outcome.findings[-1].message == "51 more paths are refused."
    assert outcome.candidate is None


def test_a_store_that_fails_is_nobodys_fault(snapshot: BaseSnapshot, scratch: Path) -> None:
    """When the candidate cannot be stored the run stops: no retry is spent on the host's disk."""
    outcome = run(snapshot, scratch, Edit(CHANGE), store=FailingStore())
    assert (outcome.receipt.document.disposition, outcome.receipt.document.failure_code) == (
        "seal-failure",
        "port.disk",
    )
    assert outcome.attempt is None
    assert outcome.findings == ()


@pytest.mark.parametrize("member", ["declared_change_digest", "declared_final_digest"])
def test_declared_digests_are_compared(member: str, snapshot: BaseSnapshot, scratch: Path) -> None:
    """A true declaration verifies, a false one does not, and the sealed digests are the true ones either way."""
    true = run(snapshot, scratch, Edit(CHANGE)).receipt.document
    value = {"declared_change_digest": true.change_digest, "declared_final_digest": true.final_digest}[member]

    def declare(declared: str | None) -> Answer:
        def answer(call: Call) -> GenerationClaim:
            assert call.workspace is not None
            CHANGE(call.workspace)
            return structs.replace(claim(), **{member: declared})

        return Answer(answer)

    assert run(snapshot, scratch, declare(value)).receipt.document.disposition == "verified"
    other = run(snapshot, scratch, declare(digest(b"other")))
    assert other.receipt.document.disposition == "digest-mismatch"
    assert other.receipt.document.final_digest == true.final_digest


def test_a_workspace_kept_by_the_provider_is_closed(snapshot: BaseSnapshot, scratch: Path) -> None:
    """A provider that keeps its workspace cannot change the candidate while it is sealed."""
    kept: list[Workspace] = []

    def edit(workspace: Workspace) -> None:
        kept.append(workspace)
        CHANGE(workspace)

    codes: list[str] = []

    class Watching(MemoryObjectStore):
        def put_many(self, items: Iterable[bytes]) -> list[str]:
            with pytest.raises(RefusedInput) as caught:
                kept[0].write(b"late", b"late")
            codes.append(caught.value.code)
            return super().put_many(items)

    outcome = run(snapshot, scratch, Edit(edit), store=Watching())
    assert outcome.receipt.document.disposition == "verified"
    assert codes == ["refused.workspace-closed"]


def test_a_refused_import_ends_in_what_the_provider_makes_of_it(snapshot: BaseSnapshot, scratch: Path) -> None:
    """A socket in the copy is refused by the workspace; a provider that does not care crashed: nothing is sealed."""

    def edit(workspace: Workspace) -> None:
        with socket.socket(socket.AF_UNIX) as server:
            where = Path.cwd()
            os.chdir(workspace.materialise())
            try:
                server.bind("s")
            finally:
                os.chdir(where)
        workspace.absorb()

    outcome = run(snapshot, scratch, Edit(edit))
    assert outcome.receipt.document.disposition == "provider-non-completed"
    assert outcome.candidate is None


def test_limits_hold_inside_an_attempt(snapshot: BaseSnapshot, scratch: Path) -> None:
    """A candidate at the limit is sealed, one byte more is refused to the provider."""

    def attempt(size: int) -> str:
        provider = ScriptedProvider({"generation": [Edit(write_files({b"big": b"x" * size}))]})
        inputs = inputs_of(snapshot, limits=Limits(file_bytes=100))
        outcome = run_attempt(inputs, ports_of(scratch, provider_factory=lambda: provider))
        return outcome.receipt.document.disposition

    assert attempt(100) == "verified"
    assert attempt(101) == "provider-non-completed"


def test_a_cancelled_attempt_is_the_providers_cancelled_outcome(snapshot: BaseSnapshot, scratch: Path) -> None:
    """Cancellation reaches the call, and the attempt records it as cancelled."""
    cancellation = ThreadCancellation()
    cancellation.set()
    outcome = run(snapshot, scratch, Edit(CHANGE), cancellation=cancellation)
    assert outcome.attempt is not None
    assert outcome.attempt.outcome == "cancelled"


def test_a_crashing_provider_is_recorded_as_a_crash(snapshot: BaseSnapshot, scratch: Path) -> None:
    """What a provider wrote before it crashed is not sealed."""
    outcome = run(snapshot, scratch, Raise(RuntimeError("boom")))
    assert outcome.attempt is not None
    assert (outcome.attempt.outcome, outcome.attempt.failure_kind) == ("unavailable", "crash")


def test_a_worker_that_did_not_end_forbids_the_seal(snapshot: BaseSnapshot, scratch: Path) -> None:
    """While foreign code may be running nothing is sealed, even if it completed and left no process."""
    execute = bound_execute()

    def unending(*arguments: object, **named: object) -> object:
        return replace(execute(*arguments, **named), ended=False)  # type: ignore[type-var]

    outcome = run(snapshot, scratch, Edit(CHANGE), execute=unending)
    assert outcome.receipt.document.disposition == "workspace-freeze-failure"
    assert outcome.receipt.document.quiescent is False


@pytest.mark.parametrize("disposition", ["verified", "seal-failure"])
def test_cleanup_is_told_apart_from_the_end(
    disposition: Disposition, snapshot: BaseSnapshot, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scratch folder that cannot be removed is said in the receipt, and changes nothing else about how it ended."""
    import runner.attempt as module

    def failing(path: Path) -> None:
        raise PortError("port.mount-point", "Busy.")

    clean = ENDS[disposition][0](snapshot, scratch).receipt.document
    with monkeypatch.context() as patched:
        patched.setattr(module, "remove_tree", failing)
        step = Edit(CHANGE if disposition == "verified" else lambda w: w.symlink(b"escape", b"/etc/passwd"))
        provider = ScriptedProvider({"generation": [step]})
        left = run_attempt(inputs_of(snapshot), ports_of(scratch, provider_factory=lambda: provider)).receipt.document
    assert left.cleanup_succeeded is False
    assert structs.replace(left, cleanup_succeeded=True) == clean


def test_a_workspace_that_cannot_be_made_leaves_nothing(
    snapshot: BaseSnapshot, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the scratch folder exists and the workspace does not, the folder is removed and that is in the receipt."""
    import runner.attempt as module

    def failing(*_: object) -> None:
        raise PortError("port.disk", "No descriptors.")

    monkeypatch.setattr(module, "CandidateWorkspace", failing)
    receipt = run_attempt(inputs_of(snapshot), ports_of(scratch)).receipt.document
    assert (receipt.disposition, receipt.failure_code) == ("workspace-init-failure", "port.disk")
    assert receipt.cleanup_succeeded is True
    assert list(scratch.iterdir()) == []


def test_our_own_bug_is_not_a_disposition(snapshot: BaseSnapshot, scratch: Path) -> None:
    """An internal error is raised, not recorded as the provider's, and the scratch folder is clean."""

    def execute(*_: object, **__: object) -> None:
        raise InternalError("internal.test", "A bug.")

    with pytest.raises(InternalError):
        run_attempt(inputs_of(snapshot), ports_of(scratch, execute=execute))
    assert list(scratch.iterdir()) == []


def test_another_base_than_the_sessions_is_a_snapshot_failure(
    snapshot: BaseSnapshot, tmp_path: Path, scratch: Path
) -> None:
    """A snapshot of another commit is not attempted on."""
    repository, other = take(tmp_path / "other", {b"a": Content("regular", b"a")})
    with repository:
        outcome = run_attempt(inputs_of(snapshot, snapshot=other), ports_of(scratch))
    assert outcome.receipt.document.failure_code == "snapshot.other-base"


@pytest.mark.parametrize(
    "change",
    [
        ("phase", {"phase": "planned"}),
        ("expected_attempt", {"expected_attempt": 2}),
        ("expected_attempt", {"expected_attempt": None}),
        ("plan", {"plan_digest": digest(b"other")}),
        ("generation", {"generation": 2}),
    ],
)
def test_inputs_that_do_not_belong_together_are_misuse(
    change: tuple[str, dict[str, object]], snapshot: BaseSnapshot, scratch: Path
) -> None:
    """A request that is not this state's own is refused before anything is done; the right one is not."""
    inputs = inputs_of(snapshot)
    wrong = replace(inputs, state=structs.replace(inputs.state, **change[1]))
    with pytest.raises(UsageError) as caught:
        run_attempt(wrong, ports_of(scratch))
    assert caught.value.code == "usage.attempt"
    foreign = replace(inputs, request=seal(structs.replace(inputs.request.document, operation="planning")))
    with pytest.raises(UsageError):
        run_attempt(foreign, ports_of(scratch))
    assert verified(snapshot, scratch).receipt.document.disposition == "verified"


def test_the_receipt_is_a_document_that_survives_acceptance(snapshot: BaseSnapshot, scratch: Path) -> None:
    """The receipt's bytes are accepted again under its digest."""
    receipt = verified(snapshot, scratch).receipt
    assert accept(receipt.raw, type(receipt.document), declared_digest=receipt.digest) == receipt


def test_a_provider_below_its_demand_is_a_limitation_of_the_receipt(snapshot: BaseSnapshot, scratch: Path) -> None:
    """A person allowed it; with as much as was demanded, or with no command at all, there is nothing to say."""

    def contained(level: str) -> Callable[[Call], GenerationClaim]:
        def act(call: Call) -> GenerationClaim:
            assert call.workspace is not None
            CHANGE(call.workspace)
            seen = Containment(level=level, layers=("x",), network="open")  # type: ignore[arg-type]
            call.observer.processes(survivors=0, remaining=0, containment=seen)
            return claim()

        return act

    def limitations(step: Answer | Edit) -> list[str]:
        provider = ScriptedProvider({"generation": [step]})
        outcome = run_attempt(
            inputs_of(snapshot, demanded=Demand("S2", is_waived=True)),
            ports_of(scratch, provider_factory=lambda: provider),
        )
        assert outcome.receipt.document.disposition == "verified"
        assert (outcome.containment is None) is isinstance(step, Edit)
        found = outcome.receipt.document.limitations
        return [limitation.text for limitation in found if limitation.source == "runner.sandbox"]

    (text,) = limitations(Answer(contained("S1")))
    assert text.startswith("The provider's commands ran at sandbox level weak (S1), and reduced (S2) is demanded")
    assert limitations(Answer(contained("S2"))) == []
    assert limitations(Edit(CHANGE)) == []
