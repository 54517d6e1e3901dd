"""A session, the documents that follow it, and one state in every phase."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from msgspec import structs

from savant.contracts.digest import digest
from savant.contracts.document import digest_of
from savant.contracts.scalars import as_set
from synthesis.commands import (
    Command,
    RecordAttempt,
    RecordEvaluation,
    RecordInterpretation,
    RecordPlan,
    RecordPlanReview,
    StartAttempt,
    StartPlanning,
)
from synthesis.documents import (
    Attempt,
    Budgets,
    Check,
    Evaluation,
    Interpretation,
    Limitation,
    ObservedIdentities,
    Outcome,
    Phase,
    Plan,
    PlanReview,
    Recommendation,
    ReviewOutcome,
    Session,
    State,
)
from synthesis.machine import Transitioned, start, transition


def d(text: str) -> str:
    return digest(text.encode())


class World:
    """Documents that fit the current state; every builder takes what a test wants to break."""

    def session(
        self,
        *,
        retries: int = 2,
        replans: int = 2,
        provider_calls: int | None = 20,
        retryable: tuple[Outcome, ...] = ("timed-out", "unavailable"),
        obligations: tuple[str, ...] = ("no data loss",),
    ) -> Session:
        return Session(
            repository_domain="example.org/app",
            workspace_digest=d("workspace"),
            task_digest=d("task"),
            graph_digest=d("graph"),
            closure_digest=d("closure"),
            base_commit="sha1:" + "a" * 40,
            base_manifest_digest=d("manifest"),
            evaluator_policy_digest=d("evaluator"),
            admission_policy_digest=d("admission"),
            driver_policy_digest=d("driver"),
            provider_config_digest=d("provider"),
            objective="make it right",
            budgets=Budgets(
                retries=retries,
                replans=replans,
                provider_calls=provider_calls,
                wall_clock_ms=60_000,
                tokens=None,
                cost_microunits=None,
            ),
            retryable_outcomes=as_set(retryable),
            proof_obligations=as_set(obligations),
        )

    def interpretation(self, state: State, **changes: object) -> Interpretation:
        document = Interpretation(
            session_digest=digest_of(state.session),
            objective=state.session.objective,
            applicable_intent=(),
            binding_invariants=("totals add up",),
            relevant_contracts=(),
            authority_boundaries=(),
            known_failure_modes=(),
            forbidden_fixes=(),
            required_proof_obligations=as_set((*state.session.proof_obligations, "one more")),
            assumptions=(),
            unresolved_questions=(),
            source_references=(),
            limitations=(),
        )
        return structs.replace(document, **changes)

    def plan(self, state: State, **changes: object) -> Plan:
        document = Plan(
            interpretation_digest=state.interpretation_digest or d("none"),
            generation=state.expected_generation or 1,
            promise="declared",
            steps=(),
            assumptions=(),
            risks=(),
            stop_conditions=(),
        )
        return structs.replace(document, **changes)

    def review(self, state: State, outcome: ReviewOutcome = "converged", **changes: object) -> PlanReview:
        document = PlanReview(
            plan_digest=state.plan_digest or d("none"), findings=(), reviewers=("deterministic",), outcome=outcome
        )
        return structs.replace(document, **changes)

    def attempt(self, state: State, outcome: Outcome = "completed", **changes: object) -> Attempt:
        made = d(f"candidate {state.expected_attempt}") if outcome == "completed" else None
        document = Attempt(
            number=state.expected_attempt or 1,
            generation=state.generation or 1,
            plan_digest=state.plan_digest or d("none"),
            provider_digest=d("provider"),
            outcome=outcome,
            failure_kind=None if outcome == "completed" else "crash",
            input_digest=made,
            change_digest=made,
            final_digest=made,
        )
        return structs.replace(document, **changes)

    def check(self, **changes: object) -> Check:
        document = Check(
            evaluator="tests",
            check="unit",
            status="passed",
            base_status=None,
            comparison=None,
            excuse=None,
            required=True,
            findings=(),
        )
        return structs.replace(document, **changes)

    def limitation(self, *, blocking: bool) -> Limitation:
        return Limitation(source="tests", text="not everything was seen", blocking=blocking)

    def evaluation(self, state: State, recommendation: Recommendation = "accept", **changes: object) -> Evaluation:
        document = Evaluation(
            attempt_digest=state.attempt_digest or d("none"),
            candidate_digest=d("sealed"),
            checks=(self.check(),),
            failure_classes=(),
            recommendation=recommendation,
            limitations=(),
        )
        return structs.replace(document, **changes)

    def observed(self, state: State, **changes: object) -> ObservedIdentities:
        members = {name: getattr(state.session, name) for name in ObservedIdentities.__struct_fields__}
        return ObservedIdentities(**{**members, **changes})

    def accept(self, state: State, command: Command) -> State:
        outcome = transition(state, command)
        assert isinstance(outcome, Transitioned), outcome
        return outcome.state

    def at(self, phase: Phase, session: Session | None = None) -> State:
        """A state in this phase, reached by commands alone."""
        state = start(session or self.session())
        steps: Mapping[str, tuple[str, Callable[[State], Command]]] = {
            "created": ("planning", lambda s: RecordInterpretation(self.interpretation(s))),
            "planning": ("reviewing", lambda s: RecordPlan(self.plan(s))),
            "reviewing": ("planned", lambda s: RecordPlanReview(self.review(s))),
            "planned": ("attempting", lambda _: StartAttempt()),
            "attempting": ("evaluating", lambda s: RecordAttempt(self.attempt(s))),
        }
        detours: Mapping[str, tuple[str, Callable[[State], Command]]] = {
            "retry": ("evaluating", lambda s: RecordEvaluation(self.evaluation(s, "retry-generation"))),
            "replan": ("evaluating", lambda s: RecordEvaluation(self.evaluation(s, "replan"))),
            "succeeded": ("evaluating", lambda s: RecordEvaluation(self.evaluation(s))),
            "failed": ("evaluating", lambda s: RecordEvaluation(self.evaluation(s, "abort"))),
        }
        goal = detours[phase][0] if phase in detours else phase
        while state.phase != goal:
            state = self.accept(state, steps[state.phase][1](state))
        if phase in detours:
            state = self.accept(state, detours[phase][1](state))
        assert state.phase == phase
        return state

    def replanned(self, state: State) -> State:
        return self.accept(state, StartPlanning())


@pytest.fixture
def world() -> World:
    return World()
