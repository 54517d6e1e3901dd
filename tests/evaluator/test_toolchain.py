"""The checkout's toolchain: what is found in it, what runs in what, and which links are safe."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluator.toolchain import (
    Interpreter,
    Toolchain,
    interpreter_of,
    interpreters_of,
    leaking_link,
    link_packages,
    python_options,
)
from savant.contracts.errors import UsageError


def tool(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def toolchain(tmp_path: Path) -> Toolchain:
    tool(tmp_path / "checkout/.venv/bin/python3", "\x7fELF")
    tool(tmp_path / "system/python3", "\x7fELF")
    tool(tmp_path / "system/node", "\x7fELF")
    return Toolchain(tmp_path / "checkout", (".venv", "node_modules"), (tmp_path / "system",))


def test_the_toolchain_comes_before_the_path(toolchain: Toolchain, tmp_path: Path) -> None:
    """A bare name is looked up in the reused folders first, then on the person's PATH; bare, only there."""
    venv = tmp_path / "checkout/.venv/bin"
    assert toolchain.bin_folders() == (venv, tmp_path / "system")
    assert toolchain.resolve("python3") == venv / "python3"
    assert toolchain.resolve("node") == tmp_path / "system/node"
    tool(tmp_path / "checkout/node_modules/.bin/node")
    assert toolchain.resolve("node") == tmp_path / "checkout/node_modules/.bin/node"
    bare = Toolchain(None, (".venv",), (tmp_path / "system",))
    assert bare.resolve("python3") == tmp_path / "system/python3"
    with pytest.raises(UsageError) as caught:
        toolchain.resolve("nothing")
    assert caught.value.code == "usage.executable-not-found"


def test_the_digest_names_what_is_installed(toolchain: Toolchain, tmp_path: Path) -> None:
    """It changes with a version of the interpreter, of a distribution or of the lock, and with nothing else."""
    assert Toolchain(None, (".venv",), ()).digest() is None
    assert toolchain.digest() is None
    root = tmp_path / "checkout/.venv"
    (root / "pyvenv.cfg").write_text(f"home = {tmp_path}\nversion = 3.11.7\n")
    site = root / "lib/python3.11/site-packages"
    (site / "pytest-9.0.dist-info").mkdir(parents=True)
    seen = [toolchain.digest()]
    (root / "pyvenv.cfg").write_text("home = /elsewhere\nversion = 3.11.7\n")
    (site / "notes.txt").touch()
    assert toolchain.digest() == seen[0]
    (site / "pytest-9.0.dist-info").rename(site / "pytest-9.1.dist-info")
    seen.append(toolchain.digest())
    (root / "pyvenv.cfg").write_text("version = 3.12.0\n")
    seen.append(toolchain.digest())
    tool(tmp_path / "checkout/node_modules/.package-lock.json", "{}")
    seen.append(toolchain.digest())
    tool(tmp_path / "checkout/node_modules/.package-lock.json", "{ }")
    seen.append(toolchain.digest())
    assert len({*seen}) == 5
    assert None not in seen


@pytest.mark.parametrize(
    ("words", "options", "runs"),
    [
        ((), (), None),
        (("-V",), ("-V",), None),
        (("-m", "pytest", "-q"), (), "-m"),
        (("-c", "pass"), (), "-m"),
        (("-I", "-m", "pytest"), ("-I",), "-m"),
        (("-sPm", "pytest"), ("-sP",), "-m"),
        (("-W", "error", "-Xdev", "-X", "utf8", "x.py", "-I"), ("-W", "error", "-Xdev", "-X", "utf8"), "x.py"),
        (("-W",), ("-W", ""), None),
        (("--help-all", "-"), ("--help-all",), "-"),
        (("-bb", "/abs.py"), ("-bb",), "/abs.py"),
    ],
)
def test_the_options_of_a_python(words: tuple[str, ...], options: tuple[str, ...], runs: str | None) -> None:
    """The options before what is run, with their own arguments, and what is run."""
    assert python_options(words) == (options, runs)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("#!{system}/python3\n", ("{system}/python3", ())),
        ("#! {system}/python3 -sP\n", ("{system}/python3", ("-sP",))),
        ("#!/usr/bin/env python3\n", ("{venv}/python3", ())),
        ("#!/usr/bin/env -S A=b python3 -I\n", ("{venv}/python3", ("-I",))),
        ('#!/bin/sh\n\'\'\'exec\' "{system}/python3" -I "$0" "$@"\n', ("{system}/python3", ("-I",))),
        ("#!/bin/sh\n'''exec' {system}/python3\n", ("{system}/python3", ())),
        (
            '#!/bin/sh\n\'\'\'exec\' "$(dirname -- "$(realpath -- "$0")")"/\'python3\' "$0" "$@"\n',
            ("{venv}/python3", ()),
        ),
        ("#!/bin/sh\nexec python3\n", None),
        ("#!/bin/sh\n'''exec' \"unclosed\n", None),
        ("#!/bin/sh\n", None),
        ("#!/usr/bin/env node\n", None),
        ("#!/usr/bin/env\n", None),
        ("#!\n", None),
        ("#!{system}/pythonic\n", None),
        ("\x7fELF", None),
        ("", None),
    ],
)
def test_what_a_script_runs_in(
    toolchain: Toolchain, tmp_path: Path, head: str, expected: tuple[str, tuple[str, ...]] | None
) -> None:
    """Each form of a first line that is in use is read; what is no Python script is none."""
    places = {"system": str(tmp_path / "system"), "venv": str(tmp_path / "checkout/.venv/bin")}
    script = tool(tmp_path / "checkout/.venv/bin/tool", head.replace("{system}", places["system"]))
    made = interpreter_of(script, toolchain)
    if expected is None:
        assert made is None
    else:
        assert made == Interpreter(Path(expected[0].format_map(places)), expected[1])


def test_a_long_path_with_a_space(toolchain: Toolchain, tmp_path: Path) -> None:
    """The two lines that installers write for a path with a space are read as the shell would."""
    python = tool(tmp_path / "a b/python3.11")
    script = tool(tmp_path / "tool", f'#!/bin/sh\n\'\'\'exec\' "{python}" "$0" "$@"\n')
    assert interpreter_of(script, toolchain) == Interpreter(python)


def test_a_python_that_is_not_there_is_refused(toolchain: Toolchain, tmp_path: Path) -> None:
    """A Python script whose interpreter cannot be found is no tool without Python: it is refused."""
    for head in ("#!/nonexistent/python3\n", "#!/usr/bin/env python9.9\n"):
        with pytest.raises(UsageError):
            interpreter_of(tool(tmp_path / "tool", head), toolchain)
    assert interpreter_of(tmp_path / "nothing", toolchain) is None


def test_the_pythons_of_a_tool(toolchain: Toolchain, tmp_path: Path) -> None:
    """A Python is its own, a script has one, and another tool may use each Python that is found by name."""
    venv = tmp_path / "checkout/.venv/bin"
    assert interpreters_of(venv / "python3", ("-I", "-m", "x"), toolchain) == (Interpreter(venv / "python3", ("-I",)),)
    script = tool(tmp_path / "tool", "#!/usr/bin/env python3\n")
    assert interpreters_of(script, (), toolchain) == (Interpreter(venv / "python3"),)
    make = tool(tmp_path / "make", "\x7fELF")
    assert interpreters_of(make, (), toolchain) == (Interpreter(venv / "python3"),)
    (venv / "python").symlink_to(venv / "python3")
    assert interpreters_of(make, (), toolchain) == (Interpreter(venv / "python"),)
    (venv / "python").unlink()
    tool(tmp_path / "system/python", "\x7fELF")
    assert [i.path for i in interpreters_of(make, (), toolchain)] == [tmp_path / "system/python", venv / "python3"]
    assert interpreters_of(make, (), Toolchain(None, (), ())) == ()


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout/node_modules"
    for name in ("left/index.js", "@own/pad/index.js", ".bin/jest", ".cache/x", ".pnpm/left@1/node_modules/left/a.js"):
        tool(folder / name)
    tool(tmp_path / "checkout/packages/mine/index.js")
    tool(tmp_path / "shared/other/index.js")
    (folder / "right").symlink_to(Path(".pnpm/left@1/node_modules/left"))
    (folder / "other").symlink_to(tmp_path / "shared/other")
    return folder


def test_links_that_stay_out_of_the_checkout_are_safe(modules: Path, tmp_path: Path) -> None:
    """Links inside the folder and to places outside the checkout judge nothing of it."""
    assert leaking_link(modules, tmp_path / "checkout") is None


@pytest.mark.parametrize(
    "name", ["mine", "@own/mine", "@scope", ".pnpm/node_modules/mine", ".pnpm/left@1/node_modules/mine"]
)
def test_a_link_into_the_checkout_is_found(modules: Path, tmp_path: Path, name: str) -> None:
    """A workspace package, wherever the installer links it, would be judged instead of the candidate's."""
    (modules / name).parent.mkdir(exist_ok=True)
    (modules / name).symlink_to(tmp_path / "checkout/packages/mine")
    found = leaking_link(modules, tmp_path / "checkout")
    assert found is not None
    assert name.endswith(found)


def test_packages_are_linked_and_the_folder_is_our_own(modules: Path, tmp_path: Path) -> None:
    """Each package is reachable, and what a tool leaves in the folder stays out of the checkout."""
    target = tmp_path / "copy"
    link_packages(modules, target)
    assert (target / "left/index.js").is_file()
    assert (target / "@own/pad/index.js").is_file()
    assert (target / "right/a.js").is_file()
    assert (target / ".bin/jest").is_file()
    assert not (target / ".cache").exists()
    tool(target / ".cache/new")
    tool(target / "@own/new")
    assert not (modules / ".cache/new").exists()
    assert not (modules / "@own/new").exists()
