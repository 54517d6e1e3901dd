"""Held-out checks: a suite from outside the repository that nobody who generates has seen.

It is committed by digest before anything is generated, runs on the sealed candidate when every other check would let it
pass, and is revealed then. What it found never goes back to a provider: it ends the work, so it is no oracle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

import msgspec

from evaluator.documents import Suite, SuiteFile
from providerport.port import BaseReader, FileMode
from runner.materialize import read_overlaid
from savant.contracts.digest import digest
from savant.contracts.document import Sealed, seal
from savant.files.paths import to_text

FOLDER: Final = b".savant-held-out"
"""Where the suite lies in the copy that it judges."""

PLACEHOLDER: Final = "{suite}"
"""What stands for that folder in the command."""


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
        return read_overlaid(self._tree, paths, self._files.get)


def is_taken(tree: BaseReader) -> bool:
    """Whether a tree has something where the suite would lie."""
    return any(path == FOLDER or path.startswith(FOLDER + b"/") for path in tree.paths())
