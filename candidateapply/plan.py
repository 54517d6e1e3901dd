"""The order of writes: pure. Ends come before beginnings, the deepest end first, so that types may change places."""

from __future__ import annotations

from collections.abc import Iterable

from runner.documents import Candidate, PathChange
from savant.contracts.errors import RefusedInput
from savant.files.paths import check_path, is_reserved, to_raw


def planned_writes(candidate: Candidate) -> tuple[PathChange, ...]:
    """The writes of a candidate in a safe order.

    :raises RefusedInput: ``refused.apply-unsupported-operation``, ``refused.apply-hazard``.
    """
    for operation in candidate.operations:
        if operation.kind == "gitlink-change":
            raise _refused("unsupported-operation", f"{operation.path} is a moved submodule, which cannot be applied.")
        raw = to_raw(operation.path)
        try:
            check_path(raw)
        except RefusedInput as error:
            raise _refused("hazard", error.message) from error
        if is_reserved(raw):
            raise _refused("hazard", f"{operation.path} is a control path of git.")
    return in_order(PathChange(path=o.path, before=o.before, after=o.after) for o in candidate.operations)


def _refused(code: str, message: str) -> RefusedInput:
    return RefusedInput(
        f"refused.apply-{code}", message, untouched="The target was not touched.", fix="Ask for a change without it."
    )


def in_order(changes: Iterable[PathChange]) -> tuple[PathChange, ...]:
    """Removals first, deepest first; then everything that is there afterwards, in path order."""
    known = sorted(changes, key=lambda change: to_raw(change.path))
    return (*(c for c in reversed(known) if c.after is None), *(c for c in known if c.after is not None))


def reversed_writes(writes: Iterable[PathChange]) -> tuple[PathChange, ...]:
    """The writes that take back what these did, in a safe order."""
    return in_order(PathChange(path=w.path, before=w.after, after=w.before) for w in writes)
