"""The saved head: what a store must still hold, and what a recovery has to name."""

from __future__ import annotations

from typing import Any

import pytest

from savant.ledger.authority import RECOVERY_NAMESPACE
from savant.ledger.head import check_head, encode_head, is_superseded, parse_head, recovery_document, recovery_in
from savant.ledger.port import Tail

LEDGER = "blake3:" + "1" * 64
RAW = encode_head(LEDGER, Tail(5, b"fifth"), "note")


def code(raw: bytes | None, tail: Tail, at_head: bytes | None, ledger: str = LEDGER) -> str | None:
    problem = check_head(raw, ledger, tail, at_head)
    return None if problem is None else problem.code


def test_a_store_that_extends_its_head_is_fine() -> None:
    """As long, or longer: a crash before the next head leaves it so."""
    assert code(RAW, Tail(5, b"fifth"), b"fifth") is None
    assert code(RAW, Tail(9, b"ninth"), b"fifth") is None
    assert code(None, Tail(1, b"genesis"), None) is None


@pytest.mark.parametrize(
    ("raw", "tail", "at_head", "ledger", "expected"),
    [
        (None, Tail(2, b"x"), None, LEDGER, "head-missing"),
        (b"{}", Tail(5, b"fifth"), b"fifth", LEDGER, "head-damaged"),
        (RAW, Tail(5, b"fifth"), b"fifth", "blake3:" + "2" * 64, "foreign-ledger"),
        (RAW, Tail(4, b"fourth"), None, LEDGER, "ledger-shorter"),
        (RAW, Tail(5, b"other"), b"other", LEDGER, "ledger-different"),
        (RAW, Tail(6, b"other"), None, LEDGER, "ledger-different"),
    ],
)
def test_anything_else_has_a_name(
    raw: bytes | None, tail: Tail, at_head: bytes | None, ledger: str, expected: str
) -> None:
    """Missing, damaged, foreign, shorter, different; each becomes a conflict with a way out."""
    assert code(raw, tail, at_head, ledger) == expected
    problem = check_head(raw, ledger, tail, at_head)
    assert problem is not None
    error = problem.conflict()
    assert error.code == f"conflict.{expected}"
    assert error.fix
    assert error.untouched


def test_a_damaged_head_is_not_guessed_at() -> None:
    """Parsed strictly."""
    assert parse_head(RAW) is not None
    assert parse_head(RAW + b"\n") is None


@pytest.mark.parametrize(("raw", "lost"), [(RAW, 5), (None, None), (b"damaged", None)])
def test_a_recovery_names_the_store_and_the_lost_head(raw: bytes | None, lost: int | None) -> None:
    """What is not known is null."""
    document = recovery_document(LEDGER, Tail(3, b"third"), raw, "disk failure").document
    assert (document.store_size, document.lost_size, document.reason) == (3, lost, "disk failure")
    assert (document.lost_last is None) == (lost is None)


def test_a_last_record_supersedes_exactly_the_head_it_names(kit: Any, sample: Any) -> None:
    """Neither another head nor another kind of record does."""
    evidence, pin = sample
    tail = Tail(12, evidence.lines[-1])
    assert not is_superseded(RAW, tail)
    statement = kit.root().statement(
        recovery_document(pin.ledger, Tail(3, evidence.lines[2]), RAW, "r").raw, RECOVERY_NAMESPACE
    )
    assert recovery_in(statement.document) is not None

    def change(payload: dict[str, Any]) -> None:
        predicate = payload["predicate"]
        predicate.update(body_kind="savant.ledger.root-statement/v1", body_blake3=statement.digest, role="log")
        predicate["body"] = {
            "kind": "savant.ledger.root-statement/v1",
            "statement": statement.document.statement,
            "sshsig": statement.document.sshsig,
        }
        payload["predicateType"] = "https://savant-synthesis.invalid/savant.ledger.root-statement/v1"

    line = kit.forge(evidence.lines[-1], kit.signers()["log"], change)
    assert is_superseded(RAW, Tail(4, line))
    assert not is_superseded(None, Tail(4, line))
    assert not is_superseded(encode_head(LEDGER, Tail(6, b"fifth"), "note"), Tail(4, line))
    genesis = Tail(1, evidence.lines[0])
    assert not is_superseded(None, genesis)
