"""Whether a place may be written to: a dedicated worktree or clone at exactly the base, every byte the base's."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from runner.snapshot import BaseSnapshot
from savant.contracts.errors import RefusedInput, SavantError
from savant.files.paths import to_text
from savant.repository.git import Repository
from savant.repository.manifest import diff
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


def verify_existing(target: Path, repository: Repository, base: BaseSnapshot, *, git: Path) -> None:
    """Return if an existing folder is a dedicated target at the base, down to the last byte.

    :raises RefusedInput: ``refused.apply-not-dedicated``, ``refused.apply-wrong-head``, ``refused.apply-dirty``.
    """
    commit = base.document.document.base_commit
    try:
        opened = Repository.open(target, git=git)
    except SavantError as error:
        raise _not_dedicated(target, error.message) from error
    with opened:
        if opened.top_level is None or not opened.top_level.samefile(target):
            raise _not_dedicated(target, "it is not the top of a checkout")
        if relation(repository, opened, commit) in ("same", "foreign"):
            raise _not_dedicated(target, "it is no other worktree or clone of this repository")
        facts = worktree_facts(opened)
        if facts.head != commit or not facts.is_detached:
            at = f"on {facts.branch}" if facts.branch else f"at {facts.head}"
            raise RefusedInput(
                "refused.apply-wrong-head",
                f"{target} is {at}; it must be detached at the admitted base {commit}.",
                untouched=UNTOUCHED,
                fix=f"git -C {target} switch --detach {commit.partition(':')[2]}",
            )
        if facts.operation is not None:
            raise _not_dedicated(target, f"a git operation is in progress there ({facts.operation})")
    _refuse_dirty(target, base)


def _refuse_dirty(target: Path, base: BaseSnapshot) -> None:
    differing = [path for path, _, _ in diff(base.manifest, observe_tree(target, expected=base.manifest))]
    if differing:
        shown = ", ".join(to_text(path) for path in differing[:SHOWN])
        raise RefusedInput(
            "refused.apply-dirty",
            f"{target} differs from the base at {len(differing)} paths, whatever git status says: {shown}",
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
