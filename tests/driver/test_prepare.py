"""Preparation: the rules of the base, the identities that the session binds, budgets that only tighten."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from admission.policy import policy_toml, starter_policy
from driver.config import DEFAULT_BUDGETS, DEFAULT_CALL
from driver.documents import Accounting, CallLimit, Price
from driver.prepare import Asked, command_checks, prepare, read_rules, tighten
from runner.snapshot import BaseSnapshot
from savant.contracts.document import seal
from savant.contracts.errors import RefusedInput, UsageError
from savant.identity.documents import Task, Workspace
from synthesis.documents import Budgets
from tests.driver.conftest import BaseOf
from tests.driver.sessionkit import PLAIN, PROVIDER_CONFIG, check

RULES = {
    b".savant/config.toml": b'domain = "example.org/x"\n[budgets]\nretries = 1\ncall_tokens_in = 7\n'
    b'[[check]]\nid = "own"\ncommand = "true"\n',
    b".savant/policy.toml": policy_toml(structs.replace(starter_policy(), no_required_check="refuse")).encode(),
    b".savant/records/a.toml": b'[[record]]\nid = "i"\nkind = "invariant"\ntext = "It holds."\n',
    b".savant/records/deep/b.toml": b"not a record",
    b".savant/records/c.txt": b"not a record",
}
ASKED = Asked(objective="Do it.")


def prepared(base: BaseSnapshot, asked: Asked = ASKED) -> Any:
    return prepare(asked, base, read_rules(base), provider_config=PROVIDER_CONFIG, object_format="sha1")


@pytest.fixture
def bare(base_of: BaseOf) -> BaseSnapshot:
    return base_of(PLAIN)


@pytest.fixture
def ruled(base_of: BaseOf) -> BaseSnapshot:
    return base_of({**PLAIN, **RULES})


def test_without_rules_the_built_in_ones_hold(bare: BaseSnapshot) -> None:
    """The starter policy, the default budgets, no domain: each output says so."""
    rules = read_rules(bare)
    assert (rules.config.origin, rules.admission.document.origin) == ("starter", "starter")
    session = prepared(bare).session.document
    assert session.repository_domain == "unbound"
    assert session.budgets == DEFAULT_BUDGETS


def test_the_rules_of_the_base_are_in_force(ruled: BaseSnapshot) -> None:
    """Domain, budgets, checks, policy and records come from the commit; other files in the folder are no records."""
    rules = read_rules(ruled)
    assert rules.admission.document.no_required_check == "refuse"
    assert [c.id for c in command_checks(rules.trusted_part.document)] == ["own"]
    inputs = prepared(ruled)
    assert inputs.session.document.repository_domain == "example.org/x"
    assert inputs.session.document.budgets.retries == 1
    assert [r.id for r in inputs.closure.document.records] == ["i"]


@pytest.mark.parametrize(
    ("path", "raw", "code"),
    [
        (b".savant/config.toml", b"domain", "refused.config"),
        (b".savant/policy.toml", b"allow = 3", "refused.policy"),
        (b".savant/records/a.toml", b"record = 3", "refused.record"),
    ],
)
def test_rules_that_cannot_be_read_are_refused(base_of: BaseOf, path: bytes, raw: bytes, code: str) -> None:
    """The message names the file; nothing falls back to the built-in rules."""
    with pytest.raises(RefusedInput) as caught:
        prepared(base_of({**PLAIN, path: raw}))
    assert caught.value.code == code
    assert path.decode() in caught.value.message


def test_the_session_binds_every_precommitted_document(ruled: BaseSnapshot) -> None:
    """Workspace, task, graph, closure, three policies and the provider's configuration, each by its digest."""
    inputs = prepared(ruled, Asked(objective=" Do it. ", scope=("src/**",), requester="Ada", checks=(check(["x"]),)))
    session = inputs.session.document
    workspace, task, graph, closure = inputs.identities
    assert (session.workspace_digest, session.task_digest) == (workspace.digest, task.digest)
    assert (session.graph_digest, session.closure_digest) == (graph.digest, closure.digest)
    assert session.evaluator_policy_digest == inputs.evaluator_policy.digest
    assert session.admission_policy_digest == inputs.admission_policy.digest
    assert session.driver_policy_digest == inputs.driver_policy.digest
    assert session.provider_config_digest == PROVIDER_CONFIG.digest
    assert session.base_manifest_digest == ruled.manifest.digest
    assert isinstance(task.document, Task)
    assert (task.document.objective, task.document.scope, task.document.requester) == ("Do it.", ("src/**",), "Ada")
    assert session.objective == "Do it."
    assert isinstance(workspace.document, Workspace)
    assert workspace.document.object_format == "sha1"
    assert {c.id for c in inputs.evaluator_policy.document.evaluators} == {
        "scope",
        "custody",
        "secrets",
        "own",
        "check",
    }


@pytest.mark.parametrize(
    "change",
    [
        {"objective": "Do that."},
        {"scope": ("src/**",)},
        {"checks": (check(["x"]),)},
        {"requester": "Ada"},
        {"retries": 0},
        {"deadline_ms": 1},
        {"ledger_mode": "record"},
    ],
)
def test_whatever_is_asked_for_is_in_the_session(bare: BaseSnapshot, change: dict[str, Any]) -> None:
    """Each flag changes the session's digest; the same flags give the same one."""
    asked = Asked(**{"objective": "Do it.", **change})
    assert prepared(bare, asked).session.digest == prepared(bare, asked).session.digest
    assert prepared(bare, asked).session.digest != prepared(bare).session.digest


def test_what_a_person_adds_is_not_part_of_what_is_trusted(ruled: BaseSnapshot) -> None:
    """The trusted digest is the project's own policy: flags neither need nor change it."""
    rules = read_rules(ruled)
    inputs = prepared(ruled, Asked(objective="x", checks=(check(["y"]),)))
    assert rules.trusted_part.digest == seal(rules.trusted_part.document).digest
    assert rules.trusted_part.digest != inputs.evaluator_policy.digest
    assert prepared(ruled).evaluator_policy.digest == rules.trusted_part.digest


@pytest.mark.parametrize("objective", ["", " \n", "x" * 20_001])
def test_a_task_needs_words(bare: BaseSnapshot, objective: str) -> None:
    """None or too many are a usage error."""
    with pytest.raises(UsageError) as caught:
        prepared(bare, Asked(objective=objective))
    assert caught.value.code == "usage.objective"


def test_a_check_that_could_never_run_is_refused(bare: BaseSnapshot) -> None:
    """A bad policy is refused before anything is called."""
    for bad in (check([]), check(["x"], id_="a:b"), check(["x"], timeout_ms=0)):
        with pytest.raises(RefusedInput) as caught:
            prepared(bare, Asked(objective="x", checks=(bad,)))
        assert caught.value.code == "refused.evaluator-policy"
    with pytest.raises(RefusedInput) as caught:
        prepared(bare, Asked(objective="x", scope=("../x",)))
    assert caught.value.code == "refused.bad-pattern"


COUNTS = st.integers(0, 5)
MAYBE = st.none() | COUNTS


GRANTED = st.builds(
    Budgets,
    retries=COUNTS,
    replans=COUNTS,
    provider_calls=MAYBE,
    wall_clock_ms=st.just(9),
    tokens=MAYBE,
    cost_microunits=MAYBE,
)
ASKED_FOR = st.builds(
    Asked,
    objective=st.just("x"),
    retries=MAYBE,
    replans=MAYBE,
    calls=MAYBE,
    tokens=MAYBE,
    cost_microunits=MAYBE,
)


@given(GRANTED, ASKED_FOR)
def test_budgets_only_tighten(granted: Budgets, asked: Asked) -> None:
    """No flag gives more than the project; a smaller one is heeded, and limits what was not; what has no flag stays."""
    made = tighten(granted, asked)
    for member, flag in (
        ("retries", "retries"),
        ("replans", "replans"),
        ("provider_calls", "calls"),
        ("tokens", "tokens"),
        ("cost_microunits", "cost_microunits"),
    ):
        limits = [value for value in (getattr(granted, member), getattr(asked, flag)) if value is not None]
        assert getattr(made, member) == (min(limits) if limits else None)
    assert made.wall_clock_ms == 9


def test_how_calls_are_counted_is_fixed_before_the_first_one(bare: BaseSnapshot, ruled: BaseSnapshot) -> None:
    """Model and price are the provider's and the person's, the worst case of a call is the project's."""
    price = Price(input_microunits=3, cached_microunits=1, output_microunits=9)

    def accounted(base: BaseSnapshot, **members: Any) -> Any:
        rules = read_rules(base)
        return prepare(ASKED, base, rules, provider_config=PROVIDER_CONFIG, object_format="sha1", **members)

    plain = accounted(bare)
    assert plain.accounting.document == Accounting(model="", call=DEFAULT_CALL, price=None)
    assert not plain.is_accounted
    priced = accounted(ruled, model="m", price=price)
    assert priced.accounting.document == Accounting(
        model="m", call=CallLimit(tokens_in=7, tokens_out=DEFAULT_CALL.tokens_out), price=price
    )
    assert priced.is_accounted
    assert accounted(ruled).is_accounted is False
