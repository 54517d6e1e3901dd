"""Whether a run may start: pure. Everything it needs to know was looked up by the caller, before any provider call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from driver.documents import Readiness, ReadinessItem
from evaluator.documents import EvaluatorConfig, NormaliserConfig
from synthesis.documents import Budgets


def assess(
    *,
    budgets: Budgets,
    reports_usage: bool,
    project_checks: Sequence[EvaluatorConfig],
    policy_digest: str,
    is_trusted: bool,
    missing_tools: Mapping[str, str],
    project_normalisers: Sequence[NormaliserConfig] = (),
    missing_credentials: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> Readiness:
    """The readiness of a run.

    :param project_checks: check commands that the repository itself names.
    :param policy_digest: of the policy that they come from, trusted once by the person or not.
    :param missing_tools: required check or normaliser -> why its tool cannot be found.
    :param project_normalisers: formatters that the repository itself names; they run unsandboxed like its checks.
    :param missing_credentials: agent -> why none of its credentials can be used, and the commands that supply one.
    """
    named = [check.argv for check in project_checks] + [normaliser.argv for normaliser in project_normalisers]
    items = (
        *_items(budgets, reports_usage, named, policy_digest, is_trusted, missing_tools),
        *_credentials(missing_credentials),
    )
    return Readiness(ready=all(item.ready for item in items), items=items)


def _credentials(missing: Mapping[str, tuple[str, str]]) -> Iterator[ReadinessItem]:
    for agent, (why, fix) in missing.items():
        detail = f"{agent} has no credential that can be used: {why}."
        yield _item(f"credential:{agent}", False, "driver.credential-missing", detail, fix)


def _items(
    budgets: Budgets,
    reports_usage: bool,
    named: Sequence[tuple[str, ...]],
    policy_digest: str,
    is_trusted: bool,
    missing_tools: Mapping[str, str],
) -> Iterator[ReadinessItem]:
    limited = budgets.tokens is not None or budgets.cost_microunits is not None
    yield _item(
        "usage",
        reports_usage or not limited,
        "driver.usage-unreported",
        "The budgets limit tokens or money, and the provider does not report its usage.",
        "Remove tokens and cost_microunits from .savant/config.toml, or use a provider that reports them.",
    )
    commands = "; ".join(" ".join(argv) for argv in named)
    yield _item(
        "trust",
        is_trusted or not named,
        "driver.policy-untrusted",
        f"The repository names commands that would run without a sandbox: {commands}"[:2_000],
        f"Read them, then: savant trust {policy_digest}",
    )
    for name, why in missing_tools.items():
        yield _item(f"tool:{name}", False, "driver.tool-missing", why, f"Install what {name} needs, or drop the check.")


def _item(name: str, ready: bool, code: str, detail: str, fix: str) -> ReadinessItem:
    return ReadinessItem(name=name, ready=ready, code=code, detail="" if ready else detail, fix="" if ready else fix)
