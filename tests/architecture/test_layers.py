"""Who may import whom: the contracts of ``tool.importlinter`` hold, and they would notice a breach."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LINT = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"

BREACHES = (
    ("layers", "synthesis/breach.py", "import driver"),
    ("shared", "savant/files/breach.py", "import savant.store"),
    ("click", "runner/breach.py", "import click"),
    ("blake3", "savant/store/breach.py", "import blake3"),
    ("cryptography", "driver/breach.py", "import cryptography.hazmat.primitives"),
    ("acp", "commandprovider/breach.py", "import acp.schema"),
    ("pydantic-commandprovider", "commandprovider/input.py", "import pydantic"),
    ("codeowners", "admission/breach.py", "import codeowners"),
    ("git", "evaluator/breach.py", "import git"),
    ("pydantic", "providerport/breach.py", "import pydantic"),
)


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", "--config", "pyproject.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(root: Path, tmp_path: Path, top_packages: tuple[str, ...]) -> Path:
    """The shipped packages and their configuration, to be broken."""
    for package in top_packages:
        shutil.copytree(root / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_import_contract_holds(root: Path, project: dict[str, Any]) -> None:
    """The layers and the third-party seams are as drawn."""
    ran = lint(root)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    kept = len(project["tool"]["importlinter"]["contracts"])
    assert f"Contracts: {kept} kept, 0 broken." in ran.stdout


@pytest.mark.slow
def test_every_import_contract_notices_a_breach(copy: Path, project: dict[str, Any]) -> None:
    """One forbidden import for each contract, and each contract is reported as broken."""
    for _, place, statement in BREACHES:
        (copy / place).write_text(statement + "\n", encoding="utf-8")
    ran = lint(copy)
    names = {contract["id"]: contract["name"] for contract in project["tool"]["importlinter"]["contracts"]}
    broken = {id_ for id_, name in names.items() if f"{name} BROKEN" in ran.stdout}
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert broken == {id_ for id_, _, _ in BREACHES}
    assert set(names) - {id_ for id_, _, _ in BREACHES} == set()


def test_no_package_is_outside_the_order(root: Path, project: dict[str, Any], top_packages: tuple[str, ...]) -> None:
    """Every shipped package is linted, and every package of the order exists and has exactly one place."""
    linter = project["tool"]["importlinter"]
    assert set(linter["root_packages"]) == set(top_packages)
    layers = next(contract for contract in linter["contracts"] if contract["id"] == "layers")["layers"]
    placed = [name.strip() for layer in layers for name in layer.split("|")]
    under_savant = {f"savant.{path.parent.name}" for path in (root / "savant").glob("*/__init__.py")}
    assert sorted(placed) == sorted((set(top_packages) - {"savant"}) | under_savant)


def test_every_folder_that_can_be_imported_is_shipped(root: Path, top_packages: tuple[str, ...]) -> None:
    """No package lies in the root without being in the wheel."""
    assert {path.parent.name for path in root.glob("*/__init__.py")} - {"benchmarks"} == set(top_packages)
