"""Making a prepared folder: the steps of a policy, one after another, in a fresh folder of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from evaluator.checks.place import CommandHost
from evaluator.documents import PrepareConfig
from evaluator.findings import normalise
from evaluator.locks import LockedTree, step_words
from evaluator.outputs import is_folder, make_read_only, verify_outputs
from evaluator.toolchain import Toolchain
from runner.materialize import materialise_tree
from savant.contracts.containment import Containment
from savant.contracts.errors import PortError, RefusedInput
from savant.files.atomic import remove_tree
from savant.process.environment import DEFAULT_PATH, allowed_environment
from savant.process.port import Command, Ended, Limits, Sandbox
from savant.process.view import at_their_paths, confined, containment_of, toolchain_roots

MAX_CAPTURE_BYTES: Final = 4 * 1024 * 1024
MAX_FILE_BYTES: Final = 4 * 1024 * 1024 * 1024
MAX_WORDS: Final = 200
GRACE_MS: Final = 1_000
SURFACE: Final = "tree"
"""The folder of a place in which steps run and their outputs stay."""


class StepFailed(Exception):
    """A step that ran and ended badly by itself: how, and what it wrote."""

    def __init__(self, words: str, output: str = "") -> None:
        super().__init__(words)
        self.output = output


class Ran(NamedTuple):
    """What one step saw, and what contained it; None where it did not run."""

    sandbox: Sandbox
    containment: Containment | None


def make(steps: Sequence[PrepareConfig], locked: LockedTree, host: CommandHost, place: Path, ran: list[Ran]) -> None:
    """Make the outputs of all steps below an empty path, read-only; nothing else stays there.

    :param host: its toolchain is that of the person, without a checkout.
    :param ran: each step that was started is added.

    :raises StepFailed: when a step says that it failed, or what was made is refused (``refused.prepared``).
    :raises PortError: ``port.prepare`` when a step did not end by itself; as running commands does.
    :raises UsageError: as looking up an executable does.

    Errors as reading a tree and writing files.
    """
    surface, home = place / SURFACE, place / "home"
    for folder in (place, surface, home, home / "tmp"):
        folder.mkdir(mode=0o700)
    materialise_tree(locked, surface)
    outputs = outputs_of(steps)
    for step in steps:
        host.say(f"preparing {step_words(step)}"[:MAX_WORDS])
        _run(step, host, Toolchain(surface, outputs, host.toolchain.search_path), home, ran)
    try:
        verify_outputs(surface, outputs, [one.sandbox for one in ran])
    except RefusedInput as error:
        raise StepFailed(f"preparing {steps[-1].id} failed ({error.code}): {error.message}") from error
    remove_tree(home)
    _keep_only(surface, outputs, place / "rest")
    make_read_only(surface)


def outputs_of(steps: Sequence[PrepareConfig]) -> tuple[str, ...]:
    """The outputs of all steps, each once."""
    return tuple(sorted({output for step in steps for output in step.outputs}))


def step_environment(host: CommandHost, home: Path, path: str) -> tuple[tuple[str, str], ...]:
    """The complete environment of a step."""
    more: Mapping[str, str] = {"PATH": path} if path else {}
    return allowed_environment(host.ambient, host.environment, home, home / "tmp", more)


def _run(step: PrepareConfig, host: CommandHost, toolchain: Toolchain, home: Path, ran: list[Ran]) -> None:
    surface = toolchain.checkout
    assert surface is not None
    if step.directory is not None and not is_folder(surface, step.directory):
        raise StepFailed(f"preparing {step.id} failed: no file that it sees is in a folder {step.directory!r}")
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
    command = Command(
        argv=(str(executable), *step.argv[1:]),
        cwd=surface if step.directory is None else surface / step.directory,
        env=step_environment(host, home, toolchain.path()),
        limits=limits,
        stdin=b"",
        sandbox=sandbox,
    )
    ended = host.processes.run(command, host.cancellation)
    ran.append(Ran(sandbox, containment_of(ended, network=is_open)))
    _verify_ended(step, ended, (str(surface), str(home)))


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
        raise StepFailed(f"preparing {step.id} failed: exit status {ended.exit_status}", normalise(output, places))


def _keep_only(surface: Path, outputs: Sequence[str], rest: Path) -> None:
    """Leave nothing but the outputs in a tree; they stay where they are."""
    surface.rename(rest)
    surface.mkdir(mode=0o700)
    for output in outputs:
        target = surface / output
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (rest / output).rename(target)
    remove_tree(rest)
