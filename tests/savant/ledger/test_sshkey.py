"""SSH public keys: one spelling, two types."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from savant.contracts.envelope import to_base64
from savant.contracts.errors import RefusedInput
from savant.ledger.ed25519 import Ed25519Signer
from savant.ledger.sshkey import PublicKey, WireReader, fingerprint, parse_public_blob, parse_public_line, wire_string

RAW = Ed25519Signer(b"\x07" * 32).public_raw
PLAIN = PublicKey(RAW)
SECURITY = PublicKey(RAW, b"ssh:")


@pytest.mark.parametrize("key", [PLAIN, SECURITY])
def test_a_key_survives_its_line_and_its_blob(key: PublicKey) -> None:
    """With and without a comment."""
    assert parse_public_line(key.line) == key
    assert parse_public_line(key.line + " somebody at some place\n") == key
    assert parse_public_blob(key.blob) == key


def test_the_two_types_have_different_ids() -> None:
    """The fingerprint covers the type and the application."""
    assert fingerprint(RAW) == PLAIN.keyid != SECURITY.keyid
    assert len(PLAIN.keyid) == len("SHA256:") + 43


@pytest.mark.parametrize(
    "line",
    [
        "",
        "ssh-ed25519",
        f"ssh-rsa {to_base64(PLAIN.blob)}",
        f"ssh-ed25519 {to_base64(SECURITY.blob)}",
        f"ssh-ed25519 {to_base64(PLAIN.blob)[:-1]}",
        f"ssh-ed25519 {to_base64(PLAIN.blob + b'x')}",
        f"ssh-ed25519 {to_base64(PLAIN.blob[:-1])}",
        f"ssh-ed25519 {to_base64(wire_string(b'ssh-ed25519') + wire_string(bytes(32)))}",
        f"ssh-rsa {to_base64(wire_string(b'ssh-rsa') + wire_string(RAW))}",
        PublicKey(RAW, b"x" * 2000).line,
    ],
)
def test_anything_else_is_refused(line: str) -> None:
    """Other types, sizes, left-over bytes, unsound points, endless applications."""
    with pytest.raises(RefusedInput):
        parse_public_line(line)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_key_of_one_spelling_or_refused(blob: bytes) -> None:
    """Nothing else can happen."""
    try:
        key = parse_public_blob(blob)
    except RefusedInput:
        return
    assert key.blob == blob


def test_a_reader_refuses_what_is_short_or_long() -> None:
    """With the code of its caller."""
    reader = WireReader(wire_string(b"ab") + b"c", "refused.test")
    assert reader.string() == b"ab"
    with pytest.raises(RefusedInput) as caught:
        reader.end()
    assert caught.value.code == "refused.test"
    with pytest.raises(RefusedInput):
        reader.number()
    assert reader.take(1) == b"c"
    reader.end()
