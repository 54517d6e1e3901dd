"""Seccomp filters as bytes: classic BPF for one architecture, computed and never loaded here.

A filter lets everything pass but what it names. What it names fails with EPERM and the program goes on; only a system
call of another architecture, whose numbers mean something else, ends the program. ``clone3`` fails with ENOSYS because
its flags are behind a pointer, and every C library then takes ``clone``, whose flags are looked at.

What must hold: the architecture is compared before any number (seccomp(2)), the second table of x86-64 (x32) is shut,
and arguments that the kernel takes as 32 bits are compared as 32 bits, whatever stands above them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from savant.contracts.errors import UsageError

EPERM: Final = 1
ENOSYS: Final = 38

_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_AND: Final = 0x54  # BPF_ALU | BPF_AND | BPF_K
_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_SHARES: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K

_NUMBER: Final = 0
_ARCHITECTURE: Final = 4
_ARGUMENTS: Final = 16  # each is 8 bytes, its low half first on the little-endian machines we know

_X32_BIT: Final = 0x40000000

# sched.h: CLONE_NEWTIME shares a bit with the exit signal of clone, so it counts for unshare only.
_NEW_TIME: Final = 0x00000080
_NEW_NAMESPACES: Final = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000

_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C

AF_UNIX: Final = 1
AF_INET: Final = 2
AF_INET6: Final = 10
AF_NETLINK: Final = 16
_NETLINK_ROUTE: Final = 0


class Machine(msgspec.Struct, frozen=True):
    """An architecture: its audit number, and its system calls by name."""

    audit: int
    numbers: Mapping[str, int]
    has_x32: bool


# The numbers from 424 on are the same everywhere.
_COMMON: Final[Mapping[str, int]] = MappingProxyType(
    {
        "pidfd_getfd": 438,
        "io_uring_setup": 425,
        "io_uring_enter": 426,
        "io_uring_register": 427,
        "open_tree": 428,
        "move_mount": 429,
        "fsopen": 430,
        "fsconfig": 431,
        "fsmount": 432,
        "fspick": 433,
        "clone3": 435,
        "mount_setattr": 442,
        "quotactl_fd": 443,
        "open_tree_attr": 467,
    }
)

MACHINES: Final[Mapping[str, Machine]] = MappingProxyType(
    {
        "x86_64": Machine(
            0xC000003E,
            MappingProxyType(
                {
                    **_COMMON,
                    "ioctl": 16,
                    "socket": 41,
                    "socketpair": 53,
                    "clone": 56,
                    "ptrace": 101,
                    "syslog": 103,
                    "uselib": 134,
                    "pivot_root": 155,
                    "chroot": 161,
                    "acct": 163,
                    "settimeofday": 164,
                    "mount": 165,
                    "umount2": 166,
                    "swapon": 167,
                    "swapoff": 168,
                    "reboot": 169,
                    "sethostname": 170,
                    "setdomainname": 171,
                    "iopl": 172,
                    "ioperm": 173,
                    "init_module": 175,
                    "delete_module": 176,
                    "quotactl": 179,
                    "clock_settime": 227,
                    "kexec_load": 246,
                    "add_key": 248,
                    "request_key": 249,
                    "keyctl": 250,
                    "unshare": 272,
                    "perf_event_open": 298,
                    "fanotify_init": 300,
                    "open_by_handle_at": 304,
                    "prlimit64": 302,
                    "setns": 308,
                    "process_vm_readv": 310,
                    "process_vm_writev": 311,
                    "kcmp": 312,
                    "finit_module": 313,
                    "kexec_file_load": 320,
                    "bpf": 321,
                    "userfaultfd": 323,
                }
            ),
            has_x32=True,
        ),
        "aarch64": Machine(
            0xC00000B7,
            MappingProxyType(
                {
                    **_COMMON,
                    "ioctl": 29,
                    "umount2": 39,
                    "mount": 40,
                    "pivot_root": 41,
                    "chroot": 51,
                    "quotactl": 60,
                    "acct": 89,
                    "unshare": 97,
                    "kexec_load": 104,
                    "init_module": 105,
                    "delete_module": 106,
                    "clock_settime": 112,
                    "syslog": 116,
                    "ptrace": 117,
                    "reboot": 142,
                    "sethostname": 161,
                    "setdomainname": 162,
                    "settimeofday": 170,
                    "socket": 198,
                    "socketpair": 199,
                    "add_key": 217,
                    "request_key": 218,
                    "keyctl": 219,
                    "clone": 220,
                    "swapon": 224,
                    "swapoff": 225,
                    "perf_event_open": 241,
                    "fanotify_init": 262,
                    "prlimit64": 261,
                    "open_by_handle_at": 265,
                    "setns": 268,
                    "process_vm_readv": 270,
                    "process_vm_writev": 271,
                    "kcmp": 272,
                    "finit_module": 273,
                    "bpf": 280,
                    "userfaultfd": 282,
                    "kexec_file_load": 294,
                }
            ),
            has_x32=False,
        ),
    }
)
"""The architectures for which there are filters, by what ``uname -m`` says."""

EXAMINED: Final = frozenset({"clone", "clone3", "unshare", "socket", "socketpair", "ioctl", "prlimit64"})
"""System calls that depend on their arguments; every other one in the table is denied."""

_Instruction = tuple[int, int, int, int]


def program(machine: str, *, families: Iterable[int]) -> bytes:
    """The filter for an architecture, as an array of ``struct sock_filter``.

    :param machine: a key of :data:`MACHINES`.
    :param families: the address families in which it may make sockets; netlink is that of routes only.
    :raises UsageError: ``usage.unknown-machine``.
    """
    known = MACHINES.get(machine)
    if known is None:
        raise UsageError("usage.unknown-machine", f"There is no system call filter for {machine!r}.")
    numbers = known.numbers
    code: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, known.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if known.has_x32:
        code += [(_AT_LEAST, 0, 1, _X32_BIT), _fail(ENOSYS)]
    for name in sorted(numbers.keys() - EXAMINED):
        code += [(_EQUAL, 0, 1, numbers[name]), _fail(EPERM)]
    code += [(_EQUAL, 0, 1, numbers["clone3"]), _fail(ENOSYS)]
    code += _when(numbers["clone"], [_argument(0), (_SHARES, 0, 1, _NEW_NAMESPACES), _fail(EPERM)])
    code += _when(numbers["unshare"], [_argument(0), (_SHARES, 0, 1, _NEW_NAMESPACES | _NEW_TIME), _fail(EPERM)])
    code += _when(
        numbers["ioctl"],
        [_argument(1), (_EQUAL, 1, 0, _TIOCSTI), (_EQUAL, 0, 1, _TIOCLINUX), _fail(EPERM)],
    )
    # Its own limits only: those of another process of the same user, such as the supervisor, can end it.
    code += _when(numbers["prlimit64"], [_argument(0), (_EQUAL, 1, 0, 0), _fail(EPERM)])
    code += _when(numbers["socketpair"], [_argument(0), (_EQUAL, 1, 0, AF_UNIX), _fail(EPERM)])
    code += _when(numbers["socket"], _socket(sorted(families)))
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def _fail(number: int) -> _Instruction:
    return (_RETURN, 0, 0, _ERRNO | number)


def _argument(index: int) -> _Instruction:
    """Load the low half of an argument."""
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index)


def _when(number: int, body: list[_Instruction]) -> list[_Instruction]:
    """The body for one system call; what falls out of it passes."""
    body = [*body, (_RETURN, 0, 0, _ALLOW)]
    return [(_EQUAL, 0, len(body), number), *body]


def _socket(families: list[int]) -> list[_Instruction]:
    body = [_argument(0)]
    for family in families:
        if family == AF_NETLINK:
            body += [
                (_EQUAL, 0, 4, family),
                _argument(2),
                (_EQUAL, 0, 1, _NETLINK_ROUTE),
                (_RETURN, 0, 0, _ALLOW),
                _fail(EPERM),
            ]
        else:
            body += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    return [*body, _fail(EPERM)]
