"""One call: how it ends, and that there is exactly one receipt whatever the provider does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from providerport.documents import Capabilities, Request
from providerport.execute import GRACE_MS, SLICE_MS, BoundedObserver, Execution, execute
from providerport.outcome import payload_digest, result_of
from providerport.port import Call, Usage
from providerport.scripted import (
    ANSWERS_INTERPRETATION,
    ANSWERS_PLANNING,
    Answer,
    Block,
    Edit,
    Fail,
    Raise,
    ScriptedProvider,
    Step,
    Verbatim,
    claim,
    converged_review,
    minimal_interpretation,
    minimal_plan,
    write_files,
)
from savant.contracts.canonical import MAX_INTEGER
from savant.contracts.document import Sealed, seal
from savant.contracts.effects import Raised
from savant.contracts.errors import UsageError
from savant.contracts.twins import EndedTask, FixedClock, InlineCancellation, InlineTasks
from savant.process.effects import SystemClock, ThreadTasks
from synthesis.documents import Operation

MALFORMED = ("invalid-output", "malformed-output")


def run(provider: Any, request: Sealed[Request], **changes: Any) -> Execution:
    given = {
        "clock": FixedClock(),
        "tasks": InlineTasks(),
        "cancellation": InlineCancellation(),
        "base": None,
        "workspace": None,
        **changes,
    }
    execution = execute(provider, request, **given)
    check_receipt(request, execution)
    return execution


def check_receipt(request: Sealed[Request], execution: Execution) -> None:
    """The one receipt binds everything, and a payload is there exactly when the call completed."""
    receipt, result = execution.receipt.document, execution.result.document
    assert receipt.request_digest == result.request_digest == request.digest
    assert execution.observations.document.request_digest == request.digest
    assert receipt.operation == request.document.operation
    assert receipt.capabilities_digest == execution.capabilities.digest
    assert receipt.result_digest == execution.result.digest
    assert (receipt.outcome, receipt.failure_kind) == (result.outcome, result.failure_kind)
    assert (receipt.payload_digest is not None) == (receipt.outcome == "completed")


def ended(execution: Execution) -> tuple[str, str | None]:
    return execution.result.document.outcome, execution.result.document.failure_kind


def scripted(operation: Operation, *steps: Step, **options: Any) -> ScriptedProvider:
    return ScriptedProvider({operation: steps}, **options)


def test_every_operation_completes_with_its_own_payload(world: Any) -> None:
    """The answer is kept as it is, its digest is in the receipt, and nothing limits the receipt."""
    payloads: dict[Operation, tuple[Step, Any]] = {
        "interpretation": (ANSWERS_INTERPRETATION, minimal_interpretation(world.session)),
        "planning": (ANSWERS_PLANNING, minimal_plan(world.interpretation)),
        "review-observation": (Answer(converged_review(world.plan)), converged_review(world.plan)),
        "generation": (Edit(write_files({b"b.txt": b"b\n", b"a.txt": None})), claim("edited")),
        "evaluation-observation": (Answer(world.audit), world.audit),
    }
    for operation, (step, payload) in payloads.items():
        workspace = world.workspace() if operation == "generation" else None
        execution = run(scripted(operation, step), world.request(operation), workspace=workspace)
        assert ended(execution) == ("completed", None)
        assert execution.receipt.document.payload_digest == payload_digest(payload)
        assert execution.receipt.document.limitations == ()
        assert execution.usage is None
        assert execution.ended
        if workspace is not None:
            assert workspace.files == {b"b.txt": b"b\n"}


def test_the_base_and_the_workspace_are_handed_as_they_were_given(world: Any) -> None:
    """A disclosed base reaches the provider, and a call without one gets none."""
    seen: list[Call] = []

    def look(call: Call) -> Any:
        seen.append(call)
        return claim()

    workspace = world.workspace()
    run(scripted("generation", Answer(look)), world.request("generation"), base=workspace, workspace=workspace)
    run(scripted("generation", Answer(look)), world.request("generation"), workspace=workspace)
    assert [(call.base, call.workspace) for call in seen] == [(workspace, workspace), (None, workspace)]


def test_a_workspace_is_for_generation_and_for_nothing_else(world: Any) -> None:
    """Handing out a workspace for another operation, or none for generation, is the caller's mistake."""
    cases: list[tuple[Operation, Any]] = [("planning", world.workspace()), ("generation", None)]
    for operation, workspace in cases:
        provider = scripted(operation, ANSWERS_PLANNING)
        with pytest.raises(UsageError) as error:
            run(provider, world.request(operation), workspace=workspace)
        assert error.value.code == "usage.workspace-operation"
        assert provider.calls() == 0


@pytest.mark.parametrize(
    ("outcome", "kind", "expected"),
    [
        ("unavailable", "rate-limited", ("unavailable", "rate-limited")),
        ("timed-out", "turn-limit", ("timed-out", "turn-limit")),
        ("invalid-output", "no-change", ("invalid-output", "no-change")),
        ("unsupported-capability", "config-error", ("unsupported-capability", "config-error")),
        ("completed", "no-change", MALFORMED),
        ("finished", "crash", MALFORMED),
        ("unavailable", "bored", MALFORMED),
    ],
)
def test_a_declared_failure_keeps_its_words_when_they_are_in_the_vocabularies(
    world: Any, outcome: str, kind: str, expected: tuple[str, str]
) -> None:
    """Outcome and kind are the provider's, unless they are not words of the contract or claim success."""
    execution = run(scripted("planning", Fail(outcome, kind, "why \ud800 it failed")), world.request("planning"))
    assert ended(execution) == expected
    if expected != MALFORMED:
        assert execution.result.document.detail == "why ? it failed"


def test_a_providers_words_about_a_failure_are_cut(world: Any) -> None:
    """A result keeps the first 4096 characters; the rest belongs into observations."""
    for length, kept in ((4_096, 4_096), (4_097, 4_096)):
        step = Fail("unavailable", "overloaded", "x" * length)
        assert len(run(scripted("planning", step), world.request("planning")).result.document.detail) == kept


def test_any_other_exception_is_a_crash_and_its_words_are_an_observation(world: Any) -> None:
    """The result names the exception's class alone; what it said is evidence beside it."""
    execution = run(scripted("planning", Raise(RuntimeError("at 0x7f"))), world.request("planning"))
    assert ended(execution) == ("unavailable", "crash")
    assert execution.result.document.detail == "The provider raised RuntimeError."
    assert [item.text for item in execution.observations.document.items] == ["RuntimeError: at 0x7f"]


def test_a_worker_that_is_ended_by_more_than_an_exception_is_a_crash(world: Any) -> None:
    """What the tasks report as raised is a crash too, even where no exception of the provider was caught."""
    assert ended(run(scripted("planning", Raise(SystemExit(3))), world.request("planning"))) == ("unavailable", "crash")

    class Broken(InlineTasks):
        def start(self, call: Callable[[], Any]) -> Any:
            return EndedTask(Raised(MemoryError()))

    assert ended(run(scripted("planning", ANSWERS_PLANNING), world.request("planning"), tasks=Broken())) == (
        "unavailable",
        "crash",
    )


def test_an_operation_that_is_not_claimed_is_not_executed(world: Any) -> None:
    """The outcome is unsupported-capability and the provider is never called."""
    provider = scripted("interpretation", ANSWERS_INTERPRETATION)
    execution = run(provider, world.request("planning"))
    assert ended(execution) == ("unsupported-capability", None)
    assert provider.calls() == 0
    assert execution.capabilities.document.operations == ("interpretation",)


@pytest.mark.parametrize(
    ("operation", "make"),
    [
        ("planning", lambda call, world: None),
        ("planning", lambda call, world: {"outcome": "completed"}),
        ("planning", lambda call, world: minimal_plan(world.interpretation)),
        ("planning", lambda call, world: good(call, world, request_digest="blake3:" + "0" * 64)),
        ("planning", lambda call, world: good(call, world, request_digest="elsewhere")),
        ("planning", lambda call, world: good(call, world, operation="interpretation")),
        ("planning", lambda call, world: good(call, world, plan=None)),
        ("planning", lambda call, world: good(call, world, review=converged_review(world.plan))),
        ("planning", lambda call, world: good(call, world, failure_kind="budget")),
        ("planning", lambda call, world: good(call, world, outcome="unavailable")),
        ("planning", lambda call, world: good(call, world, outcome="done")),
        ("planning", lambda call, world: good(call, world, detail="\ud800")),
        ("planning", lambda call, world: good(call, world, plan=minimal_plan(world.interpretation, 2))),
        ("planning", lambda call, world: foreign(call, world.plan, "interpretation_digest")),
        ("planning", lambda call, world: good(call, world, plan="plan")),
        ("planning", lambda call, world: good(call, world, plan=structs.replace(world.plan, steps=(object(),)))),
        ("interpretation", lambda call, world: foreign(call, world.interpretation, "session_digest")),
        ("review-observation", lambda call, world: foreign(call, converged_review(world.plan), "plan_digest")),
        ("evaluation-observation", lambda call, world: foreign(call, world.audit, "candidate_digest")),
    ],
)
def test_an_answer_that_is_not_the_answer_to_this_request_is_invalid(
    world: Any, operation: Operation, make: Callable[[Call, Any], object]
) -> None:
    """Another type, reference, operation, payload, parent, generation or spelling: invalid-output, never an error."""
    execution = run(scripted(operation, Verbatim(lambda call: make(call, world))), world.request(operation))
    assert ended(execution) == MALFORMED
    assert execution.result.document.detail
    control = {
        "planning": lambda call: good(call, world),
        "interpretation": lambda call: answer(call, world.interpretation),
        "review-observation": lambda call: answer(call, converged_review(world.plan)),
        "evaluation-observation": lambda call: answer(call, world.audit),
    }[operation]
    assert ended(run(scripted(operation, Verbatim(control)), world.request(operation))) == ("completed", None)


def answer(call: Call, payload: Any) -> Any:
    return result_of(call.request, "completed", payload=payload)


def good(call: Call, world: Any, **changes: Any) -> Any:
    return structs.replace(answer(call, minimal_plan(world.interpretation)), **changes)


def foreign(call: Call, payload: Any, member: str) -> Any:
    return answer(call, structs.replace(payload, **{member: "blake3:" + "0" * 64}))


def test_a_failure_that_the_provider_answers_itself_is_kept(world: Any) -> None:
    """A result that is not completed keeps its outcome, kind and detail."""
    step = Verbatim(lambda call: result_of(call.request, "invalid-output", failure_kind="no-change", detail="nothing"))
    execution = run(scripted("planning", step), world.request("planning"))
    assert ended(execution) == ("invalid-output", "no-change")
    assert execution.result.document.detail == "nothing"


class Described:
    """A provider whose description is scripted."""

    def __init__(self, describe: Callable[[], Any]) -> None:
        self.describe = describe
        self.executed = 0

    def execute(self, call: Call) -> Any:
        self.executed += 1
        return result_of(call.request, "unavailable", failure_kind="denied")


def broken(**changes: Any) -> Capabilities:
    return structs.replace(scripted("planning").describe(), **changes)


def raising(error: BaseException) -> Callable[[], Any]:
    def describe() -> Any:
        raise error

    return describe


@pytest.mark.parametrize(
    ("describe", "expected"),
    [
        (raising(ValueError()), ("unavailable", "crash")),
        (lambda: None, MALFORMED),
        (lambda: broken(provider=""), MALFORMED),
        (lambda: broken(operations=("planning", "generation")), MALFORMED),
        (lambda: broken(operations=("thinking",)), MALFORMED),
    ],
)
def test_a_provider_that_does_not_describe_itself_is_not_called_and_still_gets_a_receipt(
    world: Any, describe: Callable[[], Any], expected: tuple[str, str]
) -> None:
    """The receipt binds an empty description and a blocking limitation; the positive control is called."""
    provider = Described(describe)
    execution = run(provider, world.request("planning"))
    assert ended(execution) == expected
    assert provider.executed == 0
    assert execution.capabilities.document.operations == ()
    assert not execution.capabilities.document.reports_usage
    assert [(limit.source, limit.blocking) for limit in execution.receipt.document.limitations] == [
        ("providerport.describe", True)
    ]
    control = Described(scripted("planning").describe)
    assert ended(run(control, world.request("planning"))) == ("unavailable", "denied")
    assert control.executed == 1


def test_a_cancelled_caller_calls_nobody(world: Any) -> None:
    """Set before the call, the cancellation wins against everything."""
    provider = scripted("planning", ANSWERS_PLANNING)
    token = InlineCancellation()
    token.set()
    assert ended(run(provider, world.request("planning", deadline_ms=0), cancellation=token)) == (
        "cancelled",
        "cancelled",
    )
    assert provider.calls() == 0


def test_a_deadline_of_nothing_calls_nobody(world: Any) -> None:
    """No time is no call; one millisecond is, with a clock that stands."""
    provider = scripted("planning", ANSWERS_PLANNING)
    assert ended(run(provider, world.request("planning", deadline_ms=0))) == ("timed-out", "timeout")
    assert provider.calls() == 0
    assert ended(run(provider, world.request("planning", deadline_ms=1))) == ("completed", None)


@pytest.mark.parametrize(("took_ms", "outcome"), [(999, "completed"), (1000, "timed-out"), (1001, "timed-out")])
def test_an_answer_at_the_deadline_is_late(world: Any, clock: FixedClock, took_ms: int, outcome: str) -> None:
    """The deadline is the first instant that is too late, and a late answer is dropped with its payload."""

    def slow(call: Call) -> Any:
        clock.advance(took_ms)
        return minimal_plan(world.interpretation)

    execution = run(scripted("planning", Answer(slow)), world.request("planning"), clock=clock)
    assert ended(execution)[0] == outcome
    assert execution.duration_ms == took_ms
    assert execution.ended


def test_description_and_answer_share_one_deadline(world: Any, clock: FixedClock) -> None:
    """Time spent on the description is missing for the answer."""
    provider = scripted("planning", ANSWERS_PLANNING)

    class Slow:
        def describe(self) -> Capabilities:
            clock.advance(1000)
            return provider.describe()

        def execute(self, call: Call) -> Any:
            return provider.execute(call)

    execution = run(Slow(), world.request("planning"), clock=clock)
    assert ended(execution) == ("timed-out", "timeout")
    assert provider.calls() == 0


def test_an_answer_that_came_after_the_cancellation_is_dropped(world: Any) -> None:
    """A provider that cancels its caller's token and answers all the same has not answered."""
    token = InlineCancellation()

    def late(call: Call) -> Any:
        token.set()
        return minimal_plan(world.interpretation)

    assert ended(run(scripted("planning", Answer(late)), world.request("planning"), cancellation=token)) == (
        "cancelled",
        "cancelled",
    )


def test_a_hanging_call_ends_at_its_deadline(world: Any, clock: FixedClock, hanging: Any) -> None:
    """The provider's token is set, it gets the grace period, and the receipt says that it did not end."""
    tasks = hanging(clock)
    execution = run(scripted("planning", ANSWERS_PLANNING), world.request("planning"), clock=clock, tasks=tasks)
    assert ended(execution) == ("timed-out", "timeout")
    assert execution.duration_ms == 1000
    assert tasks.tokens[0].is_set()
    (task,) = tasks.hanging
    assert task.waits[:-1] == [SLICE_MS] * (1000 // SLICE_MS)
    assert task.waits[-1] == GRACE_MS
    assert not execution.ended
    assert [(limit.source, limit.blocking) for limit in execution.receipt.document.limitations] == [
        ("providerport.worker", True)
    ]


def test_a_hanging_call_ends_when_the_caller_cancels(world: Any, clock: FixedClock, hanging: Any) -> None:
    """The cancellation is seen within a slice; what the worker answers in its grace period is dropped."""
    token = InlineCancellation()
    tasks = hanging(clock, asks=2, on_ask=token.set)
    execution = run(
        scripted("planning", ANSWERS_PLANNING),
        world.request("planning"),
        clock=clock,
        tasks=tasks,
        cancellation=token,
    )
    assert ended(execution) == ("cancelled", "cancelled")
    assert execution.duration_ms == SLICE_MS
    assert execution.ended
    assert execution.receipt.document.limitations == ()


def test_what_is_said_in_the_grace_period_is_dropped_and_what_is_reported_is_kept(
    world: Any, clock: FixedClock, hanging: Any
) -> None:
    """Lines after the end are not evidence of the call; processes and usage are facts."""

    class Late:
        describe = scripted("planning").describe

        def execute(self, call: Call) -> Any:
            assert call.cancellation.is_set()
            call.observer.note("too late")
            call.observer.usage(Usage(tokens_in=5))
            call.observer.processes(survivors=2, remaining=1)
            return answer(call, minimal_plan(world.interpretation))

    tasks = hanging(clock, asks=1000 // SLICE_MS + 1)
    execution = run(Late(), world.request("planning"), clock=clock, tasks=tasks)
    assert ended(execution) == ("timed-out", "timeout")
    assert execution.observations.document.items == ()
    assert execution.observations.document.dropped == 0
    assert execution.usage == Usage(tokens_in=5)
    assert (execution.survivors, execution.remaining, execution.ended) == (2, 1, True)
    assert [limit.blocking for limit in execution.receipt.document.limitations] == [False, True]


def test_a_call_that_takes_several_slices_completes(world: Any, clock: FixedClock, hanging: Any) -> None:
    """Waiting in slices costs an answer nothing."""
    tasks = hanging(clock, asks=3)
    execution = run(scripted("planning", ANSWERS_PLANNING), world.request("planning"), clock=clock, tasks=tasks)
    assert ended(execution) == ("completed", None)
    assert execution.duration_ms == 3 * SLICE_MS
    assert not tasks.tokens[0].is_set()


def test_an_interrupted_caller_leaves_no_worker_untold(world: Any, clock: FixedClock, hanging: Any) -> None:
    """A signal in the middle of the wait sets the provider's token on its way out."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    tasks = hanging(clock, on_ask=interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(scripted("planning", ANSWERS_PLANNING), world.request("planning"), clock=clock, tasks=tasks)
    assert tasks.tokens[0].is_set()


def test_real_threads_are_cancelled_and_collected(world: Any) -> None:
    """With the real clock and threads a blocked provider ends when told to, at the deadline and by the caller."""
    execution = run(
        scripted("planning", Block()),
        world.request("planning", deadline_ms=50),
        clock=SystemClock(),
        tasks=ThreadTasks(),
    )
    assert ended(execution) == ("timed-out", "timeout")
    assert execution.ended
    assert execution.duration_ms >= 50
    tasks = ThreadTasks()
    token = tasks.cancellation()

    def cancel_the_caller(call: Call) -> Any:
        token.set()
        call.cancellation.wait(60_000)
        return minimal_plan(world.interpretation)

    execution = run(
        scripted("planning", Answer(cancel_the_caller)),
        world.request("planning", deadline_ms=60_000),
        clock=SystemClock(),
        tasks=tasks,
        cancellation=token,
    )
    assert ended(execution) == ("cancelled", "cancelled")
    assert execution.ended


def observer(world: Any, **limits: int) -> BoundedObserver:
    request = world.request("planning").document
    return BoundedObserver(structs.replace(request, **limits))


def said(watching: BoundedObserver) -> tuple[list[str], int]:
    document = seal(watching.stop("blake3:" + "0" * 64)).document
    assert [item.sequence for item in document.items] == list(range(1, len(document.items) + 1))
    return [item.text for item in document.items], document.dropped


def test_observations_are_bounded_by_count(world: Any) -> None:
    """The N-th line is kept, the next is counted and dropped."""
    watching = observer(world, max_observations=2)
    for text in ("one", "two", "three", "four"):
        watching.note(text)
    assert said(watching) == (["one", "two"], 2)
    watching.note("after the end")
    assert said(watching) == (["one", "two"], 2)
    assert said(observer(world, max_observations=0)) == ([], 0)


def test_observations_are_bounded_by_bytes(world: Any) -> None:
    """The limit is over the UTF-8 bytes of all kept lines; a shorter line may still fit after a long one did not."""
    watching = observer(world, max_observation_bytes=7)
    for text in ("four", "äöü", "abc", ""):
        watching.note(text)
    assert said(watching) == (["four", "abc", ""], 1)


def test_a_line_that_no_document_could_hold_is_dropped(world: Any) -> None:
    """A line is at most as long as a text may be, and lone surrogates are replaced."""
    watching = observer(world, max_observation_bytes=10**6)
    watching.note("x" * 65_536)
    watching.note("x" * 65_537)
    watching.note("a\udcffb")
    lines, dropped = said(watching)
    assert ([len(line) for line in lines], lines[1], dropped) == ([65_536, 3], "a?b", 1)


@pytest.mark.parametrize("value", [-1, MAX_INTEGER + 1, "7", 1.5])
def test_usage_outside_the_range_is_no_usage(world: Any, value: Any) -> None:
    """A number that no record could hold is not reported; zero and the largest are."""
    watching = observer(world)
    watching.usage(Usage(tokens_in=value, tokens_out=0, cost_microunits=MAX_INTEGER, tokens_cached=value))
    assert watching.report()[0] == Usage(None, 0, MAX_INTEGER, None)
    watching.usage(Usage(tokens_cached=2, is_notional=value))
    assert watching.report()[0] == Usage(tokens_cached=2, is_notional=False)
    watching.usage(Usage(is_notional=True))
    assert watching.report()[0] == Usage(is_notional=True)


def test_usage_replaces_and_processes_add_up(world: Any) -> None:
    """Usage is the call's so far; processes are counted per command, and a negative count is none."""
    watching = observer(world)
    assert watching.report() == (None, 0, 0)
    watching.usage(Usage(tokens_in=1))
    watching.usage(Usage(tokens_out=2))
    watching.processes(survivors=1, remaining=0)
    watching.processes(survivors=2, remaining=-5)
    assert watching.report() == (Usage(tokens_out=2), 3, 0)
