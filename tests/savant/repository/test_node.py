"""The node format: the worked example, strict parsing, and one encoding per meaning."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from savant.contracts.digest import raw_digest
from savant.contracts.errors import RefusedInput, Unverifiable
from savant.repository import node
from savant.repository.node import HEADING, MODES, Entry, MemoryNodes, check_name, encode_node, parse_node

NAMES = st.binary(min_size=1, max_size=6).filter(lambda n: b"/" not in n and b"\0" not in n and n not in (b".", b".."))
ENTRIES = st.builds(Entry, st.sampled_from(MODES), st.binary(min_size=32, max_size=32))
CHILDREN = st.dictionaries(NAMES, ENTRIES, max_size=6)
D = bytes(range(32))


def code_of(raw: bytes) -> str:
    with pytest.raises(RefusedInput) as caught:
        parse_node(raw)
    return caught.value.code


def test_the_worked_example() -> None:
    """The example of the specification is computed as written there, byte by byte."""
    raw = encode_node({b"b": Entry("symlink", raw_digest(b"a")), b"a": Entry("regular", raw_digest(b"x\n"))})
    assert raw == (
        b"savant.tree/v1\0"
        + bytes.fromhex("00 00000001 61")
        + raw_digest(b"x\n")
        + bytes.fromhex("02 00000001 62")
        + raw_digest(b"a")
    )
    assert len(raw) == 91
    assert node.__doc__ is not None
    assert f"blake3:{raw_digest(raw).hex()}" in node.__doc__
    assert encode_node({}) == HEADING


@given(CHILDREN)
def test_round_trip(children: dict[bytes, Entry]) -> None:
    """What is encoded is parsed back, in order of the names, and encodes to the same bytes."""
    raw = encode_node(children)
    parsed = parse_node(raw)
    assert parsed == children
    assert list(parsed) == sorted(children)
    assert encode_node(parsed) == raw


@given(st.binary(max_size=200) | st.binary(max_size=120).map(lambda tail: HEADING + tail))
def test_parsing_is_strict(raw: bytes) -> None:
    """Any bytes are refused by code, or are exactly the encoding of what was parsed."""
    with suppress(RefusedInput):
        assert encode_node(parse_node(raw)) == raw


@given(CHILDREN, st.data())
def test_every_cut_and_flip_is_noticed(children: dict[bytes, Entry], data: st.DataObject) -> None:
    """A node that lost its end is refused or means something else: never the same entries."""
    raw = encode_node(children)
    cut = data.draw(st.integers(0, len(raw) - 1))
    with suppress(RefusedInput):
        assert parse_node(raw[:cut]) != children


def entry(name: bytes, mode: int = 0, digest: bytes = D) -> bytes:
    return bytes([mode]) + len(name).to_bytes(4, "big") + name + digest


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "refused.malformed-node"),
        (HEADING[:-1], "refused.malformed-node"),
        (b"savant.tree/v2\0", "refused.malformed-node"),
        (HEADING + entry(b"a", 5), "refused.malformed-node"),
        (HEADING + entry(b"a")[:-1], "refused.malformed-node"),
        (HEADING + b"\0", "refused.malformed-node"),
        (HEADING + b"\0\xff\xff\xff\xffa" + D, "refused.malformed-node"),
        (HEADING + entry(b"b") + entry(b"a"), "refused.malformed-node"),
        (HEADING + entry(b"a") + entry(b"a"), "refused.malformed-node"),
        (HEADING + entry(b""), "refused.bad-name"),
        (HEADING + entry(b"."), "refused.bad-name"),
        (HEADING + entry(b".."), "refused.bad-name"),
        (HEADING + entry(b"a/b"), "refused.bad-name"),
        (HEADING + entry(b"a\0b"), "refused.bad-name"),
    ],
)
def test_what_is_refused(raw: bytes, code: str) -> None:
    """Each way to be malformed has its code; the same bytes in order are accepted."""
    assert code_of(raw) == code
    assert list(parse_node(HEADING + entry(b"a") + entry(b"b"))) == [b"a", b"b"]


@pytest.mark.parametrize("name", [b"", b".", b"..", b"a/b", b"a\0"])
def test_bad_names_cannot_be_encoded(name: bytes) -> None:
    """A name that no file can have is refused before it gets into a digest."""
    for call in (lambda: check_name(name), lambda: encode_node({name: Entry("regular", D)})):
        with pytest.raises(RefusedInput) as caught:
            call()
        assert caught.value.code == "refused.bad-name"
    check_name(b"...")


def test_digests_have_32_bytes() -> None:
    """An entry with another digest length cannot be encoded."""
    with pytest.raises(RefusedInput) as caught:
        encode_node({b"a": Entry("regular", D[:-1])})
    assert caught.value.code == "refused.malformed-node"


def test_layers_of_nodes() -> None:
    """A layer finds what is below it, copies only itself, and says when a node is nowhere."""
    below, raw = MemoryNodes(), encode_node({})
    digest = below.put(raw)
    above = MemoryNodes(under=below)
    own = above.put(HEADING + entry(b"a"))
    copy = above.layer()
    assert copy.get(digest) == raw
    assert list(copy.items()) == [(own, HEADING + entry(b"a"))]
    assert len(copy) == 1
    copy.put(HEADING + entry(b"b"))
    assert len(above) == 1
    for nodes in (copy, MemoryNodes({digest: raw})):
        with pytest.raises(Unverifiable) as caught:
            nodes.get(D)
        assert caught.value.code == "unverifiable.node-missing"


def test_b3sum_would_agree() -> None:
    """The digest of content is plain BLAKE3: the published test vector of the empty input."""
    assert raw_digest(b"").hex() == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert node.link_digest(b"a") == raw_digest(b"a")
    assert node.gitlink_digest("sha1:" + "1" * 40) == raw_digest(b"sha1:" + b"1" * 40)
