"""The profiles as data: each is complete, none uses a shell or names a place of a machine."""

from __future__ import annotations

import re
from typing import get_args

import msgspec
import pytest

from commandprovider.profiles import OUTCOMES, PROFILES, RETRYABLE, invocation_of, render
from commandprovider.profiles.model import Capability, Flag, Invocation, Placeholder, Profile
from synthesis.documents import FailureKind, Outcome

ALL = [pytest.param(profile, id=name) for name, profile in PROFILES.items()]
FIRST_CLASS = [pytest.param(profile, id=name) for name, profile in PROFILES.items() if profile.tier == "first-class"]
KINDS = frozenset(get_args(FailureKind))
PLACES: dict[Placeholder, str] = {
    "schema": '{"type":"object"}',
    "schema_file": "SCHEMA",
    "answer_file": "ANSWER",
    "prompt_file": "PROMPT",
    "prompt": "Do it.",
    "home": "HOME",
}
CHOSEN: dict[Placeholder, str] = {"model": "some-model", "base_url": "http://127.0.0.1:1/v1", "budget_usd": "1.50"}
FLAGS: tuple[tuple[Flag, ...], ...] = ((), ("contained",), ("readable",), ("contained", "readable"))


def invocations(profile: Profile) -> list[tuple[Capability, Invocation]]:
    return [(capability, invocation_of(profile, capability)) for capability in profile.capabilities]


def test_the_agents_that_were_promised_are_there() -> None:
    """Three command lines and two protocol adapters are first class, four more are examples."""
    tiers = {name: profile.tier for name, profile in PROFILES.items()}
    assert tiers == {
        "claude": "first-class",
        "codex": "first-class",
        "gemini": "first-class",
        "claude-acp": "first-class",
        "codex-acp": "first-class",
        "opencode": "example",
        "aider": "example",
        "mini-swe-agent": "example",
        "llm": "example",
    }


@pytest.mark.parametrize("profile", FIRST_CLASS)
def test_a_first_class_agent_answers_and_edits_or_speaks_the_protocol(profile: Profile) -> None:
    """First class is more than a name."""
    assert {"answer", "workspace"} <= set(profile.capabilities) or "acp" in profile.capabilities
    assert profile.own_retries is not None
    assert profile.own_retries <= 1


@pytest.mark.parametrize("profile", ALL)
def test_a_profile_can_be_probed_and_supplied(profile: Profile) -> None:
    """There is a version to ask for, a range that was tested, and a command for every credential."""
    first, after = ([int(part) for part in bound.split(".")] for bound in profile.probe.tested)
    assert first < after
    assert "(?P<version>" in profile.probe.pattern
    assert profile.probe.argv or profile.probe.stdin
    assert profile.sources
    assert all(source.help and source.target and source.name for source in profile.sources)
    assert all(not path.startswith(("/", "~")) for source in profile.sources for path in (*source.files, source.target))
    pinned = re.search(r"(?:@|==)(?P<version>[0-9.]+)$", profile.install)
    assert pinned is not None
    assert first <= [int(part) for part in pinned["version"].split(".")] < after


@pytest.mark.parametrize("profile", ALL)
def test_an_agent_that_writes_streams_has_a_reader(profile: Profile) -> None:
    """Only protocol adapters have none; a reader has an answer and can tell an end."""
    if profile.reader is None:
        assert profile.capabilities == ("acp",)
        return
    assert profile.reader.answer is not None
    assert profile.reader.terminal or profile.reader.required or profile.reader.terminal_pattern
    assert profile.reports_usage == bool(profile.reader.tokens_in) or profile.name == "aider"
    assert profile.reports_cost == bool(profile.reader.cost)


@pytest.mark.parametrize("profile", ALL)
def test_failure_rules_are_of_the_closed_kinds_and_in_the_order_they_are_asked(profile: Profile) -> None:
    """What an agent says about its end is asked first, then the exit status, then standard error."""
    order = {"event": 0, "error": 0, "stdout": 0, "exit-status": 1, "stderr": 2}
    ranks = [order[rule.where] for rule in profile.failures]
    assert ranks == sorted(ranks)
    assert profile.failures
    for rule in profile.failures:
        assert rule.kind in KINDS
        re.compile(rule.match)
        assert (rule.path != "") == (rule.where == "event")


def test_no_agent_is_judged_by_its_answer() -> None:
    """Standard output holds the answer of an agent that writes text; its rules name how an error's line begins."""
    rules = [rule for profile in PROFILES.values() for rule in profile.failures if rule.where == "stdout"]
    assert rules
    assert all(rule.match.startswith("^") for rule in rules)


@pytest.mark.parametrize("profile", ALL)
@pytest.mark.parametrize("flags", FLAGS, ids="+".join)
def test_no_argument_is_a_shell_or_a_place_of_a_machine(profile: Profile, flags: tuple[Flag, ...]) -> None:
    """Nothing that is rendered from a profile names a shell, an absolute path or a person's folder."""
    for _, invocation in invocations(profile):
        for values in (PLACES, PLACES | CHOSEN):
            rendered = render(invocation, values, flags)
            texts = [
                *rendered.argv,
                *(value for _, value in rendered.environment),
                *(path for path, _ in rendered.settings),
                *(content.decode() for _, content in rendered.settings),
            ]
            for text in texts:
                assert text not in {"sh", "bash", "-c sh", "/bin/sh"}
                assert not text.startswith("~")
                assert re.search(r"(?<![:/\w])/(?!/)[A-Za-z]", text.replace("http://", "")) is None, text
                assert re.search(r"\{[a-z_]+\}", text) is None, text


@pytest.mark.parametrize("profile", ALL)
def test_without_a_model_and_an_address_the_agents_own_hold(profile: Profile) -> None:
    """The words for a value that is not there are not there either; with it, they are."""
    for _, invocation in invocations(profile):
        bare = render(invocation, PLACES)
        full = render(invocation, PLACES | CHOSEN)
        assert "some-model" not in str(bare)
        assert "127.0.0.1" not in str(bare)
        assert "some-model" in str(full)
        assert "127.0.0.1" in str(full)
        assert len(bare.argv) <= len(full.argv)


@pytest.mark.parametrize("profile", ALL)
def test_the_prompt_comes_by_standard_input_where_the_agent_can_read_it(profile: Profile) -> None:
    """Arguments are seen by every process of the machine; only mini-swe-agent has no other way."""
    for _, invocation in invocations(profile):
        words = {word for group in invocation.argv for word in group.words}
        assert ("{prompt}" in words) == (profile.name == "mini-swe-agent")
        assert (invocation.stdin == "nothing") == bool({"{prompt}", "{prompt_file}"} & words)


@pytest.mark.parametrize("profile", ALL)
def test_an_agent_may_run_commands_only_where_a_sandbox_holds_it(profile: Profile) -> None:
    """What widens an agent's rights stands under the flag ``contained``."""
    wide = ("danger-full-access", "Bash", "yolo", '"bash":"allow"')
    for capability, invocation in invocations(profile):
        alone = str(render(invocation, PLACES | CHOSEN, ()))
        assert not any(word in alone for word in wide), capability
    if profile.name in {"claude", "codex", "gemini", "opencode"}:
        held = str(render(invocation_of(profile, "workspace"), PLACES | CHOSEN, ("contained",)))
        assert any(word in held for word in wide)


@pytest.mark.parametrize("profile", ALL)
def test_an_answer_is_given_without_tools_unless_there_is_something_to_read(profile: Profile) -> None:
    """With the flag ``readable`` the agent gets its reading tools, and never the ones that edit."""
    if profile.name not in {"claude", "gemini", "codex", "opencode"}:
        return
    blind = str(render(invocation_of(profile, "answer"), PLACES, ()))
    reading = str(render(invocation_of(profile, "answer"), PLACES, ("readable",)))
    assert blind != reading
    assert not any(word in reading for word in ("Edit", "Write", "write_file", "workspace-write", '"edit":"allow"'))


def test_every_failure_kind_has_an_outcome() -> None:
    """The outcomes are the port's, and what may be tried again is a failure kind."""
    assert set(OUTCOMES) == KINDS
    assert set(OUTCOMES.values()) < set(get_args(Outcome))
    assert KINDS > RETRYABLE


def test_a_profile_has_a_digest_of_its_own() -> None:
    """Profiles encode to distinct bytes, so that a configuration can name one by its digest."""
    encoded = {msgspec.json.encode(profile) for profile in PROFILES.values()}
    assert len(encoded) == len(PROFILES)
