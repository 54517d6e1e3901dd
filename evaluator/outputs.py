"""What a preparation left: bounded, inside, read-only, and the same whenever it is used again.

A prepared folder comes from commands that a candidate may have had a say in. A link or an interpreter in it that leads
to a place which those commands did not see would show it to every check, so it is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from savant.contracts.digest import new_hasher, to_text
from savant.contracts.errors import RefusedInput
from savant.process.port import Sandbox
from savant.process.shebang import interpreter_words, script_head
from savant.process.view import BASE_FOLDERS

MAX_ENTRIES: Final = 400_000
MAX_BYTES: Final = 8 * 1024 * 1024 * 1024
MAX_CONFIG_BYTES: Final = 64 * 1024
_PROGRAMS: Final = frozenset({"bin", ".bin", "sbin"})


def verify_outputs(
    tree: Path,
    outputs: Sequence[str],
    sandboxes: Sequence[Sandbox],
    *,
    max_entries: int = MAX_ENTRIES,
    max_bytes: int = MAX_BYTES,
) -> None:
    """Return if every output is a folder of the tree, within bounds, and leads to nothing that its makers did not see.

    :param sandboxes: what the commands that made it saw; what they could write beside the tree is not kept.

    :raises RefusedInput: ``refused.prepared``.
    """
    is_contained = all(sandbox.level != "S0" for sandbox in sandboxes)
    mounts = (mount for sandbox in sandboxes for mount in sandbox.mounts if not mount.writable)
    allowed = [tree.resolve(), *map(Path, BASE_FOLDERS), *(mount.source.resolve() for mount in mounts)]
    entries, size = 0, 0
    try:
        for output in outputs:
            if not is_folder(tree, output):
                raise _refused(f"it made no folder {output}")
            for path, facts in _walk(tree / output):
                entries, size = entries + 1, size + facts.st_size
                if entries > max_entries or size > max_bytes:
                    raise _refused(f"it made more than {max_entries} files or {max_bytes} bytes")
                kind = stat.S_IFMT(facts.st_mode)
                if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
                    raise _refused(f"it made {path.relative_to(tree)}, which is no file, folder or link")
                if is_contained and not all(_is_in(place, allowed) for place in _leads_to(path, kind)):
                    raise _refused(f"{path.relative_to(tree)} leads to a place that it did not see, or is not kept")
    except OSError as error:
        raise _refused(f"what it made cannot be read: {error.strerror}") from error


def is_folder(tree: Path, name: str) -> bool:
    """Whether a tree has a folder at a path, reached without a link."""
    place = tree
    for part in Path(name).parts:
        place = place / part
        if place.is_symlink() or not place.is_dir():
            return False
    return True


def make_read_only(tree: Path) -> None:
    """Take away the right to write from every file and folder below a tree."""
    for path, facts in _walk(tree):
        if not stat.S_ISLNK(facts.st_mode):
            path.chmod(stat.S_IMODE(facts.st_mode) & ~0o222)


def inventory(tree: Path) -> str:
    """The digest of every name below a tree with its kind, size and times, by which a change shows."""
    hasher = new_hasher()
    for path, facts in _walk(tree):
        # The kernel alone sets the time of the last change; a folder's size says nothing.
        size = 0 if stat.S_ISDIR(facts.st_mode) else facts.st_size
        row = (facts.st_mode, size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino)
        hasher.update(b"%s\0%d %d %d %d %d\n" % (os.fsencode(path), *row))
    return to_text(hasher.digest())


def _walk(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything below a folder and the folder itself, in one order; no link is followed."""
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        facts = path.lstat()
        yield path, facts
        if stat.S_ISDIR(facts.st_mode):
            waiting += sorted(path.iterdir(), reverse=True)


def _leads_to(path: Path, kind: int) -> Iterator[Path]:
    """The places that a file names and a check would be shown: a link's, an interpreter's, an environment's base."""
    if kind == stat.S_IFLNK:
        yield path.parent / path.readlink()
    elif kind != stat.S_IFREG:
        return
    elif path.parent.name in _PROGRAMS:
        words = interpreter_words(script_head(path), path)
        yield from (Path(word) for word in words[:1] if word.startswith("/") and os.path.lexists(word))
    elif path.name == "pyvenv.cfg":
        with path.open("r", encoding="utf-8", errors="replace") as config:
            lines = config.read(MAX_CONFIG_BYTES).splitlines()
        for line in lines:
            name, sign, value = line.partition("=")
            if sign and name.strip() == "home" and value.strip():
                yield path.parent / value.strip()


def _is_in(place: Path, roots: Sequence[Path]) -> bool:
    real = Path(os.path.realpath(place))
    return any(real.is_relative_to(root) for root in roots)


def _refused(why: str) -> RefusedInput:
    return RefusedInput("refused.prepared", why)
