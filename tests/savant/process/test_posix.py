"""Real commands under the real supervisor: what they get, what bounds them, and that nothing of them is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec import structs

from savant.contracts.errors import PortError, UsageError
from savant.process.port import Command, Limits
from savant.process.posix import SupervisedRunner

ROOMY = Limits(wall_ms=60_000, stdout_bytes=1 << 20, stderr_bytes=1 << 20)
Make = Callable[..., Command]
Alive = Callable[[int], bool]
WaitFor = Callable[[Callable[[], bool]], bool]

# Leaves its session and its parent, ignores every polite signal, writes its pid, lives on.
DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        with open(sys.argv[1] + ".new", "w") as file:
            file.write(f"{os.getpid()}\\n")
        os.rename(sys.argv[1] + ".new", sys.argv[1])
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.002)
"""


def limited(**changes: object) -> Limits:
    return structs.replace(ROOMY, **changes)  # type: ignore[arg-type]


# --- what a command gets ---------------------------------------------------------------------------------------------


def test_exit_status_and_signal_are_told_apart(runner: SupervisedRunner, shell: Make) -> None:
    """A status is a status, a signal a signal; 137 by exit is not SIGKILL."""
    ended = runner.run(shell("exit 137"))
    assert (ended.verdict, ended.exit_status, ended.signal) == ("exited", 137, None)
    ended = runner.run(shell("kill -KILL $$"))
    assert (ended.verdict, ended.exit_status, ended.signal) == ("signaled", None, signal.SIGKILL)
    assert ended.level == "S0"


def test_the_environment_is_exactly_what_was_given(runner: SupervisedRunner, tmp_path: Path) -> None:
    """Nothing of ours is inherited, nothing is added, also no odd byte is lost."""
    given = (("A", "1"), ("ODD", "b\udcffc=d\ne"))
    ended = runner.run(Command(argv=("/usr/bin/env", "-0"), cwd=tmp_path, env=given, limits=ROOMY))
    assert ended.stdout == b"A=1\0ODD=b\xffc=d\ne\0"
    assert runner.run(Command(argv=("/usr/bin/env",), cwd=tmp_path, env=(), limits=ROOMY)).stdout == b""


def test_arguments_and_directory_arrive_verbatim(runner: SupervisedRunner, tmp_path: Path, python: Make) -> None:
    """Every argument byte for byte, and the directory itself."""
    ended = runner.run(
        python("import os,sys; print(ascii(sys.argv[1:]), os.getcwd())", "a b", "$X", "", "\udcff", "\n")
    )
    assert ended.stdout.decode() == f"{['a b', '$X', '', chr(0xDCFF), chr(10)]!a} {tmp_path}\n"


def test_input_is_delivered_and_ends(runner: SupervisedRunner, shell: Make) -> None:
    """A large input arrives whole, an empty one is at its end at once, and it cannot be written to."""
    data = os.urandom(3_000_000)
    ended = runner.run(shell("cat", stdin=data, limits=limited(stdout_bytes=len(data))))
    assert ended.stdout == data
    assert runner.run(shell("cat")).stdout == b""
    assert runner.run(shell("echo x >&0")).exit_status != 0


def test_large_output_arrives_whole(runner: SupervisedRunner, python: Make) -> None:
    """Output beyond any pipe's size is complete although the program exits without flushing slowly."""
    code = "import os; [os.write(n, b'x' * 5_000_000) for n in (1, 2)]; os._exit(0)"
    ended = runner.run(python(code, limits=limited(stdout_bytes=5_000_000, stderr_bytes=5_000_000)))
    assert (ended.verdict, len(ended.stdout), len(ended.stderr)) == ("exited", 5_000_000, 5_000_000)


def test_no_descriptor_is_inherited(runner: SupervisedRunner, python: Make, tmp_path: Path) -> None:
    """The command has its three streams and nothing else, also when we have inheritable descriptors open."""
    fd = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(fd, True)
    try:
        code = "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd')))"
        for _ in range(2):
            # The fourth is the listing's own.
            assert runner.run(python(code)).stdout == b"[0, 1, 2, 3]\n"
    finally:
        os.close(fd)


def test_signals_mask_umask_and_session_are_plain(runner: SupervisedRunner, python: Make) -> None:
    """No signal is ignored or blocked, the umask is 022, there is no terminal, no core is dumped."""
    code = (
        "import os, resource\n"
        "s = dict(l.split(':', 1) for l in open('/proc/self/status'))\n"
        "print(int(s['SigBlk'], 16), os.getsid(0) == os.getpid(), oct(os.umask(0)),"
        " resource.getrlimit(resource.RLIMIT_CORE))"
    )
    assert runner.run(python(code)).stdout == b"0 True 0o22 (0, 0)\n"
    # Asked of a program that is not Python, which ignores SIGPIPE itself.
    ended = runner.run(Command(argv=("/bin/grep", "SigIgn", "/proc/self/status"), cwd=Path("/"), env=(), limits=ROOMY))
    # Signals 32 and 33 are the C library's own: nobody can set them, and they are as whoever started us left them.
    assert int(ended.stdout.split()[1], 16) & ~(0b11 << 31) == 0


# --- what bounds it --------------------------------------------------------------------------------------------------


def test_a_timeout_ends_a_daemon_in_a_session_of_its_own(
    runner: SupervisedRunner, python: Make, tmp_path: Path, alive: Alive, pid_in: Callable[[str], int]
) -> None:
    """A twice forked daemon that ignores signals is gone when the timed-out command returns, and counted."""
    code = DAEMON + "time.sleep(600)"
    ended = runner.run(python(code, str(tmp_path / "pid"), limits=limited(wall_ms=2500, grace_ms=0)))
    assert not alive(pid_in("pid"))
    assert (ended.verdict, ended.signal, ended.survivors, ended.remaining) == ("timed-out", signal.SIGKILL, 1, 0)
    assert ended.is_quiescent
    assert ended.duration_ms >= 2500
    assert "2500 ms" in ended.detail


def test_a_daemon_does_not_outlive_a_leader_that_exits(
    runner: SupervisedRunner, python: Make, tmp_path: Path, alive: Alive, pid_in: Callable[[str], int]
) -> None:
    """Success is success, but what it left behind is ended and named."""
    ended = runner.run(python(DAEMON, str(tmp_path / "pid")))
    assert not alive(pid_in("pid"))
    assert (ended.verdict, ended.exit_status, ended.survivors, ended.remaining) == ("exited", 0, 1, 0)


def test_grace_lets_a_command_clean_up(runner: SupervisedRunner, shell: Make, tmp_path: Path) -> None:
    """SIGTERM comes first; a command that obeys is still timed out, one that ignores it is killed."""
    obeys = "trap 'echo bye; exit 5' TERM; while :; do sleep 0.01; done"
    ended = runner.run(shell(obeys, limits=limited(wall_ms=300, grace_ms=30_000)))
    assert (ended.verdict, ended.exit_status, ended.stdout) == ("timed-out", 5, b"bye\n")
    ignores = "trap '' TERM; while :; do sleep 0.01; done"
    ended = runner.run(shell(ignores, limits=limited(wall_ms=100, grace_ms=100)))
    assert (ended.verdict, ended.signal) == ("timed-out", signal.SIGKILL)


def test_a_stopped_command_is_ended(runner: SupervisedRunner, shell: Make) -> None:
    """A command that stopped itself cannot sit out its deadline."""
    ended = runner.run(shell("kill -STOP $$", limits=limited(wall_ms=100, grace_ms=30_000)))
    assert (ended.verdict, ended.signal) == ("timed-out", signal.SIGTERM)


@pytest.mark.parametrize("stream", [1, 2])
def test_too_much_output_ends_a_command(stream: int, runner: SupervisedRunner, shell: Make) -> None:
    """An endless writer is killed, the first bytes are kept, and the stream is named."""
    ended = runner.run(shell(f"yes >&{stream}", limits=limited(stdout_bytes=10_000, stderr_bytes=10_000)))
    assert ended.verdict == "output-limit"
    kept, truncated = [(ended.stdout, ended.stdout_truncated), (ended.stderr, ended.stderr_truncated)][stream - 1]
    assert kept == b"y\n" * 5000
    assert truncated
    assert (ended.stdout_truncated, ended.stderr_truncated) == (stream == 1, stream == 2)
    assert ("output" if stream == 1 else "error") in ended.detail


def test_a_file_cannot_grow_beyond_its_limit(runner: SupervisedRunner, shell: Make, tmp_path: Path) -> None:
    """The kernel stops a file at the limit; one within it is written."""
    limits = limited(file_bytes=100_000)
    assert runner.run(shell("head -c 100000 /dev/zero > small", limits=limits)).exit_status == 0
    ended = runner.run(shell("exec head -c 100001 /dev/zero > big", limits=limits))
    assert (ended.verdict, ended.signal) == ("signaled", signal.SIGXFSZ)
    assert (tmp_path / "big").stat().st_size == 100_000


def test_memory_is_bounded(runner: SupervisedRunner, python: Make) -> None:
    """An allocation beyond the limit fails inside the command; without the limit it does not."""
    code = "b = bytearray(400 << 20); print(len(b))"
    ended = runner.run(python(code, limits=limited(memory_bytes=300 << 20)))
    assert (ended.exit_status, ended.stdout) == (1, b"")
    assert b"MemoryError" in ended.stderr
    assert runner.run(python(code)).exit_status == 0


def test_processor_time_is_bounded(runner: SupervisedRunner, shell: Make) -> None:
    """A busy loop ends at its processor time, long before the wall clock."""
    ended = runner.run(shell("while :; do :; done", limits=limited(cpu_ms=1000)))
    assert (ended.verdict, ended.signal) in {("signaled", signal.SIGXCPU), ("signaled", signal.SIGKILL)}
    assert ended.cpu_ms >= 500  # the kernel samples, and a busy machine samples coarsely


def test_open_files_are_bounded(runner: SupervisedRunner, python: Make) -> None:
    """Opening beyond the limit fails inside the command."""
    code = "import os\nfor _ in range(20): os.dup(0)"
    assert runner.run(python(code, limits=limited(open_files=12))).exit_status == 1
    assert runner.run(python(code, limits=limited(open_files=64))).exit_status == 0


def test_processes_are_bounded(runner: SupervisedRunner, shell: Make, as_root: bool) -> None:
    """The kernel refuses more processes; for root, whom it lets, the supervisor looks and ends the command."""
    script = "for i in 1 2 3 4 5 6 7 8; do sleep 600 & done; "
    ended = runner.run(shell(script + "sleep 600", limits=limited(processes=4)))
    if as_root:
        assert (ended.verdict, ended.signal, ended.detail) == ("signaled", signal.SIGKILL, "ran more than 4 processes")
    else:
        assert (ended.verdict, ended.detail) == ("exited", "")
        assert ended.exit_status != 0
    assert ended.remaining == 0
    assert runner.run(shell(script + "exit 0", limits=limited(processes=40))).is_success


def test_many_children_are_counted_and_ended(runner: SupervisedRunner, shell: Make) -> None:
    """Every background child that was alive counts once, in whatever session it is."""
    ended = runner.run(
        shell("for i in 1 2 3 4 5 6 7 8 9 10; do sleep 600 & setsid sleep 601 & done; sleep 0.3; exit 3")
    )
    assert (ended.verdict, ended.exit_status, ended.survivors, ended.remaining) == ("exited", 3, 20, 0)
    assert runner.run(shell("exit 0")).survivors == 0


def test_a_chain_that_keeps_forking_is_ended(runner: SupervisedRunner, python: Make) -> None:
    """A process that is replaced by its child all the time cannot run away from the sweep."""
    code = "import os, time\nif os.fork() == 0:\n    while True:\n        if os.fork(): os._exit(0)\n"
    ended = runner.run(python(code))
    assert ended.verdict == "exited"
    assert ended.is_quiescent


def test_a_process_whose_first_thread_ended_is_no_zombie(
    runner: SupervisedRunner, python: Make, alive: Alive, tmp_path: Path
) -> None:
    """A survivor that looks like a zombie but has running threads is seen, counted and ended."""
    code = (
        "import ctypes, os, sys, threading, time\n"
        "if os.fork() == 0:\n"
        "    threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "    ctypes.CDLL(None).syscall(60, 0)\n"
        "time.sleep(0.3)\n"
    )
    if os.uname().machine != "x86_64":
        pytest.skip("the system call number is that of x86_64")
    ended = runner.run(python(code))
    assert (ended.verdict, ended.exit_status, ended.survivors, ended.remaining) == ("exited", 0, 1, 0)


def test_a_held_output_does_not_hold_us(runner: SupervisedRunner, shell: Make) -> None:
    """A child that keeps standard output open delays nothing; what the leader wrote is there."""
    ended = runner.run(shell("echo done; sleep 600 & exit 0"))
    assert (ended.verdict, ended.stdout, ended.survivors) == ("exited", b"done\n", 1)
    assert ended.duration_ms < 60_000


# --- what cannot be started ------------------------------------------------------------------------------------------


def test_what_cannot_start_says_at_which_step(runner: SupervisedRunner, tmp_path: Path, shell: Make) -> None:
    """A missing or unusable executable and a missing directory are values, and the next command runs."""
    (tmp_path / "plain").write_text("text")
    (tmp_path / "noshebang").write_text("text")
    (tmp_path / "noshebang").chmod(0o755)
    for argv, cwd, detail in [
        ((str(tmp_path / "none"),), tmp_path, "execute: No such file or directory"),
        ((str(tmp_path / "plain"),), tmp_path, "execute: Permission denied"),
        ((str(tmp_path / "noshebang"),), tmp_path, "execute: Exec format error"),
        (("/bin/true",), tmp_path / "none", "working directory: No such file or directory"),
        (("/bin/true", "x" * 3_000_000), tmp_path, "execute: Argument list too long"),
    ]:
        ended = runner.run(Command(argv=argv, cwd=cwd, env=(), limits=ROOMY))
        assert (ended.verdict, ended.detail) == ("spawn-error", detail)
        assert (ended.exit_status, ended.signal, ended.remaining) == (None, None, 0)
    assert runner.run(shell("exit 0")).is_success


# --- cancellation and threads ----------------------------------------------------------------------------------------


def test_cancelling_from_another_thread_ends_the_command(
    runner: SupervisedRunner,
    python: Make,
    tmp_path: Path,
    cancel: threading.Event,
    alive: Alive,
    pid_in: Callable[[str], int],
) -> None:
    """The command and its daemon end, and the verdict is cancelled."""

    def when_running() -> None:
        pid_in("pid")
        cancel.set()

    canceller = threading.Thread(target=when_running)
    canceller.start()
    ended = runner.run(python(DAEMON + "time.sleep(600)", str(tmp_path / "pid")), cancel)
    canceller.join()
    assert (ended.verdict, ended.survivors, ended.remaining) == ("cancelled", 1, 0)
    assert not alive(pid_in("pid"))


def test_threads_take_turns(runner: SupervisedRunner, shell: Make) -> None:
    """Commands of many threads all run, each with its own result."""
    with ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(lambda n: runner.run(shell(f"echo {n}; exit {n}")), range(24)))
    assert [(ended.exit_status, ended.stdout) for ended in ends] == [(n, f"{n}\n".encode()) for n in range(24)]


def test_waiting_for_a_turn_can_be_cancelled(
    runner: SupervisedRunner, shell: Make, cancel: threading.Event, pid_in: Callable[[str], int]
) -> None:
    """A caller that waits for another one's command gives up when cancelled, and starts nothing."""
    first = type(cancel)()
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(runner.run, shell("echo $$ > n; mv n first; sleep 600"), first)
        pid_in("first")
        waiting = pool.submit(runner.run, shell("touch second"), cancel)
        cancel.set()
        assert waiting.result(30).verdict == "cancelled"
        first.set()
        assert running.result(30).verdict == "cancelled"


def test_the_thread_that_started_the_supervisor_may_end(runner: SupervisedRunner, shell: Make) -> None:
    """The supervisor depends on the process, not on the thread whose command came first."""
    thread = threading.Thread(target=lambda: runner.run(shell("exit 0")))
    thread.start()
    thread.join()
    session = runner._session
    for _ in range(3):
        assert runner.run(shell("exit 0")).is_success
    assert runner._session is session


def test_closing_ends_a_running_command(
    runner: SupervisedRunner, shell: Make, alive: Alive, pid_in: Callable[[str], int]
) -> None:
    """Whoever waits for the command gets a typed error, and the command is gone."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, shell("echo $$ > n; mv n pid; sleep 600"))
        pid = pid_in("pid")
        runner.close()
        assert not alive(pid)
        with pytest.raises(PortError) as caught:
            running.result(30)
    assert caught.value.code == "port.supervisor-lost"
    with pytest.raises(UsageError):
        runner.run(shell("exit 0"))


def test_an_interrupt_ends_the_command(
    runner: SupervisedRunner, shell: Make, alive: Alive, pid_in: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the caller is interrupted while it waits, nothing keeps running and the runner stays usable."""

    class Interrupting:
        def is_set(self) -> bool:
            if (pid_file.exists()) and pid_file.read_text().endswith("\n"):
                raise KeyboardInterrupt
            return False

    pid_file = shell("").cwd / "pid"
    with pytest.raises(KeyboardInterrupt):
        runner.run(shell("echo $$ > n; mv n pid; sleep 600"), Interrupting())  # type: ignore[arg-type]
    assert not alive(pid_in("pid"))
    assert runner.run(shell("exit 0")).is_success


# --- the supervisor itself -------------------------------------------------------------------------------------------


def test_it_leaves_no_zombie_file_or_descriptor(runner: SupervisedRunner, shell: Make, tmp_path: Path) -> None:
    """After commands of every kind, the supervisor has no child and we have what we had."""
    runner.run(shell("exit 0"))
    before = len(list(Path("/proc/self/fd").iterdir()))
    guardian = runner._session.process.pid  # type: ignore[union-attr]
    supervisor = int(Path(f"/proc/{guardian}/task/{guardian}/children").read_text())
    fds = len(list(Path(f"/proc/{supervisor}/fd").iterdir()))
    for script in ("exit 1", "sleep 600 & (setsid sleep 600 &) ; exit 0", "kill -9 $$", "sleep 0.01 & exit 0"):
        runner.run(shell(script))
    runner.run(structs.replace(shell(""), argv=("/none",)))
    assert Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text() == ""
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert len(list(Path(f"/proc/{supervisor}/fd").iterdir())) == fds
    assert list((tmp_path / "scratch").iterdir()) == []
    runner.close()
    assert not Path(f"/proc/{supervisor}").exists()


@pytest.mark.parametrize("victim", ["supervisor", "guardian"])
def test_a_killed_supervisor_takes_everything_with_it(
    victim: str, runner: SupervisedRunner, python: Make, tmp_path: Path, alive: Alive, pid_in: Callable[[str], int]
) -> None:
    """Either half may be killed: the daemon is gone, the error is typed and retryable, the next command runs."""
    runner.run(python("pass"))
    guardian = runner._session.process.pid  # type: ignore[union-attr]
    supervisor = int(Path(f"/proc/{guardian}/task/{guardian}/children").read_text())
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, python(DAEMON + "time.sleep(600)", str(tmp_path / "pid")))
        pid = pid_in("pid")
        os.kill(supervisor if victim == "supervisor" else guardian, signal.SIGKILL)
        with pytest.raises(PortError) as caught:
            running.result(30)
    assert (caught.value.code, caught.value.retryable) == ("port.supervisor-lost", True)
    assert not alive(pid)
    assert runner.run(python("pass")).is_success


MAIN = """
import sys
from pathlib import Path
from savant.process.port import Command, Limits
from savant.process.posix import SupervisedRunner
limits = Limits(wall_ms=600_000, stdout_bytes=1, stderr_bytes=1)
runner = SupervisedRunner(Path(sys.argv[1]) / "scratch")
command = (sys.executable, "-I", "-S", "-c", sys.argv[2], sys.argv[1] + "/daemon")
runner.run(Command(argv=command, cwd=Path(sys.argv[1]), env=(), limits=limits))
"""


@pytest.mark.crash
def test_killing_the_main_process_ends_everything(
    tmp_path: Path, alive: Alive, wait_for: WaitFor, pid_in: Callable[[str], int]
) -> None:
    """After kill -9 of the main process, its supervisor, the command and the daemon all end."""
    code = DAEMON + f"open({str(tmp_path / 'n')!r}, 'w').write(f'{{os.getpid()}}\\n')\n"
    code += f"os.rename({str(tmp_path / 'n')!r}, {str(tmp_path / 'leader')!r})\ntime.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", MAIN, str(tmp_path), code], cwd=Path(__file__).parents[3]) as main:
        daemon, leader = pid_in("daemon"), pid_in("leader")
        guardian = int(Path(f"/proc/{main.pid}/task/{main.pid}/children").read_text())
        supervisor = int(Path(f"/proc/{guardian}/task/{guardian}/children").read_text())
        everything = (daemon, leader, guardian, supervisor)
        assert all(map(alive, everything))
        main.kill()
        main.wait()
        assert wait_for(lambda: not any(map(alive, everything)))


def test_polite_signals_do_not_end_the_supervisor(runner: SupervisedRunner, shell: Make) -> None:
    """A signal to every process of a session does not leave commands unsupervised."""
    runner.run(shell("exit 0"))
    session = runner._session
    assert session is not None
    os.killpg(session.process.pid, signal.SIGTERM)
    os.killpg(session.process.pid, signal.SIGINT)
    assert runner.run(shell("exit 0")).is_success
    assert runner._session is session


def test_a_fork_of_us_has_a_supervisor_of_its_own(runner: SupervisedRunner, shell: Make) -> None:
    """A forked child neither talks to nor ends its parent's supervisor."""
    runner.run(shell("exit 0"))
    session = runner._session
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if runner.run(shell("exit 0")).is_success and runner._session is not session else 2
            runner.close()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert runner.run(shell("exit 0")).is_success
    assert runner._session is session


def test_without_a_subreaper_it_ends_the_group_and_says_so(
    tmp_path: Path, shell: Make, alive: Alive, pid_in: Callable[[str], int], cancel: threading.Event
) -> None:
    """The degraded form ends the process group, bounds time and output, and never claims more."""
    with SupervisedRunner(tmp_path / "scratch", containment="group") as runner:
        ended = runner.run(shell("sleep 600 & echo $! > n; mv n pid; echo hi; exit 4"))
        assert (ended.verdict, ended.exit_status, ended.stdout, ended.survivors) == ("exited", 4, b"hi\n", 1)
        assert "process group only" in ended.detail
        assert ended.is_quiescent
        assert not alive(pid_in("pid"))
        assert runner.run(shell("sleep 600", limits=limited(wall_ms=100))).verdict == "timed-out"
        assert runner.run(shell("yes", limits=limited(stdout_bytes=100))).verdict == "output-limit"
        assert runner.run(shell("kill -9 $$")).signal == signal.SIGKILL
        assert runner.run(structs.replace(shell(""), argv=("/none",))).verdict == "spawn-error"


ORDINARY_USER = """
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.executable = sys.argv[2]
limits = Limits(wall_ms=1500, stdout_bytes=99, stderr_bytes=99, grace_ms=0, processes=4)
env = (("PATH", "/usr/bin:/bin"),)
place = Path(sys.argv[1])
with SupervisedRunner(place / "scratch") as runner:
    for script in sys.argv[3:]:
        command = ("/bin/sh", "-c", script)
        ended = runner.run(Command(argv=command, cwd=place, env=env, limits=limits))
        print(ended.verdict, ended.remaining, ended.survivors, ended.detail)
"""


def test_as_an_ordinary_user(tmp_path: Path, as_root: bool) -> None:
    """Without root too, a daemon is ended after a timeout; and the limit on processes is enforced."""
    python = "/usr/bin/python3"
    if not as_root:
        pytest.skip("every other test here runs as an ordinary user already")
    if subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], check=False).returncode:
        pytest.skip("there is no interpreter that an ordinary user may run")
    place = Path(f"/tmp/savant-test-process-{os.getpid()}")  # an ordinary user cannot reach pytest's folder
    place.mkdir()
    try:
        os.chown(place, 65534, 65534)
        # Imported before the change of user, who may not be allowed to read this interpreter's library.
        imports = "from pathlib import Path\nfrom savant.process.port import Command, Limits\n"
        imports += "from savant.process.posix import SupervisedRunner\nimport selectors, signal, encodings.idna\n"
        scripts = ["(setsid sleep 600 &) ; exec sleep 600", "for i in 1 2 3 4 5 6 7 8; do sleep 600 & done; exit 0"]
        done = subprocess.run(
            [sys.executable, "-c", imports + ORDINARY_USER, str(place), python, *scripts],
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        first, second = done.stdout.splitlines()
        assert first == "timed-out 0 1 still running after 1500 ms"
        verdict, remaining, survivors, *_ = second.split(" ")
        assert (verdict, remaining) == ("exited", "0")
        assert int(survivors) <= 4
    finally:
        shutil.rmtree(place)


def test_a_supervisor_that_cannot_start_is_typed(tmp_path: Path, shell: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """No interpreter, or one that fails, is a port error and leaves no descriptor."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    with SupervisedRunner(tmp_path / "scratch") as runner:
        for interpreter in ("/none", "/bin/false"):
            monkeypatch.setattr(sys, "executable", interpreter)
            with pytest.raises(PortError) as caught:
                runner.run(shell("exit 0"))
            assert caught.value.code == "port.spawn"
        assert len(list(Path("/proc/self/fd").iterdir())) == before
        monkeypatch.undo()
        assert runner.run(shell("exit 0")).is_success


def test_a_warm_supervisor_serves_the_first_command(tmp_path: Path, shell: Make) -> None:
    """It may be started by a thread that ends, and is one supervisor however often it is asked for."""
    with SupervisedRunner(tmp_path / "scratch") as runner:
        starter = threading.Thread(target=runner.warm)
        starter.start()
        starter.join()
        session = runner._session
        runner.warm()
        assert session is not None
        assert runner._session is session
        assert runner.run(shell("exit 3")).exit_status == 3
        assert runner._session is session


def test_a_runner_that_was_only_warmed_closes_in_order(tmp_path: Path) -> None:
    """The supervisor, ready or not, ends by itself; a closed runner starts none."""
    runner = SupervisedRunner(tmp_path / "scratch")
    runner.warm()
    session = runner._session
    assert session is not None
    runner.close()
    assert session.process.returncode == 0
    runner.warm()
    assert runner._session is None


def test_a_scratch_that_cannot_be_written_is_typed(tmp_path: Path, shell: Make) -> None:
    """A file where the scratch folder should be is a disk error, before anything is started."""
    (tmp_path / "file").write_bytes(b"")
    with SupervisedRunner(tmp_path / "file" / "scratch") as runner:
        with pytest.raises(PortError) as caught:
            runner.run(shell("exit 0"))
        assert caught.value.code == "port.disk"
        assert runner._session is None
