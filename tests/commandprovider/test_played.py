"""Configurations that a cassette answers for: nothing of them is looked for; what is driven otherwise is refused."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from commandprovider import ToolHost
from commandprovider.agent import Wish, agent_config, verify_agent
from commandprovider.config import command_config, import_config, played_config, recipe_config, verify_executables
from commandprovider.documents import Agent, Imported
from commandprovider.played import played_agent
from commandprovider.profiles import PROFILES
from savant.contracts.digest import digest
from savant.contracts.document import seal
from savant.contracts.errors import PortError, UsageError
from tests.commandprovider.fakeagent import install

SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"


def test_a_recorded_configuration_needs_nothing_here() -> None:
    """The same words and the recorded executables give the same document, where no folder is searched."""
    made = {
        "recipe": recipe_config([("cat", "x"), ("/bin/sh", "-c", "true")], [("t", ("cat",))], search_path=SEARCH_PATH),
        "command": command_config(("cat", "-"), search_path=SEARCH_PATH),
        "import": import_config(
            Imported(commit=None, patch_digest=digest(b"")), note="n", argv=("cat",), search_path=SEARCH_PATH
        ),
    }
    again = {
        "recipe": recipe_config(
            [("cat", "x"), ("/bin/sh", "-c", "true")],
            [("t", ("cat",))],
            search_path="",
            recorded=made["recipe"].sealed.document,
        ),
        "command": command_config(("cat", "-"), search_path="", recorded=made["command"].sealed.document),
        "import": import_config(
            Imported(commit=None, patch_digest=digest(b"")),
            note="n",
            argv=("cat",),
            recorded=made["import"].sealed.document,
        ),
    }
    assert {k: v.sealed.digest for k, v in made.items()} == {k: v.sealed.digest for k, v in again.items()}
    assert all(config.played for config in again.values())
    assert not any(config.played for config in made.values())
    assert again["recipe"].command(("cat", "x")) == ("/cassette/cat", "x")
    assert again["recipe"].command(("/bin/sh", "-c")) == ("/bin/sh", "-c")
    other = command_config(("sh", "-"), search_path="", recorded=made["command"].sealed.document)
    with pytest.raises(UsageError):
        other.command(("sh",))


def test_only_what_is_started_is_looked_at_again() -> None:
    """A changed executable is refused where it would run, and is nothing to a configuration that is played."""
    made = command_config(("cat",), search_path=SEARCH_PATH)
    executables = tuple(replace(one, content_digest=digest(b"?")) for one in made.sealed.document.executables)
    sealed = seal(replace(made.sealed.document, executables=executables))
    with pytest.raises(PortError) as caught:
        verify_executables(replace(made, sealed=sealed))
    assert caught.value.code == "port.executable-changed"
    verify_executables(played_config(sealed))


@pytest.mark.parametrize("mode", ["answer", "workspace"])
@pytest.mark.parametrize("contained", [True, False])
def test_an_agent_is_driven_as_it_was_recorded(host: ToolHost, mode: Any, contained: bool) -> None:
    """Flags, model and endpoint come from the configuration alone, and the package is not looked at."""
    program = install(host.scratch.parent / "agent", {})
    wish = Wish(
        mode=mode,
        executable=str(program),
        model="some-model",
        base_url="http://127.0.0.1:9",
        contained=contained,
        disclosed=("AGENTS.md",),
    )
    made = agent_config(PROFILES["claude"], wish, host)
    program.unlink()
    again = played_agent(made.config.sealed)
    assert again.config.sealed == made.config.sealed
    assert (again.values, again.profile, again.capability) == (made.values, made.profile, mode)
    if mode == "workspace":
        assert again.flags == made.flags
    verify_agent(again)
    with pytest.raises(PortError):
        verify_agent(made)


@pytest.mark.parametrize(
    "other",
    [
        {"profile": "no-such-agent"},
        {"profile_digest": digest(b"?")},
        {"prompts_digest": digest(b"?")},
        {"settings_digest": digest(b"?")},
        {"answer_flags": ("--other",)},
    ],
)
def test_what_this_version_drives_otherwise_is_refused(host: ToolHost, other: dict[str, Any]) -> None:
    """Another profile, other prompts or flags than the recorded ones cannot be played by this version."""
    program = install(host.scratch.parent / "agent", {})
    sealed = agent_config(PROFILES["claude"], Wish(executable=str(program)), host).config.sealed
    agent: Agent | None = sealed.document.agent
    assert agent is not None
    with pytest.raises(UsageError) as caught:
        played_agent(seal(replace(sealed.document, agent=replace(agent, **other))))
    assert caught.value.code == "usage.cassette-agent"
    with pytest.raises(UsageError):
        played_agent(seal(replace(sealed.document, agent=None)))
    assert played_agent(sealed).agent == agent
