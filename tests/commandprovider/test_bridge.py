"""The bridge with a scripted agent: what is asked, what is taken, and how each way of failing is told."""

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
from commandprovider.profiles import PROFILES
from commandprovider.secrets import Secrets
from providerport.documents import AuditedChange, AuditReport, AuditTask, Prior, Request
from providerport.port import NOTHING_USED, Call, ProviderFailure
from runner.snapshot import BaseSnapshot
from runner.workspace import CandidateWorkspace
from savant.contracts.document import Sealed, seal
from savant.process.posix import SupervisedRunner
from savant.repository.git import Repository
from synthesis.documents import Finding, IntendedChange, Interpretation, Plan, PlanStep
from tests.commandprovider.conftest import git
from tests.commandprovider.fakeagent import install, step

SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"

Make = Callable[..., Sealed[Request]]
CallOf = Callable[..., Call]
Agent = Callable[..., AgentProvider]

FINDING = Finding(check="pytest", status="failed", path="a.txt", line=2, message="expected TWO", excerpt="two")
PRIOR = Prior(
    plan_review_digest=None,
    attempt_digest=None,
    evaluation_digest=None,
    outcome="completed",
    failure_kind=None,
    findings=(FINDING,),
    review_findings=(),
    dropped=0,
)


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
        ambient={"HOME": str(tmp_path / "person"), "SECRET": "hush"},
        search_path=SEARCH_PATH,
    )


@pytest.fixture
def agent(host: ToolHost, tmp_path: Path) -> Agent:
    """Makes a provider of the scripted agent."""

    def make(script: Mapping[str, Any], *, provided: ToolHost | None = None, **wish: Any) -> AgentProvider:
        program = install(tmp_path / "agent", script)
        wish = {"mode": "answer", "executable": str(program)} | wish
        used = provided or host
        return AgentProvider(agent_config(PROFILES["claude"], Wish(**wish), used), used)

    return make


@pytest.fixture
def interpretation(request_for: Make) -> Interpretation:
    """The interpretation that the host makes."""
    made = fixed_interpretation(request_for("interpretation"), source="test").interpretation
    assert made is not None
    return replace(made, forbidden_fixes=("Do not delete the test.",))


@pytest.fixture
def generation(request_for: Make, interpretation: Interpretation) -> Make:
    """A generation request for a plan that promises one file."""

    def make(*, prior: Prior | None = None, pattern: str = "a.txt") -> Sealed[Request]:
        change = IntendedChange(pattern=pattern, operations=("modify",))
        plan = Plan(
            interpretation_digest=request_for("interpretation").digest,
            generation=1,
            promise="declared",
            steps=(
                PlanStep(
                    id="step-1",
                    description="Make it TWO",
                    intended_changes=(change,),
                    symbols=(),
                    expected_evidence=(),
                    discharges=(),
                    declares_gate_changes=False,
                ),
            ),
            assumptions=(f"Task: {interpretation.objective}",),
            risks=(),
            stop_conditions=(),
        )
        return seal(replace(request_for("generation", prior=prior).document, plan=plan))

    return make


def refused(provider: AgentProvider, call: Call) -> tuple[str, str, str]:
    """Outcome, failure kind and detail of a call that must fail."""
    with pytest.raises(ProviderFailure) as caught:
        provider.execute(call)
    return caught.value.outcome, caught.value.failure_kind, caught.value.detail


def edit(old: str = "two", new: str = "TWO") -> dict[str, Any]:
    return {"answer": {"summary": "s", "edits": [{"op": "edit", "path": "a.txt", "old": old, "new": new}]}}


def test_the_host_takes_the_task_as_it_is_written(agent: Agent, request_for: Make, call_of: CallOf) -> None:
    """By default no agent interprets, and the interpretation says so, and that the network was open."""
    provider = agent({"interpretation": {"status": 3}})
    made = provider.execute(call_of(request_for("interpretation"))).interpretation
    assert made is not None
    assert made.objective == "Tidy up"
    assert [text.text.partition(":")[0] for text in made.limitations] == [
        "The task was taken as it was written; no mind interpreted it.",
        "The agent's network was open",
    ]


@pytest.mark.parametrize("mode", ["answer", "workspace"])
def test_an_agent_may_interpret_through_a_closed_schema(
    agent: Agent, request_for: Make, call_of: CallOf, mode: str
) -> None:
    """Objective and obligations are the session's, whatever the agent says; the rest is its own."""
    script = {"interpretation": {"answer": {"assumptions": ["small"], "unresolved_questions": ["why?"]}}}
    provider = agent(script, mode=mode, interpretation="agent")
    made = provider.execute(call_of(request_for("interpretation"))).interpretation
    assert made is not None
    assert (made.objective, made.assumptions, made.unresolved_questions) == ("Tidy up", ("small",), ("why?",))


@pytest.mark.parametrize("mode", ["answer", "workspace"])
def test_a_plan_is_one_call_and_carries_the_task(
    agent: Agent, request_for: Make, call_of: CallOf, interpretation: Interpretation, mode: str
) -> None:
    """The plan's promise is the agent's; the host puts the task and the owners' rules in front, and sets identity."""
    see = {"need": ["pkg/b.txt"]} if mode == "workspace" else {"absent": ["pkg/b.txt"]}
    provider = agent({"planning": {**see, "answer": step("a.txt")}}, mode=mode)
    call = call_of(request_for("planning", interpretation=interpretation))
    made = provider.execute(call).plan
    assert made is not None
    assert made.promise == "declared"
    assert [change.pattern for change in made.steps[0].intended_changes] == ["a.txt"]
    assert made.assumptions[:2] == ("Task: Tidy up", "Forbidden: Do not delete the test.")
    assert made.interpretation_digest == call.request.document.parent_digest


@pytest.fixture
def audit(request_for: Make, generation: Make) -> Make:
    """A request for an audit of a candidate that changes one file."""

    def make(audited: AuditReport | None = None) -> Sealed[Request]:
        plan = generation().document.plan
        assert plan is not None
        task = AuditTask(
            candidate_digest="blake3:" + "1" * 64,
            objective="Tidy up",
            plan=plan,
            changes=(AuditedChange(path="a.txt", diff="-two\n+TWO\n"), AuditedChange(path="pkg/b.txt", diff=None)),
            audited=audited,
        )
        return seal(replace(request_for("evaluation-observation").document, audit=task))

    return make


SEEN = {
    "id": "f-1",
    "severity": "blocking",
    "text": "Too loud.",
    "citations": [{"path": "a.txt", "side": "candidate", "line": 2, "end_line": 2, "text": "TWO"}],
}


@pytest.mark.parametrize("mode", ["answer", "workspace"])
def test_an_agent_audits_and_another_examines(agent: Agent, audit: Make, call_of: CallOf, mode: str) -> None:
    """Both are told task, plan and change; the second also what the first found. What they may read is the tree."""
    see = {"need": ["pkg/b.txt"]} if mode == "workspace" else {"absent": ["pkg/b.txt"]}
    told = ["+TWO", "Make it TWO", "change of pkg/b.txt (not shown", "Tidy up"]
    script = {
        "audit": {**see, "demanded": told, "answer": {"findings": [SEEN], "verdicts": []}},
        "examination": {
            "demanded": [*told, "Too loud."],
            "answer": {"findings": [], "verdicts": [verdict("refuted")]},
        },
    }
    provider = agent(script, mode=mode)
    first = provider.execute(call_of(audit())).audit
    assert first is not None
    assert [(item.id, item.severity, item.citations[0].line) for item in first.findings] == [("f-1", "blocking", 2)]
    second = provider.execute(call_of(audit(first))).audit
    assert second is not None
    assert [(item.finding, item.verdict) for item in second.verdicts] == [("f-1", "refuted")]


def verdict(word: str) -> dict[str, Any]:
    return {"finding": "f-1", "verdict": word, "severity": None, "text": "It is asked for."}


def test_an_auditor_that_answers_in_prose_or_writes_has_failed(agent: Agent, audit: Make, call_of: CallOf) -> None:
    """As everywhere: an answer is one document, and a directory to read is not written to."""
    answer = {"findings": [], "verdicts": []}
    assert agent({"audit": {"answer": answer}}).execute(call_of(audit())).audit is not None
    prose = refused(agent({"audit": {"text": "Looks good to me."}}), call_of(audit()))
    assert prose[:2] == ("invalid-output", "malformed-output")
    wrote = refused(agent({"audit": {"answer": answer, "write": {"x": "x"}}}, mode="workspace"), call_of(audit()))
    assert wrote[0] in ("invalid-output", "unavailable"), "denied where it can be written to, a crash where it cannot"
    bare = seal(replace(audit().document, audit=None))
    assert refused(agent({"audit": {"answer": answer}}), call_of(bare))[0] == "invalid-output"


def test_the_host_may_plan(agent: Agent, request_for: Make, call_of: CallOf, interpretation: Interpretation) -> None:
    """With planning by the host the promise is what the person limited the task to, and no call is made."""
    provider = agent({"planning": {"status": 3}}, planning="host", promise=("pkg/**",))
    made = provider.execute(call_of(request_for("planning", interpretation=interpretation))).plan
    assert made is not None
    assert made.steps[0].description == "Tidy up"
    assert [change.pattern for change in made.steps[0].intended_changes] == ["pkg/**"]


def test_an_answer_is_applied_by_the_host(
    agent: Agent, generation: Make, call_of: CallOf, workspace: CandidateWorkspace
) -> None:
    """The planned file is in the prompt and not in the working directory; the edit is in the candidate."""
    act = {**edit(), "absent": ["a.txt"]}
    call = call_of(generation())
    made = agent({"generation": act, "demanded": ["one\ntwo\n", "pkg/b.txt"]}).execute(call).generation
    assert made is not None
    assert made.summary == "s"
    assert workspace.read(b"a.txt") == b"one\nTWO\n"
    usage = next(line for line in getattr(call.observer, "lines", ()) if line.startswith("usage"))
    assert "tokens_in=11, tokens_out=7, cost_microunits=184" in usage


@pytest.mark.parametrize("billing", ["metered", "subscription"])
def test_what_a_subscription_pays_is_notional(
    agent: Agent, host: ToolHost, generation: Make, request_for: Make, call_of: CallOf, billing: Any
) -> None:
    """The credential's source says who pays; a call that the host answers itself used nothing."""
    provider = agent({"generation": edit()}, provided=replace(host, secrets=Secrets(billing=billing)))
    call = call_of(generation())
    provider.execute(call)
    usage = next(line for line in getattr(call.observer, "lines", ()) if line.startswith("usage"))
    assert f"is_notional={billing == 'subscription'}" in usage
    call = call_of(request_for("interpretation"))
    provider.execute(call)
    assert getattr(call.observer, "lines", None) == [f"usage {NOTHING_USED}"]


def test_a_copy_is_edited_and_absorbed(
    agent: Agent, generation: Make, call_of: CallOf, workspace: CandidateWorkspace
) -> None:
    """In a copy the difference is the answer, whatever the agent says about it; files may go and come."""
    act = {"write": {"a.txt": "new\n", "deep/er/c.txt": "c\n"}, "delete": ["pkg/b.txt"], "text": "I did nothing."}
    made = agent({"generation": act}, mode="workspace").execute(call_of(generation(pattern="**"))).generation
    assert made is not None
    assert made.summary == "I did nothing."
    assert {path: workspace.read(path) for path in workspace.paths()} == {b"a.txt": b"new\n", b"deep/er/c.txt": b"c\n"}


def test_a_summary_names_no_folder_of_the_machine(
    agent: Agent, generation: Make, call_of: CallOf, host: ToolHost
) -> None:
    """What the agent says about paths of its copy is recorded without them."""
    act = {"write": {"a.txt": "x\n"}, "text": f"I edited {host.scratch.parent}/candidate-1/a.txt."}
    made = agent({"generation": act}, mode="workspace").execute(call_of(generation())).generation
    assert made is not None
    assert str(host.scratch.parent) not in made.summary
    assert "a.txt" in made.summary


@pytest.mark.parametrize("mode", ["answer", "workspace"])
def test_a_retry_is_told_what_failed(agent: Agent, generation: Make, call_of: CallOf, mode: str) -> None:
    """The request's findings are in the prompt: check, status, path, line, message and excerpt."""
    told = [f'"{name}": {json.dumps(value)}' for name, value in (("check", "pytest"), ("line", 2), ("excerpt", "two"))]
    act = edit() if mode == "answer" else {"write": {"a.txt": "TWO\n"}}
    script = {"generation": {"status": 3}, "generation-again": act, "demanded": told}
    assert agent(script, mode=mode).execute(call_of(generation(prior=PRIOR))).generation is not None


@pytest.mark.parametrize(
    ("act", "outcome", "kind"),
    [
        ({"text": "Sure! Here is the change: {}"}, "invalid-output", "malformed-output"),
        ({"text": ""}, "invalid-output", "malformed-output"),
        ({"text": "{"}, "invalid-output", "malformed-output"),
        ({"answer": {"summary": "s", "edits": [], "extra": 1}}, "invalid-output", "malformed-output"),
        ({"text": '{"edits": [], "edits": []}'}, "invalid-output", "malformed-output"),
        ({"answer": {"summary": "nothing to do", "edits": []}}, "invalid-output", "no-change"),
        (edit(old="absent"), "invalid-output", "malformed-output"),
        ({"answer": {"edits": [{"op": "write", "path": "../x", "text": ""}]}}, "invalid-output", "malformed-output"),
        ({**edit(), "without": ["subtype"]}, "invalid-output", "malformed-output"),
        ({**edit(), "envelope": {"is_error": True, "api_error_status": 429}}, "unavailable", "rate-limited"),
        ({**edit(), "envelope": {"is_error": True, "api_error_status": 529}, "status": 1}, "unavailable", "overloaded"),
        ({**edit(), "raw": ""}, "invalid-output", "malformed-output"),
        ({"raw": "", "status": 1}, "unavailable", "crash"),
    ],
)
def test_an_answer_that_cannot_be_taken_is_typed(
    agent: Agent, generation: Make, call_of: CallOf, act: dict[str, Any], outcome: str, kind: str
) -> None:
    """Prose, nothing, half a document, foreign members, no edit, an edit that fits nowhere, a stray file, an error."""
    assert refused(agent({"generation": act}), call_of(generation()))[:2] == (outcome, kind)


def test_a_fence_is_stripped_and_two_hundred_kilobytes_arrive(
    agent: Agent, generation: Make, call_of: CallOf, workspace: CandidateWorkspace
) -> None:
    """One fence around the JSON is no failure, and a large answer comes whole."""
    text = "x" * 200_000 + "\n"
    answer = json.dumps({"summary": "", "edits": [{"op": "write", "path": "a.txt", "text": text}]})
    agent({"generation": {"text": f"```json\n{answer}\n```"}}).execute(call_of(generation()))
    assert workspace.read(b"a.txt") == text.encode()


def test_the_answer_that_the_agent_checked_itself_counts(
    agent: Agent, generation: Make, call_of: CallOf, workspace: CandidateWorkspace
) -> None:
    """Where the agent gives a structured answer, its prose is not read."""
    act = {"text": "Done!", "structured": edit()["answer"]}
    agent({"generation": act}).execute(call_of(generation()))
    assert workspace.read(b"a.txt") == b"one\nTWO\n"


@pytest.mark.parametrize(
    ("act", "outcome", "kind"),
    [
        ({"text": "Done."}, "invalid-output", "no-change"),
        ({"shell": "ln -s /etc/passwd link && rm -rf pkg && mkfifo pipe"}, "invalid-output", "denied"),
        ({"write": {"a.txt": "x"}, "status": 1, "raw": ""}, "unavailable", "crash"),
        ({"write": {"a.txt": "x"}, "envelope": {"is_error": True}}, "unavailable", "crash"),
        ({"write": {"a.txt": "x"}, "raw": "done"}, "invalid-output", "malformed-output"),
    ],
)
def test_an_edit_run_that_failed_gives_no_candidate(
    agent: Agent,
    generation: Make,
    call_of: CallOf,
    workspace: CandidateWorkspace,
    act: dict[str, Any],
    outcome: str,
    kind: str,
) -> None:
    """No difference, a special file, a failure beside a difference: nothing of it is taken."""
    provider = agent({"generation": act}, mode="workspace")
    assert refused(provider, call_of(generation()))[:2] == (outcome, kind)
    assert workspace.read(b"a.txt") == b"one\ntwo\n"


@pytest.fixture
def uncontained(host: ToolHost, tmp_path: Path) -> Iterator[ToolHost]:
    """A host whose commands nothing contains."""
    with SupervisedRunner(tmp_path / "weak", at_most="S0") as processes:
        yield replace(host, processes=processes)


@pytest.mark.parametrize("mode", ["answer", "workspace"])
def test_planning_changes_nothing(
    agent: Agent,
    request_for: Make,
    call_of: CallOf,
    interpretation: Interpretation,
    uncontained: ToolHost,
    mode: str,
) -> None:
    """A planner that changes its working directory has failed, though it planned; one that only plans has not."""
    stray = {"answer": step("a.txt"), "shell": "chmod u+w . && echo x > stray.txt"}
    call = call_of(request_for("planning", interpretation=interpretation))
    provider = agent({"planning": stray}, mode=mode, provided=uncontained)
    assert refused(provider, call)[:2] == ("invalid-output", "denied")
    provider = agent({"planning": {"answer": step("a.txt")}}, mode=mode, provided=uncontained)
    assert provider.execute(call).plan is not None


def test_an_answer_beside_a_changed_directory_is_denied(
    agent: Agent, generation: Make, call_of: CallOf, uncontained: ToolHost, workspace: CandidateWorkspace
) -> None:
    """In mode ``answer`` the directory is not the agent's to write, at exit status 0 and with a good answer too."""
    provider = agent({"generation": {**edit(), "write": {"stray.txt": "x"}}}, provided=uncontained)
    assert refused(provider, call_of(generation()))[:2] == ("invalid-output", "denied")
    assert workspace.read(b"a.txt") == b"one\ntwo\n"


def test_a_contained_agent_cannot_write_where_it_may_only_read(
    agent: Agent, request_for: Make, call_of: CallOf, interpretation: Interpretation, host: ToolHost
) -> None:
    """Where a sandbox can be had the directory is read-only, and an agent whose writing failed may still answer."""
    if host.processes.level not in ("S2", "S3"):
        pytest.skip(f"no sandbox here: level {host.processes.level}")
    act = {"answer": step("a.txt"), "shell": "! echo x > stray.txt"}
    provider = agent({"planning": act}, mode="workspace")
    assert provider.execute(call_of(request_for("planning", interpretation=interpretation))).plan is not None


def test_an_agent_that_changed_in_the_middle_of_a_run_is_not_called(
    agent: Agent, generation: Make, call_of: CallOf, tmp_path: Path
) -> None:
    """Its executable is compared before each call; the same one is called again."""
    provider = agent({"generation": edit()})
    program = tmp_path / "agent" / "claude"
    assert provider.execute(call_of(generation())).generation is not None
    program.write_text(program.read_text() + "# updated\n")
    outcome, kind, detail = refused(provider, call_of(generation()))
    assert (outcome, kind) == ("unavailable", "config-error")
    assert "port.executable-changed" in detail


def test_an_agent_past_its_deadline_is_ended(agent: Agent, generation: Make, call_of: CallOf) -> None:
    """The deadline of the request is the agent's."""
    call = call_of(seal(replace(generation().document, deadline_ms=1_500)))
    assert refused(agent({"generation": {"sleep": 600}}), call)[:2] == ("timed-out", "timeout")


def test_what_the_bridge_does_not_do_is_said(agent: Agent, request_for: Make, call_of: CallOf) -> None:
    """An operation that no agent is asked for is unsupported."""
    assert refused(agent({}), call_of(request_for("review-observation")))[0] == "unsupported-capability"


def test_a_prompt_that_is_too_long_is_not_sent(agent: Agent, generation: Make, call_of: CallOf) -> None:
    """What does not fit even without a file of the repository is a context overflow, told before any call."""
    provider = agent({"generation": edit()}, max_prompt_bytes=1_000)
    assert refused(provider, call_of(generation()))[:2] == ("unavailable", "context-overflow")


def test_values_outside_their_ranges_are_malformed(
    agent: Agent, request_for: Make, call_of: CallOf, interpretation: Interpretation
) -> None:
    """A plan that no document can hold is the agent's fault."""
    provider = agent({"planning": {"answer": step("a.txt", id_="not a name")}})
    call = call_of(request_for("planning", interpretation=interpretation))
    assert refused(provider, call)[:2] == ("invalid-output", "malformed-output")


@pytest.fixture
def instructed(repository_path: Path, tmp_path: Path) -> Iterator[tuple[BaseSnapshot, CandidateWorkspace]]:
    """A base with instruction files for agents, and a workspace over it."""
    for name in ("CLAUDE.md", "pkg/AGENTS.md", ".cursor/rules/r.mdc"):
        path = repository_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"Obey {name}.\n")
    git(repository_path, "add", "-A")
    git(repository_path, "commit", "-q", "-m", "instructions")
    scratch = tmp_path / "instructed"
    scratch.mkdir()
    with Repository.open(repository_path) as repository:
        snapshot = BaseSnapshot.take(repository, repository.resolve_commit("HEAD"), cache=None)
        made = CandidateWorkspace(snapshot, scratch)
        yield snapshot, made
        made.dispose()


HIDDEN = ["CLAUDE.md", "pkg/AGENTS.md", ".cursor/rules/r.mdc"]


def test_instruction_files_stay_hidden_and_untouched(
    agent: Agent, generation: Make, call_of: CallOf, instructed: tuple[BaseSnapshot, CandidateWorkspace]
) -> None:
    """In its copy an agent finds none of them; the candidate has them as the base has, also where a folder is gone."""
    snapshot, workspace = instructed
    act = {"absent": HIDDEN, "write": {"a.txt": "x\n"}, "shell": "rm -rf pkg .cursor"}
    call = call_of(generation(pattern="**"))
    agent({"generation": act}, mode="workspace").execute(replace(call, base=snapshot, workspace=workspace))
    left = {path: workspace.read(path) for path in workspace.paths()}
    assert left == {b"a.txt": b"x\n", **{name.encode(): f"Obey {name}.\n".encode() for name in HIDDEN}}


def test_an_instruction_file_that_an_agent_writes_is_part_of_its_change(
    agent: Agent, generation: Make, call_of: CallOf, instructed: tuple[BaseSnapshot, CandidateWorkspace]
) -> None:
    """Hidden is not protected: what the agent puts there is in the candidate, and is judged."""
    snapshot, workspace = instructed
    call = call_of(generation(pattern="**"))
    agent({"generation": {"write": {"CLAUDE.md": "Mine.\n"}}}, mode="workspace").execute(
        replace(call, base=snapshot, workspace=workspace)
    )
    assert workspace.read(b"CLAUDE.md") == b"Mine.\n"


def test_a_folder_that_became_a_link_is_not_written_through(
    agent: Agent,
    generation: Make,
    call_of: CallOf,
    instructed: tuple[BaseSnapshot, CandidateWorkspace],
    tmp_path: Path,
) -> None:
    """An agent cannot make the host write a hidden file somewhere else."""
    snapshot, workspace = instructed
    outside = tmp_path / "outside"
    outside.mkdir()
    act = {"shell": f"rm -rf pkg && ln -s {outside} pkg"}
    call = replace(call_of(generation(pattern="**")), base=snapshot, workspace=workspace)
    assert refused(agent({"generation": act}, mode="workspace"), call)[:2] == ("invalid-output", "denied")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("mode", ["answer", "workspace"])
def test_disclosed_instructions_are_shown_and_recorded(
    agent: Agent,
    request_for: Make,
    call_of: CallOf,
    interpretation: Interpretation,
    instructed: tuple[BaseSnapshot, CandidateWorkspace],
    mode: str,
) -> None:
    """What the person disclosed is in the prompt and in the configuration; the others stay hidden."""
    snapshot, _ = instructed
    script = {"planning": {"answer": step("a.txt")}, "demanded": ["Obey CLAUDE.md"], "forbidden": ["Obey pkg/AGENTS"]}
    provider = agent(script, mode=mode, disclosed=("CLAUDE.md",))
    call = replace(call_of(request_for("planning", interpretation=interpretation)), base=snapshot)
    assert provider.execute(call).plan is not None
    assert refused(agent(script, mode=mode), call)[:2] == ("unavailable", "crash")


@pytest.mark.parametrize("max_prompt_bytes", [12_000, 12_001, 20_000, 60_000])
def test_a_large_repository_fills_a_prompt_and_never_overflows_it(
    agent: Agent,
    generation: Make,
    call_of: CallOf,
    repository_path: Path,
    tmp_path: Path,
    max_prompt_bytes: int,
) -> None:
    """Paths and contents are shown up to the limit, whatever the repository's size is; the planned file comes first."""
    for number in range(300):
        path = repository_path / f"more/{number:03}" / f"file-{number:03}.txt"
        path.parent.mkdir(parents=True)
        path.write_text("z" * (number * 7))
    git(repository_path, "add", "-A")
    git(repository_path, "commit", "-q", "-m", "more")
    scratch = tmp_path / "large"
    scratch.mkdir()
    provider = agent({"generation": edit(), "demanded": ["one\ntwo\n"]}, max_prompt_bytes=max_prompt_bytes)
    with Repository.open(repository_path) as repository:
        snapshot = BaseSnapshot.take(repository, repository.resolve_commit("HEAD"), cache=None)
        made = CandidateWorkspace(snapshot, scratch)
        call = replace(call_of(generation(pattern="**")), base=snapshot, workspace=made)
        assert provider.execute(call).generation is not None
        made.dispose()
