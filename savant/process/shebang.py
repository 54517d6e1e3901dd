"""What a script's first lines execute: a plain path, ``env`` with a name, or the two lines that installers write."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

MAX_SCRIPT_HEAD: Final = 4_096
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def script_head(path: Path) -> str:
    """The first :data:`MAX_SCRIPT_HEAD` bytes of a script; empty for what is no script or cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(MAX_SCRIPT_HEAD)
    except OSError:
        return ""
    return head.decode("utf-8", "surrogateescape") if head.startswith(b"#!") else ""


def interpreter_words(head: str, script: Path) -> tuple[str, ...]:
    """The interpreter that a script's first lines name, and the options they give it; nothing for no script.

    The first word is an absolute path, or a bare name that ``env`` would look up. Installers write a second line that
    executes the real one where its path is too long for the first, or where the environment may be moved.
    """
    if not head.startswith("#!"):
        return ()
    lines = head.splitlines()
    words = lines[0][2:].split()
    if words and words[0].endswith("/env"):
        del words[0]
        while words and (words[0].startswith("-") or _ASSIGNMENT.match(words[0])):
            del words[0]
    elif words and words[0].endswith("/sh") and len(lines) > 1 and lines[1].startswith("'''exec' "):
        words = _executed(lines[1], script)
    return tuple(words)


def _executed(line: str, script: Path) -> list[str]:
    """What the second line of an installer's script executes, up to the script itself."""
    if "$(dirname" in line:
        name = line.rpartition("/")[2].partition('"')[0].strip("' ")
        return [str(script.resolve().parent / name)]
    try:
        words = shlex.split(line)[1:]
    except ValueError:
        return []
    return words[: words.index("$0")] if "$0" in words else words
