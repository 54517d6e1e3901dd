"""What steps that prepare see of a tree: the files that they name, and the digest by which trees share the result."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from evaluator.documents import PrepareConfig
from providerport.port import BaseReader, FileMode
from runner.materialize import read_all
from savant.contracts.canonical import encode_struct
from savant.contracts.digest import digest
from savant.files.paths import to_raw, to_text
from savant.files.patterns import PatternSet


class LockedTree:
    """The files of a tree that steps may see, as a :class:`providerport.port.BaseReader`.

    They are regular ones; what a tree has where the steps make their outputs is none of them.
    """

    def __init__(self, steps: Sequence[PrepareConfig], tree: BaseReader) -> None:
        patterns = PatternSet.parse(sorted({pattern for step in steps for pattern in step.locks}))
        made = tuple(to_raw(output) + b"/" for step in steps for output in step.outputs)
        self._tree = tree
        self._modes: dict[bytes, FileMode] = {}
        for path in tree.paths():
            if patterns.matches(path) and not path.startswith(made):
                mode = tree.mode(path)
                if mode in ("regular", "executable"):
                    self._modes[path] = mode

    def mode(self, path: bytes) -> FileMode | None:
        """The mode of a path; None for what no step sees."""
        return self._modes.get(path)

    def read(self, path: bytes) -> bytes:
        """The content of a file. Errors as the tree's."""
        return self._tree.read(path)

    def paths(self) -> Iterator[bytes]:
        """Every path, in byte order."""
        return iter(sorted(self._modes))

    def read_many(self, paths: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The contents of many paths, in any order. Errors as the tree's."""
        return read_all(self._tree, paths)


def prepared_digest(steps: Sequence[PrepareConfig], tree: BaseReader) -> str:
    """The digest of the steps of a policy and of those files of a tree that they see. Pure but for reading the tree.

    Trees that have it in common share what is prepared on one machine. Errors as reading a tree.
    """
    locked = LockedTree(steps, tree)
    files = sorted(read_all(locked, list(locked.paths())))
    facts = {
        "steps": [digest(encode_struct(step)) for step in steps],
        "locks": [[to_text(path), locked.mode(path), digest(data)] for path, data in files],
    }
    return digest(json.dumps(facts, sort_keys=True).encode())


def step_words(step: PrepareConfig) -> str:
    """A step for a person: its name, that it has the network if it has, and its command."""
    network = " (network: open)" if step.network == "open" else ""
    return f"{step.id}{network}: {' '.join(step.argv)}"
