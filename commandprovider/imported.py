"""The import provider: a change that already exists, taken in so that it can be sealed, judged and proven too.

Nothing was promised before it was made, so its plan says ``promise: none`` and every output repeats that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

import msgspec

from commandprovider.answers import result_of
from commandprovider.config import ResolvedConfig
from commandprovider.fixed import fixed_interpretation, fixed_plan
from commandprovider.recipe import absorb, capabilities_of, require_workspace
from commandprovider.tool import ToolHost, require_status, run_tool
from providerport.documents import Capabilities, GenerationClaim, Result
from providerport.port import Call, FileMode, ProviderFailure, Workspace
from savant.contracts.errors import RefusedInput

PATCH_ARGV: Final = ("git", "apply", "--whitespace=nowarn", "-")
"""Applies a patch inside a directory that is no repository; git refuses paths that leave it or pass a link."""


class ImportedChange(msgspec.Struct, frozen=True):
    """One path after the change: its mode and content (a link's target, a gitlink's commit id in hex), or its end."""

    path: bytes
    mode: FileMode | None
    data: bytes


class ImportProvider:
    """Replays an existing change into the workspace."""

    def __init__(
        self, config: ResolvedConfig, host: ToolHost, changes: Sequence[ImportedChange], patch: bytes | None
    ) -> None:
        self._config = config
        self._host = host
        self._changes = tuple(changes)
        self._patch = patch

    def describe(self) -> Capabilities:
        """An import, identified by the commit or patch it takes in."""
        return capabilities_of(self._config)

    def execute(self, call: Call) -> Result:
        """Answer one request.

        :raises ProviderFailure: the change does not fit the base, or holds what may not be written.
        """
        note = self._config.sealed.document.note
        match call.request.document.operation:
            case "interpretation":
                return fixed_interpretation(call.request, source="import")
            case "planning":
                return fixed_plan(call.request, steps=[note], promise=(), kind="none")
            case "generation":
                return self._generate(call)
            case operation:
                raise ProviderFailure("unsupported-capability", "bad-request", f"An import does no {operation}.")

    def _generate(self, call: Call) -> Result:
        workspace = require_workspace(call)
        if self._patch is not None:
            directory = workspace.materialise()
            argv = self._config.sealed.document.argv
            ended = run_tool(self._host, self._config, call, argv, cwd=directory, stdin=self._patch)
            require_status(ended, "git apply", (0,))
            absorb(workspace)
        try:
            for change in self._changes:
                take(workspace, change)
        except RefusedInput as error:
            raise ProviderFailure("invalid-output", "denied", str(error)) from error
        return result_of(
            call.request,
            generation=GenerationClaim(
                summary=self._config.sealed.document.note, declared_change_digest=None, declared_final_digest=None
            ),
        )


def take(workspace: Workspace, change: ImportedChange) -> None:
    """Put one imported path into the candidate. Ends come before beginnings: see :func:`in_order`.

    :raises RefusedInput: the path rules' codes.
    """
    match change.mode:
        case None:
            workspace.delete(change.path)
        case "regular" | "executable":
            workspace.write(change.path, change.data, executable=change.mode == "executable")
        case "symlink":
            workspace.symlink(change.path, change.data)
        case "gitlink":
            workspace.set_gitlink(change.path, change.data.decode("ascii"))
        case _:
            assert_never(change.mode)


def in_order(changes: Sequence[ImportedChange]) -> tuple[ImportedChange, ...]:
    """Deletions first, deepest first, so that a directory may become a file and the other way round."""
    gone = sorted((c for c in changes if c.mode is None), key=lambda c: c.path, reverse=True)
    new = sorted((c for c in changes if c.mode is not None), key=lambda c: c.path)
    return (*gone, *new)
