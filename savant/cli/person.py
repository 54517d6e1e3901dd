"""What a person writes in their own ``config.toml``: agents, prices, folders that a sandbox may show.

It is the person's file, not a repository's: what it names can run code and use keys. So it counts only if it belongs to
the person and nobody else can write it. Without it everything has its default, and nothing is imported to read it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from savant.cli.places import Places
from savant.contracts.errors import RefusedInput
from savant.files.tree import disk_error, read_bounded

CONFIG_FILE: Final = "config.toml"
MAX_CONFIG_BYTES: Final = 1024 * 1024
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a person prefers of one agent; None leaves it to the flag, the profile, or the agent itself.

    :param executable: a bare name or an absolute path.
    :param base_url: another address of its model.
    :param credential: the one source to use, by its name; ``none`` for an address that asks for none.
    :param environment: further variables that it may see.
    """

    model: str | None = None
    executable: str | None = None
    base_url: str | None = None
    mode: Literal["answer", "workspace", "acp"] | None = None
    network: Literal["open", "none"] | None = None
    credential: str | None = None
    environment: tuple[str, ...] = ()


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What a million tokens of a model cost, in millionths of a currency unit: read, written, read from a cache."""

    input_per_mtok: int
    output_per_mtok: int
    cached_per_mtok: int


class PersonConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A person's configuration: agents by profile name, prices by model, folders that a sandbox may show read-only."""

    agents: Mapping[str, AgentSettings] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    prices: Mapping[str, Price] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    sandbox_read: tuple[Path, ...] = ()

    def agent(self, name: str) -> AgentSettings:
        """The settings of an agent; the defaults when nothing is written of it."""
        return self.agents.get(name, AgentSettings())


def read_person(places: Places) -> PersonConfig:
    """The configuration in the person's configuration folder.

    :raises RefusedInput: ``refused.person-config`` naming the file, the key and the fix.
    """
    path = places.config / CONFIG_FILE
    raw = _read(path)
    if raw is None:
        return PersonConfig()
    import tomllib

    try:
        data = tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, a number of thousands of digits, deep nesting
        raise refused(path, f"is not TOML: {error}") from error
    from savant.cli.person_schema import parse_person

    return parse_person(data, path, places.home)


def refused(path: Path, problem: str, fix: str = "") -> RefusedInput:
    """The refusal of a person's configuration."""
    return RefusedInput(
        "refused.person-config",
        f"{path} {problem}",
        untouched="No provider was called and nothing was written.",
        fix=fix or f"Correct {path}; docs/configuration.md lists its keys.",
    )


def _read(path: Path) -> bytes | None:
    try:
        fd = os.open(path, _FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise refused(path, "is not a regular file.", f"Replace {path} by a file.") from error
        raise disk_error(error, f"Cannot read {str(path)!r}") from error
    try:
        facts = os.fstat(fd)
        if facts.st_uid not in {os.geteuid(), 0}:
            raise refused(path, "belongs to somebody else.", f"Make a file of your own: chown {os.geteuid()} {path}")
        if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise refused(path, "can be written by others.", f"Read it again, then: chmod go-w {path}")
        try:
            return read_bounded(fd, MAX_CONFIG_BYTES, str(path))
        except RefusedInput as error:
            raise refused(path, f"cannot be read: {error.message}") from error
    finally:
        os.close(fd)
