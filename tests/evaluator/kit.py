"""What the evaluator's tests share: configurations, policies, results and candidates of a real repository."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from driver.built_ins import PLAIN as NEUTRAL
from evaluator.checks.place import CommandHost
from evaluator.documents import ClassRule, Custody, EvaluatorConfig, Policy, Result
from evaluator.inputs import EvaluationInputs
from evaluator.toolchain import Toolchain
from runner.change import change_set, operations
from runner.content import CandidateTree
from runner.documents import Candidate
from runner.documents import Receipt as RunnerReceipt
from runner.overlay import Content
from runner.snapshot import BaseSnapshot
from savant.contracts.containment import Demand
from savant.contracts.digest import digest
from savant.contracts.document import digest_of, seal
from savant.contracts.effects import Cancellation
from savant.contracts.scalars import as_set
from savant.process.effects import ThreadTasks
from savant.process.port import Level, ProcessRunner
from savant.process.posix import SupervisedRunner
from savant.process.view import PLAIN_SIGHT, Sight
from savant.repository import Repository, diff, from_entries
from savant.store.objects import MemoryObjectStore
from synthesis.documents import Attempt, Check, Finding, IntendedChange, Limitation, Plan, PlanStep
from tests.runner.kit import commit_files

NONE = digest(b"")
PLAIN = tuple(
    word for name in ("hypothesispytest", "pytest_cov", "timeout", "cacheprovider") for word in ("-p", f"no:{name}")
)
"""What keeps the inner pytest from loading the plugins of the outer one."""
SEARCH = (Path(sys.executable).parent, Path("/usr/bin"), Path("/bin"))
"""Where the tests' own pytest is, and the system."""
EVERYTHING = IntendedChange(
    pattern="**",
    operations=as_set(("create", "modify", "delete", "rename", "copy", "mode-change", "symlink-change", "type-change")),
)


def config_of(id_: str = "pytest", **changes: object) -> EvaluatorConfig:
    members: dict[str, object] = {
        "id": id_,
        "evaluator": "command",
        "required": True,
        "rule": "no-regression",
        "argv": ("pytest", "-q", *PLAIN, "--junit-xml=.report.xml"),
        "result_format": "junit",
        "report_path": ".report.xml",
        "timeout_ms": 60_000,
        "max_capture_bytes": 1_000_000,
    }
    return replace(NEUTRAL, **{**members, **changes})


def built_in(id_: str = "scope", kind: str = "scope", **changes: object) -> EvaluatorConfig:
    plain: dict[str, object] = {"id": id_, "evaluator": kind, "failure_class": "scope-exceeded"}
    return replace(NEUTRAL, **{**plain, **changes})


def policy_of(*configs: EvaluatorConfig, rules: Mapping[str, str] | None = None, **changes: object) -> Policy:
    members: dict[str, object] = {
        "evaluators": as_set(configs),
        "toolchain": (),
        "environment": (),
        "network": "none",
        "recommendations": as_set(
            ClassRule(failure_class=name, recommendation=word)  # type: ignore[arg-type]
            for name, word in (rules or {}).items()
        ),
        "normalisers": (),
        "prepares": (),
        "custody": Custody(tests=(), gates=()),
        "excuses": (),
        "as_of": None,
        "max_findings": 20,
        "max_finding_bytes": 8_192,
    }
    return Policy(**{**members, **changes})  # type: ignore[arg-type]


def finding_of(check: str, **changes: object) -> Finding:
    members: dict[str, object] = {
        "check": check,
        "status": "failed",
        "path": None,
        "line": None,
        "message": "it failed",
        "excerpt": "",
    }
    return Finding(**{**members, **changes})  # type: ignore[arg-type]


def check_of(evaluator: str, check: str | None = None, status: str = "passed", **changes: object) -> Check:
    members: dict[str, object] = {
        "evaluator": evaluator,
        "check": check or evaluator,
        "status": status,
        "base_status": None,
        "comparison": None,
        "excuse": None,
        "required": True,
        "findings": (),
    }
    return Check(**{**members, **changes})  # type: ignore[arg-type]


def result_of(evaluator: str, *checks: Check, classes: tuple[str, ...] = (), **changes: object) -> Result:
    members: dict[str, object] = {
        "evaluator": evaluator,
        "descriptor_digest": NONE,
        "input_digest": NONE,
        "outcome": "completed",
        "checks": checks,
        "failure_classes": as_set(classes),
        "limitations": (),
        "detail": "",
        "audit_digest": None,
    }
    return Result(**{**members, **changes})  # type: ignore[arg-type]


def limitation_of(text: str = "not seen", *, blocking: bool = False) -> Limitation:
    return Limitation(source="evaluator.test", text=text, blocking=blocking)


def regular(text: str) -> Content:
    return Content("regular", text.encode())


def plan_of(*, declares: bool = False, promise: str = "declared", change: IntendedChange = EVERYTHING) -> Plan:
    step = PlanStep(
        id="one",
        description="Do it.",
        intended_changes=(change,),
        symbols=(),
        expected_evidence=(),
        discharges=(),
        declares_gate_changes=declares,
    )
    return Plan(
        interpretation_digest=NONE,
        generation=1,
        promise=promise,  # type: ignore[arg-type]
        steps=(step,),
        assumptions=(),
        risks=(),
        stop_conditions=(),
    )


class Bench:
    """A real repository with a checkout beside it, candidates of it, and what evaluators may use of this machine."""

    def __init__(self, place: Path, files: Mapping[str, str], repository: Repository, processes: ProcessRunner) -> None:
        self.files = {name.encode(): regular(text) for name, text in files.items()}
        self.checkout = place / "checkout"
        self.scratch = place / "scratch"
        self.processes = processes
        self.store = MemoryObjectStore()
        self.snapshot = BaseSnapshot.take(repository, repository.resolve_commit("HEAD"), cache=None)
        lay_out(self.checkout, self.files)

    def tree(self, changes: Mapping[str, str | Content | None]) -> tuple[Candidate, CandidateTree]:
        """A sealed candidate: the base with these texts written, or, for None, these paths deleted."""
        final = dict(self.files)
        for name, text in changes.items():
            final.pop(name.encode(), None)
            if text is not None:
                final[name.encode()] = regular(text) if isinstance(text, str) else text
        manifest = from_entries((path, content.entry) for path, content in final.items())
        for content in final.values():
            self.store.put(content.data)
        change = change_set(
            diff(self.snapshot.manifest, manifest),
            lambda path: len(self.files[path].data),
            lambda path: len(final[path].data),
        )
        candidate = Candidate(
            session_digest=NONE,
            workspace_digest=NONE,
            plan_digest=NONE,
            generation=1,
            attempt_number=1,
            base_commit=self.snapshot.document.document.base_commit,
            input_digest=self.snapshot.manifest.digest,
            change_digest=digest_of(change),
            final_digest=manifest.digest,
            operations=operations(change, self.snapshot.manifest),
        )
        return candidate, CandidateTree(self.snapshot, candidate, self.store)

    def inputs(
        self, changes: Mapping[str, str | Content | None], policy: Policy, plan: Plan | None = None, **named: object
    ) -> EvaluationInputs:
        candidate, tree = self.tree(changes)
        attempt = Attempt(
            number=1,
            generation=1,
            plan_digest=digest_of(plan or plan_of()),
            provider_digest=NONE,
            outcome="completed",
            failure_kind=None,
            input_digest=candidate.input_digest,
            change_digest=candidate.change_digest,
            final_digest=candidate.final_digest,
        )
        receipt = RunnerReceipt(
            request_digest=NONE,
            snapshot_digest=self.snapshot.document.digest,
            disposition="verified",
            provider_receipt_digest=NONE,
            result_digest=NONE,
            input_digest=candidate.input_digest,
            change_digest=candidate.change_digest,
            final_digest=candidate.final_digest,
            candidate_digest=digest_of(candidate),
            workspace_backend="copy",
            failure_code="",
            failure_detail="",
            quiescent=True,
            cleanup_succeeded=True,
            limitations=(),
        )
        members: dict[str, object] = {
            "session_digest": NONE,
            "attempt": seal(attempt),
            "plan": seal(plan or plan_of()),
            "runner_receipt": seal(receipt),
            "candidate": seal(candidate),
            "policy": seal(policy),
            "snapshot": self.snapshot,
            "tree": tree,
            "obligations": {},
        }
        return EvaluationInputs(**{**members, **named})  # type: ignore[arg-type]

    def host(
        self,
        toolchain: Toolchain | None = None,
        cancellation: Cancellation | None = None,
        ambient: Mapping[str, str] | None = None,
        sight: Sight = PLAIN_SIGHT,
        demands: Mapping[str, Demand] | None = None,
    ) -> CommandHost:
        return CommandHost(
            processes=self.processes,
            scratch=self.scratch,
            toolchain=toolchain or Toolchain(self.checkout, (), SEARCH),
            ambient=ambient or {},
            environment=tuple(ambient or ()),
            cancellation=cancellation or ThreadTasks().cancellation(),
            sight=sight,
            demands=demands or {},
        )

    def checkout_files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.checkout)): path.read_bytes()
            for path in sorted(self.checkout.rglob("*"))
            if path.is_file()
        }


def lay_out(folder: Path, files: Mapping[bytes, Content]) -> None:
    for name, content in files.items():
        path = folder / name.decode()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.data)


def require_level(processes: ProcessRunner, level: Level) -> None:
    """Skip a test of a level that cannot be had here."""
    if processes.level != level:
        pytest.skip(f"sandbox level {level} cannot be had here, only {processes.level}")


@contextmanager
def bench(place: Path, files: Mapping[str, str], level: Level = "S3") -> Iterator[Bench]:
    """A bench in an empty folder, whose commands run at this level or the best below it."""
    commit_files(place / "repository", {name.encode(): regular(text) for name, text in files.items()})
    with (
        Repository.open(place / "repository") as repository,
        SupervisedRunner(place / "streams", at_most=level) as processes,
    ):
        yield Bench(place, files, repository, processes)
