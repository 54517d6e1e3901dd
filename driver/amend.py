"""The amendment of a promise: once in a run, before the seal is recorded, and only if a person is asked about it. Pure.

A candidate that leaves its plan's promise is planned again, which costs a generation. Where the policy says
``amendment = "ask"``, the promise is widened instead, by exactly the paths and kinds that the candidate has beside it;
the amendment is recorded before the candidate, and admission asks a person about those paths. It is not made where the
task's scope would be left or the policy certainly refuses, nor a second time.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from admission.documents import Policy
from admission.eligibility import judge_promise
from driver.documents import Amendment
from runner.change import required_kinds
from runner.documents import CandidateOperation
from runner.promise import promise_of, unpromised
from savant.contracts.document import Sealed
from savant.contracts.scalars import as_set
from savant.files.paths import to_raw
from savant.files.patterns import PatternSet, literal
from synthesis.documents import IntendedChange, Plan


def amend(
    plan: Sealed[Plan],
    operations: Sequence[CandidateOperation],
    policy: Policy,
    scope: Sequence[str],
    *,
    attempt_number: int,
    change_digest: str,
) -> Amendment | None:
    """The amendment that lets a candidate keep its plan; None where none is needed or allowed.

    :param scope: the patterns that the person limited the task to; empty for none.
    :param change_digest: of the change set of the candidate.
    """
    promise = promise_of(plan.document)
    if promise is None or policy.amendment == "refuse":
        return None
    outside = unpromised(operations, promise)
    if not outside or not _is_inside(outside, scope):
        return None
    changes = tuple(_change(operation) for operation in outside)
    if judge_promise(_promising(plan.document, changes), policy):
        return None
    return Amendment(
        plan_digest=plan.digest, attempt_number=attempt_number, change_digest=change_digest, changes=changes
    )


def _change(operation: CandidateOperation) -> IntendedChange:
    """The promise of exactly one operation."""
    kinds = as_set((operation.kind, *required_kinds(operation)))
    return IntendedChange(pattern=literal(to_raw(operation.path)), operations=kinds)


def _is_inside(operations: Sequence[CandidateOperation], scope: Sequence[str]) -> bool:
    patterns = PatternSet.parse(scope)
    return not scope or all(patterns.matches(to_raw(operation.path)) for operation in operations)


def _promising(plan: Plan, changes: tuple[IntendedChange, ...]) -> Plan:
    """The plan with one step that promises these changes and nothing else."""
    return structs.replace(plan, steps=(structs.replace(plan.steps[0], intended_changes=changes),))
