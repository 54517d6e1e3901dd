"""Preparing: folders for the checks of a tree, made by commands of the project from the files that decide them.

A step sees exactly the files that its policy's ``locks`` name, so what it makes depends on nothing else of a tree, and
trees that have the same ones share it. All steps run one after another in one folder, which has the name of the digest
of everything that they depend on; what they leave beside their outputs goes, and checks find the outputs where they
were made, in the place of a checkout's. A folder is used when its last file is there and nothing in it has changed
since; anything else there is made again. It stays while somebody uses it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Self

import msgspec
from msgspec.structs import replace

from evaluator.checks.place import CommandHost
from evaluator.documents import PrepareConfig
from evaluator.locks import LockedTree, prepared_digest
from evaluator.making import SURFACE, Ran, StepFailed, make, outputs_of, step_environment
from evaluator.outputs import inventory
from evaluator.toolchain import Toolchain, without_checkout
from providerport.port import BaseReader
from savant.contracts.containment import Containment, weakest
from savant.contracts.digest import PREFIX, digest
from savant.contracts.errors import Conflict, PortError, SavantError
from savant.files.atomic import lock, read_optional, remove_tree, write_atomic
from savant.process.identity import executable_digest

VERSION: Final = 1
MAX_KEPT: Final = 8
"""How many prepared folders are kept; those that were not used for the longest go first."""
MAX_DONE_BYTES: Final = 1024 * 1024
WAIT_MS: Final = 100
_DONE: Final = "done.json"
_NOWHERE: Final = Path("/")


class Prepared(msgspec.Struct, frozen=True):
    """The host of a tree's checks, with what was prepared for it; or why there is none.

    :param containment: the weakest that one of the steps had, when they ran.
    :param problem: why it could not be prepared, in a line; empty where it could. :param output: what was written then.
    :param is_of_tree: whether a step ran and ended badly by itself, so that the tree may be why.
    """

    host: CommandHost
    containment: Containment | None = None
    problem: str = ""
    output: str = ""
    is_of_tree: bool = False


class _Done(msgspec.Struct, frozen=True):
    """What is written last: the inventory of what is kept, and what contained the steps."""

    inventory: str
    containment: Containment | None


class Preparing:
    """The preparations of one evaluation: each is looked at or made once. Use as a context manager, in one thread.

    :param folder: where prepared folders are kept: a private one, outside every repository, which commands may see
        parts of.
    """

    def __init__(self, steps: Sequence[PrepareConfig], folder: Path, *, max_kept: int = MAX_KEPT) -> None:
        self._steps = tuple(steps)
        self._folder = folder
        self._max_kept = max_kept
        self._digests: dict[int, tuple[BaseReader, str]] = {}
        self._known: dict[str, Prepared] = {}
        self._used = ExitStack()

    def __enter__(self) -> Self:
        """The preparations."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the folders that were used."""
        self._used.close()

    def digest(self, tree: BaseReader) -> str:
        """The digest of what a policy and a tree say of what is to be prepared. Errors as reading a tree."""
        _, found = self._digests.get(id(tree)) or (tree, prepared_digest(self._steps, tree))
        self._digests[id(tree)] = tree, found
        return found

    def on(self, tree: BaseReader, host: CommandHost) -> Prepared:
        """The host of the checks of a tree. Raises only for our own bugs, and as reading the tree does."""
        wanted = self.digest(tree)
        outside = replace(host, toolchain=without_checkout(host.toolchain), preparing=None)
        try:
            key = self._key(wanted, outside)
        except SavantError as error:
            return Prepared(outside, problem=_not_possible(error))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._kept_or_made(tree, outside, key)
        return known

    def _key(self, wanted: str, host: CommandHost) -> str:
        """The digest of everything that the steps depend on.

        :raises UsageError: ``usage.executable-not-found``, ``usage.relative-executable``.
        """
        machine = os.uname()
        facts = {
            "version": VERSION,
            "wanted": wanted,
            "tools": [self._tool(step, host) for step in self._steps],
            "path": [str(folder) for folder in (*host.toolchain.search_path, *host.sight.read_only)],
            "containment": [host.processes.level, *(host.demand(step.id).minimum for step in self._steps)],
            "environment": [list(pair) for pair in step_environment(host, _NOWHERE, "")],
            "machine": [machine.sysname, machine.machine],
        }
        return digest(json.dumps(facts, sort_keys=True).encode())

    def _tool(self, step: PrepareConfig, host: CommandHost) -> str:
        """The digest of a step's executable; of one that an earlier step may make, nothing."""
        try:
            return executable_digest(host.toolchain.resolve(step.argv[0]))
        except SavantError:
            if step is self._steps[0]:
                raise
            return ""

    def _kept_or_made(self, tree: BaseReader, host: CommandHost, key: str) -> Prepared:
        ran: list[Ran] = []
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            place = self._folder.resolve() / key.removeprefix(PREFIX)
            with _alone(place.with_suffix(".lock"), host):
                done = _done(place)
                if done is None:
                    with _alone(place.with_suffix(".used"), host):  # nobody is using what is not whole any more
                        done = self._made_anew(tree, host, place, ran)
                os.utime(place / _DONE)
                self._used.enter_context(lock(place.with_suffix(".used"), shared=True))
            drop_oldest(self._folder, self._max_kept)
        except StepFailed as error:
            return Prepared(host, _weakest(ran), str(error), error.output, is_of_tree=True)
        except SavantError as error:
            return Prepared(host, _weakest(ran), _not_possible(error))
        except OSError as error:
            words = f"its folders could not be prepared (port.disk): {error.strerror}"
            return Prepared(host, _weakest(ran), words)
        made = Toolchain(place / SURFACE, outputs_of(self._steps), host.toolchain.search_path)
        return Prepared(replace(host, toolchain=made, prepared=key), done.containment)

    def _made_anew(self, tree: BaseReader, host: CommandHost, place: Path, ran: list[Ran]) -> _Done:
        remove_tree(place)
        try:
            make(self._steps, LockedTree(self._steps, tree), host, place, ran)
            done = _Done(inventory(place / SURFACE), _weakest(ran))
            write_atomic(place / _DONE, msgspec.json.encode(done))
        except BaseException:
            remove_tree(place)
            raise
        return done


def prepared(tree: BaseReader, host: CommandHost) -> Prepared:
    """The host of the checks of a tree: with what is prepared for it, where anything is. Errors as reading a tree."""
    return Prepared(host) if host.preparing is None else host.preparing.on(tree, host)


def drop_oldest(folder: Path, max_kept: int) -> None:
    """Keep to the bound, and nothing that is half made; what somebody makes or uses stays.

    Errors as removing files.
    """
    used = {path.name.partition(".")[0]: 0 for path in folder.iterdir()}
    for name in used:
        with suppress(FileNotFoundError):
            used[name] = (folder / name / _DONE).stat().st_mtime_ns
    whole = sorted((name for name, time_ns in used.items() if time_ns), key=used.__getitem__)
    half = [name for name, time_ns in used.items() if not time_ns]
    for name in (*half, *whole[: max(len(whole) - max_kept, 0)]):
        locks = (folder / f"{name}.lock", folder / f"{name}.used")
        with suppress(Conflict), lock(locks[0], blocking=False), lock(locks[1], blocking=False):
            (folder / name / _DONE).unlink(missing_ok=True)
            remove_tree(folder / name)
            for path in locks:
                path.unlink()


@contextmanager
def _alone(path: Path, host: CommandHost) -> Iterator[None]:
    """Hold a lock, waiting for those who have it until the run is cancelled.

    :raises PortError: ``port.prepare`` when it is.
    """
    with ExitStack() as stack:
        is_told = False
        while True:
            try:
                stack.enter_context(lock(path, blocking=False))
                break
            except Conflict:
                if not is_told:
                    host.say("waiting for another run, which prepares the same or still uses it")
                is_told = True
                if host.cancellation.wait(WAIT_MS):
                    raise PortError("port.prepare", "it was cancelled") from None
        yield


def _weakest(ran: Sequence[Ran]) -> Containment | None:
    return weakest(one.containment for one in ran)


def _not_possible(error: SavantError) -> str:
    return f"its folders could not be prepared ({error.code}): {error.message}"


def _done(place: Path) -> _Done | None:
    """What was written last, if it is there and everything is still as it was then."""
    try:
        raw = read_optional(place / _DONE, max_bytes=MAX_DONE_BYTES)
        done = None if raw is None else msgspec.json.decode(raw, type=_Done)
        return done if done is not None and inventory(place / SURFACE) == done.inventory else None
    except (msgspec.DecodeError, SavantError, OSError):
        return None
