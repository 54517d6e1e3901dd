"""How much containment each kind of command needs, what is offered, and what a person waived. Pure.

The admission policy demands; the machine offers. Commands that the repository itself names need S2, or a person who
trusted them once. Below a demand a run does not start unless a person passes ``--allow-unsandboxed``, which is part of
the session; whatever then runs below it is a limitation of every verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, assert_never

import msgspec

from admission.documents import Sandboxes
from savant.contracts.containment import Demand, SandboxLevel, level_words
from synthesis.documents import Limitation

CommandKind = Literal["recipe", "import", "command", "agent"]
"""The kinds of provider that run commands."""

UNTRUSTED: Final[SandboxLevel] = "S2"
"""What commands need that the repository names and nobody trusted."""


class Demands(msgspec.Struct, frozen=True, kw_only=True):
    """The least containment of each command of a run.

    :param provider: of the provider's commands. :param kind: the kind that they are.
    :param checks: of evaluators and formatters, by name; nothing is demanded of others.
    :param untrusted: those of ``checks`` that are demanded only because nobody trusted them.
    """

    kind: CommandKind = "recipe"
    provider: Demand = Demand()
    checks: Mapping[str, Demand] = MappingProxyType({})
    untrusted: frozenset[str] = frozenset()


NO_DEMANDS: Final = Demands()


class Shortfall(msgspec.Struct, frozen=True):
    """Commands that would run with less than they need: who they are, in words, what they need and what there is."""

    what: str
    demanded: SandboxLevel
    offered: SandboxLevel

    @property
    def words(self) -> str:
        """A clause for a person."""
        return f"{self.what} at sandbox level {level_words(self.offered)}, where {level_words(self.demanded)} is needed"


def demands_of(
    sandbox: Sandboxes,
    kind: CommandKind,
    checks: Sequence[str],
    *,
    project: frozenset[str],
    is_trusted: bool,
    is_waived: bool,
) -> Demands:
    """The demands of a run.

    :param checks: the names of every evaluator and formatter that runs a command.
    :param project: those of them that the repository names.
    :param is_trusted: whether a person trusted these.
    """
    untrusted = frozenset() if is_trusted else project.intersection(checks)
    return Demands(
        kind=kind,
        provider=Demand(provider_demand(sandbox, kind), is_waived),
        checks=MappingProxyType(
            {
                name: Demand(max(sandbox.check, UNTRUSTED) if name in untrusted else sandbox.check, is_waived)
                for name in checks
            }
        ),
        untrusted=frozenset(untrusted if sandbox.check < UNTRUSTED else ()),
    )


def provider_demand(sandbox: Sandboxes, kind: CommandKind) -> SandboxLevel:
    """What a policy demands for the commands of a kind of provider."""
    match kind:
        case "recipe" | "import":
            return sandbox.recipe
        case "command":
            return sandbox.command
        case "agent":
            return sandbox.agent
        case _:
            assert_never(kind)


class Offered(msgspec.Struct, frozen=True):
    """The strongest level that the provider's commands can have here, and that of checks and formatters."""

    provider: SandboxLevel
    checks: SandboxLevel


def shortfalls(demands: Demands, offered: Offered) -> tuple[Shortfall, ...]:
    """What would run with less than the policy demands; commands that trust would help are left out."""
    return tuple(_shortfalls(demands, offered))


def lacks_trust(demands: Demands, offered: Offered) -> bool:
    """Whether commands of the repository need more than is offered only because nobody trusted them."""
    return any(demands.checks[name].level > offered.checks for name in demands.untrusted)


def waived(demands: Demands, offered: Offered) -> Limitation | None:
    """The limitation of a run in which something runs below its demand, because a person allowed it."""
    short = [*_shortfalls(demands, offered)]
    if lacks_trust(demands, offered):
        short.append(Shortfall("commands that the repository names and nobody trusted", UNTRUSTED, offered.checks))
    if not short:
        return None
    return Limitation(
        source="driver.sandbox",
        text=f"A person allowed it with --allow-unsandboxed: {'; '.join(one.words for one in short)}.",
        blocking=False,
    )


def _shortfalls(demands: Demands, offered: Offered) -> Iterator[Shortfall]:
    if demands.provider.level > offered.provider:
        yield Shortfall(f"the {demands.kind}", demands.provider.level, offered.provider)
    short: dict[str, SandboxLevel] = {
        name: demand.level
        for name, demand in sorted(demands.checks.items())
        if demand.level > offered.checks and name not in demands.untrusted
    }
    if short:
        yield Shortfall(f"checks and formatters ({', '.join(short)})", max(short.values()), offered.checks)
