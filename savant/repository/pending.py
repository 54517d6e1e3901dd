"""What lies in a checkout and is not part of a commit, for a person to read. Decides nothing.

git is asked without reading any file's content, so no filter of the repository can run: the index against the commit,
files whose stat data differ from the index, and untracked files that are not ignored.
"""

from __future__ import annotations

from savant.files.paths import to_text
from savant.repository.git import Repository

MAX_PATHS = 1_000


def uncommitted(repository: Repository, commit: str) -> list[str]:
    """The paths of the checkout that may differ from a commit, sorted, at most a thousand; empty for a bare repository.

    A path whose content was touched and put back is listed too: only its stat data are looked at.
    """
    if repository.top_level is None:
        return []
    tree = (f"core.worktree={repository.top_level}",)
    found: set[bytes] = set()
    for arguments in (
        ["diff-index", "--cached", "--name-only", "-z", "--no-renames", repository.hex_id(commit)],
        ["diff-files", "--name-only", "-z"],
        ["ls-files", "--others", "--exclude-standard", "--directory", "--full-name", "-z", "--", ":/"],
    ):
        done = repository.git.run(arguments, options=tree, cwd=repository.top_level)
        if done.returncode == 0:
            found.update(path for path in done.stdout.split(b"\0") if path)
    return [to_text(path) for path in sorted(found)[:MAX_PATHS]]
