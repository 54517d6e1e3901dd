"""The graph's identity: honest about the graph that is not there."""

from __future__ import annotations

from savant.identity.graph import graph_identity


def test_no_graph_is_said_to_be_none() -> None:
    """The extractor is ``none``, there are no nodes, and a limitation says what was not seen."""
    one, other = (graph_identity("sha1:" + digit * 40) for digit in "12")
    assert one.digest != other.digest
    assert graph_identity("sha1:" + "1" * 40) == one
    assert (one.document.extractor, one.document.nodes_digest) == ("none", None)
    (limitation,) = one.document.limitations
    assert "symbols" in limitation.text
    assert not limitation.blocking
