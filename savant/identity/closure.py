"""Which authored governance records apply to a task. Pure but for pydantic, which reads what people wrote.

Records stand in ``.savant/records/*.toml`` as committed at the base::

    [[record]]
    id = "rounding"
    kind = "invariant"  # contract, invariant, owner, forbidden-fix, known-failure-mode,
    # proof-obligation or intent
    text = "Totals are rounded half-even."
    applies_to = ["shop/**"]  # patterns; left out: the whole repository
    evidence = "pytest"  # proof obligations only: the check whose passing discharges it

A record applies when its patterns may meet the task's scope; in doubt it applies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from savant.contracts.digest import digest
from savant.contracts.document import Sealed, seal
from savant.contracts.errors import RefusedInput
from savant.contracts.scalars import as_set
from savant.files.paths import to_text
from savant.identity.documents import Closure, GovernanceRecord, Task
from synthesis.documents import Limitation

RECORDS_FOLDER: Final = b".savant/records/"
_UNCERTAIN: Final = frozenset("*?[%")
MAX_RECORD_BYTES: Final = 1024 * 1024


def is_record_path(path: bytes) -> bool:
    """Whether a file of the base holds governance records."""
    return path.startswith(RECORDS_FOLDER) and path.endswith(b".toml") and b"/" not in path[len(RECORDS_FOLDER) :]


def closure_identity(task: Sealed[Task], files: Iterable[tuple[bytes, bytes]]) -> Sealed[Closure]:
    """The closure of a task over the base's record files.

    :param files: path and content of every record file of the base.
    :raises RefusedInput: ``refused.record`` naming the file, the key and the fix.
    """
    records = [record for path, raw in files for record in read_records(path, raw)]
    seen: set[str] = set()
    for record in records:
        if record.id in seen:
            raise _refused(record.source, "record.id", f"{record.id!r} is used twice")
        seen.add(record.id)
    applicable = as_set(record for record in records if may_apply(record.applies_to, task.document.scope))
    obligations = [r for r in applicable if r.record_kind == "proof-obligation"]
    limitations: tuple[Limitation, ...] = ()
    if not records:
        limitations = (
            Limitation(
                source="identity.closure",
                text="No governance records are committed in .savant/records at the base.",
                blocking=False,
            ),
        )
    return seal(
        Closure(
            task_digest=task.digest,
            records=applicable,
            open=tuple(f"No check discharges the obligation: {r.text}" for r in obligations if r.evidence is None),
            limitations=limitations,
        )
    )


def may_apply(applies_to: Sequence[str], scope: Sequence[str]) -> bool:
    """Whether a record may be about a task: one of its patterns may match a path that the scope matches too."""
    if not applies_to or not scope:
        return True
    return any(_may_meet(one, other) for one in applies_to for other in scope)


def _may_meet(one: str, other: str) -> bool:
    """False only when the plain beginnings of both patterns lead to different folders."""
    if "/" not in one or "/" not in other:  # a base name at any depth
        return True
    return all(a == b for a, b in zip(_plain(one), _plain(other), strict=False))


def _plain(pattern: str) -> list[str]:
    plain = []
    for component in pattern.removeprefix("/").removesuffix("/").split("/"):
        if _UNCERTAIN & set(component):
            break
        plain.append(component)
    return plain


def read_records(path: bytes, raw: bytes) -> list[GovernanceRecord]:
    """The records of one file.

    :raises RefusedInput: ``refused.record``.
    """
    import tomllib

    source = to_text(path)
    if len(raw) > MAX_RECORD_BYTES:
        raise _refused(source, "the file", f"has {len(raw)} bytes; {MAX_RECORD_BYTES} are allowed")
    try:
        data: dict[str, Any] = tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, a number of thousands of digits, deep nesting
        raise _refused(source, "the file", f"is not TOML: {error}") from error
    from savant.identity.record_schema import parse_records

    return [
        GovernanceRecord(
            id=row.id,
            record_kind=row.kind,
            text=row.text,
            applies_to=as_set(row.applies_to),
            evidence=row.evidence,
            source=source,
            source_digest=digest(raw),
        )
        for row in parse_records(source, data)
    ]


def _refused(source: str, key: str, problem: str) -> RefusedInput:
    return RefusedInput(
        "refused.record",
        f"{source} at the base: {key} {problem}",
        untouched="No provider was called and nothing was written.",
        fix=f"Correct {source} and commit it.",
    )


def refused_record(source: str, key: str, problem: str) -> RefusedInput:
    """The refusal of one key of a record file."""
    return _refused(source, key, f"has a wrong value: {problem}")
