"""What a provider is given of a person's credentials, and who else must not see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from commandprovider.redaction import Redactor
from commandprovider.secrets import NO_SECRETS, Secrets, redactor
from savant.contracts.errors import UsageError

if TYPE_CHECKING:
    from commandprovider import ToolHost
    from commandprovider.profiles import Profile
    from providerport.port import Provider
    from savant.cli.person import AgentSettings
    from savant.cli.places import Places


class Supplied(msgspec.Struct, frozen=True):
    """The secrets of one agent; or why there are none and what supplies them, by the agent's name."""

    secrets: Secrets
    missing: Mapping[str, tuple[str, str]]


def supply(places: Places, profile: Profile, settings: AgentSettings, *, now_ms: int) -> Supplied:
    """Look for an agent's credential where its profile says. Asks nobody and changes nothing.

    :param now_ms: milliseconds since 1970, to tell a login that is over.
    """
    from commandprovider.credentials import NotReady, resolve_sources

    found = resolve_sources(profile.sources, places.environment, places.home, settings.credential, now_ms=now_ms)
    if isinstance(found, NotReady):
        return Supplied(NO_SECRETS, {profile.name: (found.detail, found.fix)})
    return Supplied(found, {})


def with_secrets(host: ToolHost, secrets: Secrets, names: Sequence[str] = ()) -> ToolHost:
    """A host whose commands get these secrets, and nothing of what they write keeps one.

    :param names: variables that the person lets the command see besides.
    """
    seen = [(name, host.ambient[name]) for name in names if name in host.ambient]
    return replace(host, secrets=secrets, redactor=redactor(secrets, seen))


def guarded(factory: Callable[[], Provider], host: ToolHost) -> Callable[[], Provider]:
    """The factory, its providers behind the last door when they are given anything secret."""
    if not host.redactor.labels:
        return factory
    from commandprovider.guard import GuardedProvider

    return lambda: GuardedProvider(factory(), host.redactor)


def for_checks(ambient: Mapping[str, str]) -> Mapping[str, str]:
    """The environment that checks and formatters may be given names of: without credentials of agents."""
    from commandprovider.credentials import without_credentials
    from commandprovider.profiles import PROFILES

    return without_credentials(ambient, (source for profile in PROFILES.values() for source in profile.sources))


def hidden_from_checks(ambient: Mapping[str, str], names: Sequence[str]) -> tuple[str, ...]:
    """Those of the variables that a project wants for its checks which are set and are not given to them."""
    wanted = [name for name in names if name in ambient]
    if not wanted:
        return ()
    seen = for_checks(ambient)
    return tuple(name for name in wanted if name not in seen)


def verify_unmentioned(redactor: Redactor, *documents: bytes) -> None:
    """Refuse a run whose own words would put a credential into the record.

    :raises UsageError: ``usage.credential-in-words``.
    """
    label = next((found for document in documents if (found := redactor.find(document)) is not None), None)
    if label is not None:
        raise UsageError(
            "usage.credential-in-words",
            f"The task or the provider's command line holds the value of {label}; both are recorded.",
            untouched="No provider was called and nothing was recorded.",
            fix=f"Leave the value out: the provider is given {label} by itself.",
        )
