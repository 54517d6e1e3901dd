"""A small git repository, its snapshot and workspace, and requests of a session over it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from commandprovider import ToolHost
from providerport.documents import Prior, Request
from providerport.port import Call, Usage
from runner.snapshot import BaseSnapshot
from runner.workspace import CandidateWorkspace
from savant.contracts.containment import Containment, weakest
from savant.contracts.document import Sealed, digest_of, seal
from savant.process.effects import ThreadCancellation
from savant.process.posix import SupervisedRunner
from savant.repository.git import Repository
from synthesis.documents import Budgets, Interpretation, Operation, Session

ZERO = "blake3:" + "0" * 64
SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
GIT_ENV = {
    "PATH": SEARCH_PATH,
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.test",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.test",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}


def git(directory: Path, *arguments: str) -> str:
    """Run git as a person would, without anybody's configuration."""
    done = subprocess.run(["git", *arguments], cwd=directory, env=GIT_ENV, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@dataclass
class Notes:
    """An observer that keeps what it hears."""

    lines: list[str] = field(default_factory=list)
    survivors: int = 0
    remaining: int = 0
    containment: Containment | None = None

    def note(self, text: str) -> None:
        self.lines.append(text)

    def usage(self, usage: Usage) -> None:
        self.lines.append(f"usage {usage}")

    def processes(self, *, survivors: int, remaining: int, containment: Containment | None = None) -> None:
        self.survivors += survivors
        self.remaining += remaining
        self.containment = weakest((self.containment, containment))


@pytest.fixture
def repository_path(tmp_path: Path) -> Path:
    """A repository with one commit of a few files."""
    path = tmp_path / "repo"
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    (path / "a.txt").write_bytes(b"one\ntwo\n")
    (path / "pkg").mkdir()
    (path / "pkg" / "b.txt").write_bytes(b"bee\n")
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "base")
    return path


@pytest.fixture
def snapshot(repository_path: Path) -> Iterator[BaseSnapshot]:
    with Repository.open(repository_path) as repository:
        yield BaseSnapshot.take(repository, repository.resolve_commit("HEAD"), cache=None)


@pytest.fixture
def workspace(snapshot: BaseSnapshot, tmp_path: Path) -> Iterator[CandidateWorkspace]:
    scratch = tmp_path / "ws"
    scratch.mkdir()
    made = CandidateWorkspace(snapshot, scratch)
    yield made
    made.close()
    made.dispose()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[ToolHost]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with SupervisedRunner(scratch) as processes:
        yield ToolHost(
            processes=processes,
            scratch=scratch / "homes",
            ambient={"SECRET": "hush", "WANTED": "yes"},
            search_path=SEARCH_PATH,
        )


@pytest.fixture
def session(snapshot: BaseSnapshot) -> Session:
    document = snapshot.document.document
    return Session(
        repository_domain="example.test/repo",
        workspace_digest=ZERO,
        task_digest=ZERO,
        graph_digest=ZERO,
        closure_digest=ZERO,
        base_commit=document.base_commit,
        base_manifest_digest=document.base_manifest_digest,
        evaluator_policy_digest=ZERO,
        admission_policy_digest=ZERO,
        driver_policy_digest=ZERO,
        provider_config_digest=ZERO,
        objective="Tidy up",
        budgets=Budgets(
            retries=1, replans=1, provider_calls=None, wall_clock_ms=None, tokens=None, cost_microunits=None
        ),
        retryable_outcomes=(),
        proof_obligations=(),
    )


@pytest.fixture
def request_for(session: Session) -> Callable[..., Sealed[Request]]:
    def make(
        operation: Operation,
        *,
        prior: Prior | None = None,
        interpretation: Interpretation | None = None,
        deadline_ms: int = 20_000,
        scope: tuple[str, ...] = (),
    ) -> Sealed[Request]:
        return seal(
            Request(
                operation=operation,
                session_digest=digest_of(session),
                repository_domain=session.repository_domain,
                base_commit=session.base_commit,
                base_manifest_digest=session.base_manifest_digest,
                parent_digest=digest_of(session),
                generation=None if operation == "interpretation" else 1,
                attempt_number=1 if operation == "generation" else None,
                scope=scope,
                deadline_ms=deadline_ms,
                max_observations=50,
                max_observation_bytes=4096,
                prior=prior,
                session=session if operation == "interpretation" else None,
                interpretation=interpretation,
                plan=None,
                attempt=None,
                audit=None,
            )
        )

    return make


@pytest.fixture
def call_of(workspace: CandidateWorkspace, snapshot: BaseSnapshot) -> Callable[..., Call]:
    def make(request: Sealed[Request], *, cancelled: bool = False) -> Call:
        cancellation = ThreadCancellation()
        if cancelled:
            cancellation.set()
        return Call(
            request=request,
            observer=Notes(),
            cancellation=cancellation,
            base=snapshot,
            workspace=workspace if request.document.operation == "generation" else None,
        )

    return make


def with_promise(interpretation: Interpretation, *obligations: str) -> Interpretation:
    """The interpretation with these proof obligations."""
    return replace(interpretation, required_proof_obligations=obligations)
