"""What a provider is given, what checks are not, and what may not be said aloud."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from commandprovider import ToolHost
from commandprovider.guard import GuardedProvider
from commandprovider.profiles import PROFILES
from commandprovider.redaction import MARK
from commandprovider.secrets import NO_SECRETS, Secrets
from savant.cli.person import AgentSettings
from savant.cli.places import Places, find_places
from savant.cli.supplying import for_checks, guarded, hidden_from_checks, supply, verify_unmentioned, with_secrets
from savant.contracts.errors import UsageError

KEY = "sk-ant-0123456789abcdef"
CLAUDE = PROFILES["claude"]


def places(home: Path, **environment: str) -> Places:
    return find_places({"HOME": str(home), "SAVANT_HOME": str(home / "savant"), **environment})


def host(**ambient: str) -> ToolHost:
    unused: Any = None
    return ToolHost(processes=unused, scratch=Path("/nowhere"), ambient=ambient, search_path="/bin")


def test_an_agent_is_supplied_from_the_persons_environment(tmp_path: Path) -> None:
    """The first source that is there, or the one that the person chose."""
    there = places(tmp_path, ANTHROPIC_API_KEY=KEY, CLAUDE_CODE_OAUTH_TOKEN=f"{KEY}-2")
    supplied = supply(there, CLAUDE, AgentSettings(), now_ms=0)
    assert supplied.secrets.sources == ("ANTHROPIC_API_KEY",)
    assert supplied.missing == {}
    chosen = supply(there, CLAUDE, AgentSettings(credential="CLAUDE_CODE_OAUTH_TOKEN"), now_ms=0)
    assert chosen.secrets.environment == (("CLAUDE_CODE_OAUTH_TOKEN", f"{KEY}-2"),)


def test_what_is_missing_is_said_by_the_agents_name(tmp_path: Path) -> None:
    """No secrets then, and the commands that supply one."""
    supplied = supply(places(tmp_path), CLAUDE, AgentSettings(), now_ms=0)
    assert supplied.secrets is NO_SECRETS
    (why, fix) = supplied.missing["claude"]
    assert "ANTHROPIC_API_KEY: it is not set" in why
    assert "export ANTHROPIC_API_KEY=..." in fix


def test_a_host_knows_the_secrets_it_gives() -> None:
    """Those of the agent, and the variables that the person lets through whose names say so; no others."""
    secrets = Secrets(environment=(("AGENT_KEY", KEY),), sources=("AGENT_KEY",))
    made = with_secrets(host(MY_TOKEN="m-0123456789", MY_NAME="n-0123456789"), secrets, ["MY_TOKEN", "MY_NAME", "NONE"])
    assert made.secrets is secrets
    assert made.redactor.labels == ("AGENT_KEY", "MY_TOKEN")
    assert made.redactor.redact_values(b"m-0123456789 n-0123456789") == f"[{MARK}:MY_TOKEN] n-0123456789".encode()
    assert KEY not in repr(made.secrets)


def test_only_a_provider_that_is_given_secrets_is_guarded() -> None:
    """A tool that is given none is started as it is."""
    provider: Any = object()
    plain = guarded(lambda: provider, with_secrets(host(), NO_SECRETS))
    assert plain() is provider
    secret = guarded(lambda: provider, with_secrets(host(), Secrets(environment=(("AGENT_KEY", KEY),))))
    assert isinstance(secret(), GuardedProvider)


def test_checks_see_everything_but_credentials_of_agents() -> None:
    """Names that a repository lists find nothing of an agent's."""
    ambient = {"ANTHROPIC_API_KEY": KEY, "GEMINI_API_KEY": KEY, "PATH": "/bin", "CI": "1"}
    assert for_checks(ambient) == {"PATH": "/bin", "CI": "1"}
    assert hidden_from_checks(ambient, ("CI", "GEMINI_API_KEY", "OPENAI_API_KEY")) == ("GEMINI_API_KEY",)
    assert hidden_from_checks(ambient, ("NONE",)) == ()


def test_a_value_in_what_will_be_recorded_is_refused() -> None:
    """The task and the command line are documents: a value in them is refused by the name of its source."""
    redactor = with_secrets(host(), Secrets(environment=(("AGENT_KEY", KEY),))).redactor
    verify_unmentioned(redactor, b'{"objective":"use the key"}', b"{}")
    with pytest.raises(UsageError) as caught:
        verify_unmentioned(redactor, b"{}", f'{{"objective":"use {KEY}"}}'.encode())
    assert caught.value.code == "usage.credential-in-words"
    assert "AGENT_KEY" in caught.value.message
    assert KEY not in caught.value.message + caught.value.fix
