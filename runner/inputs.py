"""What one attempt is given, what it does its work with, and how it is told.

The types of :func:`runner.attempt.run_attempt`, and the check that its inputs belong together.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from providerport.documents import Request
from providerport.execute import Execution
from providerport.port import BaseReader, Provider, Workspace
from runner.documents import Candidate, ChangeSet, Receipt
from runner.normalise import Normaliser
from runner.overlay import Limits
from runner.snapshot import BaseSnapshot
from savant.contracts.containment import Containment, Demand
from savant.contracts.document import Sealed, digest_of
from savant.contracts.effects import Cancellation
from savant.contracts.errors import UsageError
from savant.process.port import ProcessRunner
from savant.process.view import Sight
from savant.store.port import ObjectStore
from synthesis.documents import Attempt, Finding, Plan, State


class Execute(Protocol):
    """:func:`providerport.execute.execute` with its clock and tasks bound."""

    def __call__(
        self,
        provider: Provider,
        call: Sealed[Request],
        /,
        *,
        cancellation: Cancellation,
        base: BaseReader | None,
        workspace: Workspace | None,
    ) -> Execution:
        """Run one call to its receipt."""
        ...


class AttemptInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt is about.

    :param state: phase ``attempting``.
    :param plan: the state's current plan.
    :param request: the generation request for it.
    :param snapshot: the session's base, or how to take it.
    :param workspace_digest: the session's workspace identity.
    :param normalisers: in order.
    :param limits: what the candidate may hold.
    :param demanded: the least containment of the provider's commands; less is a limitation of the receipt.
    """

    state: State
    plan: Sealed[Plan]
    request: Sealed[Request]
    snapshot: BaseSnapshot | Callable[[], BaseSnapshot]
    workspace_digest: str
    normalisers: tuple[Normaliser, ...] = ()
    limits: Limits = msgspec.field(default_factory=Limits)
    demanded: Demand = Demand()


class AttemptPorts(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt does its work with.

    :param provider_factory: makes a fresh provider; whatever it raises ends the attempt.
    :param scratch: an existing private folder outside the repository; what is made in it is removed again.
    :param processes: runs normalisers; None when there are none.
    :param sight: what normalisers see of the person's machine.
    """

    provider_factory: Callable[[], Provider]
    execute: Execute
    store: ObjectStore
    scratch: Path
    processes: ProcessRunner | None
    cancellation: Cancellation
    sight: Sight = Sight()


class AttemptOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended.

    :param execution: the provider call, None when it was not made or broke.
    :param attempt: what the session records; None when nothing about the provider was at fault: the run stops and can
        be resumed.
    :param candidate: with ``change_set``, the sealed artifact, for ``verified`` and ``digest-mismatch``.
    :param findings: why a seal was refused, for the next request.
    :param containment: the weakest that a foreign command of the attempt had; None if none ran.
    """

    receipt: Sealed[Receipt]
    execution: Execution | None
    attempt: Attempt | None
    candidate: Sealed[Candidate] | None
    change_set: Sealed[ChangeSet] | None
    findings: tuple[Finding, ...]
    containment: Containment | None = None


def check_inputs(inputs: AttemptInputs) -> None:
    """Refuse inputs that do not belong together.

    :raises UsageError: ``usage.attempt``.
    """
    state, request, plan = inputs.state, inputs.request.document, inputs.plan
    session = state.session
    expected = (
        ("phase", state.phase, "attempting"),
        ("operation", request.operation, "generation"),
        ("session", request.session_digest, digest_of(session)),
        ("repository domain", request.repository_domain, session.repository_domain),
        ("base commit", request.base_commit, session.base_commit),
        ("base manifest", request.base_manifest_digest, session.base_manifest_digest),
        ("plan", plan.digest, state.plan_digest),
        ("request's parent", request.parent_digest, plan.digest),
        ("request's plan", request.plan, plan.document),
        ("plan's generation", plan.document.generation, state.generation),
        ("request's generation", request.generation, state.generation),
        ("attempt number", request.attempt_number, state.expected_attempt),
        ("workspace identity", inputs.workspace_digest, session.workspace_digest),
    )
    for name, got, wanted in expected:
        if got is None or got != wanted:
            raise UsageError("usage.attempt", f"The {name} of this attempt is not the session's.")
