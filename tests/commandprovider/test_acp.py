"""The bridge with an agent that speaks the Agent Client Protocol: what is served, permitted, taken, and what fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from commandprovider import ToolHost
from commandprovider.agent import Wish, agent_config
from commandprovider.bridge import AgentProvider
from commandprovider.fixed import fixed_interpretation
from commandprovider.guard import GuardedProvider
from commandprovider.profiles import PROFILES
from commandprovider.redaction import Redactor
from providerport.documents import Request
from providerport.port import Call, ProviderFailure
from runner.workspace import CandidateWorkspace
from savant.contracts.document import Sealed, seal
from savant.contracts.effects import Cancellation
from savant.process.posix import SupervisedRunner
from synthesis.documents import IntendedChange, Plan, PlanStep
from tests.commandprovider.conftest import Notes
from tests.commandprovider.fakeacp import install_acp, planned
from tests.commandprovider.fakeagent import step

SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
SECRET = "hunter2-hunter2-hunter2"

Make = Callable[..., Sealed[Request]]
CallOf = Callable[..., Call]
Agent = Callable[..., AgentProvider]
Steps = list[dict[str, Any]]


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedRunner]:
    """One supervisor for all of these."""
    with SupervisedRunner(tmp_path_factory.mktemp("processes")) as runner:
        yield runner


@pytest.fixture
def host(processes: SupervisedRunner, tmp_path: Path) -> ToolHost:
    """What the agent may use of the machine."""
    return ToolHost(
        processes=processes,
        scratch=tmp_path / "scratch" / "tools",
        ambient={"HOME": str(tmp_path / "person")},
        search_path=SEARCH_PATH,
    )


@pytest.fixture
def agent(host: ToolHost, tmp_path: Path) -> Agent:
    """Makes a provider of the scripted agent."""

    def make(
        script: Mapping[str, Any], *, profile: str = "claude-acp", provided: ToolHost | None = None, **wish: Any
    ) -> AgentProvider:
        program = install_acp(tmp_path / "agent", script)
        used = provided or host
        wish = {"mode": "acp", "executable": str(program)} | wish
        return AgentProvider(agent_config(PROFILES[profile], Wish(**wish), used), used)

    return make


@pytest.fixture
def generation(request_for: Make) -> Make:
    """A generation request for a plan that promises one file."""

    def make(*, deadline_ms: int = 20_000) -> Sealed[Request]:
        plan = Plan(
            interpretation_digest=request_for("interpretation").digest,
            generation=1,
            promise="declared",
            steps=(
                PlanStep(
                    id="step-1",
                    description="Make it TWO",
                    intended_changes=(IntendedChange(pattern="a.txt", operations=("modify",)),),
                    symbols=(),
                    expected_evidence=(),
                    discharges=(),
                    declares_gate_changes=False,
                ),
            ),
            assumptions=(),
            risks=(),
            stop_conditions=(),
        )
        return seal(replace(request_for("generation", deadline_ms=deadline_ms).document, plan=plan))

    return make


class Listening(Notes):
    """Cancels the call when it hears of a write."""

    def __init__(self, cancellation: Cancellation) -> None:
        super().__init__()
        self._cancellation = cancellation

    def note(self, text: str) -> None:
        super().note(text)
        if text.startswith("wrote "):
            self._cancellation.set()


def noted(call: Call, about: str) -> list[str]:
    """What the agent said on standard error about something."""
    notes = call.observer
    assert isinstance(notes, Notes)
    return [line.removeprefix(about + " ") for line in notes.lines if line.startswith(about + " ")]


def refused(provider: Any, call: Call) -> tuple[str, str, str]:
    """Outcome, failure kind and detail of a call that must fail."""
    with pytest.raises(ProviderFailure) as caught:
        provider.execute(call)
    return caught.value.outcome, caught.value.failure_kind, caught.value.detail


# --- generation ------------------------------------------------------------------------------------------------------


def test_files_are_served_by_the_workspace(
    agent: Agent, generation: Make, call_of: CallOf, workspace: CandidateWorkspace
) -> None:
    """Reads and writes over the protocol are the candidate's; the directory follows; the last message sums up."""
    steps: Steps = [
        {"read": "a.txt"},
        {"write": ["a.txt", "one\nTWO\n"]},
        {"write": ["new/deep.txt", "deep\n"]},
        {"read": {"path": "a.txt", "line": 2, "limit": 1}},
        {"cwd": None},
        {"say": "I begin."},
        {"tool": {"kind": "edit"}},
        {"say": "Changed "},
        {"say": "it."},
    ]
    call = call_of(generation())
    made = agent({"generation": steps}).execute(call)
    assert made.generation is not None
    assert made.generation.summary == "Changed it."
    assert workspace.changed() == (b"a.txt", b"new/deep.txt")
    assert (workspace.read(b"a.txt"), workspace.read(b"new/deep.txt")) == (b"one\nTWO\n", b"deep\n")
    assert [json.loads(line)["content"] for line in noted(call, "read")] == ["one\ntwo\n", "TWO\n"]
    assert noted(call, "cwd") == ["['a.txt', 'new', 'pkg']"]
    assert noted(call, "offered") == ['{"readTextFile": true, "writeTextFile": true}']


def test_what_an_agent_writes_by_itself_is_taken_too_and_the_last_one_wins(
    agent: Agent, generation: Make, call_of: CallOf, workspace: CandidateWorkspace
) -> None:
    """Of a write over the protocol and one into the directory the later one is the candidate's, whichever it is."""
    steps: Steps = [
        {"write": ["a.txt", "protocol"]},
        {"disk": ["a.txt", "disk"]},
        {"disk": ["pkg/b.txt", "disk"]},
        {"write": ["pkg/b.txt", "protocol"]},
        {"disk": ["c.txt", "disk"]},
    ]
    agent({"generation": steps}).execute(call_of(generation()))
    assert [workspace.read(path) for path in (b"a.txt", b"pkg/b.txt", b"c.txt")] == [b"disk", b"protocol", b"disk"]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("/etc/passwd", "refused.outside-session"),
        ("../a.txt", "refused.path-traversal"),
        ("pkg/../../../x", "refused.path-traversal"),
        (".git/config", "refused.control-path"),
        ("pkg//b.txt", "refused.bad-path"),
        ("link/x", "refused.write-through-symlink"),
    ],
)
def test_nothing_is_written_outside(
    agent: Agent, generation: Make, call_of: CallOf, workspace: CandidateWorkspace, name: str, code: str
) -> None:
    """A path elsewhere, out of the directory, of git or behind a link is refused; the turn may go on without it."""
    workspace.symlink(b"link", b"pkg")
    call = call_of(generation())
    agent({"generation": [{"write": [name, "x"]}, {"write": ["a.txt", "fine"]}]}).execute(call)
    (first, second) = noted(call, "write")
    assert "refused -32602" in first
    assert code in first
    assert second == "{}"
    assert set(workspace.changed()) == {b"a.txt", b"link"}


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("/etc/passwd", "refused -32602"),
        ("absent.txt", "refused -32002 Resource not found"),
        ("pkg", "refused -32002 Resource not found"),
        ("CLAUDE.md", "refused -32002 Resource not found"),
        ("binary", "refused -32602"),
        ("link", "refused -32602"),
    ],
)
def test_nothing_else_is_read(
    agent: Agent, generation: Make, call_of: CallOf, workspace: CandidateWorkspace, asked: str, answer: str
) -> None:
    """What lies elsewhere, is not there, no text, a link or not disclosed is not read; what may be read is."""
    workspace.write(b"binary", b"\xff\x00")
    workspace.write(b"CLAUDE.md", b"Obey.\n")
    workspace.symlink(b"link", b"/etc/passwd")
    call = call_of(generation())
    agent({"generation": [{"read": asked}, {"read": "a.txt"}, {"write": ["a.txt", "x"]}]}).execute(call)
    first, second = noted(call, "read")
    assert first.startswith(answer)
    assert json.loads(second) == {"content": "one\ntwo\n"}


def test_disclosed_instructions_are_read(
    agent: Agent, generation: Make, call_of: CallOf, workspace: CandidateWorkspace
) -> None:
    """An instruction file that the person disclosed is a file like any other; what stayed hidden is not lost."""
    workspace.write(b"CLAUDE.md", b"Obey.\n")
    workspace.write(b"AGENTS.md", b"Hidden.\n")
    call = call_of(generation())
    steps = [{"read": "CLAUDE.md"}, {"read": "AGENTS.md"}, {"write": ["a.txt", "x"]}]
    agent({"generation": steps}, disclosed=("CLAUDE.md",)).execute(call)
    assert json.loads(noted(call, "read")[0]) == {"content": "Obey.\n"}
    assert workspace.read(b"AGENTS.md") == b"Hidden.\n"


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ({"kind": "edit", "locations": [{"path": "a.txt"}]}, "id-allow_once"),
        ({"kind": "edit"}, "id-allow_once"),
        ({"kind": "read", "locations": [{"path": "a.txt"}]}, "id-allow_once"),
        ({"kind": "delete", "options": ["allow_always", "reject_always"]}, "id-allow_always"),
        ({"kind": "edit", "locations": [{"path": "/etc/passwd"}]}, "id-reject_once"),
        ({"kind": "edit", "content": [{"type": "diff", "path": "/etc/x", "newText": ""}]}, "id-reject_once"),
        ({"kind": "edit", "content": [{"type": "diff", "path": "name", "newText": ""}]}, "id-allow_once"),
        ({"kind": "execute", "title": "rm -rf /"}, "id-reject_once"),
        ({"kind": "fetch", "options": ["allow_once", "reject_always"]}, "id-reject_always"),
        ({"kind": "switch_mode"}, "id-reject_once"),
        ({}, "id-reject_once"),
        ({"kind": "execute", "options": ["allow_once"]}, None),
    ],
)
def test_permission_is_given_by_a_table(
    agent: Agent, generation: Make, call_of: CallOf, asked: dict[str, Any], chosen: str | None
) -> None:
    """File edits in the directory are allowed and nothing else is, whatever options there are."""
    call = call_of(generation())
    agent({"generation": [{"ask": asked}, {"write": ["a.txt", "x"]}]}).execute(call)
    outcome = {"outcome": "cancelled"} if chosen is None else {"optionId": chosen, "outcome": "selected"}
    assert json.loads(noted(call, "ask")[0]) == {"outcome": outcome}


def test_a_tool_that_was_announced_is_known_by_its_name(agent: Agent, generation: Make, call_of: CallOf) -> None:
    """A request that does not repeat what the tool is gets the answer for the tool that it named before."""
    call = call_of(generation())
    steps: Steps = [
        {"tool": {"kind": "edit", "locations": [{"path": "/etc/passwd"}]}},
        {"ask": {}},
        {"tool": {"kind": "edit"}},
        {"ask": {}},
        {"write": ["a.txt", "x"]},
    ]
    agent({"generation": steps}).execute(call)
    assert ["reject" in line for line in noted(call, "ask")] == [True, False]


def test_nothing_but_files_is_offered(agent: Agent, generation: Make, call_of: CallOf) -> None:
    """Terminals, forms, foreign sessions and broken requests get the protocol's own errors; noise is passed over."""
    call = call_of(generation())
    other = {"sessionId": "other", "path": "/x"}
    steps: Steps = [
        {"call": ["terminal/create", {"sessionId": "s1", "command": "rm"}]},
        {"call": ["elicitation/create", {}]},
        {"call": ["fs/read_text_file", {"sessionId": "s1"}]},
        {"call": ["fs/read_text_file", other]},
        {"raw": "no JSON at all"},
        {"raw": "[1, 2]"},
        {"raw": '{"id": 77, "result": {}}'},
        {"raw": '{"method": "session/update", "params": {"sessionId": "s1", "update": {"sessionUpdate": "newer"}}}'},
        {"raw": '{"method": "_vendor/thing"}'},
        {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "failed", "title": "it broke"}},
        {"write": ["a.txt", "x"]},
    ]
    agent({"generation": steps}).execute(call)
    assert [line.split()[1] for line in noted(call, "call")] == ["-32601", "-32601", "-32602", "-32602"]
    assert noted(call, "no message of the protocol:") == ["no JSON at all", "[1, 2]"]
    assert noted(call, "failed:") == ["it broke"]


def test_usage_is_told_as_the_agent_reports_it(agent: Agent, generation: Make, call_of: CallOf) -> None:
    """Tokens from the end of the turn, money from the last update, and nothing that was not told."""
    told = {"inputTokens": 10, "outputTokens": 7, "cachedReadTokens": 3, "cachedWriteTokens": 2, "totalTokens": 22}
    cost = {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.0000015, "currency": "USD"}}
    steps: Steps = [{"update": cost}, {"write": ["a.txt", "x"]}]
    call = call_of(generation())
    agent({"generation": steps, "result": {"usage": told}}).execute(call)
    (line,) = noted(call, "usage")
    assert "tokens_in=15, tokens_out=7, cost_microunits=2, tokens_cached=3, is_notional=False" in line


def test_the_session_begins_as_the_profile_says(agent: Agent, generation: Make, call_of: CallOf) -> None:
    """Claude Code is told to take no settings; Codex gets a mode in which it may write, and must have it."""
    call = call_of(generation())
    agent({"generation": [{"write": ["a.txt", "x"]}]}).execute(call)
    options = json.loads(noted(call, "meta")[0])["claudeCode"]["options"]
    assert (options["settingSources"], options["tools"]) == ([], ["Read", "Edit", "Write", "Glob", "Grep"])
    modes = {"currentModeId": "read-only", "availableModes": [{"id": i, "name": i} for i in ("read-only", "auto")]}
    call = call_of(generation())
    agent({"generation": [{"write": ["a.txt", "y"]}], "session": {"modes": modes}}, profile="codex-acp").execute(call)
    assert (noted(call, "mode"), noted(call, "meta")) == (["auto"], ["null"])
    lesser = {"modes": {**modes, "availableModes": modes["availableModes"][:1]}}
    provider = agent({"generation": [{"write": ["a.txt", "z"]}], "session": lesser}, profile="codex-acp")
    outcome, kind, detail = refused(provider, call_of(generation()))
    assert (outcome, kind) == ("unavailable", "config-error")
    assert "no session mode 'auto'" in detail


# --- failures --------------------------------------------------------------------------------------------------------


def error(message: str, code: int = -32603, **members: Any) -> dict[str, Any]:
    """The step that ends a turn with an error."""
    return {"error": {"code": code, "message": message, **members}}


@pytest.mark.parametrize(
    ("steps", "outcome", "kind"),
    [
        ([{"stop": "max_tokens"}], "invalid-output", "output-too-long"),
        ([{"stop": "max_turn_requests"}], "unavailable", "turn-limit"),
        ([{"stop": "refusal"}], "unavailable", "denied"),
        ([{"stop": "cancelled"}], "cancelled", "cancelled"),
        ([{"stop": "sometime"}], "invalid-output", "malformed-output"),
        ([error("x", data={"errorKind": "rate_limit"})], "unavailable", "rate-limited"),
        ([error("Internal error: Prompt is too long")], "unavailable", "context-overflow"),
        ([error("Authentication required", code=-32000)], "unavailable", "auth"),
        ([error("Something new")], "unavailable", "crash"),
        ([{"error": "broken"}], "unavailable", "crash"),
        ([{"exit": 0}], "invalid-output", "malformed-output"),
        ([{"exit": 3}], "unavailable", "crash"),
        ([{"say": "I did it."}], "invalid-output", "no-change"),
        ([{"write": ["a.txt", "one\ntwo\n"]}], "invalid-output", "no-change"),
        ([{"raw": "x" * 17_000_000}], "invalid-output", "output-too-long"),
    ],
)  # fmt: skip
def test_each_way_of_failing_has_its_kind(
    agent: Agent, generation: Make, call_of: CallOf, steps: Steps, outcome: str, kind: str
) -> None:
    """Stop reasons, errors of the protocol, an early end, a message without end, and a turn that changed nothing."""
    provider = agent({"generation": steps})
    assert refused(provider, call_of(generation()))[:2] == (outcome, kind)
    provider = agent({"generation": [{"write": ["a.txt", "x"]}]})
    assert provider.execute(call_of(generation())).outcome == "completed"


def test_codex_names_its_failures_with_and_without_details(agent: Agent, generation: Make, call_of: CallOf) -> None:
    """A variant with details is an object with one member, whose name counts."""
    modes = {"modes": {"currentModeId": "auto", "availableModes": []}}
    for info, kind in (("usage_limit_exceeded", "rate-limited"), ({"http_connection_failed": {"s": 1}}, "network")):
        steps = [error("x", data={"codex_error_info": info})]
        provider = agent({"generation": steps, "session": modes}, profile="codex-acp")
        assert refused(provider, call_of(generation()))[1] == kind


def test_another_version_of_the_protocol_is_refused(agent: Agent, generation: Make, call_of: CallOf) -> None:
    """An agent that speaks a later version only is not driven."""
    provider = agent({"initialize": {"protocolVersion": 2}})
    outcome, kind, detail = refused(provider, call_of(generation()))
    assert (outcome, kind) == ("unavailable", "config-error")
    assert "version 2" in detail
    provider = agent({"initialize": {"protocolVersion": "x"}})
    assert refused(provider, call_of(generation()))[1] == "malformed-output"


def test_an_agent_that_stays_is_ended_and_has_not_failed(agent: Agent, generation: Make, call_of: CallOf) -> None:
    """One that does not end with its input is ended once its turn is over; its work counts."""
    call = call_of(generation())
    made = agent({"generation": [{"write": ["a.txt", "x"]}], "lingers": True}).execute(call)
    assert made.outcome == "completed"
    assert isinstance(call.observer, Notes)
    assert call.observer.remaining == 0


def test_a_silent_agent_times_out(agent: Agent, generation: Make, call_of: CallOf) -> None:
    """It is ended at its deadline, and what it wrote before is no answer."""
    provider = agent({"generation": [{"write": ["a.txt", "x"]}, {"deaf": True}]})
    assert refused(provider, call_of(generation(deadline_ms=1500)))[:2] == ("timed-out", "timeout")


@pytest.mark.parametrize("waits", ["wait", "deaf"])
def test_a_cancelled_turn_is_told_and_ended(agent: Agent, generation: Make, call_of: CallOf, waits: str) -> None:
    """The agent hears of it, has a moment, and is ended with everything it started, also when it does not listen."""
    call = call_of(generation())
    notes = Listening(call.cancellation)
    provider = agent({"generation": [{"write": ["a.txt", "x"]}, {waits: True}]})
    assert refused(provider, replace(call, observer=notes))[:2] == ("cancelled", "cancelled")
    assert notes.remaining == 0
    assert ("cancelled" in notes.lines) is (waits == "wait")


# --- credentials -----------------------------------------------------------------------------------------------------


def test_no_message_with_a_credential_is_kept(
    agent: Agent, host: ToolHost, generation: Make, call_of: CallOf, workspace: CandidateWorkspace
) -> None:
    """A credential in a title, a message, a file or an error is taken out first, and the candidate falls."""
    masked = replace(host, redactor=Redactor([("KEY", SECRET.encode())]))
    call = call_of(generation())
    steps: Steps = [{"tool": {"kind": "edit"}}, {"say": SECRET}, {"error": {"code": 1, "message": f"bad {SECRET}"}}]
    detail = refused(agent({"generation": steps}, provided=masked), call)[2]
    assert isinstance(call.observer, Notes)
    assert SECRET not in detail + "".join(call.observer.lines)
    assert "redacted-by-savant" in detail
    provider = GuardedProvider(agent({"generation": [{"write": ["a.txt", SECRET]}]}, provided=masked), masked.redactor)
    assert refused(provider, call_of(generation()))[1] == "denied"
    assert SECRET.encode() not in workspace.read(b"a.txt")


# --- planning --------------------------------------------------------------------------------------------------------


@pytest.fixture
def planning(request_for: Make) -> Make:
    """A planning request."""

    def make() -> Sealed[Request]:
        interpretation = fixed_interpretation(request_for("interpretation"), source="test").interpretation
        return request_for("planning", interpretation=interpretation)

    return make


def test_a_plan_is_the_last_message_of_the_turn(agent: Agent, planning: Make, call_of: CallOf) -> None:
    """It reads the base, may not write, and what it says in between is not the answer."""
    call = call_of(planning())
    steps: Steps = [
        {"read": "a.txt"},
        {"write": ["a.txt", "x"]},
        {"ask": {"kind": "edit"}},
        {"ask": {"kind": "read", "locations": [{"path": "a.txt"}]}},
        *planned(json.dumps(step("a.txt"))),
    ]
    plan = agent({"planning": steps}).execute(call).plan
    assert plan is not None
    assert [change.pattern for change in plan.steps[0].intended_changes] == ["a.txt"]
    assert json.loads(noted(call, "read")[0]) == {"content": "one\ntwo\n"}
    assert "refused.read-only" in noted(call, "write")[0]
    assert ["reject" in line for line in noted(call, "ask")] == [True, False]
    assert noted(call, "offered") == ['{"readTextFile": true, "writeTextFile": false}']
    assert json.loads(noted(call, "meta")[0])["claudeCode"]["options"]["tools"] == ["Read", "Glob", "Grep"]


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        ([{"say": "A fine plan: " + json.dumps(step("a.txt"))}], "malformed-output"),
        ([{"say": json.dumps(step("a.txt"))}, {"tool": {"kind": "think"}}], "malformed-output"),
        ([], "malformed-output"),
    ],
)
def test_prose_and_silence_are_no_plan(agent: Agent, planning: Make, call_of: CallOf, steps: Steps, kind: str) -> None:
    """Only a whole last message that is JSON is a plan."""
    assert refused(agent({"planning": steps}), call_of(planning()))[1] == kind
    provider = agent({"planning": [{"say": json.dumps(step("a.txt"))}]})
    assert provider.execute(call_of(planning())).plan is not None


def test_a_plan_that_changed_the_directory_is_denied(
    agent: Agent, tmp_path: Path, planning: Make, call_of: CallOf
) -> None:
    """Where nothing holds it, an agent that writes into what it may only read has failed."""
    with SupervisedRunner(tmp_path / "streams", at_most="S0") as loose:
        open_host = ToolHost(processes=loose, scratch=tmp_path / "loose", ambient={}, search_path=SEARCH_PATH)
        answer = planned(json.dumps(step("a.txt")))
        assert agent({"planning": answer}, provided=open_host).execute(call_of(planning())).plan is not None
        provider = agent({"planning": [{"disk": ["a.txt", "x"]}, *answer]}, provided=open_host)
        outcome, kind, detail = refused(provider, call_of(planning()))
    assert (outcome, kind) == ("invalid-output", "denied")
    assert "may only read" in detail
