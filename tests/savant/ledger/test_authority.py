"""Genesis and root statements: authority is the root's SSH signature and nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from savant.contracts.document import seal
from savant.contracts.errors import SavantError
from savant.contracts.scalars import as_set
from savant.ledger import Ed25519Signer, MemoryStore, RunOpen
from savant.ledger.authority import (
    GENESIS_NAMESPACE,
    KEYRING_NAMESPACE,
    RECOVERY_NAMESPACE,
    Authority,
    advance,
    authority_of,
    open_genesis,
    open_genesis_statement,
    root_statements,
)
from savant.ledger.checkpoint import origin_of
from savant.ledger.documents import Genesis, Keyring, Recovery, RootStatement
from savant.ledger.keyring import key_entry
from savant.ledger.record import line_digest

PREV = "blake3:" + "5" * 64


def code_of(call: Any) -> str:
    with pytest.raises(SavantError) as caught:
        call()
    return caught.value.code


@pytest.fixture(scope="module")
def line(kit: Any) -> bytes:
    store = MemoryStore()
    kit.begin(store)
    found = store.line(0)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def authority(kit: Any, line: bytes) -> Authority:
    return open_genesis(line, kit.verifier)[0]


def statement(kit: Any, document: Any, namespace: str, seed: bytes = b"") -> RootStatement:
    made: RootStatement = kit.root(seed).statement(seal(document).raw, namespace).document
    return made


def test_a_genesis_establishes_the_ledger(kit: Any, line: bytes, authority: Authority) -> None:
    """Id, origin, root and the keys of epoch 0."""
    assert authority.ledger == line_digest(line)
    assert authority.origin == origin_of(authority.genesis.nonce)
    assert authority.root == kit.root().public
    assert authority.keys.epoch == 0
    assert {entry.role for entry in authority.keys.entries} == set(kit.signers())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda p: p["predicate"]["ledger"].update(seq=1), "refused.genesis"),
        (lambda p: p["predicate"]["ledger"].update(prev=PREV), "refused.genesis"),
        (lambda p: p["predicate"]["ledger"].update(id=PREV), "refused.genesis"),
        (lambda p: p["predicate"]["ledger"].update(epoch=1), "refused.genesis"),
        (lambda p: p["predicate"].update(role="driver"), "unverified.role"),
    ],
)
def test_a_first_record_in_another_place_is_refused(kit: Any, line: bytes, change: Any, code: str) -> None:
    """Signed by the log key, and still no beginning."""
    log = kit.signers()["log"]
    open_genesis(kit.forge(line, log, lambda p: None), kit.verifier)
    assert code_of(lambda: open_genesis(kit.forge(line, log, change), kit.verifier)) == code


def test_a_genesis_signed_by_another_key_is_refused(kit: Any, line: bytes) -> None:
    """A key of another role, a key that is not in the keyring, a signature over other bytes."""
    signers = kit.signers()
    driver = kit.forge(line, signers["driver"], lambda p: p["predicate"].update(role="driver"))
    assert code_of(lambda: open_genesis(driver, kit.verifier)) == "unverified.role"
    stranger = kit.forge(line, Ed25519Signer(b"\x11" * 32), lambda p: None)
    assert code_of(lambda: open_genesis(stranger, kit.verifier)) == "unverified.unknown-key"
    edited = kit.unsigned_edit(line, lambda p: p["predicate"]["observed"].update(at_ms=1))
    assert code_of(lambda: open_genesis(edited, kit.verifier)) == "unverified.signature"


def test_another_first_document_is_no_genesis(kit: Any, line: bytes) -> None:
    """Only a root statement begins a ledger."""
    body = seal(RunOpen(mode="off"))

    def change(payload: Any) -> None:
        payload["predicate"].update(body={"kind": "savant.ledger.run-open/v1", "mode": "off"}, body_blake3=body.digest)
        payload["predicate"].update(body_kind="savant.ledger.run-open/v1")
        payload["predicateType"] = "https://savant-synthesis.invalid/savant.ledger.run-open/v1"

    forged = kit.forge(line, kit.signers()["log"], change)
    assert code_of(lambda: open_genesis(forged, kit.verifier)) == "refused.unknown-kind"


def test_only_the_named_root_can_sign_the_genesis(kit: Any, authority: Authority) -> None:
    """Another root, another purpose, another text, an origin without the nonce."""
    genesis = authority.genesis
    open_genesis_statement(statement(kit, genesis, GENESIS_NAMESPACE), kit.verifier)
    other = statement(kit, genesis, GENESIS_NAMESPACE, b"mallory")
    assert code_of(lambda: open_genesis_statement(other, kit.verifier)) == "unverified.sshsig-key"
    purpose = statement(kit, genesis, KEYRING_NAMESPACE)
    assert code_of(lambda: open_genesis_statement(purpose, kit.verifier)) == "unverified.sshsig-namespace"
    good = statement(kit, genesis, GENESIS_NAMESPACE)
    moved = msgspec.structs.replace(genesis, origin=origin_of("0" * 32))
    text = msgspec.structs.replace(good, statement=seal(moved).raw.decode())
    assert code_of(lambda: open_genesis_statement(text, kit.verifier)) == "unverified.signature"
    signed = statement(kit, moved, GENESIS_NAMESPACE)
    assert code_of(lambda: open_genesis_statement(signed, kit.verifier)) == "refused.origin"
    assert isinstance(genesis, Genesis)


def keyring(kit: Any, authority: Authority, **changes: Any) -> Keyring:
    new = key_entry(Ed25519Signer(b"\x12" * 32), "driver", nonce=authority.genesis.nonce, from_seq=8)
    document: Keyring = msgspec.structs.replace(
        Keyring(
            ledger=authority.ledger,
            epoch=1,
            entries=tuple(sorted((*authority.keys.entries, new), key=msgspec.json.Encoder(order="sorted").encode)),
        ),
        **changes,
    )
    return document


def test_the_root_replaces_the_keyring(kit: Any, authority: Authority) -> None:
    """From the record after it on; another ledger's, another purpose's or another root's statement does not count."""
    document = keyring(kit, authority)

    def go(what: RootStatement) -> Authority:
        return advance(authority, what, seq=7, prev=PREV, verifier=kit.verifier)

    after = go(statement(kit, document, KEYRING_NAMESPACE))
    assert after.keys.epoch == 1
    assert len(after.keys.keys_of("driver", 8)) == 2
    foreign = statement(kit, keyring(kit, authority, ledger=PREV), KEYRING_NAMESPACE)
    assert code_of(lambda: go(foreign)) == "unverified.foreign-statement"
    assert code_of(lambda: go(statement(kit, document, RECOVERY_NAMESPACE))) == "unverified.sshsig-namespace"
    assert code_of(lambda: go(statement(kit, document, KEYRING_NAMESPACE, b"m"))) == "unverified.sshsig-key"
    assert code_of(lambda: go(statement(kit, authority.genesis, GENESIS_NAMESPACE))) == "refused.root-statement"
    skipped = statement(kit, keyring(kit, authority, epoch=2), KEYRING_NAMESPACE)
    assert code_of(lambda: go(skipped)) == "refused.keyring-epoch"


@pytest.mark.parametrize("changes", [{"ledger": PREV}, {"store_size": 8}, {"store_last": "blake3:" + "6" * 64}])
def test_a_recovery_counts_in_one_place_only(kit: Any, authority: Authority, changes: dict[str, Any]) -> None:
    """This ledger, this size, this last line."""
    recovery = Recovery(
        ledger=authority.ledger, store_size=7, store_last=PREV, lost_size=9, lost_last=PREV, reason="disk"
    )

    def go(document: Recovery) -> Authority:
        made = statement(kit, document, RECOVERY_NAMESPACE)
        return advance(authority, made, seq=7, prev=PREV, verifier=kit.verifier)

    assert go(recovery) == authority
    assert code_of(lambda: go(msgspec.structs.replace(recovery, **changes))) == "unverified.foreign-statement"


def test_the_authority_over_lines_is_that_of_the_ledger_that_wrote_them(kit: Any) -> None:
    """Through a rotation, read from lines alone; only what the root signed is looked for."""
    store, ledger = kit.ledger()
    kit.fill(ledger, 3)
    ledger.append(
        "log", seal(statement(kit, rotation(kit, ledger), KEYRING_NAMESPACE)), run=None, observed=kit.observed
    )
    lines = list(store.lines(0, store.tail().size))
    assert authority_of(lines[:4], kit.verifier).keys.epoch == 0
    assert authority_of(lines, kit.verifier) == ledger.authority
    assert authority_of(lines, kit.verifier).keys.epoch == 1
    assert [seq for seq, _, _ in root_statements(lines)] == [0, 4]


def rotation(kit: Any, ledger: Any) -> Keyring:
    """Every key again and one more, from the record after the next."""
    new = key_entry(Ed25519Signer(b"\x13" * 32), "driver", nonce=ledger.authority.genesis.nonce, from_seq=5)
    return keyring(kit, ledger.authority, entries=as_set((*ledger.authority.keys.entries, new)))


def test_lines_without_a_beginning_give_no_authority(kit: Any) -> None:
    """None at all, or another first line."""
    store, ledger = kit.ledger()
    kit.fill(ledger, 2)
    lines = list(store.lines(0, store.tail().size))
    with pytest.raises(SavantError, match=r"unverifiable\.no-ledger"):
        authority_of([], kit.verifier)
    with pytest.raises(SavantError):
        authority_of(lines[1:], kit.verifier)
