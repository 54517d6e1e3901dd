"""Checkpoints: the C2SP form, exactly, and whose they are."""

from __future__ import annotations

import pytest

from savant.contracts.envelope import to_base64
from savant.contracts.errors import RefusedInput, SavantError, VerificationError
from savant.ledger import Ed25519Signer, Ed25519Verifier
from savant.ledger.checkpoint import (
    note_key_id,
    origin_of,
    parse_checkpoint,
    parse_vkey,
    sign_checkpoint,
    verify_checkpoint,
    vkey,
)

ORIGIN = origin_of("00112233445566778899aabbccddeeff")
LOG = Ed25519Signer(b"\x01" * 32)
OTHER = Ed25519Signer(b"\x02" * 32)
ROOT = bytes(range(32))
NOTE = sign_checkpoint(LOG, ORIGIN, 7, ROOT).note


def verify(note: str, origin: str = ORIGIN, signer: Ed25519Signer = LOG) -> None:
    verify_checkpoint(note, origin=origin, public_raw=signer.public_raw, verifier=Ed25519Verifier())


def test_a_signed_checkpoint_is_read_back_and_verified() -> None:
    """Three lines, an empty one, and one signature whose first four bytes are the key id."""
    checkpoint = verify_checkpoint(NOTE, origin=ORIGIN, public_raw=LOG.public_raw, verifier=Ed25519Verifier())
    assert (checkpoint.origin, checkpoint.size, checkpoint.root) == (ORIGIN, 7, ROOT)
    assert checkpoint == sign_checkpoint(LOG, ORIGIN, 7, ROOT)
    assert NOTE.startswith(f"{ORIGIN}\n7\n{to_base64(ROOT)}\n\n\u2014 {ORIGIN} ")
    assert checkpoint.signatures[0].key_id == note_key_id(ORIGIN, LOG.public_raw)


def test_the_key_id_is_the_one_of_the_go_note_package() -> None:
    """The verifier key of the documentation of golang.org/x/mod/sumdb/note."""
    text = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    name, public = parse_vkey(text)
    assert name == "PeterNeumann"
    assert vkey(name, public) == text


def test_signatures_of_witnesses_are_kept_and_do_not_count() -> None:
    """Unknown lines beside the log's own; without the log's own they are nothing."""
    witness = sign_checkpoint(OTHER, ORIGIN, 7, ROOT).note.split("\n\n")[1].replace(ORIGIN, "witness.example")
    verify(NOTE + witness)
    assert len(parse_checkpoint(NOTE + witness).signatures) == 2
    with pytest.raises(VerificationError) as caught:
        verify(NOTE.split("\n\n", maxsplit=1)[0] + "\n\n" + witness)
    assert caught.value.code == "unverified.checkpoint-key"


def text(origin: str = ORIGIN, size: str = "7", root: str = to_base64(ROOT)) -> str:
    return f"{origin}\n{size}\n{root}\n\n" + NOTE.split("\n\n")[1]


@pytest.mark.parametrize(
    "note",
    [
        "",
        "\n\n",
        text().replace("\n\n", "\n"),
        text().removesuffix("\n"),
        text(size="07"),
        text(size="-7"),
        text(size="7 "),
        text(size="9007199254740992"),
        text(size="\u0667"),
        text(origin="two words"),
        text(origin=""),
        text(root=to_base64(ROOT[:31])),
        text(root=to_base64(ROOT).replace("=", "")),
        text(root=to_base64(ROOT) + "\nextension"),
        text() + "\n",
        text().replace("\u2014 ", "- "),
        text() + "\u2014 name\n",
        text() + "\u2014 na+me AAAAAAAA\n",
        text() + "\u2014 name AAAA\n",
        text() + "\u2014 name AAAAAAAA\n" * 100,
        "x" * 70_000 + text(),
    ],
)
def test_anything_else_is_refused(note: str) -> None:
    """One form, and the good one of the same making is accepted."""
    parse_checkpoint(text())
    with pytest.raises(RefusedInput):
        parse_checkpoint(note)


@pytest.mark.parametrize(
    ("note", "origin", "signer", "code"),
    [
        (NOTE, origin_of("ff" * 16), LOG, "unverified.origin"),
        (NOTE, ORIGIN, OTHER, "unverified.checkpoint-key"),
        (NOTE + NOTE.split("\n\n")[1], ORIGIN, LOG, "unverified.checkpoint-key"),
        (text(size="8"), ORIGIN, LOG, "unverified.signature"),
        (text(root=to_base64(bytes(32))), ORIGIN, LOG, "unverified.signature"),
    ],
)
def test_a_checkpoint_of_another_log_size_or_root_is_refused(
    note: str, origin: str, signer: Ed25519Signer, code: str
) -> None:
    """Foreign origin, foreign key, two signatures of one key, changed size, changed root."""
    verify(NOTE)
    with pytest.raises(VerificationError) as caught:
        verify(note, origin, signer)
    assert caught.value.code == code


def test_a_short_signature_of_the_log_is_refused() -> None:
    """The key id is right and the signature has another length."""
    cut = (
        NOTE.split("\n\n", maxsplit=1)[0]
        + f"\n\n\u2014 {ORIGIN} "
        + to_base64(note_key_id(ORIGIN, LOG.public_raw) + b"x")
    )
    with pytest.raises(VerificationError):
        verify(cut + "\n")


@pytest.mark.parametrize(
    "key",
    [
        "",
        "name",
        "name+00000000+AQ==",
        vkey("n", LOG.public_raw).replace("n+", "m+"),
        "n+00+" + to_base64(b"\x02" * 33),
    ],
)
def test_a_malformed_verifier_key_is_refused(key: str) -> None:
    """The name, the algorithm, the size and the key id have to fit."""
    assert parse_vkey(vkey("n", LOG.public_raw)) == ("n", LOG.public_raw)
    with pytest.raises(SavantError):
        parse_vkey(key)
