"""Facts about the host that decide which sandbox levels it can have, and what to do where one is missing.

Facts are read once for the process, when the first contained command or offer needs them. Whether a level works is
not decided here: that is found by running a command at it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from savant.process import landlock
from savant.process.port import Level, Missing
from savant.process.sandbox import SYSTEM, Host
from savant.process.seccomp import MACHINES

_BUBBLEWRAP: Final = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")
"""Where bubblewrap may be; a search path of the environment has no say in what contains a command."""

_INSTALL: Final[Mapping[str, str]] = MappingProxyType(
    {
        "debian": "sudo apt install bubblewrap",
        "ubuntu": "sudo apt install bubblewrap",
        "fedora": "sudo dnf install bubblewrap",
        "rhel": "sudo dnf install bubblewrap",
        "suse": "sudo zypper install bubblewrap",
        "arch": "sudo pacman -S bubblewrap",
        "alpine": "sudo apk add bubblewrap",
    }
)
"""The command that installs bubblewrap, by the ``ID`` and ``ID_LIKE`` of os-release(5)."""

_PROFILE: Final = "/etc/apparmor.d/bwrap-userns-restrict"
_LOAD_PROFILE: Final = (
    "sudo apt install apparmor-profiles && "
    f"sudo install -m 0644 /usr/share/apparmor/extra-profiles/bwrap-userns-restrict {_PROFILE} && "
    f"sudo apparmor_parser -r {_PROFILE}"
)
"""Lets bubblewrap make user namespaces and nobody else: the restriction of the kernel stays as it is."""

_KERNEL: Final = "Use a kernel of version 6.2 or later with Landlock among its security modules (lsm=landlock,...)."
_ELSEWHERE: Final = "Run on the host itself or in a virtual machine: this container may not make user namespaces."


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What explains why a level does not work.

    :param distributions: ``ID`` and ``ID_LIKE`` of os-release(5).
    :param restricted_by_apparmor: whether AppArmor keeps user namespaces from programs without a profile.
    :param user_namespaces: how many there may be at most, None if the kernel does not say.
    :param in_container: whether we are in a container that says so.
    """

    is_linux: bool
    distributions: tuple[str, ...]
    restricted_by_apparmor: bool
    user_namespaces: int | None
    in_container: bool


@cache
def look() -> Host:
    """The facts that plans are made from."""
    return Host(
        machine=os.uname().machine,
        landlock_abi=landlock.find_abi(),
        bubblewrap=next((path for path in _BUBBLEWRAP if os.access(path, os.X_OK)), None),
        system=tuple((path, _link(path)) for path in SYSTEM if Path(path).exists()),
    )


def _link(path: str) -> str | None:
    """Where a link directly below the root points, to be made again in a new root; other links are followed."""
    place = Path(path)
    return str(place.readlink()) if len(place.parts) == 2 and place.is_symlink() else None


def look_around() -> Circumstances:
    """The circumstances, read when something is to be explained."""
    return Circumstances(
        is_linux=sys.platform == "linux",
        distributions=_distributions(_read("/etc/os-release")),
        restricted_by_apparmor=_read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").strip() == "1",
        user_namespaces=int(text) if (text := _read("/proc/sys/user/max_user_namespaces").strip()) else None,
        in_container=Path("/.dockerenv").exists() or Path("/run/.containerenv").exists(),
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _distributions(text: str) -> tuple[str, ...]:
    named: list[str] = []
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key in {"ID", "ID_LIKE"}:
            named += value.strip("\"'").split()
    return tuple(named)


def obstacle(level: Level, host: Host, around: Circumstances) -> Missing | None:
    """What is known to stand in the way of a level before anything is run; None if only running can tell."""
    if not around.is_linux:
        return Missing(
            "linux", "This system has nothing that contains a command.", "Run it in a Linux virtual machine."
        )
    if host.machine not in MACHINES:
        why = f"There is no system call filter for the architecture {host.machine}."
        return Missing("seccomp", why, f"Use one of: {', '.join(sorted(MACHINES))}.")
    if level == "S3" and host.bubblewrap is None:
        return Missing("bubblewrap", "bubblewrap is not installed.", _install(around))
    if level in {"S1", "S2"} and host.landlock_abi < landlock.LEAST_ABI:
        why = f"This kernel offers Landlock ABI {host.landlock_abi}, and {landlock.LEAST_ABI} is needed."
        return Missing("landlock", why, _KERNEL)
    return None


def explain(level: Level, detail: str, host: Host, around: Circumstances) -> Missing:
    """Why a command at a level did not run, and what to do; :func:`obstacle` had nothing to say.

    :param detail: what was said when it was tried.
    """
    name = {"S3": "bubblewrap", "S2": "user-namespaces"}.get(level, "landlock")
    why = f"A command at level {level} could not be run: {detail or 'no reason was given'}."
    if "Unknown option" in detail:
        return Missing(name, why, f"Use bubblewrap 0.8 or later ({host.bubblewrap} is older).")
    if level == "S1":
        return Missing(name, why, _KERNEL)
    if around.restricted_by_apparmor:
        why += " AppArmor keeps user namespaces from programs that have no profile."
        fix = _LOAD_PROFILE if level == "S3" else f"Get level S3 instead: {_install(around)} && {_LOAD_PROFILE}"
        return Missing(name, why, fix)
    if around.user_namespaces == 0:
        why += " User namespaces are off (user.max_user_namespaces is 0)."
        return Missing(name, why, "sudo sysctl -w user.max_user_namespaces=15000")
    if around.in_container:
        return Missing(name, why, _ELSEWHERE)
    return Missing(name, why, "Allow this user to make user namespaces; user_namespaces(7) tells what may forbid it.")


def _install(around: Circumstances) -> str:
    return next(
        (_INSTALL[name] for name in around.distributions if name in _INSTALL),
        "Install the package bubblewrap of your distribution.",
    )
