"""Asking auditors: their calls go through the provider port, count against the budgets and are recorded like any other.

What they say decides nothing here; :mod:`evaluator.audit` judges it. A budget that forbids an audit leaves the session
as it is: what follows is said by the check that did not run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from evaluator.auditing import AuditAnswer
from providerport.documents import AuditTask
from providerport.mapping import verified_payload
from providerport.port import Provider
from runner.shortfall import shortfall
from savant.contracts.containment import Demand
from synthesis.machine import Refusal

if TYPE_CHECKING:
    from driver.step import Run
    from evaluator.inputs import EvaluationInputs

OUT_OF_BUDGET: Final = "a budget of this run forbids another call"


class AuditPort(msgspec.Struct, frozen=True):
    """Who may be asked for one part of an audit.

    :param provider: makes a fresh provider for each call.
    :param demanded: the least containment of its commands.
    """

    provider: Callable[[], Provider]
    demanded: Demand = Demand()


NOBODY: Final[Mapping[str, AuditPort]] = MappingProxyType({})
"""Where no audit is asked for."""


class Auditors:
    """The auditors of one run, by role, about one candidate. An :class:`evaluator.auditing.Auditor`."""

    def __init__(self, run: Run, ports: Mapping[str, AuditPort], inputs: EvaluationInputs) -> None:
        self._run, self._ports, self._inputs = run, ports, inputs

    def ask(self, role: str, task: AuditTask, *, deadline_ms: int) -> AuditAnswer:
        """One call; the candidate's tree is what it may read."""
        run, port = self._run, self._ports.get(role)
        if port is None:
            return AuditAnswer(None, f"no {role} was named")
        run.ports.progress.say(f"audit: asking the {role}")
        request = run.request("evaluation-observation", self._inputs.attempt.document, deadline_ms, None, audit=task)
        if not run.calls.begin(request, ends=False):
            return AuditAnswer(None, run.calls.refused or OUT_OF_BUDGET)
        execution = run.calls.execute(
            port.provider(), request, cancellation=run.ports.cancellation, base=self._inputs.tree, workspace=None
        )
        run.calls.finish(request, execution)
        result = execution.result.document
        limitation = shortfall(f"audit.{role}", f"The commands of the {role}", execution.containment, port.demanded)
        if result.outcome != "completed":
            detail = f"{result.outcome}{f': {result.detail}' if result.detail else ''}"
            return AuditAnswer(execution.result, detail, execution.containment, limitation)
        payload = verified_payload(run.host.state, request, execution.result, execution.receipt)
        if isinstance(payload, Refusal):
            return AuditAnswer(None, f"{payload.code}: {payload.message}", execution.containment, limitation)
        return AuditAnswer(execution.result, "", execution.containment, limitation)
