"""``init`` and ``doctor``: what a project has, and what a run would need."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from savant.cli.exits import EXITS
from savant.cli.options import format_option, repository_option
from savant.cli.render import Output, table
from savant.contracts.errors import RefusedInput, SavantError, UsageError

if TYPE_CHECKING:
    from driver.onboarding import FoundCheck
    from savant.cli.workbench import Workbench

MAX_READ = 1024 * 1024


@click.command("init", help="Write commented .savant files to review and commit. Overwrites nothing.")
@repository_option
@click.option("--domain", help="The repository's name in receipts (default: proposed from the folder).")
@click.option("--try-checks/--no-try-checks", default=True, help="Run each check that was found once on the base.")
@click.option("--ci", type=click.Choice(["github", "gitlab"]), help="Write a pipeline that asks the gate, too.")
@click.option("--hook", is_flag=True, help="Write a pre-push hook that asks the gate, too.")
@format_option
def init(repo: str, domain: str | None, try_checks: bool, ci: str | None, hook: bool, format_: str) -> int:
    """Write ``.savant/config.toml`` and ``.savant/policy.toml`` where there are none, and what else was asked for."""
    from admission.policy import policy_toml, starter_policy
    from driver.onboarding import config_toml, find_checks, find_normalisers
    from savant.cli.workbench import Workbench
    from savant.files.atomic import create_only

    output = Output(as_json=format_ == "json")
    with Workbench(repo) as bench:
        root = _need_checkout(bench.checkout)
        checks, normalisers = find_checks(_reader(root)), find_normalisers(_reader(root))
        folder = root / ".savant"
        files = {
            "config.toml": config_toml(domain or root.name, checks, normalisers),
            "policy.toml": policy_toml(starter_policy()),
        }
        if folder.is_symlink():
            raise RefusedInput(
                "refused.init-link",
                f"{folder} is a link.",
                untouched="Nothing was written.",
                fix="Replace it by a folder, then run savant init again.",
            )
        kept = [name for name in files if (folder / name).exists()]
        folder.mkdir(exist_ok=True)
        written = []
        for name, text in files.items():
            if name not in kept:
                create_only(folder / name, text.encode("utf-8"), 0o644)
                written.append(name)
        for place, name, text, executable in _others(bench, root, ci, hook):
            (written if _is_written(place, name, text, executable=executable) else kept).append(name)
        tried = _try_checks(bench, checks) if try_checks else {}
    output.document(
        "init",
        "ok",
        0,
        {
            "written": written,
            "kept": kept,
            "checks": [{"id": c.id, "command": c.command, "base": tried.get(c.id, "not-tried")} for c in checks],
            "normalisers": [n.id for n in normalisers],
        },
    )
    if not output.as_json:
        output.say(*(f"wrote {_shown(name, files)}" for name in written))
        output.say(*(f"kept {_shown(name, files)}: it was there" for name in kept))
        for check in checks:
            state = tried.get(check.id, "not tried")
            output.say(f"check {check.id}: {check.command} (seen in {check.seen_in}); on the base: {state}")
        if not checks:
            output.say("no test command was found: without one every candidate waits for a person")
        output.say(*(f"formatter {n.id}: {n.command} (from the pre-commit configuration)" for n in normalisers))
        output.say("", "Review them, then: git add .savant && git commit", "They are in force once they are committed.")
    return 0


def _others(bench: Workbench, root: Path, ci: str | None, hook: bool) -> Iterator[tuple[Path, str, str, bool]]:
    """What is written beside the rules: the folder, the path below it, the text, whether it runs."""
    from savant.cli.app import VERSION
    from savant.cli.workflows import PIPELINES, PRE_PUSH

    if ci is not None:
        pipeline = PIPELINES[ci]
        yield root, pipeline.path, pipeline.text(VERSION), pipeline.executable
    if hook:
        yield bench.repository.common_dir, PRE_PUSH.path, PRE_PUSH.text(VERSION), PRE_PUSH.executable


def _is_written(folder: Path, name: str, text: str, *, executable: bool) -> bool:
    """Write a file that is not there, through no link.

    Errors as writing a file.
    """
    from savant.files.tree import lstat_at, mkdirs_at, open_root, write_file_at

    raw = name.encode("ascii")
    with open_root(folder) as top:
        mkdirs_at(top, raw.rpartition(b"/")[0], sync=False)
        if lstat_at(top, raw) is not None:
            return False
        write_file_at(top, raw, text.encode("utf-8"), executable=executable, sync=True, exclusive=True)
    return True


def _shown(name: str, rules: Container[str]) -> str:
    return f".savant/{name}" if name in rules else name


def _try_checks(bench: Workbench, checks: tuple[FoundCheck, ...]) -> dict[str, str]:
    """Run each check once on a fresh copy of the base; how it ended, in a word."""
    from driver.config import check_config
    from evaluator.checks.command import measure_command
    from evaluator.checks.place import CommandHost
    from evaluator.toolchain import Toolchain
    from runner.snapshot import BaseSnapshot

    snapshot = BaseSnapshot.take(bench.repository, bench.repository.resolve_commit("HEAD"), cache=bench.cache)
    search = tuple(Path(entry) for entry in bench.places.search_path.split(":"))
    host = CommandHost(
        processes=bench.processes,
        scratch=bench.scratch / "trial",
        toolchain=Toolchain(bench.checkout, (".venv", "node_modules"), search),
        ambient=bench.places.environment,
        environment=(),
        cancellation=bench.cancellation,
        sight=bench.sight,
    )
    tried = {}
    for check in checks:
        config = check_config(check.command, rule="all-pass", id_=check.id)
        measured = measure_command(config, snapshot, host)
        case = measured.cases.get(check.id)
        tried[check.id] = f"DID NOT RUN: {measured.problem}" if measured.problem or case is None else case.status
    return tried


def _need_checkout(checkout: Path | None) -> Path:
    if checkout is None:
        raise UsageError("usage.bare", "A bare repository has no working tree to write .savant into.")
    return checkout


def _reader(root: Path) -> Callable[[str], bytes | None]:
    from savant.files.atomic import read_optional

    def read(name: str) -> bytes | None:
        try:
            return read_optional(root / name, max_bytes=MAX_READ)
        except SavantError:
            return None

    return read


class Finding(msgspec.Struct, frozen=True):
    """One thing that doctor looked at; ``needed``: without it something does not run at all."""

    name: str
    ready: bool
    detail: str
    fix: str
    needed: bool = True


@click.command("doctor", help="Say what is here and what is missing, with the command that supplies it.")
@repository_option
@format_option
def doctor(repo: str, format_: str) -> int:
    """Look at git, the repository, the ledger, the sandbox level and the checks."""
    output = Output(as_json=format_ == "json")
    findings = _examine(repo)
    ending = "ok" if all(f.ready for f in findings if f.needed) else "not-ready"
    code = EXITS[ending].code
    output.document(
        "doctor",
        ending,
        code,
        {"findings": [{"name": f.name, "ready": f.ready, "detail": f.detail, "fix": f.fix} for f in findings]},
    )
    if not output.as_json:
        output.say(*table(("ok" if f.ready else "MISSING", f.name, f.detail) for f in findings))
        output.say(*(f"  {f.name}: {f.fix}" for f in findings if not f.ready and f.fix))
    return code


def _examine(repo: str) -> list[Finding]:
    from driver.onboarding import find_checks
    from savant.cli.places import find_places
    from savant.cli.workbench import Workbench, find_tool

    places = find_places()
    findings = [
        Finding(
            "git",
            find_tool(places, "git") is not None,
            str(find_tool(places, "git") or "not on PATH"),
            "Install git 2.36 or later.",
        )
    ]
    try:
        with Workbench(repo) as bench:
            commit = bench.repository.resolve_commit("HEAD")
            findings.append(Finding("repository", True, f"{bench.repository.common_dir}, HEAD {commit[:17]}", ""))
            findings.append(
                Finding(
                    "ledger",
                    True,
                    str(bench.directory) if bench.has_ledger() else "none yet; the first run makes it",
                    "",
                )
            )
            checkout = bench.checkout
            checks = () if checkout is None else find_checks(_reader(checkout))
            found = "; ".join(check.command for check in checks)
            findings.append(
                Finding(
                    "checks", bool(checks), found or "no test command found", 'Pass one: savant run --check "COMMAND"'
                )
            )
            findings.extend(_prepares(bench, commit))
            findings.extend(_sandbox(bench))
    except SavantError as error:
        findings.append(Finding("repository", False, error.message, error.fix))
    return findings


def _prepares(bench: Workbench, commit: str) -> Iterator[Finding]:
    """The steps that prepare folders for the checks of the base, and which of them has the network."""
    from driver.prepare import read_rules
    from evaluator.locks import step_words
    from evaluator.toolchain import Toolchain, without_checkout
    from runner.snapshot import BaseSnapshot

    try:
        steps = read_rules(BaseSnapshot.take(bench.repository, commit, cache=None)).config.prepares
    except SavantError as error:
        yield Finding("configuration", False, error.message, error.fix)
        return
    tools = without_checkout(Toolchain(bench.checkout, (), bench.search_folders))
    for number, step in enumerate(steps):
        try:
            if number == 0:
                tools.resolve(step.argv[0])
        except SavantError as error:
            yield Finding("prepare", False, f"{step_words(step)}: {error.message}", error.fix)
        else:
            yield Finding("prepare", True, step_words(step), "")


def _sandbox(bench: Workbench) -> Iterator[Finding]:
    """The level that commands get here, what is active, and what keeps it from more, with the command that helps."""
    from admission.policy import SANDBOXES
    from savant.cli.containing import network_words, offer_words
    from savant.contracts.containment import level_words

    offer = bench.processes.offer()
    detail = f"{offer_words(offer)}; {network_words(offer, ())}"
    is_enough = offer.level >= SANDBOXES.agent
    yield Finding(
        "sandbox", is_enough, detail, f"Agents need {level_words(SANDBOXES.agent)}; recipes run.", needed=False
    )
    for missing in offer.missing:
        yield Finding(f"sandbox: {missing.name}", False, missing.why, missing.fix, needed=False)
