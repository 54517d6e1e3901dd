"""A command evaluator: a configured command on a fresh copy, its result read as exit status or JUnit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from evaluator.compare import Case
from evaluator.documents import EvaluatorConfig, EvaluatorOutcome
from evaluator.findings import check_name, located_findings, make_finding, normalise
from evaluator.formats.junit import MAX_REPORT_BYTES, parse_junit
from evaluator.toolchain import PROBE, Toolchain, interpreter_of, isolate, leaking_link
from providerport.port import BaseReader
from runner.materialize import materialise_tree
from savant.contracts.effects import Cancellation
from savant.contracts.errors import PortError, RefusedInput, SavantError, UsageError
from savant.files.atomic import remove_tree
from savant.files.paths import to_raw
from savant.files.tree import open_root, read_file_at
from savant.process.environment import allowed_environment
from savant.process.port import Command, Ended, Limits, ProcessRunner
from synthesis.documents import Finding

PROBE_TIMEOUT_MS: Final = 30_000
PROBE_BYTES: Final = 1024 * 1024
MAX_FILE_BYTES: Final = 2 * 1024 * 1024 * 1024
GRACE_MS: Final = 1_000
MAX_LOCATED: Final = 20
NO_TESTS_STATUS: Final = 5
"""pytest's exit status when it collected nothing."""


@dataclass(frozen=True, slots=True)
class CommandHost:
    """What command evaluators may use of the machine."""

    processes: ProcessRunner
    scratch: Path
    toolchain: Toolchain
    ambient: Mapping[str, str]
    environment: tuple[str, ...]
    cancellation: Cancellation


@dataclass(frozen=True, slots=True)
class Measured:
    """What one evaluator saw on one tree.

    :param cases: by check name; the evaluator's own overall check is among them.
    :param problem: why it did not run, when it did not.
    :param cleaned: whether the copy is gone.
    """

    outcome: EvaluatorOutcome
    cases: Mapping[str, Case]
    problem: str = ""
    duration_ms: int = 0
    cleaned: bool = True
    notes: tuple[str, ...] = field(default=())


def measure_command(config: EvaluatorConfig, tree: BaseReader, host: CommandHost) -> Measured:
    """Run a command evaluator on a fresh copy of a tree, and remove the copy.

    Anything that keeps it from running is ``unavailable``: it is never a pass.
    """
    cleaned = True
    try:
        executable = host.toolchain.resolve(config.argv[0])
    except UsageError as error:
        return _unavailable(config, error.message)
    try:
        with _directory(host.scratch) as place:
            surface, home = place / "surface", place / "home"
            surface.mkdir(mode=0o700)
            (home / "tmp").mkdir(mode=0o700, parents=True)
            materialise_tree(tree, surface)
            measured = _measure(config, executable, surface, home, host, frozenset(_text_paths(tree)))
    except (PortError, RefusedInput) as error:
        return _unavailable(config, error.message)
    cleaned = not place.exists()
    return Measured(measured.outcome, measured.cases, measured.problem, measured.duration_ms, cleaned, measured.notes)


@contextmanager
def _directory(scratch: Path) -> Iterator[Path]:
    try:
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix="check-", dir=scratch))
    except OSError as error:
        raise PortError("port.disk", f"No copy can be made in {scratch}: {error.strerror}.") from error
    try:
        yield place
    finally:
        remove_tree(place)


def _text_paths(tree: BaseReader) -> Iterator[str]:
    for path in tree.paths():
        try:
            yield path.decode("utf-8")
        except UnicodeDecodeError:
            continue


def _measure(
    config: EvaluatorConfig, executable: Path, surface: Path, home: Path, host: CommandHost, paths: frozenset[str]
) -> Measured:
    argv = (str(executable), *config.argv[1:])
    interpreter = interpreter_of(executable)
    extra: dict[str, str] = {"PATH": ":".join(str(folder) for folder in host.toolchain.bin_folders())}
    if interpreter is not None:
        ask = _Probe(host, surface, home, extra)
        is_module = interpreter == executable and config.argv[1:2] == ("-m",)
        isolation = isolate(interpreter, surface, ask, wants_root=is_module, checkout=host.toolchain.checkout)
        if isolation.problem is not None:
            return _unavailable(config, isolation.problem)
        extra.update(isolation.environment)
    problem = _link_modules(surface, host.toolchain)
    if problem is not None:
        return _unavailable(config, problem)
    ended = _run(argv, surface, home, extra, config, host)
    return _read(config, ended, surface, home, paths)


class _Probe:
    """Asks an interpreter in the environment of the check."""

    def __init__(self, host: CommandHost, surface: Path, home: Path, extra: Mapping[str, str]) -> None:
        self._host, self._surface, self._home, self._extra = host, surface, home, extra

    def __call__(self, interpreter: Path, stdin: bytes, environment: Mapping[str, str]) -> bytes | None:
        ended = self._host.processes.run(
            Command(
                argv=(str(interpreter), "-c", PROBE),
                cwd=self._surface,
                env=allowed_environment(
                    self._host.ambient,
                    self._host.environment,
                    self._home,
                    self._home / "tmp",
                    {**self._extra, **environment},
                ),
                limits=Limits(wall_ms=PROBE_TIMEOUT_MS, stdout_bytes=PROBE_BYTES, stderr_bytes=PROBE_BYTES, grace_ms=0),
                stdin=stdin,
            ),
            self._host.cancellation,
        )
        return ended.stdout if ended.is_success else None


def _link_modules(surface: Path, toolchain: Toolchain) -> str | None:
    """Make ``node_modules`` reachable from the copy; why that cannot be done safely, or None."""
    if toolchain.checkout is None or "node_modules" not in toolchain.folders:
        return None
    folder = toolchain.checkout / "node_modules"
    if not folder.is_dir() or (surface / "node_modules").exists():
        return None
    leaking = leaking_link(folder, toolchain.checkout)
    if leaking is not None:
        return f"node_modules/{leaking} is a link into the checkout, so the checkout would be judged"
    (surface / "node_modules").symlink_to(folder)
    return None


def _run(
    argv: tuple[str, ...],
    surface: Path,
    home: Path,
    extra: Mapping[str, str],
    config: EvaluatorConfig,
    host: CommandHost,
) -> Ended:
    return host.processes.run(
        Command(
            argv=argv,
            cwd=surface,
            env=allowed_environment(host.ambient, host.environment, home, home / "tmp", extra),
            limits=Limits(
                wall_ms=config.timeout_ms,
                stdout_bytes=config.max_capture_bytes,
                stderr_bytes=config.max_capture_bytes,
                grace_ms=GRACE_MS,
                file_bytes=MAX_FILE_BYTES,
            ),
        ),
        host.cancellation,
    )


def _read(config: EvaluatorConfig, ended: Ended, surface: Path, home: Path, paths: frozenset[str]) -> Measured:
    """The cases of a command that ended; one that did not end by itself did not run."""
    match ended.verdict:
        case "timed-out":
            return _unavailable(config, f"it did not end within {config.timeout_ms} ms", outcome="timed-out")
        case "cancelled":
            return _unavailable(config, "it was cancelled", outcome="cancelled")
        case "output-limit":
            return _unavailable(config, f"it wrote more than {config.max_capture_bytes} bytes")
        case "spawn-error":
            return _unavailable(config, ended.detail or "it could not be started")
        case "signaled":
            return _unavailable(config, f"it was ended by signal {ended.signal}")
        case "exited":
            pass
    if not ended.is_quiescent:
        return _unavailable(config, f"{ended.remaining} of its processes could not be ended")
    surfaces = (str(surface), str(surface.resolve()), str(home))
    output = normalise((ended.stdout + b"\n" + ended.stderr).decode("utf-8", "replace"), surfaces)
    if config.result_format == "junit":
        cases = _junit(config, surface, surfaces, paths)
        if isinstance(cases, str):
            return _unavailable(config, cases, duration_ms=ended.duration_ms)
    else:
        cases = {}
    cases[config.id] = _overall(config, ended, output, paths, has_cases=bool(cases))
    return Measured("completed", cases, duration_ms=ended.duration_ms)


def _overall(config: EvaluatorConfig, ended: Ended, output: str, paths: frozenset[str], *, has_cases: bool) -> Case:
    if ended.exit_status == 0:
        return Case("passed")
    message = f"exit status {ended.exit_status}"
    if has_cases:
        return Case("failed", (make_finding(config.id, "failed", message, "", paths=paths),))
    located = located_findings(config.id, output, paths=paths, limit=MAX_LOCATED)
    return Case("failed", located or (make_finding(config.id, "failed", message, output, paths=paths),))


def _junit(
    config: EvaluatorConfig, surface: Path, surfaces: tuple[str, ...], paths: frozenset[str]
) -> dict[str, Case] | str:
    """The cases of the report that the command left in its copy, or why there are none."""
    try:
        with open_root(surface) as root:
            raw = read_file_at(root, to_raw(config.report_path or ""), max_bytes=MAX_REPORT_BYTES)
        found = parse_junit(raw)
    except SavantError as error:
        return f"it left no JUnit report: {error.message}"
    if not found:
        return "it ran no test"
    cases: dict[str, Case] = {}
    for case in found:
        name = check_name(config.id, case.classname, case.name)
        findings: tuple[Finding, ...] = ()
        if case.status == "failed":
            message, text = normalise(case.message, surfaces), normalise(case.text, surfaces)
            findings = (make_finding(name, "failed", message, text, paths=paths),)
        cases[name] = Case(case.status, findings)
    return cases


def _unavailable(
    config: EvaluatorConfig, why: str, *, outcome: EvaluatorOutcome = "unavailable", duration_ms: int = 0
) -> Measured:
    finding = make_finding(config.id, "unavailable", f"DID NOT RUN: {why}", "", paths=frozenset())
    return Measured(outcome, {config.id: Case("unavailable", (finding,))}, why, duration_ms)
