"""The step of a replay about containment: what commands had, as recorded, is what the policy demanded of them.

Who trusted commands of the repository is not part of a run, so nothing is decided about that here.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from admission.documents import Policy as AdmissionPolicy
from admission.documents import Sandboxes
from commandprovider.documents import Config
from driver.demands import provider_demand
from driver.documents import Policy as DriverPolicy
from driver.history import HistoryEntry
from driver.replay_evidence import Evidence, differs, not_shown
from evaluator.documents import Result as EvaluatorResult
from providerport.documents import Capabilities
from providerport.documents import Receipt as CallReceipt
from runner.documents import Receipt as RunnerReceipt
from runner.shortfall import says_shortfall
from savant.contracts.containment import Containment, SandboxLevel, level_words, weakest


class _Seen(msgspec.Struct, frozen=True):
    """One record with commands behind it: what they had, what they needed, and whether it says that this was less."""

    entry: HistoryEntry
    containment: Containment | None
    demanded: SandboxLevel
    says_so: bool


def containment_holds(evidence: Evidence) -> str:
    """Every receipt tells what contained its commands; less than was demanded was waived by the person, and is told."""
    session = evidence.session.document
    is_waived = evidence.one(DriverPolicy, session.driver_policy_digest).document.allow_unsandboxed
    seen = list(_seen(evidence))
    for one in seen:
        if one.containment is None:
            raise not_shown(f"record {one.entry.seq} does not tell what contained its commands")
        if one.containment.level >= one.demanded:
            continue
        had = f"record {one.entry.seq}: its commands had {level_words(one.containment.level)}"
        if not is_waived:
            raise differs("containment", f"{had}, {level_words(one.demanded)} was demanded, and nobody waived it")
        if not one.says_so:
            raise differs("containment", f"{had}, {level_words(one.demanded)} was demanded, and it does not say so")
    least = weakest(one.containment for one in seen)
    return "no command ran" if least is None else f"{len(seen)} records, at least {level_words(least.level)}"


def _seen(evidence: Evidence) -> Iterator[_Seen]:
    session = evidence.session.document
    sandbox = evidence.one(AdmissionPolicy, session.admission_policy_digest).document.sandbox
    configs = {config.digest: config.document for config in evidence.history.all(Config)}
    claims = {claim.digest: claim.document.identity_digest for claim in evidence.history.all(Capabilities)}
    config = configs.get(session.provider_config_digest)
    provider = _demand_of(sandbox, config)
    runs_something = config is not None and bool(config.executables)
    for entry in evidence.history.entries:
        document, containment = entry.body.document, entry.observed.containment
        match document:
            case CallReceipt():
                is_work = (document.operation, document.outcome) == ("generation", "completed")
                if containment is not None or (is_work and runs_something):
                    is_audit = document.operation == "evaluation-observation"
                    auditor = configs.get(claims.get(document.capabilities_digest, ""))
                    demand = _demand_of(sandbox, auditor) if is_audit else provider
                    yield _Seen(entry, containment, demand, says_so=True)
            case EvaluatorResult() if containment is not None:
                yield _Seen(entry, containment, sandbox.check, says_so=says_shortfall(document.limitations))
            case RunnerReceipt() if containment is not None:
                demanded: SandboxLevel = min(provider, sandbox.check)
                yield _Seen(entry, containment, demanded, says_so=says_shortfall(document.limitations))
            case _:
                pass


def _demand_of(sandbox: Sandboxes, config: Config | None) -> SandboxLevel:
    """What a policy demands for the commands of a configuration; nothing where there is none."""
    return "S0" if config is None else provider_demand(sandbox, config.provider_kind)
