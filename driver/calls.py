"""Provider calls as the driver makes them: counted, announced before they start, recorded when they end."""

from __future__ import annotations

from driver.inputs import RunPorts
from driver.session import SessionHost
from providerport.documents import Request
from providerport.execute import Execution, execute
from providerport.port import BaseReader, Provider, Workspace
from savant.contracts.document import Sealed
from savant.contracts.effects import Cancellation
from synthesis.budgets import CallRecord, consume, tripped
from synthesis.commands import RecordCall, TripBreaker


class ProviderCalls:
    """The calls of one run: their budget, their records, their receipts in order."""

    def __init__(self, host: SessionHost, ports: RunPorts) -> None:
        self._host = host
        self._ports = ports
        self._calls: list[CallRecord] = []
        self.receipts: list[str] = []

    def begin(self, request: Sealed[Request]) -> bool:
        """Count the call and record its intent; False when a budget forbids it, and the session then has failed."""
        breaker = tripped(self._host.session.document.budgets, consume(self._calls))
        if breaker is None and self._host.send(RecordCall(request.document.operation)) is not None:
            breaker = "calls"
        if breaker is not None:
            self._host.send(TripBreaker(breaker))
            return False
        self._ports.recorder.record_once("provider-host", request)
        self._ports.recorder.intent(
            "provider-host",
            f"provider.{request.document.operation}",
            subject=request.digest,
            deadline_ms=request.document.deadline_ms,
        )
        return True

    def execute(
        self,
        provider: Provider,
        request: Sealed[Request],
        *,
        cancellation: Cancellation,
        base: BaseReader | None,
        workspace: Workspace | None,
    ) -> Execution:
        """Run the call under its deadline and the run's cancellation."""
        return execute(
            provider,
            request,
            clock=self._ports.clock,
            tasks=self._ports.tasks,
            cancellation=cancellation,
            base=base,
            workspace=workspace,
        )

    def finish(self, request: Sealed[Request], execution: Execution) -> None:
        """Record what the call ended with; its lines go to the object store, by digest."""
        recorder = self._ports.recorder
        usage = execution.usage
        tokens = None if usage is None else _sum(usage.tokens_in, usage.tokens_out)
        self._calls.append(
            CallRecord(
                operation=request.document.operation,
                duration_ms=execution.duration_ms,
                deadline_ms=request.document.deadline_ms,
                tokens=tokens,
                cost_microunits=None if usage is None else usage.cost_microunits,
            )
        )
        recorder.record_once("provider-host", execution.capabilities)
        recorder.record_once("provider-host", execution.result)
        attachments = {}
        if execution.observations.document.items:
            attachments["observations"] = self._ports.store.put(execution.observations.raw)
        recorder.record(
            "provider-host",
            execution.receipt,
            duration_ms=execution.duration_ms,
            usage=usage,
            containment=execution.containment,
            attachments=attachments,
            detail=None if not execution.survivors else f"{execution.survivors} processes had to be ended",
        )
        self.receipts.append(execution.receipt.digest)


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None and second is None else (first or 0) + (second or 0)
