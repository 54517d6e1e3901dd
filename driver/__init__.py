"""O7: the bounded loop from task to receipt.

Owns readiness, the order of owner calls, plan review, savepoints and the run receipt. Never enlarges anything: scope,
budgets, policies and accepted conditions are what they were when the session was sealed.
"""

from __future__ import annotations

from driver.documents import DOCUMENTS, Policy, Readiness, Receipt, Savepoint
from driver.inputs import RunInputs, RunPorts

__all__ = (
    "DOCUMENTS",
    "Policy",
    "Readiness",
    "Receipt",
    "RunInputs",
    "RunPorts",
    "Savepoint",
)
