"""The promise against what really changed. Pure: used by the scope evaluator and by admission alike.

A rename stands on a create at its path (and a delete at its source, which is an operation of its own), a copy on a
create; promising ``rename`` or ``copy`` for a path allows the create under that label, and promising ``rename`` for a
path also allows the delete of a rename's source.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runner.change import required_kinds
from runner.documents import CandidateOperation
from savant.files.paths import to_raw
from savant.files.patterns import parse
from synthesis.documents import IntendedChange, OperationKind, Plan


def promise_of(plan: Plan) -> tuple[IntendedChange, ...] | None:
    """The promised scope of a plan: the union of its intended changes; None when it promised nothing beforehand."""
    if plan.promise == "none":
        return None
    return tuple(change for step in plan.steps for change in step.intended_changes)


def promised_kinds(path: str, promise: Iterable[IntendedChange]) -> frozenset[OperationKind]:
    """Every kind that the promise allows at a path (as document text)."""
    raw = to_raw(path)
    return frozenset(kind for change in promise if parse(change.pattern).matches(raw) for kind in change.operations)


def is_promised(
    operation: CandidateOperation, promise: Sequence[IntendedChange], rename_sources: frozenset[str] = frozenset()
) -> bool:
    """Whether an operation lies inside the promise."""
    allowed = promised_kinds(operation.path, promise)
    if operation.kind in ("rename", "copy") and operation.kind in allowed:
        return True
    if operation.kind == "delete" and operation.path in rename_sources and "rename" in allowed:
        return True
    return all(kind in allowed for kind in required_kinds(operation))


def unpromised(
    operations: Sequence[CandidateOperation], promise: Sequence[IntendedChange]
) -> tuple[CandidateOperation, ...]:
    """The operations that lie outside the promise, in order."""
    sources = frozenset(o.source for o in operations if o.kind == "rename" and o.source is not None)
    return tuple(operation for operation in operations if not is_promised(operation, promise, sources))
