"""Held-out checks: a suite from outside the repository that nobody who generates has seen.

It is committed by digest before anything is generated, runs on the sealed candidate when every other check would let it
pass, and is revealed then. What it found never goes back to a provider: it ends the work, so it is no oracle.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from evaluator.documents import Suite, SuiteFile
from providerport.port import BaseReader, FileMode
from runner.materialize import read_all
from savant.contracts.digest import digest
from savant.contracts.document import Sealed, seal
from savant.contracts.errors import RefusedInput
from savant.files.paths import check_path, to_text
from savant.files.tree import disk_error, open_root, read_file_at

FOLDER: Final = b".savant-held-out"
"""Where the suite lies in the copy that it judges."""

PLACEHOLDER: Final = "{suite}"
"""What stands for that folder in the command."""

MAX_FILES: Final = 5_000
MAX_BYTES: Final = 64 * 1024 * 1024


class HeldOut(msgspec.Struct, frozen=True, dict=True):
    """The files of a suite by their paths in it."""

    files: Mapping[bytes, bytes]

    @cached_property
    def document(self) -> Sealed[Suite]:
        """What is committed to, and revealed afterwards."""
        return seal(
            Suite(
                files=tuple(
                    SuiteFile(path=to_text(path), content_digest=digest(data), size_bytes=len(data))
                    for path, data in sorted(self.files.items())
                )
            )
        )


class SuiteTree:
    """A tree with a suite laid into it, as a :class:`providerport.port.BaseReader`."""

    def __init__(self, tree: BaseReader, suite: HeldOut) -> None:
        self._tree = tree
        self._files = {FOLDER + b"/" + path: data for path, data in suite.files.items()}

    def mode(self, path: bytes) -> FileMode | None:
        """The mode of a path; None for nothing and for a folder."""
        return "regular" if path in self._files else self._tree.mode(path)

    def read(self, path: bytes) -> bytes:
        """The content of a file. Errors as the tree's."""
        return self._files[path] if path in self._files else self._tree.read(path)

    def paths(self) -> Iterator[bytes]:
        """Every path that is not a folder, in byte order."""
        return iter(sorted({*self._tree.paths(), *self._files}))

    def read_many(self, paths: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The contents of many paths: the suite's first."""
        others: list[bytes] = []
        for path in paths:
            if path in self._files:
                yield path, self._files[path]
            else:
                others.append(path)
        yield from read_all(self._tree, others)


def is_taken(tree: BaseReader) -> bool:
    """Whether a tree has something where the suite would lie."""
    return any(path == FOLDER or path.startswith(FOLDER + b"/") for path in tree.paths())


def read_suite(folder: Path) -> HeldOut:
    """The files of a suite's folder; bytecode is left out.

    :raises RefusedInput: ``refused.held-out`` for an empty or large one, or one with anything but files and folders.
    :raises PortError: as reading files.
    """
    files: dict[bytes, bytes] = {}
    left = MAX_BYTES
    with open_root(folder) as root:
        for path in _paths(folder):
            check_path(path)
            data = read_file_at(root, path, max_bytes=max(left, 0))
            left -= len(data)
            files[path] = data
            if len(files) > MAX_FILES:
                raise _refused(folder, f"has more than {MAX_FILES} files")
    if not files:
        raise _refused(folder, "holds no file")
    return HeldOut(files)


def _paths(folder: Path, prefix: bytes = b"") -> Iterator[bytes]:
    try:
        entries = sorted(os.scandir(os.fsencode(folder)), key=lambda entry: entry.name)
    except OSError as error:
        raise disk_error(error, str(folder)) from error
    for entry in entries:
        path = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            if entry.name != b"__pycache__":
                yield from _paths(folder / os.fsdecode(entry.name), path + b"/")
        elif entry.is_file(follow_symlinks=False):
            yield path
        else:
            raise _refused(folder, f"holds {to_text(path)!r}, which is no file")


def _refused(folder: Path, why: str) -> RefusedInput:
    return RefusedInput(
        "refused.held-out",
        f"The held-out suite {folder} {why}.",
        untouched="No provider was called and nothing was written.",
        fix="Name a folder that holds nothing but the files of the suite.",
    )
