"""The built wheel holds everything, and runs from a folder full of decoys."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from configparser import ConfigParser
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

UV = Path(sys.executable).parent / "uv"
DECOY = "raise SystemExit('a decoy was imported')\n"


def run(*argv: str | Path, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COV_", "COVERAGE_"))}
    return subprocess.run(
        [str(part) for part in argv], cwd=cwd, env=clean | (env or {}), capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without any network from the working tree."""
    out = tmp_path_factory.mktemp("wheel")
    built = run(
        UV, "build", "--wheel", "--no-build-isolation", "--offline", "--no-config", "--cache-dir", out / "cache",
        "--python", sys.executable, "--out-dir", out, root,
        cwd=root,
        env={"PATH": f"{UV.parent}{os.pathsep}{os.environ.get('PATH', '')}"},
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    (made,) = out.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment with the wheel alone; third parties are taken from the environment of the tests."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, with_pip=False, symlinks=True)
    ran = run(
        UV, "pip", "install", "--no-deps", "--offline", "--no-config", "--cache-dir", home / "cache",
        "--python", home / "bin" / "python", wheel,
        cwd=home,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    (site,) = (home / "lib").glob("python*/site-packages")
    (site / "third_parties.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return home


@pytest.fixture
def decoys(tmp_path: Path, top_packages: tuple[str, ...]) -> Path:
    """A folder with a package and a module named after each of ours."""
    for package in top_packages:
        (tmp_path / "packages" / package).mkdir(parents=True)
        (tmp_path / "packages" / package / "__init__.py").write_text(DECOY, encoding="utf-8")
        (tmp_path / "packages" / f"{package}.py").write_text(DECOY, encoding="utf-8")
    return tmp_path / "packages"


def test_the_wheel_holds_every_file_of_every_package(wheel: Path, root: Path, top_packages: tuple[str, ...]) -> None:
    """Modules, type markers and data files: what lies in a package is shipped, and nothing else is."""
    expected = {
        path.relative_to(root).as_posix()
        for package in top_packages
        for path in (root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert {f"{package}/py.typed" for package in top_packages} <= expected


def test_the_wheel_names_what_it_is(wheel: Path, project: dict[str, Any]) -> None:
    """Name, version, licence, dependencies and the one console script are those of ``pyproject.toml``."""
    info = f"savant_synthesis-{project['project']['version']}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        metadata = message_from_string(archive.read(f"{info}/METADATA").decode())
        scripts = ConfigParser()
        scripts.read_string(archive.read(f"{info}/entry_points.txt").decode())
        licence = archive.read(f"{info}/licenses/LICENSE").decode()
    assert (metadata["Name"], metadata["Version"]) == ("savant-synthesis", project["project"]["version"])
    assert (metadata["Requires-Python"], metadata["License-Expression"]) == (">=3.11", "Apache-2.0")
    assert len(metadata.get_all("Requires-Dist", [])) == len(project["project"]["dependencies"])
    assert dict(scripts["console_scripts"]) == project["project"]["scripts"]
    assert "Apache License" in licence


def test_the_command_runs_from_a_folder_full_of_decoys(installed: Path, decoys: Path, project: dict[str, Any]) -> None:
    """The folder that a person stands in is not a place that we import from."""
    ran = run(installed / "bin" / "savant", "--version", cwd=decoys)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"savant {project['project']['version']}\n", "")


def test_every_package_is_imported_from_the_installation(
    installed: Path, decoys: Path, top_packages: tuple[str, ...]
) -> None:
    """All nine, as an isolated child would import them from that folder."""
    code = f"import importlib\nfor n in {top_packages!r}: print(importlib.import_module(n).__file__)"
    ran = run(installed / "bin" / "python", "-I", "-c", code, cwd=decoys)
    assert ran.returncode == 0, ran.stderr
    files = [Path(line) for line in ran.stdout.splitlines()]
    assert len(files) == len(top_packages)
    assert all(file.is_relative_to(installed) for file in files)


def test_a_shadowed_package_is_refused_at_start_without_being_imported(
    installed: Path, decoys: Path, top_packages: tuple[str, ...]
) -> None:
    """Where the search path itself prefers decoys of the stages, nothing is run and each of them is named."""
    for shadow in (decoys / "savant.py", decoys / "savant" / "__init__.py"):
        shadow.unlink()
    (decoys / "savant").rmdir()
    ran = run(installed / "bin" / "savant", "--version", cwd=decoys, env={"PYTHONPATH": str(decoys)})
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "a decoy was imported" not in ran.stderr
    assert "untrusted import path" in ran.stderr
    assert all(package in ran.stderr for package in top_packages if package != "savant")
