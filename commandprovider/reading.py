"""Reading what an agent left behind: pure, in a fixed order, and never trusting an exit status alone.

The order: the supervisor's verdict, the terminal event, the exit status, standard error. A failure that no rule of the
profile explains is a ``crash``; an exit with status 0 and no well-formed terminal event is ``malformed-output``.
Failure rules see what the agent wrote about its failure, never the answer or anything that could repeat the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn, assert_never

import msgspec

from commandprovider.envelopes import (
    Event,
    count_of,
    json_object,
    json_text,
    json_value,
    last_object,
    microunits_of,
    scalar_text,
    values_at,
)
from commandprovider.profiles.model import OUTCOMES, Capability, Failure, Is, Pick, Profile, Reader, Where
from providerport.port import ProviderFailure, Usage
from savant.process.port import Ended
from synthesis.documents import FailureKind

LAST_STDERR_BYTES: Final = 2048
MAX_DETAIL: Final = 2_000
ANSWER_FILE: Final = "answer"
MAX_EVENTS: Final = 20_000
"""Far more than a long run writes; output with more lines than that is no sequence of events."""

PROTOCOL_PREFIX: Final = "Internal error: "
"""What JSON-RPC puts before the text of an error that has no code of its own."""

_FENCE: Final = re.compile(r"\A(`{3,8})[ \t]*(?:json|JSON)?[ \t]*\r?\n(?P<body>.*?)\r?\n\1[ \t]*\Z", re.DOTALL)


class Said(msgspec.Struct, frozen=True):
    """What an agent said: its answer, and what it reports about itself; None where it does not.

    :param text: the answer as it was written; may be fenced, may be prose.
    :param structured: the answer as JSON text, where the agent itself checked it against a schema.
    :param cost_microunits: millionths of a US dollar, by the agent's own price table.
    """

    text: str
    structured: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cached: int | None = None
    cost_microunits: int | None = None
    session: str | None = None


class Read(msgspec.Struct, frozen=True):
    """The events of a run, and which of them ends it; ``failed`` when that one reports a failure."""

    events: tuple[Event, ...]
    terminal: Event | None
    failed: bool


def read_answer(profile: Profile, capability: Capability, ended: Ended, files: Mapping[str, bytes]) -> Said:
    """The answer of one finished call.

    :param files: what the agent wrote beside its streams; ``answer`` is the file it was told to write.
    :raises ProviderFailure: with outcome and failure kind, for everything that is no answer.
    """
    refuse_verdict(profile, ended)
    reader = _reader_of(profile, capability)
    read = _read(reader, ended, files)
    if read.terminal is None and ended.exit_status == 0:
        kind = _explained(profile, reader, read, ended, (("stdout",),))
        _refuse(kind or "malformed-output", profile, "exit status 0, and no well-formed end of its turn.", ended)
    if read.terminal is None or read.failed or ended.exit_status != 0:
        steps: tuple[tuple[Where, ...], ...] = (("event", "error", "stdout"), ("exit-status",), ("stderr",))
        kind = _explained(profile, reader, read, ended, steps)
        said = _errors(reader, read)
        _refuse(kind or "crash", profile, said or f"it failed with exit status {ended.exit_status}.", ended)
    answer = _said(reader, read)
    if not answer.text.strip() and answer.structured is None:
        _refuse("malformed-output", profile, "exit status 0, and an empty answer.", ended)
    return answer


def read_usage(profile: Profile, ended: Ended, files: Mapping[str, bytes]) -> Usage:
    """What a call consumed as the agent reports it, also where it failed; None where nothing is reported."""
    if profile.reader is None:
        return Usage()
    said = _said(profile.reader, _read(profile.reader, ended, files))
    return Usage(
        tokens_in=said.tokens_in,
        tokens_out=said.tokens_out,
        cost_microunits=said.cost_microunits,
        tokens_cached=said.cached,
    )


def refuse_verdict(profile: Profile, ended: Ended) -> None:
    """Refuse a command that did not end by itself with an exit status, or of which something is still alive.

    :raises ProviderFailure: the supervisor's verdict stands before everything that the agent wrote.
    """
    if not ended.is_quiescent:
        _refuse(
            "crash", profile, f"{ended.remaining} processes of it could not be ended; nothing can be sealed.", ended
        )
    match ended.verdict:
        case "exited":
            return
        case "timed-out":
            _refuse("timeout", profile, "it did not end before its deadline.", ended)
        case "cancelled":
            _refuse("cancelled", profile, "it was cancelled.", ended)
        case "output-limit":
            _refuse("output-too-long", profile, "it wrote more than it may.", ended)
        case "signaled":
            _refuse("crash", profile, f"signal {ended.signal} ended it.", ended)
        case "spawn-error":
            _refuse("config-error", profile, f"it could not be started: {ended.detail}", ended)
        case _:
            assert_never(ended.verdict)


def classify(profile: Profile, text: str, members: Mapping[str, str] | None = None) -> FailureKind:
    """The kind of a failure that an agent reported by a message of a protocol: its text and its named members.

    :param members: what rules for ``event`` look at, by path, as text. Unexplained is ``crash``.
    """
    known = members or {}
    said = text.removeprefix(PROTOCOL_PREFIX)
    for rule in profile.failures:
        if rule.where == "event" and re.fullmatch(rule.match, known.get(rule.path, "")):
            return rule.kind
        if rule.where == "error" and _is_found(rule, said):
            return rule.kind
    return "crash"


def one_json(text: str) -> bytes:
    """The one JSON value in an answer; one fence around it may be stripped.

    :raises ProviderFailure: ``invalid-output``/``malformed-output`` for prose around it, or for no JSON.
    """
    stripped = text.strip()
    fenced = _FENCE.fullmatch(stripped)
    body = stripped if fenced is None else fenced["body"].strip()
    try:
        json_value(body)
        return body.encode()
    except (ValueError, RecursionError) as error:
        raise ProviderFailure(
            OUTCOMES["malformed-output"], "malformed-output", f"The answer is not one JSON value: {error}"[:MAX_DETAIL]
        ) from error


def document_in(said: Said) -> bytes:
    """The JSON value that an agent answered with: the one it checked itself, else the one in its text.

    :raises ProviderFailure: as :func:`one_json`.
    """
    return one_json(said.text) if said.structured is None else said.structured.encode()


def _reader_of(profile: Profile, capability: Capability) -> Reader:
    if profile.reader is None or capability == "acp":
        raise ProviderFailure(
            "unsupported-capability", "bad-request", f"{profile.title} writes no answer that can be read so."
        )
    return profile.reader


def _read(reader: Reader, ended: Ended, files: Mapping[str, bytes]) -> Read:
    match reader.form:
        case "text":
            return _read_text(reader, ended)
        case "json-object":
            parts = [ended.stdout]
        case "json-lines":
            lines = [line for line in ended.stdout.split(b"\n") if line.strip()]
            parts = lines if len(lines) <= MAX_EVENTS else []
        case "json-file":
            parts = [files.get(ANSWER_FILE, b"")]
        case _:
            assert_never(reader.form)
    return _read_events(reader, [json_object(part) for part in parts]) or _read_stderr(reader, ended)


def _read_text(reader: Reader, ended: Ended) -> Read:
    stdout = ended.stdout.decode("utf-8", "replace")
    told = stdout if reader.terminal_stream == "stdout" else ended.stderr.decode("utf-8", "replace")
    found = re.search(reader.terminal_pattern, told, re.MULTILINE | re.DOTALL)
    if found is None:
        return Read((), None, failed=False)
    event = {"answer": stdout} | {name: value for name, value in found.groupdict().items() if value is not None}
    return Read((event,), event, failed=False)


def _read_events(reader: Reader, events: Sequence[Event | None]) -> Read | None:
    """The events up to the last that ends the turn. A line that is broken spoils a success, not a failure."""
    ends = [number for number, event in enumerate(events) if event is not None and _is_end(reader, event)]
    if not ends:
        return None
    before = events[: ends[-1] + 1]
    known = tuple(event for event in before if event is not None)
    failed = any(_holds(test, known[-1]) for test in reader.failed)
    return Read(known, known[-1], failed) if failed or len(known) == len(before) else None


def _read_stderr(reader: Reader, ended: Ended) -> Read:
    found = None
    if reader.error_object == "stderr":
        found = last_object(ended.stderr.decode("utf-8", "replace"), reader.errors)
    return Read((), None, failed=False) if found is None else Read((found,), found, failed=True)


def _is_end(reader: Reader, event: Event) -> bool:
    ends = not reader.terminal or any(_holds(test, event) for test in reader.terminal)
    return ends and all(any(True for _ in values_at(event, path)) for path in reader.required)


def _holds(test: Is, event: Event) -> bool:
    return any((scalar_text(value) == test.value) is not test.negated for value in values_at(event, test.path))


def _values(pick: Pick, events: Sequence[Event]) -> list[object]:
    chosen = [event for event in events if all(_holds(test, event) for test in pick.of)]
    return [value for event in chosen for value in values_at(event, pick.path)]


def _text(pick: Pick | None, events: Sequence[Event]) -> str | None:
    texts = [] if pick is None else [value for value in _values(pick, events) if isinstance(value, str)]
    if pick is None or not texts:
        return None
    return "".join(texts) if pick.take == "joined" else texts[-1]


def _number(picks: Sequence[Pick], events: Sequence[Event], read: Callable[[object], int | None]) -> int | None:
    """The picks added up; None where none of them has a number."""
    found = []
    for pick in picks:
        numbers = [number for value in _values(pick, events) if (number := read(value)) is not None]
        found += numbers if pick.take == "sum" else numbers[-1:]
    return sum(found) if found else None


def _said(reader: Reader, read: Read) -> Said:
    structured = [] if reader.structured is None else _values(reader.structured, read.events)
    return Said(
        text=_text(reader.answer, read.events) or "",
        structured=json_text(structured[-1]) if structured and structured[-1] is not None else None,
        tokens_in=_number(reader.tokens_in, read.events, count_of),
        tokens_out=_number(reader.tokens_out, read.events, count_of),
        cached=_number(reader.cached, read.events, count_of),
        cost_microunits=_number(reader.cost, read.events, microunits_of),
        session=_text(reader.session, read.events),
    )


def _errors(reader: Reader, read: Read) -> str:
    """What the terminal event says about its failure."""
    if read.terminal is None or not read.failed:
        return ""
    texts = (scalar_text(value) for path in reader.errors for value in values_at(read.terminal, path))
    return "\n".join(text for text in texts if text is not None)


def _explained(
    profile: Profile, reader: Reader, read: Read, ended: Ended, steps: Sequence[Sequence[Where]]
) -> FailureKind | None:
    """The first rule that matches, of the first step in which one does."""
    for step in steps:
        for rule in profile.failures:
            if rule.where in step and _matches(rule, reader, read, ended):
                return rule.kind
    return None


def _matches(rule: Failure, reader: Reader, read: Read, ended: Ended) -> bool:
    match rule.where:
        case "event":
            values = values_at(read.terminal, rule.path) if read.failed else ()
            return any(re.fullmatch(rule.match, scalar_text(value) or "") is not None for value in values)
        case "error":
            return _is_found(rule, _errors(reader, read))
        case "exit-status":
            return re.fullmatch(rule.match, str(ended.exit_status)) is not None
        case "stderr":
            return _is_found(rule, ended.stderr.decode("utf-8", "replace"))
        case "stdout":
            return read.terminal is None and _is_found(rule, ended.stdout.decode("utf-8", "replace"))
        case _:
            assert_never(rule.where)


def _is_found(rule: Failure, text: str) -> bool:
    return re.search(rule.match, text, re.MULTILINE) is not None


def _refuse(kind: FailureKind, profile: Profile, what: str, ended: Ended) -> NoReturn:
    detail = f"{profile.title}: {what}"[:MAX_DETAIL]
    if kind == "crash":
        last = ended.stderr[-LAST_STDERR_BYTES:].decode("utf-8", "replace").strip()
        detail = f"{detail}\n{last}" if last else detail
    raise ProviderFailure(OUTCOMES[kind], kind, detail)
