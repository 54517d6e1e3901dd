"""The part of the supervisor that contains a command from inside: namespaces, Landlock, capabilities, seccomp.

A stand-alone module of the standard library, imported by :mod:`savant.process.supervisor` when the first command of
level S1 or S2 arrives, and used in the forked child only. What to do comes as JSON that
:mod:`savant.process.sandbox` computed; here it is only done, and every call that fails ends the start of the command.

With namespaces (S2) the child becomes three processes. The **leader** is known to the supervisor, stays outside and
waits. The **init** is the first process of the new namespace and cannot be signalled from inside. The **command** is
its child. When the command has ended, the init writes how, and how many others were alive, into the report and exits,
upon which the kernel ends everything in the namespace; only after that can the leader be reaped.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import struct
import sys
from typing import Any, Final, NoReturn

_MS_NOSUID_NODEV_NOEXEC: Final = 2 | 4 | 8
_MS_BIND: Final = 4096
_MS_REC: Final = 16384
_MS_PRIVATE: Final = 1 << 18

_AT_FDCWD: Final = -100
_AT_RECURSIVE: Final = 0x8000
_AT_SYMLINK_NOFOLLOW: Final = 0x100
_MOUNT_ATTR_RDONLY: Final = 1

# The same on every architecture.
_SYS_MOUNT_SETATTR: Final = 442
_SYS_LANDLOCK_CREATE_RULESET: Final = 444
_SYS_LANDLOCK_ADD_RULE: Final = 445
_SYS_LANDLOCK_RESTRICT_SELF: Final = 446
_LANDLOCK_RULE_PATH_BENEATH: Final = 1

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_SECCOMP_MODE_FILTER: Final = 2
_CAPABILITY_VERSION_3: Final = 0x20080522

_FORMAT: Final = 0o170000
_FOLDER: Final = 0o040000
_SOCKET: Final = 0o140000

_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long


def contain(plan: dict[str, Any], cwd: str, report: int) -> None:
    """Contain this process; with namespaces, return in a new process and stay behind in this one.

    What stays behind has no descriptor of the supervisor any more.

    :param report: descriptor for how the command ended; used with namespaces.
    :raises OSError: naming the step.
    """
    try:
        if plan["namespaces"]:
            _enter(plan, cwd, report)
        ruleset = _ruleset(plan["landlock"])
        _drop_capabilities()
        _prctl("no new privileges", _PR_SET_NO_NEW_PRIVS, 1)
        _syscall("landlock", _SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0)
        os.close(ruleset)
        _load_filter(bytes.fromhex(plan["seccomp"]))
    except OSError as error:
        raise OSError(error.errno, f"{error.filename}: {error.strerror}") from error


# --- calls -----------------------------------------------------------------------------------------------------------


def _call(step: str, result: int) -> int:
    """The result of a call of the C library, or its error.

    :raises OSError: with the step.
    """
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), step)
    return result


def _prctl(step: str, option: int, *values: int | bytes) -> int:
    arguments = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in values]
    arguments += [ctypes.c_ulong(0)] * (4 - len(arguments))
    return _call(step, _LIBC.prctl(option, *arguments))


def _syscall(step: str, number: int, *arguments: int | bytes | None) -> int:
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _call(step, _LIBC.syscall(ctypes.c_long(number), *converted))


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    _call(f"mount {target}", _LIBC.mount(*words, ctypes.c_ulong(flags), None))


# --- namespaces ------------------------------------------------------------------------------------------------------


def _enter(plan: dict[str, Any], cwd: str, report: int) -> None:
    """Make the namespaces and return in the process that is to become the command."""
    user, group = os.geteuid(), os.getegid()
    _call("namespaces", _LIBC.unshare(plan["namespaces"]))
    # Before the group map can be written without privilege, setgroups must be off.
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{plan['user']} {user} 1"),
        ("gid_map", f"{plan['user']} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 (pathlib would be a costly import)
            file.write(text)
    init = os.fork()
    if init:
        _lead(init)
    _prctl("parent death signal", _PR_SET_PDEATHSIG, signal.SIGKILL)
    _call("host name", _LIBC.sethostname(b"localhost", 9))
    if plan["loopback"]:
        _raise_loopback()
    _arrange_mounts(plan["mounts"])
    command = os.fork()
    if command:
        _be_init(command, report)
    os.close(report)
    os.setsid()
    os.chdir(cwd)


def _lead(init: int) -> NoReturn:
    """As the leader: wait for the end of the namespace."""
    try:
        os.closerange(0, 1 << 16)
        os.waitpid(init, 0)
    finally:
        os._exit(0)


def _be_init(command: int, report: int) -> NoReturn:
    """As the first process of the namespace: reap until the command has ended, say how, and take everything along."""
    try:
        os.dup2(report, 3, inheritable=False)
        os.closerange(4, 1 << 16)
        os.closerange(0, 3)
        while True:
            pid, status = os.wait()
            if pid == command:
                break
        others = sum(_is_running(int(name)) for name in os.listdir("/proc") if name.isdigit() and name != "1")  # noqa: PTH208
        os.write(3, json.dumps({"status": status, "survivors": others}).encode())
    finally:
        os._exit(0)


def _is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    return fields[0] not in (b"Z", b"X") or int(fields[17]) > 1


def _raise_loopback() -> None:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack("16sH22x", b"lo", 0))
        flags = struct.unpack("16sH22x", request)[1] | _IFF_UP
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags))


def _arrange_mounts(mounts: list[tuple[str, bool]]) -> None:
    """Make everything read-only but what is said to be writable, and show the processes of this namespace only."""
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    _mount("proc", "/proc", "proc", _MS_NOSUID_NODEV_NOEXEC)
    for path, _ in mounts:
        _mount(path, path, None, _MS_BIND | _MS_REC)
    _set_read_only("/", True)
    for path, is_writable in mounts:
        _set_read_only(path, not is_writable)


def _set_read_only(path: str, on: bool) -> None:
    attributes = struct.pack("=4Q", _MOUNT_ATTR_RDONLY if on else 0, 0 if on else _MOUNT_ATTR_RDONLY, 0, 0)
    _syscall(
        f"mount {path}",
        _SYS_MOUNT_SETATTR,
        _AT_FDCWD,
        os.fsencode(path),
        _AT_RECURSIVE,
        attributes,
        len(attributes),
    )


# --- restrictions ----------------------------------------------------------------------------------------------------


def _ruleset(plan: dict[str, Any]) -> int:
    """The Landlock ruleset of the plan, and the streams of this process."""
    handled = plan["handled"]
    attributes = struct.pack("=3Q", handled, 0, plan["scoped"])
    # A kernel that does not know the last members takes the shorter structure.
    size = len(attributes) if plan["scoped"] else 8
    ruleset = _syscall("landlock", _SYS_LANDLOCK_CREATE_RULESET, attributes, size, 0)
    for path, rights in plan["rules"]:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            raise OSError(error.errno, error.strerror, f"landlock {path}") from error
        is_folder = os.fstat(fd).st_mode & _FORMAT == _FOLDER
        _grant(ruleset, fd, rights if is_folder else rights & plan["of_files"])
        os.close(fd)
    for fd, rights in enumerate(plan["streams"]):  # so that /dev/stdout can be opened; a socket has no path
        if os.fstat(fd).st_mode & _FORMAT != _SOCKET:
            _grant(ruleset, fd, rights)
    return ruleset


def _grant(ruleset: int, fd: int, rights: int) -> None:
    rule = struct.pack("=Qi", rights, fd)
    _syscall("landlock", _SYS_LANDLOCK_ADD_RULE, ruleset, _LANDLOCK_RULE_PATH_BENEATH, rule, 0)


def _drop_capabilities() -> None:
    """Give up every capability; without new privileges, executing a file brings none back."""
    _prctl("capabilities", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _call("capabilities", _LIBC.capset(header, bytes(24)))


def _load_filter(program: bytes) -> None:
    code = ctypes.create_string_buffer(program, len(program))
    pointer = ctypes.addressof(code)
    filters = struct.pack("@HP", len(program) // 8, pointer)
    _prctl("seccomp", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, filters)


if sys.platform != "linux":  # pragma: no cover
    raise ImportError("Only Linux has what contains a command from inside.")
