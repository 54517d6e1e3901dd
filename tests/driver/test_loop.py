"""The loop: the phase selects the owner call, a savepoint comes before each, and each ending is its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from driver.documents import RunDisposition, Savepoint
from driver.loop import run_session
from driver.step import STEPS
from evaluator.documents import Receipt as EvaluationReceipt
from providerport.documents import Receipt as CallReceipt
from providerport.documents import Request
from providerport.port import Call, Usage, Workspace
from providerport.scripted import ANSWERS_INTERPRETATION, Answer, Edit, Fail, ScriptedProvider, Step, write_files
from runner.documents import Receipt as RunnerReceipt
from savant.contracts.document import digest_of
from savant.contracts.effects import Cancellation
from savant.process.port import Command, Ended
from savant.process.posix import SupervisedRunner
from savant.store.objects import MemoryObjectStore
from synthesis.documents import Attempt, Evaluation, Interpretation, Phase, Plan, PlanReview, TerminalReason
from synthesis.table import PHASES, TERMINAL_PHASES
from tests.driver.sessionkit import GOOD, PLAIN, World, check, planning, script

WorldOf = Callable[..., World]

FORBIDDEN = {b".savant/config.toml": b'domain = "example.org/demo"\nforbidden = ["src/b.py"]\n'}
RED = Edit(write_files({b"src/b.py": b"b = 2\n"}))
"""An edit that a check of ``FORBIDDEN`` sends back to generation, and a promise of src/a.py back to planning."""
NARROW = planning(patterns=("src/a.py",))
HUNDRED_MS = 100


def ended(w: World) -> tuple[RunDisposition, TerminalReason | None]:
    run, disposition = w.session_run()
    receipt = run.host.state.receipt
    return disposition, None if receipt is None else receipt.reason


def test_every_phase_that_goes_on_has_one_step() -> None:
    """The table of steps covers exactly the phases that are not terminal."""
    assert set(STEPS) == set(PHASES) - set(TERMINAL_PHASES)


def test_every_owner_call_has_its_savepoint_before_it(world: WorldOf) -> None:
    """One step per phase; the savepoint names the call, and what the call makes is recorded after it."""
    w = world(script(GOOD))
    run, disposition = w.session_run()
    assert (disposition, run.host.state.phase) == ("candidate-ready", "succeeded")
    points = w.all(Savepoint)
    assert [(p.sequence, p.steps, p.phase, p.next_call) for p in points] == [
        (1, 0, "created", "provider.interpretation"),
        (2, 1, "planning", "provider.planning"),
        (3, 2, "reviewing", "driver.review"),
        (4, 3, "planned", "driver.start-attempt"),
        (5, 4, "attempting", "runner.attempt"),
        (6, 5, "evaluating", "evaluator.evaluate"),
    ]
    order = [type(entry.body.document) for entry in w.entries]
    places = [i for i, kind in enumerate(order) if kind is Savepoint]
    for made, place in (
        (Interpretation, places[0]),
        (Plan, places[1]),
        (PlanReview, places[2]),
        (RunnerReceipt, places[4]),
        (Attempt, places[4]),
        (Evaluation, places[5]),
    ):
        assert place < order.index(made)
        later = [other for other in places if other > place]
        assert not later or order.index(made) < later[0]
    assert order.count(CallReceipt) == 3


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_the_step_limit_stops_before_the_next_owner_call(world: WorldOf, limit: int) -> None:
    """With N steps there are N savepoints and the session stays where it is; six are enough."""
    w = world(script(GOOD), driver={"max_steps": limit})
    assert ended(w) == ("step-limit-reached", None)
    assert len(w.all(Savepoint)) == limit


def test_six_steps_are_enough(world: WorldOf) -> None:
    """The positive control of the step limit: a limit of six is not reached."""
    assert ended(world(script(GOOD), driver={"max_steps": 6})) == ("candidate-ready", "candidate-ready-for-admission")


# -- provider failures ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retryable", [(), ("unavailable",)])
@pytest.mark.parametrize("operation", ["interpretation", "planning"])
def test_a_failure_before_an_attempt_stops_the_run_and_leaves_the_session(
    world: WorldOf, operation: str, retryable: tuple[str, ...]
) -> None:
    """It is a counted call and no transition: nothing was attempted, so nothing is retried, listed or not."""
    failing = (Fail("unavailable", "overloaded", "too busy"),)
    named: dict[str, Any] = {"interpretations" if operation == "interpretation" else "plans": failing}
    w = world(script(GOOD, **named), session={"retryable_outcomes": retryable})
    run, disposition = w.session_run()
    assert disposition == "provider-stopped"
    assert run.host.state.phase == ("created" if operation == "interpretation" else "planning")
    assert run.host.state.receipt is None
    assert run.host.state.calls == (1 if operation == "interpretation" else 2)
    assert "too busy" in run.trace.stopped_by


def _other_objective(call: Call) -> Any:
    made = ANSWERS_INTERPRETATION.payload(call)  # type: ignore[operator]
    return structs.replace(made, objective="Something else.")


@pytest.mark.parametrize(
    ("provider", "phase", "why"),
    [
        (script(GOOD, interpretations=[Answer(_other_objective)]), "created", "wrong-objective"),
        (
            script(GOOD, plans=[planning(lambda plan: structs.replace(plan, generation=7))]),
            "planning",
            "another generation",
        ),
        (
            script(GOOD, plans=[planning(lambda plan: structs.replace(plan, interpretation_digest=digest_of(plan)))]),
            "planning",
            "another interpretation",
        ),
        (ScriptedProvider({"planning": []}), "created", "unsupported-capability"),
    ],
)
def test_an_answer_that_the_machine_refuses_stops_the_run(
    world: WorldOf, provider: ScriptedProvider, phase: Phase, why: str
) -> None:
    """Another objective, another parent, another generation, no such capability: the session does not move."""
    w = world(provider)
    run, disposition = w.session_run()
    assert (disposition, run.host.state.phase) == ("provider-stopped", phase)
    assert why in run.trace.stopped_by


REASONS: dict[str, tuple[Step, TerminalReason]] = {
    "unavailable": (Fail("unavailable", "overloaded"), "provider-unavailable"),
    "timed-out": (Fail("timed-out", "timeout"), "provider-timed-out"),
    "cancelled": (Fail("cancelled", "cancelled"), "provider-cancelled"),
    "invalid-output": (Fail("invalid-output", "malformed-output"), "invalid-provider-output"),
    "unsupported-capability": (Fail("unsupported-capability", "bad-request"), "unsupported-capability"),
}


@pytest.mark.parametrize("budget", [0, 1, 2])
@pytest.mark.parametrize("outcome", sorted(REASONS))
def test_a_retryable_failure_gets_one_attempt_more_than_its_budget(world: WorldOf, outcome: str, budget: int) -> None:
    """Attempts are budget + 1, each failure keeps its own reason; one success within the budget is enough."""
    step, reason = REASONS[outcome]
    w = world(script(*[step] * 5), session={"retryable_outcomes": (outcome,)}, budgets={"retries": budget})
    assert ended(w) == ("terminal-failure", reason)
    attempts = w.all(Attempt)
    assert [(a.number, a.outcome) for a in attempts] == [(n, outcome) for n in range(1, budget + 2)]
    again = world(script(*[step] * budget, GOOD), session={"retryable_outcomes": (outcome,)})
    again.budgets = {"retries": budget}
    assert ended(again)[0] == "candidate-ready"


@pytest.mark.parametrize("outcome", sorted(REASONS))
def test_a_failure_that_is_not_listed_ends_at_once(world: WorldOf, outcome: str) -> None:
    """One attempt, whatever the budget."""
    step, reason = REASONS[outcome]
    w = world(script(step, GOOD), session={"retryable_outcomes": ()}, budgets={"retries": 2})
    assert ended(w) == ("terminal-failure", reason)
    assert len(w.all(Attempt)) == 1


def test_a_provider_without_generation_is_an_attempt_without_capability(world: WorldOf) -> None:
    """What it does not claim is not called; the attempt says so."""
    plans = ScriptedProvider({"interpretation": [ANSWERS_INTERPRETATION], "planning": [planning()]})
    assert ended(world(plans)) == ("terminal-failure", "unsupported-capability")
    assert plans.calls("generation") == 0


# -- evaluation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [0, 1, 2])
def test_retries_end_when_their_budget_is_used_up(world: WorldOf, budget: int) -> None:
    """A check that stays red: budget + 1 attempts, each evaluated, then ``retry-budget-exhausted``."""
    w = world(script(*[RED] * 5), files=FORBIDDEN, budgets={"retries": budget})
    assert ended(w) == ("terminal-failure", "retry-budget-exhausted")
    assert [e.recommendation for e in w.all(Evaluation)] == ["retry-generation"] * (budget + 1)
    assert len(w.all(Attempt)) == budget + 1


@pytest.mark.parametrize("budget", [0, 1, 2])
def test_replans_end_when_their_budget_is_used_up(world: WorldOf, budget: int) -> None:
    """A change outside the promise: budget + 1 generations of the plan, then ``replan-budget-exhausted``."""
    w = world(script(*[RED] * 5, plans=[NARROW] * 5), budgets={"replans": budget})
    assert ended(w) == ("terminal-failure", "replan-budget-exhausted")
    assert [p.generation for p in w.all(Plan)] == list(range(1, budget + 2))
    assert [e.recommendation for e in w.all(Evaluation)] == ["replan"] * (budget + 1)


@pytest.mark.parametrize("budget", [0, 1, 2])
def test_plans_that_never_converge_end_before_generation(world: WorldOf, budget: int) -> None:
    """A promise inside .savant/: budget + 1 plans are reviewed, nothing is generated."""
    provider = script(GOOD, plans=[planning(patterns=(".savant/**",))] * 5)
    w = world(provider, budgets={"replans": budget})
    assert ended(w) == ("terminal-failure", "plan-not-converged")
    assert [r.outcome for r in w.all(PlanReview)] == ["revise"] * (budget + 1)
    assert provider.calls("generation") == 0


def test_a_retry_is_told_the_findings_and_succeeds(world: WorldOf) -> None:
    """The second request names the attempt and the evaluation, and holds the finding with its path."""
    provider = script(RED, GOOD)
    w = world(provider, files=FORBIDDEN)
    assert ended(w) == ("candidate-ready", "candidate-ready-for-admission")
    first, second = (r for r in w.all(Request) if r.operation == "generation")
    assert first.prior is None
    assert second.prior is not None
    (attempt, _), (evaluation, _) = w.all(Attempt), w.all(Evaluation)
    assert (second.prior.attempt_digest, second.prior.evaluation_digest) == (digest_of(attempt), digest_of(evaluation))
    (found,) = second.prior.findings
    assert (found.check, found.status, found.path) == ("forbidden-paths", "failed", "src/b.py")
    assert (second.attempt_number, second.generation) == (2, 1)
    assert provider.requests[-1].document == second


def test_what_a_required_check_found_is_told_before_the_rest(world: WorldOf, processes: SupervisedRunner) -> None:
    """An optional check that comes first in the configuration comes last in the prior, which may be cut off there."""
    w = world(script(GOOD, GOOD), processes=processes, budgets={"retries": 1, "replans": 0})
    w.asked = replace(
        w.asked, checks=(check(["/bin/false"], "a-style", required=False), check(["/bin/false"], "b-tests"))
    )
    ended(w)
    prior = [r.prior for r in w.all(Request) if r.operation == "generation"][1]
    assert prior is not None
    assert [f.check for f in prior.findings] == ["b-tests", "a-style"]


def test_a_failed_call_is_told_to_the_next_attempt(world: WorldOf) -> None:
    """The retry after a failure that is no candidate holds its outcome and kind."""
    w = world(script(Fail("unavailable", "rate-limited"), GOOD))
    assert ended(w)[0] == "candidate-ready"
    prior = [r.prior for r in w.all(Request) if r.operation == "generation"][1]
    assert prior is not None
    assert (prior.outcome, prior.failure_kind, prior.evaluation_digest) == ("unavailable", "rate-limited", None)


def test_a_change_of_nothing_is_told_to_the_next_attempt(world: WorldOf) -> None:
    """The finding of the seal goes to the retry."""
    w = world(script(Edit(write_files({})), GOOD))
    assert ended(w)[0] == "candidate-ready"
    prior = [r.prior for r in w.all(Request) if r.operation == "generation"][1]
    assert prior is not None
    assert (prior.failure_kind, [f.check for f in prior.findings]) == ("no-change", ["seal"])


def test_a_replan_is_told_the_findings_and_succeeds(world: WorldOf) -> None:
    """The second plan's request holds what lay outside the promise; the plan promises it, and the change passes."""
    w = world(script(RED, RED, plans=[NARROW, planning(patterns=("src/*.py",))]))
    assert ended(w) == ("candidate-ready", "candidate-ready-for-admission")
    first, second = (r for r in w.all(Request) if r.operation == "planning")
    assert first.prior is None
    assert second.prior is not None
    assert [(f.check, f.path) for f in second.prior.findings] == [("scope", "src/b.py")]
    assert second.generation == 2


def test_a_plan_outside_the_scope_is_sent_back_with_the_finding(world: WorldOf) -> None:
    """The person's scope binds the promise: the next planning request says what left it."""
    w = world(script(GOOD, plans=[planning(patterns=("src/a.py", "README.md")), NARROW]))
    w.asked = replace(w.asked, scope=("src/**",))
    assert ended(w)[0] == "candidate-ready"
    requests = [r for r in w.all(Request) if r.operation == "planning"]
    assert [r.scope for r in requests] == [("src/**",), ("src/**",)]
    prior = requests[1].prior
    assert prior is not None
    assert [(f.id, f.severity) for f in prior.review_findings] == [("scope-left", "blocking")]
    assert "README.md" in prior.review_findings[0].text
    assert prior.plan_review_digest == digest_of(w.all(PlanReview)[0])


def test_scopes_in_any_order_are_one_set(world: WorldOf) -> None:
    """The patterns are sorted in the documents; the order in which they were typed changes no digest."""
    digests = set()
    for scope in (("src/**", "README.md"), ("README.md", "src/**", "README.md")):
        w = world(script(GOOD, plans=[NARROW]))
        w.asked = replace(w.asked, scope=scope)
        assert ended(w)[0] == "candidate-ready"
        digests.add(w.inputs().session.digest)
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("failure_class", "reason"),
    [
        ("mechanical-failure", "retry-budget-exhausted"),
        ("plan-level-failure", "replan-budget-exhausted"),
        ("of-our-own", "architect-review-required"),
        ("forbidden-fix", "explicitly-aborted"),
    ],
)
def test_a_failure_class_decides_the_reason(
    world: WorldOf, processes: SupervisedRunner, failure_class: str, reason: TerminalReason
) -> None:
    """A red command check ends as its class says; the same check when it is green is no obstacle."""
    for command, expected in (("/bin/false", ("terminal-failure", reason)), ("/bin/true", ("candidate-ready", None))):
        w = world(script(GOOD), budgets={"retries": 0, "replans": 0}, processes=processes)
        w.asked = replace(w.asked, checks=(check([command], failure_class=failure_class),))
        disposition, why = ended(w)
        assert disposition == expected[0]
        assert expected[1] in {None, why}


def test_a_check_that_does_not_run_is_no_pass(world: WorldOf, processes: SupervisedRunner) -> None:
    """A missing tool ends the session as ``evaluator-unavailable``; an optional one does not."""
    for required, expected in ((True, "terminal-failure"), (False, "candidate-ready")):
        w = world(script(GOOD), processes=processes)
        w.asked = replace(w.asked, checks=(check(["no-such-tool"], required=required),))
        disposition, reason = ended(w)
        assert disposition == expected
        assert (reason == "evaluator-unavailable") is required
    assert w.all(EvaluationReceipt)[0].disposition == "evaluated"


class Rotten(MemoryObjectStore):
    """A store that gives back every object so often, and then something else."""

    def __init__(self, good_reads: int) -> None:
        super().__init__()
        self.good_reads = good_reads
        self.reads: Counter[str] = Counter()

    def get(self, digest: str, *, max_bytes: int = 2**40) -> bytes:
        self.reads[digest] += 1
        raw = super().get(digest, max_bytes=max_bytes)
        return raw + b"!" if self.reads[digest] > self.good_reads else raw


def test_a_candidate_that_cannot_be_read_is_not_evaluated(world: WorldOf) -> None:
    """A blob that rots after the seal read it back ends the session; one that rots too late does not."""
    w = world(script(GOOD), objects=Rotten(1))
    assert ended(w) == ("terminal-failure", "evaluator-unavailable")
    assert w.all(EvaluationReceipt)[0].disposition == "candidate-load-failure"
    assert ended(world(script(GOOD), objects=Rotten(9)))[0] == "candidate-ready"


# -- stops ------------------------------------------------------------------------------------------------------------


def test_a_scratch_folder_that_is_gone_is_the_hosts_fault(world: WorldOf) -> None:
    """No workspace: the runner stops, nothing is recorded against the provider, the session waits in ``attempting``."""
    w = world(script(GOOD))
    ports = w.ports()
    w.scratch.rmdir()
    run, disposition = run_session(w.inputs(), ports)
    assert (disposition, run.host.state.phase) == ("runner-stopped", "attempting")
    assert run.trace.stopped_by.startswith("workspace-init-failure")
    assert w.all(Attempt) == []
    assert not Path(w.scratch).exists()


@pytest.mark.parametrize("operation", ["interpretation", "planning", "generation"])
def test_an_interrupt_during_a_call_stops_the_run(world: WorldOf, operation: str) -> None:
    """The person's cancellation ends the call and then the run; the session is not terminal."""
    w = world(script(GOOD))

    def interrupt(call: Call) -> Any:
        w.cancellation.set()
        return ANSWERS_INTERPRETATION.payload(call)  # type: ignore[operator]

    def interrupt_plan(call: Call) -> Any:
        w.cancellation.set()
        return NARROW.payload(call)  # type: ignore[operator]

    def interrupt_edit(workspace: Workspace) -> None:
        w.cancellation.set()
        workspace.write(b"src/a.py", b"a = 3\n")

    steps: dict[str, ScriptedProvider] = {
        "interpretation": script(GOOD, interpretations=[Answer(interrupt)]),
        "planning": script(GOOD, plans=[Answer(interrupt_plan)]),
        "generation": script(Edit(interrupt_edit)),
    }
    w.provider = steps[operation]
    run, disposition = w.session_run()
    assert (disposition, run.host.state.receipt) == ("interrupted", None)
    assert w.all(Evaluation) == []


def test_an_interrupt_before_the_first_call_calls_nobody(world: WorldOf) -> None:
    """A run that was cancelled before it began makes no owner call."""
    provider = script(GOOD)
    w = world(provider)
    w.cancellation.set()
    assert ended(w) == ("interrupted", None)
    assert provider.calls() == 0
    assert w.all(Savepoint) == []


# -- budgets of calls -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("granted", [0, 1, 2])
def test_the_call_budget_ends_the_session_before_the_call_that_exceeds_it(world: WorldOf, granted: int) -> None:
    """A run of three calls: with fewer the session ends after exactly that many."""
    provider = script(GOOD)
    w = world(provider, budgets={"provider_calls": granted})
    assert ended(w) == ("terminal-failure", "call-budget-exhausted")
    assert provider.calls() == granted


def test_the_call_budget_that_is_just_enough_is_enough(world: WorldOf) -> None:
    """The positive control: three calls with a budget of three."""
    assert ended(world(script(GOOD), budgets={"provider_calls": 3}))[0] == "candidate-ready"


USAGE = Usage(tokens_in=60, tokens_out=40, cost_microunits=7)


@pytest.mark.parametrize(
    ("member", "used_by_two", "reason"),
    [
        ("wall_clock_ms", 2 * HUNDRED_MS, "wall-clock-exhausted"),
        ("tokens", 299, "token-budget-exhausted"),
        ("cost_microunits", 20, "cost-budget-exhausted"),
    ],
)
def test_a_breaker_trips_at_its_limit_and_not_before(
    world: WorldOf, member: str, used_by_two: int, reason: TerminalReason
) -> None:
    """Two calls leave too little for a third as large: it is not made; one more unit and it is."""
    for granted, expected in ((used_by_two, reason), (used_by_two + 1, "candidate-ready-for-admission")):
        w = world(None)

        def slow(answer: Answer, w: World = w) -> Answer:
            def make(call: Call) -> Any:
                w.clock.advance(HUNDRED_MS)
                return answer.payload(call)  # type: ignore[operator]

            return Answer(make, USAGE)

        provider = script(
            GOOD, interpretations=[slow(ANSWERS_INTERPRETATION)], plans=[slow(planning())], reports_usage=True
        )
        w.provider, w.budgets = provider, {member: granted}
        assert ended(w)[1] == expected
        assert provider.calls() == (2 if expected == reason else 3)


def test_a_base_that_no_run_changes(world: WorldOf) -> None:
    """The base is what it was after a run: the provider edits an overlay."""
    w = world(script(GOOD))
    assert ended(w)[0] == "candidate-ready"
    assert w.snapshot.read(b"src/a.py") == PLAIN[b"src/a.py"]


class Interrupting:
    """A supervisor of real commands during whose check the person interrupts."""

    def __init__(self, inner: SupervisedRunner, w: World) -> None:
        self._inner, self._w = inner, w

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def run(self, command: Command, cancellation: Cancellation | None = None) -> Ended:
        ended = self._inner.run(command, cancellation)
        if command.argv[0].endswith("/true"):
            self._w.cancellation.set()
        return ended


def test_an_interrupt_during_an_evaluation_records_no_verdict(world: WorldOf, processes: SupervisedRunner) -> None:
    """What a check says before the person's interrupt is no evaluation; the candidate stays sealed."""
    for interrupts in (True, False):
        w = world(script(GOOD), processes=processes)
        if interrupts:
            w.processes = Interrupting(processes, w)
        w.asked = replace(w.asked, checks=(check(["/bin/true"]),))
        run, disposition = w.session_run()
        assert disposition == ("interrupted" if interrupts else "candidate-ready")
        assert (w.all(Evaluation) == []) is interrupts
        assert run.trace.candidate is not None
