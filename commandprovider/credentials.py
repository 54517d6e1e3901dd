"""Credentials of agents: found where a profile says they may be, judged without a call, given to provider calls only.

The host reads them. What is recorded is the name of the source that was used, never a value. Of several sources that a
profile names, the first one that is there is used; one that is there and cannot be used is a reason to stop, because
the next one may be another account. What is missing is a value too, with the command that supplies it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from commandprovider.logins import PUBLIC, Unusable, read_login
from commandprovider.redaction import MIN_SECRET_BYTES, Redactor
from commandprovider.secrets import NO_SECRETS, Secrets, is_secret_name, redactor, write_files

if TYPE_CHECKING:
    from commandprovider.profiles.model import Source

__all__ = (
    "NO_CREDENTIAL",
    "NO_SECRETS",
    "Missing",
    "NotReady",
    "Redactor",
    "Secrets",
    "credential_names",
    "is_secret_name",
    "redactor",
    "resolve_sources",
    "shown_name",
    "without_credentials",
    "write_files",
)

NO_CREDENTIAL: Final = "none"
"""What a person chooses for an endpoint of their own that asks for none."""

MARGIN_MS: Final = 10 * 60 * 1000
"""How long a login must still hold when a run starts."""

REQUIRED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "CLAUDE_CODE_USE_BEDROCK": ("AWS_REGION",),
        "CLAUDE_CODE_USE_VERTEX": ("CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID"),
        "GOOGLE_GENAI_USE_VERTEXAI": ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
    }
)
"""A cloud's switch -> the settings without which it answers nothing."""

PAIRED: Final[Mapping[str, str]] = MappingProxyType(
    {"AWS_ACCESS_KEY_ID": "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN": "AWS_ACCESS_KEY_ID"}
)
"""Variables that are worth nothing without the other one."""

_SHOWABLE: Final = re.compile(r"[A-Z][A-Z_]{0,79}|~/[a-z0-9._/-]{1,200}")
"""What is the name of a source at first sight, and no key that somebody wrote in its place."""

_CHOOSE: Final = "Correct credential in your config.toml"
_ON: Final = frozenset({"1", "true", "yes", "on"})


class Missing(msgspec.Struct, frozen=True):
    """One source that does not supply a credential: its name, why, and the command that helps."""

    source: str
    why: str
    help: str


class NotReady(msgspec.Struct, frozen=True):
    """No credential can be had; each source says why."""

    missing: tuple[Missing, ...]

    @property
    def detail(self) -> str:
        """One sentence about every source."""
        return "; ".join(f"{one.source}: {one.why}" for one in self.missing)

    @property
    def fix(self) -> str:
        """The commands that help, one of them is enough."""
        return ", or: ".join(dict.fromkeys(one.help for one in self.missing if one.help))


def resolve_sources(
    sources: Sequence[Source],
    ambient: Mapping[str, str],
    home: Path,
    chosen: str | None = None,
    *,
    now_ms: int,
    margin_ms: int = MARGIN_MS,
) -> Secrets | NotReady:
    """The credentials of one agent; asks nobody.

    :param sources: a profile's, in its order; a cloud that the person switched on comes first.
    :param ambient: the person's environment.
    :param home: the person's home, where login files are.
    :param chosen: the one source that the person wants, by its name; :data:`NO_CREDENTIAL` for none.
    :param margin_ms: how long a login must still hold.
    """
    if chosen == NO_CREDENTIAL or (not sources and chosen is None):
        return NO_SECRETS
    wanted = _wanted(sources, ambient, chosen)
    if not wanted:
        names = ", ".join(shown_name(source) for source in sources) or "none at all"
        shown = chosen if chosen is not None and _SHOWABLE.fullmatch(chosen) else "what is configured as credential"
        return NotReady((Missing(shown, f"it is no source of this agent; known are {names}", _CHOOSE),))
    missing = []
    for source in wanted:
        match source.kind:
            case "environment":
                found = _from_variable(source, ambient)
            case "file":
                found = _from_file(source, ambient, home, now_ms=now_ms, margin_ms=margin_ms)
            case _:
                found = _from_cloud(source, ambient, home, now_ms=now_ms, margin_ms=margin_ms)
        if isinstance(found, Secrets):
            return found
        missing.append(Missing(shown_name(source), found.why, found.fix or source.help))
        if not found.absent:
            return NotReady((missing[-1],))
    return NotReady(tuple(missing))


def shown_name(source: Source) -> str:
    """How people and records name a source."""
    return f"~/{source.name}" if source.kind == "file" else source.name


def credential_names(sources: Iterable[Source]) -> frozenset[str]:
    """The variables that hold credentials of agents: what no check, formatter or probe may see."""
    return frozenset(
        name
        for source in sources
        for name in (source.name, source.target, *source.also)
        if source.kind != "file" and "/" not in name and is_secret_name(name)
    )


def without_credentials(ambient: Mapping[str, str], sources: Iterable[Source]) -> Mapping[str, str]:
    """The environment for everything that is no provider call."""
    hidden = credential_names(sources)
    return MappingProxyType({name: value for name, value in ambient.items() if name not in hidden})


def _wanted(sources: Sequence[Source], ambient: Mapping[str, str], chosen: str | None) -> tuple[Source, ...]:
    if chosen is not None:
        return tuple(source for source in sources if chosen in {source.name, shown_name(source)})
    switched_on = tuple(s for s in sources if s.kind == "cloud" and ambient.get(s.name, "").lower() in _ON)
    return (*switched_on, *(source for source in sources if source.kind != "cloud")) or tuple(sources)


def _from_variable(source: Source, ambient: Mapping[str, str]) -> Secrets | Unusable:
    value = ambient.get(source.name, "")
    problem = _problem(value)
    if problem is not None:
        return problem
    settings = tuple((name, ambient[name]) for name in source.also if ambient.get(name))
    return Secrets(
        environment=((source.target, value.strip()),),
        settings=settings,
        sources=(source.name,),
        billing=source.billing,
    )


def _problem(value: str) -> Unusable | None:
    if not value.strip():
        return Unusable("it is not set", absent=True)
    if len(value.strip()) < MIN_SECRET_BYTES:
        return Unusable(f"its value has fewer than {MIN_SECRET_BYTES} characters; that is no key")
    if not value.isascii() or any(not c.isprintable() or c.isspace() for c in value.strip()):
        return Unusable("its value holds white space or other characters that no key has")
    return None


def _from_file(
    source: Source, ambient: Mapping[str, str], home: Path, *, now_ms: int, margin_ms: int
) -> Secrets | Unusable:
    found = read_login(source.name, ambient, home, now_ms=now_ms, margin_ms=margin_ms)
    if isinstance(found, Unusable):
        return found
    settings = tuple((name, ambient[name]) for name in source.also if ambient.get(name))
    return Secrets(
        settings=settings,
        files=((source.target, found.raw),),
        sources=(shown_name(source),),
        billing=source.billing,
    )


def _from_cloud(
    source: Source, ambient: Mapping[str, str], home: Path, *, now_ms: int, margin_ms: int
) -> Secrets | Unusable:
    """A cloud's variables and files: its settings must be complete, and one credential there."""
    for name in REQUIRED.get(source.name, ()):
        if not ambient.get(name):
            return Unusable(f"it also needs {name}, which is not set", f"export {name}=...")
    environment, settings = [], [(source.target, "1")]
    for name in source.also:
        value = ambient.get(name, "")
        if not value:
            continue
        if not is_secret_name(name):
            settings.append((name, value))
            continue
        problem = _problem(value)
        if problem is not None:
            return Unusable(f"{name}: {problem.why}")
        if not ambient.get(PAIRED.get(name, name)):
            return Unusable(f"{name} is set and {PAIRED[name]} is not", f"export {PAIRED[name]}=...")
        environment.append((name, value.strip()))
    files, found_files = [], []
    for name in source.files if not environment else ():
        found = read_login(name, ambient, home, now_ms=now_ms, margin_ms=margin_ms)
        if isinstance(found, Unusable) and not found.absent:
            return Unusable(f"~/{name}: {found.why}", found.fix)
        if not isinstance(found, Unusable):
            files.append((name, found.raw))
            found_files.append(f"~/{name}")
    if not environment and all(name in PUBLIC for name, _ in files):
        return Unusable("it is switched on, and none of its credentials is there")
    return Secrets(
        environment=tuple(environment),
        settings=tuple(settings),
        files=tuple(files),
        sources=(source.name, *(name for name, _ in environment), *found_files),
        billing=source.billing,
    )
