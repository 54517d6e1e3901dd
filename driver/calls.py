"""Provider calls as the driver makes them: counted, announced before they start, recorded when they end."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from driver.documents import Accounting
from driver.history import RunHistory
from driver.indexing import CALL_INTENT, usage_of
from driver.inputs import RunPorts
from driver.money import CallUse, Reservation, format_amount, tally
from driver.session import SessionHost
from providerport.documents import Capabilities, Receipt, Request
from providerport.execute import Execution, execute
from providerport.port import BaseReader, Provider, Workspace
from savant.contracts.document import Sealed
from savant.contracts.effects import Cancellation
from savant.ledger.documents import Intent
from synthesis.budgets import Consumption, consume, tripped
from synthesis.commands import RecordCall, TripBreaker
from synthesis.documents import Breaker, Budgets


class ProviderCalls:
    """The calls of one run: their budget, their records, their receipts in order."""

    def __init__(self, host: SessionHost, ports: RunPorts, accounting: Accounting) -> None:
        self._host = host
        self._ports = ports
        self._accounting = accounting
        self.uses: list[CallUse] = []
        self.receipts: list[str] = []
        self.refused = ""
        """Why a budget forbade the last call that was to begin, for a person; empty while none did."""

    def begin(self, request: Sealed[Request], *, ends: bool = True) -> bool:
        """Count the call and record its intent; False when a budget forbids it, and the session then has failed.

        What the call can use at most is set aside first: a call that could exceed a limit does not begin.

        :param ends: whether a budget that forbids the call ends the session; else the call is not made, and no more.
        """
        budgets = self._host.session.document.budgets
        breaker, consumption, next_call = next_breaker(budgets, self._accounting, self.uses)
        if breaker is None and self._host.send(RecordCall(request.document.operation)) is not None:
            breaker = "calls"
        if breaker is not None:
            self.refused = explain(breaker, budgets, consumption, next_call)
            if ends:
                self._host.send(TripBreaker(breaker))
            return False
        self._ports.recorder.record_once("provider-host", request)
        self._ports.recorder.intent(
            "provider-host",
            f"{CALL_INTENT}{request.document.operation}",
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
        self.uses.append(
            CallUse(
                operation=request.document.operation,
                deadline_ms=request.document.deadline_ms,
                duration_ms=execution.duration_ms,
                model=execution.capabilities.document.model,
                usage=usage,
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


def next_breaker(
    budgets: Budgets, accounting: Accounting, uses: Iterable[CallUse]
) -> tuple[Breaker | None, Consumption, Reservation]:
    """The breaker that forbids the next call, or None; what the calls so far consumed, and what the next sets aside."""
    tallied = tally(accounting, uses)
    consumption, next_call = consume(tallied.records), tallied.next_call
    breaker = tripped(
        budgets, consumption, next_tokens=next_call.tokens, next_cost_microunits=next_call.cost_microunits or 0
    )
    return breaker, consumption, next_call


def uses_of(history: RunHistory) -> tuple[CallUse, ...]:
    """The calls of a run as its records show them: what :attr:`ProviderCalls.uses` held, and calls that never ended."""
    models = {claim.digest: claim.document.model for claim in history.all(Capabilities)}
    uses: dict[int, CallUse] = {}
    began: dict[str, int] = {}
    for entry in history.entries:
        match entry.body.document:
            case Intent(operation=name, subject_digest=str(request)) if name.startswith(CALL_INTENT):
                operation = history.by_digest(Request, request).document.operation
                deadline_ms = entry.body.document.deadline_ms or 0
                uses[entry.seq] = CallUse(operation, deadline_ms, None, "", None)
                began[request] = entry.seq
            case Receipt() as receipt if receipt.request_digest in began:
                seq = began.pop(receipt.request_digest)
                uses[seq] = replace(
                    uses[seq],
                    duration_ms=entry.observed.duration_ms,
                    model=models.get(receipt.capabilities_digest, ""),
                    usage=usage_of(entry.observed),
                )
            case _:
                pass
    return tuple(uses.values())


def explain(breaker: Breaker, budgets: Budgets, consumption: Consumption, next_call: Reservation) -> str:
    """Why no further call was made, in words; empty for a breaker whose name says it all."""
    match breaker:
        case "tokens":
            return (
                f"Of {budgets.tokens} tokens, {consumption.tokens} are used; "
                f"the next call may use {next_call.tokens} and was not made."
            )
        case "cost" if budgets.cost_microunits is not None:
            return (
                f"Of {format_amount(budgets.cost_microunits)}, {format_amount(consumption.cost_microunits)} is spent; "
                f"the next call may cost {format_amount(next_call.cost_microunits or 0)} and was not made."
            )
        case _:
            return ""
