"""What is said, and what is asked, before a run begins: the first screen and the readiness of everything it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from savant.cli.exits import exit_code
from savant.cli.render import Output, short

if TYPE_CHECKING:
    from driver.documents import Readiness
    from driver.inputs import RunInputs
    from driver.prepare import Rules
    from runner.normalise import Normaliser
    from savant.cli.containing import Containing
    from savant.cli.provision import Provision
    from savant.cli.spending import Spending
    from savant.cli.workbench import Workbench

SHOWN_DIRTY = 5


def announce(
    bench: Workbench, output: Output, inputs: RunInputs, rules: Rules, provision: Provision, containing: Containing
) -> None:
    """The first screen: base, what is not part of it, provider, sandbox, policy."""
    from savant.cli.spending import budget_words
    from savant.cli.supplying import hidden_from_checks

    base = inputs.snapshot.document.document
    output.progress(f"base {base.base_commit[:17]}  {provision.words}")
    for line in provision.warnings:
        output.progress(line)
    if not output.quiet:  # it asks git three times
        for line in _not_part_of_base(bench, inputs):
            output.progress(line)
    hidden = hidden_from_checks(bench.places.environment, inputs.evaluator_policy.document.environment)
    if hidden:
        output.progress(f"not given to checks, because an agent's credential: {', '.join(hidden)}")
    for line in containing.lines():
        output.progress(line)
    origin = rules.admission.document.origin
    where = "built-in starter policy" if origin == "starter" else ".savant/policy.toml at the base"
    output.progress(f"policy {short(rules.admission.digest)}  {where}")
    output.progress(budget_words(inputs.session.document.budgets))


def _not_part_of_base(bench: Workbench, inputs: RunInputs) -> Iterator[str]:
    """What lies in the checkout and is not in the base: it is not seen by this run."""
    from savant.repository.pending import uncommitted

    if bench.checkout is None:
        return
    paths = uncommitted(bench.repository, inputs.snapshot.document.document.base_commit)
    if paths:
        shown = ", ".join(paths[:SHOWN_DIRTY]) + (", …" if len(paths) > SHOWN_DIRTY else "")
        yield f"not part of this run, because not committed at the base: {shown}"
        if any(path.startswith(".savant/") for path in paths):
            yield ".savant/ differs from the base: the uncommitted rules are NOT in force"


def readiness_of(
    bench: Workbench,
    inputs: RunInputs,
    rules: Rules,
    missing_credentials: Mapping[str, tuple[str, str]],
    spending: Spending,
    containing: Containing,
) -> tuple[Readiness, tuple[Normaliser, ...]]:
    """Whether everything that the run needs is there, and the formatters it will use, resolved."""
    from driver.prepare import command_checks
    from driver.readiness import assess
    from evaluator.toolchain import Toolchain, without_checkout
    from runner.normalise import Normaliser
    from savant.contracts.errors import UsageError

    policy = inputs.evaluator_policy.document
    toolchain = Toolchain(bench.checkout, policy.toolchain, bench.search_folders)
    missing: dict[str, str] = {}
    normalisers = []
    for check in command_checks(policy):
        try:
            toolchain.resolve(check.argv[0])
        except UsageError as error:
            if check.required and not policy.prepares:  # a step may make it
                missing[check.id] = error.message
    for step in policy.prepares[:1]:
        try:
            without_checkout(toolchain).resolve(step.argv[0])
        except UsageError as error:
            missing[step.id] = error.message
    for row in policy.normalisers:
        try:
            tool = toolchain.resolve(row.argv[0])
            normalisers.append(
                Normaliser(
                    id=row.id,
                    argv=(str(tool), *row.argv[1:]),
                    patterns=row.patterns,
                    timeout_ms=row.timeout_ms,
                    demanded=inputs.demands.checks[row.id],
                )
            )
        except UsageError as error:
            missing[row.id] = error.message
    project = command_checks(rules.trusted_part.document)
    readiness = assess(
        budgets=inputs.session.document.budgets,
        reports_usage=spending.reports_usage,
        accounting=inputs.accounting.document,
        project_checks=project,
        policy_digest=rules.trusted_part.digest,
        demands=containing.demands,
        offered=containing.offered,
        is_waived=containing.is_waived,
        remedy=containing.remedy,
        missing_tools=missing,
        project_normalisers=rules.trusted_part.document.normalisers,
        project_prepares=rules.trusted_part.document.prepares,
        missing_credentials=missing_credentials,
    )
    return readiness, tuple(normalisers)


def show_not_ready(output: Output, readiness: Readiness) -> int:
    """Say what is missing and the command that supplies it; the exit code."""
    code = exit_code("not-ready")
    items = [
        {"name": item.name, "ready": item.ready, "code": item.code, "detail": item.detail, "fix": item.fix}
        for item in readiness.items
    ]
    output.document("run", "not-ready", code, {"items": items})
    if not output.as_json:
        output.say("NOT READY: no provider was called, nothing was recorded.")
        for item in readiness.items:
            if not item.ready:
                output.say(f"  {item.detail}  [{item.code}]", f"    next: {item.fix}")
    return code
