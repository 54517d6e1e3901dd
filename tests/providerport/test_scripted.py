"""The scripted provider does what its script says, and counts."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from providerport.execute import BoundedObserver
from providerport.outcome import payload_of
from providerport.port import Call, ProviderFailure, Usage
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
    minimal_plan,
    write_files,
)
from savant.contracts.document import Sealed, seal
from savant.contracts.twins import InlineCancellation
from synthesis.documents import Operation


def call_of(world: Any, operation: Operation = "planning", **changes: Any) -> Call:
    request = changes.pop("request", None) or world.request(operation)
    given = {"cancellation": InlineCancellation(), "base": None, "workspace": None, **changes}
    return Call(request, BoundedObserver(request.document), **given)


def failure(provider: ScriptedProvider, call: Call) -> tuple[str, str]:
    with pytest.raises(ProviderFailure) as error:
        provider.execute(call)
    return error.value.outcome, error.value.failure_kind


def test_steps_are_played_in_order_and_then_the_script_has_ended(world: Any) -> None:
    """Each call takes the next step of its operation; one past the end is unavailable."""
    provider = ScriptedProvider({"planning": [Fail("timed-out", "timeout"), ANSWERS_PLANNING], "generation": []})
    call = call_of(world)
    assert failure(provider, call) == ("timed-out", "timeout")
    assert payload_of(provider.execute(call)) == world.plan
    assert failure(provider, call) == ("unavailable", "config-error")
    assert (provider.calls(), provider.calls("planning"), provider.calls("generation")) == (3, 3, 0)
    assert [request.document.operation for request in provider.requests] == ["planning"] * 3


def test_a_default_step_answers_what_the_script_does_not(world: Any) -> None:
    """With a default every operation is claimed; without one, only the scripted ones."""
    provider = ScriptedProvider({"planning": [ANSWERS_PLANNING]}, default=Answer(claim()), reports_usage=True)
    assert len(provider.describe().operations) == 5
    assert provider.describe().reports_usage
    assert payload_of(provider.execute(call_of(world))) == world.plan
    generation = call_of(world, "generation", workspace=world.workspace())
    assert payload_of(provider.execute(generation)) == claim()
    bare = ScriptedProvider({"planning": []})
    assert bare.describe().operations == ("planning",)
    assert failure(bare, generation) == ("unsupported-capability", "config-error")


def test_two_names_are_two_identities() -> None:
    """The identity digest follows the name, and nothing else."""
    one, same, other = (ScriptedProvider({}, name=name).describe() for name in ("one", "one", "other"))
    assert one == same
    assert one.identity_digest != other.identity_digest


def test_edits_go_through_the_workspace(world: Any) -> None:
    """Files are written and deleted in the workspace, usage is reported, and without a workspace nothing is edited."""
    step = Edit(write_files({b"new.txt": b"n\n", b"a.txt": None}), "made new", Usage(tokens_in=3))
    provider = ScriptedProvider({"generation": [step, step]})
    call = call_of(world, "generation", workspace=world.workspace())
    assert payload_of(provider.execute(call)) == claim("made new")
    assert call.workspace is not None
    assert list(call.workspace.paths()) == [b"new.txt"]
    assert isinstance(call.observer, BoundedObserver)
    assert call.observer.report()[0] == Usage(tokens_in=3)
    assert failure(provider, call_of(world, "generation")) == ("unavailable", "config-error")


def test_a_block_ends_with_its_cancellation(world: Any) -> None:
    """It says a line first; a call that was cancelled before it began plays no step."""
    provider = ScriptedProvider({"planning": [Block("waiting"), ANSWERS_PLANNING]})
    call = call_of(world)
    assert failure(provider, call) == ("cancelled", "cancelled")
    assert isinstance(call.observer, BoundedObserver)
    assert [item.text for item in call.observer.stop(call.request.digest).items] == ["waiting"]
    cancelled = call_of(world)
    cancelled.cancellation.set()
    assert failure(provider, cancelled) == ("cancelled", "cancelled")
    assert payload_of(provider.execute(call_of(world))) == world.plan


def test_broken_steps_break(world: Any) -> None:
    """An exception is raised as it is, and anything may be returned."""
    error = OSError("gone")
    provider = ScriptedProvider({"planning": [Raise(error), Verbatim(lambda _: 7)]})
    with pytest.raises(OSError) as raised:
        provider.execute(call_of(world))
    assert raised.value is error
    answered: object = provider.execute(call_of(world))
    assert answered == 7


def test_the_minimal_answers_need_what_their_request_should_carry(world: Any) -> None:
    """A request without its parent, which the executor would never make, is refused with a declared failure."""
    cases: list[tuple[Operation, Answer, str]] = [
        ("interpretation", ANSWERS_INTERPRETATION, "session"),
        ("planning", ANSWERS_PLANNING, "interpretation"),
        ("planning", ANSWERS_PLANNING, "generation"),
    ]
    for operation, step, member in cases:
        request: Sealed[Any] = world.request(operation)
        bare = seal(structs.replace(request.document, **{member: None}))
        provider = ScriptedProvider({operation: [step, step]})
        assert failure(provider, call_of(world, request=bare)) == ("invalid-output", "bad-request")
        assert provider.execute(call_of(world, request=request)).outcome == "completed"


def test_a_minimal_plan_promises_what_it_is_told(world: Any) -> None:
    """Patterns in order, operations as a set, every obligation discharged."""
    plan = minimal_plan(world.interpretation, 3, patterns=("b", "a"), operations=("modify", "create"))
    (step,) = seal(plan).document.steps
    assert plan.generation == 3
    assert [change.pattern for change in step.intended_changes] == ["b", "a"]
    assert step.intended_changes[0].operations == ("create", "modify")
    assert step.discharges == ("no data loss",)
