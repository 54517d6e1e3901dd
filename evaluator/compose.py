"""The composition: from results to one evaluation and one recommendation. Pure, and the same function for replay.

The most severe recommendation wins: ``abort > architect-review > replan > retry-generation``. Accept is what is left if
no class was raised: every required evaluator completed, no required check counts against the candidate, every proof
obligation is discharged, nothing blocks. An *optional* evaluator is visible and nothing more: it raises no class, and
what it did not see never blocks.

The results are believed in nothing that can be looked at: a result that says less than its checks do is not composed.
So an evaluation that recommends to accept is never below the floor of the session's machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from evaluator.compare import DECLARED
from evaluator.documents import EvaluatorConfig, Policy, Result
from evaluator.excuses import holds
from evaluator.findings import bound, size_of
from evaluator.policy import SEVERITY, recommendation_of
from savant.contracts.scalars import as_set
from synthesis.documents import Check, Evaluation, Finding, Limitation, Recommendation
from synthesis.machine import check_floor

MAX_SOURCE_CHARACTERS: Final = 200


class CompositionFailure(msgspec.Struct, frozen=True):
    """No evaluation can be made; ``code`` is dotted."""

    code: str
    detail: str
    required_unavailable: bool


def compose(
    attempt_digest: str,
    candidate_digest: str,
    policy: Policy,
    results: Sequence[Result],
    *,
    obligations: Mapping[str, str | None] | None = None,
) -> Evaluation | CompositionFailure:
    """The evaluation of a candidate.

    :param results: one per evaluator of the policy, in any order.
    :param obligations: proof obligations, each with the evaluator whose passing discharges it (None: no check can).
    """
    configs = {config.id: config for config in policy.evaluators}
    by_id = {result.evaluator: result for result in results}
    failure = _contradiction(policy, configs, results) or _not_run(configs, by_id)
    if failure is not None:
        return failure
    ordered = [by_id[id_] for id_ in configs if id_ in by_id]
    classes = as_set(
        [
            *(name for result in ordered if configs[result.evaluator].required for name in result.failure_classes),
            *_undischarged(by_id, obligations or {}),
        ]
    )
    limitations = tuple(_limitations(configs, by_id))
    recommendation: Recommendation = "accept"
    for name in classes:
        recommendation = max(recommendation, recommendation_of(policy, name), key=SEVERITY.__getitem__)
    if recommendation == "accept" and any(limitation.blocking for limitation in limitations):
        recommendation = "architect-review"
    evaluation = Evaluation(
        attempt_digest=attempt_digest,
        candidate_digest=candidate_digest,
        checks=tuple(_bounded(policy, ordered)),
        failure_classes=classes,
        recommendation=recommendation,
        limitations=limitations,
    )
    below = check_floor(evaluation) if recommendation == "accept" else ()
    if below:
        return CompositionFailure(
            "evaluator.unclassified-check", f"A result hides what its check says: {below[0]}", False
        )
    return evaluation


def _contradiction(
    policy: Policy, configs: Mapping[str, EvaluatorConfig], results: Sequence[Result]
) -> CompositionFailure | None:
    """What makes the results no evidence at all: not the policy's, or not of one mind."""
    seen: set[str] = set()
    names: set[str] = set()
    for result in results:
        if result.evaluator in seen:
            return CompositionFailure("evaluator.duplicate-result", f"Two results are of {result.evaluator}.", False)
        seen.add(result.evaluator)
        config = configs.get(result.evaluator)
        if config is None:
            return CompositionFailure("evaluator.unknown-result", f"No evaluator is called {result.evaluator}.", False)
        for check in result.checks:
            if check.check in names:
                return CompositionFailure("evaluator.duplicate-check", f"Two checks are called {check.check}.", False)
            names.add(check.check)
            if check.evaluator != config.id or check.required is not config.required:
                return CompositionFailure(
                    "evaluator.foreign-check", f"The check {check.check} is not one of {config.id}.", False
                )
            if not _is_founded(check, config, policy):
                return CompositionFailure(
                    "evaluator.unfounded-check", f"Nothing says why {check.check} should not count.", False
                )
    return None


def _is_founded(check: Check, config: EvaluatorConfig, policy: Policy) -> bool:
    """Whether what keeps a check from counting is possible: an excuse that holds, having been run more than once."""
    excuses = {
        DECLARED,
        *(item.id for item in policy.excuses if item.evaluator == config.id and holds(item, policy.as_of)),
    }
    return (check.excuse is None or check.excuse in excuses) and (check.comparison != "flaky" or config.repeats > 0)


def _not_run(configs: Mapping[str, EvaluatorConfig], by_id: Mapping[str, Result]) -> CompositionFailure | None:
    """The first required evaluator, or check of one, that did not run. It never counts as passed.

    A check that ran on the base and does not on the candidate is the candidate's doing: it is judged, not missing.
    """
    for id_, config in configs.items():
        if not config.required:
            continue
        result = by_id.get(id_)
        if result is None or result.outcome != "completed":
            return _unavailable(f"{id_} DID NOT RUN: {_why(result)}")
        for check in result.checks:
            if check.status == "unavailable" and check.base_status in (None, "unavailable"):
                return _unavailable(f"{check.check} DID NOT RUN")
    return None


def _unavailable(detail: str) -> CompositionFailure:
    return CompositionFailure("evaluator.required-unavailable", detail, required_unavailable=True)


def _why(result: Result | None) -> str:
    return "it gave no result" if result is None else result.detail or result.outcome


def _undischarged(by_id: Mapping[str, Result], obligations: Mapping[str, str | None]) -> Iterator[str]:
    for evidence in obligations.values():
        if evidence is None or evidence not in by_id:
            yield "proof-plan-structural"
        elif not _is_proof(by_id[evidence]):
            yield "proof-undischarged"


def _is_proof(result: Result) -> bool:
    """Whether a result shows that something holds: at least one check passed, and none is red, excused or not."""
    statuses = {check.status for check in result.checks}
    return (
        result.outcome == "completed"
        and not result.failure_classes
        and "passed" in statuses
        and statuses <= {"passed", "skipped"}
    )


def _limitations(configs: Mapping[str, EvaluatorConfig], by_id: Mapping[str, Result]) -> Iterator[Limitation]:
    for id_, config in configs.items():
        result = by_id.get(id_)
        for limitation in () if result is None else result.limitations:
            yield limitation if config.required else replace(limitation, blocking=False)
        if result is None or result.outcome != "completed":
            yield Limitation(
                source=f"evaluator.{id_}"[:MAX_SOURCE_CHARACTERS],
                text=f"An optional check DID NOT RUN: {_why(result)}",
                blocking=False,
            )


def _bounded(policy: Policy, ordered: Sequence[Result]) -> Iterator[Check]:
    """The checks, with as many of their findings as the policy lets into an evaluation: those that block come first."""
    count, size = policy.max_findings, policy.max_finding_bytes
    checks = [check for result in ordered for check in result.checks]
    kept: dict[str, tuple[Finding, ...]] = {}
    for check in sorted(checks, key=relevance):
        kept[check.check] = bound(check.findings, max_findings=count, max_bytes=size)
        count -= len(kept[check.check])
        size -= sum(map(size_of, kept[check.check]))
    return (replace(check, findings=kept[check.check]) for check in checks)


def relevance(check: Check) -> tuple[bool, bool, bool]:
    """The sort key of what a person and the next request should read first: what blocks, single cases, the rest."""
    return not check.required, check.comparison == "flaky", check.check == check.evaluator
