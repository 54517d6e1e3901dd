"""Custody as a check: no file that judges may change unless the plan declares it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from evaluator.compare import Case
from evaluator.documents import EvaluatorConfig
from synthesis.documents import Finding


def check_custody(config: EvaluatorConfig, kept: Sequence[str], undeclared: Sequence[str]) -> Case:
    """Failed, with a finding for each path that judges and changed without being declared; else passed.

    :param kept: the changed paths that come from the base when the candidate is judged.
    :param undeclared: those of them that the plan does not declare.
    """
    if not undeclared:
        return Case("passed")
    return Case(
        "failed",
        tuple(
            Finding(
                check=config.id,
                status="failed",
                path=path,
                line=None,
                message="a test or gate file changed, not declared; it was judged as it is on the base",
                excerpt="",
            )
            for path in kept
            if path in undeclared
        ),
    )
