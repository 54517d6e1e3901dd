"""Whether a place may be written to: a dedicated worktree or clone at exactly the base, every byte the base's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

from runner.content import CandidateTree
from runner.snapshot import BaseSnapshot
from savant.contracts.errors import RefusedInput, SavantError
from savant.files.paths import to_text
from savant.repository.conversion import converted_paths
from savant.repository.git import Repository
from savant.repository.hazards import check_candidate
from savant.repository.manifest import diff
from savant.repository.node import Entry
from savant.repository.target import staged_paths
from savant.repository.worktree import observe_tree, relation, worktree_facts

UNTOUCHED: Final = "The target was not touched."
SHOWN: Final = 5


def refuse_checkout(target: Path, checkout: Path | None) -> None:
    """Refuse the checkout that the command was started for, and anything inside or around it.

    :raises RefusedInput: ``refused.apply-invoking-checkout``.
    """
    if checkout is None:
        return
    here, there = checkout.resolve(), target.absolute().parent.resolve() / target.name
    if there == here or there.is_relative_to(here) or here.is_relative_to(there):
        raise RefusedInput(
            "refused.apply-invoking-checkout",
            f"{target} is, holds or lies in the checkout {checkout}: that is never written to.",
            untouched=UNTOUCHED,
            fix="Apply into a worktree of its own: savant apply --new",
        )


def refuse_hazards(base: BaseSnapshot, tree: CandidateTree) -> None:
    """Refuse a candidate that brings in what a disk or git takes for something else, whatever was admitted.

    :raises RefusedInput: ``refused.apply-hazard``.
    """

    def link_target(path: bytes, entry: Entry) -> bytes:
        return (tree if tree.manifest.get(path) == entry else base).read(path)

    found = check_candidate(base.manifest, tree.manifest, link_target)
    if found:
        raise RefusedInput(
            "refused.apply-hazard",
            f"{found[0].detail} ({found[0].code})",
            untouched=UNTOUCHED,
            fix="Ask for a change without it.",
        )


def refuse_conversion(
    repository: Repository, commit: str, contents: Mapping[bytes, bytes], removed: Collection[bytes]
) -> None:
    """Refuse files that git would not store as they are.

    :param contents: the files that are written, by path; ``removed``: the paths that go.
    :raises RefusedInput: ``refused.apply-conversion`` naming the attribute.
    """
    blamed = converted_paths(repository, commit, contents, removed=removed)
    if blamed:
        path, attribute = blamed[0]
        raise RefusedInput(
            "refused.apply-conversion",
            f"git would store other bytes than the admitted ones for {to_text(path)} ({attribute}).",
            untouched=UNTOUCHED,
            fix="Change the attribute at the base, or the file so that the conversion leaves it alone.",
        )


def verify_existing(
    target: Path, repository: Repository, base: BaseSnapshot, *, also: Callable[[Repository], None]
) -> None:
    """Return if an existing folder is a dedicated target at the base, down to the last byte.

    :param also: what else is asked of the target's repository, which need not be ours.
    :raises RefusedInput: ``refused.apply-not-dedicated``, ``refused.apply-wrong-head``, ``refused.apply-dirty``.
    """
    commit = base.document.document.base_commit
    try:
        opened = Repository.open(target, git=repository.git.executable)
    except SavantError as error:
        raise _not_dedicated(target, error.message) from error
    with opened:
        if opened.top_level is None or not opened.top_level.samefile(target):
            raise _not_dedicated(target, "it is not the top of a checkout")
        facts, related = worktree_facts(opened), relation(repository, opened, commit)
        if related in ("same", "foreign") or (related == "linked" and not facts.is_linked):
            raise _not_dedicated(target, "it is no other worktree or clone of this repository")
        if facts.head != commit or not facts.is_detached:
            at = f"on {facts.branch}" if facts.branch else f"at {facts.head}"
            raise RefusedInput(
                "refused.apply-wrong-head",
                f"{target} is {at}; it must be detached at the admitted base {commit}.",
                untouched=UNTOUCHED,
                fix=f"git -C {target} switch --detach {commit.partition(':')[2]}",
            )
        if facts.operation is not None or facts.is_locked:
            raise _not_dedicated(target, f"a git operation is in progress there ({facts.operation or 'index.lock'})")
        staged = staged_paths(opened, commit)
        if staged:
            raise _dirty(target, "has staged changes", staged)
        also(opened)
    try:
        found = observe_tree(target, expected=base.manifest)
    except RefusedInput as error:
        raise _dirty(target, f"cannot be compared with the base: {error.message}", []) from error
    differing = [path for path, _, _ in diff(base.manifest, found)]
    if differing:
        raise _dirty(target, f"differs from the base at {len(differing)} paths, whatever git status says", differing)


def _dirty(target: Path, how: str, paths: list[bytes]) -> RefusedInput:
    shown = ", ".join(to_text(path) for path in paths[:SHOWN])
    return RefusedInput(
        "refused.apply-dirty",
        f"{target} {how}{': ' if shown else ''}{shown}",
        untouched=UNTOUCHED,
        fix="Apply into a fresh worktree: savant apply --new",
    )


def _not_dedicated(target: Path, why: str) -> RefusedInput:
    return RefusedInput(
        "refused.apply-not-dedicated",
        f"{target} is not a dedicated target: {why}.",
        untouched=UNTOUCHED,
        fix="Apply into a fresh worktree: savant apply --new",
    )
