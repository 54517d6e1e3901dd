"""Recovery: what an interrupted application or undo left is finished by the next command, never left half-written.

============================== ==========================================================================
what the crash left            what becomes of it
============================== ==========================================================================
a worktree half-made           it is taken away again: it held nothing of the candidate yet
an application half-written    it is completed; the base is restored if a content cannot be had any more
an undo half-written           it is completed
a target that is gone          its journal and marker are forgotten
a path that a person changed   it is kept, and the receipt says so; an undo waits for the person
============================== ==========================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias, assert_never

import msgspec

from candidateapply.apply import Application, carry_out
from candidateapply.documents import Journal
from candidateapply.journal import TargetFiles
from candidateapply.observing import is_git_file_of
from candidateapply.undo import Undone, carry_out_undo
from candidateapply.writing import is_temporary, remove_temporaries
from runner.snapshot import BaseSnapshot
from savant.contracts.errors import Conflict, InternalError, SavantError
from savant.files.atomic import remove_tree
from savant.files.paths import to_text
from savant.repository.manifest import diff
from savant.repository.target import Target, remove_target
from savant.repository.worktree import observe_tree
from savant.store.port import ObjectStore


class Cleared(msgspec.Struct, frozen=True):
    """Nothing had been applied yet, or nothing is there any more: the journal is gone."""

    target: Path
    words: str


class Blocked(msgspec.Struct, frozen=True):
    """It could not be finished now; the journal is still there, other targets are free."""

    target: Path
    error: SavantError


Recovered: TypeAlias = "Application | Undone | Cleared | Blocked"


def recover(
    directory: Path, store: ObjectStore, base_of: Callable[[str], BaseSnapshot]
) -> list[tuple[Journal, Recovered]]:
    """Finish every interrupted write below a Savant folder.

    An application or undo still has to be recorded and finished, as if it had not been interrupted. What another
    process is at is left to it.

    :param base_of: the snapshot of a base commit.
    :raises RefusedInput: ``refused.apply-journal``.
    """
    places = TargetFiles(directory)
    found = ((journal, _recover(Path(journal.target), places, store, base_of)) for journal in places.pending())
    return [(journal, outcome) for journal, outcome in found if outcome is not None]


def words(journal: Journal, outcome: Recovered) -> str:
    """What became of an interrupted write, for a person."""
    what = "undo" if journal.action == "undo" else "application"
    start = f"an interrupted {what} in {journal.target}"
    match outcome:
        case Application():
            disposition, detail = outcome.receipt.document.disposition, outcome.receipt.document.detail
            ended = {"applied": "was completed", "mismatch-restored": "was rolled back", "mismatch-kept": "was ended"}
            return f"{start} {ended[disposition]}{': ' if detail else ''}{detail}"
        case Undone():
            return f"{start} was completed"
        case Cleared():
            return f"{start} was rolled back: {outcome.words}"
        case Blocked():
            return f"{start} cannot be finished: {outcome.error.message} {outcome.error.fix}".rstrip()
        case _:
            assert_never(outcome)


def _recover(
    target: Path, places: TargetFiles, store: ObjectStore, base_of: Callable[[str], BaseSnapshot]
) -> Recovered | None:
    try:
        with ExitStack() as held:
            held.enter_context(places.locked(target))
            journal = places.journal(target)  # only now it is certain that nobody is at it
            if journal is None:
                return None
            if not target.is_dir():
                places.release(target)
                places.end(target)
                return Cleared(target, "the target is gone.")
            base = base_of(journal.request.base_commit)
            if journal.phase == "creating":
                _take_away(journal, base)
                places.end(target)
                return Cleared(target, "its worktree was not complete yet.")
            remove_temporaries(target, journal.writes, base.manifest)
            if journal.action == "apply":
                return carry_out(journal, base, store, places, held.pop_all())
            return carry_out_undo(journal, base, store, places, held.pop_all())
    except InternalError:
        raise
    except SavantError as error:
        return None if error.code == "conflict.apply-locked" else Blocked(target, error)


def _take_away(journal: Journal, base: BaseSnapshot) -> None:
    """Remove a worktree that was being made, unless it holds what we did not put there.

    :raises Conflict: ``conflict.apply-target-changed``.
    """
    target, entry = Path(journal.target), Path(journal.entry)
    if not any(target.iterdir()):
        return
    if is_git_file_of(target, entry):
        remove_tree(target)
        remove_tree(entry)
        return
    found = diff(base.manifest, observe_tree(target, expected=base.manifest))
    foreign = [path for path, before, _ in found if before is None and not is_temporary(path)]
    if foreign:
        raise Conflict(
            "conflict.apply-target-changed",
            f"{target} was being made and holds what is not of the base: {to_text(foreign[0])}",
            untouched="It was left as it is.",
            fix="Save what is yours, then remove the folder.",
        )
    remove_target(Target(target, entry, journal.request.base_commit, base.manifest.digest))
