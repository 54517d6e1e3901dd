"""Packages export what they say, and everything public is described and typed."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import savant

Function = ast.FunctionDef | ast.AsyncFunctionDef


def packages(sources: Mapping[Path, ast.Module]) -> dict[str, ast.Module]:
    return {".".join(path.parent.parts): tree for path, tree in sources.items() if path.name == "__init__.py"}


def bound_names(tree: ast.Module, own: str, tops: tuple[str, ...]) -> Iterator[str]:
    """The public names that a package's ``__init__`` takes over from our own modules or defines."""
    for node in tree.body:
        match node:
            case ast.ImportFrom(module=str(module), level=0) if module.partition(".")[0] in tops:
                yield from (alias.asname or alias.name for alias in node.names)
            case ast.ImportFrom(level=level) if level:
                msg = f"{own}: relative import"
                raise AssertionError(msg)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) if not name.startswith("_"):
                yield name


def test_every_package_says_what_it_owns_and_is_typed(root: Path, sources: Mapping[Path, ast.Module]) -> None:
    """A paragraph, an ``__all__`` and a ``py.typed`` in each."""
    incomplete = []
    for name, tree in packages(sources).items():
        targets = [t.id for node in tree.body for t in assigned(node) if isinstance(t, ast.Name)]
        if not ast.get_docstring(tree) or "__all__" not in targets:
            incomplete.append(name)
        if not (root / name.replace(".", "/") / "py.typed").is_file():
            incomplete.append(f"{name}: py.typed")
    assert incomplete == []


def assigned(node: ast.stmt) -> list[ast.expr]:
    match node:
        case ast.Assign(targets=targets):
            return targets
        case ast.AnnAssign(target=target):
            return [target]
        case _:
            return []


def test_every_package_exports_exactly_what_it_lists(
    sources: Mapping[Path, ast.Module], top_packages: tuple[str, ...]
) -> None:
    """``__all__`` is complete: every name exists, and no re-exported name is missing."""
    for name, tree in packages(sources).items():
        module = importlib.import_module(name)
        listed = list(module.__all__)
        assert len(set(listed)) == len(listed), f"{name} lists a name twice"
        missing = [export for export in listed if not hasattr(module, export)]
        assert not missing, f"{name}.__all__ names what is not there: {missing}"
        unlisted = set(bound_names(tree, name, top_packages)) - set(listed)
        assert not unlisted, f"{name} re-exports without listing: {sorted(unlisted)}"


def public(body: list[ast.stmt], where: str) -> Iterator[tuple[str, Function | ast.ClassDef]]:
    for node in body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            yield f"{where}.{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body, f"{where}.{node.name}")


def is_overload(node: Function | ast.ClassDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id in {"overload", "override"} for d in node.decorator_list)


def test_everything_public_has_a_docstring_and_return_types(sources: Mapping[Path, ast.Module]) -> None:
    """What another package can call says what it does and what it gives."""
    undescribed, untyped = [], []
    for path, tree in sources.items():
        if not ast.get_docstring(tree):
            undescribed.append(str(path))
        for name, node in public(tree.body, str(path)):
            if not ast.get_docstring(node) and not is_overload(node):
                undescribed.append(name)
            if isinstance(node, Function) and node.returns is None:
                untyped.append(name)
    assert not undescribed
    assert not untyped


def test_the_version_is_the_distributions(project: dict[str, Any]) -> None:
    """The number in the code is the number of the wheel."""
    assert savant.__version__ == project["project"]["version"]


@pytest.mark.parametrize("pattern", ["utils", "helpers", "misc", "common", "manager"])
def test_no_module_is_a_room_without_a_purpose(sources: Mapping[Path, ast.Module], pattern: str) -> None:
    """A module is named for what it holds."""
    assert [str(path) for path in sources if pattern in path.stem] == []
