"""A state in every phase that calls a provider, its requests, and small twins of the base, the workspace and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from providerport.documents import AuditReport, AuditTask, Prior, Request
from providerport.mapping import ObservationLimits, Parent, build_request
from providerport.port import FileMode
from providerport.scripted import converged_review, minimal_interpretation, minimal_plan
from savant.contracts.digest import digest
from savant.contracts.document import Sealed, digest_of, seal
from savant.contracts.effects import Raised, Returned
from savant.contracts.errors import RefusedInput
from savant.contracts.twins import FixedClock, InlineCancellation, InlineTasks
from synthesis.commands import (
    Command,
    RecordAttempt,
    RecordInterpretation,
    RecordPlan,
    RecordPlanReview,
    StartAttempt,
)
from synthesis.documents import Attempt, Budgets, Evaluation, Interpretation, Operation, Plan, Session, State
from synthesis.machine import Transitioned, start, transition

LIMITS = ObservationLimits(max_observations=4, max_observation_bytes=64)
OPERATIONS: tuple[Operation, ...] = (
    "interpretation",
    "planning",
    "review-observation",
    "generation",
    "evaluation-observation",
)


def d(text: str) -> str:
    return digest(text.encode())


class MemoryWorkspace:
    """A dictionary of files; paths are not judged, the runner's workspace does that."""

    def __init__(self, base: Mapping[bytes, bytes]) -> None:
        self.base = dict(base)
        self.files = dict(base)

    def mode(self, path: bytes) -> FileMode | None:
        return "regular" if path in self.files else None

    def read(self, path: bytes) -> bytes:
        if path not in self.files:
            raise RefusedInput("refused.no-such-path", f"There is no {path!r}.")
        return self.files[path]

    def paths(self) -> Iterator[bytes]:
        return iter(sorted(self.files))

    def changed(self) -> tuple[bytes, ...]:
        return tuple(sorted(p for p in {*self.files, *self.base} if self.files.get(p) != self.base.get(p)))

    def read_base(self, path: bytes) -> bytes:
        return self.base[path]

    def write(self, path: bytes, data: bytes, *, executable: bool | None = None) -> None:
        self.files[path] = data

    def edit(self, path: bytes, old: bytes, new: bytes) -> None:
        self.files[path] = self.read(path).replace(old, new)

    def delete(self, path: bytes) -> None:
        self.files.pop(path, None)

    def rename(self, source: bytes, destination: bytes) -> None:
        self.files[destination] = self.files.pop(source)

    def set_mode(self, path: bytes, *, executable: bool) -> None:
        raise NotImplementedError

    def set_gitlink(self, path: bytes, commit: str) -> None:
        raise NotImplementedError

    def symlink(self, path: bytes, target: bytes) -> None:
        raise NotImplementedError

    def materialise(self) -> Path:
        raise NotImplementedError

    def absorb(self) -> None:
        raise NotImplementedError


@dataclass
class HangingTask:
    """A call that runs while its ``outcome`` is asked for a scripted number of times, then ends or goes on."""

    call: Callable[[], Any]
    clock: FixedClock
    asks: int | None
    on_ask: Callable[[], None]
    waits: list[int] = field(default_factory=list)

    def outcome(self, timeout_ms: int) -> Returned[Any] | Raised | None:
        self.waits.append(timeout_ms)
        self.clock.advance(timeout_ms)
        self.on_ask()
        if self.asks is None or len(self.waits) < self.asks:
            return None
        return Returned(self.call())


class HangingTasks(InlineTasks):
    """The first call (the description) ends at once; the next hangs."""

    def __init__(
        self, clock: FixedClock, *, asks: int | None = None, on_ask: Callable[[], None] = lambda: None, ends: int = 1
    ) -> None:
        self.clock = clock
        self.asks = asks
        self.on_ask = on_ask
        self.ends = ends
        self.hanging: list[HangingTask] = []
        self.tokens: list[InlineCancellation] = []

    def start(self, call: Callable[[], Any]) -> Any:
        if self.ends > 0:
            self.ends -= 1
            return super().start(call)
        self.hanging.append(HangingTask(call, self.clock, self.asks, self.on_ask))
        return self.hanging[-1]

    def cancellation(self) -> InlineCancellation:
        self.tokens.append(InlineCancellation())
        return self.tokens[-1]


class World:
    """One session, in each of its phases."""

    def __init__(self) -> None:
        self.session = Session(
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
                retries=1, replans=1, provider_calls=9, wall_clock_ms=None, tokens=None, cost_microunits=None
            ),
            retryable_outcomes=("timed-out",),
            proof_obligations=("no data loss",),
        )
        self.interpretation: Interpretation = minimal_interpretation(self.session)
        self.plan: Plan = minimal_plan(self.interpretation)
        self.attempt = Attempt(
            number=1,
            generation=1,
            plan_digest=digest_of(self.plan),
            provider_digest=d("who"),
            outcome="completed",
            failure_kind=None,
            input_digest=d("input"),
            change_digest=d("change"),
            final_digest=d("final"),
        )
        self.evaluation = Evaluation(
            attempt_digest=digest_of(self.attempt),
            candidate_digest=d("sealed"),
            checks=(),
            failure_classes=(),
            recommendation="accept",
            limitations=(),
        )
        self.audit = AuditReport(candidate_digest=d("sealed"), findings=(), verdicts=())
        self.task = AuditTask(
            candidate_digest=d("sealed"), objective="make it right", plan=self.plan, changes=(), audited=None
        )
        self.states = dict(zip(OPERATIONS, self._states(), strict=True))
        self.parents: dict[Operation, Parent] = {
            "interpretation": self.session,
            "planning": self.interpretation,
            "review-observation": self.plan,
            "generation": self.plan,
            "evaluation-observation": self.attempt,
        }

    def _states(self) -> Iterator[State]:
        state = start(self.session)
        yield state
        commands: tuple[tuple[Command, ...], ...] = (
            (RecordInterpretation(self.interpretation),),
            (RecordPlan(self.plan),),
            (RecordPlanReview(converged_review(self.plan)), StartAttempt()),
            (RecordAttempt(self.attempt),),
        )
        for several in commands:
            for command in several:
                state = self.accept(state, command)
            yield state

    def accept(self, state: State, command: Command) -> State:
        outcome = transition(state, command)
        assert isinstance(outcome, Transitioned), outcome
        return outcome.state

    def request(
        self,
        operation: Operation,
        *,
        deadline_ms: int = 1000,
        limits: ObservationLimits = LIMITS,
        prior: Prior | None = None,
        parent: Parent | None = None,
        scope: tuple[str, ...] = ("**",),
        task: AuditTask | None = None,
    ) -> Sealed[Request]:
        return seal(
            build_request(
                self.states[operation],
                operation,
                parent=parent or self.parents[operation],
                deadline_ms=deadline_ms,
                limits=limits,
                prior=prior,
                scope=scope,
                audit=(task or self.task) if operation == "evaluation-observation" else None,
            )
        )

    def workspace(self) -> MemoryWorkspace:
        return MemoryWorkspace({b"a.txt": b"a\n"})


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def clock() -> FixedClock:
    """A clock whose zero is long ago, as a real one's is."""
    return FixedClock(monotonic_ms=5_000)


@pytest.fixture
def hanging() -> type[HangingTasks]:
    return HangingTasks
