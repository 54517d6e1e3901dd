"""One call of a coding agent: its home filled, the program started, what it wrote read by its profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from commandprovider.agent import ResolvedAgent, verify_agent
from commandprovider.profiles.model import Flag, Invocation, Placeholder
from commandprovider.profiles.render import render
from commandprovider.reading import ANSWER_FILE, Said, read_answer, read_usage
from commandprovider.tool import ToolHost, new_home, run_at_home
from providerport.port import Call, ProviderFailure
from savant.contracts.errors import RefusedInput, SavantError
from savant.files.atomic import read_optional

CALL_FOLDER: Final = ".call"
"""Below the private HOME: what one call is given and what it writes."""

MAX_ARGUMENT_BYTES: Final = 120 * 1024
"""An argument of a command can have 128 KiB, its end included."""


def start_agent(
    agent: ResolvedAgent,
    host: ToolHost,
    call: Call,
    prompt: bytes,
    *,
    cwd: Path,
    invocation: Invocation,
    flags: frozenset[Flag],
    schema: str | None = None,
    reads: bool = False,
) -> Said:
    """Start the agent once, report what it used, and read what it said.

    :param schema: of the answer, for agents that check it themselves; None where no JSON is asked for.
    :param reads: whether it may only read its working directory.
    :raises ProviderFailure: with outcome and kind, for everything that is no answer.
    """
    try:
        verify_agent(agent)
    except SavantError as error:
        raise ProviderFailure("unavailable", "config-error", str(error)) from error
    with new_home(host) as home:
        rendered = render(invocation, {**_per_call(home, prompt, schema), **agent.values}, flags)
        if any(len(word.encode("utf-8", "replace")) > MAX_ARGUMENT_BYTES for word in rendered.argv):
            raise ProviderFailure(
                "unavailable", "context-overflow", "The prompt is longer than an argument of a command can be."
            )
        _write_settings(home, rendered.settings)
        ended = run_at_home(
            host,
            agent.config,
            call,
            (str(agent.located.executable), *rendered.argv),
            cwd=cwd,
            home=home,
            stdin=prompt if invocation.stdin == "prompt" else b"",
            extra=dict(rendered.environment),
            reads=reads,
        )
        written = _written(home, agent.config.sealed.document.max_stdout_bytes)
        files = {name: host.redactor.redact_values(raw) for name, raw in written.items()}
    used = read_usage(agent.profile, ended, files)
    call.observer.usage(replace(used, is_notional=host.secrets.billing == "subscription"))
    return read_answer(agent.profile, agent.capability, ended, files)


def _per_call(home: Path, prompt: bytes, schema: str | None) -> Mapping[Placeholder, str]:
    """The values of one call, with the files they name written."""
    folder = home / CALL_FOLDER
    folder.mkdir(mode=0o700)
    (folder / "prompt").write_bytes(prompt)
    values: dict[Placeholder, str] = {
        "home": str(home),
        "prompt": prompt.decode(),
        "prompt_file": str(folder / "prompt"),
        "answer_file": str(folder / ANSWER_FILE),
    }
    if schema is not None:
        (folder / "schema.json").write_text(schema)
        values["schema"] = schema
        values["schema_file"] = str(folder / "schema.json")
    return values


def _write_settings(home: Path, settings: Sequence[tuple[str, bytes]]) -> None:
    for name, content in settings:
        path = home / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(content)


def _written(home: Path, max_bytes: int) -> Mapping[str, bytes]:
    """What the agent wrote into its answer file; nothing where it is no regular file.

    :raises ProviderFailure: ``invalid-output``/``output-too-long``.
    """
    try:
        answer = read_optional(home / CALL_FOLDER / ANSWER_FILE, max_bytes=max_bytes)
    except RefusedInput as error:
        if error.code == "refused.too-large":
            raise ProviderFailure(
                "invalid-output", "output-too-long", "Its answer is longer than it may be."
            ) from error
        return {}
    return {} if answer is None else {ANSWER_FILE: answer}
