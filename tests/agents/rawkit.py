"""An agent driven without the product around it: its profile's words, a private folder, our process runner."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import msgspec

from commandprovider.profiles import PROFILES, Capability, Profile, invocation_of, render
from commandprovider.profiles.model import Flag, Placeholder
from commandprovider.reading import ANSWER_FILE, Said, read_answer
from savant.contracts.effects import Cancellation
from savant.process.port import Command, Ended, Limits
from savant.process.posix import SupervisedRunner
from tests.agents.installed import Installed
from tests.agents.protocols.adapter import MODEL

WALL_MS: Final = 60_000
OUTPUT_BYTES: Final = 4 * 1024 * 1024
KEY: Final = "not-a-key-0123456789"
OPENAI: Final = ("codex", "codex-acp", "opencode", "aider", "mini-swe-agent", "llm")
"""Agents whose base URL ends with the version."""

LITELLM: Final = ("aider", "mini-swe-agent")
"""Agents whose model is named with its vendor."""

KNOWN_TO_CODEX: Final = "gpt-5.3-codex"
"""Its adapter prefixes what an unknown model says with a warning of its own."""


def base_url(agent: str, url: str) -> str:
    """The base URL that an agent wants for a script."""
    return url + ("/v1" if agent in OPENAI else "")


def model_of(agent: str) -> str:
    """The name that an agent wants for the model."""
    if agent == "codex-acp":
        return KNOWN_TO_CODEX
    return f"openai/{MODEL}" if agent in LITELLM else MODEL


class Run(msgspec.Struct, frozen=True):
    """One finished run: what the runner saw, and the agent's profile to read it by."""

    profile: Profile
    capability: Capability
    ended: Ended
    files: Mapping[str, bytes]

    def said(self) -> Said:
        """The answer, or the failure."""
        return read_answer(self.profile, self.capability, self.ended, self.files)


class Driver:
    """Starts one agent, each time in a new private folder below ``root``."""

    def __init__(self, root: Path, runner: SupervisedRunner, agent: Installed) -> None:
        self.root = root
        self.agent = agent
        self.profile = PROFILES[agent.name]
        self._runner = runner
        self._count = 0

    @property
    def cwd(self) -> Path:
        """Where the agent works."""
        return self.root / "cwd"

    def run(
        self,
        url: str,
        prompt: str,
        *,
        capability: Capability = "answer",
        flags: Collection[Flag] = (),
        schema: str | None = None,
        wall_ms: int = WALL_MS,
        marks: Mapping[str, str] | None = None,
        cancellation: Cancellation | None = None,
    ) -> Run:
        """Run it to its end.

        :param url: the base of a script. :param marks: further variables, inherited by everything it starts.
        """
        self._count += 1
        private = self.root / f"private-{self._count}"
        home, scratch = private / "home", private / "tmp"
        for folder in (home, scratch, self.cwd):
            folder.mkdir(parents=True, exist_ok=True)
        (private / "prompt").write_text(prompt)
        values: dict[Placeholder, str] = {
            "base_url": base_url(self.agent.name, url),
            "model": model_of(self.agent.name),
            "home": str(home),
            "prompt": prompt,
            "prompt_file": str(private / "prompt"),
            "answer_file": str(private / "answer"),
        }
        if schema is not None:
            (private / "schema.json").write_text(schema)
            values |= {"schema": schema, "schema_file": str(private / "schema.json")}
        invocation = invocation_of(self.profile, capability)
        rendered = render(invocation, values, flags)
        for name, content in rendered.settings:
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_bytes(content)
        command = Command(
            argv=(str(self.agent.native), *rendered.argv),
            cwd=self.cwd,
            env=(
                ("PATH", f"{Path(shutil.which('node') or '/usr/bin/node').parent}:/usr/bin:/bin"),
                ("HOME", str(home)),
                ("TMPDIR", str(scratch)),
                ("LANG", "C.UTF-8"),
                (self.profile.sources[0].target, KEY),
                *(marks or {}).items(),
                *rendered.environment,
            ),
            limits=Limits(wall_ms=wall_ms, stdout_bytes=OUTPUT_BYTES, stderr_bytes=OUTPUT_BYTES, grace_ms=1000),
            stdin=prompt.encode() if invocation.stdin == "prompt" else b"",
        )
        ended = self._runner.run(command, cancellation)
        answer = private / "answer"
        files = {ANSWER_FILE: answer.read_bytes()} if answer.exists() else {}
        return Run(self.profile, capability, ended, files)
