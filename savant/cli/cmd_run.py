"""``run``: one task, from what was typed to a run receipt."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

import click

from savant.cli.options import DAY, format_option, repository_option, today
from savant.cli.render import Output
from savant.cli.run_result import show_result

if TYPE_CHECKING:
    from driver.documents import Readiness
    from driver.inputs import RunInputs
    from driver.recorder import Recorder
    from driver.run import Apply, RunResult
    from runner.normalise import Normaliser
    from savant.cli.agents import AgentFlags
    from savant.cli.auditing import Auditing
    from savant.cli.cassettes import Tape
    from savant.cli.holding import Holding
    from savant.cli.provision import Provision
    from savant.cli.workbench import Workbench


@click.command(
    "run",
    help="Run one task: interpret, plan, generate in a disposable copy, seal, evaluate, decide. Nothing is applied "
    "without --apply.",
)
@click.argument("objective", required=False, default="")
@repository_option
@click.option("--base", default="HEAD", help="The revision to start from (default: HEAD).")
@click.option("--agent", metavar="NAME", help="A coding agent as provider; savant providers lists them.")
@click.option(
    "--agent-mode", type=click.Choice(["answer", "workspace", "acp"]), help="How it works (default: in a copy)."
)
@click.option("--model", metavar="NAME", help="The agent's model (default: its own).")
@click.option("--planning", type=click.Choice(["agent", "host"]), help="Who plans (default: the agent; host: --scope).")
@click.option(
    "--interpretation",
    type=click.Choice(["host", "agent"]),
    help="Who interprets the task (default: host).",
)
@click.option(
    "--disclose",
    multiple=True,
    metavar="PATTERN",
    help="Show the agent these instruction files of the repository.",
)
@click.option("--recipe", multiple=True, metavar="CMD", help="A deterministic tool as provider; may be repeated.")
@click.option("--on-failure", multiple=True, metavar="CHECK=CMD", help="A recipe step for when that check failed.")
@click.option("--provider", metavar="CMD", help="A command that speaks the wire (docs/contracts/commandprovider.md).")
@click.option(
    "--provider-directory", type=click.Choice(["workspace", "empty"]), default="workspace", help="Where it works."
)
@click.option("--provider-operation", multiple=True, metavar="NAME", help="What it answers (default: generation).")
@click.option("--reports-usage", is_flag=True, help="Every answer of the command tells the tokens that it used.")
@click.option("--env", "provider_env", multiple=True, metavar="NAME", help="A variable the provider may see.")
@click.option("--provider-network", is_flag=True, help="The provider's command may use the network (default: none).")
@click.option("--check-network", is_flag=True, help="Checks may use the network (default: none).")
@click.option(
    "--allow-unsandboxed",
    is_flag=True,
    help="Run although less contains a command than is demanded. UNSAFE: recorded, and said by every verdict.",
)
@click.option("--max-output", type=click.IntRange(1), metavar="BYTES", help="The provider's largest answer.")
@click.option("--from-commit", metavar="A..B", help="Judge a change that exists instead of generating one.")
@click.option("--patch", type=click.Path(exists=True, dir_okay=False), help="Judge a patch file.")
@click.option("--record-cassette", metavar="DIR", help="Record every provider call into this new folder.")
@click.option("--cassette", metavar="DIR", help="Answer provider calls from this folder: no agent, no key, no network.")
@click.option("--scope", multiple=True, metavar="PATTERN", help="Limit the task to paths; may be repeated.")
@click.option("--check", multiple=True, metavar="CMD", help="A check that may not get worse than on the base.")
@click.option("--must-fix", multiple=True, metavar="TEST", help="A test that the one --check must turn green.")
@click.option("--must-pass", multiple=True, metavar="CMD", help="A check that must pass.")
@click.option("--held-out", type=click.Path(), metavar="FOLDER", help="A suite that the provider never sees.")
@click.option("--held-out-check", metavar="CMD", help="What runs it on the sealed candidate; {suite} is its folder.")
@click.option("--audit-agent", metavar="NAME", help="A coding agent that audits what every check lets pass.")
@click.option("--audit-provider", metavar="CMD", help="A command that does (docs/audit-by-models.md).")
@click.option("--adversary-agent", metavar="NAME", help="A coding agent that tries to refute the audit's findings.")
@click.option("--adversary-provider", metavar="CMD", help="A command that does.")
@click.option("--audit-model", metavar="NAME", help="The model of agents that audit (default: their own).")
@click.option("--audit-env", multiple=True, metavar="NAME", help="A variable that auditors may see.")
@click.option("--audit-network", is_flag=True, help="Commands that audit may use the network (default: none).")
@click.option("--audit-optional", is_flag=True, help="What the audit says is shown and decides nothing.")
@click.option("--retries", type=click.IntRange(0), help="At most so many retries (only lowers the budget).")
@click.option("--replans", type=click.IntRange(0), help="At most so many replans (only lowers the budget).")
@click.option("--calls", type=click.IntRange(1), help="At most so many provider calls (only lowers the budget).")
@click.option("--tokens", type=click.IntRange(1), help="At most so many tokens in all (only lowers the budget).")
@click.option("--cost", metavar="AMOUNT", help="At most so much money in all, as 1.50 (only lowers the budget).")
@click.option("--deadline", type=click.IntRange(1), default=600, metavar="SECONDS", help="For each provider call.")
@click.option("--requester", default="", help="Who asks: a name or a key fingerprint.")
@click.option(
    "--as-of", type=DAY, metavar="YYYY-MM-DD", help="Judge what can expire as on this day (default: today, in UTC)."
)
@click.option("--apply", "apply_to", type=click.Path(), metavar="TARGET", help="Apply when admitted, into this folder.")
@click.option("--on-mismatch", type=click.Choice(["keep", "restore"]), default="keep", help="If the target differs.")
@click.option(
    "--ledger-mode", type=click.Choice(["enforce", "record", "off"]), default="enforce", help="When recording fails."
)
@click.option("--no-cache", is_flag=True, help="Compute and measure the base anew.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@format_option
def run(**flags: Any) -> int:
    """Run one task."""
    from savant.cli.workbench import Workbench

    output = Output(as_json=flags["format_"] == "json", quiet=flags["quiet"])
    with Workbench(flags["repo"], use_cache=not flags["no_cache"]) as bench, _interruptible(bench):
        return _run(bench, output, flags)


def run_here(flags: dict[str, Any], output: Output) -> tuple[RunResult, str] | None:
    """Run one task with these flags and show nothing: how it ended and its id; None where something is missing.

    Errors as the command's.
    """
    from savant.cli.workbench import Workbench

    with Workbench(flags["repo"], use_cache=not flags["no_cache"]) as bench, _interruptible(bench):
        ended = _run_task(bench, output, flags)
    return ended[:2] if isinstance(ended, tuple) else None


def _run(bench: Workbench, output: Output, flags: dict[str, Any]) -> int:
    from savant.cli.beginning import show_not_ready

    ended = _run_task(bench, output, flags)
    if not isinstance(ended, tuple):
        return show_not_ready(output, ended)
    result, run_id, tape = ended
    return show_result(output, result, run_id, bench.directory, tape.end())


def _run_task(bench: Workbench, output: Output, flags: dict[str, Any]) -> tuple[RunResult, str, Tape] | Readiness:
    """One run: its result, its id and its tape; or what is missing for it to start."""
    from msgspec.structs import replace

    from driver.money import parse_amount
    from driver.prepare import Asked, prepare, read_rules
    from runner.snapshot import BaseSnapshot
    from savant.cli.auditing import audit_by
    from savant.cli.beginning import announce, readiness_of
    from savant.cli.cassettes import tape_of
    from savant.cli.containing import contain
    from savant.cli.holding import hold_out
    from savant.cli.provision import provide
    from savant.cli.spending import spending_of
    from savant.cli.supplying import verify_unmentioned

    bench.processes.warm()
    tape = tape_of(bench, record=flags["record_cassette"], play=flags["cassette"])
    holding = hold_out(bench, flags["held_out"], flags["held_out_check"])
    provision = provide(bench, _provider_flags(flags), flags["scope"], tape)
    commit = provision.base or bench.repository.resolve_commit(flags["base"])
    snapshot = BaseSnapshot.take(bench.repository, commit, cache=bench.cache)
    rules = read_rules(snapshot)
    auditing = audit_by(bench, rules.admission.document.sandbox, flags)
    asked = Asked(
        objective=flags["objective"] or tape.objective or provision.config.sealed.document.note or provision.words,
        scope=tuple(flags["scope"]),
        checks=(*_checks(flags), *holding.checks, *auditing.checks),
        requester=flags["requester"],
        retries=flags["retries"],
        replans=flags["replans"],
        calls=flags["calls"],
        tokens=flags["tokens"],
        cost_microunits=None if flags["cost"] is None else parse_amount(flags["cost"]),
        deadline_ms=flags["deadline"] * 1000,
        ledger_mode=flags["ledger_mode"],
        allow_unsandboxed=flags["allow_unsandboxed"],
        check_network=flags["check_network"],
        as_of=flags["as_of"] or today(),
    )
    spending = spending_of(bench.places, provision)
    spending = replace(spending, reports_usage=spending.reports_usage and auditing.reports_usage)
    inputs = prepare(
        asked,
        snapshot,
        rules,
        provider_config=provision.config.sealed,
        object_format=bench.repository.object_format,
        model=spending.model,
        price=spending.price,
    )
    for made in (provision, *auditing.provisions.values()):
        verify_unmentioned(made.redactor, made.config.sealed.raw, inputs.session.raw)
    judging = inputs.evaluator_policy.document
    containing = contain(bench, rules, judging, provision, tape.processes, allow=flags["allow_unsandboxed"])
    inputs = replace(
        inputs, demands=containing.demands, limitations=containing.limitations, auditor_configs=auditing.configs
    )
    announce(bench, output, inputs, rules, provision, containing)
    for line in (*auditing.lines(), *tape.lines()):
        output.progress(line)
    missing = {**provision.missing_credentials, **auditing.missing_credentials}
    readiness, normalisers = readiness_of(bench, inputs, rules, missing, spending, containing)
    if not readiness.ready:
        return readiness
    tape.describe(provision, asked.objective)
    beside = (holding, auditing)
    result, run_id = _governed(bench, output, inputs, provision, tape, normalisers, beside, flags)
    return result, run_id, tape


def _provider_flags(flags: dict[str, Any]) -> Any:
    from savant.cli.provision import ProviderFlags

    return ProviderFlags(
        recipe=flags["recipe"],
        on_failure=flags["on_failure"],
        provider=flags["provider"],
        provider_directory=flags["provider_directory"],
        provider_operations=flags["provider_operation"],
        provider_env=flags["provider_env"],
        max_output_bytes=flags["max_output"],
        reports_usage=flags["reports_usage"],
        network=flags["provider_network"],
        allow_unsandboxed=flags["allow_unsandboxed"],
        from_commit=flags["from_commit"],
        patch=flags["patch"],
        agent=_agent_flags(flags),
    )


def _agent_flags(flags: dict[str, Any]) -> AgentFlags | None:
    """What was typed about an agent.

    :raises UsageError: ``usage.agent-flag`` when no agent was named.
    """
    if flags["agent"] is None:
        stray = next((name for name in ("agent_mode", "model", "planning", "interpretation") if flags[name]), None)
        if stray is None and not flags["disclose"]:
            return None
        from savant.contracts.errors import UsageError

        raise UsageError(
            "usage.agent-flag",
            f"--{(stray or 'disclose').replace('_', '-')} is for a run with --agent.",
            untouched="Nothing was called.",
            fix="Name one: --agent claude",
        )
    from savant.cli.agents import AgentFlags

    return AgentFlags(
        name=flags["agent"],
        mode=flags["agent_mode"],
        model=flags["model"],
        planning=flags["planning"] or "agent",
        interpretation=flags["interpretation"] or "host",
        disclosed=flags["disclose"],
        environment=flags["provider_env"],
        max_output_bytes=flags["max_output"],
    )


def _checks(flags: dict[str, Any]) -> tuple[Any, ...]:
    from driver.config import check_config
    from savant.contracts.errors import UsageError

    must_fix = flags["must_fix"]
    if must_fix and len(flags["check"]) != 1:
        raise UsageError(
            "usage.must-fix",
            "--must-fix names tests of the one --check that is given.",
            fix='Write it as --check "pytest -q" --must-fix tests/test_totals.py::test_rounding.',
        )
    return (
        *(
            check_config(command, rule="must-fix" if must_fix else "no-regression", must_fix=must_fix)
            for command in flags["check"]
        ),
        *(check_config(command, rule="all-pass") for command in flags["must_pass"]),
    )


class _Lines:
    """Progress as plain lines."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def say(self, line: str) -> None:
        self._output.progress(f"  {line}")


def _governed(
    bench: Workbench,
    output: Output,
    inputs: RunInputs,
    provision: Provision,
    tape: Tape,
    normalisers: tuple[Normaliser, ...],
    beside: tuple[Holding, Auditing],
    flags: dict[str, Any],
) -> tuple[RunResult, str]:
    from contextlib import ExitStack

    from driver.inputs import RunPorts
    from driver.recorder import Recorder
    from driver.run import run_whole
    from savant.cli.app import VERSION
    from savant.cli.ledgers import writable_ledger
    from savant.cli.supplying import for_checks
    from savant.contracts.errors import UsageError

    holding, auditing = beside
    mode: Literal["off", "record", "enforce"] = flags["ledger_mode"]
    if mode == "off" and flags["apply_to"]:
        raise UsageError(
            "usage.off-apply", "Nothing can be applied in ledger mode off.", fix="Leave --ledger-mode out."
        )
    run_id = bench.entropy.token(16).hex()
    with ExitStack() as stack:
        opened = None if mode == "off" else stack.enter_context(writable_ledger(bench))
        if opened is not None and opened.created:
            output.progress(
                f"made a ledger in {bench.directory} and its keys in {opened.keys}; keep a copy of the keys"
            )
        recorder = Recorder(
            None if opened is None else opened.ledger,
            run_id=run_id,
            mode=mode,
            clock=bench.clock,
            host=bench.host,
            tool=f"savant/{VERSION}",
            remark=tape.remark,
        )
        ports = RunPorts(
            recorder=recorder,
            provider=tape.guard(provision.factory),
            clock=bench.clock,
            tasks=bench.tasks,
            cancellation=bench.cancellation,
            store=bench.store,
            processes=bench.processes,
            normalisers=normalisers,
            scratch=bench.scratch,
            checkout=bench.checkout,
            search_path=bench.search_folders,
            ambient=for_checks(bench.places.environment),
            progress=_Lines(output),
            sight=bench.sight,
            suite=holding.suite,
            results=bench.results,
            auditors=auditing.ports,
            prepared=bench.prepared,
        )
        apply = _applier(bench, flags, recorder)
        result = run_whole(inputs, ports, apply)
    return result, run_id


def _applier(bench: Workbench, flags: dict[str, Any], recorder: Recorder) -> Apply | None:
    if not flags["apply_to"]:
        return None
    from savant.cli.applying import applier

    return applier(bench, flags["apply_to"], flags["on_mismatch"], recorder)


@contextmanager
def _interruptible(bench: Workbench) -> Iterator[None]:
    """The first interrupt asks the run to stop in order; the second one ends the process."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        bench.cancellation.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before: Callable[[int, FrameType | None], Any] | int | None = signal.signal(signal.SIGINT, stop)
    ended = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, ended)
