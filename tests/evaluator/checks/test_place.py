"""Where a check happens: at level S3 in the checkout's place, with its toolchain over it and nothing else of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from evaluator.checks.command import measure_command
from evaluator.checks.place import CheckPlace
from evaluator.documents import EvaluatorConfig
from evaluator.toolchain import Toolchain
from savant.contracts.containment import Demand
from savant.process.port import Level, Limits, Mount
from savant.process.scripted import Scripted, ScriptedRunner
from savant.process.view import Sight, hide
from tests.evaluator.kit import PLAIN, SEARCH, Bench, bench, config_of, require_level
from tests.evaluator.projectkit import CANDIDATE, FILES, INSTALLS, JUDGED, Project, status

IN_PLACE: tuple[Level, ...] = ("S3",)


def shell(script: str) -> EvaluatorConfig:
    return config_of("sh", argv=("sh", "-c", script), rule="all-pass", result_format="exit-status", report_path=None)


@pytest.fixture(params=["S0", "S1", "S2"])
def beside(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    """A project whose checks run beside the checkout."""
    with bench(tmp_path, FILES, request.param) as made:
        require_level(made.processes, request.param)
        yield Project(made)


@pytest.mark.parametrize("how", INSTALLS)
def test_beside_the_checkout_the_candidate_is_judged_too(beside: Project, how: str) -> None:
    """Also where nothing of the checkout can be read, so that an editable install leads nowhere."""
    INSTALLS[how](beside)
    assert status(beside.measure(CANDIDATE)) == "passed"
    assert status(beside.measure({"src/app/inner.py": "x = 1\n"})) == "failed"
    removed: dict[str, str | None] = {"tests/test_app.py": "import old\n\n\ndef test_old():\n    pass\n"}
    assert status(beside.measure(removed)) == "passed"
    assert status(beside.measure({**removed, "src/old.py": None})) == "failed"


@pytest.fixture(params=IN_PLACE)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    """A project whose checks run in the checkout's place."""
    with bench(tmp_path, FILES, request.param) as made:
        require_level(made.processes, request.param)
        yield Project(made)


@pytest.mark.parametrize("how", [*INSTALLS, "a finder before every path"])
def test_the_candidate_is_judged_and_not_the_checkout(project: Project, tmp_path: Path, how: str) -> None:
    """However it was installed, also where nothing else would do; with a plain run the checkout is judged."""
    if how in INSTALLS:
        INSTALLS[how](project)
    else:
        project.finder("insert(0, Finder)")
    assert not project.naive(CANDIDATE, tmp_path / "naive")
    assert status(project.measure(CANDIDATE)) == "passed"
    assert status(project.measure({"src/app/inner.py": "x = 1\n"})) == "failed"


def test_real_pytest_in_the_checkouts_place(project: Project) -> None:
    """With its report, its own environment and options that ignore every variable."""
    project.pth()
    assert status(project.measure(CANDIDATE, config_of(rule="all-pass"))) == "passed"
    isolated = ("python", "-I", "-m", "pytest", "-q", *PLAIN, "--junit-xml=.report.xml")
    measured = project.measure(CANDIDATE, config_of(argv=isolated, rule="all-pass"))
    assert status(measured) == "passed"
    assert measured.containment is not None
    assert (measured.containment.level, measured.containment.network) == ("S3", "none")


def test_what_was_removed_is_gone(project: Project) -> None:
    """The checkout still has it, and nobody can import it."""
    project.pth()
    uses: dict[str, str | None] = {"tests/test_app.py": "import old\n\n\ndef test_old():\n    pass\n"}
    assert status(project.measure(uses)) == "passed"
    assert status(project.measure({**uses, "src/old.py": None})) == "failed"


def test_an_installed_copy_that_comes_first_did_not_run(project: Project) -> None:
    """The proof is made here too: options that ignore our path leave the installed copy in front."""
    project.installed()
    (project.site / "judging.py").write_text("")
    isolated = replace(JUDGED, argv=("python", "-I", "-m", "judging"))
    assert "outside the candidate" in status(project.measure(CANDIDATE, isolated))


@pytest.mark.parametrize("level", ["S0", "S1", "S2", "S3"])
def test_what_a_check_sees_of_the_checkout(tmp_path: Path, level: Level) -> None:
    """From S1 on neither its files nor the home, the keys and the ledger beside it; its toolchain can only be read."""
    with bench(tmp_path, {"README.md": "hello\n"}, level) as made:
        require_level(made.processes, level)
        home, tools = tmp_path / "home", made.checkout / "tools"
        for folder in (home / ".ssh", tools, made.checkout / ".git"):
            folder.mkdir(parents=True)
            (folder / "file").write_text("kept\n")
        (made.checkout / "untracked").write_text("kept\n")
        sight = Sight(hide(home, repositories=[made.checkout], secret=[made.checkout / ".git"]))
        host = made.host(Toolchain(made.checkout, ("tools",), SEARCH), sight=sight)

        def succeeds(script: str) -> bool:
            measured = measure_command(shell(script), made.tree({})[1], host)
            assert measured.outcome == "completed", measured.problem
            return measured.cases["sh"].status == "passed"

        for place in (home / ".ssh/file", made.checkout / ".git/file", made.checkout / "untracked"):
            assert succeeds(f"cat {place}") is (level == "S0"), place
        assert succeeds(f"cat {tools}/file")
        assert succeeds(f"echo x > {tools}/other") is (level == "S0")
        assert succeeds(f"test $PWD = {made.checkout}") is (level == "S3")
        assert succeeds("cat README.md && echo x > README.md && touch $HOME/x $TMPDIR/x")
        assert (made.checkout / "README.md").read_text() == "hello\n"


def test_what_holds_something_hidden_is_not_reused(tmp_path: Path) -> None:
    """A repository that names its own ``.git`` as a folder to reuse gets no check; no folder is reached by a detour."""
    with bench(tmp_path, {"README.md": "\n"}) as made:
        require_level(made.processes, "S3")
        for name in (".git", "tools"):
            (made.checkout / name).mkdir()
        sight = Sight(hide(tmp_path / "home", repositories=[made.checkout], secret=[made.checkout / ".git"]))
        for folder, problem in (("tools", False), (".git", True), (".git/..", False)):
            host = made.host(Toolchain(made.checkout, (folder,), SEARCH), sight=sight)
            measured = measure_command(shell("true"), made.tree({})[1], host)
            assert ("may not be shown" in measured.problem) is problem, (folder, measured.problem)


SURFACES = {
    "nothing": ({}, True),
    "files of its own": ({"tools/x": "1\n"}, False),
    "a file": ({"tools": "1\n"}, False),
}


@pytest.mark.parametrize("name", SURFACES)
def test_a_path_that_the_candidate_has_stays_its_own(tmp_path: Path, name: str) -> None:
    """The reused folder lies only where the candidate has nothing."""
    files, is_bound = SURFACES[name]
    with bench(tmp_path, {"README.md": "\n"}) as made:
        require_level(made.processes, "S3")
        (made.checkout / "tools").mkdir()
        (made.checkout / "tools/y").write_text("2\n")
        host = made.host(Toolchain(made.checkout, ("tools", "none"), SEARCH))
        measured = measure_command(shell("test -f tools/y"), made.tree(files)[1], host)  # type: ignore[arg-type]
        assert (measured.cases["sh"].status == "passed") is is_bound


def place_of(made: Bench, tmp_path: Path, level: Level, **changes: object) -> tuple[CheckPlace, ScriptedRunner]:
    runner = ScriptedRunner({"/bin/sh": Scripted()}, level=level)
    host = replace(made.host(**changes), processes=runner)  # type: ignore[arg-type]
    place = CheckPlace(shell("true"), Path("/bin/sh"), tmp_path / "place", host, level)
    for folder in (place.surface, place.home, place.absent):
        folder.mkdir(parents=True)
    return place, runner


@pytest.mark.parametrize("level", ["S2", "S3"])
def test_the_copy_is_moved_only_where_it_can_be(tmp_path: Path, level: Level) -> None:
    """At S3 it is seen at the checkout's path, below it where it lies; the network is closed."""
    with bench(tmp_path, {"README.md": "\n"}) as made:
        place, runner = place_of(made, tmp_path, level)
        place.run(("/bin/sh", "-c", "true"), {}, limits())
        (command,) = runner.commands
        seen_at = made.checkout if level == "S3" else place.surface
        assert (command.cwd, command.sandbox.level, command.sandbox.network) == (seen_at, level, False)
        assert Mount(place.surface, seen_at, writable=True) in command.sandbox.mounts
        assert place.containment is not None
        assert place.containment.level == level


def test_below_its_demand_a_check_did_not_run(tmp_path: Path) -> None:
    """Waived, it runs with what there is."""
    with bench(tmp_path, {"README.md": "\n"}, "S0") as made:
        tree = made.tree({})[1]
        refused = measure_command(shell("true"), tree, made.host(demands={"sh": Demand("S2")}))
        assert (refused.outcome, refused.containment) == ("unavailable", None)
        assert "sandbox level S2" in refused.problem
        waived = measure_command(shell("true"), tree, made.host(demands={"sh": Demand("S2", is_waived=True)}))
        assert waived.outcome == "completed"
        assert waived.containment is not None
        assert waived.containment.level == "S0"
        assert measure_command(shell("true"), tree, made.host(demands={"x": Demand("S2")})).outcome == "completed"


def limits() -> Limits:
    return Limits(wall_ms=1000, stdout_bytes=100, stderr_bytes=100)
