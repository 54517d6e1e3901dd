"""The recipe provider: any deterministic tool (formatter, codemod, linter with fixes) behind the provider port.

Each step runs in a materialised copy of the candidate, then its differences are taken into the workspace. Steps of
``on_failure`` run only when the request's findings name their check, so a retry does what the first attempt did not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from commandprovider.answers import result_of
from commandprovider.config import ResolvedConfig
from commandprovider.documents import FailureStep
from commandprovider.fixed import fixed_interpretation, fixed_plan
from commandprovider.tool import ToolHost, require_status, run_tool
from providerport.documents import Capabilities, GenerationClaim, Prior, Result
from providerport.port import Call, ProviderFailure, Workspace
from savant.contracts.errors import RefusedInput

PATHS: Final = "{paths}"


class RecipeProvider:
    """Runs configured steps; needs no credential and calls nobody."""

    def __init__(self, config: ResolvedConfig, host: ToolHost) -> None:
        self._config = config
        self._host = host

    def describe(self) -> Capabilities:
        """A recipe, identified by its configuration."""
        return capabilities_of(self._config)

    def execute(self, call: Call) -> Result:
        """Answer one request.

        :raises ProviderFailure: a step failed, timed out, or left what may not be sealed.
        """
        document = self._config.sealed.document
        match call.request.document.operation:
            case "interpretation":
                return fixed_interpretation(call.request, source="recipe")
            case "planning":
                steps = [" ".join(step.argv) for step in document.steps]
                steps += [f"if {step.check} failed: {' '.join(step.argv)}" for step in document.on_failure]
                return fixed_plan(call.request, steps=steps, promise=document.promise)
            case "generation":
                return self._generate(call)
            case operation:
                raise ProviderFailure("unsupported-capability", "bad-request", f"A recipe does no {operation}.")

    def _generate(self, call: Call) -> Result:
        workspace = require_workspace(call)
        directory = workspace.materialise()
        done = []
        for argv, accepted in self._steps(call.request.document.prior, workspace):
            call.observer.note(f"step: {' '.join(argv)}")
            ended = run_tool(self._host, self._config, call, argv, cwd=directory)
            require_status(ended, argv[0], accepted)
            done.append(" ".join(argv))
        absorb(workspace)
        return result_of(
            call.request,
            generation=GenerationClaim(
                summary="; ".join(done)[:4_000], declared_change_digest=None, declared_final_digest=None
            ),
        )

    def _steps(self, prior: Prior | None, workspace: Workspace) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
        document = self._config.sealed.document
        for step in document.steps:
            yield step.argv, step.accepted
        if prior is None:
            return
        for extra in document.on_failure:
            if any(is_about(finding.check, extra.check) for finding in prior.findings):
                yield expand_paths(extra, prior, workspace), extra.accepted


def is_about(check: str, wanted: str) -> bool:
    """Whether a finding's check is the wanted one, or one of its cases (``pytest:tests.test_a::test_b``)."""
    return check == wanted or check.startswith((wanted + ":", wanted + "/"))


def expand_paths(step: FailureStep, prior: Prior, workspace: Workspace) -> tuple[str, ...]:
    """The step's argv with ``{paths}`` replaced by the existing files that its check's findings name."""
    if PATHS not in step.argv:
        return step.argv
    named = dict.fromkeys(
        finding.path
        for finding in prior.findings
        if finding.path is not None and "%" not in finding.path and is_about(finding.check, step.check)
    )
    paths = [f"./{path}" for path in named if workspace.mode(path.encode("utf-8")) in {"regular", "executable"}]
    argv: list[str] = []
    for word in step.argv:
        argv.extend(paths if word == PATHS else (word,))
    return tuple(argv)


def capabilities_of(config: ResolvedConfig, *, reports_usage: bool = False) -> Capabilities:
    """What a configuration claims; its identity is the configuration's digest."""
    document = config.sealed.document
    return Capabilities(
        provider=document.provider,
        provider_kind=document.provider_kind,
        model="" if document.agent is None else document.agent.model,
        identity_digest=config.sealed.digest,
        operations=document.operations,
        reports_usage=reports_usage,
    )


def require_workspace(call: Call) -> Workspace:
    """The workspace of a generation call.

    :raises ProviderFailure: ``unavailable``/``bad-request`` when the host handed none.
    """
    if call.workspace is None:
        raise ProviderFailure("unavailable", "bad-request", "A generation needs a workspace.")
    return call.workspace


def absorb(workspace: Workspace) -> None:
    """Take the materialised differences into the candidate.

    :raises ProviderFailure: ``invalid-output``/``denied`` when the tool left what may not be sealed.
    """
    try:
        workspace.absorb()
    except RefusedInput as error:
        raise ProviderFailure("invalid-output", "denied", str(error)) from error
