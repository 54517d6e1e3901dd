"""What a command may see of the environment: an allowlist over a private, deterministic base.

Pure but for :func:`resolve_executable`, which looks at the file system.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from savant.contracts.errors import UsageError

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

FIXED: Final = MappingProxyType(
    {
        "GIT_TERMINAL_PROMPT": "0",
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONSAFEPATH": "1",
        "TERM": "dumb",
        "TZ": "UTC",
    }
)
"""What every command gets: no prompts, no colours, one language, one time zone, no imports from its directory."""


def allowed_environment(
    ambient: Mapping[str, str],
    allow: Iterable[str],
    home: Path,
    tmp: Path,
    extra: Mapping[str, str] = MappingProxyType({}),
) -> tuple[tuple[str, str], ...]:
    """The complete environment of a command, sorted by name.

    :data:`FIXED`, ``HOME``, ``TMPDIR`` and ``PATH``; then each name in ``allow`` that ``ambient`` has, exactly that
    name; then ``extra``, which wins. ``HOME`` and ``TMPDIR`` are private and only ``extra`` can change them. ``PATH``
    is the ambient one if allowed, without its relative and empty entries, else :data:`DEFAULT_PATH`.

    :raises UsageError: ``usage.bad-environment`` for a name that is empty or holds ``=`` or NUL.
    """
    chosen = {**FIXED, "PATH": DEFAULT_PATH}
    for name in allow:
        if not name or "=" in name or "\0" in name:
            raise UsageError("usage.bad-environment", f"{name!r} is no name of an environment variable.")
        if name in ambient:
            chosen[name] = ambient[name]
    absolute = [entry for entry in chosen["PATH"].split(":") if entry.startswith("/")]
    chosen["PATH"] = ":".join(absolute) or DEFAULT_PATH
    chosen |= {"HOME": str(home), "TMPDIR": str(tmp)} | dict(extra)
    return tuple(sorted(chosen.items()))


def resolve_executable(name: str, path: str = DEFAULT_PATH) -> Path:
    """The absolute path of an executable file.

    :param name: an absolute path, or a name without a slash that is looked up.
    :param path: the folders to look in, separated by colons; relative and empty ones are skipped.
    :returns: the path as found: links in it are not resolved, because a program may act by the name it is called by
        (a virtual environment's interpreter does). What it leads to is a regular, executable file.
    :raises UsageError: ``usage.relative-executable``, ``usage.executable-not-found``.
    """
    if name.startswith("/"):
        candidates = [Path(name)]
    elif not name or "/" in name or name in {".", ".."}:
        raise UsageError(
            "usage.relative-executable",
            f"The executable {name!r} is a relative path.",
            fix="Give its absolute path, or its bare name to look it up.",
        )
    else:
        candidates = [Path(folder) / name for folder in path.split(":") if folder.startswith("/")]
    for candidate in candidates:
        if "\0" not in name and _is_executable_file(candidate):
            return candidate
    raise UsageError(
        "usage.executable-not-found",
        f"There is no executable {name!r}" + ("." if name.startswith("/") else f" in {path}."),
        fix="Install it, or name its absolute path in your configuration.",
    )


def _is_executable_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode) and os.access(path, os.X_OK)
    except OSError:
        return False
