"""The composition: from results to one evaluation and one recommendation. Pure, and the same function for replay.

The most severe recommendation wins: ``abort > architect-review > replan > retry-generation``. Accept is what is left if
no class was raised: every required evaluator completed, no required check counts against the candidate, every proof
obligation is discharged, nothing blocks. An unavailable *optional* evaluator is a visible limitation and nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluator.documents import EvaluatorConfig, Policy, Result
from evaluator.findings import bound
from evaluator.policy import SEVERITY, recommendation_of
from savant.contracts.scalars import as_set
from synthesis.documents import Check, Evaluation, Limitation, Recommendation


@dataclass(frozen=True, slots=True)
class CompositionFailure:
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
    if len(by_id) != len(results):
        return CompositionFailure("evaluator.duplicate-result", "Two results are of one evaluator.", False)
    unknown = sorted(set(by_id) - set(configs))
    if unknown:
        return CompositionFailure("evaluator.unknown-result", f"No evaluator is called {unknown[0]}.", False)
    names = [check.check for result in results for check in result.checks]
    if len(set(names)) != len(names):
        return CompositionFailure("evaluator.duplicate-check", "Two checks share a name.", False)
    for id_, config in configs.items():
        result = by_id.get(id_)
        if config.required and (result is None or result.outcome != "completed"):
            why = "it gave no result" if result is None else result.detail or result.outcome
            return CompositionFailure("evaluator.required-unavailable", f"{id_} DID NOT RUN: {why}", True)
    ordered = [by_id[id_] for id_ in configs if id_ in by_id]
    classes = as_set(
        [
            *(name for result in ordered if configs[result.evaluator].required for name in result.failure_classes),
            *_undischarged(by_id, obligations or {}),
        ]
    )
    limitations = tuple(_limitations(ordered, configs))
    recommendation: Recommendation = "accept"
    for name in classes:
        recommendation = max(recommendation, recommendation_of(policy, name), key=SEVERITY.__getitem__)
    if recommendation == "accept" and any(limitation.blocking for limitation in limitations):
        recommendation = "architect-review"
    return Evaluation(
        attempt_digest=attempt_digest,
        candidate_digest=candidate_digest,
        checks=tuple(_bounded(policy, ordered)),
        failure_classes=classes,
        recommendation=recommendation,
        limitations=limitations,
    )


def _undischarged(by_id: Mapping[str, Result], obligations: Mapping[str, str | None]) -> Iterator[str]:
    for evidence in obligations.values():
        if evidence is None or evidence not in by_id:
            yield "proof-plan-structural"
        elif by_id[evidence].failure_classes or by_id[evidence].outcome != "completed":
            yield "proof-undischarged"


def _limitations(ordered: Sequence[Result], configs: Mapping[str, EvaluatorConfig]) -> Iterator[Limitation]:
    for result in ordered:
        yield from result.limitations
        if result.outcome != "completed" and not configs[result.evaluator].required:
            yield Limitation(
                source=f"evaluator.{result.evaluator}",
                text=f"An optional check DID NOT RUN: {result.detail or result.outcome}",
                blocking=False,
            )


def _bounded(policy: Policy, ordered: Sequence[Result]) -> Iterator[Check]:
    """The checks with as many findings as the policy lets into an evaluation, failing ones first served."""
    count, size = policy.max_findings, policy.max_finding_bytes
    checks = [check for result in ordered for check in result.checks]
    kept = bound((f for check in checks for f in check.findings), max_findings=count, max_bytes=size)
    left = list(kept)
    for check in checks:
        own = []
        while left and left[0].check == check.check:
            own.append(left.pop(0))
        yield Check(
            evaluator=check.evaluator,
            check=check.check,
            status=check.status,
            base_status=check.base_status,
            comparison=check.comparison,
            required=check.required,
            findings=tuple(own),
        )
