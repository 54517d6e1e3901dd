"""An agent whose calls are answered from a cassette: its recorded configuration, and nothing of this machine."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from commandprovider.agent import ResolvedAgent, Wish, recorded_invocations, settings_digest
from commandprovider.config import NOWHERE, played_config
from commandprovider.documents import Config
from commandprovider.locating import Located
from commandprovider.profiles import PROFILES
from commandprovider.profiles.model import Flag, Placeholder
from commandprovider.prompts import prompts_digest
from savant.contracts import canonical
from savant.contracts.digest import digest
from savant.contracts.document import Sealed
from savant.contracts.errors import UsageError

_FLAGS: Final[tuple[frozenset[Flag], ...]] = (frozenset(("contained",)), frozenset())
"""How an agent may have been started: held by a sandbox, or not."""


def played_agent(recorded: Sealed[Config]) -> ResolvedAgent:
    """An agent whose calls a cassette answers; nothing of it is looked for, started or asked.

    :raises UsageError: ``usage.cassette-agent`` when this version drives the agent otherwise than it was recorded.
    """
    document = recorded.document
    agent = document.agent
    profile = None if agent is None else PROFILES.get(agent.profile)
    if agent is None or profile is None:
        raise _driven_otherwise(document.provider)
    values: dict[Placeholder, str] = {}
    if agent.model:
        values["model"] = agent.model
    if agent.endpoint:
        values["base_url"] = agent.endpoint
    config = played_config(recorded)
    located = Located(config.executables.get(profile.executable, NOWHERE), None)
    wish = Wish(interpretation=agent.interpretation, planning=agent.planning)
    for flags in _FLAGS:
        answering, editing = recorded_invocations(profile, agent.capability, wish, values, flags)
        made = replace(
            agent,
            profile_digest=digest(canonical.encode(profile)),
            answer_flags=answering.argv,
            edit_flags=editing.argv,
            settings_digest=settings_digest(answering, editing),
            prompts_digest=prompts_digest(),
        )
        if made == agent:
            return ResolvedAgent(config, profile, located, values, flags)
    raise _driven_otherwise(document.provider)


def _driven_otherwise(name: str) -> UsageError:
    return UsageError(
        "usage.cassette-agent",
        f"This version of Savant drives {name} with other flags, settings or prompts than the cassette was made with.",
        untouched="Nothing was called and nothing was recorded.",
        fix="Play it with the version that recorded it, or record it anew.",
    )
