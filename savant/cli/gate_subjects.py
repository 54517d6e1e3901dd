"""What the gate is asked about: a commit, a range, or what the event of a forge names. Reads the repository only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from savant.contracts.errors import RefusedInput, UsageError
from savant.files.atomic import read_regular

if TYPE_CHECKING:
    from savant.repository.git import Repository

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
MAX_COMMITS: Final = 5_000
NO_COMMIT: Final = "0" * 40


class Step(msgspec.Struct, frozen=True):
    """One commit and what it changes; ``base`` None for a commit without a parent.

    :param is_tree: whether ``commit`` is the id of a tree that nobody committed yet.
    """

    commit: str
    base: str | None
    is_tree: bool = False


class Subject(msgspec.Struct, frozen=True):
    """What is asked about, as ``GitId``.

    :param target: the commit whose policy decides; None for each step's own base.
    :param steps: the commits one by one, oldest first.
    :param whole: all of them as one change, where that may explain them too.
    :param head: the commit that it ends with.
    """

    name: str
    target: str | None
    steps: tuple[Step, ...]
    head: str
    whole: Step | None = None


def subject_of(repository: Repository, commit: str, base: str | None, event: str | None) -> Subject:
    """The subject that a person or an event names.

    :raises RefusedInput: ``refused.unknown-revision``, ``refused.event``.
    :raises UsageError: ``usage.gate`` for both an event and a base, or a range that is too long.
    """
    if event is not None:
        if base is not None:
            raise UsageError(
                "usage.gate",
                "--event names the base itself.",
                untouched="Nothing was written.",
                fix="Leave --base out.",
            )
        return _of_event(repository, Path(event))
    if ".." in commit:
        first, _, last = commit.partition("..")
        if base is not None or not (first or last) or first.endswith(".") or last.startswith("."):
            raise UsageError(
                "usage.gate",
                "A range is written A..B, without --base.",
                untouched="Nothing was written.",
                fix="savant gate main..HEAD",
            )
        return _of_range(repository, commit, repository.resolve_commit(first or "HEAD"), last or "HEAD")
    head = repository.resolve_commit(commit)
    if base is not None:
        return Subject("commit", None, (Step(head, repository.resolve_commit(base)),), head)
    return Subject("commit", None, (_alone(repository, head),), head)


def _alone(repository: Repository, commit: str) -> Step:
    parents = repository.parents(commit)
    return Step(commit, parents[0] if parents else None)


def _of_range(repository: Repository, name: str, first: str, last: str) -> Subject:
    head = repository.resolve_commit(last)
    steps = tuple(_alone(repository, commit) for commit in commits_between(repository, first, head))
    start = merge_base(repository, first, head)
    whole = Step(head, start) if len(steps) > 1 and start is not None else None
    return Subject(name, first, steps, head, whole)


def tree_subject(repository: Repository, tree: str, base: str | None) -> Subject:
    """A tree that nobody committed yet, as the change of a commit that it would stand on.

    :param base: that commit; HEAD when None.
    :raises RefusedInput: ``refused.unknown-revision``.
    """
    from savant.repository.objects import check_revision, unknown_revision

    check_revision(tree)
    found = repository.find(f"{tree}^{{tree}}")
    if found is None or found.type != "tree":
        raise unknown_revision(tree)
    on = repository.resolve_commit(base or "HEAD")
    oid = repository.git_id(found.oid)
    return Subject("tree", on, (Step(oid, on, is_tree=True),), oid)


def commits_between(repository: Repository, first: str, last: str) -> tuple[str, ...]:
    """The commits from one to another along first parents, oldest first, without the first.

    :raises UsageError: ``usage.gate`` for more than :data:`MAX_COMMITS`.
    """
    words = ["rev-list", "--first-parent", "--reverse", f"--max-count={MAX_COMMITS + 1}"]
    done = repository.git.run([*words, f"{repository.hex_id(first)}..{repository.hex_id(last)}"])
    found = tuple(repository.git_id(line.decode("ascii")) for line in done.stdout.split())
    if len(found) > MAX_COMMITS:
        raise UsageError(
            "usage.gate",
            f"The range has more than {MAX_COMMITS} commits.",
            untouched="Nothing was written.",
            fix="Ask about less.",
        )
    return found


def merge_base(repository: Repository, one: str, other: str) -> str | None:
    """The commit that two lines have in common; None for none."""
    done = repository.git.run(["merge-base", repository.hex_id(one), repository.hex_id(other)])
    lines = done.stdout.split()
    return repository.git_id(lines[0].decode("ascii")) if done.returncode == 0 and lines else None


def _of_event(repository: Repository, path: Path) -> Subject:
    import json

    try:
        event: Any = json.loads(read_regular(path, max_bytes=MAX_EVENT_BYTES).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"is not JSON: {error}") from error
    if not isinstance(event, dict):
        raise _refused(path, "is no event")
    if "pull_request" in event:
        base, head = _ids(path, event, "pull_request", ("base", "sha"), ("head", "sha"))
        kind = "pull request"
    elif "merge_group" in event:
        base, head = _ids(path, event, "merge_group", ("base_sha",), ("head_sha",))
        kind = "merge group"
    else:
        base, head = _ids(path, event, None, ("before",), ("after",))
        kind = "push"
        if base.strip("0") == "":
            created = repository.resolve_commit(head)
            return Subject(kind, None, (_alone(repository, created),), created)
    return msgspec.structs.replace(_of_range(repository, kind, repository.resolve_commit(base), head), name=kind)


def _ids(
    path: Path, event: Mapping[str, Any], member: str | None, base: tuple[str, ...], head: tuple[str, ...]
) -> tuple[str, str]:
    inside = event if member is None else event.get(member)
    found: list[str] = []
    for names in (base, head):
        value: Any = inside
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        if not isinstance(value, str) or not value.isalnum() or len(value) not in (40, 64):
            raise _refused(path, f"names no commit at {'.'.join((*([member] if member else []), *names))}")
        found.append(value)
    return found[0], found[1]


def _refused(path: Path, why: str) -> RefusedInput:
    return RefusedInput(
        "refused.event",
        f"The event {path} {why}.",
        untouched="Nothing was written.",
        fix="Give the file that the forge wrote: --event $GITHUB_EVENT_PATH (pull_request, merge_group or push).",
    )
