"""The bridge: a coding agent that knows nothing of us, behind the provider port.

The host writes the prompt, starts the agent, reads its answer strictly and sets every identity and digest itself. In
mode ``answer`` the agent returns edits that the host applies through the workspace; in mode ``workspace`` it edits the
candidate's disposable copy and the host takes the difference; in mode ``acp`` its reads and writes come over a protocol
and are served by the workspace, and what it changed in the copy by itself is taken as well. An agent that answers in
prose, changes what it may only read, or changes nothing has failed, whatever its exit status is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, assert_never

from msgspec.structs import replace

from commandprovider.agent import ResolvedAgent, answer_flags, answering_with
from commandprovider.agentcall import start_agent
from commandprovider.answers import audit_of, interpretation_of, plan_of, result_of
from commandprovider.copies import fill_copy, fingerprint, put_back, take_away
from commandprovider.fixed import fixed_interpretation, fixed_plan
from commandprovider.material import DisclosedBase, Disclosure, instructions, select
from commandprovider.profiles.render import invocation_of
from commandprovider.prompts import Material, answer_schema, render_prompt, without_places
from commandprovider.provider import apply_edit
from commandprovider.reading import Said, document_in
from commandprovider.recipe import absorb, capabilities_of, require_workspace
from commandprovider.served import ServedFiles
from commandprovider.templates import Ask
from commandprovider.tool import ToolHost
from commandprovider.wire import WireAudit, WireGeneration, WireInterpretation, WirePlan, parse_part
from providerport.documents import Capabilities, GenerationClaim, Result
from providerport.port import NOTHING_USED, BaseReader, Call, ProviderFailure
from savant.contracts.document import seal
from savant.contracts.errors import InternalError, RefusedInput, SavantError
from synthesis.documents import Interpretation, Limitation, Plan

HEADINGS_BYTES: Final = 1_024
"""What the sections of a prompt that show the repository have beside what is counted."""

MAX_SUMMARY: Final = 4_000
MAX_CARRIED: Final = 32_000
AGENT_INTENT: Final = ("Do the task as it is written, within the accepted plan.",)


class AgentProvider:
    """A coding agent as a provider."""

    def __init__(self, agent: ResolvedAgent, host: ToolHost) -> None:
        self._agent = agent
        self._host = host
        self._disclosure = Disclosure(agent.agent.disclosed)
        self._places = _places(host)

    def describe(self) -> Capabilities:
        """The agent, identified by its configuration."""
        return capabilities_of(self._agent.config, reports_usage=self._agent.profile.reports_usage)

    def execute(self, call: Call) -> Result:
        """Answer one request.

        :raises ProviderFailure: the agent failed, or answered what cannot be taken.
        """
        try:
            result = self._answer(call)
            seal(result)
        except RefusedInput as error:
            raise ProviderFailure("invalid-output", "malformed-output", str(error)) from error
        except InternalError as error:
            raise ProviderFailure(
                "invalid-output", "malformed-output", f"The answer's values are outside their ranges: {error.message}"
            ) from error
        return result

    def _answer(self, call: Call) -> Result:
        chosen = self._agent.agent
        match call.request.document.operation:
            case "interpretation":
                return self._interpret(call) if chosen.interpretation == "agent" else self._taken_as_written(call)
            case "planning":
                return self._plan(call) if chosen.planning == "agent" else self._planned_by_host(call)
            case "generation":
                return self._generate(call)
            case "evaluation-observation":
                return self._audit(call)
            case operation:
                raise ProviderFailure("unsupported-capability", "bad-request", f"An agent does no {operation} here.")

    # --- interpretation and planning

    def _taken_as_written(self, call: Call) -> Result:
        call.observer.usage(NOTHING_USED)
        return fixed_interpretation(call.request, source="agent", intent=AGENT_INTENT, limitations=self._limitations())

    def _interpret(self, call: Call) -> Result:
        session = call.request.document.session
        objective = "" if session is None else session.objective
        ask: Ask = "interpretation-workspace" if self._agent.capability != "answer" else "interpretation-answer"
        material = self._shown(call, ask, Material(objective=objective), about=(objective,))
        said = self._ask(call, ask, material)
        wire = parse_part(document_in(said), WireInterpretation)
        interpretation = interpretation_of(call.request.document, wire, self._limitations())
        return result_of(call.request, interpretation=interpretation)

    def _limitations(self) -> tuple[Limitation, ...]:
        agent, profile = self._agent.agent, self._agent.profile
        found = []
        if not agent.tested:
            first, after = profile.probe.tested
            found.append(
                f"{profile.title} {agent.version} is outside the versions this profile was tested with "
                f"({first} up to, not including, {after})."
            )
        if self._agent.config.sealed.document.network == "open":
            found.append("The agent's network was open: what it sent and read there is not recorded.")
        return tuple(Limitation(source="agent", text=text, blocking=False) for text in found)

    def _planned_by_host(self, call: Call) -> Result:
        call.observer.usage(NOTHING_USED)
        interpretation = _interpretation(call)
        promise = self._agent.config.sealed.document.promise
        made = fixed_plan(call.request, steps=[interpretation.objective], promise=promise)
        return _carrying(made, interpretation)

    def _plan(self, call: Call) -> Result:
        request, interpretation = call.request.document, _interpretation(call)
        ask: Ask = "planning-workspace" if self._agent.capability != "answer" else "planning-answer"
        material = Material(interpretation=interpretation, scope=request.scope, prior=request.prior)
        about = (interpretation.objective, *_findings(call))
        said = self._ask(call, ask, self._shown(call, ask, material, about=about, wanted=request.scope))
        wire = parse_part(document_in(said), WirePlan)
        made = result_of(call.request, plan=plan_of(request, wire, promise="declared"))
        return _carrying(made, interpretation)

    # --- generation

    def _generate(self, call: Call) -> Result:
        match self._agent.capability:
            case "answer":
                summary = self._by_answer(call)
            case "workspace" | "acp":
                summary = self._in_copy(call)
            case _:
                assert_never(self._agent.capability)
        claim = GenerationClaim(
            summary=without_places(summary, self._places)[:MAX_SUMMARY],
            declared_change_digest=None,
            declared_final_digest=None,
        )
        return result_of(call.request, generation=claim)

    def _by_answer(self, call: Call) -> str:
        workspace, plan = require_workspace(call), _plan_of(call)
        patterns = tuple(change.pattern for step in plan.steps for change in step.intended_changes)
        material = Material(plan=plan, prior=call.request.document.prior)
        about = (*(step.description for step in plan.steps), *plan.assumptions, *_findings(call))
        material = self._shown(call, "generation-answer", material, about=about, wanted=patterns, base=workspace)
        said = self._ask(call, "generation-answer", material)
        wire = parse_part(document_in(said), WireGeneration)
        if not wire.edits:
            raise _no_change("It answered without an edit.")
        for number, edit in enumerate(wire.edits, 1):
            try:
                apply_edit(workspace, edit)
            except RefusedInput as error:
                detail = f"Edit {number} ({edit.op} of {edit.path}) cannot be applied: {error}"
                raise ProviderFailure("invalid-output", "malformed-output", detail) from error
        return wire.summary

    def _in_copy(self, call: Call) -> str:
        workspace, plan = require_workspace(call), _plan_of(call)
        material = Material(
            plan=plan,
            prior=call.request.document.prior,
            instructions=instructions(workspace, self._disclosure),
            places=self._places,
        )
        prompt = self._rendered("generation-workspace", material)
        directory = workspace.materialise()
        taken = take_away(workspace, directory, [p for p in workspace.paths() if self._disclosure.is_hidden(p)])
        before = fingerprint(directory)
        said = start_agent(
            self._agent,
            self._host,
            call,
            prompt,
            cwd=directory,
            invocation=invocation_of(self._agent.profile, self._agent.capability),
            flags=self._agent.flags,
            files=ServedFiles(
                directory, workspace, workspace=workspace, copy=directory, is_hidden=self._disclosure.is_hidden
            ),
        )
        if fingerprint(directory) == before:
            raise _no_change("It ended well and changed nothing.")
        try:
            put_back(workspace, directory, taken)
        except SavantError as error:
            raise ProviderFailure("invalid-output", "denied", str(error)) from error
        absorb(workspace)
        return said.text

    # --- audit

    def _audit(self, call: Call) -> Result:
        """What it finds in a candidate; ``call.base`` is the candidate's tree."""
        task = call.request.document.audit
        if task is None:
            raise RefusedInput("refused.request", "An evaluation-observation request carries the audit's task.")
        reads = self._agent.capability != "answer"
        ask: Ask = "audit-workspace" if reads else "audit-answer"
        if task.audited is not None:
            ask = "examine-workspace" if reads else "examine-answer"
        material = Material(
            objective=task.objective,
            plan=task.plan,
            changes=task.changes,
            audited=task.audited,
        )
        paths = tuple(change.path for change in task.changes)
        said = self._ask(call, ask, self._shown(call, ask, material, about=(task.objective, *paths)))
        wire = parse_part(document_in(said), WireAudit)
        return result_of(call.request, audit=audit_of(call.request.document, wire))

    # --- one call

    def _shown(
        self,
        call: Call,
        ask: Ask,
        material: Material,
        *,
        about: Sequence[str],
        wanted: Sequence[str] = (),
        base: BaseReader | None = None,
    ) -> Material:
        """The material with what of the repository fits beside it; a directory that is read shows the rest itself."""
        reader = base or call.base
        material = replace(material, places=self._places)
        if reader is None:
            return material
        material = replace(material, instructions=instructions(reader, self._disclosure))
        if ask.endswith("-workspace"):
            return material
        room = self._agent.agent.max_prompt_bytes - len(render_prompt(ask, material)) - HEADINGS_BYTES
        visible = DisclosedBase(reader, self._disclosure)
        prior = call.request.document.prior
        found = select(visible, wanted=wanted, about=about, prior=prior, max_bytes=max(room, 0))
        return replace(
            material,
            listing=found.listing,
            unlisted=found.unlisted,
            files=found.files,
            left_out=found.left_out,
        )

    def _rendered(self, ask: Ask, material: Material) -> bytes:
        prompt = render_prompt(ask, material)
        limit = self._agent.agent.max_prompt_bytes
        if len(prompt) > limit:
            detail = f"The prompt has {len(prompt)} bytes; {limit} are allowed."
            raise ProviderFailure("unavailable", "context-overflow", detail)
        return prompt

    def _ask(self, call: Call, ask: Ask, material: Material) -> Said:
        """One call that is answered with JSON and changes nothing."""
        prompt = self._rendered(ask, material)
        invocation = answering_with(self._agent.profile, self._agent.capability)
        if invocation is None:  # pragma: no cover - agent_config refuses such a wish
            raise ProviderFailure("unsupported-capability", "bad-request", "The agent answers nothing.")
        flags = answer_flags(self._agent.capability, self._agent.flags)
        with self._reading_directory(call, ask) as directory:
            before = fingerprint(directory)
            shown = None if call.base is None else DisclosedBase(call.base, self._disclosure)
            said = start_agent(
                self._agent,
                self._host,
                call,
                prompt,
                cwd=directory,
                invocation=invocation,
                flags=flags,
                files=ServedFiles(directory, shown),
                schema=answer_schema(ask),
                reads=True,
            )
            if fingerprint(directory) != before:
                raise ProviderFailure(
                    "invalid-output", "denied", "It changed its working directory, where it may only read."
                )
            return said

    @contextmanager
    def _reading_directory(self, call: Call, ask: Ask) -> Iterator[Path]:
        with self._host.private_directory("reading-") as directory:
            if ask.endswith("-workspace") and call.base is not None:
                fill_copy(DisclosedBase(call.base, self._disclosure), directory)
            yield directory


def _interpretation(call: Call) -> Interpretation:
    interpretation = call.request.document.interpretation
    if interpretation is None:
        raise RefusedInput("refused.request", "A planning request carries the interpretation.")
    return interpretation


def _plan_of(call: Call) -> Plan:
    plan = call.request.document.plan
    if plan is None:
        raise RefusedInput("refused.request", "A generation request carries the plan.")
    return plan


def _findings(call: Call) -> tuple[str, ...]:
    prior = call.request.document.prior
    return () if prior is None else tuple(finding.message for finding in prior.findings)


def _carrying(result: Result, interpretation: Interpretation) -> Result:
    """The plan with the task and the owners' rules in front of its assumptions.

    A generation request carries the plan and nothing else, so the plan must hold what whoever generates has to know.
    """
    plan = result.plan
    assert plan is not None
    carried = (
        f"Task: {interpretation.objective[:MAX_CARRIED]}",
        *(f"Must hold: {text[:MAX_CARRIED]}" for text in interpretation.binding_invariants),
        *(f"Forbidden: {text[:MAX_CARRIED]}" for text in interpretation.forbidden_fixes),
    )
    return replace(result, plan=replace(plan, assumptions=(*carried, *plan.assumptions)))


def _no_change(how: str) -> ProviderFailure:
    return ProviderFailure("invalid-output", "no-change", how)


def _places(host: ToolHost) -> tuple[str, ...]:
    """Folders of this machine that a tool's output may name: for scratch, the person's home, and their real paths."""
    named = [host.scratch, host.scratch.parent]
    home = host.ambient.get("HOME", "")
    if home.startswith("/") and home.rstrip("/"):
        named.append(Path(home))
    return tuple(dict.fromkeys(str(path) for place in named for path in (place, place.resolve())))
