"""Custody as a check: no file that judges may change unless the plan declares it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from evaluator.checks.change import bad, case_of
from evaluator.compare import Case
from evaluator.documents import EvaluatorConfig

WORDS: Final = "a test or gate file changed, not declared; it was judged as it is on the base"


def check_custody(config: EvaluatorConfig, kept: Sequence[str], undeclared: Sequence[str]) -> Case:
    """Failed, with a finding for each path that judges and changed without being declared; else passed.

    :param kept: the changed paths that come from the base when the candidate is judged.
    :param undeclared: those of them that the plan does not declare.
    """
    return case_of(bad(config.id, path, None, WORDS) for path in kept if path in undeclared)
