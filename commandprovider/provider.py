"""The command provider: any program that speaks the wire (:mod:`commandprovider.wire`), behind the provider port.

Operations that the configuration does not list are answered by the host's fixed interpretation and plan when they are
``interpretation`` or ``planning``: so a program of fifteen lines that only generates is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import assert_never

from msgspec.structs import replace

from commandprovider.answers import audit_of, interpretation_of, plan_of, result_of, review_of
from commandprovider.config import ResolvedConfig
from commandprovider.fixed import fixed_interpretation, fixed_plan
from commandprovider.recipe import absorb, capabilities_of, require_workspace
from commandprovider.tool import ToolHost, require_status, run_tool
from commandprovider.wire import WireAnswer, WireEdit, WireUsage, encode_request, parse_answer
from providerport.documents import Capabilities, GenerationClaim, Result
from providerport.port import NOTHING_USED, Call, ProviderFailure, Usage, Workspace
from savant.contracts.document import seal
from savant.contracts.errors import InternalError, RefusedInput
from savant.contracts.scalars import as_set
from savant.files.paths import to_raw


class CommandProvider:
    """Speaks the wire with one configured command."""

    def __init__(self, config: ResolvedConfig, host: ToolHost, *, reports_usage: bool = False) -> None:
        """Speak with the configured command.

        :param reports_usage: what the person says of the command: every answer of it tells what the call used.
        """
        self._config = config
        self._host = host
        self._reports_usage = reports_usage
        self._claimed = config.sealed.document.operations

    def describe(self) -> Capabilities:
        """What the configuration claims, with the host's own answers added."""
        base = capabilities_of(self._config, reports_usage=self._reports_usage)
        return replace(base, operations=as_set((*base.operations, "interpretation", "planning")))

    def execute(self, call: Call) -> Result:
        """Answer one request.

        :raises ProviderFailure: the command crashed, timed out, was cancelled, or did not answer in the wire's form.
        """
        request = call.request
        document = self._config.sealed.document
        if request.document.operation not in self._claimed:
            if self._reports_usage:
                call.observer.usage(NOTHING_USED)
            match request.document.operation:
                case "interpretation":
                    return fixed_interpretation(request, source="command")
                case "planning":
                    return fixed_plan(request, steps=[" ".join(document.argv)], promise=document.promise)
                case operation:
                    raise ProviderFailure("unsupported-capability", "bad-request", f"The command does no {operation}.")
        try:
            result = self._ask(call)
            seal(result)
        except RefusedInput as error:
            raise ProviderFailure("invalid-output", "malformed-output", str(error)) from error
        except InternalError as error:
            raise ProviderFailure(
                "invalid-output", "malformed-output", f"The answer's values are outside their ranges: {error.message}"
            ) from error
        return result

    def _ask(self, call: Call) -> Result:
        with self._directory(call) as directory:
            argv = self._config.sealed.document.argv
            ended = run_tool(self._host, self._config, call, argv, cwd=directory, stdin=encode_request(call.request))
            require_status(ended, argv[0], (0,))
            answer = parse_answer(ended.stdout, call.request)
            if answer.usage is not None:
                call.observer.usage(_usage(answer.usage))
            return self._result(call, answer)

    @contextmanager
    def _directory(self, call: Call) -> Iterator[Path]:
        generates = call.request.document.operation == "generation"
        if generates and self._config.sealed.document.directory == "workspace":
            yield require_workspace(call).materialise()
        else:
            with self._host.private_directory("empty-") as directory:
                yield directory

    def _result(self, call: Call, answer: WireAnswer) -> Result:
        request = call.request
        if answer.failure is not None:
            raise ProviderFailure(answer.failure.outcome, answer.failure.failure_kind, answer.failure.detail[:2_000])
        if answer.interpretation is not None:
            return result_of(request, interpretation=interpretation_of(request.document, answer.interpretation, ()))
        if answer.plan is not None:
            return result_of(request, plan=plan_of(request.document, answer.plan, promise="declared"))
        if answer.review is not None:
            reviewer = self._config.sealed.document.provider
            return result_of(request, review=review_of(request.document, answer.review, reviewer=reviewer))
        if answer.audit is not None:
            return result_of(request, audit=audit_of(request.document, answer.audit))
        if answer.generation is None:  # pragma: no cover - parse_answer demands exactly one payload
            raise ProviderFailure("invalid-output", "malformed-output", "The answer holds no payload.")
        workspace = require_workspace(call)
        if self._config.sealed.document.directory == "workspace":
            absorb(workspace)
        for edit in answer.generation.edits:
            apply_edit(workspace, edit)
        return result_of(
            request,
            generation=GenerationClaim(
                summary=answer.generation.summary[:4_000], declared_change_digest=None, declared_final_digest=None
            ),
        )


def _usage(said: WireUsage) -> Usage:
    return Usage(
        tokens_in=said.tokens_in,
        tokens_out=said.tokens_out,
        cost_microunits=said.cost_microunits,
        tokens_cached=said.tokens_cached,
        is_notional=said.notional,
    )


def apply_edit(workspace: Workspace, edit: WireEdit) -> None:
    """Apply one mutation of the wire through the workspace.

    :raises RefusedInput: the path rules' codes; ``refused.wire-edit`` for a member that is missing.
    """
    path = to_raw(edit.path)
    match edit.op:
        case "write":
            workspace.write(path, edit.content(), executable=edit.executable)
        case "edit":
            workspace.edit(path, _need(edit, "old").encode("utf-8"), _need(edit, "new").encode("utf-8"))
        case "delete":
            workspace.delete(path)
        case "rename":
            workspace.rename(path, to_raw(_need(edit, "to")))
        case "set-mode":
            if edit.executable is None:
                raise RefusedInput("refused.wire-edit", f"The set-mode of {edit.path!r} needs executable.")
            workspace.set_mode(path, executable=edit.executable)
        case "symlink":
            workspace.symlink(path, to_raw(_need(edit, "to")))
        case _:
            assert_never(edit.op)


def _need(edit: WireEdit, name: str) -> str:
    value: str | None = getattr(edit, name)
    if value is None:
        raise RefusedInput("refused.wire-edit", f"The {edit.op} of {edit.path!r} needs {name}.")
    return value
