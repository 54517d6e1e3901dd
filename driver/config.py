"""What a project writes in ``.savant/config.toml``, read strictly, and the documents that follow from it.

pydantic reads what a person wrote, at this edge only; everything after it is a closed document.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import structs

from driver.built_ins import MAX_BUNDLE_BYTES, PLAIN, SECRETS, built_in_checks
from driver.documents import CallLimit
from driver.documents import Policy as DriverPolicy
from evaluator.documents import Custody, EvaluatorConfig, Excuse, NormaliserConfig, PrepareConfig
from evaluator.documents import Policy as EvaluatorPolicy
from evaluator.excuses import may_end
from evaluator.findings import check_name
from evaluator.gatefiles import GATES, TESTS
from savant.contracts.errors import RefusedInput, UsageError
from savant.contracts.scalars import as_set
from synthesis.documents import Budgets

if TYPE_CHECKING:
    from evaluator.documents import ResultFormat, Rule

CONFIG_PATH: Final = b".savant/config.toml"
UNBOUND: Final = "unbound"
DEFAULT_RETRIES: Final = 2
DEFAULT_REPLANS: Final = 1
DEFAULT_CALLS: Final = 12
DEFAULT_WALL_CLOCK_MS: Final = 20 * 60 * 1000
DEFAULT_CALL: Final = CallLimit(tokens_in=200_000, tokens_out=32_000)
"""The worst case of a provider call where a project configures none: a large context window, filled once."""

DEFAULT_CHECK_TIMEOUT_MS: Final = 10 * 60 * 1000
MAX_CAPTURE_BYTES: Final = 4 * 1024 * 1024
MAX_REPORT_CAPTURE_BYTES: Final = 32 * 1024 * 1024
"""What a command may write that tells its report on standard output."""
MAX_FINDINGS: Final = 20
MAX_FINDING_BYTES: Final = 8 * 1024
JUNIT_REPORT: Final = ".savant-junit.xml"
FORMATS_BY_ENDING: Final[Mapping[str, ResultFormat]] = MappingProxyType({".sarif": "sarif", ".tap": "tap"})
"""How a report is read whose format nobody named, by the ending of its name; JUnit otherwise."""

DEFAULT_BUDGETS: Final = Budgets(
    retries=DEFAULT_RETRIES,
    replans=DEFAULT_REPLANS,
    provider_calls=DEFAULT_CALLS,
    wall_clock_ms=DEFAULT_WALL_CLOCK_MS,
    tokens=None,
    cost_microunits=None,
)


DEFAULT_CUSTODY: Final = Custody(tests=as_set(TESTS), gates=as_set(GATES))


class ProjectConfig(msgspec.Struct, frozen=True):
    """What a project's configuration says; the defaults are what holds without one."""

    domain: str = UNBOUND
    budgets: Budgets = DEFAULT_BUDGETS
    call: CallLimit = DEFAULT_CALL
    toolchain: tuple[str, ...] = (".venv", "node_modules")
    environment: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    judges: tuple[EvaluatorConfig, ...] = (SECRETS,)
    checks: tuple[EvaluatorConfig, ...] = ()
    normalisers: tuple[NormaliserConfig, ...] = ()
    prepares: tuple[PrepareConfig, ...] = ()
    custody: Custody = DEFAULT_CUSTODY
    excuses: tuple[Excuse, ...] = ()
    origin: Literal["starter", "repository"] = msgspec.field(default="starter")


def check_config(
    command: str | Sequence[str],
    *,
    rule: Rule,
    id_: str | None = None,
    required: bool = True,
    timeout_ms: int = DEFAULT_CHECK_TIMEOUT_MS,
    result_format: ResultFormat | None = None,
    report_path: str | None = None,
    directory: str | None = None,
    repeats: int = 0,
    must_fix: Sequence[str] = (),
    max_output_bytes: int | None = None,
    max_result_bytes: int = MAX_BUNDLE_BYTES,
) -> EvaluatorConfig:
    """A command evaluator from what a person typed; never a shell.

    pytest is asked for a JUnit report, so that base and candidate are compared test by test; any other command is
    judged by its exit status, or by the report that ``report_path`` names. SARIF and TAP are read from standard output
    where no path is named.

    :param result_format: how its report is read; None for what its command or the name of its report says.
    :param directory: the folder of the tree that it starts in; ``report_path`` is seen from the tree's root.
    :param repeats: how many times more a check that failed is run before it is believed.
    :param must_fix: names of checks that must pass, as the tool tells them; for pytest its node ids.
    :param max_output_bytes: what it may write; None for the default, which is larger where its report is in it.
    :param max_result_bytes: what of its findings goes into the result.

    :raises UsageError: ``usage.command`` for an empty or unbalanced command.
    """
    argv = split_command(command)
    name = id_ or _check_name(argv)
    is_silent = report_path is None and not any(word.startswith("--junit") for word in argv)
    if _is_pytest(argv) and is_silent and result_format in (None, "junit"):
        argv = (*argv, f"--junit-xml={JUNIT_REPORT}")
        report_path = JUNIT_REPORT if directory is None else f"{directory}/{JUNIT_REPORT}"
    reads = result_format or _format_of(report_path)
    is_told = report_path is None and reads != "exit-status"
    return structs.replace(
        PLAIN,
        id=name,
        evaluator="command",
        required=required,
        rule=rule,
        argv=argv,
        directory=directory,
        result_format=reads,
        report_path=report_path,
        timeout_ms=timeout_ms,
        max_capture_bytes=max_output_bytes or (MAX_REPORT_CAPTURE_BYTES if is_told else MAX_CAPTURE_BYTES),
        max_bundle_bytes=max_result_bytes,
        repeats=repeats,
        must_fix=as_set(must_fix_name(name, told) for told in must_fix),
        failure_class="mechanical-failure",
    )


def _format_of(report_path: str | None) -> ResultFormat:
    if report_path is None:
        return "exit-status"
    return FORMATS_BY_ENDING.get(PurePosixPath(report_path).suffix, "junit")


def must_fix_name(evaluator: str, told: str) -> str:
    """The name of a check from what a person calls it: a pytest node id, a name as it is told, with or without the id.

    ``tests/test_a.py::TestA::test_b`` is ``tests.test_a.TestA::test_b`` in the report of pytest.
    """
    if told == evaluator:
        return told
    place, bracket, parameters = told.removeprefix(f"{evaluator}:").partition("[")
    file, *names = place.split("::")
    if names and file.endswith(".py"):
        place = "::".join((".".join((file.removesuffix(".py").replace("/", "."), *names[:-1])), names[-1]))
    return check_name(evaluator, place + bracket + parameters)


def split_command(command: str | Sequence[str]) -> tuple[str, ...]:
    """The argument vector of a command line; quotes as in a shell, nothing else of one.

    :raises UsageError: ``usage.command``.
    """
    if not isinstance(command, str):
        argv = tuple(command)
    else:
        try:
            argv = tuple(shlex.split(command))
        except ValueError as error:
            raise UsageError("usage.command", f"The command {command!r} cannot be split: {error}.") from error
    if not argv or not argv[0]:
        raise UsageError("usage.command", "A command is empty.", fix='Write it as --check "pytest -q".')
    return argv


def _is_pytest(argv: tuple[str, ...]) -> bool:
    return PurePosixPath(argv[0]).name in {"pytest", "py.test"} or (len(argv) > 2 and argv[1:3] == ("-m", "pytest"))


def _check_name(argv: tuple[str, ...]) -> str:
    words = [PurePosixPath(argv[0]).name, *argv[1:]]
    if words[0].startswith("python") and len(words) > 2 and words[1] == "-m":
        words = words[2:]
    name = "-".join(word for word in words[:3] if not word.startswith("-"))
    clean = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name).strip("-.")
    return clean[:80] or "check"


def evaluator_policy(
    config: ProjectConfig,
    extra_checks: Sequence[EvaluatorConfig],
    *,
    network: bool = False,
    as_of: str | None = None,
) -> EvaluatorPolicy:
    """The evaluator policy of a run: built-ins, the project's checks, and the person's, which only tighten.

    A check of the person whose name is taken by another check runs beside it, under the name with a number.

    :param network: whether the person lets checks use the network; a project cannot.
    :param as_of: the day on which excuses are judged; it is kept only where one can end.
    """
    known = {check.id: check for check in (*built_in_checks(config.forbidden), *config.judges, *config.checks)}
    for check in extra_checks:
        named, number = check, 1
        while known.setdefault(named.id, named) != named:
            number += 1
            named = structs.replace(check, id=f"{check.id}-{number}")
    return EvaluatorPolicy(
        evaluators=as_set(known.values()),
        toolchain=as_set(config.toolchain),
        environment=as_set(config.environment),
        network="open" if network else "none",
        recommendations=(),
        normalisers=config.normalisers,
        prepares=config.prepares,
        custody=config.custody,
        excuses=as_set(config.excuses),
        as_of=as_of if may_end(config.excuses) else None,
        max_findings=MAX_FINDINGS,
        max_finding_bytes=MAX_FINDING_BYTES,
    )


def driver_policy(
    *, ledger_mode: Literal["off", "record", "enforce"], call_deadline_ms: int, allow_unsandboxed: bool = False
) -> DriverPolicy:
    """The driver policy of a run; every call has a deadline of its own."""
    return DriverPolicy(
        max_steps=100,
        interpretation_deadline_ms=call_deadline_ms,
        planning_deadline_ms=call_deadline_ms,
        generation_deadline_ms=call_deadline_ms,
        max_observations=200,
        max_observation_bytes=64 * 1024,
        max_prior_bytes=16 * 1024,
        ledger_mode=ledger_mode,
        allow_unsandboxed=allow_unsandboxed,
        retryable_outcomes=as_set(("invalid-output", "timed-out", "unavailable")),
    )


def read_config(raw: bytes) -> ProjectConfig:
    """The configuration of a project, as committed at the base.

    :raises RefusedInput: ``refused.config`` naming file, key and fix.
    """
    import tomllib

    try:
        data = tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, a number of thousands of digits, deep nesting
        raise _refused(f"is not TOML: {error}") from error
    from driver.config_schema import parse_config

    return parse_config(data)


def _refused(problem: str) -> RefusedInput:
    return RefusedInput(
        "refused.config",
        f".savant/config.toml at the base {problem}",
        untouched="No provider was called and nothing was written.",
        fix="Correct .savant/config.toml and commit it.",
    )


def refused_key(key: str, problem: str) -> RefusedInput:
    """The refusal of one key of the configuration."""
    return _refused(f"has a wrong value at {key}: {problem}")


def as_checks(rows: Sequence[dict[str, Any]]) -> tuple[EvaluatorConfig, ...]:
    """Check tables as evaluators; the rows were validated by the schema."""
    return tuple(
        check_config(
            row["command"],
            rule=row["rule"],
            id_=row["id"],
            required=row["required"],
            timeout_ms=row["timeout_s"] * 1000,
            result_format=row["format"],
            report_path=row["report"],
            directory=row["directory"],
            repeats=row["repeats"],
            must_fix=row["must_fix"],
            max_output_bytes=row["max_output_bytes"],
            max_result_bytes=row["max_result_bytes"],
        )
        for row in rows
    )
