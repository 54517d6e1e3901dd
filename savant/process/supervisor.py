"""The supervisor: a stand-alone, single-threaded script that starts, watches and ends foreign commands.

Started by :mod:`savant.process.posix` in an isolated interpreter, with a stream socket; standard library only.

It is two processes. The **guardian** is started by the main process and forks the **supervisor**, which serves the
socket and is the parent of every command. Both are subreapers, so a descendant that leaves its session or loses its
parent becomes a child of the supervisor and is found. Each watches the other and the main process:

- the main process dies, or closes the socket: the supervisor ends everything and exits; the guardian sees to it;
- the supervisor dies: its orphans become the guardian's, which ends them; the leader dies with it (PDEATHSIG);
- the guardian dies: the supervisor ends everything and exits.

Main process and guardian are watched by pidfd and not by PDEATHSIG, which would fire when the *thread* ends that
started us. Only a process that kills both at once escapes; namespaces (sandbox levels above S0) close that.

Frames are 4 bytes of big-endian length and that much JSON. In: ``run`` (with three descriptors: standard input, output
and error), ``cancel``, and ``end`` with why the command is not to go on (in a conversation, where the main process
reads what it sends). Out: ``ready`` once, and ``ended`` for each ``run``. End of file means: end everything.

Without Linux (no subreaper, pidfd or /proc) it degrades to ending the process group, and says so in ``detail``.
"""

# ruff: noqa: PTH110, PTH116, PTH208 (pathlib would be the costliest import of this script)

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple, NoReturn

MAX_FRAME_BYTES: Final = 64 << 20
MAX_FDS: Final = 6
"""What comes with a command: its streams, and what its wrappers read and report."""
TICK_MS: Final = 20
"""How often output sizes are looked at."""
SWEEP_S: Final = 5.0
"""How long killed descendants may take to be gone."""
LAST_WORDS_S: Final = 2 * SWEEP_S
"""How long the guardian lets the supervisor clean up by itself once the main process is dead."""

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_HEADER: Final = struct.Struct(">I")
_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024


_IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
"""What we ignore: only the main process decides when this ends; it and the terminal have other ways than signals."""


# --- frames ----------------------------------------------------------------------------------------------------------


def send_frame(sock: socket.socket, frame: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """Send one frame; descriptors travel with its header."""
    data = json.dumps(frame).encode("ascii")
    if len(data) > MAX_FRAME_BYTES:
        raise ValueError("frame too large")
    header = _HEADER.pack(len(data))
    if fds:
        sent = socket.send_fds(sock, [header], list(fds))
        header = header[sent:]
    sock.sendall(header + data)


def receive_frame(sock: socket.socket) -> tuple[dict[str, Any] | None, tuple[int, ...]]:
    """The next frame and its descriptors; None at the end of the stream, also in the midst of a frame."""
    fds: list[int] = []
    header = b""
    try:
        while len(header) < _HEADER.size:
            got, more, _, _ = socket.recv_fds(sock, _HEADER.size - len(header), MAX_FDS)
            fds.extend(more)
            for fd in more:
                os.set_inheritable(fd, False)
            if not got:
                return None, tuple(fds)
            header += got
        size = _HEADER.unpack(header)[0]
        data = bytearray()
        while len(data) < size <= MAX_FRAME_BYTES:
            chunk = sock.recv(min(size - len(data), 1 << 20))
            if not chunk:
                return None, tuple(fds)
            data += chunk
        return (json.loads(data) if data else None), tuple(fds)
    except ConnectionError:
        return None, tuple(fds)


# --- the system ------------------------------------------------------------------------------------------------------


@cache
def _prctl_function() -> Callable[[int, int, int, int, int], int] | None:
    if sys.platform != "linux":
        return None
    import ctypes

    function: Callable[[int, int, int, int, int], int] = ctypes.CDLL(None).prctl
    return function


def _prctl(option: int, value: int) -> bool:
    function = _prctl_function()
    return function is not None and function(option, value, 0, 0, 0) == 0


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _kill_group(group: int, number: int) -> bool:
    """Signal a group; whether it had a member that could be signalled."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _is_group_alive(group: int) -> bool:
    """Whether a group has a member that runs; where /proc tells, a zombie that nobody reaps is none."""
    if not _kill_group(group, 0):
        return False
    if not os.path.exists("/proc/self/stat"):
        return True
    return any(process.group == group and not process.ended for process in map(look_up, _all_pids()) if process)


class Process(NamedTuple):
    """A live process; a number alone may be somebody else's later."""

    pid: int
    group: int
    started: int
    ended: bool
    parent: int


def look_up(pid: int) -> Process | None:
    """What /proc says about a process (proc(5), ``stat``); None if it is gone."""
    try:
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except OSError:
        return None
    if len(fields) < 20:
        return None
    # A process whose first thread has ended looks like a zombie while its other threads run.
    ended = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
    return Process(pid, int(fields[2]), int(fields[19]), ended, int(fields[1]))


def _read(path: str) -> bytes:
    """A file of /proc, whole."""
    fd = os.open(path, os.O_RDONLY)
    try:
        data = bytearray()
        while chunk := os.read(fd, 65536):
            data += chunk
        return bytes(data)
    finally:
        os.close(fd)


def descendants(root: int) -> list[Process]:
    """Every process below a process, as far as /proc shows them at this moment."""
    found: list[Process] = []
    waiting = [root]
    while waiting:
        for pid in _children(waiting.pop()):
            process = look_up(pid)
            if process is not None:
                found.append(process)
                if not process.ended:
                    waiting.append(pid)
    return found


def line_to(leader: int, wrappers: int) -> list[int]:
    """The leader, its first child and so on, down to the command as far as it is there."""
    line = [leader]
    while len(line) <= wrappers and (children := _children(line[-1])):
        line.append(children[0])
    return line


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            children.extend(map(int, _read(f"/proc/{pid}/task/{task}/children").split()))
    except OSError:
        # Gone, or a kernel without CONFIG_PROC_CHILDREN.
        if os.path.exists(f"/proc/{pid}") and not os.path.exists("/proc/thread-self/children"):
            return [
                process.pid for process in map(look_up, _all_pids()) if process is not None and process.parent == pid
            ]
    return children


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _tasks_of_user() -> int:
    """Processes and threads that this user runs, which is what RLIMIT_NPROC counts."""
    tasks = 0
    for pid in _all_pids():
        try:
            if os.stat(f"/proc/{pid}").st_uid == os.getuid():
                tasks += len(os.listdir(f"/proc/{pid}/task"))
        except OSError:
            continue
    return tasks


# --- ending ----------------------------------------------------------------------------------------------------------


class Family:
    """The children of this process and all below them: reaping, ending, and what they used."""

    def __init__(self, contained: bool) -> None:
        self.contained = contained
        self.unkillable: set[tuple[int, int]] = set()
        self.statuses: dict[int, int] = {}
        self.cpu_s = 0.0
        self.rss = 0

    def reset(self) -> None:
        """Forget the last command."""
        self.statuses.clear()
        self.cpu_s, self.rss = 0.0, 0

    def reap(self) -> bool:
        """Take the status of every child that has ended; whether no child is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            self.statuses[pid] = status
            self.cpu_s += usage.ru_utime + usage.ru_stime
            self.rss = max(self.rss, usage.ru_maxrss * _RSS_UNIT)

    def end(self, leader: int, wrappers: int = 0) -> tuple[int, int]:
        """Kill everything that is left and wait until it is gone.

        :returns: how many but the command and its wrappers were alive, and how many could not be ended.
        """
        if not self.contained:
            return self._end_group(leader)
        own = os.getpgrp()
        line = line_to(leader, wrappers)
        survivors: set[tuple[int, int]] = set()
        give_up = time.monotonic() + SWEEP_S
        pause = 0.0005
        while True:
            alive = {(p.pid, p.started): p for p in descendants(os.getpid()) if not p.ended}
            ours = {key: process for key, process in alive.items() if key not in self.unkillable}
            survivors.update(key for key in ours if key[0] not in line)
            # A group is killed as one, which also takes those that fork faster than we can look.
            for group in {process.group for process in ours.values()} - {own}:
                _kill_group(group, signal.SIGKILL)
            for process in ours.values():
                _kill(process.pid, signal.SIGKILL)
            if self.reap():
                return len(survivors), 0
            if not ours and leader in self.statuses and self.unkillable.issuperset(alive):
                # Only those of an earlier command are left, which was reported then.
                return len(survivors), 0
            if time.monotonic() >= give_up:
                left = {(p.pid, p.started) for p in descendants(os.getpid()) if not p.ended} - self.unkillable
                self.unkillable |= left
                return len(survivors), len(left)
            time.sleep(pause)
            pause = min(pause * 2, 0.02)

    def _end_group(self, leader: int) -> tuple[int, int]:
        """Kill the leader and its group, which is all that can be found without a subreaper."""
        had_ended = self.reap() or leader in self.statuses
        survivors = int(_kill_group(leader, signal.SIGKILL) and had_ended)
        give_up = time.monotonic() + SWEEP_S
        while True:
            reaped = self.reap()
            gone = not _is_group_alive(leader)
            if (reaped and gone) or time.monotonic() >= give_up:
                return survivors, int(not gone)
            time.sleep(0.005)


# --- one command -----------------------------------------------------------------------------------------------------


class SpawnError(Exception):
    """The command could not be started: at which step and why."""

    def __init__(self, step: str, reason: str) -> None:
        super().__init__(step, reason)
        self.step = step
        self.reason = reason


def spawn(order: dict[str, Any], streams: tuple[int, ...]) -> int:
    """Fork and execute; the pid once the new program runs.

    :raises SpawnError: with the step that failed in the child.
    """
    limits = _resource_limits(order["limits"], order["wrappers"])
    contain = _containing() if order["contain"] is not None else None
    reading, status = os.pipe()
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(order, streams, status, limits, supervisor, contain)
    os.close(status)
    failure = bytearray()
    while chunk := os.read(reading, 4096):
        failure += chunk
    os.close(reading)
    if failure:
        os.waitpid(pid, 0)
        raise SpawnError(*json.loads(failure))
    return pid


def _containing() -> Callable[[dict[str, Any], str, int], None]:
    """The function that contains a process from inside; loaded before the fork, and only where it is needed."""
    from importlib import import_module

    function: Callable[[dict[str, Any], str, int], None] = import_module("contain").contain
    return function


def _resource_limits(limits: dict[str, Any], wrappers: int) -> list[tuple[int, int]]:
    wanted = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_CPU, None if limits["cpu_ms"] is None else max(1, -(-limits["cpu_ms"] // 1000))),
        (resource.RLIMIT_AS, limits["memory_bytes"]),
    ]
    if limits["processes"] is not None and sys.platform == "linux":
        wanted.insert(0, (resource.RLIMIT_NPROC, _tasks_of_user() + wrappers + limits["processes"]))
    return [(kind, value) for kind, value in wanted if value is not None]


def _become(
    order: dict[str, Any],
    streams: tuple[int, ...],
    status: int,
    limits: list[tuple[int, int]],
    supervisor: int,
    contain: Callable[[dict[str, Any], str, int], None] | None,
) -> NoReturn:
    """In the child: turn into the command, or say through ``status`` why not."""
    step = "prepare"
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(127)
        for number in _IGNORED:
            signal.signal(number, signal.SIG_DFL)
        for target, source in enumerate(streams[:3]):
            os.dup2(source, target)  # every other descriptor of ours closes on execution, but those named in argv
        argv = [os.fsencode(word) if isinstance(word, str) else _inherited(streams[word]) for word in order["argv"]]
        environment = dict(order["env"])
        step = "working directory"
        os.chdir(order["cwd"])
        step = "limits"
        for kind, value in limits:
            _, hard = resource.getrlimit(kind)
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (bound, bound))
        step = "sandbox"
        if contain is not None:
            contain(order["contain"], order["cwd"], streams[-1])
        step = "execute"
        os.execve(argv[0], argv, environment)  # noqa: S606 (the argv is the command, no shell)
    except OSError as error:
        os.write(status, json.dumps([step, error.strerror or str(error)]).encode())
    except BaseException as error:  # noqa: BLE001 (nothing may leave the child but its status)
        os.write(status, json.dumps([step, repr(error)]).encode())
    os._exit(127)


def _inherited(fd: int) -> bytes:
    """The number of a descriptor that the program we become shall have."""
    os.set_inheritable(fd, True)
    return str(fd).encode()


class Watch:
    """One running command: when it must end, and why it was ended."""

    def __init__(
        self,
        leader: int,
        limits: dict[str, Any],
        outputs: tuple[int, int],
        pidfd: int | None,
        family: Family,
        begun: float,
        wrappers: int = 0,
    ) -> None:
        self.leader, self.limits, self.outputs, self.wrappers = leader, limits, outputs, wrappers
        self.pidfd, self.family, self.begun = pidfd, family, begun
        self.reason, self.detail, self.kill_at = "", "", 0.0
        self.ending = self.has_asked = False

    def has_ended(self) -> bool:
        """Whether the leader has ended; where there is a pidfd it is still a zombie then, so its group is its own."""
        if self.pidfd is None:
            self.family.reap()
            return self.leader in self.family.statuses
        return bool(select.select([self.pidfd], [], [], 0)[0])

    def excess(self) -> str:
        """Which output is larger than its limit, in words; empty if none is."""
        for fd, limit, words in zip(self.outputs, ("stdout_bytes", "stderr_bytes"), ("output", "error"), strict=True):
            if os.fstat(fd).st_size > self.limits[limit]:
                return f"wrote more than {self.limits[limit]} bytes on standard {words}"
        return ""

    def has_too_many_processes(self) -> bool:
        """Whether more processes run than may; looked at for root only, for whom the kernel has no such limit."""
        limit = self.limits["processes"]
        if limit is None or not self.family.contained or os.geteuid() != 0:
            return False
        alive = sum(not process.ended for process in descendants(os.getpid()))
        return bool(alive - self.wrappers > limit)

    def ask(self, reason: str, detail: str) -> None:
        """Ask the command to end, once, and set when it is killed.

        :param reason: the verdict; empty leaves it to the status, for a command that did nothing wrong.
        """
        if self.ending:
            return
        self.ending, self.reason, self.detail = True, reason, detail
        self.kill_at = time.monotonic()
        if self.limits["grace_ms"]:
            self.kill_at += self.limits["grace_ms"] / 1000
            self._pass_on()

    def _pass_on(self) -> None:
        """Ask the command itself, once it is there: a wrapper that we ask ends everything at once."""
        group, self.has_asked = self.leader, True
        if self.wrappers:
            line = line_to(self.leader, self.wrappers)
            command = look_up(line[-1])
            group, self.has_asked = (0 if command is None else command.group), len(line) > self.wrappers
        if group:
            _kill_group(group, signal.SIGTERM)
            _kill_group(group, signal.SIGCONT)

    def step(self) -> float | None:
        """Look once; the seconds until the next look at the latest, or None when it is time to sweep."""
        if self.has_ended():
            return None
        now = time.monotonic()
        deadline = self.begun + self.limits["wall_ms"] / 1000
        if not self.ending and now >= deadline:
            self.ask("timed-out", f"still running after {self.limits['wall_ms']} ms")
        if excess := self.excess():
            if not self.reason:
                self.reason, self.detail = "output-limit", excess
            return None
        if self.has_too_many_processes():
            self.detail = f"ran more than {self.limits['processes']} processes"
            return None
        until = self.kill_at if self.ending else deadline
        if self.ending and now >= until:
            return None
        if self.ending and not self.has_asked and self.limits["grace_ms"]:
            self._pass_on()
        tick_ms = TICK_MS if self.pidfd is not None else TICK_MS / 4
        return min(max(until - now, 0.0), tick_ms / 1000)


class Supervisor:
    """Serves one socket until its end: one command after the other."""

    def __init__(self, sock: socket.socket, guardian: int | None, contained: bool) -> None:
        self.sock = sock
        self.family = Family(contained)
        self.lifelines = [sock.fileno()] + ([] if guardian is None else [guardian])
        self.guardian = guardian

    def serve(self) -> None:
        """Run commands until the other end or the guardian is gone."""
        send_frame(self.sock, {"op": "ready"})
        while True:
            ready = _readable(self.lifelines, None)
            if self.guardian in ready:
                return
            frame, fds = receive_frame(self.sock)
            if frame is None:
                return
            ended = self.run(frame, fds) if frame["op"] == "run" else {}
            for fd in fds:
                os.close(fd)
            if ended is None:
                return
            if ended:
                try:
                    send_frame(self.sock, ended)
                except ConnectionError:
                    return

    def run(self, order: dict[str, Any], streams: tuple[int, ...]) -> dict[str, Any] | None:
        """One command from start to the last descendant; None if nobody is left who would want to know."""
        self.family.reset()
        begun = time.monotonic()
        try:
            leader = spawn(order, streams)
        except SpawnError as error:
            return self._ended(order, begun, "spawn-error", None, (0, 0), f"{error.step}: {error.reason}")
        _let_go_of_sockets(streams[:2])
        pidfd = _open_process(leader) if self.family.contained else None
        watch = Watch(leader, order["limits"], (streams[1], streams[2]), pidfd, self.family, begun, order["wrappers"])
        try:
            abandoned = self._watch(watch)
            counts = self.family.end(leader, order["wrappers"])
            if abandoned:
                return None
            if not watch.reason and (excess := watch.excess()):
                watch.reason, watch.detail = "output-limit", excess
            status = self.family.statuses.get(leader)
            return self._ended(order, begun, watch.reason, status, counts, watch.detail)
        finally:
            if pidfd is not None:
                os.close(pidfd)

    def _watch(self, watch: Watch) -> bool:
        """Wait until it is time to sweep; whether the main process or the guardian is gone."""
        fds = self.lifelines + ([] if watch.pidfd is None else [watch.pidfd])
        while (pause := watch.step()) is not None:
            ready = _readable(fds, pause)
            if self.guardian in ready:
                return True
            if self.sock.fileno() in ready:
                frame, _ = receive_frame(self.sock)
                if frame is None:
                    return True
                watch.ask(frame.get("reason", "cancelled"), frame.get("detail", "cancelled while it was running"))
        return False

    def _ended(
        self,
        order: dict[str, Any],
        begun: float,
        reason: str,
        status: int | None,
        counts: tuple[int, int],
        detail: str,
    ) -> dict[str, Any]:
        code = None if status is None else os.waitstatus_to_exitcode(status)
        notes = [detail] if detail else []
        if not self.family.contained:
            notes.append("contained by its process group only: this system has no subreaper")
        if order["limits"]["processes"] is not None and not self.family.contained:
            notes.append("the limit on processes is not enforced for this user")
        return {
            "op": "ended",
            "verdict": reason or ("signaled" if code is not None and code < 0 else "exited"),
            "exit_status": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "duration_ms": int((time.monotonic() - begun) * 1000),
            "cpu_ms": int(self.family.cpu_s * 1000),
            "max_rss_bytes": self.family.rss,
            "survivors": counts[0],
            "remaining": counts[1],
            "layers": self._layers(order) if reason != "spawn-error" else [],
            "detail": "; ".join(notes),
        }

    def _layers(self, order: dict[str, Any]) -> list[str]:
        return ["session", "rlimits", *(["subreaper"] if self.family.contained else []), *order["layers"]]


# --- the two processes -----------------------------------------------------------------------------------------------


def _readable(fds: list[int], timeout_s: float | None) -> set[int]:
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    # Rounded up, so that the last wait before a deadline does not turn into many of zero length.
    timeout_ms = None if timeout_s is None else int(timeout_s * 1000) + 1
    return {fd for fd, _ in poll.poll(timeout_ms)}


def _let_go_of_sockets(fds: tuple[int, ...]) -> None:
    """Leave the ends of a conversation to the command alone, so that whoever talks to it sees when it closes them."""
    for fd in fds:
        if os.fstat(fd).st_mode & 0o170000 == 0o140000:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, fd, inheritable=False)
            os.close(null)


def _open_process(pid: int) -> int | None:
    """A pidfd, readable once the process has ended; None where there are none."""
    try:
        return os.pidfd_open(pid) if sys.platform == "linux" else None
    except OSError:
        return None


def guard(supervisor: int, main: int) -> None:
    """Wait for the supervisor; end it when the main process is gone and it lingers; then end what it left."""
    watched = _open_process(supervisor)
    if watched is not None:
        if watched not in _readable([watched, main], None) and not _readable([watched], LAST_WORDS_S):
            _kill(supervisor, signal.SIGKILL)
        _readable([watched], None)
    os.waitpid(supervisor, 0)
    Family(contained=True).end(supervisor)


def _settle() -> None:
    """Make this process one whose forks can execute a command at once."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, signal.SIG_IGN if number in _IGNORED else signal.SIG_DFL)
        except (OSError, ValueError):  # reserved by the C library
            continue
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.umask(0o022)
    gc.freeze()
    gc.disable()  # a collection in the child would copy every page


def start(fd: int, main_pid: int, containment: str) -> int:
    """Be the guardian and its supervisor; the exit status."""
    sock = socket.socket(fileno=fd)
    sock.set_inheritable(False)
    _settle()
    main = _open_process(main_pid)
    contained = (
        containment == "auto"
        and main is not None
        and os.path.exists("/proc/self/stat")
        and _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    )
    if os.getppid() != main_pid:
        return 1
    if not contained or main is None:
        Supervisor(sock, None, contained=False).serve()
        return 0
    guardian = os.pidfd_open(os.getpid())
    supervisor = os.fork()
    if supervisor == 0:
        os.close(main)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        Supervisor(sock, guardian, contained=True).serve()
        return 0
    os.close(guardian)
    sock.close()
    guard(supervisor, main)
    return 0
