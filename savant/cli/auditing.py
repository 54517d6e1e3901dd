"""Auditors at the command line: who looks at a candidate that every check lets pass, and who examines what they say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from driver.audit import AuditPort
from driver.built_ins import PLAIN
from driver.demands import provider_demand
from evaluator.documents import AuditConfig
from savant.contracts.containment import Demand
from savant.contracts.errors import UsageError

if TYPE_CHECKING:
    from admission.documents import Sandboxes
    from evaluator.documents import EvaluatorConfig
    from savant.cli.provision import Provision
    from savant.cli.workbench import Workbench
    from savant.contracts.document import Document, Sealed

MAX_DIFF_BYTES: Final = 512 * 1024
ROLES: Final[Mapping[str, str]] = MappingProxyType({"audit": "reviewer", "adversary": "adversary"})
"""The word of the flags and the role of whoever they name."""


class Auditing(msgspec.Struct, frozen=True):
    """Who audits, by role; nobody where it was not asked for."""

    provisions: Mapping[str, Provision] = MappingProxyType({})
    checks: tuple[EvaluatorConfig, ...] = ()
    demands: Mapping[str, Demand] = MappingProxyType({})

    @property
    def configs(self) -> tuple[Sealed[Document], ...]:
        """What the auditors are, to be recorded."""
        return tuple(provision.config.sealed for provision in self.provisions.values())

    @property
    def ports(self) -> Mapping[str, AuditPort]:
        """Who is asked, by role."""
        return {role: AuditPort(made.factory, self.demands[role]) for role, made in self.provisions.items()}

    @property
    def missing_credentials(self) -> Mapping[str, tuple[str, str]]:
        """What an auditor lacks, and what supplies it."""
        return {name: why for made in self.provisions.values() for name, why in made.missing_credentials.items()}

    @property
    def reports_usage(self) -> bool:
        """Whether every auditor tells what its calls used."""
        return all(made.factory().describe().reports_usage for made in self.provisions.values())

    def lines(self) -> Iterator[str]:
        """What the first screen says."""
        for role, made in self.provisions.items():
            network = made.config.sealed.document.network
            yield f"{role} {made.words}; network: {network}"
            yield from made.warnings


def audit_by(bench: Workbench, sandbox: Sandboxes, flags: Mapping[str, Any]) -> Auditing:
    """The auditors that the flags name, found and locked.

    :param sandbox: what the admission policy demands of commands, by the kind of who runs them.
    :raises UsageError: ``usage.audit`` for two auditors of one role, an adversary without an auditor, or a flag of an
        audit where there is none; ``usage.audit-cassette``. Errors as a provider's.
    """
    named = {word: (flags[f"{word}_agent"], flags[f"{word}_provider"]) for word in ROLES}
    if not any(named["audit"]):
        if any(named["adversary"]) or flags["audit_optional"] or flags["audit_network"] or flags["audit_env"]:
            raise _usage("The flags of an audit need an auditor.")
        return Auditing()
    if any(all(pair) for pair in named.values()):
        raise _usage("An agent and a command were named for one part of the audit.")
    if flags["cassette"] or flags["record_cassette"]:
        raise UsageError(
            "usage.audit-cassette",
            "A cassette holds the calls of one provider; those of auditors are not among them.",
            untouched="Nothing was called.",
            fix="Leave the audit or the cassette out.",
        )
    provisions: dict[str, Provision] = {}
    demands: dict[str, Demand] = {}
    for word, (agent, command) in named.items():
        if agent is None and command is None:
            continue
        demand = Demand(provider_demand(sandbox, "command" if agent is None else "agent"), flags["allow_unsandboxed"])
        demands[ROLES[word]] = demand
        provisions[ROLES[word]] = _provision(bench, agent, command, flags, demand)
    return Auditing(provisions, (_check(provisions, flags),), demands)


def _provision(
    bench: Workbench, agent: str | None, command: str | None, flags: Mapping[str, Any], demand: Demand
) -> Provision:
    from commandprovider import CommandProvider, ToolHost, command_config
    from commandprovider.secrets import NO_SECRETS
    from driver.config import split_command
    from savant.cli.agents import AgentFlags, provide_agent
    from savant.cli.provision import Provision
    from savant.cli.supplying import guarded, with_secrets

    host = ToolHost(
        processes=bench.processes,
        scratch=bench.scratch / "audit",
        ambient=bench.places.environment,
        search_path=bench.places.search_path,
        sight=bench.sight,
        demanded=demand,
    )
    if agent is not None:
        named = AgentFlags(name=agent, model=flags["audit_model"], environment=flags["audit_env"])
        return provide_agent(bench, named, (), host)
    config = command_config(
        split_command(command or ""),
        search_path=bench.places.search_path,
        name="auditor",
        operations=("evaluation-observation",),
        directory="empty",
        environment=flags["audit_env"],
        promise=(),
        network=flags["audit_network"],
    )
    host = with_secrets(host, NO_SECRETS, flags["audit_env"])
    factory = guarded(lambda: CommandProvider(config, host), host)
    return Provision(config, factory, None, f"command: {command}", redactor=host.redactor)


def _check(provisions: Mapping[str, Provision], flags: Mapping[str, Any]) -> EvaluatorConfig:
    adversary = provisions.get("adversary")
    return replace(
        PLAIN,
        id="audit",
        evaluator="model-audit",
        required=not flags["audit_optional"],
        timeout_ms=flags["deadline"] * 1000,
        failure_class="audit-finding",
        audit=AuditConfig(
            reviewer_digest=provisions["reviewer"].config.sealed.digest,
            adversary_digest=None if adversary is None else adversary.config.sealed.digest,
            max_diff_bytes=MAX_DIFF_BYTES,
        ),
    )


def _usage(why: str) -> UsageError:
    return UsageError(
        "usage.audit",
        why,
        untouched="Nothing was called.",
        fix="--audit-agent NAME or --audit-provider CMD, and --adversary-agent or --adversary-provider if wanted.",
    )
