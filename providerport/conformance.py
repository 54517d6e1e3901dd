"""What every provider must do, as a suite that can be run against any of them.

Each check is a function of a :class:`Harness`; it returns when the provider conforms and raises ``AssertionError``
with a sentence when it does not. ``CHECKS`` lists them, for parametrised tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from providerport.documents import Request, Result
from providerport.execute import BoundedObserver, Execution, execute
from providerport.outcome import (
    FAILURE_KINDS,
    OUTCOMES,
    accepted_capabilities,
    check_result,
    payload_digest,
    payload_of,
)
from providerport.port import BaseReader, Call, Provider, ProviderFailure, Workspace
from savant.contracts.document import Sealed, seal
from savant.contracts.effects import Cancellation, Clock, Raised, Tasks
from synthesis.documents import Operation


class Harness(msgspec.Struct, frozen=True):
    """A provider and what it needs to be run.

    :param make: a fresh provider; every check makes its own.
    :param requests: one request per operation, claimed or not.
    :param clock: the clock of the executor.
    :param tasks: real tasks: the cancellation check needs a worker beside the caller.
    :param base: the pinned base that every call is shown, or None.
    :param workspace: a fresh candidate for each generation.
    :param make_blocking: a provider whose calls do not end by themselves; None when it has no such call.
    :param patience_ms: how long a cancelled call may take to end.
    """

    make: Callable[[], Provider]
    requests: Mapping[Operation, Sealed[Request]]
    clock: Clock
    tasks: Tasks
    base: BaseReader | None
    workspace: Callable[[], Workspace]
    make_blocking: Callable[[], Provider] | None = None
    patience_ms: int = msgspec.field(default=10_000)

    def call(self, provider: Provider, request: Sealed[Request], cancellation: Cancellation) -> Result:
        """One direct call, as the executor would make it."""
        workspace = self.workspace() if request.document.operation == "generation" else None
        return provider.execute(Call(request, BoundedObserver(request.document), cancellation, self.base, workspace))

    def execute(self, provider: Provider, request: Sealed[Request], cancellation: Cancellation) -> Execution:
        """One call through the executor."""
        return execute(
            provider,
            request,
            clock=self.clock,
            tasks=self.tasks,
            cancellation=cancellation,
            base=self.base,
            workspace=self.workspace() if request.document.operation == "generation" else None,
        )


def _must(holds: bool, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)


def describes_itself_the_same_each_time(harness: Harness) -> None:
    """Two descriptions of one provider, and of two providers made alike, are the same document."""
    first, second = harness.make(), harness.make()
    described = [accepted_capabilities(d) for d in (first.describe(), first.describe(), second.describe())]
    _must(all(d is not None for d in described), "describe() gave no capabilities document.")
    _must(len({d.digest for d in described if d is not None}) == 1, "describe() changes its answer.")


def answers_the_request_it_was_handed(harness: Harness) -> None:
    """For each claimed operation the result names the request and carries the right payload, or fails as declared."""
    claimed = harness.make().describe().operations
    _must(len(claimed) > 0, "The provider claims no operation.")
    for operation in claimed:
        request = harness.requests[operation]
        try:
            result = harness.call(harness.make(), request, harness.tasks.cancellation())
        except ProviderFailure as failure:
            _declared(failure)
        else:
            problem = check_result(request, seal(result).document)
            _must(problem is None, f"{operation}: {problem}")


def _declared(failure: ProviderFailure) -> None:
    _must(
        failure.outcome in OUTCOMES - {"completed"} and failure.failure_kind in FAILURE_KINDS,
        f"A failure outside the vocabularies: {failure.outcome!r}, {failure.failure_kind!r}.",
    )


def raises_nothing_but_its_failure(harness: Harness) -> None:
    """Whatever the operation, a call ends in a result or a ProviderFailure inside the vocabularies."""
    for operation, request in harness.requests.items():
        try:
            harness.call(harness.make(), request, harness.tasks.cancellation())
        except ProviderFailure as failure:
            _declared(failure)
        except Exception as error:
            raise AssertionError(f"{operation}: raised {type(error).__name__}.") from error


def refuses_what_it_does_not_claim(harness: Harness) -> None:
    """A call for an unclaimed operation fails as ``unsupported-capability``, asked directly or through the port."""
    claimed = harness.make().describe().operations
    for operation, request in harness.requests.items():
        if operation in claimed:
            continue
        try:
            harness.call(harness.make(), request, harness.tasks.cancellation())
        except ProviderFailure as failure:
            outcome = failure.outcome
        else:
            outcome = "completed"
        _must(outcome == "unsupported-capability", f"{operation} is not claimed and ended as {outcome}.")
        through = harness.execute(harness.make(), request, harness.tasks.cancellation())
        _must(through.result.document.outcome == "unsupported-capability", f"{operation} was executed by the port.")


def gives_exactly_one_bound_receipt(harness: Harness) -> None:
    """Through the port every call has one receipt, which binds request, description, result and payload."""
    for request in harness.requests.values():
        execution = harness.execute(harness.make(), request, harness.tasks.cancellation())
        receipt, result = execution.receipt.document, execution.result
        payload = payload_of(result.document)
        bound = (
            receipt.request_digest == request.digest,
            receipt.capabilities_digest == execution.capabilities.digest,
            receipt.result_digest == result.digest,
            receipt.outcome == result.document.outcome,
            receipt.payload_digest == (None if payload is None else payload_digest(payload)),
            check_result(request, result.document) is None,
        )
        _must(all(bound), f"{request.document.operation}: the receipt is not bound to its call.")


def leaves_nothing_running(harness: Harness) -> None:
    """After each call no process is left and the worker has ended."""
    for request in harness.requests.values():
        execution = harness.execute(harness.make(), request, harness.tasks.cancellation())
        _must(execution.remaining == 0 and execution.ended, f"{request.document.operation}: something still runs.")


def ends_when_cancelled(harness: Harness) -> None:
    """A cancelled call ends within the patience, whether the token was set before it or while it ran."""
    for make in (harness.make, harness.make_blocking or harness.make):
        for operation in make().describe().operations:
            _cancel(harness, make(), harness.requests[operation])


def _cancel(harness: Harness, provider: Provider, request: Sealed[Request]) -> None:
    token = harness.tasks.cancellation()
    task = harness.tasks.start(lambda: harness.call(provider, request, token))
    token.set()
    ended = task.outcome(harness.patience_ms)
    _must(ended is not None, f"{request.document.operation}: goes on after it was cancelled.")
    if isinstance(ended, Raised):
        _must(isinstance(ended.error, ProviderFailure), f"A cancelled call raised {type(ended.error).__name__}.")


CHECKS: Final[Mapping[str, Callable[[Harness], None]]] = MappingProxyType(
    {
        check.__name__: check
        for check in (
            describes_itself_the_same_each_time,
            answers_the_request_it_was_handed,
            raises_nothing_but_its_failure,
            refuses_what_it_does_not_claim,
            gives_exactly_one_bound_receipt,
            leaves_nothing_running,
            ends_when_cancelled,
        )
    }
)
"""The whole suite, by name."""
