"""Reusing the checkout's toolchain: where its tools are, what they run in, and which folders may be linked.

Nothing of the checkout but the named folders is ever handed to a check. That a tool then judges the copy, and not the
checkout it was installed from, is proven in :mod:`evaluator.isolation`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from savant.contracts.digest import digest
from savant.contracts.errors import SavantError, UsageError
from savant.files.atomic import read_regular
from savant.process.environment import resolve_executable
from savant.process.shebang import interpreter_words, script_head

MAX_LOCK_BYTES: Final = 64 * 1024 * 1024
_PYTHON: Final = re.compile(r"(python|pypy)[0-9.]*[a-z]?")


class Toolchain(msgspec.Struct, frozen=True):
    """The folders of the checkout that may be reused, and where bare names are looked up after them."""

    checkout: Path | None
    folders: tuple[str, ...]
    search_path: tuple[Path, ...]

    def bin_folders(self) -> tuple[Path, ...]:
        """Where the tools of the reused folders are, before the person's own PATH."""
        if self.checkout is None:
            return self.search_path
        own = (self.checkout / folder / part for folder in self.folders for part in ("bin", ".bin"))
        return (*(path for path in own if path.is_dir()), *self.search_path)

    def path(self) -> str:
        """The bin folders as a PATH; it may be empty."""
        return ":".join(str(folder) for folder in self.bin_folders())

    def resolve(self, name: str) -> Path:
        """The absolute path of a tool.

        :raises UsageError: ``usage.executable-not-found``, ``usage.relative-executable``.
        """
        return resolve_executable(name, self.path())

    def digest(self) -> str | None:
        """The digest of what is installed in the reused folders, by name and version; None where there is nothing."""
        if self.checkout is None:
            return None
        facts = sorted(_facts(self.checkout, self.folders))
        return digest(json.dumps(facts).encode()) if facts else None


def without_checkout(toolchain: Toolchain) -> Toolchain:
    """Where tools are looked up that are not the checkout's: neither its folders nor any on the PATH that lie in it."""
    checkout = toolchain.checkout
    path = toolchain.search_path
    if checkout is not None:
        path = tuple(folder for folder in path if not folder.is_relative_to(checkout))
    return Toolchain(None, (), path)


def _facts(checkout: Path, folders: Sequence[str]) -> Iterator[list[str]]:
    for folder in folders:
        root = checkout / folder
        config = _read(root / "pyvenv.cfg")
        if config is not None:
            lines = config.decode("utf-8", "replace").splitlines()
            yield [folder, *(line for line in lines if line.startswith("version"))]
            for site in sorted(root.glob("lib/python*/site-packages/*.dist-info")):
                yield [folder, site.name]
        lock = _read(root / ".package-lock.json")
        if lock is not None:
            yield [folder, digest(lock)]


def _read(path: Path) -> bytes | None:
    try:
        return read_regular(path, max_bytes=MAX_LOCK_BYTES)
    except (SavantError, OSError):
        return None


class Interpreter(msgspec.Struct, frozen=True):
    """A Python, with the options it is started with: they say what of the environment it heeds."""

    path: Path
    options: tuple[str, ...] = ()


def interpreters_of(executable: Path, arguments: Sequence[str], toolchain: Toolchain) -> tuple[Interpreter, ...]:
    """The Pythons that a tool may import in: its own; for another tool, those it would find by name on its PATH.

    :raises UsageError: when the tool is a Python script whose interpreter cannot be found.
    """
    if _PYTHON.fullmatch(executable.name):
        return (Interpreter(executable, python_options(arguments)[0]),)
    own = interpreter_of(executable, toolchain)
    if own is not None:
        return (own,)
    found = []
    for name in ("python", "python3"):
        try:
            found.append(Interpreter(toolchain.resolve(name)))
        except UsageError:
            continue
    by_target: dict[tuple[Path, Path], Interpreter] = {}
    for interpreter in found:
        by_target.setdefault((interpreter.path.parent, interpreter.path.resolve()), interpreter)
    return tuple(by_target.values())


def python_options(arguments: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    """The options before what a Python runs, and what it runs: ``-m`` (or ``-c``), a script's path, or None."""
    options: list[str] = []
    words = iter(arguments)
    for word in words:
        if not word.startswith("-") or word == "-":
            return tuple(options), word
        if word.startswith("--"):
            options.append(word)
            continue
        for at, letter in enumerate(word[1:], start=1):
            if letter in "mc":
                options += [word[:at]] if at > 1 else []
                return tuple(options), "-m"
            if letter in "WX":
                options += [word] if at < len(word) - 1 else [word, next(words, "")]
                break
        else:
            options.append(word)
    return tuple(options), None


def interpreter_of(executable: Path, toolchain: Toolchain) -> Interpreter | None:
    """The Python that a script's first lines name; None for what is no Python script.

    Known are a plain path, ``env`` (looked up as the check would look it up), and the two lines that installers write
    where the path is too long or the environment may be moved.

    :raises UsageError: ``usage.executable-not-found`` when it is a Python script and its interpreter is not there.
    """
    words = interpreter_words(script_head(executable), executable)
    if not words or not _PYTHON.fullmatch(Path(words[0]).name):
        return None
    return Interpreter(toolchain.resolve(words[0]), tuple(words[1:]))


def leaking_link(folder: Path, checkout: Path) -> str | None:
    """A package of a ``node_modules`` folder that is a link into the checkout, and so would be judged instead."""
    own, inside = checkout.resolve(), folder.resolve()
    for entry in _packages(folder):
        if entry.is_symlink():
            target = entry.resolve()
            if target.is_relative_to(own) and not target.is_relative_to(inside):
                return str(entry.relative_to(folder))
    return None


def _packages(folder: Path) -> Iterator[Path]:
    """Everything that may be a package: scopes and what is in them, and the store of a linking installer."""
    for entry in sorted(folder.iterdir()):
        yield entry
        if entry.is_dir() and not entry.is_symlink():
            if entry.name.startswith("@"):
                yield from sorted(entry.iterdir())
            elif entry.name == ".pnpm":
                for store in (entry, *sorted(entry.iterdir())):
                    if (store / "node_modules").is_dir():
                        yield from _packages(store / "node_modules")


class Stand(msgspec.Struct, frozen=True):
    """Where tools see a ``node_modules`` of the checkout, and the copy in the checkout's place.

    :param checkout: the checkout's real path. :param seen_at: where the copy is seen in its place.
    :param modules: the ``node_modules``, a real path. :param modules_at: where it is seen.
    """

    checkout: Path
    seen_at: Path
    modules: Path
    modules_at: Path

    def package(self, entry: Path) -> Path:
        """Where a package is seen; one that is a link to the checkout's own files is seen in the copy."""
        real = entry.resolve()
        if entry.is_symlink() and real.is_relative_to(self.checkout) and not real.is_relative_to(self.modules):
            return self.seen_at / real.relative_to(self.checkout)
        return self.modules_at / (entry.parent.resolve() / entry.name).relative_to(self.modules)


def link_packages(folder: Path, target: Path, stand: Stand | None = None) -> None:
    """Make a ``node_modules`` in a copy whose packages are links to the checkout's.

    The folder itself and its scopes are the copy's own, so that what tools leave there (``.cache``, ``.vite-temp``)
    stays out of the checkout.

    :param stand: where tools see things, if not where they are.
    """
    target.mkdir(mode=0o755)
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("@") and entry.is_dir() and not entry.is_symlink():
            link_packages(entry, target / entry.name, stand)
        elif not entry.name.startswith(".") or entry.name in (".bin", ".pnpm", ".package-lock.json"):
            (target / entry.name).symlink_to(entry.absolute() if stand is None else stand.package(entry))
