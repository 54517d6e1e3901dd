"""What a contained command sees of the host: the folders it is given, and the toolchain of the programs it needs.

A *toolchain root* is the smallest folder in which a program works: a virtual environment and what it was made from, a
``node_modules`` and the interpreter's own prefix, a prefix with ``bin`` and ``lib``, else the program's folder. What a
person keeps (:class:`Hidden`) is never part of one: the root shrinks to the folder, then to the single file. Looks at
the file system, changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from savant.contracts.containment import Containment
from savant.contracts.errors import UsageError
from savant.contracts.scalars import as_set
from savant.process.environment import DEFAULT_PATH, resolve_executable
from savant.process.port import Ended, Level, Mount, Sandbox, refuse_level
from savant.process.shebang import interpreter_words, script_head

BASE_FOLDERS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Parts of the system that every contained command sees anyway."""

_BASE: Final = tuple(folder + "/" for folder in BASE_FOLDERS)
_STORES: Final = ("/nix/store", "/gnu/store")
"""Folders of immutable packages that refer to each other by path: seen as a whole."""

_PRIVATE: Final = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".git-credentials",
    ".gitconfig",
    ".npmrc",
    ".pypirc",
    ".password-store",
    ".config/gcloud",
    ".config/gh",
    ".config/git",
    ".config/savant",
    ".local/share/keyrings",
    ".local/share/savant",
    ".cargo/credentials.toml",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
)
"""Below the home: never seen, and nothing in it."""

_CROWDED: Final = ("", ".local", ".local/share", ".local/state", ".config", ".cache", ".claude", ".codex", ".gemini")
"""Below the home: never seen themselves; a toolchain that lies deeper may be."""

_MAX_LINKS: Final = 40
_PROGRAMS: Final = ("bin", "sbin", "shims")
_WITH_PROGRAMS: Final = ("lib", "lib64", "libexec", "versions", "installs")
"""What lies beside a folder of programs that do not work without it; the last two beside a version manager's shims."""


class Hidden(msgspec.Struct, frozen=True):
    """What no command may see: absolute paths as text, each with a slash at its end.

    :param around: folders of which no mount may show all: neither they nor what is above them. Toolchains that lie
        deeper may be seen.
    :param alone: such folders in which a program is seen without what lies beside it: repositories. An environment
        or a ``node_modules`` in them may be seen.
    :param secret: folders and files of which no mount may show anything.
    """

    around: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()

    def is_shown_by(self, path: Path) -> bool:
        """Whether somebody who sees ``path`` and what is below it sees something that is hidden."""
        real = _slashed(os.path.realpath(path))
        return real.startswith(self.secret) or any(
            place.startswith(real) for places in (self.around, self.alone, self.secret) for place in places
        )

    def holds(self, path: Path) -> bool:
        """Whether a path lies in one of these places."""
        places = (*self.around, *self.alone, *self.secret)
        return _slashed(str(path)).startswith(places) or _slashed(os.path.realpath(path)).startswith(places)


NOTHING_HIDDEN: Final = Hidden()


class Sight(msgspec.Struct, frozen=True):
    """What every command sees of a person's machine: what stays hidden, and what the person opened for reading."""

    hidden: Hidden = NOTHING_HIDDEN
    read_only: tuple[Path, ...] = ()


PLAIN_SIGHT: Final = Sight()
"""Nothing of anybody is hidden, and nothing was opened."""


def hide(home: Path, *, repositories: Iterable[Path] = (), secret: Iterable[Path] = ()) -> Hidden:
    """What is hidden of a person: the home with its keys and credentials, repositories, and what the caller adds.

    Every place counts under the path it is given as and under its real one. A home that is ``/`` (users of containers)
    is never shown, and is no reason to hide what lies in it.
    """
    return Hidden(
        _both(home / name for name in _CROWDED if name or home != Path("/")),
        _both(repositories),
        _both([*(home / name for name in _PRIVATE), *secret]),
    )


def _both(paths: Iterable[Path]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_slashed(place) for path in paths for place in (str(path), os.path.realpath(path))))


def _slashed(path: str) -> str:
    return path if path.endswith("/") else path + "/"


def confined(
    offer_level: Level,
    minimum: Level,
    *,
    network: bool,
    writable: Mapping[Path, Path],
    executables: Sequence[Path],
    read_only: Sequence[Path] = (),
    read_only_at: Mapping[Path, Path] = MappingProxyType({}),
    search_path: str = DEFAULT_PATH,
    hidden: Hidden = NOTHING_HIDDEN,
) -> Sandbox:
    """The best containment that can be had, with what the command needs to see.

    :param offer_level: what the runner offers. :param minimum: what is demanded.
    :param writable: folders it may change, host path -> path at which it sees them; moved ones need S3.
    :param executables: absolute paths of the programs it is known to need; their toolchain roots become visible,
        except inside a moved folder, which stands for what lies there.
    :param read_only: further files and folders that it may read, at their own paths; missing ones are left out.
    :param read_only_at: folders that it may read at other paths, host path -> path at which it sees them; needs S3.
    :param search_path: its PATH; toolchains that lie in no hidden folder become visible.
    :param hidden: what it must not see.
    :raises PortError: ``port.sandbox-level`` when less is offered than demanded.
    :raises UsageError: ``usage.view-hidden`` when a folder that was named shows something hidden.
    """
    refuse_level(minimum, offer_level)
    if offer_level == "S0":
        return Sandbox(level="S0", network=network)
    given = [Mount(source, target, writable=True) for source, target in writable.items()]
    given += [Mount(path, path) for path in read_only if path.exists()]
    given += [Mount(source, target) for source, target in read_only_at.items()]
    for mount in given:
        if hidden.is_shown_by(mount.source):
            raise UsageError(
                "usage.view-hidden",
                f"A command may not be shown {str(mount.source)!r}: it holds what is kept from every command.",
                untouched="The command was not started.",
                fix="Name a folder that holds only what the command needs.",
            )
    stand_ins = [target for source, target in writable.items() if source != target]
    needed = [
        Mount(root, root)
        for root in _toolchains(executables, search_path, hidden)
        if not any(root.is_relative_to(place) for place in stand_ins)
    ]
    return Sandbox(level=offer_level, network=network, mounts=arranged((*given, *needed)))


def _toolchains(executables: Iterable[Path], search_path: str, hidden: Hidden) -> Iterator[Path]:
    """What was found before is not looked for again, only looked at: it must be there still, and show nothing."""
    found = dict.fromkeys(_path_roots(search_path, hidden))
    for executable in executables:
        if executable.exists():
            found |= dict.fromkeys(_roots(executable, search_path, hidden))
    return (root for root in found if root.exists() and not hidden.is_shown_by(root))


def containment_of(ended: Ended, *, network: bool) -> Containment | None:
    """What contained a command that has ended; None for one that never ran.

    Below S2 there is no namespace that keeps the network away.
    """
    if not ended.layers and ended.verdict in {"spawn-error", "cancelled"}:
        return None
    is_open = network or ended.level < "S2"
    return Containment(level=ended.level, layers=as_set(ended.layers), network="open" if is_open else "none")


def arranged(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """The mounts without those that another covers, the outer before the inner; the first at a target wins. Pure."""
    by_target: dict[Path, Mount] = {}
    for mount in mounts:
        by_target.setdefault(mount.target, mount)
    kept: dict[Path, Mount] = {}
    for mount in sorted(by_target.values(), key=lambda mount: len(mount.target.parts)):
        above = next((kept[place] for place in mount.target.parents if place in kept), None)
        is_same = (
            above is not None
            and above.writable is mount.writable
            and above.source / mount.target.relative_to(above.target) == mount.source
        )
        if not is_same:
            kept[mount.target] = mount
    return tuple(kept.values())


def toolchain_roots(executable: Path, hidden: Hidden, *, search_path: str = DEFAULT_PATH) -> tuple[Path, ...]:
    """What must be visible beside the base system for a program to run, at the paths it is known by.

    :param executable: its absolute path. Every link on the way to the program counts, and for a script its interpreter.
    """
    return tuple(dict.fromkeys(_roots_of(executable, search_path, hidden)))


@lru_cache(maxsize=256)
def _roots(executable: Path, search_path: str, hidden: Hidden) -> tuple[Path, ...]:
    return toolchain_roots(executable, hidden, search_path=search_path)


def _roots_of(executable: Path, search_path: str, hidden: Hidden) -> Iterator[Path]:
    seen: set[Path] = set()
    waiting = [executable]
    while waiting:
        executable = waiting.pop(0)
        if executable in seen:
            continue
        seen.add(executable)
        for place in _steps(executable):
            for root in _places(place, hidden):
                if not _is_base(root):
                    yield root
        words = interpreter_words(script_head(executable), executable)
        if words:
            try:
                waiting.append(resolve_executable(words[0], search_path))
            except UsageError:
                continue  # it will not run, and that will be said when it is started


def _steps(executable: Path) -> Iterator[Path]:
    """The paths from a name to its file: each link at its end, as it is named and in its real folder."""
    place = executable
    for _ in range(_MAX_LINKS):
        real = Path(os.path.realpath(place.parent)) / place.name
        yield place
        if real != place:
            yield real
        if not real.is_symlink():
            return
        place = Path(os.path.normpath(real.parent / real.readlink()))


def _places(place: Path, hidden: Hidden) -> Iterator[Path]:
    """The roots of one path that leads to a program."""
    folder = place.parent
    environment = folder.parent
    store = next((store for store in _STORES if str(place).startswith(store + "/")), None)
    if store is not None:
        yield Path(store)
    elif "node_modules" in place.parts[:-1]:
        yield from _shown(Path(*place.parts[: place.parts.index("node_modules") + 1]), place, hidden)
    elif (environment / "pyvenv.cfg").is_file():
        yield from _shown(environment, place, hidden)
        base = _home_of(environment / "pyvenv.cfg")
        if base is not None:
            yield from _prefix(base, base / place.name, hidden)
            yield from _prefix(Path(os.path.realpath(base)), base / place.name, hidden)
    else:
        yield from _prefix(folder, place, hidden)


def _prefix(folder: Path, place: Path, hidden: Hidden) -> Iterator[Path]:
    """The folder above ``bin`` where it holds libraries, else the folder itself; what is hidden stays so."""
    above = folder.parent
    is_part = folder.name in _PROGRAMS and any((above / name).is_dir() for name in _WITH_PROGRAMS)
    if _slashed(str(folder)).startswith(hidden.alone):
        yield from _shown(Path("/"), place, hidden)
    elif is_part and above != Path("/") and not hidden.is_shown_by(above):
        yield above
    else:
        yield from _shown(folder, place, hidden)


def _shown(folder: Path, place: Path, hidden: Hidden) -> Iterator[Path]:
    """The folder, or the file alone where the folder shows something hidden, or nothing."""
    if folder != Path("/") and not hidden.is_shown_by(folder):
        yield folder
    elif place.is_file() and not hidden.is_shown_by(place):
        yield place


def _home_of(config: Path) -> Path | None:
    """The folder of the interpreter that a virtual environment was made from."""
    try:
        lines = config.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    for line in lines:
        name, sign, value = line.partition("=")
        if sign and name.strip() == "home" and value.strip().startswith("/"):
            return Path(os.path.normpath(value.strip()))
    return None


@lru_cache(maxsize=64)
def _path_roots(search_path: str, hidden: Hidden) -> tuple[Path, ...]:
    """The toolchains on a PATH that are nobody's private ones."""
    return tuple(_roots_on(search_path, hidden))


def _roots_on(search_path: str, hidden: Hidden) -> Iterator[Path]:
    for entry in dict.fromkeys(search_path.split(":")):
        folder = Path(os.path.normpath(entry))
        if entry.startswith("/") and not _is_base(folder) and folder.is_dir() and not hidden.holds(folder):
            yield from (root for root in _places(folder / "*", hidden) if not _is_base(root))


def _is_base(path: Path) -> bool:
    return _slashed(str(path)).startswith(_BASE)


def at_their_paths(*folders: Path) -> dict[Path, Path]:
    """Writable folders, each seen at its own path."""
    return {folder: folder for folder in folders}
