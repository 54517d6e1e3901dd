"""A coding agent found on this machine and locked: what runs, from which package, in which version, with which flags.

All of it is in the provider's configuration, so it is part of the session's identity; the executable and its package
are looked at again before every call, and an agent that changed in the middle of a run is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from commandprovider.config import (
    AGENT_OPERATIONS,
    MAX_STDERR_BYTES,
    MAX_STDOUT_BYTES,
    ResolvedConfig,
    verify_executables,
)
from commandprovider.documents import Agent, Author, Config, Executable
from commandprovider.locating import Located, is_tested, locate, package_digest, probe_version
from commandprovider.profiles.model import Capability, Flag, Invocation, Placeholder, Profile
from commandprovider.profiles.render import Rendered, invocation_of, render
from commandprovider.prompts import prompts_digest
from commandprovider.tool import ToolHost
from savant.contracts import canonical
from savant.contracts.digest import digest
from savant.contracts.document import seal
from savant.contracts.errors import PortError, UsageError
from savant.contracts.scalars import as_set
from savant.files.patterns import PatternSet
from savant.process.identity import executable_digest

MAX_PROMPT_BYTES: Final = 384 * 1024
MAX_SAID_BYTES: Final = 64 * 1024 * 1024
"""What an agent may send in a conversation: every word of the model and every file that it writes is a message."""
PER_CALL: Final[tuple[Placeholder, ...]] = ("schema", "schema_file", "answer_file", "prompt_file", "prompt", "home")
"""What differs from call to call: in the recorded flags its name stands for it."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a person chose about an agent; the defaults are what holds where nothing was said.

    :param mode: None for the profile's own choice: a copy to edit where it can, else an answer.
    :param base_url: where its model is served; None for the agent's own.
    :param executable: a name or absolute path instead of the profile's.
    :param disclosed: patterns of the repository's instruction files that the agent is shown.
    :param environment: names of the person's variables that the agent may see.
    :param promise: what the host promises where the host plans.
    :param max_stdout_bytes: what a call may write; None for the usual, which is more for a conversation.
    :param contained: whether a sandbox holds the agent, so that it may run commands.
    """

    mode: Capability | None = None
    model: str = ""
    base_url: str | None = None
    executable: str | None = None
    interpretation: Author = "host"
    planning: Author = "agent"
    disclosed: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    promise: tuple[str, ...] = ("**",)
    contained: bool = False
    network: Literal["open", "none"] = "open"
    max_prompt_bytes: int = MAX_PROMPT_BYTES
    max_stdout_bytes: int | None = None


class ResolvedAgent(msgspec.Struct, frozen=True):
    """A sealed configuration of an agent, and what is needed to start it here.

    :param values: the placeholders that stay the same over the calls of a run; likewise ``flags``.
    """

    config: ResolvedConfig
    profile: Profile
    located: Located
    values: Mapping[Placeholder, str]
    flags: frozenset[Flag]

    @property
    def agent(self) -> Agent:
        """The agent's part of the configuration."""
        agent = self.config.sealed.document.agent
        assert agent is not None
        return agent

    @property
    def capability(self) -> Capability:
        """How it works."""
        return self.agent.capability


def agent_config(profile: Profile, wish: Wish, host: ToolHost) -> ResolvedAgent:
    """Find an agent, ask its version, and seal the configuration of a run with it.

    :raises UsageError: ``usage.executable-not-found``; ``usage.agent-capability``, ``usage.agent-value``,
        ``usage.agent-planning`` for a wish that the agent cannot fulfil; ``usage.bad-environment``.
    :raises RefusedInput: ``refused.bad-pattern`` for a disclosure that is no pattern.
    :raises PortError: ``port.agent-probe``, ``port.executable``.
    """
    capability = wish.mode or ("workspace" if profile.workspace is not None else profile.capabilities[0])
    invocation_of(profile, capability)
    PatternSet.parse(wish.disclosed)
    values: dict[Placeholder, str] = {}
    if wish.model:
        values["model"] = wish.model
    if wish.base_url:
        values["base_url"] = wish.base_url
    flags: frozenset[Flag] = frozenset(("contained",)) if wish.contained else frozenset()
    answering, editing = recorded_invocations(profile, capability, wish, values, flags)
    located = locate(profile, host.search_path, wish.executable)
    version = probe_version(profile, located, host)
    document = Config(
        provider=profile.name,
        provider_kind="agent",
        operations=AGENT_OPERATIONS,
        argv=(profile.executable,),
        directory="empty" if capability == "answer" else "workspace",
        steps=(),
        on_failure=(),
        imported=None,
        agent=Agent(
            profile=profile.name,
            profile_digest=digest(canonical.encode(profile)),
            capability=capability,
            model=wish.model,
            endpoint=_endpoint(wish.base_url),
            version=version,
            tested=is_tested(profile, version),
            package_digest=package_digest(located),
            answer_flags=answering.argv,
            edit_flags=editing.argv,
            settings_digest=settings_digest(answering, editing),
            prompts_digest=prompts_digest(),
            interpretation=wish.interpretation,
            planning=wish.planning,
            disclosed=as_set(wish.disclosed),
            credentials=as_set(host.secrets.sources),
            max_prompt_bytes=wish.max_prompt_bytes,
        ),
        executables=as_set(
            (Executable(name=profile.executable, content_digest=executable_digest(located.executable)),)
        ),
        environment=as_set(wish.environment),
        network=wish.network,
        promise=as_set(wish.promise),
        max_stdout_bytes=wish.max_stdout_bytes or (MAX_SAID_BYTES if capability == "acp" else MAX_STDOUT_BYTES),
        max_stderr_bytes=MAX_STDERR_BYTES,
        note="",
    )
    executables = MappingProxyType({profile.executable: located.executable})
    return ResolvedAgent(ResolvedConfig(seal(document), executables), profile, located, values, flags)


NOTHING: Final = Rendered((), (), ())
READABLE: Final[frozenset[Flag]] = frozenset(("readable",))


def answering_with(profile: Profile, capability: Capability) -> Invocation | None:
    """How an agent is started where it answers with JSON: in its own way, or the way it edits if it has no other."""
    if capability == "acp":
        return profile.acp
    return profile.answer or (profile.workspace if capability == "workspace" else None)


def answer_flags(capability: Capability, flags: frozenset[Flag]) -> frozenset[Flag]:
    """The flags of a call that answers with JSON: an agent that works in a directory may read there."""
    return flags if capability == "answer" else flags | READABLE


def recorded_invocations(
    profile: Profile, capability: Capability, wish: Wish, values: Mapping[Placeholder, str], flags: frozenset[Flag]
) -> tuple[Rendered, Rendered]:
    """The two invocations as they are recorded: what differs from call to call stands as its name."""
    named: dict[Placeholder, str] = {**{name: f"{{{name}}}" for name in PER_CALL}, **values}
    editing = NOTHING if capability == "answer" else render(invocation_of(profile, capability), named, flags)
    if capability != "answer" and "agent" not in (wish.planning, wish.interpretation):
        return NOTHING, editing
    invocation = answering_with(profile, capability)
    if invocation is None:
        raise UsageError("usage.agent-planning", f"{profile.title} cannot plan.", fix="Add --planning host.")
    return render(invocation, named, answer_flags(capability, flags)), editing


def settings_digest(*rendered: Rendered) -> str:
    """The digest of the files written into an agent's home, its fixed environment, and how a session begins."""
    parts = [
        [
            sorted([name, value] for name, value in one.environment),
            [[name, raw.decode()] for name, raw in one.settings],
            [one.opening.mode, one.opening.meta, one.opening.serves_reads],
        ]
        for one in rendered
    ]
    return digest(canonical.encode(parts))


def _endpoint(base_url: str | None) -> str:
    """A base URL as it is recorded.

    :raises UsageError: ``usage.agent-value`` for one that holds credentials or what could be some.
    """
    if not base_url:
        return ""
    parts = urlsplit(base_url)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise UsageError(
            "usage.agent-value",
            "The base URL of an agent holds a user name, a password or a query, which would be recorded.",
            fix="Give the key by its variable, and the URL without it.",
        )
    return base_url


def verify_agent(agent: ResolvedAgent) -> None:
    """Prove that the agent still is what it was when the run began.

    :raises PortError: ``port.executable-changed``, ``port.executable``.
    """
    verify_executables(agent.config)
    if agent.config.played:
        return
    if package_digest(agent.located) != agent.agent.package_digest:
        raise PortError(
            "port.executable-changed",
            f"The package of {agent.profile.title} changed while the run was on.",
            untouched="The provider was not called again.",
            fix="Start the run again when nothing is being installed.",
        )
