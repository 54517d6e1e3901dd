"""DSSE envelopes: one signature, one spelling."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from savant.contracts import envelope
from savant.contracts.errors import InternalError, RefusedInput

KEYID = "SHA256:" + "A" * 43
SIGNATURE = bytes(range(64))


def line_with(change: Callable[[dict[str, Any]], object]) -> bytes:
    value = json.loads(envelope.encode_envelope(b"{}", keyid=KEYID, signature=SIGNATURE))
    change(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def test_the_encoding_that_is_signed_is_the_protocols() -> None:
    """The worked example of the DSSE protocol text."""
    assert envelope.pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


@given(st.text(max_size=20), st.binary(max_size=20), st.text(max_size=20), st.binary(max_size=20))
def test_two_different_messages_are_never_signed_as_the_same_bytes(a: str, x: bytes, b: str, y: bytes) -> None:
    """The encoding is injective: types and bodies cannot be shifted into one another."""
    assert (envelope.pae(a, x) == envelope.pae(b, y)) == ((a, x) == (b, y))


@given(st.binary(max_size=200), st.binary(min_size=64, max_size=64))
def test_a_line_gives_back_what_it_was_made_from(body: bytes, signature: bytes) -> None:
    """Body, key id and signature survive, byte for byte, on one line."""
    line = envelope.encode_envelope(body, keyid=KEYID, signature=signature)
    assert envelope.parse_envelope(line) == (body, KEYID, signature)
    assert b"\n" not in line


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda e: e.update(payloadType="application/json"), "refused.payload-type"),
        (lambda e: e["signatures"].append(e["signatures"][0]), "refused.signature-count"),
        (lambda e: e["signatures"].clear(), "refused.signature-count"),
        (lambda e: e["signatures"][0].update(sig=base64.b64encode(bytes(63)).decode()), "refused.signature-size"),
        (lambda e: e["signatures"][0].update(keyid="SHA256:short"), "refused.malformed"),
        (lambda e: e["signatures"][0].update(keyid=KEYID + "\n"), "refused.malformed"),
        (lambda e: e["signatures"][0].pop("keyid"), "refused.malformed"),
        (lambda e: e.update(extra=1), "refused.malformed"),
        (lambda e: e.update(payload="e30"), "refused.base64"),
        (lambda e: e.update(payload="e31="), "refused.base64"),
        (lambda e: e.update(payload="e3_="), "refused.malformed"),
    ],
)
def test_an_envelope_of_another_shape_is_refused(change: Callable[[dict[str, Any]], object], code: str) -> None:
    """Another type, more or fewer signatures, other sizes, members or spellings do not parse."""
    with pytest.raises(RefusedInput) as refused:
        envelope.parse_envelope(line_with(change))
    assert refused.value.code == code
    assert envelope.parse_envelope(line_with(lambda e: None)) == (b"{}", KEYID, SIGNATURE)


def test_a_respaced_envelope_is_refused() -> None:
    """The line itself has one spelling, so that its hash is the record's name."""
    line = envelope.encode_envelope(b"{}", keyid=KEYID, signature=SIGNATURE)
    with pytest.raises(RefusedInput) as refused:
        envelope.parse_envelope(line.replace(b",", b", "))
    assert refused.value.code == "refused.not-canonical"


@pytest.mark.parametrize("text", ["e30", "e31=", " e30=", "e30=\n", "e3\u00e9=", "e3_="])
def test_base64_has_one_spelling(text: str) -> None:
    """Missing padding, stray bits, white space and other alphabets are refused."""
    with pytest.raises(RefusedInput) as refused:
        envelope.from_base64(text)
    assert refused.value.code == "refused.base64"
    assert envelope.from_base64("e30=") == b"{}"


def test_a_signature_of_another_size_is_never_written() -> None:
    """We do not write what we would refuse to read."""
    with pytest.raises(InternalError) as refused:
        envelope.encode_envelope(b"{}", keyid=KEYID, signature=SIGNATURE[1:])
    assert refused.value.code == "internal.signature-size"
