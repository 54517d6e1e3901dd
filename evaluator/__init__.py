"""O4: evaluation.

Owns the evaluators, their fresh copies, the comparison of base and candidate, and the composition into one
recommendation. Never decides admission, and never counts a check that did not run as passed.
"""

from __future__ import annotations

from evaluator.compose import CompositionFailure, compose
from evaluator.documents import DOCUMENTS, EvaluatorConfig, Policy, Receipt, Result
from evaluator.policy import verify_policy

__all__ = (
    "DOCUMENTS",
    "CompositionFailure",
    "EvaluatorConfig",
    "Policy",
    "Receipt",
    "Result",
    "compose",
    "verify_policy",
)
