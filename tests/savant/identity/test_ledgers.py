"""Whose evidence counts: a closed file, and a sentence for what is wrong in it."""

from __future__ import annotations

import pytest

from savant.contracts.errors import RefusedInput
from savant.identity.ledgers import MAX_LEDGERS_BYTES, AcceptedLedger, read_ledgers

ID = "blake3:" + "0" * 64


def test_ledgers_are_read_in_order() -> None:
    """The root may be left out, and a person holds the keys unless it says otherwise."""
    other = "blake3:" + "1" * 64
    text = f'[[ledger]]\nid = "{ID}"\n[[ledger]]\nid = "{other}"\nroot = "SHA256:x"\nheld = "ci"\n'
    assert read_ledgers(text.encode()) == (AcceptedLedger(ID), AcceptedLedger(other, "SHA256:x", "ci"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = [", "not TOML"),
        ("", "ledger"),
        ('[[ledger]]\nid = "blake3:1"\n', "id"),
        (f'[[ledger]]\nid = "{ID}\\n"\n', "id"),
        (f'[[ledger]]\nid = "{ID}"\nheld = "me"\n', "held"),
        (f'[[ledger]]\nid = "{ID}"\nkeys = "x"\n', "keys"),
        (f'[[ledger]]\nid = "{ID}"\n[[ledger]]\nid = "{ID}"\n', "twice"),
        ("#" * (MAX_LEDGERS_BYTES + 1), "bytes"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    """Nothing is guessed at."""
    with pytest.raises(RefusedInput) as refused:
        read_ledgers(text.encode())
    assert refused.value.code == "refused.ledgers"
    assert said in refused.value.message


def test_bytes_that_are_no_text_are_refused() -> None:
    """As a file that is no TOML."""
    with pytest.raises(RefusedInput, match=r"refused\.ledgers"):
        read_ledgers(b"\xff")
