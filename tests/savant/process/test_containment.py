"""What contained commands can do and cannot, at every level that this system has: the table of docs/sandbox.md.

The column of S0 is the positive control: what is stopped above it does get through there. A level that this system
does not have is skipped with the reason.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec
import pytest
from msgspec import structs

from savant.contracts.effects import Cancellation
from savant.process import posix
from savant.process.host import look
from savant.process.plan import Plan
from savant.process.port import Command, Ended, Level, Limits, Missing, Mount, Sandbox
from savant.process.posix import SupervisedRunner
from savant.process.sandbox import TMP_BYTES, bubblewrap_options, plan
from savant.process.seccomp import program

PROBING: Final = Path(__file__).with_name("probing.py")
PYTHON: Final = os.path.realpath(sys.executable)
ROOMY: Final = Limits(wall_ms=60_000, stdout_bytes=1 << 20, stderr_bytes=1 << 20)
LEVELS: Final[tuple[Level, ...]] = ("S0", "S1", "S2", "S3")

Row: TypeAlias = tuple[object, object, object, object]

ANY: Final = object()
"""A result that depends on the machine."""

_SIZE = TMP_BYTES

TABLE: Final[MappingProxyType[str, Row]] = MappingProxyType(
    {
        "write a new file outside": ("yes", "EACCES", "EROFS", "ENOENT"),
        "change a file outside": ("yes", "EACCES", "EROFS", "ENOENT"),
        "empty a file outside": ("yes", "EACCES", "EROFS", "ENOENT"),
        "remove a file outside": ("yes", "EACCES", "EROFS", "ENOENT"),
        # Landlock does not handle modes, owners and times.
        "change the mode of a file outside": ("yes", "yes", "EROFS", "ENOENT"),
        "read a secret": ("yes", "EACCES", "EACCES", "ENOENT"),
        "list the home": ("yes", "EACCES", "EACCES", "ENOENT"),
        "read what is mounted to be read": ("read", "read", "read", "read"),
        "change what is mounted to be read": ("yes", "EACCES", "EROFS", "EROFS"),
        "write where it may": ("yes", "yes", "yes", "yes"),
        "write below the root": ("yes", "EACCES", "EROFS", "EROFS"),
        "write into dev": ("yes", "EACCES", "EROFS", "EROFS"),
        "use the common devices": (r"4b'\x00\x00'", r"4b'\x00\x00'", r"4b'\x00\x00'", r"4b'\x00\x00'"),
        "have a bounded tmp": (ANY, ANY, ANY, _SIZE),
        "have a bounded shm": (ANY, ANY, ANY, _SIZE),
        "reach the host by tcp": ("yes", "EPERM", "ECONNREFUSED", "ECONNREFUSED"),
        "reach the host by udp": ("yes", "EPERM", "ECONNREFUSED", "ECONNREFUSED"),
        "talk to itself": ("yes", "EPERM", "yes", "yes"),
        "reach a socket of the host": ("yes", "EPERM", "EPERM", "ENOENT"),
        "reach an abstract socket of the host": ("yes", "EPERM", "EPERM", "ECONNREFUSED"),
        "make a pair of sockets": ("yes", "yes", "yes", "yes"),
        "make an odd socket": (ANY, "EPERM", "EPERM", "EPERM"),
        "make a netfilter socket": ("yes", "EPERM", "EPERM", "EPERM"),
        "ask for routes": ("yes", "EPERM", "yes", "yes"),
        "mount something": ("yes", "EPERM", "EPERM", "EPERM"),
        "make a user namespace": ("yes", "EPERM", "EPERM", "EPERM"),
        "clone into a user namespace": ("yes", "EPERM", "EPERM", "EPERM"),
        "clone by the new call": ("EINVAL", "ENOSYS", "ENOSYS", "ENOSYS"),
        "enter a namespace": ("EBADF", "EPERM", "EPERM", "EPERM"),
        "load a program into the kernel": ("EINVAL", "EPERM", "EPERM", "EPERM"),
        "use the ring": ("EFAULT", "EPERM", "EPERM", "EPERM"),
        "use keys": ("ENOTSUP", "EPERM", "EPERM", "EPERM"),
        "trace its parent": ("yes", "EPERM", "EPERM", "EPERM"),
        "read its parents memory": ("yes", "EPERM", "EPERM", "EPERM"),
        "push input into a terminal": ("ENOTTY", "EPERM", "EPERM", "EPERM"),
        "push input with high bits set": ("ENOTTY", "EPERM", "EPERM", "EPERM"),
        "use another architecture": (ANY, "signal 31", "signal 31", "signal 31"),
        "use the second table": (ANY, "ENOSYS", "ENOSYS", "ENOSYS"),
        "hold capabilities": ("yes", "no", "no", "no"),
        "gain privileges": ("yes", "no", "no", "no"),
        "change a setting of the kernel": ("yes", "EACCES", "EROFS", "EROFS"),
        "limit its parent": ("yes", "EPERM", "EPERM", "EPERM"),
        "limit itself": ("yes", "yes", "yes", "yes"),
        "signal the supervisor": ("yes", "EPERM", "ESRCH", "ESRCH"),
        "trace the supervisor": ("yes", "EPERM", "EPERM", "EPERM"),
        "read the supervisors environment": ("yes", "EACCES", "ENOENT", "ENOENT"),
        # At S2 the first process has the supervisor's memory, and capabilities that the command lacks; at S3 it is
        # bubblewrap, contained like the command.
        "read the memory of the first process": ("yes", "EACCES", "EACCES", ANY),
        "see other processes": ("yes", "yes", "no", "no"),
        "see shared memory of the host": ("yes", "yes", "no", "no"),
        "have a terminal session of its own": ("yes", "yes", "yes", "yes"),
        "know the name of the host": ("yes", "yes", "no", "no"),
        # Bubblewrap sets PWD to the working directory; LC_CTYPE is the interpreter's own doing.
        "read its environment": (["A", "LC_CTYPE"], ["A", "LC_CTYPE"], ["A", "LC_CTYPE"], ["A", "LC_CTYPE", "PWD"]),
        "see descriptors": ([], [], [], []),
        "be somebody": (ANY, ANY, [65534, 65534], [65534, 65534]),
    }
)
"""Every attempt, and what comes of it without network at S0, S1, S2 and S3."""

WITH_NETWORK: Final[MappingProxyType[str, Row]] = MappingProxyType(
    {
        "reach the host by tcp": ("yes", "yes", "yes", "yes"),
        "reach the host by udp": ("yes", "yes", "yes", "yes"),
        "talk to itself": ("yes", "yes", "yes", "yes"),
        "ask for routes": ("yes", "yes", "yes", "yes"),
        # Behind a socket of the host may be a service that starts programs.
        "reach a socket of the host": ("yes", "EPERM", "EPERM", "EPERM"),
        "reach an abstract socket of the host": ("yes", "EPERM", "EPERM", "EPERM"),
    }
)
"""What the network changes; everything else is as in :data:`TABLE`."""

NEEDS_MIGHT: Final = frozenset(
    {
        "write below the root",
        "write into dev",
        "mount something",
        "make a user namespace",
        "clone into a user namespace",
        "load a program into the kernel",
        "use the ring",
        "use keys",
        "trace its parent",
        "read its parents memory",
        "trace the supervisor",
        "hold capabilities",
        "change a setting of the kernel",
    }
)
"""What an ordinary user or the policy of a system may be kept from at S0 too."""


def is_mighty() -> bool:
    """Whether we are root with every capability, so that only containment can stop a command."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return os.geteuid() == 0 and int(status["CapEff"], 16) & 1 << 21 != 0


# --- where the attempts happen ---------------------------------------------------------------------------------------


class Place(msgspec.Struct):
    """A runner, some folders, and services of the host that a command could reach."""

    path: Path
    runner: SupervisedRunner
    given: dict[str, Any]

    def sandbox(self, level: Level, *, network: bool = False) -> Sandbox:
        folders = (Path(sys.base_prefix), self.path / "readable")
        writable = Mount(self.path / "writable", self.path / "writable", writable=True)
        return Sandbox(level=level, network=network, mounts=(*(Mount(path, path) for path in folders), writable))

    def command(self, level: Level, code: str, *arguments: str, **changes: Any) -> Command:
        made = Command(
            argv=(PYTHON, "-I", "-S", "-c", code, *arguments),
            cwd=self.path / "writable",
            env=(("A", "b"),),
            limits=ROOMY,
            sandbox=self.sandbox(level),
        )
        return structs.replace(made, **changes)

    def need(self, level: Level) -> None:
        tried = self.runner._tried(level)
        if isinstance(tried, Missing):
            pytest.skip(f"{level}: {tried.why}")

    def attempts(self, level: Level, *only: str, network: bool = False) -> dict[str, object]:
        """What came of every attempt, or only of some."""
        self.reset()
        given = self.given | ({"first": 1} if level in ("S2", "S3") else {}) | {"only": only}
        command = self.command(
            level,
            PROBING.read_text(),
            sandbox=self.sandbox(level, network=network),
            stdin=json.dumps(given).encode(),
        )
        ended = self.runner.run(command)
        assert ended.is_success, ended
        found: dict[str, object] = json.loads(ended.stdout)
        return found

    def reset(self) -> None:
        for name, text in (("secret", "the secret"), ("file", "x"), ("victim", "")):
            (self.path / "outside" / name).write_text(text)
        (self.path / "readable" / "file").write_text("read")
        shutil.rmtree(self.path / "writable")
        (self.path / "writable").mkdir()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    path = tmp_path_factory.mktemp("containment")
    for name in ("outside", "readable", "writable"):
        (path / name).mkdir()
    abstract = f"\0savant-test-{uuid.uuid4().hex}"
    libc = ctypes.CDLL(None, use_errno=True)
    shm = libc.shmget(0, 4096, 0o600 | 0o1000)
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX) as nameless,
        SupervisedRunner(path / "scratch") as runner,
    ):
        udp.bind(("127.0.0.1", 0))
        # Relative, because the path of a socket must be short.
        before = Path.cwd()
        os.chdir(path / "outside")
        named.bind("sock")
        os.chdir(before)
        nameless.bind(abstract)
        named.listen()
        nameless.listen()
        echo = threading.Thread(target=_answer, args=(udp,))
        echo.start()
        runner.run(Command(argv=("/bin/true",), cwd=Path("/"), env=(), limits=ROOMY))
        guardian, supervisor = processes_of(runner)
        given = {
            "outside": str(path / "outside"),
            "readable": str(path / "readable"),
            "writable": str(path / "writable"),
            "tcp": tcp.getsockname()[1],
            "udp": udp.getsockname()[1],
            "unix": str(path / "outside" / "sock"),
            "abstract": abstract,
            "supervisor": supervisor,
            "first": guardian,
            "host": os.uname().nodename,
            "shm": shm,
        }
        try:
            yield Place(path, runner, given)
        finally:
            libc.shmctl(shm, 0, None)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stopper:
                stopper.sendto(b"stop", udp.getsockname())
            echo.join()


def _answer(udp: socket.socket) -> None:
    while True:
        data, sender = udp.recvfrom(10)
        if data == b"stop":
            return
        udp.sendto(b"pong", sender)


def processes_of(runner: SupervisedRunner) -> tuple[int, int]:
    """The guardian and the supervisor."""
    assert runner._session is not None
    guardian = runner._session.process.pid
    return guardian, int(Path(f"/proc/{guardian}/task/{guardian}/children").read_text())


FOUND: dict[tuple[Level, bool], dict[str, object]] = {}


def attempted(place: Place, level: Level, *, network: bool) -> dict[str, object]:
    """The attempts at a level, made once."""
    place.need(level)
    if (level, network) not in FOUND:
        FOUND[level, network] = place.attempts(level, network=network)
    return FOUND[level, network]


# --- the table -------------------------------------------------------------------------------------------------------


def is_as_stated(name: str, level: Level, found: object, *, network: bool = False) -> bool:
    """Whether the table states this result."""
    row = WITH_NETWORK.get(name, TABLE[name]) if network else TABLE[name]
    stated = row[LEVELS.index(level)]
    if name in NEEDS_MIGHT and not is_mighty():
        # The user may be stopped before the containment is.
        return level == "S0" or found in (stated, "EACCES", "EPERM")
    if level == "S1" and name == "signal the supervisor" and look().landlock_abi < 6:
        return found == "yes"
    return stated is ANY or found == stated


@pytest.mark.parametrize("network", [False, True], ids=["alone", "network"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_attempts_holds(name: str, level: Level, network: bool, place: Place) -> None:
    """Each attempt gets through or fails as stated, at every level, with the network and without."""
    found = attempted(place, level, network=network)[name]
    assert is_as_stated(name, level, found, network=network), found


def test_every_attempt_is_in_the_table(place: Place) -> None:
    """No attempt is made that the table says nothing about, and none is stated that is not made."""
    assert set(attempted(place, "S0", network=False)) == set(TABLE)
    assert set(WITH_NETWORK) < set(TABLE)
    assert set(NEEDS_MIGHT) < set(TABLE)


def test_what_it_wrote_is_ours(place: Place) -> None:
    """A file that a command wrote belongs to the caller at every level, who can change and remove it."""
    for level in LEVELS:
        if isinstance(place.runner._tried(level), Missing):
            continue
        code = "import os; os.mkdir('d'); open('d/f', 'w').write('x')"
        assert place.runner.run(place.command(level, code)).is_success
        folder = place.path / "writable" / "d"
        for path in (folder, folder / "f"):
            found = path.lstat()
            assert (found.st_uid, found.st_gid) == (os.geteuid(), os.getegid())
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755
        (folder / "f").unlink()
        folder.rmdir()


# --- without the control ---------------------------------------------------------------------------------------------


def _without_landlock(made: Plan) -> Plan:
    assert made.contain is not None
    everything = {**made.contain["landlock"], "scoped": 0, "rules": [["/", made.contain["landlock"]["handled"]]]}
    return structs.replace(made, contain={**made.contain, "landlock": everything})


def _without_scope(made: Plan) -> Plan:
    assert made.contain is not None
    return structs.replace(made, contain={**made.contain, "landlock": {**made.contain["landlock"], "scoped": 0}})


def _without_filter(made: Plan) -> Plan:
    # A filter that stops one number that does not exist.
    nothing = program(look().machine, families=())[-8:]
    if made.contain is not None:
        return structs.replace(made, contain={**made.contain, "seccomp": nothing.hex()})
    return structs.replace(made, blobs=(made.blobs[0], nothing))


def _without_namespace(flag: int) -> Callable[[Plan], Plan]:
    def doctor(made: Plan) -> Plan:
        assert made.contain is not None
        fewer = {**made.contain, "namespaces": made.contain["namespaces"] & ~flag}
        return structs.replace(made, contain={**fewer, "loopback": made.contain["loopback"] and flag != 0x40000000})

    return doctor


def _with_the_outside_mounted(made: Plan) -> Plan:
    """Landlock does not grant it, but its mount can be written."""
    assert made.contain is not None
    outside = str(Path(made.cwd).parent / "outside")
    return structs.replace(made, contain={**made.contain, "mounts": [[outside, True]]})


def _without_option(*gone: str) -> Callable[[Plan], Plan]:
    """Take a run of options away wherever it stands."""

    def doctor(made: Plan) -> Plan:
        options = made.blobs[0].decode().split("\0")
        at = next(n for n in range(len(options)) if tuple(options[n : n + len(gone)]) == gone)
        return structs.replace(
            made, blobs=("\0".join(options[:at] + options[at + len(gone) :]).encode(), *made.blobs[1:])
        )

    return doctor


def _both(*doctors: Callable[[Plan], Plan]) -> Callable[[Plan], Plan]:
    def doctor(made: Plan) -> Plan:
        for one in doctors:
            made = one(made)
        return made

    return doctor


CONTROLS: Final[tuple[tuple[str, Level, Callable[[Plan], Plan], str, object], ...]] = (
    ("landlock", "S1", _without_landlock, "read a secret", "yes"),
    ("landlock", "S1", _without_landlock, "write a new file outside", "yes"),
    ("landlock", "S2", _without_landlock, "read a secret", "yes"),
    ("landlock scope", "S1", _without_scope, "signal the supervisor", "yes"),
    ("seccomp", "S1", _without_filter, "reach the host by udp", "yes"),
    ("seccomp", "S1", _without_filter, "reach a socket of the host", "yes"),
    ("seccomp", "S1", _without_filter, "use the ring", "EFAULT"),
    ("seccomp", "S1", _without_filter, "clone by the new call", "EINVAL"),
    ("seccomp", "S1", _without_filter, "push input with high bits set", "ENOTTY"),
    ("seccomp", "S1", _without_filter, "limit its parent", "yes"),
    ("seccomp", "S2", _without_filter, "reach a socket of the host", "yes"),
    ("seccomp", "S3", _without_filter, "use the ring", "EFAULT"),
    ("seccomp", "S3", _without_filter, "push input with high bits set", "ENOTTY"),
    ("network namespace", "S2", _without_namespace(0x40000000), "reach the host by tcp", "yes"),
    ("ipc namespace", "S2", _without_namespace(0x08000000), "see shared memory of the host", "yes"),
    ("read-only mounts", "S2", _with_the_outside_mounted, "change the mode of a file outside", "yes"),
    ("no network", "S3", _without_option("--unshare-net"), "reach the host by tcp", "yes"),
    ("ipc namespace", "S3", _without_option("--unshare-ipc"), "see shared memory of the host", "yes"),
    (
        "user namespaces off",
        "S3",
        _both(_without_filter, _without_option("--disable-userns")),
        "make a user namespace",
        "yes",
    ),
    ("user namespaces off", "S3", _without_filter, "make a user namespace", "ENOSPC"),
    ("read-only root", "S3", _without_option("--remount-ro", "/"), "write below the root", "yes"),
    ("read-only /dev", "S3", _without_option("--remount-ro", "/dev"), "write into dev", "yes"),
    ("own session", "S3", _without_option("--new-session"), "have a terminal session of its own", "no"),
    ("host name", "S3", _without_option("--hostname", "localhost"), "know the name of the host", "yes"),
    ("no identity", "S3", _without_option("--uid", "65534"), "be somebody", [os.geteuid(), 65534]),
)
"""A control, a level, how to take it away, the attempt that it stops, and what comes of that without it."""


@pytest.mark.parametrize(("control", "level", "doctor", "name", "without"), CONTROLS)
def test_without_the_control_the_attempt_gets_through(
    control: str,
    level: Level,
    doctor: Callable[[Plan], Plan],
    name: str,
    without: object,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is this control that stops the attempt: taken away, the same attempt ends otherwise."""
    place.need(level)
    if control == "landlock scope" and look().landlock_abi < 6:
        pytest.skip("this kernel has no scopes")
    if (name in NEEDS_MIGHT and not is_mighty()) or (control == "no identity" and os.geteuid() == 65534):
        pytest.skip("this user is kept from it anyway")
    monkeypatch.setattr(posix, "_planned", lambda command: doctor(plan(command, look())))
    found = place.attempts(level, name)[name]
    assert found == without
    monkeypatch.undo()
    assert is_as_stated(name, level, attempted(place, level, network=False)[name])
    assert not is_as_stated(name, level, found)


_AS_ROOT_INSIDE = _both(_without_option("--uid", "65534"), _without_option("--gid", "65534"))


@pytest.mark.skipif(not is_mighty(), reason="only root has what these take away")
@pytest.mark.parametrize(
    ("doctor", "name", "without"),
    [
        (_without_option("--remount-ro", "/proc"), "change a setting of the kernel", "yes"),
        (_both(_AS_ROOT_INSIDE, _without_option("--cap-drop", "ALL")), "hold capabilities", "yes"),
        (_AS_ROOT_INSIDE, "hold capabilities", "no"),
        (_without_option("--cap-drop", "ALL"), "hold capabilities", "no"),
    ],
)
def test_root_stays_outside(
    doctor: Callable[[Plan], Plan], name: str, without: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command of root's has neither its capabilities, for which two controls stand, nor the settings that it owns."""
    place.need("S3")
    monkeypatch.setattr(posix, "_planned", lambda command: doctor(plan(command, look())))
    assert place.attempts("S3", name)[name] == without


# --- processes -------------------------------------------------------------------------------------------------------


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest, place: Place) -> Level:
    found: Level = request.param
    place.need(found)
    return found


def with_token(token: str) -> list[int]:
    """Every process of this host that has the token among its arguments and is no zombie."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if token.encode() in (folder / "cmdline").read_bytes().split(b"\0")[-3:]:
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


DAEMON = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("up", "w").close()
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists("up"):
    time.sleep(0.002)
"""


def contained(place: Place, level: Level, code: str, **limits: object) -> tuple[Ended, str]:
    """Run code with a token among its arguments."""
    token = uuid.uuid4().hex
    (place.path / "writable" / "up").unlink(missing_ok=True)
    bounds = structs.replace(ROOMY, **limits)
    return place.runner.run(place.command(level, code, token, limits=bounds)), token


def test_a_daemon_ends_with_its_command(place: Place, level: Level) -> None:
    """A process that left its session and its parent is gone when the command that exited has returned."""
    ended, token = contained(place, level, DAEMON)
    assert (ended.verdict, ended.exit_status, ended.remaining) == ("exited", 0, 0)
    assert ended.survivors == (0 if level == "S3" else 1)
    assert with_token(token) == []


def cancelled_when_up(place: Place, level: Level, code: str, cancel: Cancellation, grace_ms: int) -> tuple[Ended, str]:
    """Run code until it has made the file ``up``, and cancel it then."""

    def watch() -> None:
        while not (place.path / "writable" / "up").exists():
            time.sleep(0.002)
        cancel.set()

    (place.path / "writable" / "up").unlink(missing_ok=True)
    token = uuid.uuid4().hex
    watcher = threading.Thread(target=watch)
    watcher.start()
    bounds = structs.replace(ROOMY, grace_ms=grace_ms)
    ended = place.runner.run(place.command(level, code, token, limits=bounds), cancel)
    watcher.join()
    return ended, token


def test_ignoring_requests_does_not_help(place: Place, level: Level, cancel: Cancellation) -> None:
    """A command that ignores SIGTERM, and its daemon, are killed after the grace."""
    ended, token = cancelled_when_up(place, level, DAEMON + "time.sleep(600)", cancel, grace_ms=100)
    assert (ended.verdict, ended.signal, ended.survivors, ended.remaining) == ("cancelled", signal.SIGKILL, 1, 0)
    assert with_token(token) == []


POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
open("up", "w").close()
time.sleep(600)
"""


def test_a_request_reaches_the_command(place: Place, level: Level, cancel: Cancellation) -> None:
    """SIGTERM comes to the command and not to what contains it: it may clean up, and its status is told."""
    ended, _ = cancelled_when_up(place, level, POLITE, cancel, grace_ms=30_000)
    assert (ended.verdict, ended.exit_status, ended.survivors, ended.remaining) == ("cancelled", 5, 0, 0)


def test_a_held_output_holds_nobody(place: Place, level: Level) -> None:
    """A child that keeps standard output open delays nothing."""
    code = "import os, time\nprint('done', flush=True)\nif os.fork() == 0:\n    time.sleep(600)\n    os._exit(0)"
    ended, token = contained(place, level, code)
    assert (ended.verdict, ended.stdout) == ("exited", b"done\n")
    assert with_token(token) == []


def test_a_fork_bomb_is_bounded(place: Place, level: Level) -> None:
    """Processes that fork without end are refused or ended, all of them."""
    code = "import os, time\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        time.sleep(600)"
    ended, token = contained(place, level, code, processes=32, wall_ms=2000, grace_ms=0)
    if os.geteuid() == 0:
        assert (ended.verdict, ended.signal) == ("signaled", signal.SIGKILL)
        assert "ran more than 32 processes" in ended.detail
    else:
        assert ended.verdict == "timed-out"  # how many there can be is counted by the next test
    assert ended.remaining == 0
    assert with_token(token) == []


COUNTING = """
import os, time
made = 0
try:
    while made < 99:
        if os.fork() == 0:
            time.sleep(600)
        made += 1
except OSError:
    print(made)
"""


def test_the_kernel_counts_processes_for_an_ordinary_user(place: Place) -> None:
    """The limit that the kernel keeps is the same at every level, wrappers left out."""
    if os.geteuid() == 0:
        pytest.skip("the kernel has no such limit for root")
    for level in LEVELS:
        if not isinstance(place.runner._tried(level), Missing):
            ended, _ = contained(place, level, COUNTING, processes=8)
            assert (level, ended.stdout) == (level, b"7\n")


def test_a_disk_cannot_be_filled_by_one_file(place: Place, level: Level) -> None:
    """The kernel stops a file at its limit."""
    code = "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nopen('big', 'wb').write(bytes(200_001))"
    ended, _ = contained(place, level, code, file_bytes=200_000)
    assert (ended.verdict, ended.signal) == ("signaled", signal.SIGXFSZ)
    assert (place.path / "writable" / "big").stat().st_size == 200_000
    (place.path / "writable" / "big").unlink()


MAIN = """
import sys
from pathlib import Path
import msgspec
from savant.process.port import Command
from savant.process.posix import SupervisedRunner
with SupervisedRunner(Path(sys.argv[1])) as runner:
    runner.run(msgspec.json.decode(sys.stdin.buffer.read(), type=Command, dec_hook=lambda kind, text: kind(text)))
"""


@pytest.mark.parametrize("victims", ["main", "main and supervisors"])
def test_nothing_outlives_a_killed_owner(
    victims: str, place: Place, level: Level, wait_for: Callable[[Callable[[], bool]], bool]
) -> None:
    """SIGKILL to whoever owns the runner ends everything; with namespaces also if both supervisors go with it."""
    if victims != "main" and level in ("S0", "S1"):
        pytest.skip(f"{level}: only a namespace ends with its first process; docs/sandbox.md says so")
    token = uuid.uuid4().hex
    up = place.path / "writable" / "up"
    up.unlink(missing_ok=True)
    command = place.command(level, DAEMON + "time.sleep(600)", token)
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, str(place.path / "scratch")], cwd=root, stdin=subprocess.PIPE
    ) as main:
        assert main.stdin is not None
        main.stdin.write(msgspec.json.encode(command, enc_hook=str))
        main.stdin.close()
        assert wait_for(up.exists)
        assert len(with_token(token)) >= 2
        condemned = [main.pid]
        if victims != "main":
            guardian = int(Path(f"/proc/{main.pid}/task/{main.pid}/children").read_text())
            condemned += [guardian, int(Path(f"/proc/{guardian}/task/{guardian}/children").read_text())]
            for pid in condemned:
                os.kill(pid, signal.SIGSTOP)  # so that none of them can act on the death of another
        for pid in condemned:
            os.kill(pid, signal.SIGKILL)
        main.wait()
    assert wait_for(lambda: with_token(token) == [])


@pytest.mark.parametrize(("control", "level"), [("--die-with-parent", "S3")])
def test_without_dying_with_its_parent_it_survives(
    control: str,
    level: Level,
    place: Place,
    wait_for: Callable[[Callable[[], bool]], bool],
) -> None:
    """It is this option that ends the namespace with the supervisors: without it the command lives on."""
    place.need(level)
    token = uuid.uuid4().hex
    command = place.command(level, DAEMON + "time.sleep(600)", token)
    made = plan(command, look())
    options = [word for word in made.blobs[0].decode().split("\0") if word != control]
    up = place.path / "writable" / "up"
    up.unlink(missing_ok=True)
    with subprocess.Popen([str(made.argv[0]), *options[:-1], "--", *command.argv]) as wrapper:
        try:
            assert wait_for(up.exists)
            wrapper.kill()
            wrapper.wait()
            time.sleep(0.2)
            assert len(with_token(token)) >= 2
        finally:
            for pid in with_token(token):
                with suppress(ProcessLookupError):  # they end together
                    os.kill(pid, signal.SIGKILL)


# --- what cannot be started ------------------------------------------------------------------------------------------


def test_what_cannot_start_says_at_which_step(place: Place, level: Level) -> None:
    """A missing program, a missing folder and a missing mount are values in the same words at every level."""
    place.reset()
    here = place.path / "writable"
    plain = place.path / "readable" / "file"
    plain.chmod(0o644)
    good = place.command(level, "")
    lost = Mount(Path("/nonexistent"), Path("/nonexistent"))
    ways: list[tuple[Command, str]] = [
        (structs.replace(good, argv=(str(here / "none"),)), "execute: No such file or directory"),
        (structs.replace(good, argv=(str(plain),)), "execute: Permission denied"),
        (structs.replace(good, cwd=here / "none"), "working directory: No such file or directory"),
    ]
    if level != "S0":
        ways.append((structs.replace(good, sandbox=structs.replace(good.sandbox, mounts=(lost,))), "sandbox: "))
    for command, detail in ways:
        ended = place.runner.run(command)
        assert (ended.verdict, ended.exit_status, ended.signal, ended.stderr) == ("spawn-error", None, None, b"")
        assert ended.detail.startswith(detail)
        assert ended.layers == ()
    assert place.runner.run(good).is_success


def test_status_and_signal_are_told_apart(place: Place, level: Level) -> None:
    """A status is a status and a signal a signal; bubblewrap alone tells a signal as 128 and its number."""
    for code, exit_status, number in (
        ("raise SystemExit(7)", 7, None),
        ("import os; os.kill(os.getpid(), 9)", None, 9),
        ("import os; os.abort()", None, 6),
        ("raise SystemExit(255)", 255, None),
        ("raise SystemExit(137)", None if level == "S3" else 137, 9 if level == "S3" else None),
    ):
        ended = place.runner.run(place.command(level, code))
        assert (ended.exit_status, ended.signal) == (exit_status, number)
        assert ended.verdict == ("exited" if number is None else "signaled")
        assert ended.level == level


def test_limits_hold_inside(place: Place, level: Level) -> None:
    """Memory, processor time, open files and output are bounded through the wrappers."""
    memory = place.runner.run(
        place.command(level, "bytearray(400 << 20)", limits=structs.replace(ROOMY, memory_bytes=300 << 20))
    )
    assert memory.exit_status == 1
    assert b"MemoryError" in memory.stderr
    if level == "S3":  # elsewhere it is the limit of S0, which takes a second to show
        busy = place.runner.run(place.command(level, "while True: pass", limits=structs.replace(ROOMY, cpu_ms=1000)))
        assert (busy.verdict, busy.signal in (signal.SIGXCPU, signal.SIGKILL)) == ("signaled", True)
    opened = place.runner.run(
        place.command(level, "import os\nfor _ in range(99): os.dup(0)", limits=structs.replace(ROOMY, open_files=64))
    )
    assert opened.exit_status == 1
    flood = place.runner.run(
        place.command(level, "while True: print('x' * 999)", limits=structs.replace(ROOMY, stdout_bytes=10_000))
    )
    assert (flood.verdict, len(flood.stdout), flood.remaining) == ("output-limit", 10_000, 0)


def test_a_mount_lies_over_an_earlier_one(place: Place) -> None:
    """What may be read only can lie in what may be written, at the levels that have mounts of their own."""
    outer = place.path / "writable"
    inner = outer / "inner"
    inner.mkdir(exist_ok=True)
    code = "open('free', 'w').close()\nopen('inner/kept', 'w').close()"
    for level in ("S2", "S3"):
        if isinstance(place.runner._tried(level), Missing):
            continue
        mounts = (*place.sandbox(level).mounts, Mount(inner, inner))
        command = place.command(level, code, sandbox=Sandbox(level=level, network=False, mounts=mounts))
        ended = place.runner.run(command)
        assert b"Read-only file system: 'inner/kept'" in ended.stderr
        assert (outer / "free").exists()
        (outer / "free").unlink()
    inner.rmdir()


def test_a_moved_mount_is_seen_at_its_target(place: Place) -> None:
    """At S3 a folder is seen at another path, and not at its own; what the command writes is in the folder."""
    place.need("S3")
    source = place.path / "writable"
    mounts = (*place.sandbox("S3").mounts[:2], Mount(source, Path("/checkout/of/somebody"), writable=True))
    command = place.command(
        "S3",
        "import os, sys; open('f', 'w').write(os.getcwd()); print(os.path.exists(sys.argv[1]))",
        str(source),
        cwd=Path("/checkout/of/somebody"),
        sandbox=Sandbox(level="S3", network=False, mounts=mounts),
    )
    ended = place.runner.run(command)
    assert (ended.is_success, ended.stdout) == (True, b"False\n")
    assert (source / "f").read_text() == "/checkout/of/somebody"
    (source / "f").unlink()


def test_nothing_of_a_command_shows_outside(place: Place) -> None:
    """Neither a variable nor a mount is among the arguments of a process that others can list."""
    place.need("S3")
    command = structs.replace(place.command("S3", ""), env=(("TOKEN", "confidential"),))
    made = plan(command, look())
    assert not any("confidential" in str(word) or "--bind" in str(word) for word in made.argv)
    assert made.env == ()
    assert "confidential" in bubblewrap_options(command, look())


# --- the page --------------------------------------------------------------------------------------------------------


def rendered() -> str:
    """The table as docs/sandbox.md shows it."""

    def cell(stated: object) -> str:
        if stated is ANY:
            return "depends"
        if isinstance(stated, list):
            return " ".join(map(str, stated)) or "none"
        return {"yes": "*yes*", "no": "no", _SIZE: "1 GiB", "read": "*yes*", r"4b'\x00\x00'": "*yes*"}.get(
            stated,
            str(stated),
        )

    rows = [f"| {name} | {' | '.join(map(cell, row))} |" for name, row in TABLE.items()]
    return "\n".join(("| Attempt | S0 | S1 | S2 | S3 |", "|---|---|---|---|---|", *rows))


def test_the_page_shows_the_table() -> None:
    """docs/sandbox.md states exactly what the tests state."""
    page = (Path(__file__).parents[3] / "docs" / "sandbox.md").read_text()
    assert page.partition("<!-- attempts -->\n")[2].partition("\n<!-- /attempts -->")[0] == rendered()
