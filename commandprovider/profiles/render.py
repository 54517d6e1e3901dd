"""From a profile's templates and the values of one call to the words, variables and files of a command."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, get_args

import msgspec

from commandprovider.profiles.model import (
    Capability,
    Flag,
    Invocation,
    Opening,
    Placeholder,
    Profile,
    Setting,
    Words,
)
from savant.contracts.errors import UsageError

_HOLE: Final = re.compile(r"\{(" + "|".join(get_args(Placeholder)) + r")\}")
_WRITTEN_BY_PEOPLE: Final[Mapping[Placeholder, re.Pattern[str]]] = {
    "model": re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+\[\]-]{0,199}"),
    "budget_usd": re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?"),
    "base_url": re.compile(r"https?://[A-Za-z0-9._~:/?#\[\]@!&()*+,;=%-]{1,1000}"),
}


class Rendered(msgspec.Struct, frozen=True):
    """The words after the executable, the variables, the files below the private HOME, and how a session begins."""

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, bytes], ...]
    opening: Opening = Opening()


def invocation_of(profile: Profile, capability: Capability) -> Invocation:
    """The invocation of a capability.

    :raises UsageError: ``usage.agent-capability`` when the agent cannot be driven so.
    """
    found = {"answer": profile.answer, "workspace": profile.workspace, "acp": profile.acp}[capability]
    if found is None:
        raise UsageError(
            "usage.agent-capability",
            f"{profile.title} cannot be driven in mode {capability}.",
            fix=f"Choose one of: {', '.join(profile.capabilities)}.",
        )
    return found


def render(
    invocation: Invocation, values: Mapping[Placeholder, str], flags: Collection[Flag] = frozenset()
) -> Rendered:
    """Fill the templates in. What names a value that is not there, or wants other flags, is left out.

    Of several files with one path the last is written.

    :raises UsageError: ``usage.agent-value`` for a model or base URL with characters that mean something to an agent.
    """
    for name, pattern in _WRITTEN_BY_PEOPLE.items():
        value = values.get(name)
        if value is not None and pattern.fullmatch(value) is None:
            raise UsageError("usage.agent-value", f"{value!r} cannot be the {name.replace('_', ' ')} of an agent.")
    known: Mapping[str, str] = {str(name): value for name, value in values.items()}
    return Rendered(
        tuple(
            _fill(word, known)
            for group in invocation.argv
            if _is_wanted(group, flags) and _has_all(group.words, known)
            for word in group.words
        ),
        tuple((name, _fill(text, known)) for name, text in invocation.environment if _has_all((text,), known)),
        tuple(
            {
                setting.path: _fill(setting.content, known).encode()
                for setting in invocation.settings
                if _is_wanted(setting, flags) and _has_all((setting.content,), known)
            }.items()
        ),
        next((opening for opening in invocation.openings if _is_wanted(opening, flags)), Opening()),
    )


def _is_wanted(part: Words | Setting | Opening, flags: Collection[Flag]) -> bool:
    return all(flag in flags for flag in part.given) and not any(flag in flags for flag in part.without)


def _has_all(texts: tuple[str, ...], values: Mapping[str, str]) -> bool:
    return all(name in values for text in texts for name in _HOLE.findall(text))


def _fill(text: str, values: Mapping[str, str]) -> str:
    return _HOLE.sub(lambda hole: values[hole.group(1)], text)
