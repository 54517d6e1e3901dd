"""The secrets of a provider call, as a value that never shows them: what the call gets, and what takes them out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from commandprovider.redaction import MIN_SECRET_BYTES, Redactor

_SECRET_NAME: Final = re.compile(
    r"(API_?KEY|ACCESS_?KEY(_ID)?|SECRET(_\w+)?|TOKEN(_\w+)?|PASSWORD|PASSWD|PRIVATE_?KEY|CREDENTIALS?)$",
    re.IGNORECASE,
)
_PASSWORD: Final = re.compile(r"://[^\s/:@]*:([^\s/@]+)@")


class Secrets(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider call gets and nothing else does.

    :param environment: variables with secret values.
    :param settings: variables that go along and are no secret: regions, projects, switches.
    :param files: login files, by path below the private HOME.
    :param sources: where they come from: names, never values.
    :param billing: ``subscription`` makes a reported cost notional.
    """

    environment: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, bytes], ...] = ()
    sources: tuple[str, ...] = ()
    billing: Literal["metered", "subscription"] = "metered"

    def __repr__(self) -> str:
        """The sources, never a value."""
        return f"Secrets(sources={self.sources!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """As :meth:`__repr__`, for those who show values in colour."""
        return [("sources", self.sources)]

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """Every variable of a provider call's environment that comes from here."""
        return (*self.settings, *self.environment)

    def values(self) -> Iterator[tuple[str, bytes]]:
        """Label and value of everything that must be found and taken out again."""
        for name, value in self.environment:
            yield name, value.encode("utf-8", "surrogateescape")
        if not self.files:
            return
        from commandprovider.logins import login_values

        for name, raw in self.files:
            yield from ((f"~/{name}", value) for value in login_values(raw) if len(value.strip()) >= MIN_SECRET_BYTES)


NO_SECRETS: Final = Secrets()


def is_secret_name(name: str) -> bool:
    """Whether a variable's name says that its value is a secret."""
    return _SECRET_NAME.search(name) is not None


def redactor(secrets: Secrets, more: Iterable[tuple[str, str]] = ()) -> Redactor:
    """What takes these secrets out of bytes.

    :param more: further variables that a command gets: those whose name says that they are secret count too, and the
        password in an address (a proxy's).
    """
    return Redactor((*secrets.values(), *_secret_among(more)))


def _secret_among(variables: Iterable[tuple[str, str]]) -> Iterator[tuple[str, bytes]]:
    for name, value in variables:
        password = _PASSWORD.search(value)
        secret = value if is_secret_name(name) else "" if password is None else password[1]
        raw = secret.encode("utf-8", "surrogateescape")
        if len(raw.strip()) >= MIN_SECRET_BYTES:
            yield name, raw


def write_files(secrets: Secrets, home: Path) -> None:
    """Put the login files into a private HOME, for its owner only.

    :param home: a fresh folder of ours.
    :raises OSError: as the system calls do.
    """
    for name, raw in secrets.files:
        path = home / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600, exist_ok=False)
        path.write_bytes(raw)
