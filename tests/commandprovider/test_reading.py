"""Reading an agent: the supervisor's verdict, the end of its turn, the exit status, standard error, in this order."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from commandprovider.profiles import PROFILES
from commandprovider.profiles.model import Failure, Is, Pick, Profile, Reader
from commandprovider.reading import (
    LAST_STDERR_BYTES,
    MAX_EVENTS,
    Said,
    classify,
    document_in,
    one_json,
    read_answer,
    read_usage,
)
from providerport.port import ProviderFailure, Usage
from savant.process.port import Ended, Verdict
from synthesis.documents import FailureKind

DONE = b'{"end":true,"ok":true,"say":"done","in":3}\n'
FAILED = b'{"end":true,"ok":false,"why":"slow down","status":429}\n'


def ended(stdout: bytes = b"", stderr: bytes = b"", status: int | None = 0, **members: object) -> Ended:
    base = Ended(
        verdict="exited",
        exit_status=status,
        signal=None,
        stdout=stdout,
        stderr=stderr,
        stdout_truncated=False,
        stderr_truncated=False,
        duration_ms=1,
        cpu_ms=1,
        max_rss_bytes=1,
        survivors=0,
        remaining=0,
        level="S0",
        layers=(),
        detail="no such file",
    )
    return replace(base, **members)


READER = Reader(
    form="json-lines",
    terminal=(Is("end", "true"),),
    required=("ok",),
    failed=(Is("ok", "false"),),
    errors=("why",),
    answer=Pick("say", take="joined"),
    structured=Pick("data"),
    session=Pick("who"),
    tokens_in=(Pick("in", take="sum"), Pick("read", take="sum")),
    tokens_out=(Pick("out"),),
    cost=(Pick("usd"),),
)
PROFILE: Profile = replace(
    PROFILES["codex"],
    title="Agent",
    reader=READER,
    failures=(
        Failure("event", "429", "rate-limited", "status"),
        Failure("error", r"^slow down", "overloaded"),
        Failure("exit-status", "7", "auth"),
        Failure("stderr", r"^no route", "network"),
    ),
)


def kind_of(profile: Profile, how: Ended) -> str:
    with pytest.raises(ProviderFailure) as caught:
        read_answer(profile, "answer", how, {})
    return caught.value.failure_kind


def test_a_whole_answer_is_read_with_what_the_agent_says_about_itself() -> None:
    """Texts are joined, counts added up, money rounded, and what is not said is None."""
    stdout = (
        b'{"say":"one ","in":3}\n\n{"say":"two","in":4,"read":5,"out":1}\n'
        b'{"end":true,"ok":true,"who":"s1","out":2,"usd":0.25,"data":{"a":1}}\n'
    )
    said = read_answer(PROFILE, "workspace", ended(stdout), {})
    assert said == Said("one two", '{"a":1}', tokens_in=12, tokens_out=2, cost_microunits=250_000, session="s1")
    assert read_usage(PROFILE, ended(stdout), {}) == Usage(tokens_in=12, tokens_out=2, cost_microunits=250_000)


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [
        ("timed-out", "timeout"),
        ("cancelled", "cancelled"),
        ("output-limit", "output-too-long"),
        ("signaled", "crash"),
        ("spawn-error", "config-error"),
    ],
)
@pytest.mark.parametrize("stdout", [DONE, FAILED], ids=["done", "failed"])
def test_the_supervisors_verdict_stands_before_everything_written(verdict: Verdict, kind: str, stdout: bytes) -> None:
    """Neither a success nor another failure on standard output changes how the run ended."""
    assert kind_of(PROFILE, ended(stdout, verdict=verdict, status=0)) == kind
    assert set(get_args(Verdict)) == {"timed-out", "cancelled", "output-limit", "signaled", "spawn-error", "exited"}


def test_an_answer_of_something_that_still_runs_is_none() -> None:
    """A process that could not be ended may still change what would be sealed."""
    assert kind_of(PROFILE, ended(DONE, remaining=1)) == "crash"


def test_the_end_of_the_turn_stands_before_the_exit_status() -> None:
    """A reported failure is one with any status, and its own kind wins over the status's and standard error's."""
    for status in (0, 1, 7):
        assert kind_of(PROFILE, ended(FAILED, b"no route", status)) == "rate-limited"


def test_a_status_stands_before_standard_error() -> None:
    """Without an end of the turn the exit status is asked, then standard error, then it is a crash."""
    assert kind_of(PROFILE, ended(b"", b"no route", 7)) == "auth"
    assert kind_of(PROFILE, ended(b"", b"x\nno route", 1)) == "network"
    assert kind_of(PROFILE, ended(b"", b"something", 1)) == "crash"
    assert kind_of(PROFILE, ended(DONE, b"something", 1)) == "crash"
    assert kind_of(PROFILE, ended(DONE, b"something", 7)) == "auth"


def test_a_status_of_zero_without_an_end_is_malformed() -> None:
    """Nothing written, an end without its members, a broken line before it, and an empty answer are no answers."""
    for stdout in (
        b"",
        b"a sentence\n",
        b'{"end":true,"say":"x"}\n',
        b'{"end":false,"ok":true,"say":"x"}\n',
        b'{"say":"x"\n' + DONE,
        b'{"end":true,"ok":true}\n',
        b'{"end":true,"ok":true,"say":" \\n"}\n',
        b'{"end":true,"ok":true,"say":7}\n',
    ):
        assert kind_of(PROFILE, ended(stdout)) == "malformed-output", stdout
    assert read_answer(PROFILE, "answer", ended(b'{"end":true,"ok":true,"data":0}\n'), {}).structured == "0"


def test_output_without_measure_is_no_sequence_of_events() -> None:
    """As many events as a run may write are read; one more, and there is no end of a turn among them."""
    event = b'{"in":1}\n'
    assert read_answer(PROFILE, "answer", ended(event * (MAX_EVENTS - 1) + DONE), {}).tokens_in == MAX_EVENTS + 2
    assert kind_of(PROFILE, ended(event * MAX_EVENTS + DONE)) == "malformed-output"


def test_a_broken_line_does_not_hide_a_failure() -> None:
    """What the agent says about its failure holds although a line before it is broken."""
    assert kind_of(PROFILE, ended(b'{"say":"x"\n' + FAILED, status=1)) == "rate-limited"


def test_only_the_members_that_hold_errors_are_searched() -> None:
    """An answer, or a log, that talks about failures is not one."""
    talk = json.dumps({"say": "slow down 429", "status": 429}).encode() + b"\n" + DONE
    assert read_answer(PROFILE, "answer", ended(talk, b"slow down"), {}).text == "slow down 429done"
    unexplained = b'{"say":"slow down"}\n{"end":true,"ok":false,"why":"new","say":"slow down"}\n'
    assert kind_of(PROFILE, ended(unexplained, b"slow down", 1)) == "crash"
    text_only = b'{"end":true,"ok":false,"why":"slow down, please"}\n'
    assert kind_of(PROFILE, ended(text_only, status=1)) == "overloaded"
    listed = b'{"end":true,"ok":false,"why":["slow down"]}\n'
    assert kind_of(PROFILE, ended(listed, status=1)) == "crash"


def test_a_crash_shows_the_end_of_standard_error() -> None:
    """The last two kilobytes, and the exit status where the agent said nothing."""
    with pytest.raises(ProviderFailure) as caught:
        read_answer(PROFILE, "answer", ended(b"", b"first" + b"." * LAST_STDERR_BYTES, 9), {})
    assert caught.value.outcome == "unavailable"
    assert "exit status 9" in caught.value.detail
    assert "first" not in caught.value.detail
    assert caught.value.detail.endswith("." * LAST_STDERR_BYTES)
    with pytest.raises(ProviderFailure) as quiet:
        read_answer(PROFILE, "answer", ended(b"", b" \n", 9), {})
    assert "\n" not in quiet.value.detail


def test_an_object_on_standard_error_is_the_end_of_a_turn_that_failed() -> None:
    """Where a profile says so, the last one with an error's members is read as the terminal event."""
    reader = replace(READER, form="json-object", error_object="stderr", errors=("error.text",))
    profile = replace(PROFILE, reader=reader, failures=(Failure("event", "5..", "overloaded", "error.code"),))
    said = b'log\n{"error":{"text":"first","code":400}}\n{\n "error": {"text": "second", "code": 503}\n}\n'
    with pytest.raises(ProviderFailure) as caught:
        read_answer(profile, "answer", ended(b"", said, 1), {})
    assert caught.value.failure_kind == "overloaded"
    assert "second" in caught.value.detail
    assert kind_of(profile, ended(b"", said, 0)) == "overloaded"
    assert read_answer(profile, "answer", ended(DONE, said), {}).text == "done"
    assert kind_of(profile, ended(b"", b"{}\n", 0)) == "malformed-output"


def test_a_file_is_read_where_the_answer_is_in_one() -> None:
    """A missing file is no end of the turn."""
    profile = replace(PROFILE, reader=replace(READER, form="json-file"))
    assert read_answer(profile, "workspace", ended(b"for people"), {"answer": DONE}).text == "done"
    assert kind_of(profile, ended(DONE)) == "malformed-output"


def test_text_needs_the_line_that_ends_it() -> None:
    """Its groups are what the agent says; without it, only then, standard output is searched for a failure."""
    reader = Reader(
        form="text",
        terminal_pattern=r"^used (?P<tokens_in>[0-9,]+)(?: of (?P<tokens_out>[0-9]+))?$",
        terminal_stream="stderr",
        answer=Pick("answer"),
        tokens_in=(Pick("tokens_in"),),
        tokens_out=(Pick("tokens_out"),),
    )
    profile = replace(PROFILE, reader=reader, failures=(Failure("stdout", r"^Oops: busy", "overloaded"),))
    said = read_answer(profile, "answer", ended(b"Oops: busy\n", b"used 1,234\n"), {})
    assert (said.text, said.tokens_in, said.tokens_out) == ("Oops: busy\n", 1234, None)
    assert kind_of(profile, ended(b"x\nOops: busy\n")) == "overloaded"
    assert kind_of(profile, ended(b"x\nOops: busy\n", status=1)) == "overloaded"
    assert kind_of(profile, ended(b"text\n")) == "malformed-output"
    assert kind_of(profile, ended(b"Oops: busy\n", b"used 1\n", 1)) == "crash"
    own = replace(
        profile, reader=replace(reader, terminal_stream="stdout", terminal_pattern=r"\A(?P<answer>.*)^-- end$")
    )
    assert read_answer(own, "answer", ended(b"said\n-- end\n"), {}).text == "said\n"


def test_a_protocol_agent_writes_nothing_that_is_read_so() -> None:
    """An agent without a reader, and the protocol's capability, are refused as such."""
    for profile, capability in ((PROFILES["claude-acp"], "answer"), (PROFILES["gemini"], "acp")):
        with pytest.raises(ProviderFailure) as caught:
            read_answer(profile, capability, ended(DONE), {})  # type: ignore[arg-type]
        assert caught.value.outcome == "unsupported-capability"
    assert read_usage(PROFILES["claude-acp"], ended(DONE), {}) == Usage()


def test_an_error_of_a_protocol_is_classified_by_members_and_text() -> None:
    """The rules are the profile's, in their order; what no rule explains is a crash."""
    assert classify(PROFILE, "slow down", {"status": "429"}) == "rate-limited"
    assert classify(PROFILE, "Internal error: slow down") == "overloaded"
    assert classify(PROFILE, "no route") == "crash"


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1}',
        ' {"a":1}\n',
        '```json\n{"a":1}\n```',
        '```\n{"a":1}\n```\n',
        '````JSON \r\n{"a":1}\r\n````',
        "[]",
        "7",
    ],
)
def test_one_json_value_is_taken_with_or_without_a_fence(text: str) -> None:
    """White space and one fence around it are free."""
    assert json.loads(one_json(text)) in ({"a": 1}, [], 7)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I could not do that.",
        'Here it is:\n```json\n{"a":1}\n```',
        '```json\n{"a":1}\n```\nThat is all.',
        '{"a":1} {"b":2}',
        '```json\n```json\n{"a":1}\n```\n```',
        '```json\n{"a":1}\n```\n```json\n{"a":2}\n```',
        '```json {"a":1} ```',
        '```json\n{"a":1}',
        '{"a":NaN}',
        "[" * 100_000,
    ],
)
def test_prose_around_json_is_not_an_answer(text: str) -> None:
    """Nothing is picked out of what an agent says; it is asked again instead."""
    with pytest.raises(ProviderFailure) as caught:
        one_json(text)
    assert (caught.value.outcome, caught.value.failure_kind) == ("invalid-output", "malformed-output")
    assert len(caught.value.detail) <= 2_000


def test_what_the_agent_checked_itself_stands_before_its_text() -> None:
    """A structured answer needs no fence stripped; without one the text has to be JSON."""
    assert document_in(Said("prose", structured='{"a":1}')) == b'{"a":1}'
    assert document_in(Said('```\n{"a":1}\n```')) == b'{"a":1}'


@given(st.binary(max_size=200), st.binary(max_size=80), st.integers(0, 255), st.sampled_from(sorted(PROFILES)))
def test_whatever_is_written_is_an_answer_or_a_failure_of_a_known_kind(
    stdout: bytes, stderr: bytes, status: int, name: str
) -> None:
    """No output makes the reader fail itself, and no answer comes with a status other than 0."""
    kind: str | None = None
    try:
        read_answer(PROFILES[name], "answer", ended(stdout, stderr, status), {"answer": stdout})
    except ProviderFailure as failure:
        kind = failure.failure_kind
    assert kind in get_args(FailureKind) if kind is not None else status == 0
    read_usage(PROFILES[name], ended(stdout, stderr, status), {"answer": stdout})


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "aider", "llm"])
@pytest.mark.parametrize(
    "line", ["Tokens: 1 sent" + "1" * 400, "Repo-map: x", "`" * 400, "API Error: " + "5" * 400, "{", '{"type":']
)
def test_no_output_makes_reading_slow(name: str, line: str) -> None:
    """Much output that is made for a pattern is read within the suite's time limit, as a failure."""
    much = (line + "\n").encode() * (400_000 // len(line))
    for how in (ended(much, much, 1), ended(much.replace(b"\n", b""), much, 1)):
        kind_of(PROFILES[name], how)


@pytest.mark.parametrize("text", ["`" * 1_000_000 + "\n" + "a\n" * 500_000, "```\n" + "\n```" * 300_000 + "x"])
def test_no_answer_makes_its_fence_slow(text: str) -> None:
    """A fence without end is no JSON, and found out soon."""
    with pytest.raises(ProviderFailure):
        one_json(text)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5))
def test_json_survives_its_fence(value: object) -> None:
    """Any value, fenced as models do it, comes out unchanged."""
    assert json.loads(one_json(f"```json\n{json.dumps(value)}\n```")) == value
