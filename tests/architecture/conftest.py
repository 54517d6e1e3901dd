"""The project's own sources, read once and never imported by these fixtures."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of ``pyproject.toml``."""
    return ROOT


@pytest.fixture(scope="session")
def project() -> dict[str, Any]:
    """``pyproject.toml``."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(scope="session")
def top_packages(project: dict[str, Any]) -> tuple[str, ...]:
    """The packages that the wheel holds."""
    return tuple(project["tool"]["uv"]["build-backend"]["module-name"])


@pytest.fixture(scope="session")
def sources(top_packages: tuple[str, ...]) -> Mapping[Path, ast.Module]:
    """Every module of the shipped packages, parsed, by its path relative to the root."""
    return {
        path.relative_to(ROOT): ast.parse(path.read_bytes(), str(path))
        for package in top_packages
        for path in sorted((ROOT / package).rglob("*.py"))
    }
