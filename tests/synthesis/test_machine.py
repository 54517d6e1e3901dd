"""The O1 machine: every command in every phase, every reference, every budget, every receipt."""

from __future__ import annotations

from typing import Any, cast, get_args

import pytest
from msgspec import structs

from savant.contracts.document import digest_of, seal
from savant.contracts.errors import InternalError
from synthesis.commands import (
    Abort,
    Command,
    Escalate,
    EvaluatorUnavailable,
    RecordAttempt,
    RecordCall,
    RecordEvaluation,
    RecordInterpretation,
    RecordPlan,
    RecordPlanReview,
    Resume,
    StartAttempt,
    StartPlanning,
    TripBreaker,
)
from synthesis.documents import (
    Breaker,
    Limitation,
    ObservedIdentities,
    Operation,
    Outcome,
    Phase,
    Recommendation,
    ReviewFinding,
    Session,
    State,
)
from synthesis.machine import Refusal, Transitioned, check_floor, drift, start, transition
from synthesis.table import COMMAND_NAMES, OPERATION_PHASES, PHASES, TABLE, TERMINAL_PHASES

ANYWHERE = {
    "TripBreaker": "failed",
    "Escalate": "failed",
    "Abort": "failed",
    "Resume unchanged": None,
    "Resume drifted": "failed",
}

# The contract's table, written again by hand: phase, command and word, next phase (None: stays).
EXPECTED: dict[str, dict[str, str | None]] = {
    "created": {"RecordCall interpretation": None, "RecordInterpretation": "planning"},
    "planning": {"RecordCall planning": None, "RecordPlan": "reviewing"},
    "reviewing": {
        "RecordCall review-observation": None,
        "RecordPlanReview converged": "planned",
        "RecordPlanReview revise": "replan",
        "RecordPlanReview escalate": "failed",
    },
    "planned": {"StartAttempt": "attempting"},
    "attempting": {
        "RecordCall generation": None,
        "RecordAttempt completed": "evaluating",
        "RecordAttempt timed-out": "retry",
        "RecordAttempt unavailable": "retry",
        "RecordAttempt cancelled": "failed",
        "RecordAttempt invalid-output": "failed",
        "RecordAttempt unsupported-capability": "failed",
    },
    "evaluating": {
        "RecordCall evaluation-observation": None,
        "RecordEvaluation accept": "succeeded",
        "RecordEvaluation retry-generation": "retry",
        "RecordEvaluation replan": "replan",
        "RecordEvaluation architect-review": "failed",
        "RecordEvaluation abort": "failed",
        "EvaluatorUnavailable": "failed",
    },
    "retry": {"StartAttempt": "attempting"},
    "replan": {"StartPlanning": "planning"},
    "succeeded": {},
    "failed": {},
}

VARIANTS: tuple[str, ...] = (
    *(f"RecordCall {operation}" for operation in get_args(Operation)),
    "RecordInterpretation",
    "RecordPlan",
    *(f"RecordPlanReview {outcome}" for outcome in ("converged", "revise", "escalate")),
    "StartPlanning",
    "StartAttempt",
    *(f"RecordAttempt {outcome}" for outcome in get_args(Outcome)),
    *(f"RecordEvaluation {recommendation}" for recommendation in get_args(Recommendation)),
    "EvaluatorUnavailable",
    *(f"TripBreaker {breaker}" for breaker in get_args(Breaker)),
    "Escalate",
    "Abort",
    "Resume unchanged",
    "Resume drifted",
)


def command(world: Any, state: State, variant: str) -> Command:
    name, _, word = variant.partition(" ")
    match name:
        case "RecordCall":
            return RecordCall(cast("Operation", word))
        case "RecordInterpretation":
            return RecordInterpretation(world.interpretation(state))
        case "RecordPlan":
            return RecordPlan(world.plan(state))
        case "RecordPlanReview":
            return RecordPlanReview(world.review(state, word))
        case "StartPlanning":
            return StartPlanning()
        case "StartAttempt":
            return StartAttempt()
        case "RecordAttempt":
            return RecordAttempt(world.attempt(state, word))
        case "RecordEvaluation":
            return RecordEvaluation(world.evaluation(state, word))
        case "EvaluatorUnavailable":
            return EvaluatorUnavailable("evaluator.gone")
        case "TripBreaker":
            return TripBreaker(cast("Breaker", word))
        case "Escalate":
            return Escalate("driver.asks")
        case "Abort":
            return Abort("person.stopped")
        case "Resume":
            return Resume(world.observed(state, **({"task_digest": digest_of(state)} if word == "drifted" else {})))
        case _:
            raise AssertionError(variant)


def refused(state: State, given: Command) -> str:
    """The refusal's code, after proof that nothing changed."""
    before = digest_of(state)
    outcome = transition(state, given)
    assert isinstance(outcome, Refusal), outcome
    assert outcome.state is state
    assert digest_of(state) == before
    assert outcome.message
    return outcome.code


def test_the_cross_product_names_every_command_and_every_word() -> None:
    """The variants below cover every command class and every word of the table, so no arrow goes untested."""
    assert {variant.split(" ")[0] for variant in VARIANTS} == COMMAND_NAMES
    words = {f"{name} {word}".rstrip() for row in TABLE.values() for name, arrows in row.items() for word in arrows}
    assert words == set(VARIANTS)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_each_command_in_each_phase_does_what_the_contract_says(world: Any, phase: Phase, variant: str) -> None:
    """A legal command leads where the contract's table says; any other is refused with the same state object."""
    state = world.at(phase)
    legal = EXPECTED[phase] | ({} if phase in TERMINAL_PHASES else ANYWHERE)
    key = "TripBreaker" if variant.startswith("TripBreaker") else variant
    given = command(world, state, variant)
    if key in legal:
        outcome = transition(state, given)
        assert isinstance(outcome, Transitioned)
        assert outcome.state.phase == (legal[key] or phase)
        assert outcome.events
        assert (outcome.state.receipt is not None) == (outcome.state.phase in TERMINAL_PHASES)
        assert (outcome.events[-1] == "session-terminated") == (outcome.state.phase in TERMINAL_PHASES)
        assert seal(outcome.state).document == outcome.state
    elif phase in TERMINAL_PHASES:
        assert refused(state, given) == "terminal-session"
    elif variant.startswith("RecordCall") and any(at == phase for at in OPERATION_PHASES.values()):
        assert refused(state, given) == "wrong-argument"
    else:
        assert refused(state, given) == "wrong-phase"


def test_what_is_no_command_is_refused(world: Any) -> None:
    """An object that is not one of the machine's commands changes nothing, whatever it is called."""

    class RecordPlan:
        plan = None

    for stranger in (RecordPlan(), "Abort", None):
        assert refused(world.at("planning"), stranger) == "unknown-command"  # type: ignore[arg-type]


def test_a_session_starts_with_everything_it_was_granted_and_nothing_recorded(world: Any) -> None:
    """Phase created, full budgets, no reservation, no digest, no receipt."""
    session = world.session(retries=3, replans=1)
    state = start(session)
    assert (state.session, state.phase, state.retries_left, state.replans_left) == (session, "created", 3, 1)
    assert (state.generation, state.attempt_number, state.calls) == (0, 0, 0)
    rest = set(State.__struct_fields__) - {
        *("session", "phase", "retries_left", "replans_left", "generation", "attempt_number", "calls")
    }
    assert {getattr(state, member) for member in rest} == {None}


def test_a_receipt_says_what_was_consumed_and_not_what_was_granted(world: Any) -> None:
    """One of two retries and one of two replans, told in the events as they happen."""
    state = world.at("reviewing")
    revised = transition(state, RecordPlanReview(world.review(state, "revise")))
    assert isinstance(revised, Transitioned)
    assert revised.events == ("plan-reviewed", "replan-scheduled")
    state = world.replanned(revised.state)
    state = world.accept(state, RecordPlan(world.plan(state)))
    state = world.accept(state, RecordPlanReview(world.review(state)))
    state = world.accept(state, StartAttempt())
    failed = transition(state, RecordAttempt(world.attempt(state, "timed-out")))
    assert isinstance(failed, Transitioned)
    assert failed.events == ("attempt-recorded", "retry-scheduled")
    receipt = world.accept(failed.state, Abort("person.stopped")).receipt
    assert (receipt.retries_consumed, receipt.replans_consumed) == (1, 1)


def test_a_session_that_breaks_its_own_type_cannot_start(world: Any) -> None:
    """The only constructor accepts a session from its own bytes."""
    with pytest.raises(InternalError) as error:
        start(structs.replace(world.session(), objective=""))
    assert error.value.code == "internal.unsealable"
    assert start(world.session()).phase == "created"


def test_a_document_that_breaks_its_own_type_is_refused(world: Any) -> None:
    """A command whose document would not survive its own acceptance is refused before anything is read from it."""
    state = world.at("planning")
    assert refused(state, RecordPlan(world.plan(state, generation=0))) == "malformed-document"
    unsorted = world.interpretation(world.at("created"), required_proof_obligations=("z", "no data loss"))
    assert refused(world.at("created"), RecordInterpretation(unsorted)) == "malformed-document"


def test_an_interpretation_is_the_sessions(world: Any) -> None:
    """It names the session, keeps the objective, and leaves out no proof obligation; it may add."""
    state = world.at("created")
    for changes, code in (
        ({"session_digest": digest_of(state)}, "foreign-session"),
        ({"objective": "something easier"}, "wrong-objective"),
        ({"required_proof_obligations": ("one more",)}, "missing-obligation"),
    ):
        assert refused(state, RecordInterpretation(world.interpretation(state, **changes))) == code
    good = world.interpretation(state)
    after = world.accept(state, RecordInterpretation(good))
    assert (after.interpretation_digest, after.expected_generation) == (digest_of(good), 1)


def test_a_plan_is_of_the_interpretation_and_the_reserved_generation(world: Any) -> None:
    """It names the session's one interpretation and exactly the expected generation."""
    state = world.at("planning")
    assert refused(state, RecordPlan(world.plan(state, interpretation_digest=digest_of(state)))) == (
        "foreign-interpretation"
    )
    for generation in (2, 3):
        assert refused(state, RecordPlan(world.plan(state, generation=generation))) == "wrong-generation"
    after = world.accept(state, RecordPlan(world.plan(state)))
    assert (after.generation, after.expected_generation) == (1, None)


def test_a_review_is_of_the_current_plan_and_converges_without_blocking_findings(world: Any) -> None:
    """A review of another plan is refused, and so is convergence beside a blocking finding; revising is not."""
    state = world.at("reviewing")
    finding = ReviewFinding(id="f1", severity="blocking", step=None, text="out of scope", citation="")
    assert refused(state, RecordPlanReview(world.review(state, plan_digest=digest_of(state)))) == "foreign-plan"
    assert refused(state, RecordPlanReview(world.review(state, findings=(finding,)))) == "blocking-finding"
    minor = structs.replace(finding, severity="minor")
    assert world.accept(state, RecordPlanReview(world.review(state, findings=(minor,)))).phase == "planned"
    revised = world.accept(state, RecordPlanReview(world.review(state, "revise", findings=(finding,))))
    assert revised.phase == "replan"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"plan_digest": "blake3:" + "0" * 64}, "foreign-plan"),
        ({"generation": 2}, "wrong-generation"),
        ({"number": 2}, "wrong-number"),
        ({"input_digest": None}, "candidate-mismatch"),
        ({"change_digest": None}, "candidate-mismatch"),
        ({"final_digest": None}, "candidate-mismatch"),
        ({"failure_kind": "no-change"}, "candidate-mismatch"),
    ],
)
def test_a_completed_attempt_is_the_reserved_one_and_names_its_candidate(
    world: Any, changes: dict[str, Any], code: str
) -> None:
    """Plan, generation, number and all three digests must be the expected ones."""
    state = world.at("attempting")
    assert refused(state, RecordAttempt(world.attempt(state, **changes))) == code
    assert world.accept(state, RecordAttempt(world.attempt(state))).phase == "evaluating"


def test_a_failed_attempt_names_no_candidate(world: Any) -> None:
    """A failure with any candidate digest is refused."""
    state = world.at("attempting")
    for member in ("input_digest", "change_digest", "final_digest"):
        attempt = world.attempt(state, "timed-out", **{member: digest_of(state)})
        assert refused(state, RecordAttempt(attempt)) == "candidate-mismatch"
    assert world.accept(state, RecordAttempt(world.attempt(state, "timed-out"))).phase == "retry"


def test_an_evaluation_is_of_the_current_attempt(world: Any) -> None:
    """An evaluation of another attempt is refused."""
    state = world.at("evaluating")
    evaluation = world.evaluation(state, attempt_digest=digest_of(state))
    assert refused(state, RecordEvaluation(evaluation)) == "foreign-attempt"


@pytest.mark.parametrize(
    ("changes", "acceptable"),
    [
        ({}, True),
        ({"status": "skipped"}, True),
        ({"status": "failed"}, False),
        ({"status": "failed", "required": False}, True),
        ({"status": "unavailable"}, False),
        ({"status": "unavailable", "required": False}, True),
        ({"comparison": "regressed", "base_status": "passed", "status": "skipped"}, False),
        ({"comparison": "regressed", "required": False, "status": "failed"}, True),
        ({"comparison": "still-failing", "base_status": "failed", "status": "failed"}, True),
        ({"comparison": "still-failing", "base_status": "passed", "status": "failed"}, False),
        ({"comparison": "still-failing", "base_status": "failed", "status": "unavailable"}, False),
        ({"comparison": "new", "status": "failed"}, False),
    ],
)
def test_no_evaluation_is_accepted_below_the_floor(world: Any, changes: dict[str, Any], acceptable: bool) -> None:
    """Whatever a policy says, a failed, regressed or unavailable required check is not acceptable."""
    state = world.at("evaluating")
    evaluation = world.evaluation(state, checks=(world.check(), world.check(check="other", **changes)))
    assert (check_floor(evaluation) == ()) == acceptable
    if acceptable:
        assert world.accept(state, RecordEvaluation(evaluation)).phase == "succeeded"
    else:
        assert refused(state, RecordEvaluation(evaluation)) == "below-floor"
        lower = structs.replace(evaluation, recommendation="retry-generation")
        assert world.accept(state, RecordEvaluation(lower)).phase == "retry"


def test_a_blocking_limitation_forbids_acceptance_and_another_reaches_the_receipt(world: Any) -> None:
    """A limitation that does not block is carried into the receipt as it was written."""
    state = world.at("evaluating")
    blocking = world.evaluation(state, limitations=(world.limitation(blocking=True),))
    assert refused(state, RecordEvaluation(blocking)) == "below-floor"
    seen = world.limitation(blocking=False)
    after = world.accept(state, RecordEvaluation(world.evaluation(state, limitations=(seen,))))
    assert after.receipt is not None
    assert after.receipt.limitations[0] == seen


REASONS: dict[str, str] = {
    "RecordPlanReview escalate": "escalated",
    "RecordAttempt cancelled": "provider-cancelled",
    "RecordAttempt invalid-output": "invalid-provider-output",
    "RecordAttempt unsupported-capability": "unsupported-capability",
    "RecordEvaluation accept": "candidate-ready-for-admission",
    "RecordEvaluation architect-review": "architect-review-required",
    "RecordEvaluation abort": "explicitly-aborted",
    "EvaluatorUnavailable": "evaluator-unavailable",
    "TripBreaker change-cap": "change-cap-exceeded",
    "TripBreaker oscillation": "oscillation-detected",
    "TripBreaker stagnation": "stagnated",
    "TripBreaker provider-failures": "provider-failures-repeated",
    "TripBreaker tokens": "token-budget-exhausted",
    "TripBreaker cost": "cost-budget-exhausted",
    "TripBreaker wall-clock": "wall-clock-exhausted",
    "TripBreaker calls": "call-budget-exhausted",
    "Escalate": "escalated",
    "Abort": "explicitly-aborted",
    "Resume drifted": "identity-drift-refused",
}


@pytest.mark.parametrize("variant", REASONS)
def test_each_terminal_transition_gives_one_receipt_with_its_reason(world: Any, variant: str) -> None:
    """The receipt binds the session, the last recorded documents and the consumed budgets, and clears reservations."""
    homes = {"RecordPlanReview": "reviewing", "RecordAttempt": "attempting"}
    state = world.at(homes.get(variant.partition(" ")[0], "evaluating"))
    after = world.accept(state, command(world, state, variant))
    receipt = after.receipt
    assert receipt is not None
    assert receipt.reason == REASONS[variant]
    assert receipt.session_digest == digest_of(state.session)
    assert (receipt.plan_digest, receipt.attempt_digest) == (after.plan_digest, after.attempt_digest)
    assert (receipt.evaluation_digest, receipt.candidate_digest) == (after.evaluation_digest, after.candidate_digest)
    assert (after.expected_generation, after.expected_attempt) == (None, None)
    assert receipt.drifted == (("task_digest",) if variant == "Resume drifted" else ())
    unlimited = {limit.text for limit in receipt.limitations if limit.source == "session.budgets"}
    assert unlimited == {"No limit was set on tokens.", "No limit was set on cost."}


@pytest.mark.parametrize("made", [EvaluatorUnavailable, Escalate, Abort])
def test_a_reason_is_a_code_and_is_kept_in_the_receipt(world: Any, made: Any) -> None:
    """Free text is refused as a reason; a dotted code is named in the receipt, with the command that carried it."""
    state = world.at("evaluating")
    for text in ("because I say so", "", "ends.", "line\n", "x" * 200, "\ud800", 3):
        assert refused(state, made(text)) == "malformed-reason"
    receipt = world.accept(state, made("driver.why")).receipt
    expected = Limitation(source=f"command.{made.__name__}", text="driver.why", blocking=True)
    assert receipt.limitations[0] == expected


@pytest.mark.parametrize("budget", [0, 1, 2])
def test_retries_are_spent_one_by_one_and_end_the_session_at_the_last(world: Any, budget: int) -> None:
    """With N retries the N-th is granted and the next ends the session, with N consumed."""
    state = world.at("evaluating", world.session(retries=budget))
    for consumed in range(budget):
        state = world.accept(state, RecordEvaluation(world.evaluation(state, "retry-generation")))
        assert (state.phase, state.retries_left) == ("retry", budget - consumed - 1)
        state = world.accept(state, StartAttempt())
        assert state.expected_attempt == consumed + 2
        state = world.accept(state, RecordAttempt(world.attempt(state)))
        assert (state.evaluation_digest, state.candidate_digest) == (None, None)
    receipt = world.accept(state, RecordEvaluation(world.evaluation(state, "retry-generation"))).receipt
    assert (receipt.reason, receipt.retries_consumed) == ("retry-budget-exhausted", budget)


@pytest.mark.parametrize("budget", [0, 1, 2])
def test_replans_are_spent_by_reviews_and_evaluations_alike(world: Any, budget: int) -> None:
    """A revise and a replan each consume one; without any left they end the session under their own reasons."""
    state = world.at("reviewing", world.session(replans=budget))
    for consumed in range(budget):
        state = world.accept(state, RecordPlanReview(world.review(state, "revise")))
        assert (state.phase, state.replans_left) == ("replan", budget - consumed - 1)
        state = world.replanned(state)
        assert state.expected_generation == consumed + 2
        state = world.accept(state, RecordPlan(world.plan(state)))
        assert (state.generation, state.plan_review_digest) == (consumed + 2, None)
    ended = world.accept(state, RecordPlanReview(world.review(state, "revise")))
    assert (ended.receipt.reason, ended.receipt.replans_consumed) == ("plan-not-converged", budget)
    state = world.accept(state, RecordPlanReview(world.review(state)))
    state = world.accept(state, StartAttempt())
    state = world.accept(state, RecordAttempt(world.attempt(state)))
    ended = world.accept(state, RecordEvaluation(world.evaluation(state, "replan")))
    assert (ended.receipt.reason, ended.receipt.replans_consumed) == ("replan-budget-exhausted", budget)


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ("unavailable", "provider-unavailable"),
        ("timed-out", "provider-timed-out"),
        ("cancelled", "provider-cancelled"),
        ("invalid-output", "invalid-provider-output"),
        ("unsupported-capability", "unsupported-capability"),
    ],
)
def test_a_failed_generation_is_retried_only_when_listed_and_while_retries_are_left(
    world: Any, outcome: Outcome, reason: str
) -> None:
    """The outcome stays distinct in the reason when it is not listed or nothing is left."""
    listed = world.at("attempting", world.session(retries=1, retryable=(outcome,)))
    again = world.accept(listed, RecordAttempt(world.attempt(listed, outcome)))
    assert (again.phase, again.retries_left, again.receipt) == ("retry", 0, None)
    again = world.accept(again, StartAttempt())
    spent = world.accept(again, RecordAttempt(world.attempt(again, outcome)))
    assert (spent.receipt.reason, spent.receipt.retries_consumed) == (reason, 1)
    unlisted = world.at("attempting", world.session(retryable=()))
    ended = world.accept(unlisted, RecordAttempt(world.attempt(unlisted, outcome)))
    assert (ended.receipt.reason, ended.retries_left) == (reason, 2)


@pytest.mark.parametrize("granted", [0, 1, 3])
def test_calls_are_counted_and_refused_at_the_limit(world: Any, granted: int) -> None:
    """The N-th call is recorded, the next is refused, and the breaker that follows names the calls consumed."""
    state = world.at("created", world.session(provider_calls=granted))
    for _ in range(granted):
        state = world.accept(state, RecordCall("interpretation"))
    assert state.calls == granted
    assert refused(state, RecordCall("interpretation")) == "call-budget-exhausted"
    receipt = world.accept(state, TripBreaker("calls")).receipt
    assert (receipt.reason, receipt.calls_consumed) == ("call-budget-exhausted", granted)


def test_calls_without_a_limit_are_counted_and_said_to_be_unlimited(world: Any) -> None:
    """A null limit refuses nothing; the receipt says that there was none."""
    state = world.at("created", world.session(provider_calls=None))
    for _ in range(5):
        state = world.accept(state, RecordCall("interpretation"))
    receipt = world.accept(state, Abort("person.stopped")).receipt
    assert receipt.calls_consumed == 5
    assert "No limit was set on provider calls." in {limit.text for limit in receipt.limitations}


@pytest.mark.parametrize("member", ObservedIdentities.__struct_fields__)
def test_every_identity_is_compared_on_resume(world: Any, member: str) -> None:
    """A difference in any one member ends the session and names exactly that member."""
    state = world.at("planned")
    other = "sha1:" + "b" * 40 if member == "base_commit" else digest_of(state)
    ended = world.accept(state, Resume(world.observed(state, **{member: other})))
    assert (ended.receipt.reason, ended.receipt.drifted) == ("identity-drift-refused", (member,))
    resumed = transition(state, Resume(world.observed(state)))
    assert resumed == Transitioned(state, ("resume-validated",))


def test_all_drifted_identities_are_named_as_a_set(world: Any) -> None:
    """Two differences are both named, sorted."""
    state = world.at("planned")
    observed = world.observed(state, task_digest=digest_of(state), graph_digest=digest_of(state))
    assert drift(state.session, observed) == ("graph_digest", "task_digest")


def test_every_identity_of_a_session_is_observed_again() -> None:
    """No identity was forgotten: what a session holds beside identities is the work and its budgets."""
    rest = {"objective", "budgets", "retryable_outcomes", "proof_obligations"}
    assert set(Session.__struct_fields__) - rest == set(ObservedIdentities.__struct_fields__)
