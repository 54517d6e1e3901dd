"""O5A: admission.

Owns the composition of the sealed chain, the admission policy and its decision, acknowledgements, and the verification
of a target. Never mutates a receipt, never claims correctness.
"""

from __future__ import annotations

from admission.compose import Chain, compose_receipt, compose_request
from admission.decide import VerifiedAcknowledgement, decide
from admission.documents import DOCUMENTS, Acknowledgement, Decision, Policy, Receipt, Request, Verification
from admission.policy import starter_policy

__all__ = (
    "DOCUMENTS",
    "Acknowledgement",
    "Chain",
    "Decision",
    "Policy",
    "Receipt",
    "Request",
    "Verification",
    "VerifiedAcknowledgement",
    "compose_receipt",
    "compose_request",
    "decide",
    "starter_policy",
)
