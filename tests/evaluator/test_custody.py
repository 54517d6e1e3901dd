"""What judges comes from the base."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.custody import Held, custody_paths, hold, judges_at, sections, undeclared
from evaluator.documents import Custody
from evaluator.gatefiles import GATES, TESTS
from providerport.port import FileMode
from runner.overlay import Content
from savant.contracts.errors import RefusedInput
from savant.contracts.scalars import as_set
from synthesis.documents import IntendedChange, Plan
from tests.evaluator.kit import EVERYTHING, Bench, bench, plan_of

CUSTODY = Custody(tests=as_set(TESTS), gates=as_set(GATES))
DOCS = IntendedChange(pattern="docs/**", operations=EVERYTHING.operations)
NAMES = ("tool.pytest", "tool:pytest", "scripts", "coverage")


def held(bench: Bench, change: dict[str, str | None]) -> Held:
    candidate, tree = bench.tree(change)
    return hold(CUSTODY, bench.snapshot, tree, candidate.operations)


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({"calc.py": "x = 1\n"}, ()),
        ({"tests/test_add.py": "x = 1\n"}, ("tests/test_add.py",)),
        ({"tests/test_add.py": None}, ("tests/test_add.py",)),
        ({"tests/test_more.py": "x = 1\n"}, ()),
        ({"tests/conftest.py": "x = 1\n"}, ("tests/conftest.py",)),
        ({"deep/down/sitecustomize.py": "x = 1\n"}, ("deep/down/sitecustomize.py",)),
        ({"tests/test_add.py": None, "other.txt": "x"}, ("tests/test_add.py",)),
        (
            {"tests/test_add.py": None, "tests/test_sub.py": None, "tests": "x"},
            ("tests", "tests/test_add.py", "tests/test_sub.py"),
        ),
        (
            {"tests/test_add.py": None, "tests/test_add.py/inner.txt": "x"},
            ("tests/test_add.py", "tests/test_add.py/inner.txt"),
        ),
    ],
)
def test_what_is_kept(project: Bench, change: dict[str, str | None], kept: tuple[str, ...]) -> None:
    """Existing tests and every gate come from the base; new tests and everything else do not."""
    found = held(project, change)
    assert found.kept == kept
    for path in kept:
        raw = path.encode()
        assert found.tree.mode(raw) == project.snapshot.mode(raw)
        if project.snapshot.mode(raw) is not None:
            assert found.tree.read(raw) == project.snapshot.read(raw)
        else:
            with pytest.raises(RefusedInput):
                found.tree.read(raw)
    for path, text in change.items():
        if path not in kept and text is not None:
            assert found.tree.read(path.encode()) == text.encode()
    assert list(found.tree.paths()) == sorted(found.tree.paths())


def test_what_is_judged_has_a_digest_of_its_own(project: Bench) -> None:
    """With nothing kept it is the candidate's; with everything kept the base's."""
    free = held(project, {"calc.py": "x = 1\n"})
    assert free.digest != project.snapshot.manifest.digest
    assert held(project, {"tests/test_add.py": "x = 1\n"}).digest == project.snapshot.manifest.digest
    assert held(project, {"calc.py": "x = 1\n", "tests/test_add.py": "y = 1\n"}).digest == free.digest


def test_new_tests_are_laid_over_the_base(project: Bench) -> None:
    """The base with the new test, and without the change; none where there is no new test."""
    found = held(project, {"calc.py": "x = 1\n", "tests/test_more.py": "y = 1\n"})
    assert found.with_tests is not None
    assert found.with_tests.read(b"tests/test_more.py") == b"y = 1\n"
    assert found.with_tests.read(b"calc.py") == project.snapshot.read(b"calc.py")
    assert dict(found.with_tests.read_many([b"calc.py", b"tests/test_more.py"])) == {  # type: ignore[attr-defined]
        b"calc.py": project.snapshot.read(b"calc.py"),
        b"tests/test_more.py": b"y = 1\n",
    }
    assert held(project, {"calc.py": "x = 1\n"}).with_tests is None
    blocked = held(project, {"calc.py": None, "calc.py/tests/test_more.py": "y = 1\n"})
    assert blocked.with_tests is None


@pytest.mark.parametrize(
    ("name", "before", "after", "judges"),
    [
        ("pyproject.toml", '[project]\nname = "a"\n', '[project]\nname = "b"\n', False),
        ("pyproject.toml", "[tool.pytest]\na = 1\n", "[tool.pytest]\na = 2\n", True),
        ("pyproject.toml", "[tool.pytest]\na = 1\n", "not toml [", True),
        ("pyproject.toml", "", '[tool.pytest.ini_options]\naddopts = "-x"\n', True),
        ("setup.cfg", "[metadata]\nname = a\n", "[metadata]\nname = b\n", False),
        ("setup.cfg", "[metadata]\nname = a\n", "[tool:pytest]\naddopts = -x\n", True),
        ("setup.cfg", "[coverage:run]\na = 1\n", "[coverage:run]\na = 2\n", True),
        ("package.json", '{"version": "1"}', '{"version": "2"}', False),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "true"}}', True),
        ("web/package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "true"}}', True),
        ("Makefile", "a:\n", "b:\n", True),
    ],
)
def test_of_a_manifest_only_some_parts_judge(tmp_path: Path, name: str, before: str, after: str, judges: bool) -> None:
    """A version may move; how tests run may not."""
    with bench(tmp_path, {name: before}) as made:
        assert held(made, {name: after}).kept == ((name,) if judges else ())


def test_a_manifest_that_becomes_a_link_judges(tmp_path: Path) -> None:
    """Only files are looked into."""
    with bench(tmp_path, {"pyproject.toml": "", "other.toml": ""}) as made:
        candidate, _ = made.tree({"pyproject.toml": Content("symlink", b"other.toml")})
        paths = custody_paths(CUSTODY, candidate.operations, lambda *_: b"", lambda *_: b"")
    assert paths == ("pyproject.toml",)


def test_sections_of_anything() -> None:
    """TOML, INI and JSON are read; of anything else the whole content counts."""
    assert sections(None, NAMES) == {}
    assert sections(b"\xff", NAMES) == b"\xff"
    assert sections(b"[a]\nb = 1\n[a]\nb = 2\n", NAMES) == b"[a]\nb = 1\n[a]\nb = 2\n"
    assert sections(b'{"scripts": 1}', NAMES) == {"scripts": {"scripts": 1}}
    assert sections(b"[tool]\npytest = 1\n", NAMES) == {"tool.pytest": 1}
    assert sections(b"[tool]\nother = 1\n", NAMES) == {}
    assert sections(b"tool = 1\n", NAMES) == {}


@given(st.binary(max_size=200))
def test_any_bytes_have_sections(raw: bytes) -> None:
    """Nothing that a candidate writes breaks the reading."""
    assert sections(raw, NAMES) == sections(raw, NAMES)


@pytest.mark.parametrize(
    ("plan", "open_"),
    [
        (plan_of(), ("tests/test_add.py",)),
        (plan_of(declares=True), ()),
        (plan_of(promise="none"), ()),
        (plan_of(declares=True, change=DOCS), ("tests/test_add.py",)),
    ],
)
def test_what_is_declared(project: Bench, plan: Plan, open_: tuple[str, ...]) -> None:
    """A step that declares it and promises the path declares it; a change that existed before its plan needs none."""
    candidate, _ = project.tree({"tests/test_add.py": "x = 1\n"})
    assert undeclared(("tests/test_add.py",), candidate.operations, plan) == open_


def test_what_judges_by_name(project: Bench) -> None:
    """An existing test or gate; not a new one, not a file of which only parts judge, not anything else."""
    asked: list[bytes] = []

    def mode(path: bytes) -> FileMode | None:
        asked.append(path)
        return project.snapshot.mode(path)

    judges = judges_at(CUSTODY, mode)
    paths = ("tests/test_add.py", "conftest.py", "tests/new.py", "pyproject.toml", "calc.py")
    assert [judges(path) for path in paths] == [True, True, False, False, False]
    assert asked == [b"tests/test_add.py", b"conftest.py", b"tests/new.py"]
