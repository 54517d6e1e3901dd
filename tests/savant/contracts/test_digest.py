"""Digests: the published vectors, and one written form."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from savant.contracts import digest

EMPTY = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
ABC = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"


def test_the_published_vectors_hold() -> None:
    """The digest is plain BLAKE3, so that ``b3sum`` agrees."""
    assert digest.digest(b"") == f"blake3:{EMPTY}"
    assert digest.digest(b"abc") == f"blake3:{ABC}"
    assert digest.sha256_hex(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@given(st.binary(max_size=3000), st.integers(0, 3000))
def test_feeding_in_two_pieces_gives_the_same_digest(data: bytes, cut: int) -> None:
    """Incremental and whole agree, on bytes and on a view of them."""
    hasher = digest.new_hasher()
    hasher.update(data[:cut])
    hasher.update(data[cut:])
    assert hasher.digest() == digest.raw_digest(data) == digest.raw_digest(memoryview(data))
    assert len(hasher.digest()) == digest.RAW_BYTES


@given(st.binary(min_size=32, max_size=32))
def test_the_written_form_and_the_raw_bytes_are_each_others_inverse(raw: bytes) -> None:
    """No information is lost between a document and the Merkle code."""
    assert digest.to_raw(digest.to_text(raw)) == raw


@given(st.binary(max_size=100))
def test_all_forms_name_the_same_digest(data: bytes) -> None:
    """Text and raw digests of the same bytes are the same digest; SHA-256 is the library's."""
    assert digest.to_raw(digest.digest(data)) == digest.raw_digest(data)
    assert digest.sha256_hex(data) == hashlib.sha256(data).hexdigest()
