"""The ledger's documents are closed and canonical."""

from __future__ import annotations

from savant.contracts.registry import Registry
from savant.ledger.documents import DOCUMENTS


def test_every_document_is_closed_and_has_a_schema() -> None:
    """The registry proves it when it is built."""
    registry = Registry(DOCUMENTS)
    assert len(registry) == len(DOCUMENTS) == 8
    for kind in registry:
        assert kind.startswith("savant.ledger.")
        assert registry.schema(kind)["additionalProperties"] is False
