"""The last door: an answer or a candidate that holds a credential is refused, and notes and failures show none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from commandprovider.answers import plan_of, result_of
from commandprovider.guard import GuardedProvider
from commandprovider.redaction import MARK, Redactor
from commandprovider.wire import WirePlan, WireStep
from providerport.documents import Capabilities, GenerationClaim, Request, Result
from providerport.port import Call, Provider, ProviderFailure, Usage, Workspace
from runner.workspace import CandidateWorkspace
from savant.contracts.containment import Containment
from savant.contracts.document import Sealed

KEY = "sk-ant-0123456789abcdef"
REDACTOR = Redactor([("AGENT_KEY", KEY.encode())])
MARKER = f"[{MARK}:AGENT_KEY]"
CONTAINED = Containment(level="S3", layers=(), network="none")
Act = Callable[[Call], Result]


class Notes:
    """An observer that keeps what it hears."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.used: list[Usage] = []
        self.counted: list[tuple[int, int, Containment | None]] = []

    def note(self, text: str) -> None:
        self.lines.append(text)

    def usage(self, usage: Usage) -> None:
        self.used.append(usage)

    def processes(self, *, survivors: int, remaining: int, containment: Containment | None = None) -> None:
        self.counted.append((survivors, remaining, containment))


class Scripted:
    """A provider that does what a test says."""

    def __init__(self, act: Act) -> None:
        self.act = act

    def describe(self) -> Capabilities:
        return Capabilities(
            provider="agent",
            provider_kind="agent",
            model="",
            identity_digest="blake3:" + "0" * 64,
            operations=("generation",),
            reports_usage=False,
        )

    def execute(self, call: Call) -> Result:
        return self.act(call)


def generated(call: Call, summary: str = "done") -> Result:
    claim = GenerationClaim(summary=summary, declared_change_digest=None, declared_final_digest=None)
    return result_of(call.request, generation=claim)


def planned(call: Call, description: str) -> Result:
    plan = WirePlan(steps=(WireStep(id="step-1", description=description),))
    return result_of(call.request, plan=plan_of(call.request.document, plan, promise="none"))


def on_workspace(change: Callable[[Workspace], object]) -> Act:
    def act(call: Call) -> Result:
        assert call.workspace is not None
        change(call.workspace)
        return generated(call)

    return act


def refused(call: Call, act: Act) -> ProviderFailure:
    provider: Provider = GuardedProvider(Scripted(act), REDACTOR)
    with pytest.raises(ProviderFailure) as caught:
        provider.execute(call)
    assert KEY not in caught.value.detail
    return caught.value


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def call(
    call_of: Callable[[Sealed[Request]], Call], request_for: Callable[[str], Sealed[Request]], notes: Notes
) -> Call:
    return replace(call_of(request_for("generation")), observer=notes)


@pytest.fixture
def planning(call_of: Callable[[Sealed[Request]], Call], request_for: Callable[[str], Sealed[Request]]) -> Call:
    return call_of(request_for("planning"))


def test_what_holds_no_secret_passes_as_it_is(call: Call, notes: Notes) -> None:
    """The positive control: answer, candidate, notes, usage and processes arrive unchanged."""

    def act(call: Call) -> Result:
        assert call.workspace is not None
        call.workspace.write(b"a.txt", b"an API key is needed\n")
        call.workspace.delete(b"pkg/b.txt")
        call.workspace.symlink(b"link", b"a.txt")
        call.workspace.set_gitlink(b"sub", "1" * 40)
        call.observer.note("working")
        call.observer.usage(Usage(1, 2, 3))
        call.observer.processes(survivors=1, remaining=0, containment=CONTAINED)
        call.observer.processes(survivors=0, remaining=2)
        return generated(call)

    provider = GuardedProvider(Scripted(act), REDACTOR)
    assert provider.execute(call) == generated(call)
    assert provider.describe().provider == "agent"
    assert (notes.lines, notes.used, notes.counted) == (
        ["working"],
        [Usage(1, 2, 3)],
        [(1, 0, CONTAINED), (0, 2, None)],
    )


@pytest.mark.parametrize("said", [f"I used {KEY}", f"I used {MARKER}"])
def test_an_answer_with_a_credential_is_denied(call: Call, planning: Call, said: str) -> None:
    """A summary or a plan that holds one, or the mark of one, is no answer."""
    failure = refused(call, lambda call: generated(call, said))
    assert (failure.outcome, failure.failure_kind) == ("invalid-output", "denied")
    assert "The answer holds" in failure.detail
    failure = refused(planning, lambda call: planned(call, said))
    assert (failure.outcome, failure.failure_kind) == ("invalid-output", "denied")
    fine = GuardedProvider(Scripted(lambda call: planned(call, "fine")), REDACTOR).execute(planning)
    assert fine == planned(planning, "fine")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda w: w.write(b"new.txt", b"key: " + KEY.encode()), "'new.txt'"),
        (lambda w: w.write(b"new.txt", b"key: " + MARKER.encode()), "'new.txt'"),
        (lambda w: w.write(b"a.txt", KEY.encode().hex().encode()), "'a.txt'"),
        (lambda w: w.write(b"dir/" + KEY.encode(), b"x"), "A file's name"),
        (lambda w: w.symlink(b"link", b"/" + KEY.encode()), "'link'"),
        (lambda w: (w.materialise() / "made.txt").write_text(KEY) and w.absorb(), "'made.txt'"),
    ],
)
def test_a_candidate_with_a_credential_is_denied(call: Call, change: Any, where: str) -> None:
    """In a file's content, in another spelling, in its name, in a link's target, by the workspace or by the disk."""
    failure = refused(call, on_workspace(change))
    assert (failure.outcome, failure.failure_kind) == ("invalid-output", "denied")
    assert where in failure.detail


def test_a_file_that_had_the_mark_before_may_keep_it(call: Call, workspace: CandidateWorkspace) -> None:
    """Text of the base's own about marks is no trace of a credential; the same text in a new file is."""
    base = workspace.overlay.base

    class Marked:
        manifest = base.manifest

        def mode(self, path: bytes) -> Any:
            return base.mode(path)

        def paths(self) -> Any:
            return base.paths()

        def read(self, path: bytes) -> bytes:
            return MARKER.encode() if path == b"a.txt" else base.read(path)

    workspace.overlay.base = Marked()
    act = on_workspace(lambda w: w.write(b"a.txt", b"more " + MARKER.encode()))
    assert GuardedProvider(Scripted(act), REDACTOR).execute(call) == generated(call)


def test_notes_and_failures_are_redacted(call: Call, notes: Notes) -> None:
    """What a provider says about itself is told without the credential, and keeps its outcome and kind."""

    def act(call: Call) -> Result:
        call.observer.note(f"using {KEY}; OTHER_TOKEN=abcdefgh12")
        raise ProviderFailure("unavailable", "auth", f"{KEY} was not accepted")

    failure = refused(call, act)
    assert (failure.outcome, failure.failure_kind) == ("unavailable", "auth")
    assert failure.detail == f"{MARKER} was not accepted"
    assert failure.__cause__ is None
    assert notes.lines == [f"using {MARKER}; OTHER_TOKEN=[{MARK}]"]


def test_an_exception_of_foreign_code_is_redacted(call: Call, notes: Notes) -> None:
    """An error that quotes what it read becomes a crash that quotes nothing."""

    def act(_call: Call) -> Result:
        raise ValueError(f"cannot parse {KEY}")

    failure = refused(call, act)
    assert (failure.outcome, failure.failure_kind) == ("unavailable", "crash")
    assert notes.lines == [f"ValueError: cannot parse {MARKER}"]


def test_a_workspace_that_was_closed_meanwhile_is_no_answer(call: Call, workspace: CandidateWorkspace) -> None:
    """When the call was given up while the provider still worked, the candidate cannot be looked at, nor is it used."""

    def act(call: Call) -> Result:
        workspace.close()
        return generated(call)

    failure = refused(call, act)
    assert (failure.outcome, failure.failure_kind) == ("cancelled", "cancelled")


def test_every_call_gets_an_observer_of_its_own(call: Call) -> None:
    """The call that was handed in is not changed."""
    before = replace(call)
    GuardedProvider(Scripted(generated), REDACTOR).execute(call)
    assert call == before
