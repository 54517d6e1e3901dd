"""What an agent told over the protocol, judged: only a turn that it ended well counts, and no call that was stopped."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from commandprovider.profiles import PROFILES
from commandprovider.profiles.model import Failure
from commandprovider.told import STOPS, Problem, Told, read_told
from providerport.port import ProviderFailure, Usage
from savant.process.port import Ended, Verdict

CLAUDE = PROFILES["claude-acp"]
GEMINI = PROFILES["gemini"]


def ended(verdict: Verdict = "exited", status: int | None = 0, stderr: bytes = b"") -> Ended:
    return Ended(
        verdict=verdict,
        exit_status=status,
        signal=None if status is not None else 15,
        stdout=b"",
        stderr=stderr,
        stdout_truncated=False,
        stderr_truncated=False,
        duration_ms=1,
        cpu_ms=1,
        max_rss_bytes=1,
        survivors=0,
        remaining=0,
        level="S0",
        detail="",
        layers=(),
    )


def kind(told: Told, end: Ended, profile: Any = CLAUDE) -> str:
    with pytest.raises(ProviderFailure) as caught:
        read_told(profile, told, end)
    return caught.value.failure_kind


@pytest.mark.parametrize("end", [ended(), ended(status=143), ended("signaled", None)])
def test_a_turn_that_ended_well_is_an_answer(end: Ended) -> None:
    """However the process went afterwards: with a status, or ended by us."""
    said = read_told(CLAUDE, Told(stop="end_turn", parts=["a", "b"], session="s"), end)
    assert (said.text, said.session, said.tokens_in, said.cost_microunits) == ("ab", "s", None, None)


@pytest.mark.parametrize(("stop", "expected"), [*((s, k) for s, k in STOPS.items() if k), ("new", "malformed-output")])
def test_every_other_end_of_a_turn_is_a_failure(stop: str, expected: str) -> None:
    """The protocol's reasons have their kinds; one that it does not know is no answer."""
    assert kind(Told(stop=stop, parts=["x"]), ended()) == expected


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("timed-out", "timeout"),
        ("cancelled", "cancelled"),
        ("output-limit", "output-too-long"),
        ("spawn-error", "config-error"),
    ],
)
def test_the_supervisor_stands_before_the_agent(verdict: Verdict, expected: str) -> None:
    """A call that was ended for a reason failed by it, whatever was told before."""
    for told in (Told(stop="end_turn"), Told(problem=Problem(1, "x", None)), Told()):
        assert kind(told, ended(verdict, None)) == expected


def test_what_was_told_stands_before_the_end_of_the_process() -> None:
    """An agent that told its failure and was then ended failed by what it told; one that told nothing crashed."""
    limit = Problem(-32603, "x", {"errorKind": "rate_limit"})
    for end in (ended(), ended("signaled", None), ended(status=1)):
        assert kind(Told(problem=limit), end) == "rate-limited"
        assert kind(Told(fault=("config-error", "no")), end) == "config-error"
    assert kind(Told(), ended("signaled", None)) == "crash"
    assert kind(Told(), ended(status=1)) == "crash"
    assert kind(Told(), ended()) == "malformed-output"


def test_the_end_of_a_silent_process_is_explained_by_the_profile() -> None:
    """Rules for the status and for standard error hold where nothing was told."""
    rules = (Failure("exit-status", "7", "auth"), Failure("stderr", "^no disk", "config-error"))
    profile = replace(CLAUDE, failures=rules)
    assert kind(Told(), ended(status=7), profile) == "auth"
    assert kind(Told(), ended(status=8, stderr=b"x\nno disk\n"), profile) == "config-error"
    assert kind(Told(), ended(status=8), profile) == "crash"


@pytest.mark.parametrize(
    ("code", "expected"),
    [(429, "rate-limited"), (500, "overloaded"), (401, "auth"), (400, "bad-request"), (7, "crash")],
)
def test_gemini_names_its_failures_by_the_status(code: int, expected: str) -> None:
    """The code of an error is the status of HTTP, as in its own envelope."""
    assert kind(Told(problem=Problem(code, "x", None)), ended(), GEMINI) == expected


def test_a_variant_with_details_is_known_by_its_name() -> None:
    """Codex tells some failures as an object with one member, named like the failure; others as a mere name."""
    for info, expected in (
        ({"http_connection_failed": {"status": 1}}, "network"),
        ("unauthorized", "auth"),
        ({}, "crash"),
    ):
        problem = Problem(-32603, "x", {"codex_error_info": info})
        assert kind(Told(problem=problem), ended(), PROFILES["codex-acp"]) == expected


def test_usage_is_what_was_told() -> None:
    """Either spelling, added up; money in dollars only; nothing that was not told or is no number."""
    both = {"usage": {"inputTokens": 5, "cachedReadTokens": 2, "outputTokens": 3, "thoughtTokens": 4}}
    assert Told(result=both, cost=Decimal("0.1"), currency="USD").usage() == Usage(7, 7, 100_000, 2)
    quota = {"_meta": {"quota": {"token_count": {"input_tokens": 5, "output_tokens": 6}}}}
    assert Told(result=quota, cost=Decimal(1), currency="EUR").usage() == Usage(5, 6, None, None)
    assert Told(result={"usage": {"inputTokens": "many"}}).usage() == Usage()
