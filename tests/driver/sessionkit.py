"""A run in one process: a real base, a ledger in memory, a provider that follows a script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from msgspec import structs
from msgspec.structs import replace

from commandprovider import Imported, import_config
from driver.built_ins import PLAIN as NEUTRAL
from driver.documents import Accounting, CallLimit, RunDisposition
from driver.history import HistoryEntry, RunHistory, read_runs
from driver.inputs import RunInputs, RunPorts
from driver.loop import run_session
from driver.prepare import Asked, prepare, read_rules
from driver.recorder import Recorder
from driver.run import Apply, RunResult, run_whole
from driver.step import Run
from evaluator.documents import EvaluatorConfig
from providerport.port import Call, Provider
from providerport.scripted import (
    ANSWERS_INTERPRETATION,
    ANSWERS_PLANNING,
    Answer,
    Edit,
    ScriptedProvider,
    Step,
    minimal_plan,
    write_files,
)
from runner.overlay import Content
from runner.snapshot import BaseSnapshot
from savant.cli.kinds import registry
from savant.contracts.document import D, Document, Sealed, seal
from savant.contracts.effects import Cancellation, Tasks
from savant.contracts.errors import PortError
from savant.contracts.twins import CountingEntropy, FixedClock, InlineCancellation, InlineTasks
from savant.ledger.documents import Role
from savant.ledger.ed25519 import Ed25519Verifier
from savant.ledger.log import Ledger
from savant.ledger.memstore import MemoryStore
from savant.ledger.place import Root, begin
from savant.ledger.record import RecordRef, observation
from savant.process.effects import ThreadTasks
from savant.process.port import ProcessRunner
from savant.process.scripted import ScriptedRunner
from savant.store.objects import MemoryObjectStore
from synthesis.documents import Operation
from tests.driver.ledgerkit import NOW_MS, ROOT, SIGNERS

RUN = "a" * 32
REGISTRY = registry()
PROVIDER_CONFIG: Sealed[Document] = import_config(
    Imported(commit="sha1:" + "1" * 40, patch_digest=None), note="For a test."
).sealed
"""Any document stands for a provider's configuration: the driver binds its digest and records it."""

PLAIN: Mapping[bytes, bytes] = {b"README.md": b"hello\n", b"src/a.py": b"a = 1\n", b"src/b.py": b"b = 1\n"}
GOOD = Edit(write_files({b"src/a.py": b"a = 2\n"}))
"""An edit that every check accepts."""


class BrokenLedger(Ledger):
    """A real ledger whose disk fails from one append on, or for one checkpoint."""

    fails_at: int | None = None
    """The appends that still work, counted from now on; None for all of them."""
    checkpoint_fails = False

    def append(self, role: Role, body: Sealed[Document], **named: Any) -> RecordRef:
        if self.fails_at is not None:
            if self.fails_at == 0:
                raise PortError("port.disk", "The disk is full.")
            self.fails_at -= 1
        return super().append(role, body, **named)

    def checkpoint(self) -> Any:
        if self.checkpoint_fails:
            raise PortError("port.disk", "The disk is full.")
        return super().checkpoint()


def memory_ledger() -> tuple[MemoryStore, BrokenLedger, MemoryObjectStore]:
    store, objects = MemoryStore(), MemoryObjectStore()
    begin(
        store,
        SIGNERS,
        Root.of(ROOT),
        entropy=CountingEntropy(),
        observed=observation(NOW_MS),
        verifier=Ed25519Verifier(),
    )
    return store, BrokenLedger(store, SIGNERS, verifier=Ed25519Verifier(), bodies=objects), objects


class Lines:
    """Progress that is kept."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def script(
    *generations: Step,
    plans: Iterable[Step] = (),
    interpretations: Iterable[Step] = (ANSWERS_INTERPRETATION,),
    default: Step | None = None,
    reports_usage: bool = False,
) -> ScriptedProvider:
    """A provider that interprets, plans the smallest plan unless told otherwise, and generates step by step."""
    given = list(plans)
    answers: dict[Operation, Iterable[Step]] = {
        "interpretation": interpretations,
        "planning": given or [ANSWERS_PLANNING] * 8,
        "generation": generations,
    }
    return ScriptedProvider(answers, default=default, reports_usage=reports_usage)


def planning(change: Callable[[Any], Any] | None = None, **minimal: Any) -> Answer:
    """A planning step that answers with the smallest plan of these patterns, changed."""

    def make(call: Call) -> Any:
        document = call.request.document
        assert document.interpretation is not None
        assert document.generation is not None
        plan = minimal_plan(document.interpretation, document.generation, **minimal)
        return plan if change is None else change(plan)

    return Answer(make)


NOTHING_ASIDE = Accounting(model="", call=CallLimit(tokens_in=0, tokens_out=0), price=None)


@dataclass
class World:
    """What one run is made of; members are replaced before :meth:`session` or :meth:`whole`."""

    snapshot: BaseSnapshot
    scratch: Path
    provider: Provider
    asked: Asked = field(default_factory=lambda: Asked(objective="Make it so."))
    budgets: dict[str, Any] = field(default_factory=dict)
    driver: dict[str, Any] = field(default_factory=dict)
    session: dict[str, Any] = field(default_factory=dict)
    mode: Literal["off", "record", "enforce"] = "enforce"
    clock: FixedClock = field(default_factory=FixedClock)
    tasks: Tasks = field(default_factory=InlineTasks)
    cancellation: Cancellation = field(default_factory=InlineCancellation)
    processes: ProcessRunner = field(default_factory=lambda: ScriptedRunner({}))
    objects: MemoryObjectStore = field(default_factory=MemoryObjectStore)
    search_path: tuple[Path, ...] = (Path("/usr/bin"), Path("/bin"))
    progress: Lines = field(default_factory=Lines)
    normalisers: tuple[Any, ...] = ()
    accounting: Accounting = NOTHING_ASIDE
    """Nothing is set aside for a call unless a test says so."""

    def __post_init__(self) -> None:
        self.store, self.ledger, self.bodies = memory_ledger()

    def inputs(self) -> RunInputs:
        asked = replace(self.asked, ledger_mode=self.mode)
        made = prepare(
            asked,
            self.snapshot,
            read_rules(self.snapshot),
            provider_config=PROVIDER_CONFIG,
            object_format="sha1",
        )
        driving = seal(structs.replace(made.driver_policy.document, **self.driver))
        session = made.session.document
        changed = structs.replace(
            session,
            budgets=structs.replace(session.budgets, **self.budgets),
            driver_policy_digest=driving.digest,
            **self.session,
        )
        return replace(made, driver_policy=driving, session=seal(changed), accounting=seal(self.accounting))

    def ports(self) -> RunPorts:
        self.scratch.mkdir(exist_ok=True)
        return RunPorts(
            recorder=Recorder(
                None if self.mode == "off" else self.ledger,
                run_id=RUN,
                mode=self.mode,
                clock=self.clock,
                host="host",
                tool="savant/test",
            ),
            provider=lambda: self.provider,
            clock=self.clock,
            tasks=self.tasks,
            cancellation=self.cancellation,
            store=self.objects,
            processes=self.processes,
            normalisers=self.normalisers,
            scratch=self.scratch,
            checkout=None,
            search_path=self.search_path,
            ambient={},
            progress=self.progress,
        )

    def session_run(self) -> tuple[Run, RunDisposition]:
        """Run the session alone."""
        return run_session(self.inputs(), self.ports())

    def whole(self, apply: Apply | None = None) -> RunResult:
        """Run everything."""
        return run_whole(self.inputs(), self.ports(), apply)

    @property
    def history(self) -> RunHistory:
        """What was recorded."""
        lines = self.store.lines(0, self.store.tail().size)
        return next(iter(read_runs(lines, REGISTRY, self.bodies, only=RUN)), RunHistory(RUN))

    @property
    def entries(self) -> Sequence[HistoryEntry]:
        return self.history.entries

    def all(self, type_: type[D]) -> list[D]:
        return [sealed.document for sealed in self.history.all(type_)]


def threaded() -> dict[str, Any]:
    """Real threads and a cancellation that they share."""
    tasks = ThreadTasks()
    return {"tasks": tasks, "cancellation": tasks.cancellation()}


def contents(files: Mapping[bytes, bytes]) -> dict[bytes, Content]:
    return {path: Content("regular", data) for path, data in files.items()}


def check(command: Sequence[str], id_: str = "check", **changes: Any) -> EvaluatorConfig:
    """A check that must pass."""
    members: dict[str, Any] = {
        "id": id_,
        "evaluator": "command",
        "argv": tuple(command),
        "timeout_ms": 20_000,
        "max_capture_bytes": 100_000,
    }
    return replace(NEUTRAL, **{**members, **changes})
