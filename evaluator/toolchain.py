"""Reusing the checkout's toolchain without ever judging the checkout.

At sandbox level S0 the candidate's copy lies elsewhere than the checkout. An editable install (or an installed copy of
the project itself) would then make a test import the person's files and not the candidate's: a false pass. So before a
Python tool runs, its own interpreter is asked, in the very environment of the check, where every top-level name of the
copy would be imported from. If that is not the copy, the copy's source folders are put first on the path and it is
asked again. If the answer is still elsewhere, the check does not run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from savant.contracts.digest import digest
from savant.contracts.errors import SavantError, UsageError
from savant.files.atomic import read_regular
from savant.process.environment import resolve_executable

SOURCE_ROOTS: Final = ("", "src", "lib", "python")
"""Folders of a project whose packages are imported by their own name."""

MAX_NAMES: Final = 500
MAX_SCRIPT_HEAD: Final = 4_096

PROBE: Final = """\
import importlib.util, json, sys
found, spread = {}, []
for name in json.load(sys.stdin):
    try:
        spec = importlib.util.find_spec(name)
    except BaseException as error:
        found[name] = ["!" + type(error).__name__]
        continue
    if spec is None:
        continue
    where = list(spec.submodule_search_locations or ())
    if spec.origin not in (None, "built-in", "frozen", "namespace"):
        where.append(spec.origin)
    else:
        spread.append(name)
    found[name] = where
print(json.dumps({"stdlib": sorted(sys.stdlib_module_names), "found": found, "spread": spread}))
"""
"""Asks an interpreter where names would be imported from, without importing them."""


@dataclass(frozen=True, slots=True)
class Toolchain:
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

    def resolve(self, name: str) -> Path:
        """The absolute path of a tool.

        :raises UsageError: ``usage.executable-not-found``, ``usage.relative-executable``.
        """
        return resolve_executable(name, ":".join(str(folder) for folder in self.bin_folders()))

    def digest(self) -> str | None:
        """The digest of what is installed in the reused folders, by name and version; None where there is nothing."""
        if self.checkout is None:
            return None
        facts = sorted(_facts(self.checkout, self.folders))
        return digest(json.dumps(facts).encode()) if facts else None


def _facts(checkout: Path, folders: Sequence[str]) -> Iterator[list[str]]:
    for folder in folders:
        root = checkout / folder
        config = root / "pyvenv.cfg"
        if config.is_file():
            version = [line for line in config.read_text(errors="replace").splitlines() if line.startswith("version")]
            yield [folder, *version]
            for site in root.glob("lib/python*/site-packages"):
                yield from (
                    [folder, name]
                    for name in sorted(entry.name for entry in site.iterdir())
                    if name.endswith(".dist-info")
                )
        lock = root / ".package-lock.json"
        if lock.is_file():
            yield [folder, digest(lock.read_bytes())]


def interpreter_of(executable: Path) -> Path | None:
    """The Python interpreter that a tool runs in: itself, or the one its first line names; None for other tools."""
    if executable.name.startswith("python"):
        return executable
    try:
        head = read_regular(executable.resolve(), max_bytes=1 << 31)[:MAX_SCRIPT_HEAD]
    except SavantError:
        return None
    if not head.startswith(b"#!"):
        return None
    words = head.splitlines()[0][2:].split()
    if words and os.fsdecode(words[0]).endswith("/env") and len(words) > 1:
        return None
    if head.startswith(b"#!/bin/sh") and b"exec" in head.splitlines()[1][:20]:
        words = head.splitlines()[1].replace(b"'''exec'", b"").replace(b'"', b"").split()
    if not words:
        return None
    path = Path(os.fsdecode(words[0]))
    return path if path.is_absolute() and path.name.startswith("python") and path.exists() else None


def top_level_names(surface: Path) -> dict[str, str]:
    """Every importable top-level name of a copy, with the source root it lies in."""
    names: dict[str, str] = {}
    for root in SOURCE_ROOTS:
        folder = surface / root
        if not folder.is_dir() or folder.is_symlink():
            continue
        for entry in sorted(folder.iterdir()):
            name = entry.name.removesuffix(".py")
            is_module = entry.name.endswith(".py") and entry.is_file()
            is_package = entry.is_dir() and ((entry / "__init__.py").is_file() or any(entry.glob("*.py")))
            if name.isidentifier() and (is_module or is_package) and len(names) < MAX_NAMES:
                names.setdefault(name, root)
    return names


Ask = Callable[[Path, bytes, Mapping[str, str]], bytes | None]
"""Runs an interpreter with the probe: interpreter, standard input, extra environment -> its output, or None."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """What makes a tool judge the copy: extra environment; or, in ``problem``, why it cannot be had."""

    environment: Mapping[str, str]
    problem: str | None


def isolate(interpreter: Path, surface: Path, ask: Ask, *, wants_root: bool, checkout: Path | None = None) -> Isolation:
    """Prove that an interpreter imports the copy's packages from the copy.

    :param wants_root: the tool is run as ``python -m``, which looks in the working directory by itself.
    """
    names = top_level_names(surface)
    paths = [str(surface)] if wants_root else []
    outside = _outside(interpreter, surface, names, ask, paths, checkout)
    if outside is None:
        return Isolation(MappingProxyType({}), "the interpreter could not be asked where it imports from")
    if outside:
        roots = dict.fromkeys(str(surface / names[name]) if names[name] else str(surface) for name in outside)
        paths = [*roots, *(path for path in paths if path not in roots)]
        outside = _outside(interpreter, surface, names, ask, paths, checkout)
        if outside is None:
            return Isolation(MappingProxyType({}), "the interpreter could not be asked where it imports from")
    if outside:
        shown = ", ".join(sorted(outside)[:3])
        return Isolation(
            MappingProxyType({}),
            f"the tool would import {shown} from outside the candidate (an editable install or an installed copy)",
        )
    return Isolation(MappingProxyType({"PYTHONPATH": os.pathsep.join(paths)} if paths else {}), None)


def _outside(
    interpreter: Path,
    surface: Path,
    names: Mapping[str, str],
    ask: Ask,
    paths: Sequence[str],
    checkout: Path | None,
) -> set[str] | None:
    """The names that would be imported from outside the copy; None when the interpreter did not answer."""
    environment = {"PYTHONPATH": os.pathsep.join(paths)} if paths else {}
    raw = ask(interpreter, json.dumps(sorted(names)).encode(), environment)
    if raw is None:
        return None
    try:
        answer = json.loads(raw)
        stdlib, found = set(answer["stdlib"]), dict(answer["found"])
        spread = set(answer["spread"])
    except (ValueError, KeyError, TypeError):
        return None
    inside = str(surface.resolve()) + os.sep
    own = None if checkout is None else str(checkout.resolve()) + os.sep

    def leaks(name: str, places: Sequence[str]) -> bool:
        real = [os.path.realpath(place) + os.sep for place in places]
        if name in spread and real and real[0].startswith(inside):
            return own is not None and any(place.startswith(own) and not place.startswith(inside) for place in real)
        return any(not place.startswith(inside) for place in real)

    return {name for name, where in found.items() if name not in stdlib and leaks(name, where)}


def leaking_link(folder: Path, checkout: Path) -> str | None:
    """A package of a ``node_modules`` folder that is a link into the checkout, and so would be judged instead."""
    for entry in _packages(folder):
        if entry.is_symlink():
            target = entry.resolve()
            if target.is_relative_to(checkout.resolve()) and not target.is_relative_to(folder.resolve()):
                return entry.name
    return None


def _packages(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name.startswith("@") and entry.is_dir():
            yield from entry.iterdir()
        else:
            yield entry


def tool_not_found(error: UsageError) -> str:
    """Why a tool cannot be run, in words for a check that did not run."""
    return error.message
