"""The composition: a sound chain passes every check, and each check fails on its own and is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from admission.compose import Chain, check_lineage, compose_receipt, compose_request
from admission.decide import decide
from runner.documents import ChangeSet
from savant.contracts.document import digest_of, seal
from tests.admission.kit import Tree, command_check, f, make_chain, make_request, named, scope_of

BEFORE: Tree = {b"a.py": f(b"a\n"), b"b.py": f(b"b\n")}
AFTER: Tree = {b"a.py": f(b"c\n"), b"b.py": f(b"b\n")}
CHAIN = make_chain(BEFORE, AFTER)
SCOPE = scope_of(BEFORE, AFTER)


def failed(chain: Chain, scope: Any = SCOPE) -> set[str]:
    return {check.name for check in check_lineage(chain, scope) if not check.passed}


def test_a_sound_chain_passes_every_check() -> None:
    """Each check is there once, in a fixed order, without a detail."""
    checks = list(check_lineage(CHAIN, SCOPE))
    assert all(check.passed and not check.detail for check in checks)
    assert [check.name for check in checks] == [name for name, _, _ in FLIPS] + ["o5.scope"]


def member(name: str) -> Callable[[Chain], Chain]:
    """Another document in one place, under a digest that nobody else names."""
    return lambda chain: replace(chain, **{name: replace(getattr(chain, name), digest=named(f"another {name}"))})


def changed(name: str, **changes: Any) -> Callable[[Chain], Chain]:
    """One member of one document changed, its digest kept: only what reads that member can see it."""

    def change(chain: Chain) -> Chain:
        sealed = getattr(chain, name)
        return replace(chain, **{name: replace(sealed, document=structs.replace(sealed.document, **changes))})

    return change


FLIPS: list[tuple[str, Callable[[Chain], Chain], Callable[[Chain], Chain]]] = [
    ("o1.session", member("session"), changed("synthesis_receipt", session_digest=named("x"))),
    (
        "o1.reason",
        changed("synthesis_receipt", reason="retry-budget-exhausted"),
        changed("synthesis_receipt", reason="stagnated"),
    ),
    ("o1.plan", member("plan"), changed("attempt", plan_digest=named("x"))),
    ("o1.generation", changed("plan", generation=2), changed("attempt", generation=2)),
    ("o1.attempt", member("attempt"), changed("evaluation", attempt_digest=named("x"))),
    ("o1.attempt-number", changed("attempt", number=2), changed("candidate", attempt_number=2)),
    ("o1.attempt-outcome", changed("attempt", outcome="timed-out"), changed("attempt", outcome="cancelled")),
    ("o1.evaluation", member("evaluation"), changed("synthesis_receipt", evaluation_digest=None)),
    (
        "o1.recommendation",
        changed("evaluation", recommendation="abort"),
        changed("evaluation", recommendation="replan"),
    ),
    ("o1.candidate", member("candidate"), changed("synthesis_receipt", candidate_digest=None)),
    (
        "o3.disposition",
        changed("runner_receipt", disposition="seal-failure", failure_code="x"),
        changed("runner_receipt", disposition="digest-mismatch", failure_code="x"),
    ),
    ("o3.evidence", changed("runner_receipt", quiescent=False), changed("runner_receipt", result_digest=None)),
    ("o3.receipt", member("runner_receipt"), changed("evaluation_receipt", runner_receipt_digest=named("x"))),
    (
        "o3.workspace",
        changed("candidate", workspace_digest=named("x")),
        changed("session", workspace_digest=named("x")),
    ),
    (
        "o3.base",
        changed("candidate", base_commit="sha1:" + "2" * 40),
        changed("session", base_commit="sha1:" + "2" * 40),
    ),
    (
        "o3.input-digest",
        lambda chain: replace(chain, base_manifest_digest=named("x")),
        changed("attempt", input_digest=None),
    ),
    (
        "o3.change-digest",
        lambda chain: replace(chain, recomputed=ChangeSet(changes=())),
        lambda chain: replace(chain, recomputed=None),
    ),
    (
        "o3.final-digest",
        lambda chain: replace(chain, final_digest=None),
        changed("runner_receipt", final_digest=named("x")),
    ),
    (
        "o4.disposition",
        changed("evaluation_receipt", disposition="composition-failure", failure_code="x"),
        changed("evaluation_receipt", disposition="invalid-output-terminated"),
    ),
    (
        "o4.evidence",
        changed("evaluation_receipt", cleanup_succeeded=None),
        changed("evaluation_receipt", failure_code="x"),
    ),
    (
        "o4.candidate-verified",
        changed("evaluation_receipt", candidate_verified=False),
        changed("evaluation_receipt", candidate_verified=False),
    ),
    ("o4.policy", member("evaluator_policy"), changed("evaluation_receipt", policy_digest=named("x"))),
    ("o5.policy", member("policy"), changed("session", admission_policy_digest=named("x"))),
]

ALSO = {
    "o3.disposition": {"o3.evidence"},
    "o4.disposition": {"o4.evidence"},
    "o4.candidate-verified": {"o4.evidence"},
}
"""Checks that look at the same member."""


@pytest.mark.parametrize(("name", "changes"), [(name, changes) for name, *several in FLIPS for changes in several])
def test_each_check_fails_on_its_own(name: str, changes: Callable[[Chain], Chain]) -> None:
    """One thing changed fails this check, says what differs, and makes the decision uncertifiable by its name."""
    assert failed(CHAIN) == set()
    chain = changes(CHAIN)
    found = failed(chain)
    assert name in found
    assert found <= {name} | ALSO.get(name, set())
    assert all(check.detail for check in check_lineage(chain, SCOPE) if not check.passed)
    request = compose_request(chain, SCOPE, requester="Ada")
    policy = chain.policy
    decision = decide(request, policy)
    assert decision.outcome == "uncertifiable"
    assert {reason.rule for reason in decision.reasons} == found
    assert decision.envelope == ()


@pytest.mark.parametrize(
    "change",
    [
        {"path": "other.py"},
        {"kind": "create"},
        {"source": "b.py"},
        {"before": None},
        {"after": None},
    ],
)
def test_a_scope_that_is_not_the_candidates_is_uncertifiable(change: dict[str, Any]) -> None:
    """Path, kind, source and both states of every operation are compared, and so is their number."""
    assert failed(CHAIN, ()) == {"o5.scope"}
    scope = (structs.replace(SCOPE[0], **change),)
    assert failed(CHAIN, scope) == {"o5.scope"}
    assert decide(compose_request(CHAIN, scope, requester=""), CHAIN.policy).reasons[0].rule == "o5.scope"


def test_the_request_names_the_whole_chain() -> None:
    """Every document by its digest, the recomputed scope, the promise, and no date: no rule can expire yet."""
    request = make_request(BEFORE, AFTER).document
    for name in ("session", "plan", "attempt", "evaluation", "candidate", "policy"):
        assert getattr(request, f"{name}_digest") == getattr(CHAIN, name).digest
    for name in ("synthesis_receipt", "runner_receipt", "evaluation_receipt"):
        assert getattr(request, f"{name}_digest") == getattr(CHAIN, name).digest
    assert CHAIN.recomputed is not None
    assert request.change_digest == digest_of(CHAIN.recomputed)
    assert (request.scope, request.as_of, request.requester) == (SCOPE, None, "Ada")
    assert request.promise is not None
    assert make_request(BEFORE, AFTER, promise=None).document.promise is None


def test_only_required_commands_count_as_checks() -> None:
    """A built-in check of the scope measures nothing that a person would call a test."""
    scope_check = structs.replace(command_check(), id="scope", evaluator="scope", argv=())
    optional = structs.replace(command_check(required=False), id="lint")
    for checks, count in (((), 0), ((scope_check,), 0), ((optional,), 0), ((command_check(), optional), 1)):
        assert make_request(BEFORE, AFTER, checks=checks).document.required_checks == count


def test_a_long_difference_is_cut() -> None:
    """A detail is for a person; it never makes a request too large to seal."""
    after = {**AFTER, **{b"%d" % n: f(b"%d\n" % n) for n in range(200)}}
    checks = list(check_lineage(make_chain(BEFORE, after), ()))
    assert max(len(check.detail) for check in checks) == 1_000


def test_the_receipt_binds_decision_request_and_synthesis_receipt() -> None:
    """It stands beside the frozen synthesis receipt and changes nothing of it."""
    request = make_request(BEFORE, AFTER)
    decision = seal(decide(request, CHAIN.policy))
    receipt = compose_receipt(request, decision).document
    assert (receipt.request_digest, receipt.decision_digest) == (request.digest, decision.digest)
    assert receipt.synthesis_receipt_digest == CHAIN.synthesis_receipt.digest
    assert (receipt.outcome, receipt.candidate_digest) == ("admitted", CHAIN.candidate.digest)
    assert receipt.lineage == request.document.lineage
