"""Governed records: they reach every interpretation and the session, and no provider can leave them out."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from msgspec import structs
from msgspec.structs import replace

from driver.governed import MEMBER_OF, evidence_of_obligations, governed_by, obligations_of
from providerport.port import Call
from providerport.scripted import ANSWERS_INTERPRETATION, Answer
from savant.contracts.document import digest_of
from savant.contracts.scalars import as_set
from savant.identity.closure import closure_identity
from savant.identity.documents import Closure, RecordKind
from savant.identity.task import task_identity
from savant.process.posix import SupervisedRunner
from synthesis.documents import Evaluation, Interpretation, Plan, ProofDischarge
from tests.driver.sessionkit import GOOD, RUN, check, planning, script
from tests.driver.test_loop import WorldOf, ended
from tests.driver.test_run import ALLOWS

KINDS = [kind for kind in get_args(RecordKind) if kind != "proof-obligation"]


def records(*rows: tuple[str, str, str], evidence: str | None = None) -> bytes:
    tables = []
    for id_, kind, text in rows:
        table = f'[[record]]\nid = "{id_}"\nkind = "{kind}"\ntext = "{text}"\napplies_to = ["src/**"]\n'
        if kind == "proof-obligation" and evidence is not None:
            table += f'evidence = "{evidence}"\n'
        tables.append(table)
    return "\n".join(tables).encode()


def closure(raw: bytes) -> Closure:
    return closure_identity(task_identity("Do it."), [(b".savant/records/r.toml", raw)]).document


ALL = records(*((f"r-{kind}", kind, f"Words on {kind}.") for kind in KINDS))


def test_every_kind_of_record_has_one_place() -> None:
    """Each kind but the obligation, which goes into the session, is a member of the interpretation of its own."""
    assert set(MEMBER_OF) == set(KINDS)
    assert len(set(MEMBER_OF.values())) == len(KINDS)
    assert set(MEMBER_OF.values()) <= set(Interpretation.__struct_fields__)
    governed = governed_by(closure(ALL))
    assert {getattr(governed, MEMBER_OF[kind]) for kind in KINDS} == {(f"Words on {kind}.",) for kind in KINDS}


def test_obligations_are_a_set_and_keep_every_record() -> None:
    """Two records with one text are one obligation of the session, and both need their evidence."""
    made = closure(
        records(("a", "proof-obligation", "It holds."), evidence="pytest")
        + b"\n"
        + records(("b", "proof-obligation", "It holds."), ("c", "intent", "No obligation."))
    )
    assert obligations_of(made) == ("It holds.",)
    assert evidence_of_obligations(made) == {"a": "pytest", "b": None}


def test_without_records_the_interpretation_says_so() -> None:
    """The limitation of an empty closure is handed on."""
    nothing = closure_identity(task_identity("Do it."), []).document
    assert [limit.source for limit in governed_by(nothing).limitations] == ["identity.closure"]
    assert governed_by(closure(ALL)).limitations == ()


@pytest.mark.parametrize("says", ["nothing", "something"])
def test_a_provider_cannot_omit_a_record(world: WorldOf, says: str) -> None:
    """Whatever it answers, the recorded interpretation and the planning request hold every record first."""

    def answer(call: Call) -> Any:
        made = ANSWERS_INTERPRETATION.payload(call)  # type: ignore[operator]
        assert isinstance(made, Interpretation)
        assert made.binding_invariants == ()
        return made if says == "nothing" else structs.replace(made, binding_invariants=("Mine.",))

    provider = script(GOOD, interpretations=[Answer(answer)])
    w = world(provider, files={b".savant/records/r.toml": ALL})
    assert ended(w)[0] == "candidate-ready"
    (interpretation,) = w.all(Interpretation)
    for kind, member in MEMBER_OF.items():
        extra = ("Mine.",) if (says, kind) == ("something", "invariant") else ()
        assert getattr(interpretation, member) == (f"Words on {kind}.", *extra)
    asked = next(r.document for r in provider.requests if r.document.operation == "planning")
    assert asked.interpretation == interpretation
    assert w.all(Plan)[0].interpretation_digest == digest_of(interpretation)


OBLIGED = {b".savant/records/r.toml": records(("p", "proof-obligation", "It is green."), evidence="check")}
"""An obligation that the check ``check`` discharges."""


def test_an_obligation_is_discharged_by_its_check(world: WorldOf, processes: SupervisedRunner) -> None:
    """The session lists it, the interpretation holds it though nobody repeated it, the discharge binds evidence."""

    def forget(call: Call) -> Any:
        made = ANSWERS_INTERPRETATION.payload(call)  # type: ignore[operator]
        return structs.replace(made, required_proof_obligations=())

    w = world(script(GOOD, interpretations=[Answer(forget)]), files={**ALLOWS, **OBLIGED}, processes=processes)
    w.asked = replace(w.asked, checks=(check(["/bin/true"]),))
    result = w.whole()
    assert result.disposition == "admitted"
    assert w.inputs().session.document.proof_obligations == ("It is green.",)
    assert w.all(Interpretation)[0].required_proof_obligations == ("It is green.",)
    (discharge,) = w.all(ProofDischarge)
    assert discharge.obligation == "It is green."
    assert discharge.candidate_digest == result.receipt.document.candidate_digest
    assert discharge.evidence_digest in {entry.body.digest for entry in w.entries}
    assert w.history.run_id == RUN


@pytest.mark.parametrize(
    ("checks", "recommendation", "reason"),
    [
        ((check(["/bin/false"], required=False),), "retry-generation", "retry-budget-exhausted"),
        ((), "replan", "replan-budget-exhausted"),
    ],
)
def test_an_obligation_without_its_evidence_is_never_accepted(
    world: WorldOf, processes: SupervisedRunner, checks: tuple[Any, ...], recommendation: str, reason: str
) -> None:
    """Its check is red, or there is no such check: no accept and no discharge, though nothing required is red."""
    w = world(script(GOOD), files=OBLIGED, processes=processes, budgets={"retries": 0, "replans": 0})
    w.asked = replace(w.asked, checks=checks)
    assert ended(w) == ("terminal-failure", reason)
    assert [e.recommendation for e in w.all(Evaluation)] == [recommendation]
    assert w.all(ProofDischarge) == []


def test_two_records_of_one_obligation_both_need_their_evidence(world: WorldOf, processes: SupervisedRunner) -> None:
    """A second record with the same text, which no check discharges, is not hidden by the first."""
    files = {**OBLIGED, b".savant/records/s.toml": records(("z", "proof-obligation", "It is green."))}
    w = world(script(GOOD), files=files, processes=processes, budgets={"replans": 0})
    w.asked = replace(w.asked, checks=(check(["/bin/true"]),))
    assert ended(w) == ("terminal-failure", "replan-budget-exhausted")


def test_a_plan_that_forgets_an_obligation_is_sent_back(world: WorldOf, processes: SupervisedRunner) -> None:
    """The reviewer asks for a step that discharges it; the next plan has one."""
    forgetful = planning(lambda plan: structs.replace(plan, steps=(structs.replace(plan.steps[0], discharges=()),)))
    w = world(script(GOOD, plans=[forgetful, planning()]), files=OBLIGED, processes=processes)
    w.asked = replace(w.asked, checks=(check(["/bin/true"]),))
    assert ended(w)[0] == "candidate-ready"
    assert [p.generation for p in w.all(Plan)] == [1, 2]


def test_a_record_about_another_place_does_not_apply(world: WorldOf) -> None:
    """The scope of the task leaves out what is about other folders only."""
    w = world(script(GOOD, plans=[planning(patterns=("README.md",))]), files={b".savant/records/r.toml": ALL})
    assert w.inputs().closure.document.records != ()
    w.asked = replace(w.asked, scope=("docs/**",))
    assert as_set(w.inputs().closure.document.records) == ()
