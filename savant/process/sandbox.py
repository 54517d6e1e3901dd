"""Sandbox levels as pure construction: from a command and facts about the host to what the supervisor shall do.

S1 and S2 are applied by :mod:`savant.process.contain` in the command's own process; S3 is bubblewrap, which gets its
options and its system call filter through descriptors, so that no path and no variable shows in a list of processes.
Nothing here starts, opens or asks anything; :mod:`savant.process.host` collects the facts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, assert_never

import msgspec
from msgspec.structs import replace

from savant.process import landlock
from savant.process.plan import Plan
from savant.process.port import Command, Ended, Level, Mount, Verdict
from savant.process.seccomp import AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, program

LEVELS: Final[tuple[Level, ...]] = ("S3", "S2", "S1", "S0")
"""The levels, the strongest first."""

SYSTEM: Final = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/debian_version",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
"""What every command may read, where it exists: programs, libraries and settings without a secret (no private keys)."""

_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

USER: Final = 65534
"""Who the command is inside a user namespace; outside it stays the caller, who owns what it writes."""
WRAPPERS: Final = 2
"""How many processes of ours stand between the supervisor and the command at S2 and S3."""
TMP_BYTES: Final = 1 << 30
"""The size of each private folder in memory at S3: /tmp and /dev/shm."""

_NEW: Final[Mapping[str, int]] = MappingProxyType(
    {
        "mount-namespace": 0x00020000,
        "uts-namespace": 0x04000000,
        "ipc-namespace": 0x08000000,
        "user-namespace": 0x10000000,
        "pid-namespace": 0x20000000,
        "network-namespace": 0x40000000,
    }
)
_SIGKILL: Final = 9
_SIGNAL_BASE: Final = 128
_LAST_SIGNAL: Final = 64


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan needs to know about the system.

    :param machine: the architecture, as ``uname -m`` says.
    :param landlock_abi: 0 if there is no Landlock.
    :param bubblewrap: absolute path, None if it is not installed.
    :param system: those of :data:`SYSTEM` that exist, each with where it points if it is a link below the root.
    """

    machine: str
    landlock_abi: int
    bubblewrap: str | None
    system: tuple[tuple[str, str | None], ...]


def plan(command: Command, host: Host) -> Plan:
    """What to do so that the command gets the level it demands; the host must offer it."""
    level = command.sandbox.level
    match level:
        case "S0":
            return Plan(argv=command.argv, env=command.env, cwd=str(command.cwd))
        case "S1" | "S2":
            return _inside(command, host)
        case "S3":
            return _bubblewrap(command, host)
        case _ as unreachable:
            assert_never(unreachable)


def layers(command: Command, host: Host) -> tuple[str, ...]:
    """The names of what is active beside the supervisor's own layers."""
    sandbox = command.sandbox
    named: list[str] = []
    if sandbox.level == "S0":
        return ()
    named += ["capabilities", "no-new-privileges", "seccomp"]
    if sandbox.level == "S3":
        named.append("bubblewrap")
    else:
        named += ["landlock", *(["landlock-scope"] if landlock.scoped(host.landlock_abi) else [])]
    if sandbox.level == "S1":
        named += [] if sandbox.network else ["no-network"]
    else:
        named += _namespaces(sandbox.network)
    return tuple(sorted(named))


def _namespaces(network: bool) -> list[str]:
    return [name for name in _NEW if not (network and name == "network-namespace")]


def families(level: Level, network: bool) -> tuple[int, ...]:
    """The address families in which a command may make sockets.

    UNIX sockets only where neither the host's folders nor its abstract names can be reached by them: behind one may be
    a service that starts programs outside. At S1 there is no network of its own, so without network there is none.
    """
    if level == "S1" and not network:
        return ()
    if level == "S3" and not network:
        return (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
    return (AF_INET, AF_INET6, AF_NETLINK)


# --- S1 and S2 -------------------------------------------------------------------------------------------------------


def _inside(command: Command, host: Host) -> Plan:
    sandbox = command.sandbox
    has_namespaces = sandbox.level == "S2"
    names = _namespaces(sandbox.network) if has_namespaces else []
    contain = {
        "namespaces": sum(_NEW[name] for name in names),
        "loopback": "network-namespace" in names,
        "user": USER,
        "mounts": [[str(mount.target), mount.writable] for mount in laid_over(sandbox.mounts)],
        "landlock": landlock.ruleset(host.landlock_abi, _grants(sandbox.mounts, host)),
        "seccomp": program(host.machine, families=families(sandbox.level, sandbox.network)).hex(),
    }
    return Plan(
        argv=command.argv,
        env=command.env,
        cwd=str(command.cwd),
        contain=contain,
        has_report=has_namespaces,
        wrappers=WRAPPERS if has_namespaces else 0,
        layers=layers(command, host),
    )


def _grants(mounts: Sequence[Mount], host: Host) -> Iterator[tuple[str, int]]:
    for path, _ in host.system:
        yield path, landlock.READ
    yield "/proc", landlock.READ_FILE | landlock.READ_DIR
    for path in _DEVICES:
        yield path, landlock.USE_DEVICE
    for mount in mounts:
        yield str(mount.target), landlock.WRITE if mount.writable else landlock.READ


def laid_over(mounts: Sequence[Mount]) -> Iterator[Mount]:
    """The mounts that differ from a file system in which nothing is writable, in order."""
    writable: list[Path] = []
    for mount in mounts:
        if mount.writable:
            writable.append(mount.target)
            yield mount
        elif any(mount.target.is_relative_to(path) for path in writable):
            yield mount


# --- S3 --------------------------------------------------------------------------------------------------------------


def _bubblewrap(command: Command, host: Host) -> Plan:
    sandbox = command.sandbox
    options = "\0".join((*bubblewrap_options(command, host), "")).encode("utf-8", "surrogateescape")
    filters = program(host.machine, families=families("S3", sandbox.network))
    executable = host.bubblewrap or "/usr/bin/bwrap"
    return Plan(
        argv=(executable, "--args", 3, "--seccomp", 4, "--json-status-fd", 5, "--", *command.argv),
        env=(),
        cwd="/",
        blobs=(options, filters),
        has_report=True,
        wrappers=WRAPPERS,
        layers=layers(command, host),
    )


def bubblewrap_options(command: Command, host: Host) -> tuple[str, ...]:
    """The options of bubblewrap for a command, without its descriptors: a root of what is listed and nothing else."""
    sandbox = command.sandbox
    size = str(TMP_BYTES)
    options = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    options += [] if sandbox.network else ["--unshare-net"]
    options += ["--uid", str(USER), "--gid", str(USER), "--cap-drop", "ALL", "--disable-userns"]
    options += ["--die-with-parent", "--new-session", "--hostname", "localhost"]
    for path, link in host.system:
        options += ["--ro-bind", path, path] if link is None else ["--symlink", link, path]
    # Where we are root the command is the owner of every setting of the kernel, without any capability.
    options += ["--proc", "/proc", "--remount-ro", "/proc"]
    # Bubblewrap's own /dev is a folder in memory that the command could fill.
    options += ["--dev", "/dev", "--size", size, "--perms", "1777", "--tmpfs", "/dev/shm"]  # noqa: S108
    options += ["--remount-ro", "/dev", "--size", size, "--perms", "1777", "--tmpfs", "/tmp"]  # noqa: S108
    for mount in sandbox.mounts:
        options += ["--bind" if mount.writable else "--ro-bind", str(mount.source), str(mount.target)]
    options += ["--remount-ro", "/", "--clearenv"]
    for name, value in command.env:
        options += ["--setenv", name, value]
    return (*options, "--chdir", str(command.cwd))


# --- how it ended ----------------------------------------------------------------------------------------------------


def tell(seen: Ended, report: bytes) -> Ended:
    """How the command itself ended, from what the supervisor saw of its wrapper and what the wrappers reported.

    A command of which nothing was reported did not end by itself, whatever the status of the wrapper is.
    """
    return _tell_bubblewrap(seen, report) if seen.level == "S3" else _tell_init(seen, report)


def _tell_init(seen: Ended, report: bytes) -> Ended:
    if seen.verdict == "spawn-error":
        return seen
    if not report:
        return _killed_with_wrapper(seen)
    told = json.loads(report)
    status: int = told["status"]
    number = status & 0x7F
    ended = _ended(seen, None if number else status >> 8, number or None)
    return replace(ended, survivors=seen.survivors + told["survivors"])


def _tell_bubblewrap(seen: Ended, report: bytes) -> Ended:
    if seen.exit_status is not None or seen.verdict == "signaled":
        # The namespace ended everything before anybody could count.
        seen = replace(seen, survivors=0)
    # Only whether there is a code counts: it is there if the command was executed. The status is the leader's.
    if seen.exit_status is None or not has_run(report):
        if seen.verdict == "exited":
            told = _complaint(seen.stderr)
            return replace(seen, verdict="spawn-error", exit_status=None, stderr=b"", layers=(), detail=told)
        return _killed_with_wrapper(seen)
    number = _signal_of(seen.exit_status)
    return _ended(seen, seen.exit_status if number is None else None, number)


def has_run(report: bytes) -> bool:
    """Whether bubblewrap's report says that the command was executed and has ended."""
    return b'"exit-code"' in report


def _signal_of(status: int) -> int | None:
    """The signal that bubblewrap means, which tells it as the shells do and no more."""
    number = status - _SIGNAL_BASE
    return number if 0 < number <= _LAST_SIGNAL else None


def _ended(seen: Ended, exit_status: int | None, number: int | None) -> Ended:
    verdict: Verdict = seen.verdict
    if verdict in {"exited", "signaled"}:
        verdict = "exited" if number is None else "signaled"
    return replace(seen, verdict=verdict, exit_status=exit_status, signal=number)


def _killed_with_wrapper(seen: Ended) -> Ended:
    number = seen.signal or _signal_of(seen.exit_status or 0) or _SIGKILL
    if seen.verdict not in {"exited", "signaled"}:
        return replace(seen, exit_status=None, signal=number)
    detail = "; ".join(note for note in ("it was killed with its namespace", seen.detail) if note)
    return replace(seen, verdict="signaled", exit_status=None, signal=number, detail=detail)


def _complaint(stderr: bytes) -> str:
    """What bubblewrap said about why it could not start the command, in the supervisor's words."""
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    text = re.sub(r"\Abwrap: ", "", lines[-1]) if lines else "bubblewrap said nothing"
    if found := re.fullmatch(r"execvp .*: (?P<reason>[^:]+)", text):
        return f"execute: {found['reason']}"
    if found := re.fullmatch(r"Can't chdir to .*: (?P<reason>[^:]+)", text):
        return f"working directory: {found['reason']}"
    return f"sandbox: {text}"
