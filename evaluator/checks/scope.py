"""The built-in evaluators: the promised scope, and forbidden paths. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from evaluator.checks.change import bad, case_of
from evaluator.compare import Case
from evaluator.documents import EvaluatorConfig
from runner.documents import CandidateOperation
from runner.promise import promise_of, unpromised
from savant.files.paths import to_raw
from savant.files.patterns import PatternSet
from synthesis.documents import IntendedChange, Plan


def check_scope(
    config: EvaluatorConfig,
    operations: Sequence[CandidateOperation],
    plan: Plan,
    amendment: tuple[IntendedChange, ...] = (),
) -> Case:
    """Every operation lies inside what the plan promised. A change that nothing was promised for passes, as such.

    :param amendment: what the promise was widened by before the seal.
    """
    promise = promise_of(plan)
    if promise is None:
        return Case("passed")
    outside = unpromised(operations, (*promise, *amendment))
    return _case(config, outside, "was not promised by the plan")


def check_forbidden_paths(config: EvaluatorConfig, operations: Sequence[CandidateOperation]) -> Case:
    """No operation touches a path that the configuration forbids."""
    forbidden = PatternSet.parse(config.patterns)
    return _case(config, [o for o in operations if forbidden.matches(to_raw(o.path))], "touches a forbidden path")


def _case(config: EvaluatorConfig, found: Sequence[CandidateOperation], words: str) -> Case:
    return case_of(bad(config.id, operation.path, None, f"{operation.kind} {words}") for operation in found)
