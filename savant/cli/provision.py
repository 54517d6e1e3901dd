"""Which provider a run gets, from the flags: a recipe, a command that speaks the wire, or an import."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from commandprovider import (
    CommandProvider,
    Imported,
    ImportedChange,
    ImportProvider,
    RecipeProvider,
    ResolvedConfig,
    ToolHost,
    command_config,
    import_config,
    in_order,
    recipe_config,
)
from commandprovider.config import ALL_OPERATIONS, MAX_STDOUT_BYTES
from commandprovider.imported import PATCH_ARGV
from commandprovider.redaction import Redactor
from commandprovider.secrets import NO_SECRETS
from driver.config import split_command
from providerport.port import Provider
from runner.snapshot import BaseSnapshot
from savant.cli.supplying import guarded, with_secrets
from savant.cli.workbench import Workbench
from savant.contracts.containment import Demand
from savant.contracts.digest import digest
from savant.contracts.document import Sealed
from savant.contracts.errors import UsageError
from savant.files.atomic import read_regular
from savant.repository.build import build_manifest
from savant.repository.manifest import diff
from synthesis.documents import Operation

if TYPE_CHECKING:
    from commandprovider.documents import Config
    from savant.cli.agents import AgentFlags
    from savant.cli.cassettes import Tape

MAX_PATCH_BYTES = 64 * 1024 * 1024


class ProviderFlags(msgspec.Struct, frozen=True, kw_only=True):
    """What the person typed about the provider."""

    recipe: tuple[str, ...] = ()
    on_failure: tuple[str, ...] = ()
    provider: str | None = None
    provider_directory: str = "workspace"
    provider_operations: tuple[str, ...] = ()
    provider_env: tuple[str, ...] = ()
    max_output_bytes: int | None = None
    reports_usage: bool = False
    network: bool = False
    allow_unsandboxed: bool = False
    from_commit: str | None = None
    patch: str | None = None
    agent: AgentFlags | None = None


class Provision(msgspec.Struct, frozen=True):
    """A resolved configuration, a factory for fresh providers, the revision to start from, and a word for people.

    :param missing_credentials: why a credential is missing and what supplies it, by agent.
    :param redactor: knows the credentials that the provider is given.
    :param warnings: lines that a person should read before the run.
    """

    config: ResolvedConfig
    factory: Callable[[], Provider]
    base: str | None
    words: str
    missing_credentials: Mapping[str, tuple[str, str]] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    redactor: Redactor = msgspec.field(default_factory=Redactor)
    warnings: tuple[str, ...] = ()


def provide(bench: Workbench, flags: ProviderFlags, scope: Sequence[str], tape: Tape) -> Provision:
    """The provider of a run.

    :param tape: where the provider's calls go. Where it plays, nothing is looked for on this machine.
    :raises UsageError: ``usage.provider`` unless exactly one kind is named, or none and the tape holds one;
        ``usage.scope-import``; ``usage.cassette-config`` for a provider that is not the one on the tape.
    """
    named = (flags.provider, flags.from_commit, flags.patch, flags.agent)
    kinds = bool(flags.recipe) + sum(flag is not None for flag in named)
    if kinds > 1 or (kinds == 0 and tape.recorded is None):
        raise UsageError(
            "usage.provider",
            "A run needs one provider: --agent, --recipe, --provider, --from-commit or --patch.",
            untouched="Nothing was called.",
            fix='savant run "..." --agent claude, or with a tool: savant run "..." --recipe "ruff check --fix"',
        )
    if scope and (flags.from_commit is not None or flags.patch is not None):
        raise UsageError(
            "usage.scope-import",
            "An import takes a change as it is; --scope limits what is generated.",
            untouched="Nothing was called.",
            fix="Leave --scope out: .savant/policy.toml says which paths may change.",
        )
    host = ToolHost(
        processes=tape.processes,
        scratch=bench.scratch / "tools",
        ambient=bench.places.environment,
        search_path=bench.places.search_path,
        sight=bench.sight,
    )
    if tape.recorded is not None:
        return _played(bench, flags, scope, host, tape.recorded)
    if flags.agent is not None:
        from admission.policy import SANDBOXES
        from savant.cli.agents import provide_agent

        demanded = Demand(SANDBOXES.agent, flags.allow_unsandboxed)
        return provide_agent(bench, flags.agent, scope, replace(host, demanded=demanded))
    return _named(bench, flags, scope, host, None)


def _played(
    bench: Workbench, flags: ProviderFlags, scope: Sequence[str], host: ToolHost, recorded: Sealed[Config]
) -> Provision:
    from savant.cli.cassettes import provide_played, verify_recorded

    names_a_tool = bool(flags.recipe) or any((flags.provider, flags.patch, flags.from_commit))
    if not names_a_tool:
        return provide_played(flags, host, recorded)
    provision = _named(bench, flags, scope, host, recorded.document)
    verify_recorded(provision.config.sealed.document, recorded.document)
    return provision


def _named(
    bench: Workbench, flags: ProviderFlags, scope: Sequence[str], host: ToolHost, recorded: Config | None
) -> Provision:
    """The tool or the change that the flags name; with ``recorded`` its executables are not looked for."""
    if flags.recipe:
        return _recipe(bench, flags, scope, host, recorded)
    if flags.provider is not None:
        return _command(bench, flags, scope, host, recorded)
    if flags.patch is not None:
        return _patch(bench, flags.patch, host, recorded)
    return _commit(bench, flags.from_commit or "", host)


def _recipe(
    bench: Workbench, flags: ProviderFlags, scope: Sequence[str], host: ToolHost, recorded: Config | None
) -> Provision:
    on_failure = []
    for text in flags.on_failure:
        check, sign, command = text.partition("=")
        if not sign or not check:
            raise UsageError("usage.on-failure", f"{text!r} is not CHECK=COMMAND.", fix='--on-failure "pytest=CMD"')
        on_failure.append((check, split_command(command)))
    config = recipe_config(
        [split_command(step) for step in flags.recipe],
        on_failure,
        search_path=bench.places.search_path,
        environment=flags.provider_env,
        promise=tuple(scope) or ("**",),
        recorded=recorded,
    )
    host = with_secrets(host, NO_SECRETS, flags.provider_env)
    factory = guarded(lambda: RecipeProvider(config, host), host)
    return Provision(config, factory, None, f"recipe: {'; '.join(flags.recipe)}", redactor=host.redactor)


def _command(
    bench: Workbench, flags: ProviderFlags, scope: Sequence[str], host: ToolHost, recorded: Config | None
) -> Provision:
    operations = tuple(flags.provider_operations) or ("generation",)
    unknown = set(operations) - set(ALL_OPERATIONS)
    if unknown:
        raise UsageError("usage.provider", f"{min(unknown)!r} is no operation of a provider.")
    known: tuple[Operation, ...] = tuple(name for name in ALL_OPERATIONS if name in operations)
    config = command_config(
        split_command(flags.provider or ""),
        search_path=bench.places.search_path,
        operations=known,
        directory=flags.provider_directory,
        environment=flags.provider_env,
        promise=tuple(scope) or ("**",),
        max_stdout_bytes=flags.max_output_bytes or MAX_STDOUT_BYTES,
        network=flags.network,
        recorded=recorded,
    )
    host = with_secrets(host, NO_SECRETS, flags.provider_env)
    factory = guarded(lambda: CommandProvider(config, host, reports_usage=flags.reports_usage), host)
    return Provision(config, factory, None, f"command: {flags.provider}", redactor=host.redactor)


def _patch(bench: Workbench, name: str, host: ToolHost, recorded: Config | None) -> Provision:
    raw = read_regular(Path(name).absolute(), max_bytes=MAX_PATCH_BYTES)
    config = import_config(
        Imported(commit=None, patch_digest=digest(raw)),
        note=f"Import the patch {digest(raw)}.",
        argv=PATCH_ARGV,
        search_path=bench.places.search_path,
        recorded=recorded,
    )
    return Provision(config, lambda: ImportProvider(config, host, (), raw), None, f"import of the patch {name}")


def _commit(bench: Workbench, text: str, host: ToolHost) -> Provision:
    base, dots, head = text.partition("..")
    repository = bench.repository
    head_commit = repository.resolve_commit((head or "HEAD") if dots else text)
    if dots:
        base_commit = repository.resolve_commit(base or "HEAD")
    else:
        parents = repository.parents(head_commit)
        if not parents:
            raise UsageError("usage.from-commit", f"{text} has no parent.", fix="Name a range: A..B")
        base_commit = parents[0]
    before = build_manifest(repository, repository.tree_of(base_commit), bench.cache)
    after = BaseSnapshot.take(repository, head_commit, cache=bench.cache)
    links = {e.path: e.oid for e in repository.list_tree(repository.tree_of(head_commit)) if e.mode == "gitlink"}
    changes = []
    for path, _, entry in diff(before, after.manifest):
        if entry is None:
            changes.append(ImportedChange(path, None, b""))
        elif entry.mode == "gitlink":
            changes.append(ImportedChange(path, "gitlink", links[path].encode("ascii")))
        elif entry.mode != "tree":
            changes.append(ImportedChange(path, entry.mode, after.read(path)))
    ordered = in_order(changes)
    config = import_config(Imported(commit=head_commit, patch_digest=None), note=f"Import the change of {head_commit}.")
    words = f"import of {base_commit[:17]}..{head_commit[:17]}"
    return Provision(config, lambda: ImportProvider(config, host, ordered, None), base_commit, words)
