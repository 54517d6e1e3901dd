"""A new repository with one commit, for the demonstration. Never touches a repository that exists."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from savant.contracts.errors import Conflict, PortError
from savant.repository.launch import ENVIRONMENT, find_git

_IDENTITY: Final = MappingProxyType(
    {
        "GIT_AUTHOR_NAME": "Savant demo",
        "GIT_AUTHOR_EMAIL": "demo@savant.invalid",
        "GIT_COMMITTER_NAME": "Savant demo",
        "GIT_COMMITTER_EMAIL": "demo@savant.invalid",
        "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
        "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    }
)


def create_sample(path: Path, files: Mapping[str, bytes], *, message: str) -> None:
    """Make a repository in a folder that does not exist yet, with these files in its one commit.

    :raises Conflict: ``conflict.exists`` when the folder is there.
    :raises PortError: ``port.git`` when git fails, ``port.disk``.
    """
    try:
        path.mkdir(parents=True)
    except FileExistsError as error:
        raise Conflict("conflict.exists", f"{path} is there already.", untouched="It was left alone.") from error
    for name, data in files.items():
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    git = str(find_git())
    for arguments in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        ("commit", "-q", "--no-verify", "-m", message),
    ):
        done = subprocess.run(
            [git, "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false", *arguments],
            cwd=path,
            env={**ENVIRONMENT, **_IDENTITY},
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise PortError("port.git", f"git {arguments[0]} failed in {path}: {said}")
