"""What steps that prepare see of a tree, and the digest by which trees share the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hypothesis import given
from hypothesis import strategies as st

from evaluator.documents import PrepareConfig
from evaluator.locks import LockedTree, prepared_digest, step_words
from providerport.port import FileMode
from savant.contracts.scalars import as_set

STEP = PrepareConfig(
    id="deps",
    argv=("npm", "ci"),
    directory=None,
    locks=as_set(("*.lock", "sub/deps.txt")),
    outputs=("out",),
    network="open",
    timeout_ms=1,
)


class Tree:
    """A tree in memory."""

    def __init__(self, files: Mapping[bytes, tuple[FileMode, bytes]]) -> None:
        self._files = files

    def mode(self, path: bytes) -> FileMode | None:
        return self._files[path][0] if path in self._files else None

    def read(self, path: bytes) -> bytes:
        return self._files[path][1]

    def paths(self) -> Iterator[bytes]:
        return iter(sorted(self._files))


NAMES = st.sampled_from([b"a.lock", b"b.lock", b"sub/deps.txt", b"sub/c.lock", b"out/d.lock", b"out", b"other"])
MODES: st.SearchStrategy[FileMode] = st.sampled_from(["regular", "executable", "symlink", "gitlink"])
TREES = st.dictionaries(NAMES, st.tuples(MODES, st.binary(max_size=2)))


def seen(files: Mapping[bytes, tuple[FileMode, bytes]]) -> dict[bytes, tuple[FileMode, bytes]]:
    """By the rule, not by its code: named by a pattern, a regular file, not below an output."""
    named = {b"a.lock", b"b.lock", b"sub/deps.txt", b"sub/c.lock"}
    return {path: file for path, file in files.items() if path in named and file[0] in ("regular", "executable")}


@given(TREES)
def test_steps_see_the_regular_files_that_are_named(files: dict[bytes, tuple[FileMode, bytes]]) -> None:
    """No link, no submodule, nothing below an output, nothing else."""
    locked = LockedTree((STEP,), Tree(files))
    expected = seen(files)
    assert list(locked.paths()) == sorted(expected)
    assert dict(locked.read_many(list(expected))) == {path: data for path, (_, data) in expected.items()}
    for path, file in files.items():
        assert locked.mode(path) == (file[0] if path in expected else None)
        assert path not in expected or locked.read(path) == file[1]


@given(TREES, TREES)
def test_trees_share_a_digest_if_steps_see_the_same(
    one: dict[bytes, tuple[FileMode, bytes]], other: dict[bytes, tuple[FileMode, bytes]]
) -> None:
    """And only then; other steps have another one."""
    first, second = prepared_digest((STEP,), Tree(one)), prepared_digest((STEP,), Tree(other))
    assert (first == second) is (seen(one) == seen(other))
    assert prepared_digest((STEP, STEP), Tree(one)) != first


def test_a_step_in_words() -> None:
    """The network is named where it is open."""
    assert step_words(STEP) == "deps (network: open): npm ci"
