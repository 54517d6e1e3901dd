"""Normalisers: formatters that the policy names, run on the copy before the seal so that a later hook changes nothing.

A normaliser gets the paths that the candidate changed and that match its patterns, as arguments after its own, each
beginning with ``./``. It may change these files and nothing else: a candidate is never widened by a formatter. How
it ended is a value, and the value says whose fault a failure is, because only the candidate's is worth a retry.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from runner.overlay import Overlay
from runner.workspace import CandidateWorkspace
from savant.contracts.containment import Containment, Demand, weakest
from savant.contracts.effects import Cancellation
from savant.contracts.errors import RefusedInput
from savant.files.patterns import PatternSet
from savant.files.tree import disk_error
from savant.process.environment import allowed_environment
from savant.process.port import Command, Ended, Limits, ProcessRunner
from savant.process.view import PLAIN_SIGHT, Sight, at_their_paths, confined, containment_of

MAX_ARGUMENT_BYTES: Final = 64 * 1024
"""How many bytes of paths one call gets; more paths are given to further calls."""

MAX_SAID_CHARACTERS: Final = 2_000

Blame: TypeAlias = Literal["candidate", "host"]
"""Who can help: ``candidate``, the tool rejected its files; ``host``, the tool could not do its work."""


class Normaliser(msgspec.Struct, frozen=True, kw_only=True):
    """One formatter.

    :param id: its name in messages.
    :param argv: the absolute executable and its arguments, before the paths.
    :param patterns: which changed paths it gets (:mod:`savant.files.patterns`).
    :param timeout_ms: for each call.
    :param environment: what it sees beyond a private, deterministic environment.
    :param demanded: the least containment it runs with; it gets the best that can be had, without network.
    :param output_bytes: of each stream.
    """

    id: str
    argv: tuple[str, ...]
    patterns: tuple[str, ...]
    timeout_ms: int
    environment: tuple[tuple[str, str], ...] = ()
    demanded: Demand = Demand()
    output_bytes: int = 64 * 1024


class Normalised(msgspec.Struct, frozen=True):
    """Every normaliser succeeded; the paths whose content or mode changed, in byte order.

    ``containment`` is the weakest that one of them had; None if none ran.
    """

    touched: tuple[bytes, ...]
    containment: Containment | None = None


class NormaliserFailed(msgspec.Struct, frozen=True):
    """One normaliser failed, later ones did not run. ``code`` is dotted; ``paths`` are those it had been given.

    ``containment`` is the weakest that one of those that ran had.
    """

    normaliser: str
    code: str
    message: str
    blame: Blame
    paths: tuple[bytes, ...]
    containment: Containment | None = None


def run_normalisers(
    normalisers: Iterable[Normaliser],
    workspace: CandidateWorkspace,
    processes: ProcessRunner | None,
    scratch: Path,
    cancellation: Cancellation | None = None,
    sight: Sight = PLAIN_SIGHT,
) -> Normalised | NormaliserFailed:
    """Run each normaliser in turn on what the candidate changed and take up what it did.

    :param workspace: closed.
    :param scratch: a private folder for the tools' home and temporary files.
    :param sight: what the tools see of the person's machine.
    :raises PortError: as the runner and the disk do.
    :raises RefusedInput: as absorbing the copy does.
    """
    changed = changed_files(workspace.overlay)
    touched: set[bytes] = set()
    seen: list[Containment | None] = []
    for normaliser in normalisers:
        patterns = PatternSet.parse(normaliser.patterns)
        chosen = tuple(path for path in changed if patterns.matches(path))
        if not chosen:
            continue
        if processes is None:
            return _failed(normaliser, "normaliser.no-runner", "there is nothing to run it with", "host", chosen)
        tool = _Tool(normaliser, processes, scratch, cancellation, sight, seen)
        problem = tool.run(workspace, chosen)
        if problem is not None:
            return replace(problem, containment=weakest(seen))
        try:
            touched |= workspace.copy.absorb(only=frozenset(chosen))
        except RefusedInput as error:
            if error.code != "refused.outside-selection":
                raise
            problem = _failed(normaliser, "normaliser.touched-others", error.message, "host", chosen)
            return replace(problem, containment=weakest(seen))
    return Normalised(tuple(sorted(touched)), weakest(seen))


def changed_files(overlay: Overlay) -> tuple[bytes, ...]:
    """The regular and executable files that differ from the base, in byte order."""
    manifest = overlay.base.manifest
    return tuple(
        path
        for path, content in sorted(overlay.changes.items())
        if content is not None and content.mode != "symlink" and manifest.get(path) != content.entry
    )


class _Tool(msgspec.Struct, frozen=True):
    """One normaliser and what it runs with; ``seen`` collects what contained it."""

    normaliser: Normaliser
    processes: ProcessRunner
    scratch: Path
    cancellation: Cancellation | None
    sight: Sight
    seen: list[Containment | None]

    def run(self, workspace: CandidateWorkspace, paths: tuple[bytes, ...]) -> NormaliserFailed | None:
        """Run it on these paths, in as many calls as they need; None when all succeeded."""
        folder = workspace.bring_for_host()
        home, tmp = _private(self.scratch, "home"), _private(self.scratch, "tmp")
        normaliser = self.normaliser
        sandbox = confined(
            self.processes.level,
            normaliser.demanded.minimum,
            network=False,
            writable=at_their_paths(folder, home, tmp),
            executables=(Path(normaliser.argv[0]),),
            read_only=self.sight.read_only,
            hidden=self.sight.hidden,
        )
        for arguments in _batches(paths):
            ended = self.processes.run(
                Command(
                    argv=(*normaliser.argv, *arguments),
                    cwd=folder,
                    env=allowed_environment({}, (), home, tmp, dict(normaliser.environment)),
                    limits=Limits(
                        wall_ms=normaliser.timeout_ms,
                        stdout_bytes=normaliser.output_bytes,
                        stderr_bytes=normaliser.output_bytes,
                    ),
                    sandbox=sandbox,
                ),
                self.cancellation,
            )
            self.seen.append(containment_of(ended, network=False))
            problem = _judge(normaliser, ended, paths, folder)
            if problem is not None:
                return problem
        return None


def _judge(normaliser: Normaliser, ended: Ended, paths: tuple[bytes, ...], folder: Path) -> NormaliserFailed | None:
    if ended.is_success:
        return None
    if not ended.is_quiescent:
        return _failed(normaliser, "normaliser.not-quiescent", "a process of it could not be ended", "host", paths)
    if ended.verdict == "exited":
        said = (ended.stderr or ended.stdout).decode("utf-8", "replace").replace(str(folder), ".").strip()
        return _failed(
            normaliser,
            "normaliser.rejected",
            f"it exited with status {ended.exit_status}: {said[:MAX_SAID_CHARACTERS]}",
            "candidate",
            paths,
        )
    return _failed(normaliser, f"normaliser.{ended.verdict}", f"it ended as {ended.verdict}", "host", paths)


def _failed(normaliser: Normaliser, code: str, why: str, blame: Blame, paths: tuple[bytes, ...]) -> NormaliserFailed:
    return NormaliserFailed(normaliser.id, code, f"The normaliser {normaliser.id} failed: {why}", blame, paths)


def _batches(paths: Iterable[bytes]) -> Iterator[tuple[str, ...]]:
    batch: list[str] = []
    size = 0
    for path in paths:
        if batch and size + len(path) > MAX_ARGUMENT_BYTES:
            yield tuple(batch)
            batch, size = [], 0
        batch.append("./" + os.fsdecode(path))
        size += len(path) + 3
    if batch:
        yield tuple(batch)


def _private(scratch: Path, name: str) -> Path:
    folder = scratch / name
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise disk_error(error, f"Cannot make the folder {name} for a normaliser") from error
    return folder
