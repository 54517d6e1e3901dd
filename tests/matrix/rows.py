"""The proof matrix as data: what this project promises, and the proof that runs for each promise.

A proof takes a shop and goes through the public entry, beside a positive control. What belongs to a later version is
listed with its reason: it is counted, and never passed over in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

from tests.e2e import test_refusals as refusals
from tests.e2e.conftest import Shop
from tests.matrix import proofs_added as added
from tests.matrix import proofs_seed as seed

Proof: TypeAlias = Callable[[Shop], None]


class Later(msgspec.Struct, frozen=True):
    """What this version does not do yet, and why the row waits."""

    reason: str


class Row(msgspec.Struct, frozen=True):
    """One promise: its name, whether it was there from the beginning, and its proof."""

    name: str
    origin: Literal["seed", "added"]
    proof: Proof | Later


NO_RESUME: Final = "Savepoints are recorded; a run that stopped cannot be continued in this version."

MATRIX: Final[tuple[Row, ...]] = (
    Row("happy path to an applied and compliant target, and back", "seed", seed.happy_path),
    Row("evaluation accepts, admission refuses", "seed", seed.accepted_then_refused),
    Row("admitted with conditions, each acknowledged exactly", "seed", seed.admitted_with_conditions),
    Row("waiting", "seed", seed.waiting_for_a_person),
    Row("uncertifiable", "seed", seed.uncertifiable),
    Row("candidate tampered with", "seed", seed.tampered_candidate),
    Row("evaluation or attempt of another run", "seed", seed.foreign_lineage),
    Row("base drift", "seed", seed.base_drift),
    Row("dirty target", "seed", seed.dirty_target),
    Row("unsupported operation", "seed", seed.unsupported_operation),
    Row("digest mismatch at the application", "seed", seed.apply_mismatch),
    Row("target changed after the application", "seed", seed.changed_after_apply),
    Row("provider crash", "seed", seed.provider_crash),
    Row(
        "provider timeout, its process tree gone",
        "seed",
        refusals.test_a_provider_past_its_deadline_is_ended_with_its_hidden_child,
    ),
    Row("malformed and oversized output", "seed", seed.malformed_and_oversized_output),
    Row("retry, then success", "seed", seed.retry_then_success),
    Row("replan, then success", "seed", seed.replan_then_success),
    Row("retries and replans exhausted", "seed", seed.exhaustion),
    Row("evaluator unavailable", "seed", seed.evaluator_unavailable),
    Row("deterministic replay", "seed", seed.deterministic_replay),
    Row("no change to refs, index, config, stash, hooks, rules, keys", "seed", seed.nothing_else_changes),
    Row("plan review: revise", "added", added.plan_review_revises),
    Row("plan review: exhaustion", "added", added.plan_review_exhaustion),
    Row(
        "plan review: escalate",
        "added",
        Later("The deterministic reviewer never escalates, and no provider is asked for a review in this version."),
    ),
    Row("promise refused before generation", "added", added.promise_refused_before_generation),
    Row("every class of drift refuses, no owner called", "added", Later(NO_RESUME)),
    Row("crash at every step boundary, resumed", "added", Later(NO_RESUME)),
    Row("budgets unchanged by a restart", "added", Later(NO_RESUME)),
    Row("a run that was killed is never complete", "added", added.killed_run),
    Row("crash inside an application, settled by the next command", "added", added.crash_inside_apply),
    Row("call budget at N and at N - 1", "added", added.call_budget),
    Row("retry budget at N and at N - 1", "added", added.retry_budget),
    Row("tokens, money and time at N and at N - 1", "added", added.breakers_trip_at_their_limit),
    Row("a budget that nobody measures is not ready", "added", added.unmeasured_budgets),
    Row("flags only lower budgets", "added", added.budgets_only_tighten),
    Row(
        "breakers of change size, oscillation, stagnation and repeated failures",
        "added",
        Later("The machine ends for them; the loop does not watch for them in this version."),
    ),
    Row("every kind of change round-trips and is undone", "added", added.every_kind_round_trips),
    Row("ledger: removed record", "added", added.removed_record),
    Row("ledger: truncated tail", "added", added.truncated_tail),
    Row("ledger: swapped key", "added", added.swapped_key),
    Row("ledger: moved verdict", "added", added.moved_verdict),
    Row("ledger: another one in its place", "added", added.foreign_ledger),
    Row("one key in two roles", "added", added.shared_key),
    Row("unwritable ledger under enforce", "added", added.unwritable_ledger),
    Row("a failing evaluator gives no credit", "added", added.no_credit_for_a_failing_evaluator),
    Row("a process that leaves its session is ended and reported", "added", added.escaped_process),
    Row("a retry whose request holds the findings", "added", added.retry_holds_the_findings),
    Row("a target is dedicated and consumed once", "added", added.target_in_use),
    Row(
        "a target that a person changed is not undone",
        "added",
        refusals.test_a_target_that_the_person_changed_is_not_undone,
    ),
    Row(
        "commands of the repository run after trust only",
        "added",
        refusals.test_a_repositorys_own_commands_need_trust_once,
    ),
    Row("a candidate cannot edit the rules", "added", refusals.test_a_candidate_may_not_edit_the_rules),
)
"""Every promise, in the order in which it is read."""
