"""What a model does with an agent's tools, under whatever name the agent offers them.

A model is told names and parameters and follows them; so does this. Where an agent has no tool for a file, its shell
does.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

Offered: TypeAlias = Mapping[str, tuple[str, ...] | None]
Named: TypeAlias = tuple[str, dict[str, Any] | str]
"""A tool's name and its arguments; text for a tool that takes plain text."""


class Read(msgspec.Struct, frozen=True):
    """Look at a file; some agents want that before an edit."""

    path: str


class Write(msgspec.Struct, frozen=True):
    """Create or replace a file; the content ends with a line feed."""

    path: str
    content: str


class Edit(msgspec.Struct, frozen=True):
    """Replace one whole line of a file."""

    path: str
    old: str
    new: str


class Shell(msgspec.Struct, frozen=True):
    """Run a shell command."""

    command: str


Tool: TypeAlias = Read | Write | Edit | Shell

_READS: Final = ("Read", "read_file", "read")
_WRITES: Final = ("Write", "write_file", "write")
_EDITS: Final = ("Edit", "replace", "edit")
_SHELLS: Final = ("Bash", "bash", "exec_command", "shell_command", "run_shell_command", "shell")
_PATHS: Final = ("file_path", "filePath", "absolute_path", "path")
_OLDS: Final = ("old_string", "oldString")
_NEWS: Final = ("new_string", "newString")
_COMMANDS: Final = ("cmd", "command")


def named(tool: Tool, offered: Offered) -> Named | None:
    """The call of a tool by what is on offer; None when nothing there can do it."""
    match tool:
        case Read(path):
            own = _call(offered, _READS, lambda keys: {_one(keys, _PATHS): path})
            return own or _shell(offered, f"cat {shlex.quote(path)}")
        case Write(path, content):
            own = _call(offered, _WRITES, lambda keys: {_one(keys, _PATHS): path, "content": content})
            return own or _patch(offered, _added(path, content)) or _shell(offered, _written(path, content))
        case Edit(path, old, new):
            own = _call(
                offered,
                _EDITS,
                lambda keys: {_one(keys, _PATHS): path, _one(keys, _OLDS): old, _one(keys, _NEWS): new},
            )
            return own or _patch(offered, _changed(path, old, new)) or _shell(offered, _replaced(path, old, new))
        case Shell(command):
            return _shell(offered, command)


def _call(
    offered: Offered, names: tuple[str, ...], arguments: Callable[[tuple[str, ...]], dict[str, Any]]
) -> Named | None:
    for name in names:
        keys = offered.get(name)
        if keys is not None:
            extra = {"instruction": "as planned"} if "instruction" in keys else {}
            return name, {**arguments(keys), **extra}
    return None


def _one(keys: tuple[str, ...], known: tuple[str, ...]) -> str:
    return next((name for name in known if name in keys), known[0])


def _patch(offered: Offered, text: str) -> Named | None:
    if "apply_patch" not in offered:
        return None
    keys = offered["apply_patch"]
    return "apply_patch", text if keys is None else {(keys or ("input",))[0]: text}


def _shell(offered: Offered, command: str) -> Named | None:
    for name in _SHELLS:
        keys = offered.get(name)
        if keys is not None:
            words: Any = ["bash", "-lc", command] if name == "shell" else command
            extra = {"description": "a step of the plan"} if "description" in keys else {}
            return name, {_one(keys, _COMMANDS): words, **extra}
    return None


def _added(path: str, content: str) -> str:
    lines = "".join(f"+{line}\n" for line in content.splitlines())
    return f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch"


def _changed(path: str, old: str, new: str) -> str:
    return f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch"


def _written(path: str, content: str) -> str:
    folder = f"mkdir -p {shlex.quote(path.rpartition('/')[0])} && " if "/" in path else ""
    return f"{folder}printf %s {shlex.quote(content)} > {shlex.quote(path)}"


def _replaced(path: str, old: str, new: str) -> str:
    program = "import sys; p, old, new = sys.argv[1:]; t = open(p).read(); open(p, 'w').write(t.replace(old, new, 1))"
    return f"python3 -c {shlex.quote(program)} {shlex.quote(path)} {shlex.quote(old)} {shlex.quote(new)}"
