"""The supervisor's frames, and what it sees of processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from savant.process import posix, supervisor


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text()) | st.none(), max_size=5))
def test_frames_arrive_as_they_were_sent(frame: dict[str, Any]) -> None:
    """Any JSON object goes through, and the stream ends cleanly."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        supervisor.send_frame(ours, frame)
        supervisor.send_frame(ours, {"op": "x"})
        assert supervisor.receive_frame(theirs) == (frame, ())
        assert supervisor.receive_frame(theirs) == ({"op": "x"}, ())
        ours.close()
        assert supervisor.receive_frame(theirs) == (None, ())


def test_descriptors_travel_and_close_on_execution() -> None:
    """Three descriptors arrive with their frame, as new ones that no command inherits."""
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    with ours, theirs:
        supervisor.send_frame(ours, {"op": "run"}, (writing, writing, writing))
        frame, fds = supervisor.receive_frame(theirs)
    assert frame == {"op": "run"}
    assert len(set(fds)) == 3
    assert not any(os.get_inheritable(fd) for fd in fds)
    os.write(fds[2], b"x")
    assert os.read(reading, 1) == b"x"
    for fd in (*fds, reading, writing):
        os.close(fd)


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\5", b"\0\0\0\5{}", b"\0\0\0\0"])
def test_a_cut_frame_is_the_end(sent: bytes) -> None:
    """A peer that dies in the midst of a frame is a peer that is gone."""
    ours, theirs = socket.socketpair()
    with theirs:
        ours.sendall(sent)
        ours.close()
        assert supervisor.receive_frame(theirs)[0] is None


def test_a_frame_too_large_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit holds before a byte goes out."""
    monkeypatch.setattr(supervisor, "MAX_FRAME_BYTES", 10)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with pytest.raises(ValueError, match="too large"):
            supervisor.send_frame(ours, {"op": "x" * 10})
        ours.close()
        assert theirs.recv(1) == b""


def test_descendants_are_found_with_and_without_the_children_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick way and the way for kernels without it agree."""
    with subprocess.Popen(
        ["/bin/sh", "-c", "sleep 600 & echo; wait"], stdout=subprocess.PIPE, start_new_session=True
    ) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()
        quick = supervisor.descendants(os.getpid())
        real, exists = supervisor._read, os.path.exists

        def without(path: str) -> bytes:
            if path.endswith("/children"):
                raise FileNotFoundError(path)
            return real(path)

        monkeypatch.setattr(supervisor, "_read", without)
        monkeypatch.setattr(os.path, "exists", lambda path: exists(path) and not str(path).endswith("/children"))
        slow = supervisor.descendants(os.getpid())
        os.killpg(shell.pid, 9)
    assert {process.pid for process in quick} >= {shell.pid}
    assert [process for process in slow if process.group == shell.pid] == [
        process for process in quick if process.group == shell.pid
    ]
    assert len([process for process in quick if process.group == shell.pid]) == 2
    assert supervisor.look_up(shell.pid) is None


def test_it_is_for_the_standard_library_alone() -> None:
    """The script runs isolated and without site packages, and refuses a main process that is not its parent."""
    folder = Path(supervisor.__file__).parent
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ended = subprocess.run(
            [sys.executable, "-I", "-S", "-c", posix.START, str(folder), str(theirs.fileno()), "1", "auto"],
            pass_fds=[theirs.fileno()],
            env={},
            cwd="/",
            capture_output=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (1, b"")
    source = Path(supervisor.__file__).read_text()
    assert "savant" not in [word for line in source.splitlines() if "import " in line for word in line.split()]


UNKILLABLE = """
import importlib.util, os, signal, sys, time
spec = importlib.util.spec_from_file_location("supervisor", sys.argv[1])
supervisor = importlib.util.module_from_spec(spec)
sys.modules["supervisor"] = supervisor
spec.loader.exec_module(supervisor)
supervisor.SWEEP_S = 0.2
supervisor._prctl(36, 1)

def start(script):
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.execv("/bin/sh", ["/bin/sh", "-c", script])
    return pid

family = supervisor.Family(contained=True)
reading, writing = os.pipe()
os.set_inheritable(writing, True)
leader = start(f"setsid sh -c 'echo $$ >&{writing}; exec sleep 600' & read line < /dev/null; exit 0")
stubborn = int(os.read(reading, 100))
kill, kill_group = supervisor._kill, supervisor._kill_group
supervisor._kill = lambda pid, number: None if pid == stubborn else kill(pid, number)
supervisor._kill_group = lambda group, number: None if group == stubborn else kill_group(group, number)
os.waitid(os.P_PID, leader, os.WEXITED | os.WNOWAIT)
print(family.end(leader))
family.reset()
leader = start("exit 0")
os.waitid(os.P_PID, leader, os.WEXITED | os.WNOWAIT)
print(family.end(leader), leader in family.statuses)
supervisor._kill, supervisor._kill_group = kill, kill_group
family.unkillable.clear()
print(family.end(leader))
"""


def test_what_cannot_be_ended_is_reported_once() -> None:
    """A descendant that no signal ends remains in its own command's count, and is not held against the next one."""
    ended = subprocess.run(
        [sys.executable, "-c", UNKILLABLE, supervisor.__file__], capture_output=True, text=True, check=False
    )
    assert ended.stderr == ""
    assert ended.stdout.splitlines() == ["(1, 1)", "(0, 0) True", "(1, 0)"]
