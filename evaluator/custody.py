"""Custody: the files that judge come from the base when a candidate is judged. Pure but for the trees that are read.

Existing test files and gate files (the configuration of checks) are put back as they are on the base; a new test file
is the candidate's own; a new gate file is left out. Of a file that configures more than checks (``pyproject.toml``)
only the parts in :data:`SECTIONS` are gates: where those are untouched the file is the candidate's. A path that stands
in the way of what is put back (a link in the place of a folder of tests) is left out too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from evaluator.documents import Custody
from evaluator.gatefiles import SECTIONS
from providerport.port import BaseReader, FileMode
from runner.content import CandidateTree
from runner.documents import CandidateOperation, FileState
from runner.materialize import read_overlaid
from runner.overlay import no_such_path
from runner.promise import is_promised
from runner.snapshot import BaseSnapshot
from savant.files.paths import to_raw
from savant.files.patterns import PatternSet
from savant.repository.manifest import Manifest
from synthesis.documents import Plan

Reader: TypeAlias = Callable[[CandidateOperation, FileState], bytes]


class Held(msgspec.Struct, frozen=True):
    """What is judged in the place of a candidate.

    :param tree: what commands see.
    :param kept: the changed paths that judge, as on the base, sorted.
    :param with_tests: the base with the candidate's new tests laid over it; None where there are none.
    """

    tree: BaseReader
    digest: str
    kept: tuple[str, ...]
    with_tests: BaseReader | None
    with_tests_digest: str


class LaidTree:
    """A base with some of a candidate's changes, as a :class:`providerport.port.BaseReader`."""

    def __init__(self, base: BaseSnapshot, candidate: CandidateTree, laid: frozenset[bytes]) -> None:
        self._base, self._candidate, self._laid = base, candidate, laid
        self.manifest: Manifest = base.manifest.with_changes({path: candidate.manifest.get(path) for path in laid})

    def mode(self, path: bytes) -> FileMode | None:
        """The mode of a path; None for nothing and for a folder."""
        entry = self.manifest.get(path)
        return None if entry is None or entry.mode == "tree" else entry.mode

    def read(self, path: bytes) -> bytes:
        """The content of a file, or the target of a link. Errors as :meth:`runner.content.CandidateTree.read`."""
        if self.mode(path) is None:
            raise no_such_path(path)
        return self._candidate.read(path) if path in self._laid else self._base.read(path)

    def paths(self) -> Iterator[bytes]:
        """Every path that is not a folder, in byte order."""
        return (path for path, _ in self.manifest.walk())

    def read_many(self, paths: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The contents of many paths: the laid ones first."""
        return read_overlaid(self._base, paths, lambda path: self.read(path) if path in self._laid else None)


def hold(
    custody: Custody, base: BaseSnapshot, candidate: CandidateTree, operations: Sequence[CandidateOperation]
) -> Held:
    """What is judged in the place of a candidate, and the base with its new tests.

    Errors as reading either tree.
    """
    kept = custody_paths(
        custody,
        operations,
        lambda operation, _: base.read(to_raw(operation.path)),
        lambda operation, _: candidate.read(to_raw(operation.path)),
    )
    free = frozenset(to_raw(operation.path) for operation in operations if operation.path not in set(kept))
    judged = LaidTree(base, candidate, free) if kept else None
    tests = PatternSet.parse(custody.tests)
    new = frozenset(
        to_raw(operation.path)
        for operation in operations
        if operation.before is None and operation.after is not None and tests.matches(to_raw(operation.path))
    )
    shown = new & free
    with_tests = LaidTree(base, candidate, shown) if shown and not _is_blocked(base, shown) else None
    return Held(
        candidate if judged is None else judged,
        candidate.manifest.digest if judged is None else judged.manifest.digest,
        kept,
        with_tests,
        "" if with_tests is None else with_tests.manifest.digest,
    )


def _is_blocked(base: BaseSnapshot, paths: Iterable[bytes]) -> bool:
    """Whether a file of the base stands where a folder of new files would be."""
    return any(base.mode(above) is not None for path in paths for above in _above(path))


def custody_paths(
    custody: Custody, operations: Sequence[CandidateOperation], before: Reader, after: Reader
) -> tuple[str, ...]:
    """The changed paths that judge and therefore come from the base, sorted.

    :param before: the content of a file of the base, asked for files of :data:`SECTIONS` only.
    :param after: the content of a file of the candidate, likewise.
    """
    tests, gates = PatternSet.parse(custody.tests), PatternSet.parse(custody.gates)
    held = {
        operation.path: operation
        for operation in operations
        if gates.matches(to_raw(operation.path))
        or (operation.before is not None and tests.matches(to_raw(operation.path)))
    }
    judging = {
        path: operation
        for path, operation in held.items()
        if _judges(operation, tests.matches(to_raw(path)), before, after)
    }
    put_back = {to_raw(path) for path, operation in judging.items() if operation.before is not None}
    folders = {above for path in put_back for above in _above(path)}
    in_the_way = (
        operation.path
        for operation in operations
        if operation.after is not None
        and operation.path not in judging
        and (to_raw(operation.path) in folders or any(above in put_back for above in _above(to_raw(operation.path))))
    )
    return tuple(sorted({*judging, *in_the_way}))


def _judges(operation: CandidateOperation, is_test: bool, before: Reader, after: Reader) -> bool:
    """Whether the change of a file that may judge changes how it does."""
    names = SECTIONS.get(to_raw(operation.path).rpartition(b"/")[2])
    if names is None or (is_test and operation.before is not None):
        return True
    states = (operation.before, operation.after)
    if any(state is not None and state.mode not in ("regular", "executable") for state in states):
        return True
    was, now = (
        None if state is None else read(operation, state) for state, read in zip(states, (before, after), strict=True)
    )
    return sections(was, names) != sections(now, names)


def sections(raw: bytes | None, names: Iterable[str]) -> object:
    """The parts of a TOML, INI or JSON file that judge; the whole content where it cannot be read."""
    if raw is None:
        return {}
    whole = _parsed(raw)
    if whole is None:
        return raw
    return {name: found for name in names for found in (_part(whole, name),) if found}


def _part(whole: Mapping[str, Any], name: str) -> object:
    if name in whole or "." not in name:
        return {key: value for key, value in whole.items() if key == name or key.startswith(f"{name}:")}
    found: Any = whole
    for key in name.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _parsed(raw: bytes) -> Mapping[str, Any] | None:
    """A file as JSON, TOML or INI; None for none of them."""
    import configparser
    import tomllib

    try:
        text = raw.decode("utf-8")
        value: Any = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (ValueError, RecursionError):
        parser = configparser.RawConfigParser(strict=True)
        try:
            parser.read_string(raw.decode("utf-8"))
        except (ValueError, configparser.Error):
            return None
        return {name: dict(parser.items(name)) for name in parser.sections()}
    return value if isinstance(value, dict) else None


def judges_at(custody: Custody, mode: Callable[[bytes], FileMode | None]) -> Callable[[str], bool]:
    """Whether changing one path of the base certainly changes what judges: a test or a gate that is there and whole.

    :param mode: the mode of a path of the base; asked only about paths that are named so.
    """
    tests, gates = PatternSet.parse(custody.tests), PatternSet.parse(custody.gates)

    def judges(path: str) -> bool:
        raw = to_raw(path)
        named = tests.matches(raw) or (gates.matches(raw) and raw.rpartition(b"/")[2] not in SECTIONS)
        return named and mode(raw) is not None

    return judges


def undeclared(kept: Iterable[str], operations: Sequence[CandidateOperation], plan: Plan) -> tuple[str, ...]:
    """The paths of custody that changed although no step of the plan declares that it changes what judges there."""
    if plan.promise == "none":
        return ()
    promise = [change for step in plan.steps if step.declares_gate_changes for change in step.intended_changes]
    sources = frozenset(o.source for o in operations if o.kind == "rename" and o.source is not None)
    by_path = {operation.path: operation for operation in operations}
    return tuple(path for path in kept if not is_promised(by_path[path], promise, sources))


def _above(path: bytes) -> Iterator[bytes]:
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        yield path
