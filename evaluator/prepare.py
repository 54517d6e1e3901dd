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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Self

import msgspec
from msgspec.structs import replace

from evaluator.checks.place import CommandHost
from evaluator.documents import PrepareConfig
from evaluator.findings import normalise
from evaluator.outputs import inventory, is_folder, make_read_only, verify_outputs
from evaluator.toolchain import Toolchain, without_checkout
from providerport.port import BaseReader, FileMode
from runner.materialize import materialise_tree, read_all
from savant.contracts.canonical import encode_struct
from savant.contracts.containment import Containment, weakest
from savant.contracts.digest import PREFIX, digest
from savant.contracts.errors import Conflict, PortError, RefusedInput, SavantError
from savant.files.atomic import lock, read_optional, remove_tree, write_atomic
from savant.files.paths import to_raw, to_text
from savant.files.patterns import PatternSet
from savant.process.environment import DEFAULT_PATH, allowed_environment
from savant.process.identity import executable_digest
from savant.process.port import Command, Ended, Limits, Sandbox
from savant.process.view import at_their_paths, confined, containment_of, toolchain_roots

VERSION: Final = 1
MAX_KEPT: Final = 8
"""How many prepared folders are kept; those that were not used for the longest go first."""
MAX_CAPTURE_BYTES: Final = 4 * 1024 * 1024
MAX_FILE_BYTES: Final = 4 * 1024 * 1024 * 1024
MAX_DONE_BYTES: Final = 1024 * 1024
GRACE_MS: Final = 1_000
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


class _Failed(Exception):
    """A step that ran and ended badly: how, and what it wrote."""

    def __init__(self, words: str, output: str = "") -> None:
        super().__init__(words)
        self.output = output


class Preparing:
    """The preparations of one evaluation: each is looked at or made once. Use as a context manager, in one thread.

    :param folder: where prepared folders are kept: a private one, outside every repository, which commands may see
        parts of.
    """

    def __init__(self, steps: Sequence[PrepareConfig], folder: Path, *, max_kept: int = MAX_KEPT) -> None:
        self._steps = tuple(steps)
        self._folder = folder
        self._max_kept = max_kept
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
        return prepared_digest(self._steps, tree)

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
            "environment": [list(pair) for pair in _environment(host, _NOWHERE, "")],
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
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            place = self._folder.resolve() / key.removeprefix(PREFIX)
            with lock(place.with_suffix(".lock")):
                done = _done(place)
                if done is None:
                    with lock(place.with_suffix(".used")):  # nobody is using what is not whole any more
                        done = self._made_anew(tree, host, place)
                os.utime(place / _DONE)
                self._used.enter_context(lock(place.with_suffix(".used"), shared=True))
            self._drop_oldest()
        except _Failed as error:
            return Prepared(host, problem=str(error), output=error.output, is_of_tree=True)
        except SavantError as error:
            return Prepared(host, problem=_not_possible(error))
        except OSError as error:
            return Prepared(host, problem=f"its folders could not be prepared (port.disk): {error.strerror}")
        made = Toolchain(place / "tree", self._outputs(), host.toolchain.search_path)
        return Prepared(replace(host, toolchain=made, prepared=key), done.containment)

    def _made_anew(self, tree: BaseReader, host: CommandHost, place: Path) -> _Done:
        remove_tree(place)
        try:
            return self._make(tree, host, place)
        except BaseException:
            remove_tree(place)
            raise

    def _make(self, tree: BaseReader, host: CommandHost, place: Path) -> _Done:
        surface, home = place / "tree", place / "home"
        for folder in (place, surface, home, home / "tmp"):
            folder.mkdir(mode=0o700)
        materialise_tree(_Selected(tree, tuple(_locked(self._steps, tree))), surface)
        seen: list[Containment | None] = []
        sandboxes: list[Sandbox] = []
        for step in self._steps:
            host.say(f"preparing {step_words(step)}"[:200])
            self._run(step, host, surface, home, seen, sandboxes)
        try:
            verify_outputs(surface, self._outputs(), sandboxes)
        except RefusedInput as error:
            raise _Failed(f"preparing {self._steps[-1].id} failed ({error.code}): {error.message}") from error
        remove_tree(home)
        _keep_only(surface, self._outputs(), place / "rest")
        make_read_only(surface)
        done = _Done(inventory(surface), weakest(seen))
        write_atomic(place / _DONE, msgspec.json.encode(done))
        return done

    def _run(
        self,
        step: PrepareConfig,
        host: CommandHost,
        surface: Path,
        home: Path,
        seen: list[Containment | None],
        sandboxes: list[Sandbox],
    ) -> None:
        if step.directory is not None and not is_folder(surface, step.directory):
            raise _Failed(f"preparing {step.id} failed: no file that it sees is in a folder {step.directory!r}")
        toolchain = Toolchain(surface, self._outputs(), host.toolchain.search_path)
        executable = toolchain.resolve(step.argv[0])
        is_open = step.network == "open"
        outside = host.toolchain.path() or DEFAULT_PATH
        roots = toolchain_roots(executable, host.sight.hidden, search_path=outside)
        sandbox = confined(
            host.processes.level,
            host.demand(step.id).minimum,
            network=is_open,
            writable=at_their_paths(surface, home),
            executables=(),
            # What an earlier step made is its to change: nothing of it is laid over itself.
            read_only=(*host.sight.read_only, *(root for root in roots if not root.is_relative_to(surface))),
            search_path=outside,
            hidden=host.sight.hidden,
        )
        limits = Limits(
            wall_ms=step.timeout_ms,
            stdout_bytes=MAX_CAPTURE_BYTES,
            stderr_bytes=MAX_CAPTURE_BYTES,
            grace_ms=GRACE_MS,
            file_bytes=MAX_FILE_BYTES,
        )
        cwd = surface if step.directory is None else surface / step.directory
        env = _environment(host, home, toolchain.path())
        argv = (str(executable), *step.argv[1:])
        command = Command(argv=argv, cwd=cwd, env=env, limits=limits, stdin=b"", sandbox=sandbox)
        ended = host.processes.run(command, host.cancellation)
        seen.append(containment_of(ended, network=is_open))
        sandboxes.append(sandbox)
        _verify_ended(step, ended, (str(surface), str(home)))

    def _outputs(self) -> tuple[str, ...]:
        return tuple(sorted({output for step in self._steps for output in step.outputs}))

    def _drop_oldest(self) -> None:
        """Keep to the bound: folders that somebody makes or uses stay."""
        kept = sorted(self._folder.glob(f"*/{_DONE}"), key=lambda path: path.stat().st_mtime_ns)
        for place in [path.parent.resolve() for path in kept[: -self._max_kept]]:
            with (
                suppress(Conflict),
                lock(place.with_suffix(".lock"), blocking=False),
                lock(place.with_suffix(".used"), blocking=False),
            ):
                (place / _DONE).unlink(missing_ok=True)
                remove_tree(place)


class _Selected:
    """The files of a tree that steps may see."""

    def __init__(self, tree: BaseReader, chosen: tuple[bytes, ...]) -> None:
        self._tree = tree
        self._chosen = chosen

    def mode(self, path: bytes) -> FileMode | None:
        return self._tree.mode(path) if path in self._chosen else None

    def read(self, path: bytes) -> bytes:
        return self._tree.read(path)

    def paths(self) -> Iterator[bytes]:
        return iter(self._chosen)


def prepared(tree: BaseReader, host: CommandHost) -> Prepared:
    """The host of the checks of a tree: with what is prepared for it, where anything is. Errors as reading a tree."""
    return Prepared(host) if host.preparing is None else host.preparing.on(tree, host)


def prepared_digest(steps: Sequence[PrepareConfig], tree: BaseReader) -> str:
    """The digest of the steps of a policy and of those files of a tree that they see. Pure but for reading the tree.

    Two trees that have it in common share what is prepared on one machine.

    Errors as reading a tree.
    """
    facts = {
        "steps": [digest(encode_struct(step)) for step in steps],
        "locks": [
            [to_text(path), tree.mode(path), digest(data)]
            for path, data in sorted(read_all(tree, list(_locked(steps, tree))))
        ],
    }
    return digest(json.dumps(facts, sort_keys=True).encode())


def step_words(step: PrepareConfig) -> str:
    """A step for a person: its name, that it has the network if it has, and its command."""
    network = " (network: open)" if step.network == "open" else ""
    return f"{step.id}{network}: {' '.join(step.argv)}"


def _locked(steps: Sequence[PrepareConfig], tree: BaseReader) -> Iterator[bytes]:
    """The regular files that the steps see; what a tree has where they make their outputs is none of them."""
    patterns = PatternSet.parse(sorted({pattern for step in steps for pattern in step.locks}))
    made = tuple(to_raw(output) + b"/" for step in steps for output in step.outputs)
    for path in tree.paths():
        if patterns.matches(path) and not path.startswith(made) and tree.mode(path) in ("regular", "executable"):
            yield path


def _environment(host: CommandHost, home: Path, path: str) -> tuple[tuple[str, str], ...]:
    more: Mapping[str, str] = {"PATH": path} if path else {}
    return allowed_environment(host.ambient, host.environment, home, home / "tmp", more)


def _verify_ended(step: PrepareConfig, ended: Ended, places: Sequence[str]) -> None:
    """Return if a step did what it should.

    :raises PortError: ``port.prepare`` where how it ended says nothing about what it was given.
    """
    if ended.verdict in ("cancelled", "spawn-error", "timed-out", "signaled", "output-limit"):
        raise PortError("port.prepare", f"{step.id} did not end by itself: {ended.detail or ended.verdict}")
    if not ended.is_quiescent:
        raise PortError("port.prepare", f"{ended.remaining} processes of {step.id} could not be ended")
    if not ended.is_success:
        output = (ended.stdout + b"\n" + ended.stderr).decode("utf-8", "replace")
        raise _Failed(f"preparing {step.id} failed: exit status {ended.exit_status}", normalise(output, places))


def _not_possible(error: SavantError) -> str:
    return f"its folders could not be prepared ({error.code}): {error.message}"


def _done(place: Path) -> _Done | None:
    """What was written last, if it is there and everything is still as it was then."""
    try:
        raw = read_optional(place / _DONE, max_bytes=MAX_DONE_BYTES)
        done = None if raw is None else msgspec.json.decode(raw, type=_Done)
        return done if done is not None and inventory(place / "tree") == done.inventory else None
    except (msgspec.DecodeError, SavantError, OSError):
        return None


def _keep_only(surface: Path, outputs: Sequence[str], rest: Path) -> None:
    """Leave nothing but the outputs in a tree; they stay where they are."""
    surface.rename(rest)
    surface.mkdir(mode=0o700)
    for output in outputs:
        target = surface / output
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (rest / output).rename(target)
    remove_tree(rest)
