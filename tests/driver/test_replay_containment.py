"""Replay reads what contained the commands of a run, and holds it against what was demanded of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from admission.policy import policy_toml, starter_policy
from driver.built_ins import BUILT_IN
from driver.history import HistoryEntry, RunHistory
from driver.replay import ReplayReport
from evaluator.documents import Result as EvaluatorResult
from providerport.documents import Receipt as CallReceipt
from runner.documents import Receipt as RunnerReceipt
from savant.contracts.containment import Containment
from savant.contracts.document import Document
from savant.process.posix import SupervisedRunner
from tests.driver.runkit import FILES, RUN, Recorded, record_run, replay

S1 = Containment(level="S1", layers=("rlimits",), network="open")
STRICT = structs.replace(starter_policy(), sandbox=structs.replace(starter_policy().sandbox, recipe="S2", check="S2"))
Runs = dict[str, tuple[Recorded, RunHistory]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs under a policy that demands S2: contained; uncontained and waived. And one that demands nothing."""
    place = tmp_path_factory.mktemp("runs")
    with SupervisedRunner(place / "probe") as runner:
        if runner.level < "S2":
            pytest.skip(f"sandbox level S2 cannot be had here, only {runner.level}")
    strict = {**FILES, ".savant/policy.toml": policy_toml(STRICT).encode()}
    made: Runs = {}
    for name, files, word, flags in (
        ("contained", strict, "full", ()),
        ("waived", strict, "none", ("--allow-unsandboxed",)),
        ("lax", FILES, "none", ()),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SAVANT_HOME", str(place / name / "home"))
            patch.setenv("SAVANT_SANDBOX", word)
            (place / name).mkdir()
            recorded = record_run(place / name, files, (*RUN, *flags))
            made[name] = (recorded, recorded.history())
    return made


def observed(
    history: RunHistory, type_: type[Document], seen: Containment | None, is_it: Callable[[Any], bool] = lambda _: True
) -> RunHistory:
    """The history with another containment at the newest document of a type that fits."""
    entries = list(history.entries)
    place = max(i for i, e in enumerate(entries) if isinstance(e.body.document, type_) and is_it(e.body.document))
    entry = entries[place]
    noted = structs.replace(entry.observed, containment=seen)
    entries[place] = HistoryEntry(entry.seq, entry.role, entry.kind, entry.body, noted)
    return RunHistory(history.run_id, entries)


def step(report: ReplayReport) -> tuple[str, str]:
    (found,) = [step for step in report.steps if step.name == "containment"]
    return found.status, found.detail


@pytest.mark.parametrize(
    ("name", "least"), [("contained", "at least"), ("waived", "at least none (S0)"), ("lax", "at least none (S0)")]
)
def test_a_run_that_had_what_was_demanded_or_waived_comes_out_the_same(runs: Runs, name: str, least: str) -> None:
    """Two attempts: calls, attempts and checks, each with what it had."""
    status, detail = step(replay(*runs[name]))
    assert (status, least in detail) == ("pass", True), detail
    assert int(detail.partition(" ")[0]) >= 6


@pytest.mark.parametrize("type_", [CallReceipt, RunnerReceipt, EvaluatorResult])
def test_less_than_was_demanded_is_found_unless_it_was_waived_and_told(runs: Runs, type_: type[Document]) -> None:
    """A record of a contained run that tells less; the same where it was waived is what happened."""
    recorded, history = runs["contained"]
    is_it = (lambda result: result.evaluator not in BUILT_IN) if type_ is EvaluatorResult else (lambda _: True)
    status, detail = step(replay(recorded, observed(history, type_, S1, is_it)))
    assert (status, "nobody waived it" in detail) == ("fail", True), detail
    recorded, history = runs["waived"]
    assert step(replay(recorded, observed(history, type_, S1, is_it)))[0] == "pass"
    recorded, history = runs["lax"]
    assert step(replay(recorded, observed(history, type_, S1, is_it)))[0] == "pass"


def test_a_waiver_that_a_result_keeps_to_itself_is_found(runs: Runs) -> None:
    """The person waived it, and the built-in evaluator, which has no command, claims one and says nothing."""
    recorded, history = runs["waived"]
    status, detail = step(replay(recorded, observed(history, EvaluatorResult, S1, lambda r: r.evaluator == "scope")))
    assert (status, "does not say so" in detail) == ("fail", True), detail


def test_a_generation_that_does_not_tell_is_not_shown(runs: Runs) -> None:
    """Its commands ran with something, and the record does not say with what."""
    recorded, history = runs["contained"]
    silent = observed(history, CallReceipt, None, lambda receipt: receipt.operation == "generation")
    assert step(replay(recorded, silent))[0] == "not-shown"
    assert step(replay(recorded, observed(history, RunnerReceipt, None)))[0] == "pass"
