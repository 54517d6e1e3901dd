"""Failure classes and what follows from them at least. Pure.

A policy may raise a recommendation; it may never lower one below its class's floor or recommend to accept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from evaluator.compare import DECLARED
from evaluator.documents import COMMAND_KINDS, EvaluatorConfig, Policy, PrepareConfig
from evaluator.excuses import may_end
from savant.contracts.errors import RefusedInput, SavantError
from savant.files.paths import check_path, to_raw
from savant.files.patterns import PatternSet
from synthesis.documents import Recommendation

SEVERITY: Final[Mapping[Recommendation, int]] = MappingProxyType(
    {"accept": 0, "retry-generation": 1, "replan": 2, "architect-review": 3, "abort": 4}
)
"""Which recommendation wins; the greatest does."""

FLOORS: Final[Mapping[str, Recommendation]] = MappingProxyType(
    {
        "forbidden-fix": "abort",
        "proof-permanently-undischargeable": "abort",
        "known-failure-match": "retry-generation",
        "secret-added": "retry-generation",
        "forbidden-content": "retry-generation",
        "blob-added": "retry-generation",
        "companion-missing": "retry-generation",
        "held-out-failed": "architect-review",
        "audit-needs-review": "architect-review",
        "known-failure-concerning": "architect-review",
        "custody-breach": "architect-review",
        "proof-plan-structural": "replan",
        "plan-level-failure": "replan",
        "scope-exceeded": "replan",
        "proof-undischarged": "retry-generation",
        "mechanical-failure": "retry-generation",
        "regression": "retry-generation",
        "audit-finding": "retry-generation",
        "change-cap-exceeded": "retry-generation",
        "forbidden-path": "retry-generation",
    }
)
"""The least severe recommendation of each governed class."""

UNMAPPED: Final[Recommendation] = "architect-review"
"""What an unknown class of a required evaluator asks for."""


def floor_of(failure_class: str) -> Recommendation:
    """The least severe recommendation of a class."""
    return FLOORS.get(failure_class, UNMAPPED)


def recommendation_of(policy: Policy, failure_class: str) -> Recommendation:
    """What a policy recommends for a class; never less than the class's floor."""
    floor = floor_of(failure_class)
    for rule in policy.recommendations:
        if rule.failure_class == failure_class:
            return max(rule.recommendation, floor, key=SEVERITY.__getitem__)
    return floor


def verify_policy(policy: Policy) -> None:
    """Return if a policy is one that may be precommitted.

    :raises RefusedInput: ``refused.evaluator-policy`` for a repeated evaluator, one that could never run as it is
        configured, a step that could not, an excuse for nothing or without a day to judge it on, a rule below its
        floor, or a rule that is given twice.
    """
    ids = [evaluator.id for evaluator in policy.evaluators]
    if len(set(ids)) != len(ids):
        raise _refused("two evaluators share a name")
    for config in policy.evaluators:
        problem = _problem(config)
        if problem is not None:
            raise _refused(f"{config.id}: {problem}")
    for problem in (*_excuse_problems(policy), *prepare_problems(policy.prepares)):
        raise _refused(problem)
    classes = [rule.failure_class for rule in policy.recommendations]
    if len(set(classes)) != len(classes):
        raise _refused("two rules are for the same failure class")
    for rule in policy.recommendations:
        if SEVERITY[rule.recommendation] < SEVERITY[floor_of(rule.failure_class)]:
            raise _refused(
                f"{rule.failure_class} may not be lowered to {rule.recommendation}; its floor is "
                f"{floor_of(rule.failure_class)}"
            )


def _problem(config: EvaluatorConfig) -> str | None:
    """Why an evaluator could never run as configured, or its checks could be taken for another's."""
    if ":" in config.id:
        return "a colon in a name is kept for the checks of an evaluator"
    try:
        PatternSet.parse(config.patterns)
        for path in (config.report_path, config.directory):
            if path is not None:
                check_path(to_raw(path))
    except SavantError as error:
        return error.message
    if (config.evaluator == "held-out") is (config.suite_digest is None):
        return "a held-out check and the digest of its suite belong together"
    if (config.evaluator == "model-audit") is (config.audit is None):
        return "an audit and who makes it belong together"
    if config.evaluator == "model-audit" and config.timeout_ms == 0:
        return "it has no time to run"
    if config.evaluator not in COMMAND_KINDS:
        return "a built-in is judged alone and reads no report" if _is_commanded(config) else None
    if not config.argv:
        return "it has no command"
    return report_problem(config) or (None if config.timeout_ms > 0 else "it has no time to run")


def report_problem(config: EvaluatorConfig) -> str | None:
    """Why a command's report, or what it must fix, does not fit how it is judged; None where it does."""
    if config.result_format == "junit" and config.report_path is None:
        return "the result format junit needs a report"
    if config.result_format == "exit-status" and config.report_path is not None:
        return "a report needs a result format"
    if (config.rule == "must-fix") is not bool(config.must_fix):
        return "the rule must-fix and the names of checks to fix belong together"
    if config.result_format == "exit-status" and set(config.must_fix) - {config.id}:
        return "an exit status tells no check but its own, so no other can be one to fix"
    return None


def prepare_problems(prepares: Sequence[PrepareConfig]) -> Iterator[str]:
    """What makes a step one that could never run, or its outputs unclear, in words that begin with its name."""
    outputs: dict[str, str] = {}
    ids: set[str] = set()
    for step in prepares:
        if step.id in ids:
            yield f"{step.id}: two steps share this name"
        ids.add(step.id)
        if not (step.argv and step.locks and step.outputs and step.timeout_ms > 0):
            yield f"{step.id}: a step needs a command, locks, outputs and time"
        try:
            PatternSet.parse(step.locks)
            for path in (*step.outputs, *((step.directory,) if step.directory is not None else ())):
                check_path(to_raw(path))
        except SavantError as error:
            yield f"{step.id}: {error.message}"
        for output in step.outputs:
            other = next((name for name in outputs if _overlap(name, output)), None)
            if other is not None and (other != output or outputs[other] == step.id):
                yield f"{step.id}: the outputs {other} and {output} lie in each other"
            outputs.setdefault(output, step.id)


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _excuse_problems(policy: Policy) -> Iterator[str]:
    """What makes an excuse one that could never hold, or nobody could judge."""
    names = [excuse.id for excuse in policy.excuses]
    commands = {config.id for config in policy.evaluators if config.evaluator == "command"}
    if len(set(names)) != len(names):
        yield "two excuses share a name"
    if DECLARED in names:
        yield f"the name {DECLARED} is kept for changes that a plan declares"
    for excuse in policy.excuses:
        if excuse.evaluator not in commands:
            yield f"{excuse.id}: only checks of a command can be excused, and {excuse.evaluator} is none"
    if may_end(policy.excuses) is (policy.as_of is None):
        yield "a day belongs to excuses that end, and the other way round"


def _is_commanded(config: EvaluatorConfig) -> bool:
    return config.rule != "all-pass" or config.result_format != "exit-status" or bool(config.argv)


def _refused(why: str) -> RefusedInput:
    return RefusedInput(
        "refused.evaluator-policy",
        f"The evaluator policy is refused: {why}.",
        untouched="No provider was called.",
        fix="Correct .savant/config.toml or the --check flags.",
    )
