"""Templates: what has no value is left out, and what people write cannot become an option or a second member."""

from __future__ import annotations

import pytest

from commandprovider.profiles import PROFILES, invocation_of, render
from commandprovider.profiles.model import Invocation, Setting, Words
from savant.contracts.errors import UsageError

INVOCATION = Invocation(
    argv=(
        Words(("run",)),
        Words(("-m", "{model}")),
        Words(("--alone",), without=("contained",)),
        Words(("--held", "{schema}"), given=("contained",)),
    ),
    settings=(
        Setting("a.json", '{"plain":{}}'),
        Setting("a.json", '{"model":"{model}"}'),
        Setting("b.json", "{}", given=("readable",)),
    ),
    environment=(("FIXED", "1"), ("WHERE", "{base_url}")),
)


def test_nothing_chosen_leaves_only_what_is_fixed() -> None:
    """Groups, variables and files that name a missing value are absent as a whole."""
    rendered = render(INVOCATION, {})
    assert rendered.argv == ("run", "--alone")
    assert rendered.environment == (("FIXED", "1"),)
    assert rendered.settings == (("a.json", b'{"plain":{}}'),)


def test_values_and_flags_bring_their_words() -> None:
    """A group is there when its flags are up and its values known; the later file of one path is written."""
    rendered = render(
        INVOCATION,
        {"model": "m-1", "base_url": "https://host.example/v1", "schema": "{model}"},
        ("contained", "readable"),
    )
    assert rendered.argv == ("run", "-m", "m-1", "--held", "{model}")
    assert rendered.environment == (("FIXED", "1"), ("WHERE", "https://host.example/v1"))
    assert rendered.settings == (("a.json", b'{"model":"m-1"}'), ("b.json", b"{}"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "--dangerously-skip-permissions"),
        ("model", 'x"}'),
        ("model", ""),
        ("model", "a b"),
        ("base_url", 'http://h/"}'),
        ("base_url", "file:///etc"),
        ("base_url", "http://h/a b"),
        ("budget_usd", "1e9"),
    ],
)
def test_a_value_that_could_mean_more_is_refused(name: str, value: str) -> None:
    """A model or an address cannot be an option, leave its quotes, or be a file."""
    with pytest.raises(UsageError) as caught:
        render(INVOCATION, {name: value})  # type: ignore[dict-item]
    assert caught.value.code == "usage.agent-value"


def test_a_capability_that_an_agent_lacks_is_refused_with_those_it_has() -> None:
    """The refusal names what can be chosen instead."""
    with pytest.raises(UsageError) as caught:
        invocation_of(PROFILES["llm"], "workspace")
    assert caught.value.code == "usage.agent-capability"
    assert "answer" in caught.value.fix
