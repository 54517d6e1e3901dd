"""A whole run through the command line, its records, and ways to rewrite them as a forger would."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from admission.policy import policy_toml, starter_policy
from driver.history import HistoryEntry, RunHistory, list_runs, read_runs
from driver.replay import ReplayReport, replay_run
from driver.replay_evidence import Evidence
from runner.snapshot import BaseSnapshot
from savant.cli.app import run_command
from savant.cli.kinds import registry
from savant.contracts.document import Document, Sealed, seal
from savant.ledger.ed25519 import Ed25519Verifier
from savant.ledger.sqlitestore import SqliteStore
from savant.ledger.verify import CHECKS, CheckResult, VerificationReport
from savant.repository.git import Repository
from savant.repository.sample import create_sample
from savant.store.objects import FileObjectStore

REGISTRY = registry()
CONFIG = b'domain = "example.org/shop"\n'
POLICY = policy_toml(starter_policy()).encode("utf-8")
FILES: Mapping[str, bytes] = {
    ".savant/config.toml": CONFIG,
    ".savant/policy.toml": POLICY,
    "a.py": b"a = 1\n",
    "b.py": b"b = 1\n",
}
"""A repository with rules of its own, so that the gate accepts what they admit."""

RUN = (
    "run",
    "Make a two",
    "--scope",
    "a.py",
    "--recipe",
    "sed -i s/1/3/ a.py",
    "--on-failure",
    "grep-2=sed -i s/3/2/ a.py",
    "--must-pass",
    "grep -q 2 a.py",
    "--requester",
    "Ada",
    "--quiet",
)
"""The first attempt makes it a three and is sent back; the second one makes it a two."""


class Recorded(msgspec.Struct, frozen=True):
    """A repository in which one run was recorded."""

    repo: Path
    home: Path

    @property
    def directory(self) -> Path:
        return self.repo / ".git" / "savant"

    def command(self, *arguments: object) -> int:
        return run_command([str(argument) for argument in arguments])

    def history(self, run: str | None = None) -> RunHistory:
        store = SqliteStore(self.directory)
        with FileObjectStore(self.directory / "objects") as objects:
            lines = list(store.lines(0, store.tail().size))
            store.close()
            wanted = run or list_runs(lines)[-1]
            return next(iter(read_runs(lines, REGISTRY, objects, only=wanted)))


def record_run(
    root: Path, files: Mapping[str, bytes] = FILES, run: tuple[str, ...] = RUN, *, expected: int = 0
) -> Recorded:
    """Make a repository and record one run in it, admitted unless another exit code is expected."""
    repo = root / "repo"
    create_sample(repo, files, message="base")
    recorded = Recorded(repo, root / "home")
    code = recorded.command(*run, "--repo", repo)
    assert code == expected, code
    return recorded


def git(repo: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-C", str(repo), *arguments],
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout.strip()


INTACT = VerificationReport(
    "verified",
    "blake3:" + "1" * 64,
    "SHA256:x",
    3,
    3,
    None,
    b"",
    (),
    tuple(CheckResult(name, "pass", None, None, None) for name in CHECKS),
)


def replay(
    recorded: Recorded,
    history: RunHistory,
    *,
    ledger: VerificationReport | None = INTACT,
    store: Any = "beside",
    has_base: bool = True,
) -> ReplayReport:
    """Replay a history against the repository and objects of a recorded run."""
    with Repository.open(recorded.repo) as repository, FileObjectStore(recorded.directory / "objects") as objects:

        def base(commit: str) -> BaseSnapshot:
            return BaseSnapshot.take(repository, commit, cache=None)

        evidence = Evidence(
            history, base if has_base else None, objects if store == "beside" else store, Ed25519Verifier()
        )
        return replay_run(evidence, ledger)


def forge(
    history: RunHistory, type_: type[Document], change: Callable[[Any], Document], *, nth: int = -1
) -> RunHistory:
    """The history with one document changed, and every digest of it, and of what names it, changed everywhere."""
    places = [i for i, entry in enumerate(history.entries) if isinstance(entry.body.document, type_)]
    entries = list(history.entries)
    place = places[nth]
    old = entries[place].body
    entries[place] = with_body(entries[place], seal(change(old.document)))
    renamed = {old.digest: entries[place].body.digest}
    while True:
        again = dict(renamed)
        for i, entry in enumerate(entries):
            raw = entry.body.raw
            for before, after in renamed.items():
                raw = raw.replace(before.encode(), after.encode())
            if raw != entry.body.raw:
                body = REGISTRY.accept(raw)
                again[entry.body.digest] = body.digest
                entries[i] = with_body(entry, body)
        if again == renamed:
            return RunHistory(history.run_id, entries)
        renamed = again


def replace_body(
    history: RunHistory, type_: type[Document], change: Callable[[Any], Document], *, nth: int = -1
) -> RunHistory:
    """The history with one document changed and nothing else."""
    places = [i for i, entry in enumerate(history.entries) if isinstance(entry.body.document, type_)]
    entries = list(history.entries)
    entries[places[nth]] = with_body(entries[places[nth]], seal(change(entries[places[nth]].body.document)))
    return RunHistory(history.run_id, entries)


def without(history: RunHistory, type_: type[Document], *, nth: int = -1) -> RunHistory:
    """The history without one document."""
    places = [i for i, entry in enumerate(history.entries) if isinstance(entry.body.document, type_)]
    return RunHistory(history.run_id, [entry for i, entry in enumerate(history.entries) if i != places[nth]])


def with_body(entry: HistoryEntry, body: Sealed[Document]) -> HistoryEntry:
    return HistoryEntry(entry.seq, entry.role, entry.kind, body, entry.observed)


def changed(**members: Any) -> Callable[[Any], Document]:
    """A change of a document's members."""
    return lambda document: structs.replace(document, **members)
