"""A command on a fresh copy: reports, linked packages, environment, and what is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evaluator.checks import command
from evaluator.checks.command import Measured, measure_command
from evaluator.documents import EvaluatorConfig
from evaluator.toolchain import Toolchain
from runner.overlay import Content
from savant.contracts.errors import PortError
from savant.process.port import Level
from tests.evaluator.kit import SEARCH, Bench, bench, config_of, require_level


def shell(script: str, **changes: object) -> EvaluatorConfig:
    plain: dict[str, object] = {"rule": "all-pass", "result_format": "exit-status", "report_path": None, **changes}
    return config_of("sh", argv=("sh", "-c", script), **plain)


def reporting(*cases: str) -> EvaluatorConfig:
    report = "<testsuite>" + "".join(cases) + "</testsuite>"
    return shell(f"cat > .report.xml <<'END'\n{report}\nEND", result_format="junit", report_path=".report.xml")


def case(name: str, inner: str = "") -> str:
    return f'<testcase classname="m" name="{name}">{inner}</testcase>'


def measure(project: Bench, config: EvaluatorConfig, **changes: str | Content | None) -> Measured:
    measured = measure_command(config, project.tree(changes)[1], project.host())
    assert not list(project.scratch.iterdir())
    return measured


def test_the_exit_status_is_the_result(project: Bench) -> None:
    """Status 0 passes, another one fails with the status and the end of the output."""
    assert measure(project, shell("exit 0")).cases["sh"].status == "passed"
    failed = measure(project, shell("echo out; echo err >&2; exit 3")).cases["sh"]
    (finding,) = failed.findings
    assert (failed.status, finding.message, finding.excerpt) == ("failed", "exit status 3", "out\n\nerr")


def test_lines_of_a_linter_are_findings(project: Bench) -> None:
    """Lines that name a place of the copy are findings of their own."""
    script = "echo $PWD/calc.py:3:1: E1 bad; echo README.md:1: odd; exit 1"
    found = measure(project, shell(script)).cases["sh"].findings
    assert [(f.path, f.line, f.message) for f in found] == [
        ("calc.py", 3, "calc.py:3:1: E1 bad"),
        ("README.md", 1, "README.md:1: odd"),
    ]


def test_a_report_and_the_exit_status_both_count(project: Bench) -> None:
    """Green cases with a bad status fail the command as a whole; the cases stay as they are told."""
    good = reporting(case("a"))
    measured = measure(
        project, config_of("sh", **{**fields(good), "argv": (*good.argv[:2], good.argv[2] + "\nexit 1")})
    )
    assert {name: c.status for name, c in measured.cases.items()} == {"sh:m::a": "passed", "sh": "failed"}
    assert measured.cases["sh"].findings[0].message == "exit status 1"


@pytest.mark.parametrize(("inner", "excerpt"), [("", "the disk is full"), ("<failure message='m'/>", "")])
def test_where_no_case_shows_why_it_failed_the_output_does(project: Bench, inner: str, excerpt: str) -> None:
    """The next attempt reads one or the other."""
    good = reporting(case("a", inner))
    argv = (*good.argv[:2], good.argv[2] + "\necho the disk is full >&2; exit 1")
    measured = measure(project, config_of("sh", **{**fields(good), "argv": argv}))
    (finding,) = measured.cases["sh"].findings
    assert (finding.message, finding.excerpt) == ("exit status 1", excerpt)


def fields(config: EvaluatorConfig) -> dict[str, object]:
    return {name: getattr(config, name) for name in config.__struct_fields__ if name != "id"}


def test_names_that_normalise_to_one_are_numbered(project: Bench) -> None:
    """Two tests whose names differ in an address alone stay two, in the order of the report."""
    failure = "<failure message='m'/>"
    measured = measure(project, reporting(case("t[0x7f0011]"), case("t[0x7f0022]", failure), case("u", "<skipped/>")))
    statuses = [c.status for name, c in measured.cases.items() if name != "sh"]
    assert statuses == ["passed", "failed", "skipped"]
    again = measure(project, reporting(case("t[0x7f0033]"), case("t[0x7f0044]", failure), case("u", "<skipped/>")))
    assert again.cases == measured.cases


def test_a_forged_number_hides_nothing(project: Bench) -> None:
    """A test that takes the name of a numbered one cannot turn its failure into a pass."""
    failure = "<failure message='m'/>"
    forged = '<testcase classname="m::t[0x7f0011]" name="+2"/>'
    measured = measure(project, reporting(case("t[0x7f0011]"), case("t[0x7f0022]", failure), forged))
    assert sorted(c.status for name, c in measured.cases.items() if name != "sh") == ["failed", "passed"]


@pytest.mark.parametrize("report", ["", "<html/>", "<testsuite/>"])
def test_a_report_of_nothing_is_no_pass(project: Bench, report: str) -> None:
    """No report, no JUnit report and a report without a test: the check did not run, although the status is 0."""
    config = shell(f"printf '%s' '{report}' > .report.xml", result_format="junit", report_path=".report.xml")
    measured = measure(project, config)
    assert (measured.outcome, measured.cases["sh"].status) == ("unavailable", "unavailable")


def test_a_report_path_that_is_a_folder(project: Bench) -> None:
    """Where the candidate put a folder in the report's place, the check did not run."""
    config = reporting(case("a"))
    measured = measure_command(config, project.tree({".report.xml/x": "y"})[1], project.host())
    assert (measured.outcome, measured.materialised) == ("unavailable", False)


def test_the_environment_is_private(project: Bench) -> None:
    """A command sees the names that are allowed, a home and temporary folder of its own, and nothing else."""
    host = project.host(ambient={"ALLOWED": "yes"})
    os.environ["SAVANT_TEST_SECRET"] = "no"
    try:
        script = 'env | grep SECRET && exit 4; test "$ALLOWED" = yes || exit 5; test "$HOME/tmp" = "$TMPDIR" || exit 6'
        tree = project.tree({})[1]
        assert measure_command(shell(script), tree, host).cases["sh"].status == "passed"
    finally:
        del os.environ["SAVANT_TEST_SECRET"]
    assert measure_command(shell('test "$ALLOWED" = yes'), tree, project.host()).cases["sh"].status == "failed"


def test_each_run_has_a_fresh_copy(project: Bench) -> None:
    """What a run leaves in its copy is not there in the next one."""
    script = "test ! -e left && touch left && chmod 000 left && mkdir deep && touch deep/x && chmod 000 deep"
    for _ in range(2):
        measured = measure(project, shell(script))
        assert (measured.cases["sh"].status, measured.cleaned) == ("passed", True)


def test_a_copy_that_stays_is_told(project: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that could not be removed does not change the result, and is told."""

    def refuse(_: Path) -> None:
        raise PortError("port.disk", "no")

    with monkeypatch.context() as patched:
        patched.setattr(command, "remove_tree", refuse)
        measured = measure_command(shell("exit 0"), project.tree({})[1], project.host())
    assert (measured.outcome, measured.cleaned) == ("completed", False)
    for left in project.scratch.iterdir():
        command.remove_tree(left)


@pytest.mark.parametrize("level", ["S0", "S2", "S3"])
def test_packages_of_the_checkout_are_reachable(tmp_path: Path, level: Level) -> None:
    """``node_modules`` is linked package by package, and what tools leave in it stays out of the checkout.

    A package that is a link into the checkout is the candidate's own in the checkout's place; elsewhere it is not run.
    """
    with bench(tmp_path, {"mine/index.js": "base\n", "README.md": "\n"}, level) as made:
        require_level(made.processes, level)
        modules, toolchain = made.checkout / "node_modules", Toolchain(made.checkout, ("node_modules",), SEARCH)
        for name in ("left", "@scope/right", ".pnpm/deep"):
            (modules / name).mkdir(parents=True)
            (modules / name / "index.js").write_text("1")
        (modules / "@scope/deep").symlink_to("../.pnpm/deep")

        def status(script: str, changes: dict[str, str | Content | None]) -> str:
            measured = measure_command(shell(script), made.tree(changes)[1], made.host(toolchain))
            return measured.problem or measured.cases["sh"].status

        there = " && ".join(f"test -f node_modules/{name}/index.js" for name in ("left", "@scope/right", "@scope/deep"))
        assert status(f"{there} && mkdir node_modules/.cache", {}) == "passed"
        assert not (modules / ".cache").exists()
        written = status("echo 2 > node_modules/left/index.js", {})
        assert (written, (modules / "left/index.js").read_text()) == (
            ("passed", "2\n") if level == "S0" else ("failed", "1")
        )
        own = {"node_modules/left/index.js": "3"}
        assert status('test "$(cat node_modules/left/index.js)" = 3', own) == "passed"  # type: ignore[arg-type]
        (modules / "mine").symlink_to("../mine")
        seen = status('test "$(cat node_modules/mine/index.js)" = candidate', {"mine/index.js": "candidate\n"})
        refused = "node_modules/mine is a link into the checkout, so the checkout would be judged"
        assert seen == ("passed" if level == "S3" else refused)


def test_a_word_that_is_no_argument_did_not_run(project: Bench) -> None:
    """A configured word that no process can be given is the check's problem, not a crash."""
    measured = measure(project, config_of("sh", **{**fields(shell("x")), "argv": ("sh", "a\0b")}))
    assert measured.outcome == "unavailable"


def test_a_name_that_is_not_utf8_is_no_obstacle(project: Bench) -> None:
    """A tree with names in other bytes is laid out and judged."""
    tree = project.tree({})[1]

    class Odd:
        def paths(self) -> object:
            return iter([*tree.paths(), b"\xff"])

        def mode(self, path: bytes) -> object:
            return "regular" if path == b"\xff" else tree.mode(path)

        def read(self, path: bytes) -> bytes:
            return b"x" if path == b"\xff" else tree.read(path)

    measured = measure_command(shell("test $(ls | wc -l) -ge 5"), Odd(), project.host())  # type: ignore[arg-type]
    assert measured.cases["sh"].status == "passed"
