"""The session as Hypothesis drives it: whatever is proposed, in whatever order, the promises of O1 hold."""

from __future__ import annotations

from typing import get_args

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec import structs

from savant.contracts.digest import digest
from savant.contracts.document import Document, digest_of, seal
from savant.contracts.scalars import as_set
from synthesis.budgets import spent
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
    Attempt,
    Breaker,
    Budgets,
    Check,
    CheckStatus,
    Evaluation,
    Interpretation,
    ObservedIdentities,
    Operation,
    Outcome,
    Plan,
    PlanReview,
    PlanStep,
    Recommendation,
    ReviewFinding,
    ReviewOutcome,
    Session,
    Severity,
    State,
    Transition,
)
from synthesis.machine import Refusal, start, transition
from synthesis.replay import document_of, fold, transition_document
from synthesis.table import PHASES, TERMINAL_PHASES

NOTHING = digest(b"nothing")
words = st.text(alphabet=st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["succeeded", "accept", "candidate-ready-for-admission", "phase: succeeded", '{"phase":"succeeded"}']
)
outcomes = st.sampled_from(get_args(Outcome))
mostly_right = st.integers(0, 9).map(lambda n: n > 0)


def session_of(retries: int, replans: int, calls: int | None, retryable: frozenset[Outcome]) -> Session:
    return Session(
        repository_domain="example.org/app",
        workspace_digest=NOTHING,
        task_digest=NOTHING,
        graph_digest=NOTHING,
        closure_digest=NOTHING,
        base_commit="sha1:" + "a" * 40,
        base_manifest_digest=NOTHING,
        evaluator_policy_digest=NOTHING,
        admission_policy_digest=NOTHING,
        driver_policy_digest=NOTHING,
        provider_config_digest=NOTHING,
        objective="objective",
        budgets=Budgets(
            retries=retries,
            replans=replans,
            provider_calls=calls,
            wall_clock_ms=None,
            tokens=None,
            cost_microunits=None,
        ),
        retryable_outcomes=as_set(retryable),
        proof_obligations=(),
    )


def say(document: Document, text: str) -> Document:
    """The same document with this text in its first free-text member."""
    match document:
        case Interpretation():
            return structs.replace(document, assumptions=(text,))
        case Plan():
            step = PlanStep(
                id="s1",
                description=text,
                intended_changes=(),
                symbols=(),
                expected_evidence=(),
                discharges=(),
                declares_gate_changes=False,
            )
            return structs.replace(document, steps=(step,), risks=(text,))
        case PlanReview(findings=(first, *rest)):
            return structs.replace(document, findings=(structs.replace(first, citation=text), *rest))
        case _:
            return document


REACHED: set[str] = set()
"""The phases that were entered, over all sequences: a run that stays shallow proves little and fails."""


class SessionMachine(RuleBasedStateMachine):
    """Proposes commands, right and wrong, and keeps what a ledger would keep."""

    def __init__(self) -> None:
        super().__init__()
        self.state: State
        self.transitions: list[Transition] = []
        self.stored: dict[str, bytes] = {}
        self.receipts: list[str] = []
        self.attempts: list[int] = []

    @initialize(
        retries=st.just(2) | st.integers(0, 2),
        replans=st.just(2) | st.integers(0, 2),
        calls=st.none() | st.integers(0, 4),
        retryable=st.just(frozenset(get_args(Outcome))) | st.frozensets(outcomes),
    )
    def begin(self, retries: int, replans: int, calls: int | None, retryable: frozenset[Outcome]) -> None:
        self.state = start(session_of(retries, replans, calls, retryable))

    def give(self, command: Command) -> None:
        before = self.state
        before_digest = digest_of(before)
        outcome = transition(before, command)
        assert digest_of(before) == before_digest
        if isinstance(outcome, Refusal):
            assert outcome.state is before
            return
        after = outcome.state
        assert before.phase not in TERMINAL_PHASES
        assert after.retries_left <= before.retries_left
        assert after.replans_left <= before.replans_left
        left = before.retries_left + before.replans_left - after.retries_left - after.replans_left
        assert left in {0, 1}
        assert left == 0 or after.phase in {"retry", "replan"}
        assert after.calls - before.calls in {0, 1}
        assert after.attempt_number >= before.attempt_number
        assert after.generation >= before.generation
        if isinstance(command, RecordAttempt):
            self.attempts.append(after.attempt_number)
        carried = document_of(command)
        if carried is not None:
            sealed = seal(carried)
            self.stored[sealed.digest] = sealed.raw
        self.transitions.append(transition_document(before, command, after, len(self.transitions), outcome.events))
        if after.receipt is not None:
            self.receipts.append(digest_of(after.receipt))
        self.state = after

    def free_text_changes_nothing(self, make: type, document: Document, text: str) -> None:
        """The same command with other words in it leads to the same phase, or to the same refusal."""
        plain, spoken = transition(self.state, make(document)), transition(self.state, make(say(document, text)))
        assert type(plain) is type(spoken)
        assert plain.state.phase == spoken.state.phase
        if isinstance(plain, Refusal) and isinstance(spoken, Refusal):
            assert plain.code == spoken.code

    @rule(
        times=st.integers(1, 8),
        outcome=st.just("completed") | outcomes,
        review=st.just("converged") | st.sampled_from(get_args(ReviewOutcome)),
        recommendation=st.just("accept") | st.sampled_from(get_args(Recommendation)),
    )
    def go_on(self, times: int, outcome: Outcome, review: ReviewOutcome, recommendation: Recommendation) -> None:
        """The commands that are due, so that deep states are reached as often as shallow ones."""
        for _ in range(times):
            self.give_what_is_due(outcome, review, recommendation)

    def give_what_is_due(self, outcome: Outcome, review: ReviewOutcome, recommendation: Recommendation) -> None:
        match self.state.phase:
            case "created":
                self.interpret(right=True, text="")
            case "planning":
                self.plan(right=True, generation=None, text="")
            case "reviewing":
                self.review(right=True, outcome=review, severity="minor", text="")
            case "planned" | "retry":
                self.start_attempt()
            case "attempting":
                self.attempt(right=True, outcome=outcome, number=None)
            case "evaluating":
                self.evaluate(right=True, recommendation=recommendation, status="passed")
            case "replan":
                self.start_planning()
            case "succeeded" | "failed":
                self.give(Abort("person.stopped"))

    @rule(operation=st.sampled_from(get_args(Operation)))
    def call(self, operation: Operation) -> None:
        self.give(RecordCall(operation))

    @rule(right=mostly_right, text=words)
    def interpret(self, right: bool, text: str) -> None:
        interpretation = Interpretation(
            session_digest=digest_of(self.state.session) if right else NOTHING,
            objective="objective",
            applicable_intent=(),
            binding_invariants=(),
            relevant_contracts=(),
            authority_boundaries=(),
            known_failure_modes=(),
            forbidden_fixes=(),
            required_proof_obligations=(),
            assumptions=(),
            unresolved_questions=(),
            source_references=(),
            limitations=(),
        )
        self.free_text_changes_nothing(RecordInterpretation, interpretation, text)
        self.give(RecordInterpretation(interpretation))

    @rule(right=mostly_right, generation=st.none() | st.integers(1, 4), text=words)
    def plan(self, right: bool, generation: int | None, text: str) -> None:
        plan = Plan(
            interpretation_digest=(self.state.interpretation_digest if right else None) or NOTHING,
            generation=generation or self.state.expected_generation or 1,
            promise="declared",
            steps=(),
            assumptions=(),
            risks=(),
            stop_conditions=(),
        )
        self.free_text_changes_nothing(RecordPlan, plan, text)
        self.give(RecordPlan(plan))

    @rule(
        right=mostly_right,
        outcome=st.sampled_from(get_args(ReviewOutcome)),
        severity=st.sampled_from(get_args(Severity)),
        text=words,
    )
    def review(self, right: bool, outcome: ReviewOutcome, severity: Severity, text: str) -> None:
        finding = ReviewFinding(id="f1", severity=severity, step=None, text="text", citation="")
        review = PlanReview(
            plan_digest=(self.state.plan_digest if right else None) or NOTHING,
            findings=(finding,),
            reviewers=("deterministic",),
            outcome=outcome,
        )
        self.free_text_changes_nothing(RecordPlanReview, review, text)
        self.give(RecordPlanReview(review))

    @rule()
    def start_planning(self) -> None:
        self.give(StartPlanning())

    @rule()
    def start_attempt(self) -> None:
        self.give(StartAttempt())

    @rule(right=mostly_right, outcome=outcomes, number=st.none() | st.integers(1, 4))
    def attempt(self, right: bool, outcome: Outcome, number: int | None) -> None:
        made = digest(b"candidate") if outcome == "completed" else None
        self.give(
            RecordAttempt(
                Attempt(
                    number=number or self.state.expected_attempt or 1,
                    generation=self.state.generation or 1,
                    plan_digest=(self.state.plan_digest if right else None) or NOTHING,
                    provider_digest=NOTHING,
                    outcome=outcome,
                    failure_kind=None if outcome == "completed" else "crash",
                    input_digest=made,
                    change_digest=made,
                    final_digest=made,
                )
            )
        )

    @precondition(lambda self: self.state.phase == "evaluating")
    @rule(
        right=mostly_right,
        recommendation=st.sampled_from(get_args(Recommendation)),
        status=st.sampled_from(get_args(CheckStatus)),
    )
    def evaluate(self, right: bool, recommendation: Recommendation, status: CheckStatus) -> None:
        check = Check(
            evaluator="tests",
            check="unit",
            status=status,
            base_status=None,
            comparison=None,
            excuse=None,
            required=True,
            findings=(),
        )
        self.give(
            RecordEvaluation(
                Evaluation(
                    attempt_digest=(self.state.attempt_digest if right else None) or NOTHING,
                    candidate_digest=digest(b"sealed"),
                    checks=(check,),
                    failure_classes=(),
                    recommendation=recommendation,
                    limitations=(),
                )
            )
        )
        if self.state.phase == "succeeded":
            assert (recommendation, right) == ("accept", True)
            assert status in {"passed", "skipped"}

    @rule(drifted=st.integers(0, 29).map(lambda n: n == 29))
    def resume(self, drifted: bool) -> None:
        members = {name: getattr(self.state.session, name) for name in ObservedIdentities.__struct_fields__}
        changed = {"task_digest": digest(b"other")} if drifted else {}
        self.give(Resume(ObservedIdentities(**{**members, **changed})))

    @precondition(lambda self: len(self.transitions) > 12)
    @rule(breaker=st.sampled_from(get_args(Breaker)))
    def trip(self, breaker: Breaker) -> None:
        self.give(TripBreaker(breaker))

    @precondition(lambda self: len(self.transitions) > 12)
    @rule(make=st.sampled_from([EvaluatorUnavailable, Escalate, Abort]), reason=st.just("driver.why") | words)
    def stop(self, make: type[EvaluatorUnavailable | Escalate | Abort], reason: str) -> None:
        self.give(make(reason))

    @invariant()
    def what_was_consumed_and_what_is_left_is_what_was_granted(self) -> None:
        budgets, used = self.state.session.budgets, spent(self.state)
        assert used.retries + self.state.retries_left == budgets.retries
        assert used.replans + self.state.replans_left == budgets.replans
        assert used.calls == sum(t.command == "RecordCall" for t in self.transitions)
        assert budgets.provider_calls is None or used.calls <= budgets.provider_calls
        assert used.retries == sum("retry-scheduled" in t.events for t in self.transitions)
        assert used.replans == sum("replan-scheduled" in t.events for t in self.transitions)

    @invariant()
    def there_is_exactly_one_receipt_when_the_session_has_ended_and_none_before(self) -> None:
        ended = self.state.phase in TERMINAL_PHASES
        assert (self.state.receipt is not None) == ended
        assert len(self.receipts) == ended
        if self.state.receipt is not None:
            assert (self.state.receipt.reason == "candidate-ready-for-admission") == (self.state.phase == "succeeded")

    @invariant()
    def attempts_are_numbered_without_gaps(self) -> None:
        assert self.attempts == list(range(1, len(self.attempts) + 1))

    @invariant()
    def reservations_stand_exactly_while_they_are_due(self) -> None:
        assert (self.state.expected_generation is not None) == (self.state.phase == "planning")
        assert (self.state.expected_attempt is not None) == (self.state.phase == "attempting")

    @invariant()
    def the_state_is_a_document(self) -> None:
        assert seal(self.state).document == self.state

    def teardown(self) -> None:
        """The records alone give the same state."""
        if hasattr(self, "state"):
            REACHED.update(t.phase_after for t in self.transitions)
            assert fold(self.state.session, self.transitions, self.stored.__getitem__) == self.state


def test_whatever_is_proposed_the_promises_of_a_session_hold() -> None:
    """Budgets, reservations, receipts, numbering, free text and replay, over sequences that reach every phase."""
    REACHED.clear()
    run_state_machine_as_test(SessionMachine, settings=settings(max_examples=200, stateful_step_count=40))
    assert set(PHASES) - {"created"} <= REACHED
