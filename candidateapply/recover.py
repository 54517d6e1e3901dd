"""Recovery: what an interrupted application or undo left is finished by the next command, never left half-written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from candidateapply.apply import Application, carry_out
from candidateapply.documents import Journal
from candidateapply.journal import TargetFiles
from candidateapply.undo import Undone, carry_out_undo
from runner.snapshot import BaseSnapshot
from savant.store.port import ObjectStore


def recover(
    directory: Path, store: ObjectStore, base_of: Callable[[str], BaseSnapshot]
) -> list[tuple[Journal, Application | Undone]]:
    """Finish every interrupted write below a Savant folder; each outcome still has to be recorded and finished.

    A target that is gone is forgotten together with its journal: there is nothing left to finish.

    :param base_of: the snapshot of a base commit.
    """
    files = TargetFiles(directory)
    done: list[tuple[Journal, Application | Undone]] = []
    for journal in files.pending():
        target = Path(journal.target)
        with files.locked(target):
            if not target.is_dir():
                files.release(target)
                files.end(target)
                continue
            base = base_of(journal.request.base_commit)
            if journal.action == "apply":
                done.append((journal, carry_out(journal, base, store, files)))
            else:
                done.append((journal, carry_out_undo(journal, base, store, files)))
    return done
