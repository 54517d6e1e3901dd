"""The composition root for one repository: adapters built once, closed together."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from savant.cli.kinds import registry
from savant.cli.places import Places, find_places
from savant.contracts.errors import Unverifiable
from savant.contracts.registry import Registry
from savant.files.atomic import remove_tree
from savant.ledger.log import Ledger
from savant.ledger.place import is_ledger, ledger_directory
from savant.process.effects import SystemClock, SystemEntropy, ThreadCancellation, ThreadTasks
from savant.process.posix import SupervisedRunner
from savant.process.view import Sight
from savant.repository.build import ManifestCache
from savant.repository.git import Repository
from savant.store.database import RunDatabase
from savant.store.objects import FileObjectStore
from savant.store.results import KeptResults

SCRATCH_PREFIX = "run-"


class Workbench:
    """Everything a command needs of one repository. Use as a context manager."""

    def __init__(self, repo: str | Path, *, places: Places | None = None, use_cache: bool = True) -> None:
        self.places = places or find_places()
        self._stack = ExitStack()
        self.repository = self._stack.enter_context(Repository.discover(Path(repo).absolute()))
        self.directory = ledger_directory(self.repository.common_dir)
        self._use_cache = use_cache
        self.also_secret: tuple[Path, ...] = ()
        self.clock = SystemClock()
        self.entropy = SystemEntropy()
        self.tasks = ThreadTasks()
        self.cancellation = ThreadCancellation()

    def __enter__(self) -> Self:
        """The workbench."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close what was opened, remove the scratch folder."""
        self._stack.close()

    @cached_property
    def registry(self) -> Registry:
        """Every document kind."""
        return registry()

    @cached_property
    def store(self) -> FileObjectStore:
        """The object store beside the ledger."""
        self._make_directory()
        return self._stack.enter_context(FileObjectStore(self.directory / "objects"))

    @cached_property
    def database(self) -> RunDatabase:
        """The run database; it follows from the ledger."""
        self._make_directory()
        database = RunDatabase(self.directory / "runs.db")
        self._stack.callback(database.close)
        return database

    @cached_property
    def cache(self) -> ManifestCache | None:
        """The manifest cache, None with ``--no-cache``."""
        if not self._use_cache:
            return None
        from savant.repository.cache import SqliteManifestCache

        self._make_directory()
        cache = SqliteManifestCache(self.directory / "manifests.db")
        self._stack.callback(cache.close)
        return cache

    @cached_property
    def results(self) -> KeptResults | None:
        """What bases gave in earlier runs, None with ``--no-cache``."""
        return KeptResults(self.directory / "results") if self._use_cache else None

    @property
    def prepared(self) -> Path | None:
        """Where folders that are prepared for checks are kept over runs, None with ``--no-cache``.

        Commands are shown parts of it, so it lies outside every repository and beside no key.
        """
        return self.places.prepared if self._use_cache else None

    @cached_property
    def scratch(self) -> Path:
        """A private directory for this process, outside the repository; leftovers of killed runs are removed first."""
        return self._stack.enter_context(session_scratch(self.places))

    @cached_property
    def processes(self) -> SupervisedRunner:
        """The supervisor of this session's foreign commands."""
        directory = self.scratch / "processes"
        directory.mkdir(mode=0o700, exist_ok=True)
        return self._stack.enter_context(SupervisedRunner(directory, at_most=self.places.strongest))

    @cached_property
    def sight(self) -> Sight:
        """What every foreign command sees of this machine."""
        from savant.cli.containing import sight_of

        return sight_of(self)

    @property
    def host(self) -> str:
        """A name of this machine for observations."""
        name = "".join(c for c in socket.gethostname() if c.isascii() and (c.isalnum() or c in ".-"))
        return name.strip(".-")[:64] or "host"

    @property
    def search_folders(self) -> tuple[Path, ...]:
        """The folders in which tools are looked up."""
        return tuple(Path(entry) for entry in self.places.search_path.split(":"))

    @property
    def checkout(self) -> Path | None:
        """The person's checkout, None in a bare repository."""
        return self.repository.top_level

    def has_ledger(self) -> bool:
        """Whether this repository has a ledger."""
        return is_ledger(self.directory)

    def need_ledger(self) -> None:
        """Refuse to go on without a ledger.

        :raises Unverifiable: ``unverifiable.no-ledger``.
        """
        if not self.has_ledger():
            raise Unverifiable(
                "unverifiable.no-ledger",
                "This repository has no Savant ledger yet.",
                untouched="Nothing was written.",
                fix='savant run "..." makes one with its first run.',
            )

    def keep(self, ledger: Ledger) -> Ledger:
        """Close a ledger together with the workbench."""
        self._stack.callback(ledger.close)
        return ledger

    def _make_directory(self) -> None:
        self.directory.mkdir(mode=0o700, exist_ok=True)


def find_tool(places: Places, name: str) -> Path | None:
    """A tool on the person's PATH."""
    found = shutil.which(name, path=places.search_path)
    return None if found is None else Path(found)


@contextmanager
def session_scratch(places: Places) -> Iterator[Path]:
    """A private directory of this process that is gone afterwards; leftovers of killed ones are removed first."""
    places.scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
    for leftover in _leftovers(places.scratch):
        remove_tree(leftover)
    directory = Path(tempfile.mkdtemp(prefix=f"{SCRATCH_PREFIX}{os.getpid()}-", dir=places.scratch))
    try:
        yield directory
    finally:
        remove_tree(directory)


def _leftovers(scratch: Path) -> Iterator[Path]:
    for entry in scratch.iterdir():
        pid = entry.name.removeprefix(SCRATCH_PREFIX).partition("-")[0]
        if entry.name.startswith(SCRATCH_PREFIX) and pid.isdigit() and not Path(f"/proc/{pid}").exists():
            yield entry
