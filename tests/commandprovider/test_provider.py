"""The command provider with real programs that speak, or mis-speak, the wire."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from commandprovider import CommandProvider, ToolHost, command_config
from providerport.documents import Request
from providerport.execute import BoundedObserver
from providerport.port import NOTHING_USED, Call, ProviderFailure, Usage
from runner.workspace import CandidateWorkspace
from savant.contracts.document import Sealed
from savant.process.port import Level
from savant.process.posix import SupervisedRunner

Make = Callable[..., Sealed[Request]]
CallOf = Callable[..., Call]

PROLOGUE = """
import base64, json, os, subprocess, sys, time
asked = json.load(sys.stdin)
def answer(**members):
    print(json.dumps({"wire": asked["wire"], "request_digest": asked["request_digest"], **members}))
"""


def provider(host: ToolHost, program: str, **options: object) -> CommandProvider:
    argv = (sys.executable, "-I", "-c", PROLOGUE + program)
    return CommandProvider(command_config(argv, search_path=host.search_path, **options), host)  # type: ignore[arg-type]


def test_a_program_of_a_few_lines_edits_through_the_wire(
    host: ToolHost, request_for: Make, call_of: CallOf, workspace: CandidateWorkspace
) -> None:
    """Every mutation of the wire is applied by the host, in order."""
    program = """
edits = [
  {"op": "edit", "path": "a.txt", "old": "two", "new": "TWO"},
  {"op": "write", "path": "new/x.bin", "base64": "AP8=", "executable": True},
  {"op": "rename", "path": "pkg/b.txt", "to": "pkg/c.txt"},
  {"op": "symlink", "path": "link", "to": "a.txt"},
  {"op": "set-mode", "path": "pkg/c.txt", "executable": True},
  {"op": "write", "path": "gone.txt", "text": "x"},
  {"op": "delete", "path": "gone.txt"},
]
answer(generation={"summary": "done", "edits": edits})
"""
    result = provider(host, program, directory="empty").execute(call_of(request_for("generation")))
    assert result.generation is not None
    assert result.generation.summary == "done"
    assert {path: workspace.mode(path) for path in workspace.paths()} == {
        b"a.txt": "regular",
        b"link": "symlink",
        b"new/x.bin": "executable",
        b"pkg/c.txt": "executable",
    }
    assert workspace.read(b"a.txt") == b"one\nTWO\n"
    assert workspace.read(b"new/x.bin") == b"\x00\xff"


def test_a_program_may_just_change_files_in_its_copy(
    host: ToolHost, request_for: Make, call_of: CallOf, workspace: CandidateWorkspace
) -> None:
    """In a copy of the candidate, the differences count."""
    provider(host, "open('a.txt','a').write('three\\n'); answer(generation={})").execute(
        call_of(request_for("generation"))
    )
    assert workspace.read(b"a.txt") == b"one\ntwo\nthree\n"


def test_interpretation_plan_and_review_become_canonical_documents(
    host: ToolHost, request_for: Make, call_of: CallOf
) -> None:
    """The host sets identity, objective and digests; the program only says what it thinks."""
    program = """
match asked["request"]["operation"]:
    case "interpretation": answer(interpretation={"assumptions": ["a"]})
    case "planning":
        promise = [{"pattern": "a.txt", "operations": ["modify"]}]
        answer(plan={"steps": [{"id": "s", "intended_changes": promise}]})
    case "review-observation":
        answer(review={"outcome": "revise", "findings": [{"id": "f", "severity": "major", "text": "no"}]})
"""
    made = provider(host, program, operations=("interpretation", "planning", "review-observation", "generation"))
    interpreted = made.execute(call_of(request_for("interpretation"))).interpretation
    assert interpreted is not None
    assert (interpreted.objective, interpreted.assumptions) == ("Tidy up", ("a",))
    planned = made.execute(call_of(request_for("planning"))).plan
    assert planned is not None
    assert (planned.generation, planned.promise, planned.steps[0].intended_changes[0].pattern) == (
        1,
        "declared",
        "a.txt",
    )
    reviewed = made.execute(call_of(request_for("review-observation"))).review
    assert reviewed is not None
    assert (reviewed.outcome, reviewed.reviewers) == ("revise", ("command",))


def test_a_program_that_only_generates_gets_the_hosts_plan(host: ToolHost, request_for: Make, call_of: CallOf) -> None:
    """Operations it does not claim are answered by the host's fixed interpretation and plan."""
    made = provider(host, "sys.exit(9)", operations=("generation",), promise=("pkg/**",))
    assert set(made.describe().operations) == {"generation", "interpretation", "planning"}
    assert made.execute(call_of(request_for("interpretation"))).outcome == "completed"
    plan = made.execute(call_of(request_for("planning"))).plan
    assert plan is not None
    assert plan.steps[0].intended_changes[0].pattern == "pkg/**"
    with pytest.raises(ProviderFailure) as caught:
        made.execute(call_of(request_for("review-observation")))
    assert caught.value.outcome == "unsupported-capability"


@pytest.mark.parametrize(
    ("program", "outcome", "kind"),
    [
        ("sys.exit(1)", "unavailable", "crash"),
        ("os.abort()", "unavailable", "crash"),
        ("", "invalid-output", "malformed-output"),
        ("print('{')", "invalid-output", "malformed-output"),
        ("answer(generation={}); answer(generation={})", "invalid-output", "malformed-output"),
        ("answer(generation={'extra': 1})", "invalid-output", "malformed-output"),
        ("answer(generation={'edits': [{'op': 'delete', 'path': '../x'}]})", "invalid-output", "malformed-output"),
        (
            "answer(generation={'edits': [{'op': 'write', 'path': '.git/config', 'text': ''}]})",
            "invalid-output",
            "malformed-output",
        ),
        ("answer(generation={'edits': [{'op': 'rename', 'path': 'a.txt'}]})", "invalid-output", "malformed-output"),
        ("answer(generation={'edits': [{'op': 'set-mode', 'path': 'a.txt'}]})", "invalid-output", "malformed-output"),
        ("sys.stdout.write('x' * 3_000_000)", "invalid-output", "output-too-long"),
        ("time.sleep(600)", "timed-out", "timeout"),
        (
            "answer(failure={'outcome': 'unavailable', 'failure_kind': 'rate-limited', 'detail': 'later'})",
            "unavailable",
            "rate-limited",
        ),
    ],
)
def test_a_program_that_misbehaves_is_typed(
    host: ToolHost, request_for: Make, call_of: CallOf, program: str, outcome: str, kind: str
) -> None:
    """Crash, silence, prose, a second document, a foreign member, a bad path, too much, too late: each has its kind."""
    made = provider(host, program, directory="empty", max_stdout_bytes=1_000_000)
    with pytest.raises(ProviderFailure) as caught:
        made.execute(call_of(request_for("generation", deadline_ms=3_000)))
    assert (caught.value.outcome, caught.value.failure_kind) == (outcome, kind)


def test_a_plan_outside_its_ranges_is_malformed(host: ToolHost, request_for: Make, call_of: CallOf) -> None:
    """Values that no document can hold are the provider's fault, not ours."""
    made = provider(host, "answer(plan={'steps': [{'id': 'not a name'}]})")
    with pytest.raises(ProviderFailure) as caught:
        made.execute(call_of(request_for("planning")))
    assert (caught.value.outcome, caught.value.failure_kind) == ("invalid-output", "malformed-output")


def test_a_cancelled_call_starts_nothing(host: ToolHost, request_for: Make, call_of: CallOf) -> None:
    """A cancellation that was already asked for ends the call before the program starts."""
    with pytest.raises(ProviderFailure) as caught:
        provider(host, "answer(generation={})").execute(call_of(request_for("generation"), cancelled=True))
    assert (caught.value.outcome, caught.value.failure_kind) == ("cancelled", "cancelled")


@pytest.mark.parametrize("level", ["S0", "S3"])
def test_a_child_left_behind_is_ended_and_counted(
    host: ToolHost, request_for: Make, call_of: CallOf, tmp_path: Path, level: Level
) -> None:
    """A background child in a session of its own does not outlive the call; where it can be counted, it is."""
    program = "subprocess.Popen(['sleep', '600'], start_new_session=True); answer(generation={})"
    call = call_of(request_for("generation"))
    with SupervisedRunner(tmp_path / "own", at_most=level) as processes:
        if processes.level != level:
            pytest.skip(f"sandbox level {level} cannot be had here, only {processes.level}")
        made = provider(replace(host, processes=processes), program)
        assert made.execute(call).outcome == "completed"
    assert getattr(call.observer, "survivors", 0) >= (1 if level == "S0" else 0)
    assert getattr(call.observer, "remaining", None) == 0
    assert getattr(call.observer, "containment", None).level == level


def test_stderr_is_evidence_not_authority(host: ToolHost, request_for: Make, call_of: CallOf) -> None:
    """Lines on standard error reach the observer and nothing else."""
    call = call_of(request_for("generation"))
    provider(host, "print('thinking', file=sys.stderr); answer(generation={})").execute(call)
    assert "thinking" in getattr(call.observer, "lines", ())


USED = 'answer(generation={}, usage={"tokens_in": 9, "tokens_out": 0, "tokens_cached": 4, "cost_microunits": 7})'


def watched(call: Call) -> tuple[Call, Callable[[], Usage | None]]:
    """The call with the host's own observer, and what that one heard of usage."""
    observer = BoundedObserver(call.request.document)
    return replace(call, observer=observer), lambda: observer.report()[0]


def test_what_a_program_says_it_used_is_observed(host: ToolHost, request_for: Make, call_of: CallOf) -> None:
    """The numbers arrive as they were said; one that says nothing, or a negative number, reports nothing."""

    def reported(program: str) -> Usage | None:
        call, used = watched(call_of(request_for("generation")))
        provider(host, program).execute(call)
        return used()

    assert reported(USED) == Usage(9, 0, 7, 4, is_notional=False)
    assert reported('answer(generation={}, usage={"tokens_out": 3, "notional": True})') == Usage(
        None, 3, None, None, is_notional=True
    )
    assert reported('answer(generation={}, usage={"tokens_in": -1})') == Usage()
    assert reported("answer(generation={})") is None


def test_a_failure_may_have_used_something_too(host: ToolHost, request_for: Make, call_of: CallOf) -> None:
    """A provider that knows why it failed still says what the attempt used."""
    call, used = watched(call_of(request_for("generation")))
    failure = '{"outcome": "unavailable", "failure_kind": "overloaded"}'
    with pytest.raises(ProviderFailure):
        provider(host, f'answer(failure={failure}, usage={{"tokens_in": 5}})').execute(call)
    assert used() == Usage(tokens_in=5)


def test_only_what_a_person_vouches_for_reports_usage(host: ToolHost, request_for: Make, call_of: CallOf) -> None:
    """The claim is the person's word; calls that the host answers itself then count as nothing, not as unknown."""
    config = command_config((sys.executable, "-c", "1"), search_path=host.search_path, operations=("generation",))
    for claims, expected in ((False, None), (True, NOTHING_USED)):
        made = CommandProvider(config, host, reports_usage=claims)
        assert made.describe().reports_usage is claims
        for operation in ("interpretation", "planning"):
            call, used = watched(call_of(request_for(operation)))
            made.execute(call)
            assert used() == expected
