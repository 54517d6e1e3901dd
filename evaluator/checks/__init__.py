"""The evaluators: a command, and the built-ins."""

from __future__ import annotations

from evaluator.checks.scope import check_forbidden_paths, check_scope

__all__ = (
    "check_forbidden_paths",
    "check_scope",
)
