"""What each command needs, what it can have, and what a person waived."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.documents import Sandboxes
from admission.policy import SANDBOXES
from driver.demands import CommandKind, Demands, Offered, demands_of, lacks_trust, shortfalls, waived
from savant.contracts.containment import Demand, SandboxLevel

LEVELS: tuple[SandboxLevel, ...] = ("S0", "S1", "S2", "S3")
KINDS: tuple[CommandKind, ...] = ("recipe", "import", "command", "agent")
STRICT = Sandboxes(recipe="S1", command="S2", agent="S3", check="S3")


def demands(sandbox: Sandboxes = SANDBOXES, kind: CommandKind = "recipe", **changes: object) -> Demands:
    members: dict[str, object] = {"project": frozenset({"tests"}), "is_trusted": False, "is_waived": False, **changes}
    return demands_of(sandbox, kind, ["lint", "tests"], **members)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "starter", "strict"),
    [("recipe", "S0", "S1"), ("import", "S0", "S1"), ("command", "S0", "S2"), ("agent", "S2", "S3")],
)
def test_each_kind_of_provider_has_its_demand(kind: CommandKind, starter: SandboxLevel, strict: SandboxLevel) -> None:
    """An import is contained as a recipe is."""
    assert demands(kind=kind).provider == Demand(starter)
    assert demands(STRICT, kind).provider == Demand(strict)


def test_what_the_repository_names_needs_more_until_somebody_trusts_it() -> None:
    """Trust lowers it to what the policy demands of every check, and never below."""
    assert demands().checks == {"lint": Demand("S0"), "tests": Demand("S2")}
    assert demands(is_trusted=True).checks == {"lint": Demand("S0"), "tests": Demand("S0")}
    assert demands(STRICT, is_trusted=True).checks == {"lint": Demand("S3"), "tests": Demand("S3")}
    assert (demands().untrusted, demands(STRICT).untrusted) == (frozenset({"tests"}), frozenset())
    assert demands(project=frozenset({"of another run"})).untrusted == frozenset()


def test_a_waiver_lowers_what_is_enforced_and_not_what_is_demanded() -> None:
    """So that what ran below it can still be told."""
    made = demands(STRICT, "agent", is_waived=True)
    assert (made.provider.level, made.provider.minimum) == ("S3", "S0")
    assert {demand.minimum for demand in made.checks.values()} == {"S0"}
    assert demands(STRICT, "agent").provider.minimum == "S3"


def test_what_was_waived_is_told() -> None:
    """Everybody who has less, in one limitation that blocks nothing; nobody, no limitation."""
    limitation = waived(demands(kind="agent", is_waived=True), Offered("S1", "S1"))
    assert limitation is not None
    assert (limitation.source, limitation.blocking) == ("driver.sandbox", False)
    assert limitation.text == (
        "A person allowed it with --allow-unsandboxed: the agent at sandbox level weak (S1), where reduced (S2) is "
        "needed; commands that the repository names and nobody trusted at sandbox level weak (S1), where reduced (S2) "
        "is needed."
    )
    assert waived(demands(kind="agent", is_waived=True), Offered("S2", "S2")) is None


@given(
    sandbox=st.builds(Sandboxes, **dict.fromkeys(Sandboxes.__struct_fields__, st.sampled_from(LEVELS))),
    kind=st.sampled_from(KINDS),
    provider=st.sampled_from(LEVELS),
    checks=st.sampled_from(LEVELS),
    is_trusted=st.booleans(),
)
def test_nothing_is_short_exactly_when_everybody_has_enough(
    sandbox: Sandboxes, kind: CommandKind, provider: SandboxLevel, checks: SandboxLevel, *, is_trusted: bool
) -> None:
    """Either something is short, or lacks trust, or every demand is met; at S3 nothing ever lacks."""
    made = demands(sandbox, kind, is_trusted=is_trusted)
    offered = Offered(provider, checks)
    enough = made.provider.level <= provider and all(demand.level <= checks for demand in made.checks.values())
    assert enough is not (bool(shortfalls(made, offered)) or lacks_trust(made, offered))
    assert (waived(made, offered) is None) is enough
    assert waived(made, Offered("S3", "S3")) is None
