"""The drawing of the error tree, the classes, their families and every code in the sources are one thing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from savant.contracts import errors
from savant.contracts.errors import SavantError

DRAWN = re.compile(
    r"^ {0,4}(?P<branch>[|`]-- )?(?P<name>[A-Z][A-Za-z]+) +(?P<family>[a-z]+)(?: {2,}.*)?$", re.MULTILINE
)
CODE = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)+")


def classes() -> dict[str, type[SavantError]]:
    return {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, SavantError)
    }


def all_errors(type_: type[SavantError]) -> Iterator[type[SavantError]]:
    yield type_
    for below in type_.__subclasses__():
        yield from all_errors(below)


def raised(sources: Mapping[Path, ast.Module]) -> Iterator[tuple[str, str, str]]:
    """Where an error class is called with a literal code: the place, the class and the code."""
    for path, tree in sources.items():
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(code)), *_]) if name in classes():
                    yield f"{path}:{node.lineno}", name, code


def test_the_drawing_is_the_classes() -> None:
    """Every class is drawn once, with its family, below the root; nothing else is drawn."""
    drawn = {
        found["name"]: (found["family"], found["branch"] is not None) for found in DRAWN.finditer(errors.__doc__ or "")
    }
    assert drawn == {name: (type_.family, type_ is not SavantError) for name, type_ in classes().items()}
    assert all(type_.__bases__ == (SavantError,) for type_ in classes().values() if type_ is not SavantError)


def test_a_family_belongs_to_one_class() -> None:
    """Only the root shares the family of an internal error: an error that nobody classified is ours."""
    families = [type_.family for type_ in classes().values() if type_ is not SavantError]
    assert len(set(families)) == len(families)
    assert SavantError.family == errors.InternalError.family


def test_every_code_in_the_sources_belongs_to_its_class(sources: Mapping[Path, ast.Module]) -> None:
    """No error is raised under a code that the class would have to correct."""
    found = list(raised(sources))
    assert len(found) > 20
    wrong = [
        (place, name, code)
        for place, name, code in found
        if CODE.fullmatch(code) is None or code.partition(".")[0] != classes()[name].family
    ]
    assert wrong == []


def test_every_error_class_of_ours_is_in_the_tree_and_keeps_a_family_of_it() -> None:
    """A package may refine a class; it inherits the family and so the exit code."""
    families = {type_.family for type_ in classes().values()}
    assert {type_.family for type_ in all_errors(SavantError)} <= families
