"""Containment at the command line: what is hidden, what is offered and demanded, and the words for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from savant.contracts.containment import level_words
from savant.process.view import Sight, hide

if TYPE_CHECKING:
    from driver.demands import Demands, Offered
    from driver.prepare import Rules
    from evaluator.documents import Policy as EvaluatorPolicy
    from savant.cli.provision import Provision
    from savant.cli.workbench import Workbench
    from savant.process.port import Offer, ProcessRunner
    from synthesis.documents import Limitation


class Containing(msgspec.Struct, frozen=True):
    """How a run is contained: what each command needs, what it can have, what a person waived, who has the network.

    :param prepares: the steps that prepare folders for checks, in words that say which has the network.
    """

    demands: Demands
    offered: Offered
    is_waived: bool
    offer: Offer
    open_for: tuple[str, ...]
    prepares: tuple[str, ...] = ()

    @property
    def limitations(self) -> tuple[Limitation, ...]:
        """What runs below its demand, because the person allowed it."""
        from driver.demands import waived

        limitation = waived(self.demands, self.offered) if self.is_waived else None
        return () if limitation is None else (limitation,)

    @property
    def remedy(self) -> str:
        """How more can be had on this machine; empty when there is nothing to have."""
        return self.offer.missing[0].fix if self.offer.missing else ""

    def lines(self) -> Iterator[str]:
        """What the first screen says."""
        yield f"sandbox {level_words(self.offer.level)}; {network_words(self.offer, self.open_for)}"
        yield from (f"prepares {step}" for step in self.prepares)
        for limitation in self.limitations:
            yield f"WARNING: {limitation.text}"


def contain(
    bench: Workbench,
    rules: Rules,
    judging: EvaluatorPolicy,
    provision: Provision,
    provider: ProcessRunner,
    *,
    allow: bool,
) -> Containing:
    """The containment of a run.

    :param provider: what the provider's commands run with.
    :param allow: whether the person lets commands run with less than they need.
    """
    from driver.demands import Offered, demands_of
    from evaluator.locks import step_words
    from savant.identity.pins import read_pins

    trusted = rules.trusted_part
    config = provision.config.sealed.document
    named, project = _commands(judging), _commands(trusted.document)
    demands = demands_of(
        rules.admission.document.sandbox,
        config.provider_kind,
        named,
        project=frozenset(project),
        is_trusted=trusted.digest in read_pins(bench.places.config).trusted_policies,
        is_waived=allow,
    )
    offer = bench.processes.offer()
    runs_something = bool(config.executables)
    offered = Offered(provider.level if runs_something else "S3", offer.level)
    networks = {"the provider": config.network, "checks": judging.network}
    open_for = tuple(who for who in networks if networks[who] == "open")
    return Containing(demands, offered, allow, offer, open_for, tuple(map(step_words, judging.prepares)))


def _commands(policy: EvaluatorPolicy) -> list[str]:
    """The names of everything in a policy that runs a command."""
    from driver.prepare import command_checks

    names = [check.id for check in command_checks(policy)] + [row.id for row in policy.normalisers]
    return names + [step.id for step in policy.prepares]


def offer_words(offer: Offer) -> str:
    """A level for a person, with what is active."""
    return f"{level_words(offer.level)}: {', '.join(offer.layers)}"


def network_words(offer: Offer, open_for: Sequence[str]) -> str:
    """Who can reach the network: ``the provider``, ``checks``; nothing below S2 keeps a command from it."""
    if offer.level < "S2":
        return "network: open"
    match open_for:
        case []:
            return "network: none"
        case [one]:
            other = "checks" if one == "the provider" else "the provider"
            return f"network: open for {one}, none for {other}"
        case _:
            return "network: open"


def sight_of(bench: Workbench) -> Sight:
    """What every command sees of this person's machine: not the home, the keys, the ledger, the repository.

    :raises RefusedInput: ``refused.person-config``.
    """
    from savant.cli.person import read_person

    places = bench.places
    hidden = hide(
        places.home,
        repositories=() if bench.checkout is None else (bench.checkout,),
        secret=(places.config, places.data, bench.repository.common_dir, bench.directory, *bench.also_secret),
    )
    return Sight(hidden, read_person(places).sandbox_read)
