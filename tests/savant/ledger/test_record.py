"""Records: the statement, its acceptance, and the limit of a line."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from savant.contracts import canonical
from savant.contracts.digest import digest
from savant.contracts.document import seal
from savant.contracts.envelope import parse_envelope
from savant.contracts.errors import RefusedInput, SavantError, VerificationError
from savant.ledger import Ed25519Signer, observation
from savant.ledger.documents import Intent, RunOpen
from savant.ledger.record import (
    MAX_LINE_BYTES,
    NO_PREVIOUS,
    Attachment,
    Draft,
    Observed,
    Position,
    accept_body,
    accept_inline,
    build_statement,
    make_line,
    must_reference,
    parse_statement,
)

SIGNER = Ed25519Signer(b"\x05" * 32)
POSITION = Position(id="blake3:" + "1" * 64, seq=4, prev="blake3:" + "2" * 64, epoch=0)


class Shelf:
    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def put(self, raw: bytes) -> str:
        self.kept[digest(raw)] = raw
        return digest(raw)

    def get(self, digest: str) -> bytes:
        return self.kept[digest]


def draft(kit: Any, text: str = "hello", *, candidate: bytes | None = None, observed: Observed | None = None) -> Draft:
    body = kit.note(text)
    return Draft(
        POSITION, "driver", "ab" * 16, observed or kit.observed, body, candidate, must_reference(len(body.raw))
    )


def test_a_statement_is_an_in_toto_statement(kit: Any) -> None:
    """The members that outside tools read: type, one subject with SHA-256 alone, predicate type."""
    item = draft(kit)
    value = json.loads(build_statement(item))
    assert value["_type"] == "https://in-toto.io/Statement/v1"
    assert value["subject"] == [{"name": "body", "digest": {"sha256": hashlib.sha256(item.body.raw).hexdigest()}}]
    assert value["predicateType"] == "https://savant-synthesis.invalid/savant.driver.note/v1"
    assert value["predicate"]["body"] == {"kind": "savant.driver.note/v1", "text": "hello"}
    assert value["predicate"]["body_blake3"] == item.body.digest
    assert value["predicate"]["ledger"] == {"id": POSITION.id, "seq": 4, "prev": POSITION.prev, "epoch": 0}


def test_the_subject_is_the_candidate_where_there_is_one(kit: Any) -> None:
    """Its SHA-256, under its own name; the body's digest stays beside it."""
    statement = parse_statement(build_statement(draft(kit, candidate=b"{}")))
    assert (statement.subject[0].name, statement.subject[0].digest.sha256) == (
        "candidate",
        hashlib.sha256(b"{}").hexdigest(),
    )
    sealed = accept_body(statement, kit.registry, None)
    assert sealed is not None
    assert sealed.document == kit.note().document


@given(st.text(max_size=200))
def test_what_is_built_is_accepted_again(text: str) -> None:
    """Any text survives statement, envelope and acceptance, byte for byte."""
    body = seal(Intent(operation="test", subject_digest=None, deadline_ms=None, detail=text))
    line = make_line(Draft(POSITION, "log", None, observation(0), body, None, by_reference=False), SIGNER, None)
    payload, keyid, _ = parse_envelope(line)
    assert keyid == SIGNER.keyid
    assert accept_inline(parse_statement(payload), Intent) == body.document
    assert accept_inline(parse_statement(payload), RunOpen) is None


def test_an_observation_holds_what_was_seen() -> None:
    """Attachments become a set."""
    seen = observation(5, detail="x", attachments={"b": "blake3:" + "0" * 64, "a": "blake3:" + "1" * 64})
    assert [item.name for item in seen.attachments] == ["b", "a"]  # in order of their canonical bytes: digest first
    assert (seen.at_ms, seen.duration_ms, seen.detail) == (5, None, "x")


def test_a_large_body_goes_to_the_store(kit: Any) -> None:
    """The line names it by digest and stays small; without a store it is refused."""
    shelf = Shelf()
    item = draft(kit, "x" * 60_000)
    assert item.by_reference
    line = make_line(item, SIGNER, shelf)
    assert len(line) < 3_000
    statement = parse_statement(parse_envelope(line)[0])
    assert statement.predicate.body_ref
    assert accept_body(statement, kit.registry, None) is None
    sealed = accept_body(statement, kit.registry, shelf)
    assert sealed is not None
    assert sealed.raw == item.body.raw
    with pytest.raises(RefusedInput) as caught:
        make_line(item, SIGNER, None)
    assert caught.value.code == "refused.record-too-large"


def test_a_body_that_only_just_does_not_fit_goes_there_too(kit: Any) -> None:
    """The decision is made on the line itself; no line is ever longer than the limit."""
    shelf, inside, outside = Shelf(), 0, 0
    for size in range(22_000, 24_100, 100):
        line = make_line(draft(kit, "x" * size), SIGNER, shelf)
        assert len(line) <= MAX_LINE_BYTES
        by_reference = parse_statement(parse_envelope(line)[0]).predicate.body_ref
        inside, outside = inside + (not by_reference), outside + by_reference
    assert inside
    assert outside


def test_a_record_too_large_without_its_body_is_refused(kit: Any) -> None:
    """Hundreds of attachments."""
    many = observation(0, attachments={f"name-{n}": "blake3:" + "0" * 64 for n in range(400)})
    with pytest.raises(RefusedInput) as caught:
        make_line(draft(kit, observed=many), SIGNER, Shelf())
    assert caught.value.code == "refused.record-too-large"


def changed(kit: Any, change: Any, text: str = "hello") -> bytes:
    value = json.loads(build_statement(draft(kit, text)))
    change(value)
    return canonical.encode(value)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda v: v.update(_type="https://in-toto.io/Statement/v0.1"), "refused.malformed"),
        (lambda v: v.update(extra=1), "refused.malformed"),
        (lambda v: v.update(subject=[]), "refused.malformed"),
        (lambda v: v.update(subject=v["subject"] * 2), "refused.malformed"),
        (lambda v: v["subject"][0]["digest"].update(blake3="0" * 64), "refused.malformed"),
        (lambda v: v["predicate"].update(role="root"), "refused.malformed"),
        (lambda v: v["predicate"].update(run="me"), "refused.malformed"),
        (lambda v: v["predicate"].pop("run"), "refused.malformed"),
        (lambda v: v["predicate"]["ledger"].update(seq=-1), "refused.malformed"),
        (lambda v: v["predicate"]["ledger"].update(seq=1.0), None),
        (lambda v: v["predicate"]["observed"].update(at_ms=None), "refused.malformed"),
        (
            lambda v: v.update(predicateType="https://savant-synthesis.invalid/savant.driver.note/v2"),
            "refused.predicate-type",
        ),
        (lambda v: v["predicate"].update(body_kind="savant.driver.other/v1"), "refused.predicate-type"),
        (lambda v: v["predicate"].update(body=None), "refused.body-reference"),
        (lambda v: v["predicate"].update(body_ref=True), "refused.body-reference"),
        (
            lambda v: v["predicate"]["observed"].update(
                attachments=[{"name": n, "digest": "blake3:" + "0" * 64} for n in ("b", "a")]
            ),
            "refused.set-order",
        ),
    ],
)
def test_a_statement_that_is_not_closed_is_refused(kit: Any, change: Any, code: str | None) -> None:
    """Beside the untouched one: types, members, ranges, and what the members say of each other."""
    parse_statement(changed(kit, lambda v: None))
    with pytest.raises(SavantError) as caught:
        parse_statement(changed(kit, change))
    assert code in {None, caught.value.code}


def test_another_spelling_is_refused(kit: Any) -> None:
    """White space between members."""
    raw = build_statement(draft(kit))
    with pytest.raises(RefusedInput) as caught:
        parse_statement(raw.replace(b'","', b'", "', 1))
    assert caught.value.code == "refused.not-canonical"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda v: v["predicate"].update(body_blake3=NO_PREVIOUS), "unverified.digest"),
        (lambda v: v["predicate"]["body"].update(text="other"), "unverified.digest"),
        (lambda v: v["predicate"]["body"].update(kind="savant.runner.note/v1"), "refused.malformed"),
        (lambda v: v["subject"][0]["digest"].update(sha256="0" * 64), "unverified.subject"),
    ],
)
def test_a_body_that_is_not_what_the_record_says_is_refused(kit: Any, change: Any, code: str) -> None:
    """Digest, kind and subject are compared with the bytes."""
    accept_body(parse_statement(changed(kit, lambda v: None)), kit.registry, None)
    with pytest.raises(SavantError) as caught:
        accept_body(parse_statement(changed(kit, change)), kit.registry, None)
    assert caught.value.code == code


def test_an_unknown_kind_is_refused(kit: Any) -> None:
    """A version that this program does not know fails; it is never skipped."""

    def change(value: Any) -> None:
        value["predicate"].update(body_kind="savant.driver.note/v2")
        value["predicateType"] = "https://savant-synthesis.invalid/savant.driver.note/v2"

    with pytest.raises(RefusedInput) as caught:
        accept_body(parse_statement(changed(kit, change)), kit.registry, None)
    assert caught.value.code == "refused.unknown-kind"


def test_the_inline_body_must_have_its_digest(kit: Any) -> None:
    """Reading one document type by itself checks the same."""
    body = seal(RunOpen(mode="enforce"))
    raw = build_statement(Draft(POSITION, "log", None, kit.observed, body, None, by_reference=False))
    assert accept_inline(parse_statement(raw), RunOpen) == body.document
    with pytest.raises(VerificationError):
        accept_inline(parse_statement(raw.replace(b'"enforce"', b'"record"')), RunOpen)


def test_the_signed_bytes_are_in_the_line(kit: Any) -> None:
    """Plain base64 of the statement: any JSON tool can take them out."""
    item = draft(kit)
    line = json.loads(make_line(item, SIGNER, None))
    assert base64.b64decode(line["payload"]) == build_statement(item)
    assert Attachment(name="a", digest=NO_PREVIOUS).name == "a"
