"""The pydantic model of ``.savant/config.toml``. Imported only when a project has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from driver.built_ins import BUILT_IN, MAX_BUNDLE_BYTES
from driver.config import (
    DEFAULT_CALL,
    DEFAULT_CALLS,
    DEFAULT_REPLANS,
    DEFAULT_RETRIES,
    DEFAULT_WALL_CLOCK_MS,
    ProjectConfig,
    as_checks,
    refused_key,
    split_command,
)
from driver.documents import CallLimit
from driver.judge_schema import Judge, judges_of, patterns_of
from evaluator.documents import Custody, Excuse, NormaliserConfig, PrepareConfig
from evaluator.gatefiles import GATES, TESTS
from evaluator.policy import prepare_problems, report_problem
from savant.contracts.errors import RefusedInput, SavantError
from savant.contracts.scalars import as_set
from savant.files.paths import check_path, to_raw
from savant.files.patterns import parse
from synthesis.documents import Budgets

Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]
PathPattern = Annotated[str, Field(min_length=1, max_length=4096)]
CommandLine = Annotated[str, Field(min_length=1, max_length=4096)] | list[Annotated[str, Field(min_length=1)]]
MINUTE_MS = 60_000
_DEFAULT_MINUTES = DEFAULT_WALL_CLOCK_MS // MINUTE_MS


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Budgets(_Table):
    retries: Annotated[int, Field(ge=0, le=100)] = DEFAULT_RETRIES
    replans: Annotated[int, Field(ge=0, le=100)] = DEFAULT_REPLANS
    calls: Annotated[int, Field(ge=1, le=10_000)] = DEFAULT_CALLS
    wall_clock_minutes: Annotated[int, Field(ge=1, le=10_000)] = _DEFAULT_MINUTES
    tokens: Annotated[int, Field(ge=1, le=2**53 - 1)] | None = None
    cost_microunits: Annotated[int, Field(ge=1, le=2**53 - 1)] | None = None
    call_tokens_in: Annotated[int, Field(ge=1, le=10**9)] = DEFAULT_CALL.tokens_in
    call_tokens_out: Annotated[int, Field(ge=1, le=10**9)] = DEFAULT_CALL.tokens_out


class _Check(_Table):
    id: Identifier
    command: CommandLine
    rule: Literal["all-pass", "no-regression", "no-new", "must-fix"] = "no-regression"
    required: bool = True
    timeout_s: Annotated[int, Field(ge=1, le=86_400)] = 600
    report: PathPattern | None = None
    format: Literal["exit-status", "junit", "sarif", "tap"] | None = None
    directory: PathPattern | None = None
    repeats: Annotated[int, Field(ge=0, le=20)] = 0
    must_fix: list[Annotated[str, Field(min_length=1, max_length=4_096)]] = []
    max_output_bytes: Annotated[int, Field(ge=1, le=2**31)] | None = None
    max_result_bytes: Annotated[int, Field(ge=1, le=2**24)] = MAX_BUNDLE_BYTES


class _Custody(_Table):
    tests: list[PathPattern] = list(TESTS)
    gates: list[PathPattern] = list(GATES)


class _Excuse(_Table):
    id: Identifier
    check: Identifier
    names: Annotated[list[Annotated[str, Field(min_length=1, max_length=4_096)]], Field(min_length=1)]
    reason: Annotated[str, Field(min_length=1, max_length=4_096)]
    expires: date | None = None


class _Normaliser(_Table):
    id: Identifier
    command: CommandLine
    patterns: list[PathPattern] = ["**"]
    timeout_s: Annotated[int, Field(ge=1, le=3_600)] = 120


class _Prepare(_Table):
    id: Identifier
    command: CommandLine
    locks: Annotated[list[PathPattern], Field(min_length=1)]
    outputs: Annotated[list[PathPattern], Field(min_length=1)]
    network: Literal["none", "open"] = "none"
    timeout_s: Annotated[int, Field(ge=1, le=86_400)] = 1_200
    directory: PathPattern | None = None

    def config(self) -> PrepareConfig:
        """The step as it stands in a policy."""
        return PrepareConfig(
            id=self.id,
            argv=split_command(self.command),
            directory=self.directory,
            locks=as_set(self.locks),
            outputs=as_set(self.outputs),
            network=self.network,
            timeout_ms=self.timeout_s * 1000,
        )


class _Config(_Table):
    domain: Annotated[str, Field(min_length=1, max_length=200)]
    reuse: list[PathPattern] = [".venv", "node_modules"]
    environment: list[Identifier] = []
    forbidden: list[PathPattern] = []
    budgets: _Budgets = _Budgets()
    check: list[_Check] = []
    normaliser: list[_Normaliser] = []
    prepare: list[_Prepare] = []
    custody: _Custody = _Custody()
    excuse: list[_Excuse] = []
    judge: Judge = Judge()


def parse_config(data: dict[str, Any]) -> ProjectConfig:
    """The configuration of parsed TOML.

    :raises RefusedInput: ``refused.config`` naming the first wrong key.
    """
    try:
        model = _Config.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "the top level"
        raise refused_key(key, first["msg"]) from error
    for key, judge in _judgements(model):
        try:
            judge()
        except SavantError as error:
            raise refused_key(key, error.message) from error
    for name in ("check", "normaliser", "excuse", "prepare"):
        _verify_names(name, [row.id for row in getattr(model, name)])
    budgets = model.budgets
    return ProjectConfig(
        domain=model.domain,
        budgets=Budgets(
            retries=budgets.retries,
            replans=budgets.replans,
            provider_calls=budgets.calls,
            wall_clock_ms=budgets.wall_clock_minutes * MINUTE_MS,
            tokens=budgets.tokens,
            cost_microunits=budgets.cost_microunits,
        ),
        call=CallLimit(tokens_in=budgets.call_tokens_in, tokens_out=budgets.call_tokens_out),
        toolchain=tuple(model.reuse),
        environment=tuple(model.environment),
        forbidden=tuple(model.forbidden),
        checks=as_checks([check.model_dump() for check in model.check]),
        normalisers=tuple(
            NormaliserConfig(
                id=row.id,
                argv=split_command(row.command),
                patterns=as_set(row.patterns),
                timeout_ms=row.timeout_s * 1000,
            )
            for row in model.normaliser
        ),
        prepares=tuple(row.config() for row in model.prepare),
        judges=judges_of(model.judge),
        custody=Custody(tests=as_set(model.custody.tests), gates=as_set(model.custody.gates)),
        excuses=tuple(_excuse(row) for row in model.excuse),
        origin="repository",
    )


def _excuse(row: _Excuse) -> Excuse:
    return Excuse(
        id=row.id,
        evaluator=row.check,
        checks=as_set(row.names),
        reason=row.reason,
        expires=None if row.expires is None else row.expires.isoformat(),
    )


def _judgements(model: _Config) -> Iterator[tuple[str, Callable[[], object]]]:
    """What the types cannot say, by key: patterns are patterns, paths are paths inside, commands can be split."""
    for key, texts in (
        ("forbidden", model.forbidden),
        ("custody.tests", model.custody.tests),
        ("custody.gates", model.custody.gates),
        *patterns_of(model.judge),
        *((f"normaliser.{n}.patterns", row.patterns) for n, row in enumerate(model.normaliser)),
        *((f"prepare.{n}.locks", row.locks) for n, row in enumerate(model.prepare)),
    ):
        yield from ((f"{key}.{n}", partial(parse, text)) for n, text in enumerate(texts))
    places = [
        (f"check.{n}.{key}", path)
        for n, row in enumerate(model.check)
        for key, path in (("report", row.report), ("directory", row.directory))
        if path is not None
    ]
    places += [(f"reuse.{n}", path) for n, path in enumerate(model.reuse)]
    for n, step in enumerate(model.prepare):
        places += [(f"prepare.{n}.outputs.{m}", path) for m, path in enumerate(step.outputs)]
        places += [(f"prepare.{n}.directory", step.directory)] if step.directory is not None else []
    for key, path in places:
        yield key, partial(_verify_path, path)
    for name in ("check", "normaliser", "prepare"):
        for n, row in enumerate(getattr(model, name)):
            yield f"{name}.{n}.command", partial(split_command, row.command)
    for n in range(len(model.prepare)):
        yield f"prepare.{n}", partial(_verify_prepare, model.prepare[: n + 1])
    for n, row in enumerate(model.check):
        yield f"check.{n}", partial(_verify_check, row)
    known = {row.id for row in model.check}
    for n, excuse in enumerate(model.excuse):
        yield f"excuse.{n}.check", partial(_verify_known, excuse.check, known)


def _verify_check(row: _Check) -> None:
    """Return if a check could run as it is configured."""
    (config,) = as_checks([row.model_dump()])
    problem = report_problem(config)
    if problem is not None:
        raise RefusedInput("refused.config", problem)


def _verify_prepare(steps: Sequence[_Prepare]) -> None:
    """Return if the last of these steps could run as it is configured, beside those before it."""
    problem = next(prepare_problems([step.config() for step in steps]), None)
    if problem is not None:
        raise RefusedInput("refused.config", problem)


def _verify_known(name: str, known: set[str]) -> None:
    if name not in known:
        raise RefusedInput("refused.config", f"no check is called {name!r}")


def _verify_path(text: str) -> None:
    check_path(to_raw(text))


def _verify_names(table: str, ids: Sequence[str]) -> None:
    for n, id_ in enumerate(ids):
        if id_ in ids[:n] or (table == "check" and (id_ in BUILT_IN or id_.startswith("content-"))):
            raise refused_key(f"{table}.{n}.id", f"the name {id_!r} is taken")
