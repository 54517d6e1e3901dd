"""The wire: one JSON document each way, and nothing that only looks like one."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from commandprovider.wire import WIRE, WireEdit, WireUsage, encode_request, parse_answer
from providerport.documents import Request
from savant.contracts.document import Sealed, accept
from savant.contracts.errors import RefusedInput

Make = Callable[..., Sealed[Request]]


def answer(request: Sealed[Request], **members: object) -> bytes:
    return json.dumps({"wire": WIRE, "request_digest": request.digest, **members}).encode()


def test_a_request_on_the_wire_holds_the_canonical_request(request_for: Make) -> None:
    """What a command reads contains the exact request bytes and their digest."""
    request = request_for("interpretation")
    sent = json.loads(encode_request(request))
    assert sent["wire"] == WIRE
    assert sent["request_digest"] == request.digest
    raw = encode_request(request)
    inner = raw[raw.index(b"{", 1) : raw.rindex(b',"request_digest"')]
    assert accept(inner, Request, declared_digest=request.digest).document == request.document


def test_a_well_formed_answer_is_taken_with_free_white_space(request_for: Make) -> None:
    """The positive control: white space is free, members may be left out."""
    request = request_for("interpretation")
    raw = json.dumps(json.loads(answer(request, interpretation={"assumptions": ["a"]})), indent=4).encode() + b"\n\n"
    parsed = parse_answer(raw, request)
    assert parsed.interpretation is not None
    assert parsed.interpretation.assumptions == ("a",)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda raw, _: b"", "refused.wire-malformed"),
        (lambda raw, _: raw[:-3], "refused.wire-malformed"),
        (lambda raw, _: raw + raw, "refused.wire-malformed"),
        (lambda raw, _: raw + b"bye", "refused.wire-malformed"),
        (lambda raw, _: b"Here you are: " + raw, "refused.wire-malformed"),
        (lambda raw, _: b"\xef\xbb\xbf" + raw, "refused.wire-malformed"),
        (lambda raw, _: raw.decode().encode("utf-16"), "refused.wire-malformed"),
        (lambda raw, _: raw.replace(b'"wire"', b'"wire":"savant.wire/v1","wire"'), "refused.wire-malformed"),
        (lambda raw, _: raw.replace(b'"assumptions": []', b'"assumptions": [1.5]'), "refused.wire-malformed"),
        (lambda raw, _: raw.replace(b'"assumptions": []', b'"assumptions": [NaN]'), "refused.wire-malformed"),
        (lambda raw, _: raw.replace(b'"assumptions"', b'"authority"'), "refused.wire-malformed"),
        (lambda raw, _: raw.replace(b"savant.wire/v1", b"savant.wire/v2"), "refused.wire-malformed"),
        (lambda raw, _: b"[" * 100_000, "refused.wire-malformed"),
        (lambda raw, digest: raw.replace(digest, b"blake3:" + b"1" * 64), "refused.wire-reference"),
        (
            lambda raw, _: raw.replace(b'"interpretation"', b'"generation"').replace(b'"assumptions": []', b""),
            "refused.wire-payload",
        ),
        (lambda raw, _: raw.replace(b', "interpretation": {"assumptions": []}', b""), "refused.wire-payload"),
    ],
)
def test_what_is_not_one_closed_answer_is_refused(
    request_for: Make, spoil: Callable[[bytes, bytes], bytes], code: str
) -> None:
    """Truncated, doubled, wrapped, re-encoded, duplicated, floating or foreign output is refused by code."""
    request = request_for("interpretation")
    raw = answer(request, interpretation={"assumptions": []})
    assert parse_answer(raw, request).interpretation is not None
    with pytest.raises(RefusedInput) as caught:
        parse_answer(spoil(raw, request.digest.encode()), request)
    assert caught.value.code == code


def test_two_payloads_are_refused(request_for: Make) -> None:
    """An answer holds exactly the payload of its operation, or a failure."""
    request = request_for("generation")
    assert parse_answer(answer(request, generation={}), request).generation is not None
    failing = {"outcome": "unavailable", "failure_kind": "overloaded"}
    assert parse_answer(answer(request, failure=failing), request).failure is not None
    with pytest.raises(RefusedInput, match="holds failure, generation"):
        parse_answer(answer(request, generation={}, failure=failing), request)


@pytest.mark.parametrize(
    ("members", "expected"),
    [({"text": "é"}, "é".encode()), ({"base64": "AP8="}, b"\x00\xff"), ({"text": ""}, b"")],
)
def test_a_write_takes_text_or_base64(members: dict[str, str], expected: bytes) -> None:
    """Content comes in one of two spellings."""
    assert WireEdit(op="write", path="a", **members).content() == expected


@pytest.mark.parametrize("members", [{}, {"text": "a", "base64": "YQ=="}, {"base64": "YQ"}])
def test_a_write_without_one_content_is_refused(members: dict[str, str]) -> None:
    """None, two, or a second spelling of base64 is refused."""
    with pytest.raises(RefusedInput):
        WireEdit(op="write", path="a", **members).content()


def test_an_answer_may_say_what_the_call_used(request_for: Make) -> None:
    """Beside the payload; members that are left out are unknown, and a number is a whole one or no answer."""
    request = request_for("interpretation")
    given = {"tokens_in": 12, "tokens_cached": 2, "notional": True}
    parsed = parse_answer(answer(request, interpretation={}, usage=given), request)
    assert parsed.usage == WireUsage(tokens_in=12, tokens_cached=2, notional=True)
    assert parsed.usage.tokens_out is None
    assert parse_answer(answer(request, interpretation={}), request).usage is None
    wrong: tuple[object, ...] = ({"tokens_in": "12"}, {"tokens_in": 1.5}, {"tokens_in": True}, {"tokens": 1}, [])
    for usage in wrong:
        with pytest.raises(RefusedInput) as caught:
            parse_answer(answer(request, interpretation={}, usage=usage), request)
        assert caught.value.code == "refused.wire-malformed"
    with pytest.raises(RefusedInput) as caught:
        parse_answer(answer(request, usage=given), request)
    assert caught.value.code == "refused.wire-payload"
