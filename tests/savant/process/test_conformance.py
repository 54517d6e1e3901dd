"""Real processes and the in-memory twin keep the same contract, and a runner that does not is found out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from savant.contracts.effects import Cancellation
from savant.contracts.errors import PortError, UsageError, VerificationError
from savant.process.conformance import CHECKS, SHELL, verify
from savant.process.port import Command, Ended, Level, Limits, Missing, Mount, ProcessRunner, Sandbox
from savant.process.posix import SupervisedRunner
from savant.process.scripted import ScriptedRunner

RUNNERS: dict[str, Callable[[Path], ProcessRunner]] = {
    "real": lambda folder: SupervisedRunner(folder / "scratch"),
    "group": lambda folder: SupervisedRunner(folder / "scratch", containment="group"),
    "scripted": lambda folder: ScriptedRunner(SHELL),
    "scripted-s3": lambda folder: ScriptedRunner(SHELL, level="S3"),
}

LEVELS: tuple[Level, ...] = ("S1", "S2", "S3")


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("kind", RUNNERS)
def test_every_runner_conforms(kind: str, name: str, tmp_path: Path, cancel: Cancellation) -> None:
    """Each check holds for each runner."""
    verify(name, RUNNERS[kind](tmp_path), tmp_path, cancel)


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["real", "scripted-s3"])
def test_every_runner_conforms_at_every_level(
    kind: str, level: Level, name: str, tmp_path: Path, cancel: Cancellation
) -> None:
    """Each check holds for contained commands too, whatever contains them."""
    runner = RUNNERS[kind](tmp_path)
    if isinstance(runner, SupervisedRunner) and isinstance(tried := runner._tried(level), Missing):
        runner.close()
        pytest.skip(f"{level}: {tried.why}")
    sandbox = Sandbox(level=level, network=False, mounts=(Mount(tmp_path, tmp_path, writable=True),))
    verify(name, runner, tmp_path, cancel, sandbox)


class Wrong(ScriptedRunner):
    """A runner that breaks one promise."""

    def __init__(self, broken: str) -> None:
        super().__init__(SHELL)
        self.broken = broken

    def run(self, command: Command, cancellation: Cancellation | None = None) -> Ended:
        changes: dict[str, object] = {
            "forgets input": {"stdin": b""},
            "leaks": {"env": (("A", "b"), ("HOME", "/root"))},
        }.get(self.broken, {})  # type: ignore[assignment]
        if self.broken == "ignores cancellation":
            cancellation = None
        if self.broken == "ignores the level":
            command = structs.replace(command, sandbox=Sandbox())
        ended = super().run(structs.replace(command, **changes), cancellation)  # type: ignore[arg-type]
        if self.broken == "forgets survivors":
            ended = structs.replace(ended, survivors=0)
        if self.broken == "fails":
            raise PortError("port.disk", "No.", retryable=True)
        return ended

    def close(self) -> None:
        if self.broken != "never closes":
            super().close()


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        ("forgets input", "delivers input"),
        ("ignores cancellation", "does not start what was cancelled"),
        ("ignores the level", "refuses a level it has not"),
        ("forgets survivors", "ends survivors"),
        ("never closes", "refuses when closed"),
    ],
)
def test_a_wrong_runner_is_found_out(broken: str, check: str, tmp_path: Path, cancel: Cancellation) -> None:
    """A broken promise fails the check that is about it; a kept one passes."""
    with pytest.raises(VerificationError) as caught:
        verify(check, Wrong(broken), tmp_path, cancel)
    assert caught.value.code == "unverified.conformance"
    verify(check, Wrong("nothing"), tmp_path, type(cancel)())


def test_trouble_of_the_runner_is_not_a_verdict(tmp_path: Path, cancel: Cancellation) -> None:
    """A port error names the check and keeps its code; an unknown check is misuse."""
    with pytest.raises(PortError) as caught:
        verify("exits", Wrong("fails"), tmp_path, cancel)
    assert (caught.value.code, caught.value.retryable) == ("port.disk", True)
    assert "exits" in caught.value.message
    with pytest.raises(UsageError):
        verify("none", Wrong("nothing"), tmp_path, cancel)


def test_the_twin_ends_an_endless_program_when_cancelled(tmp_path: Path, cancel: Cancellation) -> None:
    """A program without a duration runs until somebody cancels it from another thread."""
    runner = ScriptedRunner(SHELL)
    plain = ("/bin/sh", "-c", "exec sleep 600")
    limits = _limits()
    threading.Timer(0.05, cancel.set).start()
    ended = runner.run(Command(argv=plain, cwd=tmp_path, env=(), limits=limits), cancel)
    assert (ended.verdict, ended.signal) == ("cancelled", 15)
    assert [command.argv for command in runner.commands] == [plain]


def _limits() -> Limits:
    return Limits(wall_ms=60_000, stdout_bytes=1, stderr_bytes=1)
