"""From state to request and from result to command: nothing crosses unless every binding holds."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from providerport.documents import Receipt, Request, Result
from providerport.execute import execute
from providerport.mapping import (
    Governed,
    ObservationLimits,
    build_request,
    complete_interpretation,
    to_command,
    verified_payload,
)
from providerport.outcome import payload_digest, result_of
from providerport.port import Call
from providerport.prior import bound_findings
from providerport.scripted import Answer, Fail, ScriptedProvider, claim, converged_review, minimal_plan
from savant.contracts.document import Sealed, digest_of, seal
from savant.contracts.errors import InternalError, UsageError
from savant.contracts.twins import FixedClock, InlineCancellation, InlineTasks
from synthesis.commands import (
    Command,
    RecordInterpretation,
    RecordPlan,
    RecordPlanReview,
    StartPlanning,
)
from synthesis.documents import Limitation, Operation, PlanReview, State
from synthesis.machine import Refusal

OTHER = "blake3:" + "0" * 64
Exchange = tuple[Sealed[Request], Sealed[Result], Sealed[Receipt]]


def payload_for(world: Any, operation: Operation) -> Any:
    return {
        "interpretation": world.interpretation,
        "planning": world.plan,
        "review-observation": converged_review(world.plan),
        "generation": claim(),
        "evaluation-observation": world.audit,
    }[operation]


def exchange(world: Any, operation: Operation) -> Exchange:
    """Request, result and receipt of one call through the executor."""
    request = world.request(operation)
    execution = execute(
        ScriptedProvider({operation: [Answer(payload_for(world, operation))]}),
        request,
        clock=FixedClock(),
        tasks=InlineTasks(),
        cancellation=InlineCancellation(),
        base=None,
        workspace=world.workspace() if operation == "generation" else None,
    )
    return request, execution.result, execution.receipt


def resealed(given: Exchange, **changes: Any) -> Exchange:
    """The same exchange about a changed request: every digest is made consistent again."""
    request = seal(structs.replace(given[0].document, **changes))
    result = seal(structs.replace(given[1].document, request_digest=request.digest))
    receipt = seal(structs.replace(given[2].document, request_digest=request.digest, result_digest=result.digest))
    return request, result, receipt


def code(state: State, given: Exchange) -> str:
    outcome = verified_payload(state, *given)
    assert isinstance(outcome, Refusal), outcome
    assert outcome.state is state
    command = to_command(state, *given)
    assert isinstance(command, Refusal)
    assert command.code == outcome.code
    return outcome.code


def test_a_request_carries_exactly_what_its_operation_starts_from(world: Any) -> None:
    """The parent is carried and named, every other payload member is null, and the numbers are the reserved ones."""
    carried = {
        "interpretation": ("session", None, None),
        "planning": ("interpretation", 1, None),
        "review-observation": ("plan", 1, None),
        "generation": ("plan", 1, 1),
        "evaluation-observation": ("attempt", 1, 1),
    }
    for operation, (member, generation, number) in carried.items():
        request = world.request(operation, scope=("src/**", "docs/**", "src/**")).document
        parent = world.parents[operation]
        assert request.session_digest == digest_of(world.session)
        assert request.parent_digest == digest_of(parent)
        assert (request.generation, request.attempt_number) == (generation, number)
        assert request.scope == ("docs/**", "src/**")
        held = {name: getattr(request, name) for name in ("session", "interpretation", "plan", "attempt")}
        assert {name for name, value in held.items() if value is not None} == {member}
        assert held[member] == parent


def test_a_request_is_only_made_when_it_is_due(world: Any) -> None:
    """A wrong phase, a wrong parent, and findings of another attempt are the caller's mistakes."""

    def build(state: State, operation: Operation, **changes: Any) -> Request:
        given = {
            "parent": world.parents[operation],
            "deadline_ms": 1,
            "limits": ObservationLimits(1, 1),
            "prior": None,
            "scope": (),
            **changes,
        }
        return build_request(state, operation, **given)

    planning = world.states["planning"]
    assert build(planning, "planning").operation == "planning"
    cases: list[tuple[dict[str, Any], Operation, str]] = [
        ({}, "generation", "usage.request-phase"),
        ({"audit": world.task}, "planning", "usage.request-audit"),
        ({"parent": world.session}, "planning", "usage.request-parent"),
        ({"parent": structs.replace(world.interpretation, assumptions=("x",))}, "planning", "usage.request-parent"),
        (
            {"prior": bound_findings((), (), 100, attempt_digest=digest_of(world.attempt))},
            "planning",
            "usage.request-prior",
        ),
        (
            {"prior": bound_findings((), (), 100, plan_review_digest=digest_of(converged_review(world.plan)))},
            "planning",
            "usage.request-prior",
        ),
        (
            {"prior": bound_findings((), (), 100, evaluation_digest=digest_of(world.evaluation))},
            "planning",
            "usage.request-prior",
        ),
    ]
    for changes, operation, expected in cases:
        with pytest.raises(UsageError) as error:
            build(planning, operation, **changes)
        assert error.value.code == expected
    with pytest.raises(UsageError, match=r"usage\.request-audit"):
        build(world.states["evaluation-observation"], "evaluation-observation")


def test_a_replan_carries_the_findings_of_the_review_that_caused_it(world: Any) -> None:
    """The review that the state names is accepted as prior, until the next plan replaces it."""
    review = PlanReview(plan_digest=digest_of(world.plan), findings=(), reviewers=("deterministic",), outcome="revise")
    state = world.accept(world.states["review-observation"], RecordPlanReview(review))
    world.states["planning"] = world.accept(state, StartPlanning())
    prior = bound_findings((), (), 100, plan_review_digest=digest_of(review))
    assert world.request("planning", prior=prior).document.prior == prior


def test_completed_calls_become_the_commands_of_their_operations(world: Any) -> None:
    """Interpretation, plan and review are recorded as they were answered, and the machine accepts them."""
    cases: list[tuple[Operation, Command]] = [
        ("interpretation", RecordInterpretation(world.interpretation)),
        ("planning", RecordPlan(world.plan)),
        ("review-observation", RecordPlanReview(converged_review(world.plan))),
    ]
    for operation, command in cases:
        state = world.states[operation]
        assert to_command(state, *exchange(world, operation)) == command
        world.accept(state, command)


@pytest.mark.parametrize("operation", ["generation", "evaluation-observation"])
def test_claims_and_observed_evaluations_are_data(world: Any, operation: Operation) -> None:
    """They can be read, verified, and never become a command."""
    state, given = world.states[operation], exchange(world, operation)
    assert verified_payload(state, *given) == payload_for(world, operation)
    refusal = to_command(state, *given)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "not-a-command"


def test_a_call_that_did_not_complete_maps_to_nothing(world: Any) -> None:
    """A failure leaves the machine where it is."""
    request = world.request("planning")
    execution = execute(
        ScriptedProvider({"planning": [Fail("unavailable", "overloaded")]}),
        request,
        clock=FixedClock(),
        tasks=InlineTasks(),
        cancellation=InlineCancellation(),
        base=None,
        workspace=None,
    )
    assert code(world.states["planning"], (request, execution.result, execution.receipt)) == "not-completed"


def test_documents_are_read_again_from_their_bytes(world: Any) -> None:
    """A sealed value whose document, bytes and digest do not belong together is refused, whichever of them lies."""
    state, given = world.states["planning"], exchange(world, "planning")
    other = exchange(world, "interpretation")
    for place in range(3):
        honest, foreign = given[place], other[place]
        for lie in (
            Sealed(honest.document, honest.raw, foreign.digest),
            Sealed(honest.document, honest.raw + b" ", honest.digest),
            Sealed(foreign.document, honest.raw, honest.digest),
            Sealed(honest.document, foreign.raw, foreign.digest),
        ):
            parts: list[Any] = list(given)
            parts[place] = lie
            assert code(state, (parts[0], parts[1], parts[2])) == "malformed-document"
    assert verified_payload(state, *given) == world.plan


def test_result_and_receipt_belong_to_the_request(world: Any) -> None:
    """A receipt of another call, result or payload, and a result of another request, are refused."""
    state, (request, result, receipt) = world.states["planning"], exchange(world, "planning")
    for changes in (
        {"request_digest": OTHER},
        {"result_digest": OTHER},
        {"payload_digest": OTHER},
        {"payload_digest": None},
        {"outcome": "unavailable"},
    ):
        assert code(state, (request, result, seal(structs.replace(receipt.document, **changes)))) == "foreign-request"
    foreign = seal(structs.replace(result.document, request_digest=OTHER))
    bound = seal(structs.replace(receipt.document, result_digest=foreign.digest))
    assert code(state, (request, foreign, bound)) == "foreign-request"


@pytest.mark.parametrize(
    ("operation", "changes", "expected"),
    [
        ("planning", {"session_digest": OTHER}, "foreign-session"),
        ("planning", {"repository_domain": "example.org/other"}, "foreign-session"),
        ("planning", {"base_commit": "sha1:" + "b" * 40}, "foreign-session"),
        ("planning", {"base_manifest_digest": OTHER}, "foreign-session"),
        ("generation", {"parent_digest": OTHER}, "foreign-plan"),
        ("generation", {"generation": 2}, "wrong-generation"),
        ("generation", {"attempt_number": 2}, "wrong-number"),
        ("generation", {"attempt_number": None}, "wrong-number"),
    ],
)
def test_an_exchange_belongs_to_this_very_state(
    world: Any, operation: Operation, changes: dict[str, Any], expected: str
) -> None:
    """Even a consistent exchange is refused when it is about another session, base, parent, generation or number."""
    state, given = world.states[operation], exchange(world, operation)
    assert code(state, resealed(given, **changes)) == expected
    assert not isinstance(verified_payload(state, *resealed(given)), Refusal)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("interpretation", "foreign-session"),
        ("planning", "foreign-interpretation"),
        ("review-observation", "foreign-plan"),
        ("evaluation-observation", "foreign-attempt"),
    ],
)
def test_a_foreign_parent_is_named_by_what_it_is(world: Any, operation: Operation, expected: str) -> None:
    """The refusal says which document belongs to another line of work."""
    request, _, receipt = exchange(world, operation)
    payload = payload_for(world, operation)
    member = {
        "interpretation": None,
        "planning": "interpretation_digest",
        "review-observation": "plan_digest",
        "evaluation-observation": None,
    }[operation]
    moved = seal(structs.replace(request.document, parent_digest=OTHER))
    answered = payload if member is None else structs.replace(payload, **{member: OTHER})
    result = seal(result_of(moved, "completed", payload=answered))
    bound = structs.replace(
        receipt.document,
        request_digest=moved.digest,
        result_digest=result.digest,
        payload_digest=payload_digest(answered),
    )
    assert code(world.states[operation], (moved, result, seal(bound))) == expected


def test_a_late_exchange_finds_the_phase_gone(world: Any) -> None:
    """The same bytes are refused once the state has moved on."""
    given = exchange(world, "planning")
    assert code(world.states["review-observation"], given) == "wrong-phase"
    assert verified_payload(world.states["planning"], *given) == world.plan


def test_a_payload_of_another_operation_is_our_bug(world: Any) -> None:
    """Building a result with the wrong payload is an internal error, not a document."""
    with pytest.raises(InternalError) as error:
        result_of(world.request("planning"), "completed", payload=claim())
    assert error.value.code == "internal.payload"


def test_the_host_completes_an_interpretation_and_repairs_nothing(world: Any) -> None:
    """Governed records come first and once, obligations are united, and another objective stays another objective."""
    provided = structs.replace(
        world.interpretation,
        objective="something easier",
        binding_invariants=("mine", "totals add up"),
        required_proof_obligations=("also mine",),
    )
    limitation = Limitation(source="closure", text="nobody owns this", blocking=False)
    governed = Governed(
        binding_invariants=("totals add up", "no data loss"),
        forbidden_fixes=("skip the test",),
        limitations=(limitation,),
    )
    whole = complete_interpretation(provided, world.session, governed)
    assert whole.binding_invariants == ("totals add up", "no data loss", "mine")
    assert whole.forbidden_fixes == ("skip the test",)
    assert whole.limitations == (limitation,)
    assert whole.required_proof_obligations == ("also mine", "no data loss")
    assert whole.objective == "something easier"
    assert complete_interpretation(whole, world.session, governed) == whole


def test_a_plan_of_another_generation_than_the_request_is_no_answer(world: Any) -> None:
    """The port refuses it before the machine would."""

    def second(call: Call) -> Any:
        return minimal_plan(world.interpretation, 2)

    execution = execute(
        ScriptedProvider({"planning": [Answer(second)]}),
        world.request("planning"),
        clock=FixedClock(),
        tasks=InlineTasks(),
        cancellation=InlineCancellation(),
        base=None,
        workspace=None,
    )
    assert execution.result.document.outcome == "invalid-output"
