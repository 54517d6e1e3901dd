"""What is called pure has no effects: no clock, no files, no processes, no randomness, nothing printed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

EFFECTS = frozenset({
    "asyncio", "fcntl", "glob", "http", "io", "logging", "mmap", "multiprocessing", "os", "random", "secrets",
    "select", "shutil", "signal", "socket", "sqlite3", "subprocess", "tempfile", "time", "urllib", "uuid",
})  # fmt: skip
CALLS = frozenset({"open", "print", "input", "exec", "eval", "__import__", "Path", "Thread", "Timer"})
OWNERS = frozenset({"Path", "threading", "date", "datetime"})
ALLOWED = frozenset({"threading.Lock"})
"""``Path`` may be named as a type, and a lock guards a value; neither reaches outside."""


def effects(tree: ast.Module) -> Iterator[str]:
    """The effect modules that a module imports and the effects that it calls by name."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name.partition(".")[0] in EFFECTS)
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in EFFECTS:
                yield module
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                yield f"{name}()"
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)) if owner in OWNERS:
                if f"{owner}.{name}" not in ALLOWED:
                    yield f"{owner}.{name}()"


def test_every_pattern_of_the_pure_list_names_a_module(root: Path, project: dict[str, Any]) -> None:
    """The list that coverage is demanded of has not gone stale."""
    stale = [pattern for pattern in project["tool"]["savant"]["pure"] if not list(root.glob(pattern))]
    assert stale == []


def test_a_pure_module_has_no_effects(root: Path, project: dict[str, Any]) -> None:
    """Time, randomness, files and processes come in through ports, also in the modules that decide."""
    found = {
        f"{path.relative_to(root)}: {effect}"
        for pattern in project["tool"]["savant"]["pure"]
        for path in root.glob(pattern)
        for effect in effects(ast.parse(path.read_bytes()))
    }
    assert found == set()


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from os import path",
        "import urllib.request",
        "open('x')",
        "print(1)",
        "datetime.now()",
        "Path('x').exists()",
        "Path.cwd()",
        "threading.Thread(target=f).start()",
    ],
)
def test_an_effect_would_be_noticed(source: str) -> None:
    """The positive control."""
    assert list(effects(ast.parse(source)))
    assert list(effects(ast.parse("import datetime\nlock = threading.Lock()\ndef f() -> Path: ..."))) == []
