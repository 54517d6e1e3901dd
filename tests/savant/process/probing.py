"""What a contained command tries, as a program that runs inside: each attempt in a child of its own, results as JSON.

Standard input is a JSON object: places and numbers that the attempts need. The result of an attempt is what it returned
("yes" when it got through), the name of the error that stopped it, or the signal that ended it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
X86 = os.uname().machine == "x86_64"
GIVEN: dict[str, Any] = json.load(sys.stdin) if __name__ == "__main__" else {}

PROBES: dict[str, Callable[[], object]] = {}


def probe(function: Callable[[], object]) -> Callable[[], object]:
    PROBES[function.__name__.replace("_", " ")] = function
    return function


def call(number_x86: int, number_arm: int, *arguments: int | bytes | None) -> int:
    """A system call; raises as Python's own do."""
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = LIBC.syscall(ctypes.c_long(number_x86 if X86 else number_arm), *converted)
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


# --- files -----------------------------------------------------------------------------------------------------------


@probe
def write_a_new_file_outside() -> None:
    (Path(GIVEN["outside"]) / "new").write_text("x")


@probe
def change_a_file_outside() -> None:
    (Path(GIVEN["outside"]) / "file").open("r+").close()


@probe
def empty_a_file_outside() -> None:
    os.truncate(Path(GIVEN["outside"]) / "file", 0)


@probe
def remove_a_file_outside() -> None:
    (Path(GIVEN["outside"]) / "victim").unlink()


@probe
def change_the_mode_of_a_file_outside() -> None:
    (Path(GIVEN["outside"]) / "file").chmod(0o600)


@probe
def read_a_secret() -> str:
    return "yes" if (Path(GIVEN["outside"]) / "secret").read_text() == "the secret" else "something else"


@probe
def list_the_home() -> None:
    list(Path(GIVEN["outside"]).iterdir())


@probe
def read_what_is_mounted_to_be_read() -> str:
    return (Path(GIVEN["readable"]) / "file").read_text()


@probe
def change_what_is_mounted_to_be_read() -> None:
    (Path(GIVEN["readable"]) / "file").write_text("x")


@probe
def write_where_it_may() -> None:
    place = Path(GIVEN["writable"])
    (place / "deep").mkdir()
    (place / "new").write_text("x")
    (place / "new").rename(place / "deep" / "new")
    (place / "link").symlink_to("deep")
    (place / "deep" / "other").hardlink_to(place / "deep" / "new")
    (place / "kept").write_text("kept")
    shutil.rmtree(place / "deep")


@probe
def write_below_the_root() -> None:
    Path("/savant-probe").write_text("")
    Path("/savant-probe").unlink()


@probe
def write_into_dev() -> None:
    Path("/dev/savant-probe").write_text("")
    Path("/dev/savant-probe").unlink()


@probe
def use_the_common_devices() -> str:
    Path("/dev/null").write_text("x")
    Path("/dev/stderr").open("a").close()
    return f"{len(Path('/dev/urandom').open('rb').read(4))}{Path('/dev/zero').open('rb').read(2)!r}"


@probe
def have_a_bounded_tmp() -> int:
    found = os.statvfs(tempfile.gettempdir())
    return found.f_blocks * found.f_frsize


@probe
def have_a_bounded_shm() -> int:
    found = os.statvfs("/dev/shm")
    return found.f_blocks * found.f_frsize


# --- the network -----------------------------------------------------------------------------------------------------


@probe
def reach_the_host_by_tcp() -> None:
    socket.create_connection(("127.0.0.1", GIVEN["tcp"]), timeout=5).close()


@probe
def reach_the_host_by_udp() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", GIVEN["udp"]))
        sender.send(b"ping")
        sender.settimeout(5)
        return "yes" if sender.recv(10) == b"pong" else "something else"


@probe
def talk_to_itself() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()
    return "yes"


@probe
def reach_a_socket_of_the_host() -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(GIVEN["unix"])


@probe
def reach_an_abstract_socket_of_the_host() -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(GIVEN["abstract"])


@probe
def make_a_pair_of_sockets() -> None:
    for end in socket.socketpair():
        end.close()


@probe
def make_an_odd_socket() -> str:
    made = []
    for family in (17, 38, 40):  # packet, algorithms, virtual machines
        try:
            socket.socket(family, socket.SOCK_RAW if family == 17 else socket.SOCK_SEQPACKET).close()
            made.append(family)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EAFNOSUPPORT, errno.ESOCKTNOSUPPORT):
                made.append(family)
    return f"made {made}" if made else "EPERM"


@probe
def make_a_netfilter_socket() -> None:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12).close()


@probe
def ask_for_routes() -> None:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()


# --- the kernel ------------------------------------------------------------------------------------------------------


@probe
def mount_something() -> None:
    if LIBC.mount(b"none", b"/mnt", b"tmpfs", ctypes.c_ulong(0), None) < 0:
        raise OSError(ctypes.get_errno(), "")
    LIBC.umount(b"/mnt")


@probe
def make_a_user_namespace() -> None:
    call(272, 97, 0x10000000)


@probe
def clone_into_a_user_namespace() -> None:
    if call(56, 220, 0x10000000 | signal.SIGCHLD, None, None, None, None) == 0:
        os._exit(0)


@probe
def clone_by_the_new_call() -> str:
    try:
        call(435, 435, None, 0)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "yes"


@probe
def enter_a_namespace() -> None:
    # With a descriptor that is none, whoever may ask is told so.
    call(308, 268, -1, 0)


@probe
def load_a_program_into_the_kernel() -> None:
    call(321, 280, 99, None, 0)


@probe
def use_the_ring() -> None:
    call(425, 425, 0, None)


@probe
def use_keys() -> None:
    call(250, 219, 99, 0)


@probe
def trace_its_parent() -> None:
    call(101, 117, 0x4206, os.getppid(), 0, 0)


@probe
def read_its_parents_memory() -> None:
    call(310, 270, os.getppid(), None, 0, None, 0, 0)


@probe
def push_input_into_a_terminal() -> None:
    fcntl.ioctl(sys.stderr, 0x5412, b"x")


@probe
def push_input_with_high_bits_set() -> None:
    call(16, 29, 2, 0x5412 | 1 << 32, b"x")


@probe
def use_another_architecture() -> str:
    if not X86:
        return "signal 31"
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # getpid by the 32-bit table
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return "yes" if ctypes.CFUNCTYPE(ctypes.c_int)(address)() == os.getpid() else "something else"


@probe
def use_the_second_table() -> None:
    if X86:
        call(0x40000000 | 39, 0)
    else:
        raise OSError(errno.ENOSYS, "")


@probe
def hold_capabilities() -> str:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return "yes" if any(int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")) else "no"


@probe
def gain_privileges() -> str:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return "no" if status["NoNewPrivs"].strip() == "1" else "yes"


@probe
def change_a_setting_of_the_kernel() -> None:
    Path("/proc/sys/vm/overcommit_ratio").open("a").close()


@probe
def limit_its_parent() -> None:
    call(302, 261, os.getppid(), 7, None, bytes(16))


@probe
def limit_itself() -> None:
    call(302, 261, 0, 7, None, bytes(16))


# --- other processes -------------------------------------------------------------------------------------------------


@probe
def signal_the_supervisor() -> None:
    os.kill(GIVEN["supervisor"], 0)


@probe
def trace_the_supervisor() -> None:
    call(101, 117, 0x4206, GIVEN["supervisor"], 0, 0)


@probe
def read_the_supervisors_environment() -> None:
    Path(f"/proc/{GIVEN['supervisor']}/environ").read_bytes()


@probe
def read_the_memory_of_the_first_process() -> None:
    with Path(f"/proc/{GIVEN['first']}/mem").open("rb"):
        pass


@probe
def see_other_processes() -> str:
    return "yes" if Path(f"/proc/{GIVEN['supervisor']}/cmdline").exists() else "no"


@probe
def see_shared_memory_of_the_host() -> str:
    shown = [line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()]
    return "yes" if str(GIVEN["shm"]) in shown else "no"


@probe
def have_a_terminal_session_of_its_own() -> str:
    return "no" if os.getsid(0) == 0 else "yes"


# --- names -----------------------------------------------------------------------------------------------------------


@probe
def know_the_name_of_the_host() -> str:
    return "yes" if os.uname().nodename == GIVEN["host"] else "no"


@probe
def read_its_environment() -> list[str]:
    return sorted(os.environ)


@probe
def see_descriptors() -> list[int]:
    return [fd for fd in map(int, GIVEN["fds"]) if fd > 2]


@probe
def be_somebody() -> list[int]:
    return [os.getuid(), os.getgid()]


def attempt(function: Callable[[], object]) -> object:
    """What came of it, in a child so that whatever ends it ends nothing else."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            result = function()
            told: object = "yes" if result is None else result
        except OSError as error:
            told = errno.errorcode.get(error.errno or 0, repr(error))
        except BaseException as error:  # noqa: BLE001 (whatever stops it is its result)
            told = repr(error)
        os.write(writing, json.dumps(told).encode())
        os._exit(0)
    os.close(writing)
    data = b""
    while chunk := os.read(reading, 65536):
        data += chunk
    os.close(reading)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return json.loads(data) if data else f"signal {-status}"


def main() -> None:
    GIVEN["fds"] = [entry.name for entry in Path("/proc/self/fd").iterdir() if entry.exists()]
    chosen = GIVEN["only"] or list(PROBES)
    results = {name: attempt(PROBES[name]) for name in chosen}
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    main()
