"""Normalisers: real formatters on the copy, kept to the files the candidate changed, each failure blamed rightly."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from providerport.scripted import Edit, ScriptedProvider, write_files
from runner.attempt import AttemptOutcome, run_attempt
from runner.content import CandidateTree
from runner.normalise import Normalised, Normaliser, NormaliserFailed, run_normalisers
from runner.overlay import Content
from runner.snapshot import BaseSnapshot
from runner.workspace import CandidateWorkspace
from savant.contracts.containment import Containment, Demand
from savant.contracts.errors import RefusedInput
from savant.process.port import Mount, Sandbox
from savant.process.posix import SupervisedRunner
from savant.process.scripted import Scripted, ScriptedRunner
from savant.process.view import PLAIN_SIGHT, Sight
from savant.store.objects import MemoryObjectStore
from tests.runner.kit import DictBase, inputs_of, ports_of

SCRIPTED = Containment(level="S0", layers=("scripted-s0",), network="open")
UPPER = "import sys\nfor p in sys.argv[1:]:\n  d = open(p, 'rb').read(); open(p, 'wb').write(d.upper())\n"


def python(program: str, name: str = "upper", **changes: object) -> Normaliser:
    members: dict[str, object] = {
        "id": name,
        "argv": (sys.executable, "-I", "-c", program),
        "patterns": ("*.py",),
        "timeout_ms": 30_000,
        **changes,
    }
    return Normaliser(**members)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=["S0", "S3"])
def processes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedRunner]:
    """A runner that offers nothing, and the best one that can be had."""
    with SupervisedRunner(tmp_path_factory.mktemp("streams"), at_most=request.param) as runner:
        if runner.level < request.param:
            pytest.skip(f"only level {runner.level} can be had here")
        yield runner


def attempt(
    base: BaseSnapshot, scratch: Path, processes: SupervisedRunner | None, *normalisers: Normaliser
) -> tuple[AttemptOutcome, MemoryObjectStore]:
    edit = Edit(write_files({b"src/new.py": b"new\n", b"notes.txt": b"text\n"}))
    store = MemoryObjectStore()
    ports = ports_of(
        scratch,
        provider_factory=lambda: ScriptedProvider({"generation": [edit]}),
        processes=processes,
        store=store,
    )
    return run_attempt(inputs_of(base, normalisers=normalisers), ports), store


def test_a_formatter_shapes_what_is_sealed(snapshot: BaseSnapshot, scratch: Path, processes: SupervisedRunner) -> None:
    """A changed file that matches is sealed as the formatter left it; other files, changed or not, are as they were."""
    outcome, store = attempt(snapshot, scratch, processes, python(UPPER))
    assert outcome.candidate is not None
    tree = CandidateTree(snapshot, outcome.candidate.document, store)
    assert tree.read(b"src/new.py") == b"NEW\n"
    assert tree.read(b"notes.txt") == b"text\n"
    assert tree.read(b"src/a.py") == b"a = 1\n"
    assert outcome.receipt.document.workspace_backend == "copy"


def test_without_a_matching_file_nothing_runs(snapshot: BaseSnapshot, scratch: Path) -> None:
    """A normaliser that no changed file matches needs no runner and no copy."""
    outcome, _ = attempt(snapshot, scratch, None, python(UPPER, patterns=("*.rs",)))
    assert outcome.receipt.document.disposition == "verified"
    assert outcome.receipt.document.workspace_backend == "memory"


FAILURES = {
    "rejects": ("import sys; sys.exit('syntax error')", {}, "seal-failure", "normaliser.rejected"),
    "touches others": (
        "open('README.md', 'w').write('x')",
        {},
        "workspace-freeze-failure",
        "normaliser.touched-others",
    ),
    "leaves a cache": ("import os; os.mkdir('c'); open('c/x', 'w')", {}, "workspace-freeze-failure", None),
    "hangs": ("import time; time.sleep(60)", {"timeout_ms": 300}, "workspace-freeze-failure", "normaliser.timed-out"),
    "floods": (
        "print('x' * 10**6)",
        {"output_bytes": 1000},
        "workspace-freeze-failure",
        "normaliser.output-limit",
    ),
    "is absent": ("", {"argv": ("/nonexistent/tool",)}, "workspace-freeze-failure", "normaliser.spawn-error"),
    "makes a fifo": ("import os; os.mkfifo('p')", {}, "workspace-freeze-failure", "refused.special-file"),
}


@pytest.mark.parametrize("name", sorted(FAILURES))
def test_each_failure_ends_the_attempt_by_its_name(
    name: str, snapshot: BaseSnapshot, scratch: Path, processes: SupervisedRunner
) -> None:
    """Files that a tool rejects are the candidate's fault, with a finding; a tool that misbehaves is the host's."""
    program, changes, disposition, code = FAILURES[name]
    outcome, _ = attempt(snapshot, scratch, processes, python(program, **changes))  # type: ignore[arg-type]
    receipt = outcome.receipt.document
    assert receipt.disposition == disposition
    assert receipt.failure_code == (code or "normaliser.touched-others")
    assert outcome.candidate is None
    assert list(scratch.iterdir()) == []
    if disposition == "seal-failure":
        assert [(finding.path, finding.check) for finding in outcome.findings] == [("src/new.py", "seal")]
        assert "syntax error" in outcome.findings[0].message
        assert outcome.attempt is not None
    else:
        assert outcome.attempt is None


def test_without_a_runner_a_needed_normaliser_fails(snapshot: BaseSnapshot, scratch: Path) -> None:
    """A policy that names a formatter is not skipped because nothing can run it."""
    outcome, _ = attempt(snapshot, scratch, None, python(UPPER))
    assert outcome.receipt.document.failure_code == "normaliser.no-runner"


def run(
    scratch: Path, runner: ScriptedRunner, *normalisers: Normaliser, sight: Sight = PLAIN_SIGHT
) -> Normalised | NormaliserFailed:
    workspace = CandidateWorkspace(DictBase({b"old.py": Content("regular", b"old")}), scratch)
    for number in range(3):
        workspace.write(b"-%d.py" % number + b"x" * 30 + b".py", b"%d" % number)
    workspace.write(b"old.py", b"old")
    workspace.symlink(b"link.py", b"old.py")
    workspace.close()
    return run_normalisers(normalisers, workspace, runner, scratch, sight=sight)


def test_paths_are_arguments_that_cannot_be_options(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only changed regular files are given, each as ``./path``, in as many calls as the argument limit needs."""
    import runner.normalise as module

    monkeypatch.setattr(module, "MAX_ARGUMENT_BYTES", 80)
    runner = ScriptedRunner({"/tool": Scripted()})
    assert run(scratch, runner, python("", argv=("/tool", "--fix"), environment=(("A", "b"),))) == Normalised(
        (), SCRIPTED
    )
    given = [command.argv[2:] for command in runner.commands]
    assert [len(paths) for paths in given] == [2, 1]
    assert all(path.startswith("./-") for paths in given for path in paths)
    command = runner.commands[0]
    environment = dict(command.env)
    assert environment["A"] == "b"
    assert environment["HOME"] == str(scratch / "home")
    assert command.sandbox == Sandbox(level="S0", network=False)


def test_a_normaliser_gets_the_best_containment_and_sees_its_folders(scratch: Path, tmp_path: Path) -> None:
    """The copy and the private folders can be changed; its toolchain and what the person opened can be read."""
    tool, notes = tmp_path / "opt/tool", tmp_path / "notes"
    for folder in (tool.parent, notes):
        folder.mkdir()
    tool.touch()
    runner = ScriptedRunner({str(tool): Scripted()}, level="S3")
    done = run(scratch, runner, python("", argv=(str(tool),)), sight=Sight(read_only=(notes,)))
    assert isinstance(done, Normalised)
    assert done.containment == Containment(level="S3", layers=("scripted-s3",), network="none")
    (command,) = runner.commands
    assert (command.sandbox.level, command.sandbox.network) == ("S3", False)
    writable = (command.cwd, scratch / "home", scratch / "tmp")
    assert set(command.sandbox.mounts) == {
        *(Mount(folder, folder, writable=True) for folder in writable),
        *(Mount(folder, folder) for folder in (tool.parent, notes)),
    }


def test_below_its_demand_a_normaliser_runs_only_when_a_person_allows_it(snapshot: BaseSnapshot, scratch: Path) -> None:
    """The attempt ends and nothing runs; waived, it runs and the receipt says so."""
    formatter = python("", argv=("/bin/true",), demanded=Demand("S2"))
    with SupervisedRunner(scratch.parent / "streams", at_most="S0") as bare:
        refused, _ = attempt(snapshot, scratch, bare, formatter)
        assert refused.receipt.document.failure_code == "port.sandbox-level"
        assert (refused.candidate, refused.containment) == (None, None)
        waived, _ = attempt(snapshot, scratch, bare, replace(formatter, demanded=Demand("S2", is_waived=True)))
    assert waived.candidate is not None
    assert waived.containment is not None
    assert waived.containment.level == "S0"
    (limitation,) = [found for found in waived.receipt.document.limitations if found.source == "runner.sandbox"]
    assert limitation.text.startswith("Formatters ran at sandbox level none (S0), and reduced (S2) is demanded")


def test_a_process_that_cannot_be_ended_stops_everything(scratch: Path) -> None:
    """A normaliser that leaves something alive is not followed by another, and nothing it did is taken."""
    runner = ScriptedRunner({"/tool": Scripted(remaining=1), "/next": Scripted()})
    failed = run(scratch, runner, python("", argv=("/tool",)), python("", argv=("/next",)))
    assert isinstance(failed, NormaliserFailed)
    assert (failed.code, failed.blame) == ("normaliser.not-quiescent", "host")
    assert len(runner.commands) == 1


def test_the_touched_files_are_told(scratch: Path, processes: SupervisedRunner) -> None:
    """The result lists what the normalisers changed, each seeing what the one before it did."""
    workspace = CandidateWorkspace(DictBase({}), scratch)
    workspace.write(b"a.py", b"a")
    workspace.write(b"b.py", b"1")
    workspace.close()
    double = UPPER.replace("d.upper()", "d * 2")
    done = run_normalisers([python(UPPER), python(double)], workspace, processes, scratch)
    assert isinstance(done, Normalised)
    assert done.touched == (b"a.py", b"b.py")
    assert done.containment is not None
    assert (done.containment.level, done.containment.network == "none") == (processes.level, processes.level >= "S2")
    assert workspace.overlay.read(b"a.py") == b"AA"


def test_a_bad_pattern_is_refused(scratch: Path) -> None:
    """A pattern that is none is refused by the one pattern language."""
    with pytest.raises(RefusedInput) as caught:
        run(scratch, ScriptedRunner({}), python("", patterns=("!x",)))
    assert caught.value.code == "refused.bad-pattern"
    assert list(scratch.iterdir()) == []
