"""The conformance suite passes what conforms, and each check catches the provider it exists for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from msgspec import structs
from msgspec.structs import replace

from providerport.conformance import CHECKS, Harness
from providerport.outcome import result_of
from providerport.port import Call, ProviderFailure
from providerport.scripted import (
    ANSWERS_INTERPRETATION,
    ANSWERS_PLANNING,
    Answer,
    Block,
    Edit,
    Fail,
    Raise,
    ScriptedProvider,
    Verbatim,
    claim,
    converged_review,
    minimal_interpretation,
    minimal_plan,
    write_files,
)
from savant.process.effects import SystemClock, ThreadTasks


@pytest.fixture
def harness(world: Any) -> Harness:
    """A provider that claims three operations and answers them, and one that blocks."""

    def make() -> ScriptedProvider:
        return ScriptedProvider(
            {
                "interpretation": [ANSWERS_INTERPRETATION],
                "planning": [ANSWERS_PLANNING],
                "generation": [Edit(write_files({b"b.txt": b"b\n"}))],
            }
        )

    return Harness(
        make=make,
        requests={operation: world.request(operation, deadline_ms=30_000) for operation in world.states},
        clock=SystemClock(),
        tasks=ThreadTasks(),
        base=world.workspace(),
        workspace=world.workspace,
        make_blocking=lambda: ScriptedProvider({"planning": [Block()]}),
    )


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_the_scripted_provider_conforms(harness: Harness, check: Callable[[Harness], None]) -> None:
    """Every check passes."""
    check(harness)


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_provider_that_fails_as_declared_conforms(harness: Harness, check: Callable[[Harness], None]) -> None:
    """Failing is an answer: a provider whose every call fails inside the vocabularies passes too."""
    failing = replace(
        harness,
        make=lambda: ScriptedProvider({"planning": [Fail("unavailable", "auth")]}),
        make_blocking=None,
    )
    check(failing)


class Restless(ScriptedProvider):
    """Describes itself differently each time."""

    descriptions = 0

    def describe(self) -> Any:
        self.descriptions += 1
        return structs.replace(super().describe(), model=f"model {self.descriptions}")


class Nameless(ScriptedProvider):
    """Gives no valid description."""

    def describe(self) -> Any:
        return structs.replace(super().describe(), provider="")


class Greedy(ScriptedProvider):
    """Answers operations that it does not claim."""

    def execute(self, call: Call) -> Any:
        return result_of(call.request, "completed", payload=converged_review(minimal(call)))


class Sloppy(ScriptedProvider):
    """Refuses what it does not claim with another word."""

    def execute(self, call: Call) -> Any:
        raise ProviderFailure("unavailable", "denied", "not today")


class Overclaiming(ScriptedProvider):
    """Claims everything once it was refused, and answers then."""

    refusals: ClassVar[list[str]] = []

    def describe(self) -> Any:
        return ScriptedProvider({}, default=Answer(claim())).describe() if self.refusals else super().describe()

    def execute(self, call: Call) -> Any:
        if not self.refusals:
            self.refusals.append(call.request.document.operation)
            return super().execute(call)
        assert call.request.document.session is not None
        return result_of(call.request, "completed", payload=minimal_interpretation(call.request.document.session))


class Deaf(ScriptedProvider):
    """Goes on whatever its cancellation says, for as long as the test lets it."""

    def execute(self, call: Call) -> Any:
        ThreadTasks().cancellation().wait(2_000)
        return super().execute(call)


class Littering(ScriptedProvider):
    """Reports a process that it could not end."""

    def execute(self, call: Call) -> Any:
        call.observer.processes(survivors=1, remaining=1)
        return super().execute(call)


def minimal(call: Call) -> Any:
    plan = call.request.document.plan
    assert plan is not None
    return plan


@pytest.mark.parametrize(
    ("name", "make", "says"),
    [
        ("describes_itself_the_same_each_time", lambda: Restless({}), "changes its answer"),
        ("describes_itself_the_same_each_time", lambda: Nameless({}), "no capabilities document"),
        ("answers_the_request_it_was_handed", lambda: ScriptedProvider({}), "claims no operation"),
        (
            "answers_the_request_it_was_handed",
            lambda: ScriptedProvider({"planning": [Fail("unavailable", "bored")]}),
            "outside the vocabularies",
        ),
        (
            "answers_the_request_it_was_handed",
            lambda: ScriptedProvider({"planning": [Verbatim(lambda c: result_of(c.request, "completed"))]}),
            "exactly the payload",
        ),
        (
            "raises_nothing_but_its_failure",
            lambda: ScriptedProvider({"planning": [Raise(ValueError())]}),
            "raised ValueError",
        ),
        (
            "raises_nothing_but_its_failure",
            lambda: ScriptedProvider({"planning": [Fail("completed", "crash")]}),
            "outside the vocabularies",
        ),
        ("refuses_what_it_does_not_claim", lambda: Sloppy({"planning": []}), "ended as unavailable"),
        (
            "refuses_what_it_does_not_claim",
            lambda: Greedy(dict.fromkeys(("interpretation", "planning", "generation", "evaluation-observation"), ())),
            "ended as completed",
        ),
        ("leaves_nothing_running", lambda: Littering({"planning": [ANSWERS_PLANNING]}), "still runs"),
        (
            "ends_when_cancelled",
            lambda: Deaf({"planning": [ANSWERS_PLANNING]}),
            "goes on after it was cancelled",
        ),
    ],
)
def test_each_check_catches_what_it_is_for(
    harness: Harness, name: str, make: Callable[[], ScriptedProvider], says: str
) -> None:
    """A provider that breaks one promise fails that check, with a sentence."""
    with pytest.raises(AssertionError, match=says):
        CHECKS[name](replace(harness, make=make, make_blocking=None, patience_ms=50))


def test_a_cancelled_call_may_still_fail_only_as_declared(harness: Harness) -> None:
    """Another exception after a cancellation is caught."""

    class Clumsy(ScriptedProvider):
        def execute(self, call: Call) -> Any:
            call.cancellation.wait(60_000)
            raise KeyError

    with pytest.raises(AssertionError, match="raised KeyError"):
        CHECKS["ends_when_cancelled"](replace(harness, make=lambda: Clumsy({"planning": []}), make_blocking=None))


def test_a_call_that_answers_although_it_was_cancelled_conforms(harness: Harness, world: Any) -> None:
    """Ending is what counts; the executor drops the answer."""

    class Quick(ScriptedProvider):
        def execute(self, call: Call) -> Any:
            return result_of(call.request, "completed", payload=minimal_plan(world.interpretation))

    CHECKS["ends_when_cancelled"](replace(harness, make=lambda: Quick({"planning": []}), make_blocking=None))


def test_a_port_that_executes_the_unclaimed_is_caught(harness: Harness) -> None:
    """A provider that claims more to the port than it claimed before fails the check through the port."""
    Overclaiming.refusals.clear()
    with pytest.raises(AssertionError, match="was executed by the port"):
        CHECKS["refuses_what_it_does_not_claim"](replace(harness, make=lambda: Overclaiming({"planning": []})))
