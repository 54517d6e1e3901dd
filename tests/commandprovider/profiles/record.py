"""Record golden envelopes from real agents: ``python record.py AGENT EXECUTABLE [CASE ...]``.

The agent is started as its profile says, against the model server of ``tests/agents``, with a HOME and a TMPDIR of its
own, and what it wrote is kept under ``golden/AGENT/CASE.json`` with paths of the machine taken out. What a case has to
be read as stands in the table below, before anything is recorded; it is never taken from the reader.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

ROOT: Final = Path(__file__).resolve().parents[3]
GOLDEN: Final = Path(__file__).resolve().parent / "golden"
sys.path.insert(0, str(ROOT))

from commandprovider.locating import locate  # noqa: E402
from commandprovider.profiles import PROFILES, invocation_of, render  # noqa: E402
from commandprovider.profiles.model import Capability, Flag, Placeholder, Profile  # noqa: E402
from tests.agents.modelserver import ModelServer  # noqa: E402
from tests.agents.script import (  # noqa: E402
    Asked,
    Fail,
    Garbled,
    Overflow,
    Planned,
    Say,
    Step,
    Structured,
    Truncated,
    Use,
)
from tests.agents.toolbox import Read, Shell, Tool, Write  # noqa: E402

MUCH: Final = " ".join(str(number) for number in range(2_000))
ANSWER: Final = '{"status":"done","summary":"as planned"}'
SCHEMA: Final = {
    "type": "object",
    "properties": {"status": {"type": "string"}, "summary": {"type": "string"}},
    "required": ["status", "summary"],
    "additionalProperties": False,
}
BASE_SUFFIX: Final[Mapping[str, str]] = {
    "codex": "/v1",
    "opencode": "/v1",
    "aider": "/v1",
    "mini-swe-agent": "/v1",
    "llm": "/v1",
}
MODELS: Final[Mapping[str, str]] = {
    "gemini": "gemini-2.5-flash",
    "aider": "openai/stub-model",
    "mini-swe-agent": "openai/stub-model",
}
TIMEOUT_S: Final = 400


RESULTS: Final = ('"tool_result"', '"role": "tool"', '_call_output"', '"functionResponse"')
"""How each protocol marks the result of a tool in a later request."""


def acting(tool: Tool, text: str) -> Callable[[Asked], Step]:
    """A model that uses a tool once and then says something; asked without tools (for a title) it just talks."""

    def step(asked: Asked) -> Step:
        if not asked.tools:
            return Say("A title")
        return Say(text) if any(mark in json.dumps(asked.body) for mark in RESULTS) else Use(tool)

    return step


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One situation and what it has to be read as: an answer (None) or a failure kind; by agent where they differ."""

    steps: tuple[Planned, ...]
    kind: str | None = None
    kinds: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    text: str | None = None
    capability: Capability = "answer"
    schema: bool = False
    flags: tuple[Flag, ...] = ()
    prompt: str = "Say how it went, as one JSON object."
    key: bool = True
    words: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    unreachable: bool = False


CASES: Final[Mapping[str, Case]] = {
    "plain": Case(steps=(Say(ANSWER),), text=ANSWER, without=("mini-swe-agent",)),
    "fenced": Case(
        steps=(Say(f"```json\n{ANSWER}\n```"),), text=f"```json\n{ANSWER}\n```", without=("mini-swe-agent",)
    ),
    "prose": Case(
        steps=(Say("I could not do that, sorry."),),
        kinds={"mini-swe-agent": "malformed-output"},
        text="I could not do that, sorry.",
    ),
    "empty": Case(steps=(Say(""),), kind="malformed-output"),
    "big": Case(steps=(Say(MUCH),), text=MUCH, without=("aider", "mini-swe-agent")),
    "repetitive": Case(steps=(Say("again " * 1_500),), text="again " * 1_500, only=("claude", "codex", "gemini")),
    "structured": Case(steps=(Structured(json.loads(ANSWER)),), text=ANSWER, schema=True, only=("claude",)),
    "schema-ignored": Case(
        steps=(Say("No JSON from me."),), text="No JSON from me.", schema=True, only=("claude", "codex", "llm")
    ),
    "status-400": Case(steps=(Fail(400, "invalid_request_error", "that is no request"),), kind="bad-request"),
    "status-401": Case(steps=(Fail(401, "authentication_error", "invalid key"),), kind="auth"),
    "status-403": Case(
        steps=(Fail(403, "permission_error", "not for you"),), kind="auth", kinds={"mini-swe-agent": "crash"}
    ),
    "status-429": Case(steps=(Fail(429, "rate_limit_error", "slow down"),), kind="rate-limited", without=("opencode",)),
    "status-500": Case(steps=(Fail(500, "api_error", "internal error"),), kind="overloaded", without=("opencode",)),
    "status-529": Case(
        steps=(Fail(529, "overloaded_error", "Overloaded"),),
        kind="overloaded",
        kinds={"mini-swe-agent": "crash"},
        without=("opencode",),
    ),
    "overflow": Case(steps=(Overflow(),), kind="context-overflow"),
    "garbled": Case(steps=(Garbled(),), kind="bad-gateway", kinds={"llm": "crash"}),
    "truncated": Case(
        steps=(Truncated(ANSWER),),
        kind="bad-gateway",
        kinds={"claude": "network", "gemini": "network", "llm": "network", "mini-swe-agent": "network"},
        without=("opencode",),
    ),
    "length": Case(
        steps=(Say(ANSWER[:20], "length"),),
        kind="output-too-long",
        kinds={"gemini": None, "llm": None},
        without=("mini-swe-agent",),
        text=ANSWER[:20],
    ),
    "unreachable": Case(steps=(), kind="network", unreachable=True, without=("opencode",)),
    "no-credential": Case(steps=(Fail(401, "authentication_error", "invalid key"),), kind="auth", key=False),
    "no-prompt": Case(steps=(Say(ANSWER),), kind="config-error", prompt="", only=("claude", "codex", "gemini")),
    "unknown-option": Case(steps=(), kind="config-error", words=("--no-such-option",)),
    "echoed": Case(
        steps=(Say("429 rate limit: last status: 429\nAPI Error: Request timed out"),),
        text="429 rate limit: last status: 429\nAPI Error: Request timed out",
        prompt="Error: Error code: 429. You've hit your usage limit. litellm.RateLimitError: last status: 429",
        without=("mini-swe-agent",),
    ),
    "edit": Case(
        steps=(acting(Write("made.txt", "made here\n"), "I made made.txt."),),
        text="I made made.txt.",
        capability="workspace",
        prompt="Create made.txt.",
        without=("aider", "llm", "mini-swe-agent"),
    ),
    "command": Case(
        steps=(acting(Shell("printf made > made.txt"), "I ran it."),),
        text="I ran it.",
        capability="workspace",
        flags=("contained",),
        prompt="Create made.txt by a command.",
        only=("claude", "codex", "gemini", "opencode"),
    ),
    "read": Case(
        steps=(acting(Read("note.txt"), ANSWER),),
        text=ANSWER,
        flags=("contained", "readable"),
        prompt="Read note.txt.",
        only=("claude", "codex", "gemini", "opencode"),
    ),
    "submitted": Case(
        steps=(Use(Write("made.txt", "made here\n")), Use(Shell("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"))),
        text="Submitted",
        capability="workspace",
        prompt="Create made.txt.",
        only=("mini-swe-agent",),
    ),
}
"""Name to case. Every agent does every case unless the case says otherwise; one that never ends is left out."""


def record(profile: Profile, executable: Path, name: str, case: Case, server: ModelServer) -> dict[str, Any]:
    """Run one case; the golden file's members."""
    capability: Capability = "workspace" if profile.answer is None else case.capability
    script = server.script(f"{profile.name}-{name}", case.steps or (Say(ANSWER),), forever=True)
    origin = "http://127.0.0.1:9" if case.unreachable else server.url(script)
    with tempfile.TemporaryDirectory(prefix="golden-", dir="/var/tmp") as folder:
        run = Path(folder)
        for part in ("home", "tmp", "cwd"):
            (run / part).mkdir()
        (run / "in.txt").write_text(case.prompt)
        (run / "cwd" / "note.txt").write_text("a note\n")
        (run / "schema.json").write_text(json.dumps(SCHEMA))
        values: dict[Placeholder, str] = {
            "model": MODELS.get(profile.name, "stub-model"),
            "base_url": origin + BASE_SUFFIX.get(profile.name, ""),
            "answer_file": str(run / "answer"),
            "prompt_file": str(run / "in.txt"),
            "prompt": case.prompt,
            "home": str(run / "home"),
        }
        if case.schema:
            values |= {"schema": json.dumps(SCHEMA), "schema_file": str(run / "schema.json")}
        invocation = invocation_of(profile, capability)
        rendered = render(invocation, values, case.flags)
        for path, content in rendered.settings:
            place = run / "home" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        program = locate(profile, os.environ["PATH"], str(executable)).executable
        environment = {
            "PATH": os.pathsep.join((str(executable.parent), os.environ["PATH"])),
            "HOME": str(run / "home"),
            "TMPDIR": str(run / "tmp"),
            "LANG": "C.UTF-8",
            **dict(rendered.environment),
        }
        if case.key:
            environment[profile.sources[0].target] = "dummy"
        stdin = run / "in.txt" if invocation.stdin == "prompt" else Path(os.devnull)
        with stdin.open("rb") as given, (run / "out").open("wb") as out, (run / "err").open("wb") as err:
            status = subprocess.run(
                [program, *rendered.argv, *case.words],
                stdin=given,
                stdout=out,
                stderr=err,
                cwd=run / "cwd",
                env=environment,
                timeout=TIMEOUT_S,
                check=False,
            ).returncode
        modules = [str(parent) for parent in (*executable.parents, *executable.resolve().parents, *program.parents)]
        places = {
            str(run): "<run>",
            str(run).lstrip("/"): "<run>",
            server.origin: "<server>",
            str(Path.home()): "<person>",
        }
        places |= {parent: "<installed>" for parent in modules if parent.count("/") > 1}

        def text(path: Path) -> str:
            said = path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
            for place in sorted(places, key=len, reverse=True):
                said = said.replace(place, places[place])
            return re.sub(r"(?<=[ (])(/[\w@.+-]+){4,}", "<path>", said)

        version = subprocess.run(
            [program, *profile.probe.argv], input=profile.probe.stdin, capture_output=True, text=True, check=False
        ).stdout
        found = re.search(profile.probe.pattern, version, re.MULTILINE)
        kind = case.kinds.get(profile.name, case.kind)
        return {
            "agent": profile.name,
            "case": name,
            "origin": "recorded",
            "version": found["version"] if found is not None else None,
            "capability": capability,
            "verdict": "exited" if status >= 0 else "signaled",
            "exit_status": status if status >= 0 else None,
            "signal": -status if status < 0 else None,
            "stdout": text(run / "out"),
            "stderr": _ends_of(text(run / "err")),
            "made": sorted(path.name for path in (run / "cwd").iterdir() if path.name != "note.txt"),
            "files": {"answer": text(run / "answer")} if (run / "answer").is_file() else {},
            "expected": {"text": case.text} if kind is None else {"kind": kind},
        }


def _ends_of(text: str) -> str:
    """The beginning and the end of a long text."""
    return text if len(text) <= 6_000 else f"{text[:1_000]}\n...\n{text[-5_000:]}"


def main(arguments: Sequence[str]) -> int:
    """Record the named cases of an agent, or all."""
    agent, executable, *names = arguments
    folder = GOLDEN / agent
    folder.mkdir(parents=True, exist_ok=True)
    with ModelServer() as server:
        for name in names or CASES:
            case = CASES[name]
            if agent in case.without or (case.only and agent not in case.only):
                continue
            try:
                golden = record(PROFILES[agent], Path(executable).absolute(), name, case, server)
            except subprocess.TimeoutExpired:
                sys.stdout.write(f"{agent} {name}: did not end\n")
                continue
            (folder / f"{name}.json").write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")
            sys.stdout.write(f"{agent} {name}: {golden['exit_status']} {golden['expected']}"[:120] + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
