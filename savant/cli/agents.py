"""Coding agents at the command line: the flags, the person's settings and what is found here, as one provision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from commandprovider.agent import ResolvedAgent, Wish, agent_config
from commandprovider.profiles import PROFILES, Profile
from savant.cli.person import AgentSettings, read_person
from savant.cli.provision import Provision
from savant.cli.supplying import guarded, supply, with_secrets
from savant.contracts.errors import PortError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from commandprovider import ToolHost
    from providerport.port import Provider
    from savant.cli.workbench import Workbench

HOLDING: Final = ("S1", "S2", "S3")
"""Sandbox levels at which an agent may run commands and needs no sandbox of its own.

At S1 it could make none: the filter denies namespaces, and Landlock bounds what it writes. That an agent runs below S2
at all is the person's word.
"""


class AgentFlags(msgspec.Struct, frozen=True, kw_only=True):
    """What the person typed about an agent; None leaves it to their settings or the profile."""

    name: str
    mode: Literal["answer", "workspace", "acp"] | None = None
    model: str | None = None
    planning: Literal["host", "agent"] = "agent"
    interpretation: Literal["host", "agent"] = "host"
    disclosed: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    max_output_bytes: int | None = None


def profile_named(name: str) -> Profile:
    """The profile of an agent.

    :raises UsageError: ``usage.agent-unknown``.
    """
    profile = PROFILES.get(name)
    if profile is None:
        raise UsageError(
            "usage.agent-unknown",
            f"There is no profile of an agent {name!r}.",
            untouched="Nothing was called.",
            fix=f"Choose one of: {', '.join(PROFILES)}. For any other program: --provider (docs/providers.md).",
        )
    return profile


def provide_agent(bench: Workbench, flags: AgentFlags, scope: Sequence[str], host: ToolHost) -> Provision:
    """The provision of a run with a coding agent: found, asked its version, locked; its credential looked for.

    :raises UsageError: ``usage.agent-unknown``, and for a wish that the agent cannot fulfil.
    :raises PortError: ``port.agent-missing``, ``port.agent-probe``: nothing can be called.
    """
    profile = profile_named(flags.name)
    settings = read_person(bench.places).agent(profile.name)
    supplied = supply(bench.places, profile, settings, now_ms=bench.clock.now_ms())
    environment = (*settings.environment, *flags.environment)
    host = with_secrets(host, supplied.secrets, environment)
    agent = resolve_agent(profile, _wish(flags, settings, scope, bench.processes.level), host)
    return Provision(
        agent.config,
        guarded(_factory(agent, host), host),
        None,
        agent_words(agent),
        missing_credentials=supplied.missing,
        redactor=host.redactor,
        warnings=agent_warnings(agent),
    )


def _factory(agent: ResolvedAgent, host: ToolHost) -> Callable[[], Provider]:
    from commandprovider.bridge import AgentProvider

    return lambda: AgentProvider(agent, host)


def _wish(flags: AgentFlags, settings: AgentSettings, scope: Sequence[str], level: str) -> Wish:
    defaults = Wish()
    return Wish(
        mode=flags.mode or settings.mode,
        model=flags.model or settings.model or "",
        base_url=settings.base_url,
        executable=settings.executable,
        interpretation=flags.interpretation,
        planning=flags.planning,
        disclosed=flags.disclosed,
        environment=(*settings.environment, *flags.environment),
        promise=tuple(scope) or defaults.promise,
        contained=level in HOLDING,
        network=settings.network or defaults.network,
        max_stdout_bytes=flags.max_output_bytes or defaults.max_stdout_bytes,
    )


def resolve_agent(profile: Profile, wish: Wish, host: ToolHost) -> ResolvedAgent:
    """The agent as it is on this machine; one that is not installed is said with the command that installs it.

    :raises PortError: ``port.agent-missing``; otherwise as :func:`commandprovider.agent.agent_config`.
    """
    try:
        return agent_config(profile, wish, host)
    except UsageError as error:
        if error.code != "usage.executable-not-found":
            raise
        raise PortError(
            "port.agent-missing",
            f"{profile.title} was not found: {error.message}",
            untouched="No provider was called and nothing was recorded.",
            fix=f"{profile.install}   (or name it: [agents.{profile.name}] executable in your config.toml)",
        ) from error


def agent_words(agent: ResolvedAgent) -> str:
    """The agent in a line: who, which version, how it works, which model."""
    chosen = agent.agent
    model = f", model {chosen.model}" if chosen.model else ", its own default model"
    return f"agent {agent.profile.title} {chosen.version} in mode {chosen.capability}{model}"


def agent_warnings(agent: ResolvedAgent) -> tuple[str, ...]:
    """What a person should know before the run about the agent as it was found."""
    chosen, profile = agent.agent, agent.profile
    found = []
    if not chosen.tested:
        first, after = profile.probe.tested
        found.append(
            f"WARNING: {profile.title} {chosen.version} is outside the tested versions ({first} up to {after}, not "
            f"included); a tested one: {profile.install}"
        )
    if chosen.disclosed:
        found.append(f"instruction files of the repository shown to the agent: {', '.join(chosen.disclosed)}")
    return tuple(found)
