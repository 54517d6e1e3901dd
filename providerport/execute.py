"""One provider call: a deadline, a cancellation, a bounded observer, and exactly one receipt, whatever happens.

The first of three wins: the answer, the deadline, the caller's cancellation. When it is not the answer, the provider's
own cancellation is set and the worker gets a grace period to end its processes; what it answers then is dropped, what
it reports about processes and usage is kept. The deadline covers the description and the answer together.

=============================================  ====================================
Situation                                      Outcome / failure kind
=============================================  ====================================
a result that answers the request              the result's own
the deadline passed                            ``timed-out`` / ``timeout``
the caller cancelled                           ``cancelled`` / ``cancelled``
the operation is not claimed                   ``unsupported-capability`` / null
the provider declared a failure                what it declared, inside the vocabularies
anything else was raised                       ``unavailable`` / ``crash``
another request, operation, parent or payload  ``invalid-output`` / ``malformed-output``
no description, or one that is malformed       as above, with a blocking limitation
=============================================  ====================================
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Final, Generic, Literal, TypeVar

import msgspec

from providerport.documents import Capabilities, Observation, Observations, Receipt, Request, Result
from providerport.outcome import (
    UNDESCRIBED,
    accepted_capabilities,
    accepted_result,
    clean,
    failure_of,
    malformed,
    payload_digest,
    payload_of,
    result_of,
    undescribed,
)
from providerport.port import BaseReader, Call, Provider, ProviderFailure, Usage, Workspace
from savant.contracts.canonical import MAX_INTEGER
from savant.contracts.containment import Containment, weakest
from savant.contracts.document import Sealed, seal
from savant.contracts.effects import Cancellation, Clock, Raised, Task, Tasks
from savant.contracts.errors import UsageError
from synthesis.documents import Limitation

T = TypeVar("T")

SLICE_MS: Final = 20
"""How often a running call looks for a cancellation and the deadline. An answer is seen at once."""

GRACE_MS: Final = 10_000
"""How long a worker may take to end after it was told to."""

MAX_LINE_CHARACTERS: Final = 65_536
"""The longest observation that fits a document."""

_ENDED_PROCESSES: Final = Limitation(
    source="providerport.processes", text="Processes of the provider had to be ended after the call.", blocking=False
)
_LEFT_PROCESSES: Final = Limitation(
    source="providerport.processes", text="Processes of the provider could not be ended.", blocking=True
)
_LEFT_WORKER: Final = Limitation(
    source="providerport.worker", text="The provider's worker did not end when it was told to.", blocking=True
)


class Execution(msgspec.Struct, frozen=True):
    """One call as it happened.

    :param usage: as the provider reported it, members outside the range set to None; None when it reported nothing.
    :param duration_ms: from the start to the decision; without the grace period.
    :param survivors: descendants that had to be ended after a command.
    :param remaining: descendants that could not be ended.
    :param ended: whether the provider's worker ended; False means that foreign code may still be running.
    :param containment: the weakest that a command of the call had; None if it ran none.
    """

    capabilities: Sealed[Capabilities]
    result: Sealed[Result]
    observations: Sealed[Observations]
    receipt: Sealed[Receipt]
    usage: Usage | None
    duration_ms: int
    survivors: int
    remaining: int
    ended: bool
    containment: Containment | None = None


class BoundedObserver:
    """The observer of one call: counts and bytes are bounded, over-limit lines are counted and dropped.

    Callable from any thread. After :meth:`stop` lines are ignored, process and usage reports still count.

    :param request: its ``max_observations`` and ``max_observation_bytes`` (UTF-8 bytes of all kept lines together).
    """

    def __init__(self, request: Request) -> None:
        self._lock = threading.Lock()
        self._count_left = request.max_observations
        self._bytes_left = request.max_observation_bytes
        self._lines: list[str] = []
        self._dropped = 0
        self._stopped = False
        self._usage: Usage | None = None
        self._survivors = 0
        self._remaining = 0
        self._containment: Containment | None = None

    def note(self, text: str) -> None:
        """One line; lone surrogates are replaced."""
        size_bytes = len(text.encode("utf-8", "replace"))
        with self._lock:
            if self._stopped:
                return
            if self._count_left < 1 or size_bytes > self._bytes_left or len(text) > MAX_LINE_CHARACTERS:
                self._dropped += 1
                return
            self._count_left -= 1
            self._bytes_left -= size_bytes
            self._lines.append(clean(text, MAX_LINE_CHARACTERS))

    def usage(self, usage: Usage) -> None:
        """The call's usage so far, replacing what was said before."""
        with self._lock:
            self._usage = Usage(
                tokens_in=_ranged(usage.tokens_in),
                tokens_out=_ranged(usage.tokens_out),
                cost_microunits=_ranged(usage.cost_microunits),
                tokens_cached=_ranged(usage.tokens_cached),
                is_notional=usage.is_notional is True,
            )

    def processes(self, *, survivors: int, remaining: int, containment: Containment | None = None) -> None:
        """One command: the counts of several add up, and the weakest containment of them is kept."""
        with self._lock:
            self._survivors += max(survivors, 0)
            self._remaining += max(remaining, 0)
            self._containment = weakest((self._containment, containment))

    def stop(self, request_digest: str) -> Observations:
        """No line counts any more; the document of those that did."""
        with self._lock:
            self._stopped = True
            items = tuple(Observation(sequence=n, text=text) for n, text in enumerate(self._lines, start=1))
            return Observations(request_digest=request_digest, items=items, dropped=self._dropped)

    def report(self) -> tuple[Usage | None, int, int]:
        """Usage, survivors and remaining processes, so far."""
        with self._lock:
            return self._usage, self._survivors, self._remaining

    @property
    def containment(self) -> Containment | None:
        """The weakest containment of the commands so far; None while there was none."""
        with self._lock:
            return self._containment


def _ranged(value: int | None) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= MAX_INTEGER else None


class _Answered(msgspec.Struct, Generic[T], frozen=True):
    """The worker returned."""

    value: T


class _Failed(msgspec.Struct, frozen=True):
    """The worker raised."""

    error: BaseException


class _Beaten(msgspec.Struct, frozen=True):
    """The deadline or the caller came first."""

    outcome: Literal["timed-out", "cancelled"]
    failure_kind: Literal["timeout", "cancelled"]


class _Ending(msgspec.Struct, Generic[T], frozen=True):
    """What a worker ended with, when, and whether the caller had cancelled by then."""

    finish: _Answered[T] | _Failed
    at_ms: int
    cancelled: bool


_TIMED_OUT: Final = _Beaten("timed-out", "timeout")
_CANCELLED: Final = _Beaten("cancelled", "cancelled")


class _Race:
    """Lets calls run against one deadline and one cancellation."""

    def __init__(
        self, clock: Clock, tasks: Tasks, cancellation: Cancellation, *, deadline_ms: int, grace_ms: int
    ) -> None:
        self.token = tasks.cancellation()
        self.ended = True
        self._clock = clock
        self._tasks = tasks
        self._cancellation = cancellation
        self._grace_ms = grace_ms
        self._started_ms = clock.monotonic_ms()
        self._deadline_ms = self._started_ms + deadline_ms
        self._running: Task[object] | None = None

    def run(self, call: Callable[[], T]) -> _Answered[T] | _Failed | _Beaten:
        """The first of the call's end, the deadline and the cancellation."""
        beaten = self._beaten(self._clock.monotonic_ms(), self._cancellation.is_set())
        if beaten is not None:
            return beaten
        task = self._tasks.start(lambda: self._end_of(call))
        self._running = task
        while True:
            left_ms = self._deadline_ms - self._clock.monotonic_ms()
            ended = task.outcome(max(min(SLICE_MS, left_ms), 0))
            if ended is not None:
                self._running = None
                if isinstance(ended, Raised):
                    return _Failed(ended.error)
                ending = ended.value
                return self._beaten(ending.at_ms, ending.cancelled) or ending.finish
            beaten = self._beaten(self._clock.monotonic_ms(), self._cancellation.is_set())
            if beaten is not None:
                return beaten

    def elapsed_ms(self) -> int:
        """Time since the start."""
        return self._clock.monotonic_ms() - self._started_ms

    def settle(self) -> None:
        """Tell a worker that is still running to end, and wait for it, at most the grace period."""
        if self._running is not None:
            self.token.set()
            self.ended = self._running.outcome(self._grace_ms) is not None

    def _end_of(self, call: Callable[[], T]) -> _Ending[T]:
        finish: _Answered[T] | _Failed
        try:
            finish = _Answered(call())
        except Exception as error:  # noqa: BLE001 - whatever foreign code raises is an outcome
            finish = _Failed(error)
        return _Ending(finish, self._clock.monotonic_ms(), self._cancellation.is_set())

    def _beaten(self, at_ms: int, cancelled: bool) -> _Beaten | None:
        if cancelled:
            return _CANCELLED
        return _TIMED_OUT if at_ms >= self._deadline_ms else None


def execute(
    provider: Provider,
    call: Sealed[Request],
    *,
    clock: Clock,
    tasks: Tasks,
    cancellation: Cancellation,
    base: BaseReader | None,
    workspace: Workspace | None,
    grace_ms: int = GRACE_MS,
) -> Execution:
    """Make one call and say how it ended. It raises nothing that the provider could cause.

    :param cancellation: the caller's; the provider gets one of its own, set when the call is over before its answer.
    :param base: the pinned base, where the caller discloses it.
    :param workspace: the candidate; given for ``generation`` and for nothing else.
    :param grace_ms: how long a worker may take to end after it was told to.
    :raises UsageError: ``usage.workspace-operation`` when a workspace is missing or given for another operation.
    """
    operation = call.document.operation
    if (workspace is not None) != (operation == "generation"):
        raise UsageError("usage.workspace-operation", f"A workspace is for generation, and only; this is {operation}.")
    observer = BoundedObserver(call.document)
    race = _Race(clock, tasks, cancellation, deadline_ms=call.document.deadline_ms, grace_ms=grace_ms)
    try:
        capabilities, result = _describe(provider, call, race, observer)
        if result is None:
            handed = Call(call, observer, race.token, base, workspace)
            finish = race.run(lambda: provider.execute(handed))
            if isinstance(finish, _Answered):
                result = accepted_result(call, finish.value)
            else:
                result = seal(_failure(call, finish, observer))
        observations = seal(observer.stop(call.digest))
        duration_ms = race.elapsed_ms()
        race.settle()
    except BaseException:  # an interrupted caller leaves no worker behind that was not told
        race.token.set()
        raise
    usage, survivors, remaining = observer.report()
    receipt = seal(
        _receipt(
            call,
            capabilities,
            result,
            survivors=survivors,
            remaining=remaining,
            ended=race.ended,
        )
    )
    return Execution(
        capabilities=capabilities or undescribed(),
        result=result,
        observations=observations,
        receipt=receipt,
        usage=usage,
        duration_ms=duration_ms,
        survivors=survivors,
        remaining=remaining,
        ended=race.ended,
        containment=observer.containment,
    )


def _describe(
    provider: Provider, call: Sealed[Request], race: _Race, observer: BoundedObserver
) -> tuple[Sealed[Capabilities] | None, Sealed[Result] | None]:
    """The description, and the result when the call ends here; no description comes with a result."""
    finish = race.run(provider.describe)
    if not isinstance(finish, _Answered):
        return None, seal(_failure(call, finish, observer))
    capabilities = accepted_capabilities(finish.value)
    if capabilities is None:
        return None, seal(malformed(call, "The provider's description is not a capabilities document."))
    if call.document.operation not in capabilities.document.operations:
        detail = f"The provider does not claim {call.document.operation}."
        return capabilities, seal(result_of(call, "unsupported-capability", detail=detail))
    return capabilities, None


def _failure(call: Sealed[Request], finish: _Failed | _Beaten, observer: BoundedObserver) -> Result:
    if isinstance(finish, _Beaten):
        return result_of(call, finish.outcome, failure_kind=finish.failure_kind)
    error = finish.error
    if isinstance(error, ProviderFailure):
        return failure_of(call, error.outcome, error.failure_kind, error.detail)
    observer.note("".join(traceback.format_exception_only(error)).strip())
    detail = f"The provider raised {type(error).__name__}."
    return result_of(call, "unavailable", failure_kind="crash", detail=detail)


def _receipt(
    call: Sealed[Request],
    capabilities: Sealed[Capabilities] | None,
    result: Sealed[Result],
    *,
    survivors: int,
    remaining: int,
    ended: bool,
) -> Receipt:
    payload = payload_of(result.document)
    said = (
        (UNDESCRIBED, capabilities is None),
        (_ENDED_PROCESSES, survivors > 0),
        (_LEFT_PROCESSES, remaining > 0),
        (_LEFT_WORKER, not ended),
    )
    return Receipt(
        request_digest=call.digest,
        capabilities_digest=(capabilities or undescribed()).digest,
        operation=call.document.operation,
        outcome=result.document.outcome,
        failure_kind=result.document.failure_kind,
        result_digest=result.digest,
        payload_digest=None if payload is None else payload_digest(payload),
        limitations=tuple(limitation for limitation, holds in said if holds),
    )
