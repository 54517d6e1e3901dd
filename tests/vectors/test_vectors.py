"""Every kind has vectors: valid ones that are accepted and named as pinned, invalid ones refused for their reason.

``make.py`` writes the vectors of a new kind. A vector that no longer passes means that a published document changed.
"""

from __future__ import annotations

import importlib
import json
import tomllib
from pathlib import Path

import jsonschema_rs
import pytest

from savant.contracts.document import Document, accept, kind_of
from savant.contracts.errors import SavantError
from savant.contracts.registry import Registry

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

CODES = {
    "byte-order-mark": "refused.malformed",
    "digest-newline": "refused.malformed",
    "duplicate-member": "refused.not-canonical",
    "escaped": "refused.not-canonical",
    "float": "refused.malformed",
    "float-spelling": "refused.malformed",
    "member-order": "refused.not-canonical",
    "missing-member": "refused.malformed",
    "negative": "refused.malformed",
    "no-kind": "refused.not-canonical",
    "not-an-object": "refused.malformed",
    "set-order": "refused.set-order",
    "set-repeat": "refused.set-order",
    "short-digest": "refused.malformed",
    "too-large-integer": "refused.malformed",
    "trailing-data": "refused.malformed",
    "trailing-newline": "refused.not-canonical",
    "truncated": "refused.malformed",
    "unknown-member": "refused.malformed",
    "white-space": "refused.not-canonical",
    "wrong-digest-form": "refused.malformed",
    "wrong-kind": "refused.malformed",
    "wrong-type": "refused.malformed",
}
"""The code of each reason that a file under ``invalid/`` may be named after."""


def declared() -> dict[str, type[Document]]:
    """Every kind that any package declares."""
    tops = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["uv"]["build-backend"]["module-name"]
    found = (path for top in tops for path in (ROOT / top).rglob("documents.py"))
    modules = (importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts)) for path in found)
    return {kind_of(type_): type_ for module in modules for type_ in module.DOCUMENTS}


KINDS = declared()
REGISTRY = Registry(KINDS.values())
VALID = sorted(HERE.glob("*/*/valid/*.json"))
INVALID = sorted(HERE.glob("*/*/invalid/*.json"))
RUN_MAKE = "run tests/vectors/make.py"


def name(path: Path) -> str:
    return str(path.relative_to(HERE))


def kind(path: Path) -> str:
    return "/".join(path.relative_to(HERE).parts[:2])


@pytest.mark.parametrize("kind_", sorted(KINDS))
def test_every_kind_has_vectors(kind_: str) -> None:
    """At least one valid and two invalid vectors stand for each kind, and each valid one has its digest pinned."""
    valid = {path.stem for path in VALID if kind(path) == kind_}
    assert valid, RUN_MAKE
    assert sum(kind(path) == kind_ for path in INVALID) >= 2, RUN_MAKE
    assert set(json.loads((HERE / kind_ / "digests.json").read_bytes())) == valid, RUN_MAKE


def test_no_vector_stands_for_a_kind_that_is_gone() -> None:
    """A published kind does not disappear, and a folder with a wrong name would test nothing."""
    assert {kind(path) for path in (*VALID, *INVALID)} <= set(KINDS)


@pytest.mark.parametrize("path", VALID, ids=name)
def test_a_valid_vector_is_accepted_under_its_pinned_name(path: Path) -> None:
    """Same bytes again, the pinned digest, found by its kind, and valid under the published schema."""
    raw = path.read_bytes()
    pinned = json.loads((path.parents[1] / "digests.json").read_bytes())[path.stem]
    sealed = accept(raw, KINDS[kind(path)], declared_digest=pinned)
    assert sealed.raw == raw
    assert REGISTRY.accept(raw, declared_digest=pinned) == sealed
    jsonschema_rs.validate(REGISTRY.schema(kind(path)), json.loads(raw))


@pytest.mark.parametrize("path", INVALID, ids=name)
def test_an_invalid_vector_is_refused_for_its_reason(path: Path) -> None:
    """The code is the one of the reason in the file's name."""
    with pytest.raises(SavantError) as error:
        accept(path.read_bytes(), KINDS[kind(path)])
    assert error.value.code == CODES[path.stem]
