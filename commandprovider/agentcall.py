"""One call of a coding agent: its home filled, the program started, what it wrote or told read by its profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from commandprovider.agent import ResolvedAgent, verify_agent
from commandprovider.profiles.model import Flag, Invocation, Opening, Placeholder
from commandprovider.profiles.render import render
from commandprovider.reading import ANSWER_FILE, Said, read_answer, read_usage
from commandprovider.served import ServedFiles
from commandprovider.told import read_told
from commandprovider.tool import ToolHost, by_short_names, new_home, run_at_home
from providerport.port import Call, ProviderFailure, Usage
from savant.contracts.errors import RefusedInput, SavantError
from savant.files.atomic import read_optional

if TYPE_CHECKING:
    from commandprovider.acp import Conversation

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
    files: ServedFiles,
    schema: str | None = None,
    reads: bool = False,
) -> Said:
    """Start the agent once, report what it used, and read what it said.

    :param files: what it reads and writes where it does so over a protocol.
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
        talk = None
        if invocation.stdin == "protocol":
            talk = _conversation(host, call, prompt, cwd, files, rendered.opening)
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
            talk=talk,
        )
        written = _written(home, agent.config.sealed.document.max_stdout_bytes)
        answers = {name: host.redactor.redact_values(by_short_names(raw, cwd, home)) for name, raw in written.items()}
    if talk is not None:
        _report(host, call, talk.told.usage())
        said = read_told(agent.profile, talk.told, ended)
        return replace(said, text=by_short_names(said.text.encode("utf-8", "replace"), cwd, home).decode())
    _report(host, call, read_usage(agent.profile, ended, answers))
    return read_answer(agent.profile, agent.capability, ended, answers)


def _conversation(
    host: ToolHost, call: Call, prompt: bytes, cwd: Path, files: ServedFiles, opening: Opening
) -> Conversation:
    """What is said to an agent that speaks a protocol. Only here is the protocol loaded."""
    from commandprovider.acp import Conversation, Session

    return Conversation(
        Session(
            directory=str(cwd),
            prompt=prompt.decode(),
            mode=opening.mode,
            meta=opening.meta,
            serves_reads=opening.serves_reads,
        ),
        files,
        call.cancellation,
        note=call.observer.note,
        redact=host.redactor.redact_values,
    )


def _report(host: ToolHost, call: Call, used: Usage) -> None:
    call.observer.usage(replace(used, is_notional=host.secrets.billing == "subscription"))


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
