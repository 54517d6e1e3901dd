"""A command evaluator: a configured command on a fresh copy, its result read as exit status, JUnit, SARIF or TAP."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import replace

from evaluator.checks.place import CheckPlace, CommandHost
from evaluator.compare import Case
from evaluator.documents import EvaluatorConfig, EvaluatorOutcome, ResultFormat
from evaluator.findings import check_name, located_findings, make_finding, normalise_name
from evaluator.formats.cases import MAX_REPORT_BYTES, Clean, TestCase, is_worse
from evaluator.formats.junit import parse_junit
from evaluator.formats.sarif import parse_sarif
from evaluator.formats.tap import parse_tap
from evaluator.isolation import isolate, source_roots
from evaluator.toolchain import interpreters_of, python_options
from providerport.port import BaseReader
from runner.materialize import materialise_tree
from savant.contracts.containment import Containment
from savant.contracts.errors import PortError, SavantError, UsageError
from savant.files.atomic import remove_tree
from savant.files.paths import to_raw
from savant.files.tree import open_root, read_file_at, unlink_at
from savant.process.port import Ended, Limits
from synthesis.documents import Finding

MAX_FILE_BYTES: Final = 2 * 1024 * 1024 * 1024
GRACE_MS: Final = 1_000
MAX_LOCATED: Final = 20
NO_TESTS_STATUS: Final = 5
"""pytest's exit status when it collected nothing."""


class Format(msgspec.Struct, frozen=True):
    """How a report is read; ``lists_failures``: it tells only what failed, so one without a case is a result too."""

    title: str
    parse: Callable[[bytes, Clean], tuple[TestCase, ...]]
    lists_failures: bool = False


FORMATS: Final[Mapping[ResultFormat, Format]] = MappingProxyType(
    {
        "junit": Format("JUnit", lambda raw, _: parse_junit(raw)),
        "sarif": Format("SARIF", parse_sarif, lists_failures=True),
        "tap": Format("TAP", lambda raw, _: parse_tap(raw)),
    }
)
"""The formats of a report; a command without one is judged by its exit status."""


class Measured(msgspec.Struct, frozen=True):
    """What one evaluator saw on one tree.

    :param cases: by check name; the evaluator's own overall check is among them.
    :param problem: why it did not run, when it did not.
    :param cleaned: whether the copy is gone.
    :param materialised: False when the tree itself could not be laid out.
    :param started: whether the command itself ran, so that how it ended may be the tree's doing.
    :param containment: the weakest that one of its commands had; None if none ran.
    :param lost: why earlier runs of it on the same tree gave nothing.
    :param is_kept: whether an earlier run saw it.
    :param is_unprepared: whether it did not run because what it needs could not be made from the tree.
    """

    outcome: EvaluatorOutcome
    cases: Mapping[str, Case]
    problem: str = ""
    duration_ms: int = 0
    cleaned: bool = True
    materialised: bool = True
    started: bool = False
    containment: Containment | None = None
    lost: tuple[str, ...] = ()
    is_kept: bool = False
    is_unprepared: bool = False


def measure_command(config: EvaluatorConfig, tree: BaseReader, host: CommandHost) -> Measured:
    """Run a command evaluator on a fresh copy of a tree, and remove the copy.

    Anything that keeps it from running is ``unavailable``: it is never a pass. Raises only for our own bugs.
    """
    try:
        executable = host.toolchain.resolve(config.argv[0])
    except UsageError:
        return unavailable(config, f"the tool {config.argv[0]!r} was not found; install it or name its absolute path")
    try:
        host.scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix="check-", dir=host.scratch)).resolve()
    except OSError as error:
        return replace(unavailable(config, f"no copy could be made: {error.strerror}"), materialised=False)
    try:
        check = CheckPlace(config, executable, place, host, host.processes.level)
        measured = _on_copy(check, tree)
    finally:
        cleaned = _is_removed(place)
    return replace(measured, cleaned=cleaned, containment=check.containment)


def _is_removed(place: Path) -> bool:
    try:
        remove_tree(place)
    except PortError:
        return False
    return True


def _on_copy(check: CheckPlace, tree: BaseReader) -> Measured:
    try:
        for folder in (check.surface, check.home, check.home / "tmp", check.absent):
            folder.mkdir(mode=0o700)
        materialise_tree(tree, check.surface)
        _remove_report(check)
        check.make_room()
    except (OSError, SavantError) as error:
        why = check.words(error.message if isinstance(error, SavantError) else str(error.strerror))
        return replace(unavailable(check.config, f"its copy could not be made: {why}"), materialised=False)
    try:
        paths = frozenset(_text_paths(tree))
        extra = _isolated(check, paths)
        problem = extra if isinstance(extra, str) else check.link_packages()
        if isinstance(extra, str) or problem is not None:
            return unavailable(check.config, str(problem))
        limits = Limits(
            wall_ms=check.config.timeout_ms,
            stdout_bytes=check.config.max_capture_bytes,
            stderr_bytes=check.config.max_capture_bytes,
            grace_ms=GRACE_MS,
            file_bytes=MAX_FILE_BYTES,
        )
        start = check.config.directory
        if start is not None and not check.is_folder(start):
            return unavailable(check.config, f"the tree has no folder {start!r} to start in")
        argv = (str(check.executable), *check.config.argv[1:])
        return _read(check, check.run(argv, extra, limits, directory=start), paths)
    except (PortError, UsageError) as error:
        return unavailable(check.config, check.words(error.message))
    except OSError as error:
        return unavailable(check.config, check.words(f"its folders could not be read: {error.strerror}"))


def _remove_report(check: CheckPlace) -> None:
    """A report that came with the tree is no result of this run."""
    if check.config.report_path is not None:
        with open_root(check.surface) as root:
            unlink_at(root, to_raw(check.config.report_path), sync=False, missing_ok=True)


def _text_paths(tree: BaseReader) -> Iterator[str]:
    for path in tree.paths():
        try:
            yield path.decode("utf-8")
        except UnicodeDecodeError:
            continue


def _isolated(check: CheckPlace, paths: frozenset[str]) -> Mapping[str, str] | str:
    """The environment in which every Python that the tool may use judges the copy; or why there is none."""
    toolchain = check.toolchain
    if not any(path.endswith(".py") for path in paths):
        return {}
    try:
        interpreters = interpreters_of(check.executable, check.config.argv[1:], toolchain)
    except UsageError as error:
        return error.message
    wanted: tuple[str, ...] = ()
    start = check.config.directory
    if interpreters and interpreters[0].path == check.executable:
        wanted = _wanted(check.seen_at / (start or "."), python_options(check.config.argv[1:])[1])
    environment: Mapping[str, str] = {}
    for interpreter in interpreters:
        isolation = isolate(
            interpreter,
            check.surface,
            check.ask,
            toolchain,
            check.absent,
            wanted=wanted,
            seen_at=check.stands_for,
            hides_checkout=check.level in {"S1", "S2"},
            roots=source_roots(start),
        )
        if isolation.problem is not None:
            return isolation.problem
        environment = isolation.environment
        wanted = tuple(environment.get("PYTHONPATH", "").split(os.pathsep)) if environment else ()
    return environment


def _wanted(start: Path, runs: str | None) -> tuple[str, ...]:
    """What a Python puts first on its path by itself, and does not while PYTHONSAFEPATH is set."""
    if runs is None or runs.startswith("/"):
        return ()
    return (str(start if runs in ("-m", "-") else (start / runs).parent),)


def _read(check: CheckPlace, ended: Ended, paths: frozenset[str]) -> Measured:
    """The cases of a command that ended; one that did not end by itself did not run."""
    config = check.config
    if ended.verdict == "cancelled":
        return unavailable(config, "it was cancelled", outcome="cancelled")
    if ended.verdict == "spawn-error":
        return unavailable(config, check.words(ended.detail or "it could not be started"))
    output = check.words((ended.stdout + b"\n" + ended.stderr).decode("utf-8", "replace"))
    told = _no_result(config, ended) or _told(check, ended, paths)
    if isinstance(told, str):
        outcome: EvaluatorOutcome = "timed-out" if ended.verdict == "timed-out" else "unavailable"
        lost = unavailable(config, told, outcome=outcome, output=output, paths=paths)
        return replace(lost, duration_ms=ended.duration_ms, started=True)
    is_shown = any(case.status == "failed" for case in told.values())
    cases = {**told, config.id: _overall(config, ended, output, paths, is_shown=is_shown)}
    return Measured("completed", cases, duration_ms=ended.duration_ms, started=True)


def _no_result(config: EvaluatorConfig, ended: Ended) -> str | None:
    """Why the way it ended says nothing about the tree; None when it does."""
    match ended.verdict:
        case "timed-out":
            return f"it did not end within {config.timeout_ms} ms"
        case "output-limit":
            return f"it wrote more than {config.max_capture_bytes} bytes"
        case "signaled":
            return f"it was ended by signal {ended.signal}"
        case _:
            pass
    if not ended.is_quiescent:
        return f"{ended.remaining} of its processes could not be ended"
    if config.result_format == "exit-status" and ended.exit_status == NO_TESTS_STATUS and _is_pytest(config.argv):
        return "it ran no test"
    return None


def _is_pytest(argv: tuple[str, ...]) -> bool:
    names = {"pytest", "py.test"}
    return Path(argv[0]).name in names or (python_options(argv[1:])[1] == "-m" and not names.isdisjoint(argv))


def _overall(config: EvaluatorConfig, ended: Ended, output: str, paths: frozenset[str], *, is_shown: bool) -> Case:
    """The command's own check; where no case shows why it failed, its output does."""
    if ended.exit_status == 0:
        return Case("passed")
    message = f"exit status {ended.exit_status}"
    if is_shown:
        return Case("failed", (make_finding(config.id, "failed", message, "", paths=paths),))
    located: tuple[Finding, ...] = ()
    if config.result_format == "exit-status":
        located = located_findings(config.id, output, paths=paths, limit=MAX_LOCATED)
    return Case("failed", located or (make_finding(config.id, "failed", message, output, paths=paths),))


def _told(check: CheckPlace, ended: Ended, paths: frozenset[str]) -> dict[str, Case] | str:
    """The cases of the report that the command left in its copy or wrote, or why there are none."""
    config = check.config
    form = FORMATS.get(config.result_format)
    if form is None:
        return {}
    try:
        raw = ended.stdout
        if config.report_path is not None:
            with open_root(check.surface) as root:
                raw = read_file_at(root, to_raw(config.report_path), max_bytes=MAX_REPORT_BYTES)
        found = form.parse(raw, check.words)
    except SavantError as error:
        return f"it left no {form.title} report: {check.words(error.message)}"
    if not found and not form.lists_failures:
        return "it ran no test"
    cases: dict[str, Case] = {}
    told: dict[str, int] = {}
    for case in found:
        words = normalise_name(case.classname, check.places), normalise_name(case.name, check.places)
        name = check_name(config.id, *words)
        told[name] = told.get(name, 0) + 1
        if told[name] > 1:
            name = check_name(config.id, *words, f"+{told[name]}")
        findings: tuple[Finding, ...] = ()
        if case.status == "failed":
            findings = (make_finding(name, "failed", check.words(case.message), check.words(case.text), paths=paths),)
        if name not in cases or is_worse(case.status, cases[name].status):
            cases[name] = Case(case.status, findings)
    return cases


def unavailable(
    config: EvaluatorConfig,
    why: str,
    *,
    outcome: EvaluatorOutcome = "unavailable",
    output: str = "",
    paths: frozenset[str] = frozenset(),
) -> Measured:
    """An evaluator that did not run, and why; with the end of what it wrote, where it wrote something."""
    finding = make_finding(config.id, "unavailable", f"DID NOT RUN: {why}", output, paths=paths)
    return Measured(outcome, {config.id: Case("unavailable", (finding,))}, why)
