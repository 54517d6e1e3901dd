"""The process port: one foreign command in, how it ended out.

A command is an argument vector, never a shell line; everything it gets is in the value, nothing is inherited. How it
ended is a value too, also when it could not be started; exceptions are for misuse and for a failed runner.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

from savant.contracts.effects import Cancellation
from savant.contracts.errors import PortError, UsageError

Level: TypeAlias = Literal["S0", "S1", "S2", "S3"]
"""What contains a command: from session, limits and sweep (S0) to namespaces, seccomp, Landlock and cgroup (S3)."""

Verdict: TypeAlias = Literal["exited", "signaled", "timed-out", "cancelled", "output-limit", "spawn-error"]
"""How a command ended, as the supervisor saw it.

``exited`` and ``signaled``: by itself. ``timed-out``, ``cancelled``, ``output-limit``: we ended it, or it wrote more
than it may before it ended. ``spawn-error``: it never ran.
"""

VERDICTS: Final[tuple[Verdict, ...]] = (
    "exited",
    "signaled",
    "timed-out",
    "cancelled",
    "output-limit",
    "spawn-error",
)

_MAX_LIMIT: Final = 2**53 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one command may use; None leaves a resource unlimited.

    :param wall_ms: from its start to the request to end; then ``grace_ms`` until it is killed.
    :param stdout_bytes: more on standard output ends it. Likewise ``stderr_bytes``.
    :param grace_ms: between SIGTERM and SIGKILL after a timeout or a cancellation; 0 kills at once.
    :param file_bytes: the largest file it may write, its output included (RLIMIT_FSIZE).
    :param memory_bytes: address space of each process (RLIMIT_AS). Programs that reserve address space (Node, Go, the
        JVM, sanitizers) die of this: set it per tool.
    :param cpu_ms: processor time of each process, rounded up to seconds (RLIMIT_CPU).
    :param open_files: descriptors of each process (RLIMIT_NOFILE).
    :param processes: processes and threads beyond those the user runs already (RLIMIT_NPROC); the kernel does
        not enforce it for root, and ``Ended.detail`` then says so.
    """

    wall_ms: int
    stdout_bytes: int
    stderr_bytes: int
    grace_ms: int = 2000
    file_bytes: int | None = None
    memory_bytes: int | None = None
    cpu_ms: int | None = None
    open_files: int | None = None
    processes: int | None = None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and not 0 <= value <= _MAX_LIMIT:
                raise UsageError("usage.bad-limit", f"The limit {name} is {value}, outside 0 to 2^53-1.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What contains the command and what it may reach; at S0 the last three are not enforced.

    :param level: the containment demanded. A runner that cannot give it refuses; it never gives less.
    :param network: whether it may use the network.
    :param read_only: host paths it may read. Likewise ``writable``: it may write below these.
    """

    level: Level = "S0"
    network: bool = True
    read_only: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One foreign command, complete.

    :param argv: the arguments; the first is the absolute path of the executable.
    :param cwd: the absolute working directory.
    :param env: the whole environment, as pairs; see :func:`savant.process.environment.allowed_environment`.
    :param stdin: what it reads on standard input, then end of file.
    :raises UsageError: ``usage.bad-command`` if no process could be started from it as it stands: no argument, a
        relative executable or directory, a NUL byte, a repeated or empty name, or a ``=`` in a name.
    """

    argv: tuple[str, ...]
    cwd: Path
    env: tuple[tuple[str, str], ...]
    limits: Limits
    stdin: bytes = b""
    sandbox: Sandbox = field(default_factory=Sandbox)

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0].startswith("/"):
            raise UsageError("usage.bad-command", "A command needs the absolute path of its executable.")
        if not self.cwd.is_absolute():
            raise UsageError("usage.bad-command", f"The working directory {str(self.cwd)!r} is not absolute.")
        names = [name for name, _ in self.env]
        if len(set(names)) != len(names) or any(not name or "=" in name for name in names):
            raise UsageError(
                "usage.bad-command", "The environment repeats a name, or has an empty one or one with '='."
            )
        words = (*self.argv, str(self.cwd), *(word for pair in self.env for word in pair))
        if any("\0" in word for word in words):
            raise UsageError("usage.bad-command", "A command cannot hold a NUL byte.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended, and what is left of it.

    :param exit_status: of the command itself, None if it did not exit. Likewise ``signal``. They are also told when
        we ended it, so judge by ``verdict`` first.
    :param stdout: at most the limit, the first bytes. Likewise ``stderr``.
    :param stdout_truncated: whether it wrote more than the limit. Likewise ``stderr_truncated``.
    :param duration_ms: wall clock from its start until nothing of it was left.
    :param cpu_ms: processor time of it and its descendants.
    :param max_rss_bytes: largest resident set of one of its processes; not below that of the supervisor's own, about
        ten megabytes, because a process inherits the mark.
    :param survivors: descendants that were alive when it had ended, or when its grace was over; ended by us.
    :param remaining: descendants that could not be ended; 0 is the proof of quiescence at this level.
    :param level: the containment it had.
    :param detail: for a person, one line: why it was ended or not started, and what could not be enforced.
    """

    verdict: Verdict
    exit_status: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    stdout_truncated: bool
    stderr_truncated: bool
    duration_ms: int
    cpu_ms: int
    max_rss_bytes: int
    survivors: int
    remaining: int
    level: Level
    detail: str

    @property
    def is_quiescent(self) -> bool:
        """Whether nothing that the command started is alive, as far as the level can see."""
        return self.remaining == 0

    @property
    def is_success(self) -> bool:
        """Whether it exited by itself with status 0 and nothing of it is left."""
        return self.verdict == "exited" and self.exit_status == 0 and self.is_quiescent


class ProcessRunner(Protocol):
    """Runs foreign commands.

    MUST end every descendant before :meth:`run` returns, count those it had to end, and give the command exactly the
    environment, directory, input and limits of the value. MUST NOT use a shell, inherit descriptors, or give less
    containment than demanded. Any thread may call; one command runs at a time, others wait.
    """

    @property
    def level(self) -> Level:
        """The strongest containment this runner can give."""
        ...

    def run(self, command: Command, cancellation: Cancellation | None = None) -> Ended:
        """Run the command until nothing of it is left.

        :param cancellation: when set, the command is asked to end and then killed; when already set it is not started.
        :raises PortError: ``port.sandbox-level`` (demanded more than the runner can give), ``port.supervisor-lost``
            (retryable; nothing of the command is left), ``port.spawn`` (no supervisor could be started), ``port.disk``.
        :raises UsageError: ``usage.runner-closed``.
        """
        ...

    def close(self) -> None:
        """End whatever runs; idempotent. The runner refuses every later command."""
        ...


def refuse_level(demanded: Level, offered: Level) -> None:
    """Refuse a command that demands more containment than is offered.

    :raises PortError: ``port.sandbox-level``.
    """
    if demanded > offered:
        raise PortError(
            "port.sandbox-level",
            f"The command demands sandbox level {demanded}, and only {offered} can be had here.",
            untouched="The command was not started.",
            fix="Lower the demand where the policy allows it, or run on a system that offers the level.",
        )


def cancelled_before_start(level: Level) -> Ended:
    """What a command that was cancelled before it started ended with."""
    return Ended(
        verdict="cancelled",
        exit_status=None,
        signal=None,
        stdout=b"",
        stderr=b"",
        stdout_truncated=False,
        stderr_truncated=False,
        duration_ms=0,
        cpu_ms=0,
        max_rss_bytes=0,
        survivors=0,
        remaining=0,
        level=level,
        detail="cancelled before it was started",
    )
