"""Redaction: no secret survives in any spelling that is looked for, and what holds none is not touched."""

from __future__ import annotations

import base64
import json
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from commandprovider.redaction import MARK, MIN_SECRET_BYTES, Redactor, spellings
from savant.contracts.errors import UsageError

KEY = b"sk-ant-api03-Zq7/+x_9Lw==tail"
KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=60).map(str.encode)
SECRETS = st.one_of(
    KEYS,
    st.binary(min_size=8, max_size=40).filter(lambda raw: len(raw.strip()) >= MIN_SECRET_BYTES),
    st.text(alphabet="a[redct-by*]:", min_size=8, max_size=20).map(str.encode),
)
AROUND = st.one_of(st.binary(max_size=60), st.text(alphabet="a[redct-by*]: ", max_size=30).map(str.encode))


@given(st.lists(SECRETS, min_size=1, max_size=3), st.lists(AROUND, max_size=4), st.data())
@example([b"redacted-by-savant"], [b"redacted-by-savant"], None)
@example([b"aaaaaaa["], [b"aaaaaaa", b"["], None)
def test_no_secret_survives(secrets: list[bytes], around: list[bytes], data: st.DataObject | None) -> None:
    """Whatever stands around it and in whatever spelling, nothing of a secret's spellings is left."""
    redactor = Redactor((f"KEY_{n}", secret) for n, secret in enumerate(secrets))
    parts = []
    for text in around:
        chosen = secrets[0] if data is None else data.draw(st.sampled_from(secrets))
        known = spellings(chosen.strip())
        parts += [text, known[0] if data is None else data.draw(st.sampled_from(known))]
    said = b"".join(parts)
    for cleaned in (redactor.redact_values(said), redactor.redact(said)):
        assert redactor.find(cleaned) is None
        assert not any(spelling in cleaned for secret in secrets for spelling in spellings(secret.strip()))


@given(SECRETS, st.binary(max_size=300))
def test_text_without_a_secret_is_not_touched(secret: bytes, text: bytes) -> None:
    """Redaction by value is the identity on everything that holds no secret, and says so."""
    redactor = Redactor([("KEY", secret)])
    if redactor.find(text) is None:
        assert redactor.redact_values(text) == text
    else:
        assert redactor.redact_values(text) != text


@given(KEYS, st.binary(max_size=40), st.binary(max_size=40))
def test_a_key_is_found_in_what_programs_make_of_it(key: bytes, before: bytes, behind: bytes) -> None:
    """JSON (also within JSON), percent-encoding, hexadecimal and base64 of a text around it do not hide a key."""
    redactor = Redactor([("KEY", key)])
    text = key.decode()
    inner = json.dumps({"k": text})
    for spelled in (
        inner,
        json.dumps(inner),
        inner.replace("/", "\\/"),
        quote(text),
        quote(text, safe=""),
        quote_plus(text),
        key.hex(),
        key.hex().upper(),
        base64.b64encode(before + key + behind).decode(),
        base64.urlsafe_b64encode(before + key + behind).decode(),
    ):
        assert redactor.find(spelled.encode()) == "KEY", spelled


@given(st.binary(min_size=8, max_size=60).filter(lambda raw: len(raw.strip()) >= MIN_SECRET_BYTES))
def test_percent_encoding_is_that_of_the_standard_library(secret: bytes) -> None:
    """An independent witness spells the same."""
    known = spellings(secret)
    assert {quote(secret, safe="").encode(), quote(secret).encode(), quote_plus(secret).encode()} <= set(known)


def test_letters_that_json_need_not_escape_are_found_too() -> None:
    """A secret with letters beyond ASCII is found escaped and as it is."""
    redactor = Redactor([("KEY", "schlüssel/öffnung".encode())])
    for spelled in (json.dumps("schlüssel/öffnung"), json.dumps("schlüssel/öffnung", ensure_ascii=False)):
        assert redactor.find(spelled.encode()) == "KEY"


def test_a_marker_names_the_source() -> None:
    """What stands for a secret says where it came from, and can stand in JSON; it is found again as a mark."""
    redactor = Redactor([("~/.codex/auth.json", KEY), ("API KEY\n", b"another-secret")])
    cleaned = redactor.redact_values(b'{"a": "' + KEY + b'", "b": "another-secret"}')
    assert json.loads(cleaned) == {"a": f"[{MARK}:~/.codex/auth.json]", "b": f"[{MARK}:API_KEY_]"}
    assert redactor.is_marked(cleaned)
    assert not redactor.is_marked(f"{MARK} is a word".encode())
    assert redactor.labels == ("~/.codex/auth.json", "API KEY\n")


def test_a_marker_in_base64_is_no_base64() -> None:
    """Who decodes what a key was taken out of gets an error, not another content."""
    cleaned = Redactor([("KEY", KEY)]).redact_values(base64.b64encode(b"xx" + KEY + b"yy"))
    with pytest.raises(ValueError, match=r"."):
        base64.b64decode(cleaned, validate=True)


def test_a_secret_that_grows_back_from_markers_is_removed() -> None:
    """A text in which every marker completes the next secret ends without markers, and without secrets."""
    redactor = Redactor([("KEY", b"aaaaaaa[")])
    assert redactor.redact_values(b"<" + b"aaaaaaa" * 5 + b"[>").startswith(b"<[")
    cleaned = redactor.redact_values(b"<" + b"aaaaaaa" * 50 + b"[>")
    assert redactor.find(cleaned) is None
    assert cleaned.startswith(b"<")


def test_the_end_of_a_cut_stream_is_looked_at() -> None:
    """The beginning of a secret at the end of a stream that was cut is taken off; without a cut it is text."""
    redactor = Redactor([("KEY", KEY)])
    said = b"my key is " + KEY[:-3]
    assert redactor.redact_values(said, truncated=True) == f"my key is [{MARK}:KEY]".encode()
    assert redactor.redact_values(said) == said
    assert redactor.redact_values(b"ask", truncated=True) == b"ask"
    assert redactor.redact_values(b"my k sk-", truncated=True) == b"my k sk-"


def test_the_longest_cut_secret_decides() -> None:
    """Of two secrets that may have been cut, the one of which more is seen is taken off."""
    redactor = Redactor([("LONG", b"sk-ant-0123456789"), ("SHORT", b"-012345xyz")])
    assert redactor.redact_values(b"sk-ant-012345", truncated=True) == f"[{MARK}:LONG]".encode()
    redactor = Redactor([("LONG", b"ABCDsk-ant-0123456789"), ("SHORT", b"01234567xyz")])
    assert redactor.redact_values(b"sk-ant-01234567", truncated=True) == f"sk-ant-[{MARK}:SHORT]".encode()


def test_the_lines_of_a_private_key_are_secrets_too() -> None:
    """A private key that is printed line by line is taken out; its frame and short lines are not secrets."""
    pem = b"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nshort\n-----END PRIVATE KEY-----\n"
    redactor = Redactor([("KEY", pem)])
    assert redactor.find(b"> MIIEvQIBADANBgkqhkiG9w0B") == "KEY"
    assert redactor.find(b"short -----BEGIN PRIVATE KEY-----") is None


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("OPENAI_API_KEY=sk-proj-12345678 ok", "OPENAI_API_KEY=[X] ok"),
        ('export MY_TOKEN="abcdefgh12"', 'export MY_TOKEN="[X]"'),
        ('{"access_token": "abcdefgh12", "n": 1}', '{"access_token": "[X]", "n": 1}'),
        (r'{"said": "{\"api_key\":\"abcdefgh12\"}"}', r'{"said": "{\"api_key\":\"[X]\"}"}'),
        ("{'refresh_token': 'abcdefgh12'}", "{'refresh_token': '[X]'}"),
        ("Authorization: Bearer abcdefgh12\r\nHost: x", "Authorization: [X]\r\nHost: x"),
        ("> x-api-key: abcdefgh12", "> x-api-key: [X]"),
        ("x-goog-api-key:abcdefgh12", "x-goog-api-key:[X]"),
        ("sent bearer abcdefgh12.", "sent bearer [X]"),
        ("https://me:hunter2@host/path", "https://me:[X]@host/path"),
        ("GET /v1/models?key=abcdefgh12&alt=sse", "GET /v1/models?key=[X]&alt=sse"),
    ],
)
def test_what_a_name_says_is_taken_out(said: str, left: str) -> None:
    """Variables, members, headers and addresses whose name says that a secret follows lose it, and nothing else."""
    redactor = Redactor()
    assert redactor.redact_text(said) == left.replace("[X]", f"[{MARK}]")
    assert redactor.redact_text(redactor.redact_text(said)) == redactor.redact_text(said)
    assert redactor.redact_values(said.encode()) == said.encode()


@pytest.mark.parametrize(
    "said",
    [
        "",
        '{"input_tokens": 12345678, "tokens": "a"}',
        "the token is missing",
        "max_tokens=100000000",
        "the key: see https://host:8080/path@v1",
        "authorization: none",
        "src/token=x",
    ],
)
def test_ordinary_text_stays(said: str) -> None:
    """Counts of tokens, sentences about keys and addresses with a port are not secrets."""
    assert Redactor([("KEY", KEY)]).redact_text(said) == said


@given(st.text(max_size=200))
def test_redaction_by_name_ends_where_it_began(text: str) -> None:
    """Redacting twice gives what redacting once gave."""
    redactor = Redactor([("KEY", KEY)])
    once = redactor.redact_text(text)
    assert redactor.redact_text(once) == once


@pytest.mark.parametrize("value", [b"", b"1234567", b"  1234567\n"])
def test_what_is_too_short_is_no_secret(value: bytes) -> None:
    """A value of fewer than eight bytes would be found in ordinary text, so it is refused."""
    with pytest.raises(UsageError) as caught:
        Redactor([("KEY", value)])
    assert caught.value.code == "usage.short-secret"
    assert repr(value) not in str(caught.value)
    longer = value.strip() + b"12345678"
    assert Redactor([("KEY", longer)]).find(longer) == "KEY"


def test_white_space_around_a_secret_is_not_part_of_it() -> None:
    """A key that was read with its line end is found without it."""
    assert Redactor([("KEY", b" " + KEY + b"\n")]).redact_values(b"<" + KEY + b">") == f"<[{MARK}:KEY]>".encode()


def test_a_redactor_shows_names_only() -> None:
    """Its representation holds no value."""
    assert repr(Redactor([("KEY", KEY), ("TOKEN", b"another-secret")])) == "Redactor(KEY, TOKEN)"


def test_long_runs_of_letters_are_no_trap() -> None:
    """A megabyte without any name in it is looked through in linear time."""
    redactor = Redactor([("KEY", KEY)])
    texts = [b"A_" * 250_000, b'"' + b"a" * 500_000, b"token" * 100_000, b"://" + b"a" * 500_000, b"cookie:" * 70_000]
    started = time.process_time()
    assert all(redactor.redact(text) for text in texts)
    assert time.process_time() - started < 20
