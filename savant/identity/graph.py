"""The identity of the code graph. Pure. No extractor exists yet, and the document says so."""

from __future__ import annotations

from savant.contracts.document import Sealed, seal
from savant.identity.documents import Graph
from synthesis.documents import Limitation


def graph_identity(base_commit: str) -> Sealed[Graph]:
    """The graph of a base: none was extracted, so no symbol, import or call was seen."""
    return seal(
        Graph(
            base_commit=base_commit,
            extractor="none",
            nodes_digest=None,
            limitations=(
                Limitation(
                    source="identity.graph",
                    text="No code graph was extracted: symbols, imports and calls were not seen.",
                    blocking=False,
                ),
            ),
        )
    )
