"""The decision: five outcomes in their order, total, deterministic; acknowledgements only ever complete it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from admission.codes import REASONS
from admission.compose import compose_request
from admission.decide import VerifiedAcknowledgement, decide
from admission.documents import CompanionRule, Decision, LineageCheck, PathRule, Policy, Request
from admission.facts import operation_of
from admission.policy import starter_policy
from runner.promise import is_promised
from savant.contracts.document import Sealed, digest_of, seal
from savant.contracts.scalars import as_set
from savant.files.paths import to_raw
from savant.files.patterns import PatternSet
from synthesis.documents import IntendedChange, Limitation
from tests.admission.kit import (
    ANYTHING,
    KINDS,
    Tree,
    acknowledge,
    conditions,
    f,
    judge,
    link,
    make_chain,
    make_request,
    named,
    refusals,
    scope_of,
    with_limits,
    x,
)

BASE: Tree = {b"app.py": f(b"a\n"), b"tests/test_app.py": f(b"t\n"), b"run.sh": f(b"r\n")}
FIX: Tree = {**BASE, b"app.py": f(b"b\n")}
ASKS: Tree = {**FIX, b"tests/test_app.py": f(b"u\n"), b"go": x(b"g\n")}
REFUSED: Tree = {**ASKS, b".savant/x": f(b"x\n")}
STARTER = seal(starter_policy())


def break_chain(request: Sealed[Request]) -> Sealed[Request]:
    lineage = (*request.document.lineage, LineageCheck(name="o9.odd", passed=False, detail="a is not b"))
    return seal(structs.replace(request.document, lineage=lineage))


def all_of(bare: Decision, **options: Any) -> list[VerifiedAcknowledgement]:
    return [acknowledge(bare, condition.id, **options) for condition in bare.conditions]


def test_the_first_outcome_that_holds_wins() -> None:
    """A broken chain comes before a refusal, a refusal before a question, a question before an admission."""
    admitted, waiting, refused = (make_request(BASE, tree) for tree in (FIX, ASKS, REFUSED))
    assert decide(admitted, STARTER).outcome == "admitted"
    assert decide(waiting, STARTER).outcome == "waiting"
    assert decide(waiting, STARTER, all_of(decide(waiting, STARTER))).outcome == "admitted-with-conditions"
    assert decide(refused, STARTER).outcome == "refused"
    for request in (admitted, waiting, refused):
        decision = decide(break_chain(request), STARTER)
        assert (decision.outcome, refusals(decision)) == ("uncertifiable", [("admission.lineage", None)])
        assert decision.reasons[0].rule == "o9.odd"


def test_exactly_the_outcomes_that_may_go_on_have_an_envelope() -> None:
    """It holds the scope's paths with their kinds; a refused or uncertifiable candidate has none."""
    expected = [("app.py", "modify"), ("go", "create"), ("tests/test_app.py", "modify")]
    waiting = make_request(BASE, ASKS)
    bare = decide(waiting, STARTER)
    for decision in (bare, decide(waiting, STARTER, all_of(bare))):
        assert [(entry.path, entry.kind) for entry in decision.envelope] == expected
    assert decide(make_request(BASE, REFUSED), STARTER).envelope == ()
    assert decide(break_chain(waiting), STARTER).envelope == ()


def test_a_decision_names_what_it_is_about_and_claims_no_more() -> None:
    """Request, policy and candidate by digest; scope only, no correctness."""
    request = make_request(BASE, FIX)
    decision = decide(request, STARTER)
    assert (decision.request_digest, decision.policy_digest) == (request.digest, STARTER.digest)
    assert decision.candidate_digest == request.document.candidate_digest
    assert (decision.scope_only, decision.correctness_certified) == (True, False)
    assert decision.unacknowledged_digest is None


def test_another_policy_than_the_requests_is_uncertifiable() -> None:
    """The session's policy decides, not one that is handed in later."""
    request = make_request(BASE, FIX)
    other = seal(starter_policy("repository"))
    assert decide(request, STARTER).outcome == "admitted"
    decision = decide(request, other)
    assert (decision.outcome, decision.reasons[0].rule) == ("uncertifiable", "o5.policy")


def test_exact_acknowledgements_admit_and_are_named() -> None:
    """Each condition is met by one statement; the decision says who, with which key, and which decision was signed."""
    request = make_request(BASE, ASKS)
    bare = decide(request, STARTER)
    assert conditions(bare) == {"existing-tests", "new-executables"}
    assert {reason.rule for reason in bare.reasons} == conditions(bare)
    decision = decide(request, STARTER, all_of(bare))
    assert decision.outcome == "admitted-with-conditions"
    assert decision.unacknowledged_digest == digest_of(bare)
    assert {item.condition: item.by for item in decision.acknowledged} == dict.fromkeys(conditions(bare), "Grace")
    assert decision.conditions == bare.conditions


def test_one_condition_left_open_keeps_it_waiting() -> None:
    """The reason names the open one only."""
    request = make_request(BASE, ASKS)
    bare = decide(request, STARTER)
    decision = decide(request, STARTER, [acknowledge(bare, "existing-tests")])
    assert (decision.outcome, [reason.rule for reason in decision.reasons]) == ("waiting", ["new-executables"])
    assert [item.condition for item in decision.acknowledged] == ["existing-tests"]


@pytest.mark.parametrize(
    ("code", "condition", "change"),
    [
        ("admission.acknowledgement.stale", "existing-tests", {"decision_digest": named("another decision")}),
        ("admission.acknowledgement.stale", "existing-tests", {"candidate_digest": named("another candidate")}),
        ("admission.acknowledgement.unknown", "ci", {}),
    ],
)
def test_an_acknowledgement_that_does_not_fit_refuses(code: str, condition: str, change: dict[str, str]) -> None:
    """It is neither ignored nor counted, whatever the others say."""
    request = make_request(BASE, ASKS)
    bare = decide(request, STARTER)
    good = all_of(bare)
    assert decide(request, STARTER, good).outcome == "admitted-with-conditions"
    bad = acknowledge(bare, condition, **change)
    others = [item for item in good if item.statement.condition != condition]
    decision = decide(request, STARTER, [*others, bad])
    assert (decision.outcome, refusals(decision)) == ("refused", [(code, None)])
    assert bad.digest not in {item.acknowledgement_digest for item in decision.acknowledged}
    assert decision.envelope == ()


def test_a_condition_acknowledged_twice_is_refused() -> None:
    """Two statements about one condition are not the exact set."""
    request = make_request(BASE, ASKS)
    bare = decide(request, STARTER)
    again = acknowledge(bare, "existing-tests", by="Edsger")
    decision = decide(request, STARTER, [*all_of(bare), again])
    assert (decision.outcome, refusals(decision)) == ("refused", [("admission.acknowledgement.repeated", None)])


def test_acknowledging_what_is_admitted_anyway_is_refused() -> None:
    """Without conditions every acknowledgement is unknown."""
    request = make_request(BASE, FIX)
    bare = decide(request, STARTER)
    assert bare.outcome == "admitted"
    assert decide(request, STARTER, [acknowledge(bare, "ci")]).outcome == "refused"


def test_who_asked_may_acknowledge_only_where_the_policy_allows_it() -> None:
    """Allowed, it is marked; refused, it is refused, and so is anybody when nobody knows who asked."""
    strict = structs.replace(starter_policy(), self_acknowledgement="refuse")
    for policy, requester, by, outcome, is_requester in (
        (starter_policy(), "Ada", "Ada", "admitted-with-conditions", {True}),
        (starter_policy(), "Ada", "Grace", "admitted-with-conditions", {False}),
        (strict, "Ada", "Grace", "admitted-with-conditions", {False}),
        (strict, "Ada", "Ada", "refused", set()),
        (strict, "", "Grace", "refused", set()),
        (starter_policy(), "", "Grace", "admitted-with-conditions", {False}),
    ):
        rules = seal(policy)
        request = make_request(BASE, ASKS, policy=policy, requester=requester)
        bare = decide(request, rules)
        decision = decide(request, rules, all_of(bare, by=by, requester=requester))
        assert decision.outcome == outcome, (requester, by)
        assert {item.is_requester for item in decision.acknowledged} == is_requester
        if outcome == "refused":
            assert {reason.code for reason in decision.reasons} == {"admission.acknowledgement.self"}


def test_what_was_not_known_is_a_limitation() -> None:
    """The built-in policy, a missing promise and an unknown requester are named; nothing else is."""
    own = starter_policy("repository")
    assert judge(BASE, FIX, policy=own).limitations == ()
    decision = judge(BASE, FIX, promise=None, requester="")
    assert [item.source for item in decision.limitations] == [
        "admission.policy",
        "admission.promise",
        "admission.requester",
    ]


def test_a_decision_repeats_what_the_attempt_and_its_evaluation_did_not_see() -> None:
    """Each limitation once, in that order; it changes no outcome."""
    chain = make_chain(BASE, FIX, policy=starter_policy("repository"))
    bare, weak = (Limitation(source=name, text=f"The {name}.", blocking=False) for name in ("bare", "weak"))
    runner = seal(structs.replace(chain.runner_receipt.document, limitations=(weak, bare)))
    evaluation = seal(structs.replace(chain.evaluation.document, limitations=(bare,)))
    request = compose_request(
        structs.replace(chain, runner_receipt=runner, evaluation=evaluation), scope_of(BASE, FIX), requester="Ada"
    )
    assert request.document.limitations == (weak, bare)
    decision = decide(request, chain.policy)
    assert decision.limitations == (weak, bare)
    assert decide(compose_request(chain, scope_of(BASE, FIX), requester="Ada"), chain.policy).limitations == ()


def test_what_cannot_be_read_as_a_rule_is_uncertifiable() -> None:
    """Paths, patterns and ids that no document of ours holds give a decision, not an exception."""
    rule = PathRule(id="own", patterns=("src/**",), operations=(), reason="r", enforcement="enforce")
    companion = CompanionRule(id="pair", when=("a",), need=("b",), reason="r", enforcement="enforce")
    policy = structs.replace(starter_policy(), refuse=(), ask=(rule,), companions=(companion,))
    assert judge(BASE, FIX, policy=policy).outcome == "admitted"
    wrong: list[Policy] = [
        structs.replace(policy, allow=("a//b",)),
        structs.replace(policy, ask=(structs.replace(rule, patterns=("!x",)),)),
        structs.replace(policy, refuse=(structs.replace(rule, patterns=("[",)),), ask=()),
        structs.replace(policy, companions=(structs.replace(companion, need=("..",)),)),
        structs.replace(policy, refuse=(rule,)),
        structs.replace(policy, ask=(structs.replace(rule, id="new-links"),)),
        structs.replace(policy, companions=(structs.replace(companion, id="own"),)),
    ]
    for other in wrong:
        decision = judge(BASE, FIX, policy=other)
        assert (decision.outcome, refusals(decision)) == ("uncertifiable", [("admission.unreadable", None)])
    request = make_request(BASE, FIX).document
    for change in (
        {"scope": (structs.replace(request.scope[0], path="a%zz"),)},
        {"scope": (structs.replace(request.scope[0], source="%41"),)},
        {"promise": (IntendedChange(pattern="", operations=()),)},
    ):
        broken = Sealed(structs.replace(request, **change), b"", named("request"))
        assert decide(broken, STARTER).outcome == "uncertifiable"


PATHS = (b"app.py", b"tests/test_app.py", b"run.sh", b".savant/x", b"new.py", b"go", b"latest", b"uv.lock", b"a\xff%")
CONTENTS = (f(b"a\n"), f(b"b\nc\n"), x(b"a\n"), link(b"app.py"))
TREES = st.dictionaries(st.sampled_from(PATHS), st.sampled_from(CONTENTS))
CHOICES = st.sampled_from(("allow", "ask", "refuse"))
PROMISES = st.one_of(
    st.none(),
    st.just(ANYTHING),
    st.lists(
        st.builds(
            IntendedChange,
            pattern=st.sampled_from(("**", "*.py", "tests/", "go")),
            operations=st.sets(st.sampled_from(KINDS), min_size=1).map(as_set),
        ),
        max_size=3,
    ).map(tuple),
)
POLICIES = st.builds(
    lambda allow, choices, ask, refuse, own: structs.replace(
        with_limits(starter_policy(own), files_ask=ask, files_refuse=ask + refuse),
        allow=allow,
        no_required_check=choices[0],
        new_links=choices[1],
        new_executables=choices[2],
        self_acknowledgement="refuse" if choices[3] == "refuse" else "allow",
    ),
    st.sampled_from((("**",), ("*.py",), ("tests/",))),
    st.tuples(CHOICES, CHOICES, CHOICES, CHOICES),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(("starter", "repository")),
)


@given(before=TREES, after=TREES, policy=POLICIES, promise=PROMISES, data=st.data())
def test_a_decision_is_total_and_keeps_its_order(
    before: Tree, after: Tree, policy: Policy, promise: tuple[IntendedChange, ...] | None, data: st.DataObject
) -> None:
    """For any change, policy, promise and acknowledgements:

    the same inputs give the same bytes; an envelope is exactly the scope and lies inside promise and policy; every
    exact set of acknowledgements admits what waits; no acknowledgement ever admits what was refused.
    """
    request = make_request(before, after, policy=policy, promise=promise)
    rules = seal(policy)
    bare = decide(request, rules)
    assert seal(bare).digest == digest_of(decide(request, rules))
    assert {reason.code for reason in bare.reasons} <= set(REASONS)
    scope = request.document.scope
    if bare.outcome in ("admitted", "waiting"):
        assert [(e.path, e.kind) for e in bare.envelope] == [(e.path, e.kind) for e in scope]
        allowed = PatternSet.parse(policy.allow)
        sources = frozenset(e.source for e in scope if e.kind == "rename" and e.source is not None)
        assert scope
        assert all(allowed.matches(to_raw(entry.path)) for entry in scope)
        assert promise is None or all(is_promised(operation_of(entry), promise, sources) for entry in scope)
    else:
        assert (bare.outcome, bare.envelope) == ("refused", ())
    exact = decide(request, rules, all_of(bare))
    if bare.outcome == "waiting":
        strict = policy.self_acknowledgement == "refuse"
        assert exact.outcome == "admitted-with-conditions"
        assert decide(request, rules, all_of(bare, by="Ada")).outcome == ("refused" if strict else exact.outcome)
    names = data.draw(st.lists(st.sampled_from(["ci", *(c.id for c in bare.conditions)]), max_size=4))
    some = decide(request, rules, [acknowledge(bare, name) for name in names])
    assert seal(some).document == some
    if bare.outcome == "refused":
        assert exact.outcome == some.outcome == "refused"
    if sorted(names) != sorted(conditions(bare)):
        assert some.outcome not in ("admitted-with-conditions", "admitted") or not names
