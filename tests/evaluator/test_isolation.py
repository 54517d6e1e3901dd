"""The proof that a Python tool judges the candidate: real virtual environments, real editable installs, real pytest.

The base and the checkout hold VALUE 1, the candidate VALUE 2, and the test asks for 2: whoever judges the checkout
fails it, and whoever judges the candidate passes it. The other way round for what the candidate removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from evaluator import isolation
from evaluator.isolation import isolate, module_names
from evaluator.toolchain import Interpreter, Toolchain
from tests.evaluator.kit import PLAIN, bench, config_of
from tests.evaluator.projectkit import CANDIDATE, FILES, FINDER, INSTALLS, JUDGE, JUDGED, Project, status


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with bench(tmp_path, FILES, "S0") as made:
        yield Project(made)


@pytest.mark.parametrize("how", INSTALLS)
def test_the_candidate_is_judged(project: Project, tmp_path: Path, how: str) -> None:
    """However the project was installed, the candidate is judged; just running pytest judges what was installed."""
    INSTALLS[how](project)
    assert status(project.measure(CANDIDATE, config_of(rule="all-pass"))) == "passed"
    assert status(project.measure({"src/app/inner.py": "x = 1\n"})) == "failed"
    assert not project.naive(CANDIDATE, tmp_path / "naive", "pytest", "-q", *PLAIN)


def test_what_cannot_be_put_first_did_not_run(project: Project, tmp_path: Path) -> None:
    """A finder that comes before every path cannot be outdone: the check did not run, and says why."""
    project.finder("insert(0, Finder)")
    assert not project.naive(CANDIDATE, tmp_path / "naive")
    measured = project.measure(CANDIDATE)
    assert measured.outcome == "unavailable"
    assert "would import app from outside the candidate" in measured.problem


@pytest.mark.parametrize("words", [("-I",), ("-s", "-E")])
def test_options_that_ignore_the_path_are_heeded(project: Project, words: tuple[str, ...]) -> None:
    """A Python that is told to ignore the environment ignores ours too: the proof is made with its options."""
    project.pth()
    (project.site / "judging.py").write_text(JUDGE)

    def judged(*options: str) -> str:
        return status(project.measure(CANDIDATE, replace(JUDGED, argv=("python", *options, "-m", "judging"))))

    assert "outside the candidate" in judged(*words)
    assert judged("-s") == "passed"


def test_the_options_of_a_script_are_heeded(project: Project) -> None:
    """Options in a script's first line are part of the proof as well."""
    project.pth()
    project.script("judge", f"#!{project.root}/bin/python -I\n")
    assert "outside the candidate" in status(project.measure(CANDIDATE))


@pytest.mark.parametrize(
    "head",
    [
        "#!/usr/bin/env python3\n",
        "#!/usr/bin/env -S python3 -s\n",
        "#!/bin/sh\n'''exec' \"{bin}/python\" \"$0\" \"$@\"\n' '''\n",
        "#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n' '''\n",
    ],
)
def test_every_first_line_is_proven(project: Project, head: str) -> None:
    """Scripts that name their interpreter in another way are proven, and run, like any other."""
    project.pth()
    project.script("judge", head.replace("{bin}", str(project.root / "bin")))
    assert status(project.measure(CANDIDATE)) == "passed"


def test_a_tool_that_starts_pytest_is_proven_too(project: Project) -> None:
    """A tool that is no Python itself may start one: the Pythons on its PATH judge the candidate."""
    project.pth()
    words = " ".join(("pytest", "-q", *PLAIN, "--junit-xml=.report.xml"))
    assert status(project.measure(CANDIDATE, config_of(argv=("sh", "-c", words)))) == "passed"
    project.finder("insert(0, Finder)")
    assert "outside the candidate" in status(project.measure(CANDIDATE, config_of(argv=("sh", "-c", words))))


def test_what_was_removed_is_not_found_in_the_checkout(project: Project, tmp_path: Path) -> None:
    """A module that the candidate removed is not imported from the checkout, on its own or in a namespace."""
    project.pth()
    uses = {"tests/test_app.py": "import old\nimport space.old\n\n\ndef test_old():\n    pass\n"}
    assert status(project.measure(uses)) == "passed"
    for gone in ("src/old.py", "src/space/old.py"):
        assert project.naive({**uses, gone: None}, tmp_path / gone)
        measured = project.measure({**uses, gone: None})
        assert status(measured) == "failed"
        (finding,) = measured.cases["pytest"].findings
        assert "ModuleNotFoundError: No module named" in finding.excerpt
        assert "check-" not in finding.excerpt


def test_a_namespace_package_is_the_candidates(project: Project, tmp_path: Path) -> None:
    """A package without a file of its own is judged module by module."""
    project.pth()
    test = {"tests/test_app.py": "from space import part\n\n\ndef test_part():\n    assert part.VALUE == 2\n"}
    changes: dict[str, str | None] = {**test, "src/space/part.py": "VALUE = 2\n"}
    assert not project.naive(changes, tmp_path / "naive")
    assert status(project.measure(changes)) == "passed"


def test_a_project_inside_the_repository(tmp_path: Path) -> None:
    """A package in a folder that no convention names is found where the interpreter finds it."""
    files = {
        "services/one/app/__init__.py": "VALUE = 1\n",
        "tests/test_app.py": FILES["tests/test_app.py"],
    }
    with bench(tmp_path, files, "S0") as made:
        project = Project(made)
        project.pth("services/one")
        changes: dict[str, str | None] = {"services/one/app/__init__.py": "VALUE = 2\n"}
        assert not project.naive(changes, tmp_path / "naive")
        assert status(project.measure(changes)) == "passed"
        (project.site / "__editable__.app.pth").unlink()
        direct = project.site / "app-1.dist-info"
        direct.mkdir()
        (direct / "METADATA").write_text("Metadata-Version: 2.1\nName: app\nVersion: 1\n")
        url = f"file://{made.checkout}/services/one"
        (direct / "direct_url.json").write_text(f'{{"url": "{url}", "dir_info": {{"editable": true}}}}')
        (project.site / "hook.py").write_text(
            FINDER.format(place=str(made.checkout / "services/one/app"), how="insert(0, Finder)")
        )
        (project.site / "hook.pth").write_text("import hook; hook.install()\n")
        assert "would import app" in status(project.measure(changes))


@pytest.mark.parametrize("how", ["an installed copy", "nothing"])
def test_a_project_that_is_judged_in_its_folder(tmp_path: Path, how: str) -> None:
    """Where the check starts in a folder, modules of that folder are the candidate's, as at home."""
    files = {
        "services/one/app/__init__.py": "VALUE = 1\n",
        "services/one/tests/test_app.py": FILES["tests/test_app.py"],
        "services/two/app/__init__.py": "VALUE = 3\n",
    }
    with bench(tmp_path, files, "S0") as made:
        project = Project(made)
        if how == "an installed copy":
            project.installed()
        argv = ("python", "-m", "pytest", "-q", *PLAIN, "--junit-xml=.report.xml")
        config = config_of(argv=argv, directory="services/one", report_path="services/one/.report.xml")
        changes: dict[str, str | None] = {"services/one/app/__init__.py": "VALUE = 2\n"}
        assert status(project.measure(changes, config)) == "passed"
        assert status(project.measure({"services/two/app/__init__.py": "VALUE = 2\n"}, config)) == "failed"
        bare = config_of("pytest", argv=("judge",), result_format="exit-status", report_path=None, rule="all-pass")
        if how == "an installed copy":
            assert status(project.measure(changes, replace(bare, directory="services/one"))) == "passed"


def test_the_working_directory_of_python_m(tmp_path: Path) -> None:
    """``python -m`` and a script find what lies beside them, as they do at home, without any installation."""
    files = {
        "app.py": "VALUE = 2\n",
        "tests/test_app.py": FILES["tests/test_app.py"],
        "ci/check.py": "import beside\n",
        "ci/beside.py": "",
    }
    with bench(tmp_path, files, "S0") as made:
        project = Project(made)
        argv = ("python", "-m", "pytest", "-q", *PLAIN, "--junit-xml=.report.xml")
        assert status(project.measure({"app.py": "VALUE = 2  # still\n"}, config_of(argv=argv))) == "passed"
        plain = config_of(argv=("python", "ci/check.py"), result_format="exit-status", report_path=None)
        assert status(project.measure({}, plain)) == "passed"
        assert status(project.measure({"ci/beside.py": None}, plain)) == "failed"


def test_a_foreign_package_called_tests_is_no_leak(project: Project) -> None:
    """An installed distribution that owns the name ``tests`` keeps no project from being judged."""
    project.pth()
    (project.site / "tests").mkdir()
    (project.site / "tests" / "__init__.py").write_text("")
    assert status(project.measure(CANDIDATE)) == "passed"


def test_a_python_that_cannot_be_asked(project: Project) -> None:
    """Without an answer nothing is proven: the check did not run. Words before the answer do no harm."""
    project.pth()
    (project.site / "loud.pth").write_text("import sys; print('hello')\n")
    assert status(project.measure(CANDIDATE)) == "passed"
    (project.site / "loud.pth").write_text("import os; os._exit(3)\n")
    assert "could not be asked" in status(project.measure(CANDIDATE))


def test_a_script_without_its_python(project: Project) -> None:
    """A Python script whose interpreter is gone did not run."""
    project.script("judge", "#!/nonexistent/bin/python3\n")
    assert "no executable '/nonexistent/bin/python3'" in status(project.measure(CANDIDATE))


@pytest.mark.parametrize("raw", [b"", b"no json", b"{}", b"[" * 100_000, b'{"found": 1}'])
def test_an_answer_that_is_none(tmp_path: Path, raw: bytes) -> None:
    """What is no answer proves nothing."""
    (tmp_path / "surface").mkdir()
    (tmp_path / "absent").mkdir()
    made = isolate(
        Interpreter(Path("/python")),
        tmp_path / "surface",
        lambda *_: raw,
        Toolchain(None, (), ()),
        tmp_path / "absent",
    )
    assert made.problem is not None
    assert "could not be asked" in made.problem


def test_too_many_modules_are_not_proven(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too much to look at is not taken for proven."""
    project.pth()
    monkeypatch.setattr(isolation, "MAX_NAMES", 2)
    assert "more than 2 modules" in status(project.measure(CANDIDATE))


def test_the_names_of_a_folder(tmp_path: Path) -> None:
    """Modules, packages and namespaces are named once with their root; linked, odd and empty ones are not."""
    for name in (
        "a.py",
        "b/__init__.py",
        "b/c.py",
        "n/m.py",
        "n/o/p.py",
        "e/x.txt",
        "no-name.py",
        "__main__.py",
        "src/a.py",
        "src/z.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "linked").symlink_to(tmp_path / "n")
    (tmp_path / "lib").symlink_to(tmp_path / "src")
    names = module_names(tmp_path, ("", "src", "lib", "none"), without=(tmp_path / "src",))
    assert names == {
        "a": "",
        "b": "",
        "n": "",
        "n.m": "",
        "n.o": "",
        "n.o.p": "",
        "z": "src",
    }
