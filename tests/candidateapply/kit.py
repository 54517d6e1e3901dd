"""What the tests of application share: a real repository, an admitted candidate of every kind, a process that ends."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, Self

import pytest
from msgspec import structs

from admission.documents import Decision, EnvelopeEntry
from admission.documents import Receipt as AdmissionReceipt
from candidateapply.apply import Application, ApplyInputs, ApplyPorts, apply_candidate
from candidateapply.documents import Receipt, Request
from candidateapply.journal import TargetFiles
from candidateapply.record import Verified, verify_application
from candidateapply.undo import UndoInputs, Undone, undo_application
from runner.documents import Candidate
from runner.overlay import Content
from runner.seal import CandidateIdentity, compute_evidence, seal_candidate
from runner.snapshot import BaseSnapshot
from savant.contracts.digest import digest
from savant.contracts.document import Sealed, digest_of, seal
from savant.contracts.errors import SavantError
from savant.contracts.scalars import as_set
from savant.repository.git import Repository
from savant.repository.manifest import Manifest
from savant.repository.worktree import control_state, observe_tree
from savant.store.objects import FileObjectStore
from tests.runner.kit import commit_files, git

BASE: Mapping[bytes, Content] = {
    b"README.md": Content("regular", b"# hello\n"),
    b"bin/run": Content("executable", b"#!/bin/sh\n"),
    b"copied.txt": Content("regular", b"to be copied\n"),
    b"dir-to-file/a": Content("regular", b"a\n"),
    b"dir-to-file/deep/er/b": Content("regular", b"b\n"),
    b"dir-to-link/a": Content("regular", b"in a folder\n"),
    b"docs/guide.md": Content("regular", b"guide\n"),
    b"docs/latest": Content("symlink", b"guide.md"),
    b"file-to-dir": Content("regular", b"a file\n"),
    b"file-to-link": Content("regular", b"another file\n"),
    b"gone/far/away": Content("regular", b"to be deleted\n"),
    b"kept/crlf": Content("regular", b"one\r\ntwo\r\n"),
    b"link-to-dir": Content("symlink", b"docs"),
    b"link-to-file": Content("symlink", b"docs/guide.md"),
    b"mode": Content("regular", b"to be run\n"),
    b"odd \xe5\n%": Content("regular", b"odd\n"),
    b"old/name": Content("regular", b"to be renamed\n"),
    b"vendor/sub": Content("gitlink", b"sha1:" + b"1" * 40),
}
CHANGES: Mapping[bytes, Content | None] = {
    b"README.md": Content("regular", b"# good day\n"),
    b"bin/run": Content("regular", b"#!/bin/sh\n"),
    b"copies/of/copied": Content("regular", b"to be copied\n"),
    b"dir-to-file/a": None,
    b"dir-to-file/deep/er/b": None,
    b"dir-to-file": Content("regular", b"a file now\n"),
    b"dir-to-link/a": None,
    b"dir-to-link": Content("symlink", b"docs"),
    b"docs/latest": Content("symlink", b"../README.md"),
    b"docs/new": Content("symlink", b"guide.md"),
    b"empty": Content("regular", b""),
    b"file-to-dir": None,
    b"file-to-dir/x/y": Content("executable", b"#!/bin/sh\nexit\n"),
    b"file-to-link": Content("symlink", b"README.md"),
    b"gone/far/away": None,
    b"link-to-dir": None,
    b"link-to-dir/f": Content("regular", b"f\0g"),
    b"link-to-file": Content("regular", b"a file now, too\n"),
    b"mode": Content("executable", b"to be run\n"),
    b"new\n\xff/odd": Content("regular", b"\xff"),
    b"odd \xe5\n%": Content("regular", b"odder\n"),
    b"old/name": None,
    b"new/name": Content("regular", b"to be renamed\n"),
}
"""Every kind of operation, and every way in which one type takes another's place."""


def identity(base: BaseSnapshot, **changes: object) -> CandidateIdentity:
    members: dict[str, object] = {
        "session_digest": digest(b"session"),
        "workspace_digest": digest(b"workspace"),
        "plan_digest": digest(b"plan"),
        "generation": 1,
        "attempt_number": 1,
        "base_commit": base.document.document.base_commit,
    }
    return CandidateIdentity(**{**members, **changes})  # type: ignore[arg-type]


def decision_of(candidate: Sealed[Candidate], **changes: Any) -> Sealed[Decision]:
    decision = Decision(
        request_digest=digest(b"admission request"),
        policy_digest=digest(b"policy"),
        candidate_digest=candidate.digest,
        outcome="admitted",
        reasons=(),
        conditions=as_set([]),
        acknowledged=as_set([]),
        envelope=tuple(EnvelopeEntry(path=o.path, kind=o.kind) for o in candidate.document.operations),
        observed=(),
        limitations=(),
        unacknowledged_digest=None,
        scope_only=True,
        correctness_certified=False,
    )
    return seal(structs.replace(decision, **changes))


def admission_receipt_of(decision: Sealed[Decision], **changes: Any) -> Sealed[AdmissionReceipt]:
    receipt = AdmissionReceipt(
        request_digest=decision.document.request_digest,
        decision_digest=decision.digest,
        outcome=decision.document.outcome,
        synthesis_receipt_digest=digest(b"synthesis receipt"),
        candidate_digest=decision.document.candidate_digest,
        lineage=(),
    )
    return seal(structs.replace(receipt, **changes))


@dataclass
class World:
    """A repository with one commit, its store, and one candidate that was admitted."""

    root: Path
    repository: Repository
    base: BaseSnapshot
    store: FileObjectStore
    candidate: Sealed[Candidate]
    final: Manifest
    decision: Sealed[Decision]
    admission_receipt: Sealed[AdmissionReceipt]
    said: list[str] = field(default_factory=list)
    requests: list[Sealed[Request]] = field(default_factory=list)
    on_announce: Callable[[], object] = lambda: None

    @classmethod
    def make(
        cls,
        root: Path,
        files: Mapping[bytes, Content] = BASE,
        changes: Mapping[bytes, Content | None] = CHANGES,
    ) -> World:
        commit = commit_files(root / "repo", files)
        return cls.open(root, commit, changes)

    @classmethod
    def open(cls, root: Path, commit: str, changes: Mapping[bytes, Content | None]) -> World:
        repository = Repository.open(root / "repo")
        base = BaseSnapshot.take(repository, commit, cache=None)
        directory = repository.common_dir / "savant"
        directory.mkdir(exist_ok=True)
        store = FileObjectStore(directory / "objects")
        sealed = seal_candidate(base, compute_evidence(base, changes), identity(base), store)
        decision = decision_of(sealed.candidate)
        return cls(
            root,
            repository,
            base,
            store,
            sealed.candidate,
            sealed.final_manifest,
            decision,
            admission_receipt_of(decision),
        )

    @classmethod
    def make_other(cls, world: World) -> World:
        """A world beside this one, on another base."""
        root = world.root / "elsewhere"
        root.mkdir()
        return cls.make(root, {b"a": Content("regular", b"a")}, {b"a": Content("regular", b"b")})

    def again(self) -> World:
        """The same world with processes and files of its own: for a child process."""
        repository = Repository.open(self.root / "repo")
        base = BaseSnapshot.of(repository, self.commit, self.base.manifest)
        store = FileObjectStore(self.directory / "objects")
        return replace(self, repository=repository, base=base, store=store, requests=list(self.requests))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.repository.close()
        self.store.close()

    @property
    def directory(self) -> Path:
        return self.repository.common_dir / "savant"

    @property
    def commit(self) -> str:
        return self.base.document.document.base_commit.partition(":")[2]

    @property
    def target(self) -> Path:
        return self.root / "target"

    def add_worktree(self, name: str = "target") -> Path:
        """An existing dedicated target, made by plain git."""
        git(self.root / "repo", "worktree", "add", "-q", "--detach", str(self.root / name), self.commit)
        return self.root / name

    def inputs(self, **changes: Any) -> ApplyInputs:
        members: dict[str, Any] = {
            "decision": self.decision,
            "admission_receipt": self.admission_receipt,
            "candidate": self.candidate,
            "base": self.base,
            "target": self.target,
            "checkout": self.root / "repo",
            "on_mismatch": "keep",
        }
        return ApplyInputs(**{**members, **changes})

    def announce(self, request: Sealed[Request], words: str) -> None:
        assert digest_of(request.document) == request.digest
        self.said.append(words)
        self.requests.append(request)
        self.on_announce()

    def apply(self, *, store: Any = None, **changes: Any) -> Application:
        ports = ApplyPorts(
            repository=self.repository,
            store=self.store if store is None else store,
            directory=self.directory,
            announce=self.announce,
        )
        return apply_candidate(self.inputs(**changes), ports)

    def applied(self, **changes: Any) -> Application:
        """An application that the caller recorded."""
        application = self.apply(**changes)
        application.finish()
        return application

    def undo(self, receipt: Sealed[Receipt], **changes: Any) -> Undone:
        members: dict[str, Any] = {
            "request": self.requests[-1],
            "receipt": receipt,
            "candidate": self.candidate,
            "base": self.base,
            "target": self.target,
        }
        inputs = UndoInputs(**{**members, **changes})
        return undo_application(inputs, self.store, self.directory, self.announce)

    @property
    def files(self) -> TargetFiles:
        return TargetFiles(self.directory)

    def verify(self, receipt: Sealed[Receipt], target: Path | None = None) -> Verified:
        return verify_application(
            self.decision,
            self.candidate,
            receipt,
            self.base,
            self.target if target is None else target,
            git=self.repository.git.executable,
        )

    def observed(self, target: Path | None = None) -> Manifest:
        return observe_tree(self.target if target is None else target, expected=self.base.manifest)


def refused(call: Callable[[], object]) -> SavantError:
    """The error of a call that must be refused; one that a person sees says what is untouched and what helps."""
    with pytest.raises(SavantError) as caught:
        call()
    assert caught.value.untouched
    assert caught.value.fix
    return caught.value


def fingerprint(world: World, *targets: Path) -> tuple[object, ...]:
    """What a refusal must leave alone: control files, targets, our own journals and markers."""
    trees = [
        sorted((str(p.relative_to(t)), p.lstat().st_ino, p.lstat().st_mtime_ns) for p in t.rglob("*")) for t in targets
    ]
    ours = sorted(p.name for p in world.directory.glob("targets/*") if p.suffix != ".lock")
    return (control_state(world.repository), trees, ours)


COUNTED = ("open", "write", "rename", "unlink", "link", "symlink", "mkdir", "rmdir", "fsync", "fchmod")
CRASHED = 77


def crash_at(step: int, work: Callable[[], None], *, in_journal: bool = False) -> bool:
    """Do the work in a process of its own that ends, as if killed, before its ``step``-th call that changes a disk.

    :param in_journal: count from the call that puts the journal in place, which is the first one.
    :returns: whether it came so far; False when the work was done before.
    """
    pid = os.fork()
    if pid == 0:
        _run_and_end(step, work, is_counting=not in_journal)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, CRASHED), status
    return status == CRASHED


def _run_and_end(step: int, work: Callable[[], None], *, is_counting: bool) -> NoReturn:
    left = step

    def counting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal left, is_counting
            is_counting = is_counting or (name == "rename" and str(args[1]).endswith(".journal"))
            if is_counting and (name != "open" or args[1] & (os.O_CREAT | os.O_TRUNC)):
                left -= 1
                if left == 0:
                    os._exit(CRASHED)
            return real(*args, **named)

        return call

    code = 1
    try:
        for name in COUNTED:
            setattr(os, name, counting(name, getattr(os, name)))
        work()
        code = 0
    except BaseException as error:  # noqa: BLE001 - reported by the exit status
        os.writev(2, [f"{type(error).__name__}: {error}\n".encode()])
    os._exit(code)


def remove_worktree(world: World, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    git(world.root / "repo", "worktree", "prune")
