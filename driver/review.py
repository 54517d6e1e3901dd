"""The deterministic plan reviewer: pure. It always runs; providers may be added beside it and may only withhold.

It answers ``converged`` when nothing blocks, and ``revise`` otherwise: a plan whose promise the policy certainly
refuses, that leaves the scope the person set or withholds a promise where there is one, that promises nothing or what
is no pattern, that forgets a proof obligation, or that changes an existing test or gate by name without declaring it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from admission.documents import Policy as AdmissionPolicy
from admission.eligibility import is_one_path, judge_promise
from savant.contracts.errors import RefusedInput
from savant.files.patterns import PatternSet
from synthesis.documents import Interpretation, Plan, PlanReview, ReviewFinding

REVIEWER: Final = "deterministic"
UNDECLARED: Final = "The promise {path!r} changes what judges; a step that does so declares it: declares_gate_changes."
_UNCERTAIN: Final = frozenset("*?[%")
"""A pattern with one of these may stand for several paths, or for one that is spelt otherwise."""


def review_plan(
    plan: Plan,
    plan_digest: str,
    interpretation: Interpretation,
    policy: AdmissionPolicy,
    scope: tuple[str, ...],
    judges: Callable[[str], bool],
) -> PlanReview:
    """The review of a plan against the admission policy, the task's scope and the proof obligations.

    :param judges: whether changing a path changes what judges, see :func:`evaluator.custody.judges_at`.
    """
    findings = tuple(_findings(plan, interpretation, policy, scope, judges))
    return PlanReview(
        plan_digest=plan_digest,
        findings=findings,
        reviewers=(REVIEWER,),
        outcome="revise" if any(finding.severity == "blocking" for finding in findings) else "converged",
    )


def _findings(
    plan: Plan,
    interpretation: Interpretation,
    policy: AdmissionPolicy,
    scope: tuple[str, ...],
    judges: Callable[[str], bool],
) -> Iterator[ReviewFinding]:
    if plan.promise == "none":
        yield _finding("promise-none", "info", None, "The change existed before the plan; nothing was promised.")
        if scope:
            yield _finding("scope-unpromised", "blocking", None, "The task has a scope, and the plan promises nothing.")
    elif not any(step.intended_changes for step in plan.steps):
        yield _finding("promise-empty", "blocking", None, "The plan promises no change to any path.")
    ids = [step.id for step in plan.steps]
    if len(set(ids)) != len(ids):
        yield _finding("step-repeated", "blocking", None, "Two steps have the same id.")
    for number, reason in enumerate(judge_promise(plan, policy), 1):
        yield _finding(f"refused-{number}", "blocking", None, reason.detail or reason.code, citation=reason.rule)
    for step in plan.steps:
        for change in step.intended_changes:
            problem = _problem(change.pattern)
            if problem:
                yield _finding("pattern-bad", "blocking", step.id, problem)
            elif scope and not is_inside(change.pattern, scope):
                yield _finding(
                    "scope-left", "blocking", step.id, f"The promise {change.pattern!r} leaves the scope of the task."
                )
            elif not step.declares_gate_changes and is_one_path(change.pattern) and judges(change.pattern.lstrip("/")):
                yield _finding("custody-undeclared", "blocking", step.id, UNDECLARED.format(path=change.pattern))
    discharged = {obligation for step in plan.steps for obligation in step.discharges}
    for obligation in interpretation.required_proof_obligations:
        if obligation not in discharged:
            yield _finding("obligation-open", "blocking", None, f"No step discharges the obligation: {obligation}")


def is_inside(pattern: str, scope: tuple[str, ...]) -> bool:
    """Whether a promised pattern certainly stays inside the scope.

    It does when it is one of the scope's patterns, a plain path (or a plain name at any depth) that the scope matches,
    or below a folder that the scope names with ``folder/`` or ``folder/**``. In doubt the answer is no.
    """
    if pattern in scope:
        return True
    if not _UNCERTAIN & set(pattern) and not pattern.endswith("/"):
        reaching = scope if "/" in pattern else [item for item in scope if "/" not in item]
        if PatternSet.parse(reaching).matches(pattern.removeprefix("/").encode("utf-8")):
            return True
    folders = (item.removesuffix("**").removeprefix("/") for item in scope if item.endswith(("/", "/**")))
    return any(not _UNCERTAIN & set(folder) and pattern.removeprefix("/").startswith(folder) for folder in folders)


def _problem(pattern: str) -> str:
    try:
        PatternSet.parse((pattern,))
    except RefusedInput as error:
        return error.message
    return ""


def _finding(id_: str, severity: str, step: str | None, text: str, *, citation: str = "") -> ReviewFinding:
    return ReviewFinding(
        id=id_,
        severity="blocking" if severity == "blocking" else "info",
        step=step,
        text=text,
        citation=citation,
    )
