"""Where a coding agent is on this machine, which package it lies in, and which version it says it is."""

from __future__ import annotations

import os
import platform
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from commandprovider.profiles.model import Probe, Profile
from commandprovider.tool import GRACE_MS, ToolHost
from savant.contracts import canonical
from savant.contracts.digest import digest
from savant.contracts.errors import PortError
from savant.files.paths import to_text
from savant.process.environment import allowed_environment, resolve_executable
from savant.process.identity import executable_digest
from savant.process.port import Channel, Command, Limits
from savant.process.view import at_their_paths, confined

PROBE_BYTES: Final = 64 * 1024
NATIVE_MAGIC: Final = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""How a program that needs no interpreter begins: ELF, Mach-O, a universal Mach-O."""


class Located(msgspec.Struct, frozen=True):
    """Where an agent is: the program that is started, and the npm package it lies in, None for none."""

    executable: Path
    package: Path | None


def locate(profile: Profile, search_path: str, executable: str | None = None) -> Located:
    """Find the program of an agent: behind an npm wrapper the native one, because killing a wrapper leaves it alive.

    :param executable: a name or absolute path that the person chose instead of the profile's name.
    :raises UsageError: ``usage.executable-not-found``, ``usage.relative-executable``.
    """
    found = resolve_executable(executable or profile.executable, search_path)
    native = _native(profile, found)
    started = native or found
    return Located(started, package_of(started))


def _native(profile: Profile, found: Path) -> Path | None:
    real = Path(os.path.realpath(found))
    wrapper = package_of(real)
    if profile.native is None or wrapper is None:
        return None
    if not str(wrapper).endswith(f"/node_modules/{profile.native.package}"):
        return None
    system = "darwin" if sys.platform == "darwin" else "linux"
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), "")
    pattern = profile.native.binary.replace("{os}", system).replace("{arch}", machine)
    for folder in (wrapper / "node_modules", *(above for above in wrapper.parents if above.name == "node_modules")):
        for candidate in sorted(folder.glob(pattern)):
            if candidate.is_file() and os.access(candidate, os.X_OK):
                return candidate
    return None


def package_of(executable: Path) -> Path | None:
    """The folder of the npm package that a program lies in, None for a program that lies in none."""
    parts = Path(os.path.realpath(executable)).parts
    if "node_modules" not in parts[:-1]:
        return None
    at = len(parts) - 2 - parts[-2::-1].index("node_modules")
    depth = at + (3 if parts[at + 1].startswith("@") else 2)
    return Path(*parts[:depth]) if depth < len(parts) else None


def package_digest(located: Located) -> str | None:
    """The digest of an agent's package: its description and, for a native program, that; for a script, every file.

    :raises PortError: ``port.executable`` when a file cannot be read.
    """
    if located.package is None:
        return None
    return digest(canonical.encode([[name, executable_digest(path)] for name, path in sorted(_package_files(located))]))


def _package_files(located: Located) -> Iterator[tuple[str, Path]]:
    package = located.package
    assert package is not None
    if is_native(located.executable):
        chosen = [package / "package.json", Path(os.path.realpath(located.executable))]
        yield from ((_relative(path, package), path) for path in chosen if path.is_file())
        return
    for folder, folders, names in os.walk(package):
        if "node_modules" in folders:
            folders.remove("node_modules")
        for path in (Path(folder, name) for name in names):
            if stat.S_ISREG(path.lstat().st_mode):
                yield _relative(path, package), path


def _relative(path: Path, package: Path) -> str:
    return to_text(os.fsencode(os.path.relpath(path, package)))


def is_native(executable: Path) -> bool:
    """Whether a program needs no interpreter.

    :raises PortError: ``port.executable`` when it cannot be read.
    """
    try:
        with executable.open("rb") as file:
            return file.read(4) in NATIVE_MAGIC
    except OSError as error:
        raise PortError("port.executable", f"The executable {executable} cannot be read: {error.strerror}.") from error


def probe_version(profile: Profile, located: Located, host: ToolHost) -> str:
    """The version that an agent reports, asked by running it without credentials, in the best containment there is.

    None is demanded here: a run that lacks it is told so with all that it lacks.

    :raises PortError: ``port.agent-probe`` when it says none that can be read.
    """
    probe = profile.probe
    with host.private_directory("probe-") as home:
        (home / "tmp").mkdir(mode=0o700)
        command = Command(
            argv=(str(located.executable), *probe.argv),
            cwd=home,
            env=allowed_environment({}, (), home, home / "tmp", {"PATH": host.search_path}),
            limits=Limits(
                wall_ms=probe.deadline_ms, stdout_bytes=PROBE_BYTES, stderr_bytes=PROBE_BYTES, grace_ms=GRACE_MS
            ),
            sandbox=confined(
                host.processes.level,
                "S0",
                network=False,
                writable=at_their_paths(home),
                executables=(located.executable,),
                read_only=host.sight.read_only,
                search_path=host.search_path,
                hidden=host.sight.hidden,
            ),
        )
        if probe.stdin:
            ended = host.processes.converse(command, lambda channel: _ask(channel, probe))
        else:
            ended = host.processes.run(command)
    said = ended.stdout.decode("utf-8", "replace")
    is_over = ended.verdict == "exited" or (ended.verdict == "signaled" and probe.stdin != "")
    found = re.search(probe.pattern, said, re.MULTILINE) if is_over else None
    if found is None:
        how = ended.verdict if ended.verdict != "exited" else f"exit status {ended.exit_status}"
        raise PortError(
            "port.agent-probe",
            f"{profile.title} does not say its version: {how}, {_first_line(said, ended.stderr)!r}.",
            untouched="No provider was called.",
            fix=f"Install a tested version: {profile.install}",
        )
    return found["version"]


def _ask(channel: Channel, probe: Probe) -> None:
    """Ask an agent that says its version in a conversation; what it says is read when it has ended."""
    channel.send(probe.stdin.strip().encode())
    while channel.is_open:
        line = channel.receive(probe.deadline_ms)
        if line is not None and re.search(probe.pattern, line.decode("utf-8", "replace")):
            return


def _first_line(stdout: str, stderr: bytes) -> str:
    lines = (stdout.strip() or stderr.decode("utf-8", "replace").strip()).splitlines()
    return lines[0][:200] if lines else ""


def is_tested(profile: Profile, version: str) -> bool:
    """Whether a version lies in the range that the profile was tested with; its end is not part of it."""
    first, after = (_numbers(bound) for bound in profile.probe.tested)
    return first <= _numbers(version) < after


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", version))
