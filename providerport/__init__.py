"""O2, the provider port: what a provider is, what it is asked, how a call ends, and the receipt of each call.

This package owns the requests, results, observations and receipts, the deadline and cancellation of a call, the
workspace channel that a provider is handed, and the mapping to O1 commands. It never decides a transition, never trusts
an answer that it did not accept from bytes, and has no effects of its own: clock and tasks come in as ports.
"""

from __future__ import annotations

from providerport.execute import Execution, execute
from providerport.mapping import (
    Governed,
    ObservationLimits,
    build_request,
    complete_interpretation,
    to_command,
    verified_payload,
)
from providerport.outcome import check_result, result_of
from providerport.port import BaseReader, Call, Observer, Provider, ProviderFailure, Usage, Workspace
from providerport.prior import bound_findings

__all__ = [
    "BaseReader",
    "Call",
    "Execution",
    "Governed",
    "ObservationLimits",
    "Observer",
    "Provider",
    "ProviderFailure",
    "Usage",
    "Workspace",
    "bound_findings",
    "build_request",
    "check_result",
    "complete_interpretation",
    "execute",
    "result_of",
    "to_command",
    "verified_payload",
]
