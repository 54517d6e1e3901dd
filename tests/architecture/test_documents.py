"""Every document that a package declares is known to the command and published under ``docs/contracts``."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from savant.cli.kinds import registry
from savant.contracts.document import Document, kind_of


def declared(sources: Mapping[Path, ast.Module]) -> dict[str, type[Document]]:
    """What the ``DOCUMENTS`` of all packages hold, by kind."""
    types: list[type[Document]] = []
    for path in sources:
        if path.name == "documents.py":
            types += importlib.import_module(".".join(path.with_suffix("").parts)).DOCUMENTS
    assert len({kind_of(type_) for type_ in types}) == len(types)
    return {kind_of(type_): type_ for type_ in types}


def test_the_command_knows_every_declared_kind(sources: Mapping[Path, ast.Module]) -> None:
    """No package's documents were forgotten, and each kind names the package that declares it."""
    known = registry()
    known.check()
    assert {kind: known[kind] for kind in known} == declared(sources)
    for kind, type_ in declared(sources).items():
        package = type_.__module__.removesuffix(".documents").removeprefix("savant.")
        assert kind.startswith(f"savant.{package}."), kind


def test_every_document_class_is_declared(sources: Mapping[Path, ast.Module]) -> None:
    """A class with a kind that no ``DOCUMENTS`` lists would be written and never accepted."""
    known = {type_.__name__ for type_ in declared(sources).values()}
    tagged = {
        node.name
        for tree in sources.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(isinstance(b, ast.Name) and b.id == "Document" for b in node.bases)
    }
    assert tagged == known


def test_what_is_published_is_what_the_code_declares(root: Path) -> None:
    """Schemas, the table of kinds and the generated pages are those of this revision."""
    ran = subprocess.run(
        [sys.executable, "tools/generate_docs.py", "--check"], cwd=root, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stdout + ran.stderr
