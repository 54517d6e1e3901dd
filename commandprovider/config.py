"""Building a provider's configuration: argument vectors split, executables resolved and hashed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import replace

from commandprovider.documents import Config, Executable, FailureStep, Imported, Step
from savant.contracts.document import Sealed, seal
from savant.contracts.errors import PortError, UsageError
from savant.contracts.scalars import as_set
from savant.process.environment import resolve_executable
from savant.process.identity import executable_digest
from synthesis.documents import Operation

MAX_STDOUT_BYTES: Final = 8 * 1024 * 1024
MAX_STDERR_BYTES: Final = 1024 * 1024
ALL_OPERATIONS: Final[tuple[Operation, ...]] = as_set(("interpretation", "planning", "generation"))

AGENT_OPERATIONS: Final[tuple[Operation, ...]] = as_set((*ALL_OPERATIONS, "evaluation-observation"))
"""What a coding agent can be asked; an audit only where a person names it as an auditor."""

NOWHERE: Final = Path("/cassette")
"""Where executables are said to be that are started by nobody."""

ACCEPTED_STATUSES: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {"ruff": (0, 1), "eslint": (0, 1), "pre-commit": (0, 1), "codespell": (0, 65)}
)
"""Fixers that document a status other than 0 for "fixed what I could, something is left"; others must exit 0."""


class ResolvedConfig(msgspec.Struct, frozen=True):
    """A sealed configuration and where its executables are on this machine (paths are not part of the identity).

    :param played: whether its commands are answered from a cassette: the executables need not be here.
    """

    sealed: Sealed[Config]
    executables: Mapping[str, Path]
    played: bool = False

    def command(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The argv with its executable replaced by the absolute path that was resolved and hashed.

        :raises UsageError: ``usage.unknown-executable`` for one that is not part of the configuration.
        """
        path = self.executables.get(argv[0])
        if path is None:
            raise UsageError("usage.unknown-executable", f"{argv[0]!r} is not part of the provider's configuration.")
        return (str(path), *argv[1:])


def verify_executables(config: ResolvedConfig) -> None:
    """Prove that every executable still is what was hashed when the run began.

    :raises PortError: ``port.executable-changed``.
    """
    if config.played:
        return
    for executable in config.sealed.document.executables:
        if executable_digest(config.executables[executable.name]) != executable.content_digest:
            raise PortError(
                "port.executable-changed",
                f"The executable {executable.name!r} changed while the run was on.",
                untouched="The provider was not called again.",
                fix="Start the run again when nothing is being installed.",
            )


def played_config(sealed: Sealed[Config]) -> ResolvedConfig:
    """A configuration whose commands a cassette answers; nothing of it is looked for on this machine."""
    names = [executable.name for executable in sealed.document.executables]
    paths = {name: Path(name) if name.startswith("/") else NOWHERE / name for name in names}
    return ResolvedConfig(sealed, MappingProxyType(paths), played=True)


def accepted_statuses(argv: Sequence[str]) -> tuple[int, ...]:
    """The exit statuses of a step that are no failure."""
    return as_set(ACCEPTED_STATUSES.get(PurePosixPath(argv[0]).name, (0,)))


def recipe_config(
    steps: Sequence[Sequence[str]],
    on_failure: Sequence[tuple[str, Sequence[str]]],
    *,
    search_path: str,
    environment: Sequence[str] = (),
    promise: Sequence[str] = ("**",),
    recorded: Config | None = None,
) -> ResolvedConfig:
    """A recipe: its steps, the steps that a failed check adds, and the scope it promises.

    :param search_path: folders, separated by colons, where bare names are looked up.
    :param recorded: a cassette's configuration: executables are what they were there, and are not looked for.
    :raises UsageError: ``usage.recipe`` without a step; ``usage.executable-not-found``.
    """
    if not steps:
        raise UsageError("usage.recipe", "A recipe needs at least one step.", fix='Add --recipe "ruff check --fix".')
    return _resolve(
        [argv[0] for argv in steps] + [argv[0] for _, argv in on_failure],
        search_path,
        Config(
            provider="recipe",
            provider_kind="recipe",
            operations=ALL_OPERATIONS,
            argv=(),
            directory="workspace",
            steps=tuple(Step(argv=tuple(argv), accepted=accepted_statuses(argv)) for argv in steps),
            on_failure=tuple(
                FailureStep(check=check, argv=tuple(argv), accepted=accepted_statuses(argv))
                for check, argv in on_failure
            ),
            imported=None,
            agent=None,
            executables=(),
            environment=as_set(environment),
            network="none",
            promise=as_set(promise),
            max_stdout_bytes=MAX_STDOUT_BYTES,
            max_stderr_bytes=MAX_STDERR_BYTES,
            note="",
        ),
        recorded,
    )


def command_config(
    argv: Sequence[str],
    *,
    search_path: str,
    name: str = "command",
    operations: Sequence[Operation] = ALL_OPERATIONS,
    directory: str = "workspace",
    environment: Sequence[str] = (),
    promise: Sequence[str] = ("**",),
    max_stdout_bytes: int = MAX_STDOUT_BYTES,
    network: bool = False,
    recorded: Config | None = None,
) -> ResolvedConfig:
    """Any command that speaks the wire; ``network`` says whether it may use the network.

    ``promise`` is what is planned for an operation the command does not claim (planning may be left to the host).

    :raises UsageError: ``usage.executable-not-found``, ``usage.provider`` for an unknown directory kind.
    """
    if directory not in {"empty", "workspace"}:
        raise UsageError("usage.provider", f"The working directory kind {directory!r} is not empty or workspace.")
    return _resolve(
        [argv[0]],
        search_path,
        Config(
            provider=name,
            provider_kind="command",
            operations=as_set(operations),
            argv=tuple(argv),
            directory="empty" if directory == "empty" else "workspace",
            steps=(),
            on_failure=(),
            imported=None,
            agent=None,
            executables=(),
            environment=as_set(environment),
            network="open" if network else "none",
            promise=as_set(promise),
            max_stdout_bytes=max_stdout_bytes,
            max_stderr_bytes=MAX_STDERR_BYTES,
            note="",
        ),
        recorded,
    )


def import_config(
    imported: Imported,
    *,
    note: str,
    argv: Sequence[str] = (),
    search_path: str = "",
    recorded: Config | None = None,
) -> ResolvedConfig:
    """An existing change. A patch is applied by the command ``argv``; a commit's change is given as values."""
    return _resolve(
        [argv[0]] if argv else [],
        search_path,
        Config(
            provider="import",
            provider_kind="import",
            operations=ALL_OPERATIONS,
            argv=tuple(argv),
            directory="workspace",
            steps=(),
            on_failure=(),
            imported=imported,
            agent=None,
            executables=(),
            environment=(),
            network="none",
            promise=(),
            max_stdout_bytes=MAX_STDOUT_BYTES,
            max_stderr_bytes=MAX_STDERR_BYTES,
            note=note,
        ),
        recorded,
    )


def _resolve(names: Sequence[str], search_path: str, config: Config, recorded: Config | None) -> ResolvedConfig:
    if recorded is not None:
        known = as_set(executable for executable in recorded.executables if executable.name in names)
        return played_config(seal(replace(config, executables=known)))
    paths = {name: resolve_executable(name, search_path) for name in dict.fromkeys(names)}
    executables = as_set(Executable(name=name, content_digest=executable_digest(path)) for name, path in paths.items())
    return ResolvedConfig(seal(replace(config, executables=executables)), MappingProxyType(paths))
