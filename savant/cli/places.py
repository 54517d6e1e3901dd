"""Where a person's files are: the only reader of the environment, beside the traceback switch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from savant.contracts.containment import LEVELS_BY_WORD, SandboxLevel
from savant.contracts.errors import UsageError


class Places(msgspec.Struct, frozen=True):
    """The person's folders and the environment as it was at the start.

    :param config: pins, trusted policies, ``config.toml``.
    :param data: private keys.
    :param scratch: disposable copies, outside every repository.
    :param strongest: the strongest sandbox level to use, by ``SAVANT_SANDBOX``; what is demanded stays demanded.
    """

    config: Path
    data: Path
    scratch: Path
    search_path: str
    environment: Mapping[str, str]
    cwd: Path
    strongest: SandboxLevel = "S3"

    @property
    def prepared(self) -> Path:
        """Folders that were prepared for checks; a cache."""
        return self.scratch.with_name("prepared")

    @property
    def home(self) -> Path:
        """The person's home, where other programs keep their logins."""
        return _home(self.environment)

    @property
    def is_ci(self) -> bool:
        """Whether a pipeline runs this, as GitHub, GitLab and others say with ``CI``."""
        return self.environment.get("CI", "").lower() in {"1", "true", "yes"}


def find_places(environment: Mapping[str, str] | None = None) -> Places:
    """The places of this process, by the XDG rules; ``SAVANT_HOME`` puts all of them into one folder.

    :raises UsageError: ``usage.sandbox-word``.
    """
    known = dict(os.environ if environment is None else environment)
    home = _home(known)
    one = known.get("SAVANT_HOME")
    if one:
        root = Path(one).absolute()
        config, data, scratch = root / "config", root / "data", root / "scratch"
    else:
        config = _folder(known, "XDG_CONFIG_HOME", home / ".config")
        data = _folder(known, "XDG_DATA_HOME", home / ".local" / "share")
        scratch = _folder(known, "XDG_CACHE_HOME", home / ".cache") / "scratch"
    path = ":".join(entry for entry in known.get("PATH", "").split(":") if entry.startswith("/"))
    return Places(
        config=config,
        data=data,
        scratch=scratch,
        search_path=path or "/usr/local/bin:/usr/bin:/bin",
        environment=known,
        cwd=Path.cwd(),
        strongest=_strongest(known.get("SAVANT_SANDBOX", "")),
    )


def _strongest(word: str) -> SandboxLevel:
    if not word:
        return "S3"
    level = LEVELS_BY_WORD.get(word)
    if level is None:
        raise UsageError(
            "usage.sandbox-word",
            f"SAVANT_SANDBOX is {word!r}, which is no sandbox level.",
            fix=f"Set it to one of {', '.join(LEVELS_BY_WORD)}, or leave it out.",
        )
    return level


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or "~").expanduser()


def _folder(environment: Mapping[str, str], name: str, default: Path) -> Path:
    value = environment.get(name, "")
    return (Path(value) if value.startswith("/") else default) / "savant"
