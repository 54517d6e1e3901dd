"""The census: every row of the proof matrix runs its proof, and nothing is counted that did not run."""

from __future__ import annotations

import inspect
from collections import Counter
from types import ModuleType
from typing import Final

import pytest

from tests.e2e.conftest import Shop
from tests.matrix import proofs_added, proofs_seed
from tests.matrix.rows import MATRIX, Later, Row

PROVEN: Final[set[str]] = set()
"""The rows whose proofs ran to their end in this process."""

PROVABLE: Final = [row for row in MATRIX if not isinstance(row.proof, Later)]
LATER: Final = [row for row in MATRIX if isinstance(row.proof, Later)]

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("row", PROVABLE, ids=lambda row: row.name)
def test_a_row_is_proven(row: Row, shop: Shop) -> None:
    """The proof runs through the public entry and says itself what holds."""
    assert not isinstance(row.proof, Later)
    row.proof(shop)
    PROVEN.add(row.name)


def public(module: ModuleType) -> set[object]:
    functions = inspect.getmembers(module, inspect.isfunction)
    return {f for name, f in functions if f.__module__ == module.__name__ and not name.startswith("_")}


def test_every_proof_stands_for_one_row() -> None:
    """No proof is counted twice, none that was written is left out, and no two rows share a name."""
    proofs = [row.proof for row in PROVABLE]
    assert [proof for proof, count in Counter(proofs).items() if count > 1] == []
    assert public(proofs_seed) | public(proofs_added) <= set(proofs)
    assert len({row.name for row in MATRIX}) == len(MATRIX)
    assert all(inspect.getdoc(proof) for proof in proofs if not isinstance(proof, Later))


def test_what_waits_is_counted_and_has_a_reason() -> None:
    """Everything from the beginning is proven; five additions wait for a later version, each with its reason."""
    assert {row.origin for row in LATER} == {"added"}
    assert Counter(row.origin for row in PROVABLE) == {"seed": 21, "added": 25}
    assert [row.name for row in LATER] == [
        "plan review: escalate",
        "every class of drift refuses, no owner called",
        "crash at every step boundary, resumed",
        "budgets unchanged by a restart",
        "breakers of change size, oscillation, stagnation and repeated failures",
    ]
    assert all(isinstance(row.proof, Later) and row.proof.reason for row in LATER)


def test_what_waits_is_not_there_yet() -> None:
    """A row may wait only as long as the version really lacks it: there is no command that continues a run."""
    from driver.step import STEPS
    from savant.cli.app import COMMANDS

    assert not {"resume", "continue"} & set(COMMANDS)
    assert not any("review-observation" in call for call, _ in STEPS.values())


def test_the_census(request: pytest.FixtureRequest) -> None:
    """Every row that this session was asked for has been proven in it; this test comes last."""
    asked: set[str] = set()
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.originalname == "test_a_row_is_proven":
            row = item.callspec.params["row"]
            assert isinstance(row, Row)
            asked.add(row.name)
    assert asked - PROVEN == set()
