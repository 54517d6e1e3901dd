"""Whether a run may start: pure. Everything it needs to know was looked up by the caller, before any provider call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from driver.demands import UNTRUSTED, Demands, Offered, lacks_trust, shortfalls
from driver.documents import Accounting, Readiness, ReadinessItem
from driver.money import format_amount, worst_case
from evaluator.documents import EvaluatorConfig, NormaliserConfig, PrepareConfig
from savant.contracts.containment import level_words
from synthesis.documents import Budgets


def assess(
    *,
    budgets: Budgets,
    reports_usage: bool,
    project_checks: Sequence[EvaluatorConfig],
    policy_digest: str,
    demands: Demands,
    offered: Offered,
    is_waived: bool,
    remedy: str,
    missing_tools: Mapping[str, str],
    project_normalisers: Sequence[NormaliserConfig] = (),
    project_prepares: Sequence[PrepareConfig] = (),
    missing_credentials: Mapping[str, tuple[str, str]] = MappingProxyType({}),
    accounting: Accounting | None = None,
) -> Readiness:
    """The readiness of a run.

    :param project_checks: check commands that the repository itself names.
    :param policy_digest: of the policy that they come from, which a person trusts by this digest.
    :param demands: the containment that is needed. :param offered: what can be had.
    :param is_waived: whether the person allows less, for this run. :param remedy: how more can be had here.
    :param missing_tools: required check or normaliser -> why its tool cannot be found.
    :param project_normalisers: formatters that the repository itself names; they need what its checks need.
    :param project_prepares: steps that the repository itself names, to the same effect.
    :param missing_credentials: agent -> why none of its credentials can be used, and the commands that supply one.
    :param accounting: what one call may use at most, and its price; None where nothing is known of it.
    """
    named = [check.argv for check in project_checks]
    named += [row.argv for row in project_normalisers] + [step.argv for step in project_prepares]
    items = (
        *_items(budgets, reports_usage, missing_tools),
        *(() if is_waived else _contained(named, policy_digest, demands, offered, remedy)),
        *_credentials(missing_credentials),
        *(_affordable(budgets, accounting) if reports_usage and accounting is not None else ()),
    )
    return Readiness(ready=all(item.ready for item in items), items=items)


def _affordable(budgets: Budgets, accounting: Accounting) -> Iterator[ReadinessItem]:
    """A limit of tokens or money has to hold one call at least, and money needs a price: else no call would be made."""
    worst = worst_case(accounting.call, accounting.price)
    limits = "call_tokens_in and call_tokens_out under [budgets] in .savant/config.toml"
    if budgets.tokens is not None:
        yield _item(
            "tokens",
            worst.tokens <= budgets.tokens,
            "driver.budget-too-small",
            f"The budget is {budgets.tokens} tokens, and one call may use {worst.tokens}.",
            f"Allow at least {worst.tokens} tokens, or lower {limits}.",
        )
    if budgets.cost_microunits is None:
        return
    model = accounting.model or "PROVIDER"
    cost = worst.cost_microunits
    yield _item(
        "price",
        cost is not None,
        "driver.price-missing",
        f"The budgets limit money, and no price of {accounting.model or 'this provider'} is known.",
        f'Add [prices."{model}"] with input_per_mtok and output_per_mtok to your config.toml.',
    )
    if cost is not None:
        granted = format_amount(budgets.cost_microunits)
        yield _item(
            "cost",
            cost <= budgets.cost_microunits,
            "driver.budget-too-small",
            f"The budget is {granted}, and one call may cost {format_amount(cost)}.",
            f"Allow at least {format_amount(cost)}, or lower {limits}.",
        )


def _credentials(missing: Mapping[str, tuple[str, str]]) -> Iterator[ReadinessItem]:
    for agent, (why, fix) in missing.items():
        detail = f"{agent} has no credential that can be used: {why}."
        yield _item(f"credential:{agent}", False, "driver.credential-missing", detail, fix)


def _items(budgets: Budgets, reports_usage: bool, missing_tools: Mapping[str, str]) -> Iterator[ReadinessItem]:
    limited = budgets.tokens is not None or budgets.cost_microunits is not None
    yield _item(
        "usage",
        reports_usage or not limited,
        "driver.usage-unreported",
        "The budgets limit tokens or money, and the provider does not report its usage.",
        "Use a provider that reports them; or leave --tokens and --cost out, and tokens and cost_microunits in "
        ".savant/config.toml.",
    )
    for name, why in missing_tools.items():
        yield _item(f"tool:{name}", False, "driver.tool-missing", why, f"Install what {name} needs, or drop the check.")


def _contained(
    named: Sequence[tuple[str, ...]], policy_digest: str, demands: Demands, offered: Offered, remedy: str
) -> Iterator[ReadinessItem]:
    """Enough contains every command, or a person trusted those that the repository names."""
    commands = "; ".join(" ".join(argv) for argv in named)
    yield _item(
        "trust",
        not lacks_trust(demands, offered),
        "driver.policy-untrusted",
        f"The repository names commands that would run at sandbox level {level_words(offered.checks)}, below "
        f"{level_words(UNTRUSTED)}: {commands}"[:2_000],
        _either(remedy, f"Read them, then: savant trust {policy_digest}"),
    )
    short = shortfalls(demands, offered)
    yield _item(
        "sandbox",
        not short,
        "driver.sandbox-level",
        f"There would run {'; '.join(one.words for one in short)}."[:2_000],
        _either(remedy, "Allow less for this run, and every verdict says so: --allow-unsandboxed"),
    )


def _either(remedy: str, other: str) -> str:
    return f"{remedy}  Or: {other[0].lower()}{other[1:]}" if remedy else other


def _item(name: str, ready: bool, code: str, detail: str, fix: str) -> ReadinessItem:
    return ReadinessItem(name=name, ready=ready, code=code, detail="" if ready else detail, fix="" if ready else fix)
