"""A coding agent found and locked: the native program behind a wrapper, its package, its version, its flags."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from commandprovider import ToolHost
from commandprovider.agent import ResolvedAgent, Wish, agent_config, verify_agent
from commandprovider.locating import (
    Located,
    is_native,
    is_tested,
    locate,
    package_digest,
    package_of,
    probe_version,
)
from commandprovider.profiles import PROFILES
from commandprovider.prompts import prompts_digest
from commandprovider.secrets import Secrets
from savant.contracts.document import digest_of
from savant.contracts.errors import PortError, RefusedInput, UsageError
from savant.process.identity import executable_digest
from savant.process.posix import SupervisedRunner
from tests.commandprovider.fakeagent import install

CLAUDE = PROFILES["claude"]
SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
ELF = b"\x7fELF"


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedRunner]:
    """One supervisor for all of these."""
    with SupervisedRunner(tmp_path_factory.mktemp("processes")) as runner:
        yield runner


@pytest.fixture
def host(processes: SupervisedRunner, tmp_path: Path) -> ToolHost:
    """What an agent may use of the machine."""
    return ToolHost(
        processes=processes,
        scratch=tmp_path / "scratch" / "tools",
        ambient={"ANTHROPIC_API_KEY": "sk-secret-value-123456"},
        search_path=SEARCH_PATH,
    )


def put(path: Path, content: bytes, *, executable: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755 if executable else 0o644)
    return path


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A ``node_modules`` with the agent's wrapper, its platform packages and the link that npm makes."""
    folder = tmp_path / "prefix" / "lib" / "node_modules"
    wrapper = put(folder / "@anthropic-ai/claude-code/cli.js", b"#!/usr/bin/env node\n", executable=True)
    put(wrapper.parent / "package.json", b'{"name": "@anthropic-ai/claude-code", "version": "2.1.332"}')
    for name in ("linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"):
        package = wrapper.parent / "node_modules" / f"@anthropic-ai/claude-code-{name}"
        put(package / "claude", ELF + name.encode(), executable=True)
        put(package / "package.json", b"{}")
    link = tmp_path / "prefix" / "bin" / "claude"
    link.parent.mkdir()
    link.symlink_to("../lib/node_modules/@anthropic-ai/claude-code/cli.js")
    return folder


def test_the_native_program_behind_the_wrapper_is_started(modules: Path, tmp_path: Path) -> None:
    """Npm's link leads to a script; what is started is the platform's program, and its package is that one's."""
    located = locate(CLAUDE, str(tmp_path / "prefix" / "bin"))
    assert located.executable.read_bytes().startswith(ELF)
    assert located.executable.parent.name.startswith("claude-code-")
    assert located.package == located.executable.parent
    assert locate(CLAUDE, "", str(tmp_path / "prefix" / "bin" / "claude")) == located
    assert modules in located.executable.parents


def test_platform_packages_beside_the_wrapper_are_found_too(modules: Path, tmp_path: Path) -> None:
    """Npm may hoist the platform's package next to the wrapper's."""
    nested = modules / "@anthropic-ai/claude-code/node_modules/@anthropic-ai"
    for package in list(nested.iterdir()):
        package.rename(modules / "@anthropic-ai" / package.name)
    located = locate(CLAUDE, str(tmp_path / "prefix" / "bin"))
    assert located.executable.parent.parent == modules / "@anthropic-ai"


def test_without_a_platform_package_the_wrapper_itself_is_started(modules: Path, tmp_path: Path) -> None:
    """Where there is no native program, or the program is somebody's own, what was found is what runs."""
    for program in modules.rglob("claude"):
        program.chmod(0o644)
    found = locate(CLAUDE, str(tmp_path / "prefix" / "bin"))
    assert found.executable == tmp_path / "prefix" / "bin" / "claude"
    assert found.package == modules / "@anthropic-ai/claude-code"
    own = put(tmp_path / "own" / "claude", b"#!/bin/sh\n", executable=True)
    assert locate(CLAUDE, str(own.parent)) == Located(own, None)


def test_an_agent_that_is_not_there_is_said(tmp_path: Path) -> None:
    """The name and where it was looked for."""
    with pytest.raises(UsageError) as caught:
        locate(CLAUDE, str(tmp_path))
    assert caught.value.code == "usage.executable-not-found"


@pytest.mark.parametrize(
    ("path", "package"),
    [
        ("/x/node_modules/tool/bin/run.js", "/x/node_modules/tool"),
        ("/x/node_modules/@scope/tool/vendor/a/bin/run", "/x/node_modules/@scope/tool"),
        ("/x/node_modules/a/node_modules/b/run", "/x/node_modules/a/node_modules/b"),
        ("/x/node_modules/run", None),
        ("/x/node_modules/@scope/run", None),
        ("/x/bin/run", None),
        ("/x/node_modules", None),
    ],
)
def test_a_package_is_a_folder_of_node_modules(path: str, package: str | None) -> None:
    """The nearest one, with its scope; a program in none has none."""
    assert package_of(Path(path)) == (None if package is None else Path(package))


def test_a_package_is_locked_with_its_description(modules: Path, tmp_path: Path) -> None:
    """For a native program its description and itself, for a script every file of the package but its dependencies."""
    native = locate(CLAUDE, str(tmp_path / "prefix" / "bin"))
    before = package_digest(native)
    assert before is not None
    assert native.package is not None
    put(native.package / "README.md", b"changed")
    assert package_digest(native) == before
    put(native.package / "package.json", b'{"version": "9"}')
    assert package_digest(native) != before
    script = Located(modules / "@anthropic-ai/claude-code/cli.js", modules / "@anthropic-ai/claude-code")
    first = package_digest(script)
    put(modules / "@anthropic-ai/claude-code/node_modules/dep/index.js", b"x")
    assert package_digest(script) == first
    put(modules / "@anthropic-ai/claude-code/lib/chunk.js", b"x")
    assert package_digest(script) != first
    assert package_digest(Located(Path(sys.executable), None)) is None


def test_what_cannot_be_read_is_a_failed_port(tmp_path: Path) -> None:
    """An executable that is gone."""
    with pytest.raises(PortError) as caught:
        is_native(tmp_path / "absent")
    assert caught.value.code == "port.executable"


@pytest.mark.parametrize(
    ("version", "expected"),
    [("2.1.299", False), ("2.1.300", True), ("2.1.332", True), ("2.2.0", False), ("2.2", False), ("10.0.0", False)],
)
def test_a_version_is_compared_by_its_numbers(version: str, expected: bool) -> None:
    """The first of the range is tested, the one after it is not."""
    ranged = replace(CLAUDE, probe=replace(CLAUDE.probe, tested=("2.1.300", "2.2")))
    assert is_tested(ranged, version) is expected


@given(st.lists(st.integers(0, 400), min_size=2, max_size=3))
def test_the_tested_range_is_an_interval(numbers: list[int]) -> None:
    """A version is tested exactly when it lies between the bounds."""
    first, after = (tuple(map(int, bound.split("."))) for bound in CLAUDE.probe.tested)
    assert is_tested(CLAUDE, ".".join(map(str, numbers))) is (first <= tuple(numbers) < after)


def test_the_version_is_asked_without_credentials(host: ToolHost, tmp_path: Path) -> None:
    """The probe runs the program with its flag, in a home of its own, and sees nothing of the person's environment."""
    program = put(
        tmp_path / "own" / "claude",
        b'#!/bin/sh\n[ "$1" = --version ] && [ -z "$ANTHROPIC_API_KEY" ] && echo "2.1.301 (Claude Code)"\n',
        executable=True,
    )
    assert probe_version(CLAUDE, Located(program, None), host) == "2.1.301"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo claude version two", "'claude version two'"),
        ("echo broken >&2; exit 4", "exit status 4"),
        ("kill -9 $$", "signaled"),
    ],
)
def test_a_program_that_says_no_version_is_not_ready(host: ToolHost, tmp_path: Path, body: str, said: str) -> None:
    """What it said instead, and the command that installs a tested one."""
    program = put(tmp_path / "own" / "claude", f"#!/bin/sh\n{body}\n".encode(), executable=True)
    with pytest.raises(PortError) as caught:
        probe_version(CLAUDE, Located(program, None), host)
    assert caught.value.code == "port.agent-probe"
    assert said in caught.value.message
    assert CLAUDE.install in caught.value.fix


def configured(host: ToolHost, tmp_path: Path, script: dict[str, Any] | None = None, **wish: Any) -> ResolvedAgent:
    program = install(tmp_path / "agent", script or {})
    return agent_config(CLAUDE, Wish(executable=str(program), **wish), host)


def test_everything_about_the_agent_is_in_the_configuration(host: ToolHost, tmp_path: Path) -> None:
    """Executable, version, flags, model, prompts, credential source: all of it is the provider's identity."""
    known = ToolHost(
        processes=host.processes,
        scratch=host.scratch,
        ambient=host.ambient,
        search_path=host.search_path,
        secrets=Secrets(sources=("ANTHROPIC_API_KEY",)),
    )
    made = configured(known, tmp_path, model="m-1", disclosed=("CLAUDE.md",), base_url="http://127.0.0.1:9/s")
    document, agent = made.config.sealed.document, made.agent
    assert (document.provider, document.provider_kind, document.directory) == ("claude", "agent", "workspace")
    assert document.network == "open"
    assert document.executables[0].content_digest == executable_digest(made.located.executable)
    assert (agent.profile, agent.capability, agent.model, agent.version) == ("claude", "workspace", "m-1", "2.1.332")
    assert (agent.tested, agent.package_digest, agent.endpoint) == (True, None, "http://127.0.0.1:9/s")
    assert (agent.interpretation, agent.planning) == ("host", "agent")
    assert (agent.disclosed, agent.credentials) == (("CLAUDE.md",), ("ANTHROPIC_API_KEY",))
    assert agent.prompts_digest == prompts_digest()
    assert {"--output-format", "json", "--model", "m-1"} <= set(agent.answer_flags) & set(agent.edit_flags)
    assert "{schema}" in agent.answer_flags
    text = made.config.sealed.raw.decode()
    assert str(tmp_path) not in text
    assert "sk-secret" not in text


BASIS: dict[str, Any] = {"mode": "answer"}


@pytest.mark.parametrize(
    "wish",
    [
        {"mode": "workspace"},
        {"model": "other"},
        {"base_url": "http://127.0.0.1:9"},
        {"interpretation": "agent"},
        {"planning": "host"},
        {"disclosed": ("AGENTS.md",)},
        {"environment": ("EXTRA",)},
        {"promise": ("src/**",)},
        {"network": "none"},
        {"max_prompt_bytes": 5},
        {"max_stdout_bytes": 5},
    ],
)
def test_every_choice_changes_the_identity(host: ToolHost, tmp_path: Path, wish: dict[str, Any]) -> None:
    """Another choice is another provider; the same ones are the same."""
    plain = configured(host, tmp_path, **BASIS)
    assert configured(host, tmp_path, **BASIS).config.sealed.digest == plain.config.sealed.digest
    other = configured(host, tmp_path, **(BASIS | wish))
    assert other.config.sealed.digest != plain.config.sealed.digest
    assert digest_of(other.config.sealed.document) == other.config.sealed.digest


def test_a_version_outside_the_range_is_marked(host: ToolHost, tmp_path: Path) -> None:
    """It is not refused."""
    agent = configured(host, tmp_path, {"version": "2.9.1"}).agent
    assert (agent.version, agent.tested) == ("2.9.1", False)


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"mode": "acp"}, "usage.agent-capability"),
        ({"model": "--dangerously-skip-permissions"}, "usage.agent-value"),
        ({"base_url": "ftp://example.test"}, "usage.agent-value"),
        ({"base_url": "http://user:pass@example.test"}, "usage.agent-value"),
        ({"base_url": "http://example.test/?key=1"}, "usage.agent-value"),
        ({"executable": "no-such-program"}, "usage.executable-not-found"),
        ({"disclosed": ("a\\b",)}, "refused.bad-pattern"),
    ],
)
def test_a_wish_that_cannot_be_is_refused(host: ToolHost, tmp_path: Path, wish: dict[str, Any], code: str) -> None:
    """Before anything is started."""
    program = install(tmp_path / "agent", {})
    with pytest.raises((UsageError, RefusedInput)) as caught:
        agent_config(CLAUDE, Wish(**{"executable": str(program), **wish}), host)
    assert caught.value.code == code


def test_an_agent_that_cannot_answer_plans_where_it_edits(host: ToolHost, tmp_path: Path) -> None:
    """One that only edits is asked for its plan in the way it edits."""
    mini = PROFILES["mini-swe-agent"]
    assert mini.answer is None
    program = put(
        tmp_path / "own" / "mini", b"#!/bin/sh\necho 'This is mini-swe-agent version 2.4.6.'\n", executable=True
    )
    made = agent_config(mini, Wish(executable=str(program)), host)
    assert made.agent.answer_flags != ()
    assert made.agent.edit_flags != ()
    by_host = agent_config(mini, Wish(executable=str(program), planning="host"), host)
    assert by_host.agent.answer_flags == ()


def test_a_package_that_changed_is_refused(host: ToolHost, tmp_path: Path) -> None:
    """The executable is the same, its package is not; unchanged it passes."""
    folder = tmp_path / "prefix" / "node_modules" / "claude"
    program = install(folder, {})
    put(folder / "package.json", json.dumps({"name": "claude"}).encode())
    made = agent_config(CLAUDE, Wish(executable=str(program)), host)
    assert made.agent.package_digest is not None
    verify_agent(made)
    put(folder / "package.json", b"{}")
    with pytest.raises(PortError) as caught:
        verify_agent(made)
    assert caught.value.code == "port.executable-changed"
