"""The process port: one foreign command in, how it ended out.

A command is an argument vector, never a shell line; everything it gets is in the value, nothing is inherited. How it
ended is a value too, also when it could not be started; exceptions are for misuse and for a failed runner.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from savant.contracts.effects import Cancellation
from savant.contracts.errors import PortError, UsageError
from savant.contracts.scalars import Set

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


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one command may use; None leaves a resource unlimited.

    :param wall_ms: from its start to the request to end; then ``grace_ms`` until it is killed.
    :param stdout_bytes: more on standard output ends it. Likewise ``stderr_bytes``.
    :param grace_ms: between SIGTERM and SIGKILL after a timeout or a cancellation; 0 kills at once.
    :param file_bytes: the largest file it may write, its output included (RLIMIT_FSIZE).
    :param memory_bytes: address space of each process (RLIMIT_AS). Programs that reserve address space (Node, Go, the
        JVM, sanitizers) die of this: set it per tool.
    :param cpu_ms: processor time of each process, rounded up to seconds (RLIMIT_CPU).
    :param open_files: descriptors of each process (RLIMIT_NOFILE).
    :param processes: processes and threads beyond those the user runs already (RLIMIT_NPROC). For root, whom the
        kernel lets, the supervisor counts processes every few milliseconds and kills a command that has more.
    :param line_bytes: the longest line that it may send in a conversation, its end not counted.
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
    line_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not 0 <= value <= _MAX_LIMIT:
                raise UsageError("usage.bad-limit", f"The limit {name} is {value}, outside 0 to 2^53-1.")


class Mount(msgspec.Struct, frozen=True):
    """A file or folder of the host that a contained command may see.

    :param source: its path on the host. :param target: the path at which the command sees it.
    :param writable: whether the command may change it and what is below it.
    :raises UsageError: ``usage.bad-sandbox`` if a path is not absolute, has a ``..`` or a NUL byte.
    """

    source: Path
    target: Path
    writable: bool = False

    def __post_init__(self) -> None:
        for path in (self.source, self.target):
            if not path.is_absolute() or ".." in path.parts or "\0" in str(path):
                raise UsageError("usage.bad-sandbox", f"The mount {str(path)!r} is not an absolute, plain path.")

    @property
    def is_moved(self) -> bool:
        """Whether the command sees it at another path, for which it needs a mount namespace."""
        return self.source != self.target


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """What contains the command and what it may reach; at S0 the last two are not enforced.

    :param level: the containment, exactly: a runner that cannot give it refuses; it gives neither less nor more.
    :param network: whether it may use the network.
    :param mounts: what it may see of the host beside the parts of the system that every program needs
        (:data:`savant.process.sandbox.SYSTEM`). Later ones lie over earlier ones.
    :raises UsageError: ``usage.bad-sandbox`` if a mount is moved at S1 or S2, where paths are those of the host, or if
        one at S1 that may be read only lies in one that may be written, because Landlock only ever adds rights.
    """

    level: Level = "S0"
    network: bool = True
    mounts: tuple[Mount, ...] = ()

    def __post_init__(self) -> None:
        if self.level in {"S1", "S2"} and (moved := next((mount for mount in self.mounts if mount.is_moved), None)):
            raise UsageError(
                "usage.bad-sandbox", f"At level {self.level} {str(moved.source)!r} cannot be seen at another path."
            )
        writable = [mount.target for mount in self.mounts if mount.writable]
        for mount in self.mounts if self.level == "S1" else ():
            if not mount.writable and any(mount.target.is_relative_to(path) for path in writable):
                raise UsageError(
                    "usage.bad-sandbox", f"At level S1 {str(mount.target)!r} cannot be kept from being written."
                )


class Missing(msgspec.Struct, frozen=True):
    """Something that a higher level would need: its name, why it cannot be had here, and what to do about it."""

    name: str
    why: str
    fix: str


class Offer(msgspec.Struct, frozen=True):
    """What a runner can give, as it found by running something.

    :param level: the strongest level.
    :param layers: what is active at that level, by name, as in :attr:`Ended.layers`.
    :param missing: what keeps it from the levels above; empty at the highest.
    """

    level: Level
    layers: Set[str]
    missing: tuple[Missing, ...]


class Command(msgspec.Struct, frozen=True, kw_only=True):
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
    sandbox: Sandbox = msgspec.field(default_factory=Sandbox)

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


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended, and what is left of it.

    :param exit_status: of the command itself, None if it did not exit. Likewise ``signal``. They are also told when
        we ended it, so judge by ``verdict`` first.
    :param stdout: at most the limit, the first bytes; in a conversation what it sent. Likewise ``stderr``.
    :param stdout_truncated: whether it wrote more than the limit. Likewise ``stderr_truncated``.
    :param duration_ms: wall clock from its start until nothing of it was left.
    :param cpu_ms: processor time of it and its descendants.
    :param max_rss_bytes: largest resident set of one of its processes; not below that of the supervisor's own, about
        ten megabytes, because a process inherits the mark.
    :param survivors: descendants that were alive when it had ended, or when its grace was over; ended by us. Those of
        a command that ended by itself at S3 end with its namespace and are not counted.
    :param remaining: descendants that could not be ended; 0 is the proof of quiescence at this level.
    :param level: the containment it had. :param layers: what was active, by name; empty if it was never started.
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
    layers: tuple[str, ...]

    @property
    def is_quiescent(self) -> bool:
        """Whether nothing that the command started is alive, as far as the level can see."""
        return self.remaining == 0

    @property
    def is_success(self) -> bool:
        """Whether it exited by itself with status 0 and nothing of it is left."""
        return self.verdict == "exited" and self.exit_status == 0 and self.is_quiescent


class Channel(Protocol):
    """Our end of a conversation with a command: lines both ways. For the one thread that holds the conversation."""

    @property
    def is_open(self) -> bool:
        """Whether something may still come; False once the command has ended or said more than it may."""
        ...

    def send(self, line: bytes) -> bool:
        """Send one line, without its end; whether the command still took it. What it says meanwhile is kept.

        :raises UsageError: ``usage.bad-line`` for a line that has an end in it.
        """
        ...

    def receive(self, timeout_ms: int) -> bytes | None:
        """The next line, without its end; None when there is none within the time or, at once, when none will come.

        What follows the last end of a line is no line.
        """
        ...


Talk: TypeAlias = Callable[[Channel], None]
"""A conversation from its begin to its end: when it returns, there is nothing more to say."""


class ProcessRunner(Protocol):
    """Runs foreign commands.

    MUST end every descendant before :meth:`run` returns, count those it had to end, and give the command exactly the
    environment, directory, input, limits and containment of the value. MUST NOT use a shell or inherit descriptors.
    Any thread may call; one command runs at a time, others wait.
    """

    @property
    def level(self) -> Level:
        """The strongest containment this runner can give: that of its offer."""
        ...

    def offer(self) -> Offer:
        """What this runner can give and what it lacks for more; found out once, by running something.

        :raises PortError: ``port.spawn``, ``port.disk``.
        """
        ...

    def run(self, command: Command, cancellation: Cancellation | None = None) -> Ended:
        """Run the command until nothing of it is left.

        :param cancellation: when set, the command is asked to end and then killed; when already set it is not started.
        :raises PortError: ``port.sandbox-level`` (demanded more than the runner can give), ``port.supervisor-lost``
            (retryable; nothing of the command is left), ``port.spawn`` (no supervisor could be started), ``port.disk``.
        :raises UsageError: ``usage.runner-closed``.
        """
        ...

    def converse(self, command: Command, talk: Talk, cancellation: Cancellation | None = None) -> Ended:
        """As :meth:`run`, for a command that is talked to; its standard input and output are sockets.

        ``talk`` is called once, in this thread, unless the command was cancelled before. When it returns, standard
        input ends; a command that has not ended ``grace_ms`` later is asked to and then killed, which is no failure of
        it: the verdict is ``exited`` or ``signaled``. What ``talk`` raises ends the command and is raised here. It MUST
        NOT use the runner.

        :param command: its ``stdin`` is empty.
        :param cancellation: when set, ``talk`` has ``grace_ms`` for a last word, then the command is ended as by
            :meth:`run`.
        :raises UsageError: also ``usage.bad-command`` when the command has an input.
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


def refuse_input(command: Command) -> None:
    """Refuse a command that is to be talked to and has an input beside that.

    :raises UsageError: ``usage.bad-command``.
    """
    if command.stdin:
        raise UsageError("usage.bad-command", "A command that is talked to has no other input.")


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
        layers=(),
    )
