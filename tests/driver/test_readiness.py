"""Readiness: what is missing is named with its fix, before any provider is called."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from admission.documents import Sandboxes
from admission.policy import SANDBOXES
from driver.config import DEFAULT_BUDGETS
from driver.demands import Demands, Offered, demands_of
from driver.documents import Accounting, CallLimit, Price
from driver.readiness import assess
from evaluator.documents import NormaliserConfig, PrepareConfig
from tests.driver.sessionkit import check

BARE = Offered("S0", "S0")
POLICY = "blake3:" + "1" * 64
STEP = PrepareConfig(
    id="x",
    argv=("npm", "ci"),
    directory=None,
    locks=("package-lock.json",),
    outputs=("node_modules",),
    network="open",
    timeout_ms=1,
)
FORMATTER = NormaliserConfig(id="fmt", argv=("fmt", "--fix"), patterns=("**",), timeout_ms=1)


def readiness(**changes: Any) -> Any:
    members: dict[str, Any] = {
        "budgets": DEFAULT_BUDGETS,
        "reports_usage": False,
        "project_checks": (),
        "policy_digest": POLICY,
        "demands": Demands(),
        "offered": BARE,
        "is_waived": False,
        "remedy": "",
        "missing_tools": {},
    }
    return assess(**{**members, **changes})


def demanding(sandbox: Sandboxes = SANDBOXES, *, project: set[str], is_trusted: bool = False) -> Demands:
    return demands_of(sandbox, "recipe", ["x", "y"], project=frozenset(project), is_trusted=is_trusted, is_waived=False)


def missing(made: Any) -> list[str]:
    assert made.ready is not any(not item.ready for item in made.items)
    for item in made.items:
        assert bool(item.fix) is bool(item.detail) is (not item.ready)
    return [item.code for item in made.items if not item.ready]


def test_a_run_that_needs_nothing_is_ready() -> None:
    """The positive control: no limits on usage, no commands of the repository, no missing tool."""
    assert missing(readiness()) == []


@pytest.mark.parametrize("member", ["tokens", "cost_microunits"])
def test_a_limit_that_nobody_measures_is_no_limit(member: str) -> None:
    """A token or money budget needs a provider that reports its usage."""
    budgets = structs.replace(DEFAULT_BUDGETS, **{member: 5})
    assert missing(readiness(budgets=budgets)) == ["driver.usage-unreported"]
    assert missing(readiness(budgets=budgets, reports_usage=True)) == []


@pytest.mark.parametrize(
    "named",
    [
        {"project_checks": (check(["make", "test"]),)},
        {"project_normalisers": (FORMATTER,)},
        {"project_prepares": (STEP,)},
    ],
)
def test_commands_of_the_repository_need_a_sandbox_or_trust(named: dict[str, Any]) -> None:
    """Checks, formatters and steps alike: the command is shown, the fix names what helps here and the digest."""
    given = {**named, "demands": demanding(project={"x"})}
    made = readiness(**given)
    assert missing(made) == ["driver.policy-untrusted"]
    (item,) = [item for item in made.items if not item.ready]
    assert any(words in item.detail for words in ("make test", "fmt --fix", "npm ci"))
    assert "at sandbox level none (S0), below reduced (S2)" in item.detail
    assert item.fix == f"Read them, then: savant trust {POLICY}"
    (item,) = [item for item in readiness(**given, remedy="Install it.").items if not item.ready]
    assert item.fix == f"Install it.  Or: read them, then: savant trust {POLICY}"
    assert missing(readiness(**named, demands=demanding(project={"x"}, is_trusted=True))) == []
    assert missing(readiness(**given, offered=Offered("S0", "S2"))) == []
    assert missing(readiness(**given, is_waived=True)) == []


def test_what_a_policy_demands_is_there_or_waived() -> None:
    """One item names everybody who would have less; trust changes nothing about it."""
    strict = demanding(Sandboxes(recipe="S1", command="S0", agent="S2", check="S3"), project={"x"}, is_trusted=True)
    made = readiness(demands=strict, offered=Offered("S0", "S2"), remedy="Install it.")
    assert missing(made) == ["driver.sandbox-level"]
    (item,) = [item for item in made.items if not item.ready]
    assert item.detail == (
        "There would run the recipe at sandbox level none (S0), where weak (S1) is needed; "
        "checks and formatters (x, y) at sandbox level reduced (S2), where full (S3) is needed."
    )
    assert item.fix.startswith("Install it.  Or: allow less for this run")
    assert item.fix.endswith("--allow-unsandboxed")
    assert missing(readiness(demands=strict, offered=Offered("S1", "S3"))) == []
    assert missing(readiness(demands=strict, is_waived=True)) == []


def test_each_missing_tool_is_named() -> None:
    """One item for each, after the others."""
    made = readiness(missing_tools={"a": "No tool a.", "b": "No tool b."})
    assert missing(made) == ["driver.tool-missing"] * 2
    assert [item.name for item in made.items if not item.ready] == ["tool:a", "tool:b"]


def test_a_missing_credential_is_named_with_what_supplies_it() -> None:
    """The item names the agent, says why each source supplies nothing, and repeats the commands that help."""
    made = readiness(missing_credentials={"claude": ("A_KEY: it is not set", "export A_KEY=...")})
    assert missing(made) == ["driver.credential-missing"]
    item = made.items[-1]
    assert item.name == "credential:claude"
    assert item.detail == "claude has no credential that can be used: A_KEY: it is not set."
    assert item.fix == "export A_KEY=..."


PRICE = Price(input_microunits=3_000_000, cached_microunits=0, output_microunits=15_000_000)
COUNTED = Accounting(model="large", call=CallLimit(tokens_in=1_000, tokens_out=100), price=PRICE)


def test_a_limit_has_to_hold_one_call() -> None:
    """A budget that the first call could exceed would make none: the least that is enough is named."""
    for member, least, words in (("tokens", 1_100, "1100 tokens"), ("cost_microunits", 4_500, "0.0045")):
        for granted, expected in ((least - 1, ["driver.budget-too-small"]), (least, [])):
            budgets = structs.replace(DEFAULT_BUDGETS, **{member: granted})
            made = readiness(budgets=budgets, reports_usage=True, accounting=COUNTED)
            assert missing(made) == expected
            assert all(words in item.fix for item in made.items if not item.ready)


def test_a_limit_of_money_needs_a_price() -> None:
    """Without one no call has a worst case; the fix names the model, or says what to name. Tokens need none."""
    budgets = structs.replace(DEFAULT_BUDGETS, cost_microunits=10**9)
    for model in ("large", ""):
        counted = structs.replace(COUNTED, model=model, price=None)
        made = readiness(budgets=budgets, reports_usage=True, accounting=counted)
        assert missing(made) == ["driver.price-missing"]
        (item,) = [item for item in made.items if not item.ready]
        assert f'[prices."{model or "PROVIDER"}"]' in item.fix
    assert missing(readiness(budgets=budgets, reports_usage=True, accounting=COUNTED)) == []
    tokens = structs.replace(DEFAULT_BUDGETS, tokens=10**9)
    unpriced = structs.replace(COUNTED, price=None)
    assert missing(readiness(budgets=tokens, reports_usage=True, accounting=unpriced)) == []


def test_what_cannot_be_measured_is_said_once() -> None:
    """A provider that reports nothing is told so, and not that its limit is too small as well."""
    budgets = structs.replace(DEFAULT_BUDGETS, tokens=1, cost_microunits=1)
    assert missing(readiness(budgets=budgets, accounting=COUNTED)) == ["driver.usage-unreported"]
