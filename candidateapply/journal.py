"""The journal and the marker of a target: small durable files in the repository's Savant folder.

A journal is written before the first byte of a target changes and removed when its outcome is recorded. While it exists
the target may be half-written, and the next command finishes the job: every content that is needed was put into the
object store first. A marker says that a target is consumed; it is made create-only, so of several at once one wins.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from candidateapply.documents import Journal, Marker
from savant.contracts.digest import digest
from savant.contracts.document import accept, seal
from savant.contracts.errors import Conflict, RefusedInput, SavantError
from savant.files.atomic import create_only, fsync_directory, lock, read_optional, write_atomic
from savant.files.tree import disk_error

MAX_JOURNAL_BYTES: Final = 64 * 1024 * 1024
_SUFFIX: Final = ".journal"


class TargetFiles:
    """The journals and markers below one Savant folder."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "targets"

    @contextmanager
    def locked(self, target: Path) -> Iterator[None]:
        """Hold the target's lock; somebody else's is a refusal, not a wait.

        :raises Conflict: ``conflict.apply-locked``.
        :raises PortError: ``port.disk``.
        """
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise disk_error(error, f"Cannot make the folder {str(self._directory)!r}") from error
        try:
            with lock(self._path(target, ".lock"), blocking=False):
                yield
        except Conflict as error:
            if error.code != "conflict.locked":
                raise
            raise Conflict(
                "conflict.apply-locked",
                f"Somebody else is writing to {target}.",
                untouched="Nothing was written.",
                fix="Wait until they are done, then try again.",
            ) from error

    def begin(self, journal: Journal) -> None:
        """Keep a journal, durably."""
        write_atomic(self._path(Path(journal.target), _SUFFIX), seal(journal).raw)

    def end(self, target: Path) -> None:
        """Forget a journal, durably."""
        _forget(self._path(target, _SUFFIX))

    def journal(self, target: Path) -> Journal | None:
        """The journal of a target, or None.

        :raises RefusedInput: ``refused.apply-journal`` when the file is not a journal.
        """
        return _read(self._path(target, _SUFFIX), Journal)

    def pending(self) -> list[Journal]:
        """Every journal. One may be of an application that is going on: it holds the target's lock.

        :raises RefusedInput: ``refused.apply-journal``.
        """
        found = (_read(path, Journal) for path in sorted(self._directory.glob(f"*{_SUFFIX}")))
        return [journal for journal in found if journal is not None]

    def consume(self, marker: Marker) -> None:
        """Mark a target as consumed.

        :raises Conflict: ``conflict.apply-consumed`` when another application holds it.
        """
        try:
            create_only(self._path(Path(marker.target), ".marker"), seal(marker).raw)
        except Conflict as error:
            raise self.consumed(Path(marker.target)) from error

    def consumed(self, target: Path) -> Conflict:
        """The refusal of a target that is consumed."""
        return Conflict(
            "conflict.apply-consumed",
            f"{target} holds an application already.",
            untouched="Nothing was written.",
            fix="Undo it first (savant undo), or apply into another target: savant apply --new",
        )

    def marker(self, target: Path) -> Marker | None:
        """The marker of the application that a target holds, or None.

        :raises RefusedInput: ``refused.apply-journal`` when the file is not a marker.
        """
        return _read(self._path(target, ".marker"), Marker)

    def release(self, target: Path) -> None:
        """Forget that a target was consumed, durably."""
        _forget(self._path(target, ".marker"))

    def _path(self, target: Path, suffix: str) -> Path:
        return self._directory / (digest(os.fsencode(canonical_target(target)))[7:39] + suffix)


M = TypeVar("M", Journal, Marker)


def _read(path: Path, type_: type[M]) -> M | None:
    raw = read_optional(path, max_bytes=MAX_JOURNAL_BYTES)
    if raw is None:
        return None
    try:
        return accept(raw, type_).document
    except SavantError as error:
        raise RefusedInput(
            "refused.apply-journal",
            f"{path} is not what was written there: {error.message}",
            untouched="Nothing was written.",
            fix=f"Look at the targets of this repository, then remove {path}.",
        ) from error


def _forget(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise disk_error(error, f"Cannot remove {str(path)!r}") from error
    fsync_directory(path.parent)


def canonical_target(target: Path) -> Path:
    """One spelling of a target's place: links above it resolved, its own name kept.

    :raises RefusedInput: ``refused.apply-target-link`` when the target itself is a link;
        ``refused.apply-target-name`` when its path is not UTF-8.
    """
    place = target.absolute()
    try:
        str(place).encode()
    except UnicodeEncodeError as error:
        raise RefusedInput(
            "refused.apply-target-name",
            f"The path {str(target)!a} is not UTF-8.",
            untouched="Nothing was written.",
            fix="Choose another place.",
        ) from error
    if place.is_symlink():
        raise RefusedInput(
            "refused.apply-target-link",
            f"{target} is a link.",
            untouched="Nothing was written.",
            fix="Name the folder.",
        )
    return place.parent.resolve() / place.name
