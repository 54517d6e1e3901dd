"""What the runner's tests share: a real repository, a base in memory, a session that is ready for an attempt."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from hypothesis import strategies as st

from providerport.documents import Request
from providerport.execute import execute
from providerport.port import FileMode
from providerport.scripted import minimal_interpretation, minimal_plan
from runner.attempt import AttemptInputs, AttemptPorts
from runner.overlay import Content, no_such_path
from runner.snapshot import BaseSnapshot
from savant.contracts.digest import digest
from savant.contracts.document import Sealed, digest_of, seal
from savant.contracts.twins import FixedClock, InlineTasks
from savant.process.effects import ThreadTasks
from savant.repository import Manifest, Repository, from_entries
from savant.store.objects import MemoryObjectStore
from synthesis.documents import Budgets, Session, State

GIT = shutil.which("git") or "git"
HERMETIC = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}

FILES: Mapping[bytes, Content] = {
    b"README.md": Content("regular", b"# hello\n"),
    b"bin/run": Content("executable", b"#!/bin/sh\n"),
    b"docs/guide.md": Content("regular", b"guide\n"),
    b"docs/latest": Content("symlink", b"guide.md"),
    b"empty": Content("regular", b""),
    b"odd \xe5\n%": Content("regular", b"odd\n"),
    b"src/a.py": Content("regular", b"a = 1\n"),
    b"src/deep/er/c.bin": Content("regular", b"c\0d"),
    b"src/same.py": Content("regular", b"a = 1\n"),
    b"vendor/sub": Content("gitlink", b"sha1:" + b"1" * 40),
}


class DictBase:
    """A base in a dict: the reader, in bulk too, and its manifest."""

    def __init__(self, files: Mapping[bytes, Content]) -> None:
        self.files = dict(files)
        self.manifest: Manifest = from_entries((path, content.entry) for path, content in files.items())
        self.reads: list[bytes] = []

    def mode(self, path: bytes) -> FileMode | None:
        content = self.files.get(path)
        return None if content is None else content.mode

    def read(self, path: bytes) -> bytes:
        content = self.files.get(path)
        if content is None or content.mode == "gitlink":
            raise no_such_path(path)
        self.reads.append(path)
        return content.data

    def paths(self) -> Iterator[bytes]:
        return iter(sorted(self.files))


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run([GIT, *arguments], cwd=folder, input=stdin, env=HERMETIC, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def commit_files(folder: Path, files: Mapping[bytes, Content]) -> str:
    """Make a repository of one commit with exactly these files; the commit's hex id."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    modes = {"regular": b"100644", "executable": b"100755", "symlink": b"120000", "gitlink": b"160000"}
    stream = b"commit refs/heads/main\ncommitter A <a@example.org> 1700000000 +0000\ndata 1\nm\n"
    for path, content in files.items():
        quoted = b'"' + b"".join(b"\\%03o" % byte for byte in path) + b'"'
        if content.mode == "gitlink":
            stream += b"M 160000 " + content.data.partition(b":")[2] + b" " + quoted + b"\n"
        else:
            stream += b"M %s inline %s\ndata %d\n%s\n" % (modes[content.mode], quoted, len(content.data), content.data)
    git(folder, "fast-import", "--quiet", stdin=stream)
    return git(folder, "rev-parse", "refs/heads/main").decode().strip()


def take(folder: Path, files: Mapping[bytes, Content]) -> tuple[Repository, BaseSnapshot]:
    commit = commit_files(folder, files)
    repository = Repository.open(folder)
    return repository, BaseSnapshot.take(repository, commit, cache=None)


def session_of(base: BaseSnapshot, **changes: object) -> Session:
    none = digest(b"")
    members: dict[str, object] = {
        "repository_domain": "example.org/demo",
        "workspace_digest": digest(b"workspace"),
        "task_digest": none,
        "graph_digest": none,
        "closure_digest": none,
        "base_commit": base.document.document.base_commit,
        "base_manifest_digest": base.document.document.base_manifest_digest,
        "evaluator_policy_digest": none,
        "admission_policy_digest": none,
        "driver_policy_digest": none,
        "provider_config_digest": none,
        "objective": "Make it so.",
        "budgets": Budgets(
            retries=2, replans=1, provider_calls=None, wall_clock_ms=None, tokens=None, cost_microunits=None
        ),
        "retryable_outcomes": ("invalid-output",),
        "proof_obligations": (),
    }
    return Session(**{**members, **changes})  # type: ignore[arg-type]


def inputs_of(base: BaseSnapshot, **changes: object) -> AttemptInputs:
    """The inputs of a first attempt; ``changes`` replaces members of :class:`AttemptInputs`."""
    session = session_of(base)
    interpretation = minimal_interpretation(session)
    plan = seal(minimal_plan(interpretation))
    state = State(
        session=session,
        phase="attempting",
        interpretation_digest=digest_of(interpretation),
        generation=1,
        expected_generation=None,
        plan_digest=plan.digest,
        plan_review_digest=digest(b"review"),
        attempt_number=0,
        expected_attempt=1,
        attempt_digest=None,
        evaluation_digest=None,
        candidate_digest=None,
        retries_left=2,
        replans_left=1,
        calls=3,
        receipt=None,
    )
    request = Request(
        operation="generation",
        session_digest=digest_of(session),
        repository_domain=session.repository_domain,
        base_commit=session.base_commit,
        base_manifest_digest=session.base_manifest_digest,
        parent_digest=plan.digest,
        generation=1,
        attempt_number=1,
        scope=("**",),
        deadline_ms=60_000,
        max_observations=10,
        max_observation_bytes=1_000,
        prior=None,
        session=None,
        interpretation=None,
        plan=plan.document,
        attempt=None,
        audit=None,
    )
    members: dict[str, object] = {
        "state": state,
        "plan": plan,
        "request": seal(request),
        "snapshot": base,
        "workspace_digest": session.workspace_digest,
    }
    return AttemptInputs(**{**members, **changes})  # type: ignore[arg-type]


def bound_execute(clock: FixedClock | None = None) -> Callable[..., object]:
    """:func:`providerport.execute.execute` with a clock that stands and calls that run inline."""
    ports = {"clock": clock or FixedClock(), "tasks": InlineTasks()}

    def run(provider: object, call: Sealed[Request], **named: object) -> object:
        return execute(provider, call, **ports, **named)  # type: ignore[arg-type]

    return run


def ports_of(scratch: Path, **changes: object) -> AttemptPorts:
    members: dict[str, object] = {
        "provider_factory": lambda: None,
        "execute": bound_execute(),
        "store": MemoryObjectStore(),
        "scratch": scratch,
        "processes": None,
        "cancellation": ThreadTasks().cancellation(),
    }
    return AttemptPorts(**{**members, **changes})  # type: ignore[arg-type]


CONTENTS = st.builds(
    Content, st.sampled_from(["regular", "executable", "symlink"]), st.sampled_from([b"1", b"2", b"\xff"])
) | st.sampled_from([Content("gitlink", b"sha1:" + digit * 40) for digit in (b"1", b"2")])
NAMES = st.sampled_from([b"a", b"b", b"\xe5", b".savant"])


@st.composite
def trees(draw: st.DrawFn) -> dict[bytes, Content]:
    files: dict[bytes, Content] = {}
    for path in draw(st.lists(st.lists(NAMES, min_size=1, max_size=3).map(b"/".join), max_size=8)):
        if not any(path == other or path.startswith(other + b"/") or other.startswith(path + b"/") for other in files):
            files[path] = draw(CONTENTS)
    return files
