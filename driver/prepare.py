"""From what a person asked and what the base says to a session: identities, policies, budgets. Reads through ports.

The rules come from the base revision; what a person adds on the command line only tightens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from admission.documents import Policy as AdmissionPolicy
from admission.policy import POLICY_PATH, read_policy, starter_policy
from driver.config import CONFIG_PATH, ProjectConfig, driver_policy, evaluator_policy, read_config
from driver.documents import Accounting, Price
from driver.documents import Policy as DriverPolicy
from driver.governed import obligations_of
from driver.inputs import RunInputs
from evaluator.documents import COMMAND_KINDS, EvaluatorConfig
from evaluator.documents import Policy as EvaluatorPolicy
from evaluator.policy import verify_policy
from runner.snapshot import BaseSnapshot
from savant.contracts.document import Document, Sealed, seal
from savant.files.paths import to_raw
from savant.identity.closure import closure_identity, is_record_path
from savant.identity.graph import graph_identity
from savant.identity.ledgers import LEDGERS_PATH, AcceptedLedger, read_ledgers
from savant.identity.owners import OWNERS_PATHS, Owners, read_owners
from savant.identity.people import PEOPLE_PATH, People, read_people
from savant.identity.task import task_identity
from savant.identity.workspace import workspace_identity
from synthesis.documents import Budgets, Session

DEFAULT_DEADLINE_MS: Final = 10 * 60 * 1000


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the person asked for on the command line."""

    objective: str
    scope: tuple[str, ...] = ()
    checks: tuple[EvaluatorConfig, ...] = ()
    requester: str = ""
    retries: int | None = None
    replans: int | None = None
    calls: int | None = None
    tokens: int | None = None
    cost_microunits: int | None = None
    deadline_ms: int = DEFAULT_DEADLINE_MS
    ledger_mode: Literal["off", "record", "enforce"] = "enforce"
    allow_unsandboxed: bool = False
    check_network: bool = False
    as_of: str | None = None
    """The day on which what can expire is judged; None where nothing can."""


class Rules(msgspec.Struct, frozen=True):
    """The rules in force at a base: the project's configuration and admission policy, or the built-in ones."""

    config: ProjectConfig
    admission: Sealed[AdmissionPolicy]
    trusted_part: Sealed[EvaluatorPolicy]
    """The evaluator policy that the project alone would give: what a person trusts by digest."""
    people: People | None
    """Who may acknowledge; None where nobody is listed."""
    owners: Owners | None = None
    """Who owns paths; None where the base does not say, or the policy does not ask."""


def read_rules(snapshot: BaseSnapshot) -> Rules:
    """The rules as committed at the base.

    :raises RefusedInput: ``refused.config``, ``refused.policy``, ``refused.people``, ``refused.codeowners``,
        ``refused.bad-pattern`` naming file, key and fix.
    """
    config = ProjectConfig()
    if snapshot.mode(CONFIG_PATH) is not None:
        config = read_config(snapshot.read(CONFIG_PATH))
    policy = policy_at(snapshot)
    judging: Sealed[EvaluatorPolicy] = seal(evaluator_policy(config, ()))
    return Rules(config, seal(policy), judging, people_at(snapshot), owners_at(snapshot, policy))


def policy_at(snapshot: BaseSnapshot) -> AdmissionPolicy:
    """The admission policy as committed at the base, on the floor that it extends; the starter where there is none.

    :raises RefusedInput: ``refused.policy``.
    """
    if snapshot.mode(POLICY_PATH) is None:
        return starter_policy()
    return read_policy(snapshot.read(POLICY_PATH), lambda path: file_at(snapshot, path))


def file_at(snapshot: BaseSnapshot, path: str) -> bytes | None:
    """The bytes of a regular file at the base, by its path in text; None where there is none."""
    raw = to_raw(path)
    return snapshot.read(raw) if snapshot.mode(raw) in ("regular", "executable") else None


def owners_at(snapshot: BaseSnapshot, policy: AdmissionPolicy) -> Owners | None:
    """Who owns paths, as committed at the base; None where it does not say, or the policy does not ask.

    :raises RefusedInput: ``refused.codeowners``.
    """
    if policy.codeowners == "ignore":
        return None
    path = next((path for path in OWNERS_PATHS if snapshot.mode(path) is not None), None)
    return None if path is None else read_owners(snapshot.read(path), path)


def ledgers_at(snapshot: BaseSnapshot) -> tuple[AcceptedLedger, ...]:
    """Whose evidence counts, as committed there; nobody's where it does not say.

    :raises RefusedInput: ``refused.ledgers``.
    """
    return () if snapshot.mode(LEDGERS_PATH) is None else read_ledgers(snapshot.read(LEDGERS_PATH))


def people_at(snapshot: BaseSnapshot) -> People | None:
    """Who may acknowledge, as committed at the base; None where nobody is listed.

    :raises RefusedInput: ``refused.people``.
    """
    return None if snapshot.mode(PEOPLE_PATH) is None else read_people(snapshot.read(PEOPLE_PATH))


def prepare(
    asked: Asked,
    snapshot: BaseSnapshot,
    rules: Rules,
    *,
    provider_config: Sealed[Document],
    object_format: str,
    model: str = "",
    price: Price | None = None,
) -> RunInputs:
    """The precommitted half of a run.

    :param model: what the provider says its model is; empty for none.
    :param price: what that model costs; None where the person configured no price.

    :raises UsageError: ``usage.objective``, ``usage.requester``.
    :raises RefusedInput: ``refused.record``, ``refused.evaluator-policy``, ``refused.bad-pattern``.
    """
    base = snapshot.document.document
    workspace = workspace_identity(
        domain=rules.config.domain,
        object_format="sha256" if object_format == "sha256" else "sha1",
        base_commit=base.base_commit,
        base_tree=base.base_tree,
        base_manifest_digest=base.base_manifest_digest,
    )
    task = task_identity(asked.objective, scope=asked.scope, requester=asked.requester)
    graph = graph_identity(base.base_commit)
    records = [path for path in snapshot.paths() if is_record_path(path)]
    closure = closure_identity(task, [(path, snapshot.read(path)) for path in records])
    judged = evaluator_policy(rules.config, asked.checks, network=asked.check_network, as_of=asked.as_of)
    verify_policy(judged)
    judging: Sealed[EvaluatorPolicy] = seal(judged)
    driving: Sealed[DriverPolicy] = seal(
        driver_policy(
            ledger_mode=asked.ledger_mode, call_deadline_ms=asked.deadline_ms, allow_unsandboxed=asked.allow_unsandboxed
        )
    )
    session = seal(
        Session(
            repository_domain=rules.config.domain,
            workspace_digest=workspace.digest,
            task_digest=task.digest,
            graph_digest=graph.digest,
            closure_digest=closure.digest,
            base_commit=base.base_commit,
            base_manifest_digest=base.base_manifest_digest,
            evaluator_policy_digest=judging.digest,
            admission_policy_digest=rules.admission.digest,
            driver_policy_digest=driving.digest,
            provider_config_digest=provider_config.digest,
            objective=task.document.objective,
            budgets=tighten(rules.config.budgets, asked),
            retryable_outcomes=driving.document.retryable_outcomes,
            proof_obligations=obligations_of(closure.document),
        )
    )
    return RunInputs(
        session=session,
        snapshot=snapshot,
        driver_policy=driving,
        evaluator_policy=judging,
        admission_policy=rules.admission,
        closure=closure,
        identities=(workspace, task, graph, closure),
        provider_config=provider_config,
        accounting=seal(Accounting(model=model, call=rules.config.call, price=price)),
        scope=asked.scope,
        requester=asked.requester,
        as_of=asked.as_of,
        people=rules.people,
        owners=rules.owners,
    )


def tighten(budgets: Budgets, asked: Asked) -> Budgets:
    """The project's budgets, lowered by what the person asked; a larger number changes nothing."""
    return replace(
        budgets,
        retries=_least(budgets.retries, asked.retries),
        replans=_least(budgets.replans, asked.replans),
        provider_calls=_lower(budgets.provider_calls, asked.calls),
        tokens=_lower(budgets.tokens, asked.tokens),
        cost_microunits=_lower(budgets.cost_microunits, asked.cost_microunits),
    )


def _least(granted: int, asked: int | None) -> int:
    return granted if asked is None else min(granted, asked)


def _lower(granted: int | None, asked: int | None) -> int | None:
    """A limit that may be missing: asking for one where there is none lowers too."""
    return asked if granted is None else _least(granted, asked)


def command_checks(policy: EvaluatorPolicy) -> Sequence[EvaluatorConfig]:
    """The evaluators of a policy that run a command."""
    return [evaluator for evaluator in policy.evaluators if evaluator.evaluator in COMMAND_KINDS]
