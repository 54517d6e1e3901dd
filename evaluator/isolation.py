"""Proof that a Python tool judges the candidate's copy, and not what it was installed from.

Below sandbox level S3 the copy lies elsewhere than the checkout. An editable install (or an installed copy of the
project itself) would then make a test import the person's files and not the candidate's: a false pass. So before a tool
runs, its own interpreter is asked, with its own options and in the very environment of the check, where every name that
the copy defines would be imported from. What is found elsewhere is put first on the path: the copy's folder that holds
it, and for what the candidate removed but the checkout still has, a module that is "not found". Then it is asked again.
If the answer is still elsewhere, the check does not run.

At S3 the copy is seen at the checkout's path and the checkout is not there: what an editable install leads to *is* the
copy. The same questions are asked there, because an installed copy of the project can still come first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from evaluator.grounds import Grounds, grounds_of
from evaluator.toolchain import Interpreter, Toolchain

SOURCE_ROOTS: Final = ("", "src", "lib", "python")
"""Folders of a project whose packages are imported by their own name."""

AUXILIARY: Final = frozenset(
    {"tests", "test", "docs", "doc", "examples", "example", "scripts", "tools", "benchmarks", "bench"}
)
"""Folders of a project that some other installed distribution may own the name of; no tool imports them by it."""

MAX_NAMES: Final = 50_000
MAX_DEPTH: Final = 4

PROBE: Final = """\
import importlib.util, json, os, sys
found, spread, places, projects = {}, [], [], []
for name, module in list(sys.modules.items()):
    mapping = getattr(module, "MAPPING", None) if name.startswith("__editable__") else None
    if isinstance(mapping, dict):
        places += [str(place) for place in mapping.values()]
for folder in sys.path:
    try:
        found_here = [entry for entry in os.listdir(folder or ".") if entry.endswith(".dist-info")]
    except OSError:
        continue
    for entry in found_here:
        try:
            with open(os.path.join(folder, entry, "direct_url.json"), encoding="utf-8") as file:
                direct = json.load(file)
            if direct["dir_info"]["editable"]:
                projects.append(str(direct["url"]))
        except (OSError, ValueError, LookupError, TypeError):
            continue
for name in json.load(sys.stdin):
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        continue
    except BaseException:
        found[name] = []
        continue
    if spec is None:
        continue
    where = [str(place) for place in spec.submodule_search_locations or ()]
    if spec.origin not in (None, "built-in", "frozen", "namespace"):
        where.append(str(spec.origin))
    else:
        spread.append(name)
    found[name] = where
print()
print(json.dumps({"stdlib": sorted(sys.stdlib_module_names), "found": found, "spread": spread, "path": sys.path,
    "places": places, "projects": projects, "prefix": sys.prefix}))
"""
"""Asks an interpreter where names would be imported from, without importing them."""

ABSENT: Final = "raise ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)\n"
"""A module that is not there."""

Ask = Callable[[Interpreter, bytes, Mapping[str, str]], bytes | None]
"""Runs an interpreter with the probe: interpreter, standard input, extra environment -> its output, or None."""


class _Answer(msgspec.Struct, frozen=True):
    stdlib: frozenset[str]
    found: dict[str, list[str]]
    spread: frozenset[str]
    path: list[str]
    places: list[str]
    projects: list[str]
    prefix: str


class Isolation(msgspec.Struct, frozen=True):
    """What makes a tool judge the copy: extra environment; or, in ``problem``, why it cannot be had."""

    environment: Mapping[str, str] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    problem: str | None = None


def isolate(
    interpreter: Interpreter,
    surface: Path,
    ask: Ask,
    toolchain: Toolchain,
    absent: Path,
    *,
    wanted: tuple[str, ...] = (),
    seen_at: Path | None = None,
    hides_checkout: bool = False,
    roots: tuple[str, ...] = SOURCE_ROOTS,
) -> Isolation:
    """Prove that an interpreter imports the copy's modules from the copy.

    :param absent: an existing folder outside the copy for the modules that are not there.
    :param wanted: folders of the copy that the tool expects on its path, as ``python -m`` does the working directory.
    :param seen_at: the path at which the interpreter sees the copy, where that is not its own: the checkout's, with
        the toolchain's folders over it and nothing else of the checkout.
    :param hides_checkout: the checkout is there, and nothing of it but the toolchain's folders can be read.
    :param roots: the folders of the copy below which its modules are.
    """
    grounds = grounds_of(surface, seen_at, absent, toolchain)
    paths = list(wanted)
    names = module_names(surface, roots)
    gone: dict[str, str] = {}
    answer = _asked(ask, interpreter, names, paths)
    mirrored = [] if answer is None else _mirrored(answer, grounds)
    if answer is not None and hides_checkout:
        # What lies there is not found, and is not elsewhere either: the copy's folders stand in for unreadable ones.
        paths = [*dict.fromkeys(str(surface / root) for root in _imported_from(answer.path, answer, grounds)), *paths]
    if grounds.checkout is not None and mirrored:
        names = {**module_names(surface, mirrored), **names}
        there = {} if grounds.is_moved else module_names(grounds.checkout, mirrored, without=grounds.kept)
        gone = {name: root for name, root in there.items() if name not in names}
        answer = _asked(ask, interpreter, (*names, *gone), paths)
    if len(names) > MAX_NAMES or len(gone) > MAX_NAMES:
        return Isolation(problem=f"there are more than {MAX_NAMES} modules to look at")
    outside = None if answer is None else _outside(answer, names, gone, grounds)
    if outside:
        paths = [*dict.fromkeys(str(grounds.seen_at / names[name]) for name in outside if name in names), *paths]
        _write_absent(absent, [name for name in outside if name in gone])
        paths = [*dict.fromkeys([*paths, str(absent)])]
        answer = _asked(ask, interpreter, (*names, *gone), paths)
        outside = None if answer is None else _outside(answer, names, gone, grounds)
    if outside is None:
        return Isolation(problem="the interpreter could not be asked where it imports from")
    if outside:
        shown = ", ".join(sorted(outside)[:3])
        return Isolation(
            problem=f"the tool would import {shown} from outside the candidate "
            "(an editable install or an installed copy)"
        )
    return Isolation(MappingProxyType({"PYTHONPATH": os.pathsep.join(paths)} if paths else {}))


def source_roots(start: str | None) -> tuple[str, ...]:
    """The folders of a tree below which modules are, for a tool that starts in this one; None for the tree itself."""
    own = () if start is None else tuple(f"{start}/{root}".rstrip("/") for root in SOURCE_ROOTS)
    return (*own, *SOURCE_ROOTS)


def _asked(ask: Ask, interpreter: Interpreter, names: Iterable[str], paths: Iterable[str]) -> _Answer | None:
    joined = os.pathsep.join(paths)
    raw = ask(interpreter, json.dumps(sorted(names)).encode(), {"PYTHONPATH": joined} if joined else {})
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw.splitlines()[-1], type=_Answer)
    except (msgspec.DecodeError, IndexError, RecursionError):
        return None


def _mirrored(answer: _Answer, grounds: Grounds) -> list[str]:
    """The folders of the checkout (or of the copy in its place) that are imported from, as folders of the copy."""
    holders = [*answer.path, *(os.path.dirname(place) for place in answer.places)]  # noqa: PTH120
    for url in answer.projects:
        parts = urlsplit(url)
        if parts.scheme == "file":
            holders += [os.path.join(unquote(parts.path), root) for root in SOURCE_ROOTS]  # noqa: PTH118
    return _imported_from(holders, answer, grounds)


def _imported_from(holders: Iterable[str], answer: _Answer, grounds: Grounds) -> list[str]:
    found = (grounds.root_of(holder, answer.prefix) for holder in holders if holder.startswith("/"))
    return [*dict.fromkeys("" if str(place) == "." else str(place) for place in found if place is not None)]


def _outside(answer: _Answer, names: Mapping[str, str], gone: Mapping[str, str], grounds: Grounds) -> frozenset[str]:
    """The names that would be imported from where they must not."""

    def leaks(name: str, places: list[str]) -> bool:
        if name in names and _is_hidden(name, answer, names[name], grounds):
            return False
        if name in gone:
            return any(grounds.of_checkout(place, answer.prefix) is not None for place in places[:1])
        judged = places[:1] if name in answer.spread else places
        if judged and all(grounds.is_inside(place) for place in judged):
            return False
        is_other = name.partition(".")[0] in AUXILIARY and names[name] == ""
        return not is_other or any(grounds.of_checkout(place, answer.prefix) is not None for place in places)

    known = {*names, *gone}
    return frozenset(
        name
        for name, places in answer.found.items()
        if name in known and name.partition(".")[0] not in answer.stdlib and leaks(name, places)
    )


def _is_hidden(name: str, answer: _Answer, root: str, grounds: Grounds) -> bool:
    """Whether an installed package hides a folder of scripts that has its name (``alembic/env.py``) from every import.

    A folder without ``__init__.py`` never wins against a package, so no tool imports it by that name; neither in the
    copy nor in the checkout may it be a package itself.
    """
    top = name.partition(".")[0]
    places = answer.found.get(top, ())
    if not places or top in answer.spread:
        return False
    if any(grounds.is_inside(place) or grounds.of_checkout(place, answer.prefix) is not None for place in places):
        return False
    trees = (grounds.surface,) if grounds.checkout is None else (grounds.surface, grounds.checkout)
    forms = (f"{top}.py", f"{top}/__init__.py")
    return not any((tree / root / form).exists() for tree in trees for form in forms)


def module_names(folder: Path, roots: Iterable[str], without: tuple[Path, ...] = ()) -> dict[str, str]:
    """Every importable name below the source roots of a folder, down through namespace packages, with its root.

    :returns: at most one name more than :data:`MAX_NAMES`.
    """
    names: dict[str, str] = {}
    for root in roots:
        start = folder / root
        if start.is_dir() and not start.is_symlink():
            for name in _names(start, without, MAX_DEPTH):
                names.setdefault(name, root)
                if len(names) > MAX_NAMES:
                    return names
    return names


def _names(folder: Path, without: tuple[Path, ...], depth: int) -> Iterator[str]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        name = entry.name.removesuffix(".py")
        if not name.isidentifier() or name.startswith("__"):
            continue
        if entry.name.endswith(".py") and entry.is_file():
            yield name
        elif entry.is_dir() and entry not in without and entry.resolve() not in without:
            if (entry / "__init__.py").is_file():
                yield name
            elif depth > 1 and not entry.is_symlink():
                inner = [f"{name}.{child}" for child in _names(entry, without, depth - 1)]
                if inner:
                    yield name
                    yield from inner


def _write_absent(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        path = folder.joinpath(*name.split("."))
        if not path.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_name(path.name + ".py").write_text(ABSENT, encoding="utf-8")
