"""The Agent Client Protocol, the client's side: one session with one prompt, over a channel of lines.

JSON-RPC 2.0, one object a line, protocol version 1 (https://agentclientprotocol.com). Method names, message types and
their validation are the package ``agent-client-protocol``'s, which is known to this module only; the loop is ours: one
thread, one message at a time, in the order in which they come. What is read and written over the protocol is served by
:class:`~commandprovider.served.ServedFiles`; of what else an agent may ask of a client, nothing is offered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from acp.exceptions import RequestError
from acp.meta import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_VERSION
from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    CancelNotification,
    ClientCapabilities,
    DeniedOutcome,
    FileEditToolCallContent,
    FileSystemCapabilities,
    InitializeRequest,
    InitializeResponse,
    NewSessionRequest,
    NewSessionResponse,
    PermissionOption,
    PromptRequest,
    PromptResponse,
    ReadTextFileRequest,
    ReadTextFileResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SessionNotification,
    SetSessionModeRequest,
    SetSessionModeResponse,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    ToolKind,
    UsageUpdate,
    WriteTextFileRequest,
    WriteTextFileResponse,
)
from pydantic import BaseModel, ValidationError

from commandprovider.envelopes import json_object
from commandprovider.served import ServedFiles
from commandprovider.told import Problem, Told
from savant.contracts.effects import Cancellation
from savant.contracts.errors import RefusedInput, SavantError
from savant.process.port import Channel

Verdict: TypeAlias = Literal["allow", "reject"]

PERMISSIONS: Final[Mapping[ToolKind, Verdict]] = MappingProxyType(
    {
        "edit": "allow",
        "delete": "allow",
        "move": "allow",
        "read": "allow",
        "search": "allow",
        "execute": "reject",
        "fetch": "reject",
        "think": "reject",
        "switch_mode": "reject",
        "other": "reject",
    }
)
"""What an agent may do when it asks, if every path that it names lies below its working directory."""

READING: Final[frozenset[ToolKind]] = frozenset({"read", "search"})
"""What it may do where nothing may be written."""

_CHOICES: Final[Mapping[Verdict, tuple[str, str]]] = MappingProxyType(
    {"allow": ("allow_once", "allow_always"), "reject": ("reject_once", "reject_always")}
)

POLL_MS: Final = 50
LAST_WORDS: Final = 8
"""How many polls an agent has after ``session/cancel`` to say that its turn has ended."""

MAX_NOTE: Final = 500
_NO_SUCH_FILE: Final = "refused.no-such-path"

M = TypeVar("M", bound=BaseModel)


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """How a session begins.

    :param directory: the working directory, as the agent sees it.
    :param mode: the session mode to set; empty for the agent's own.
    :param meta: the member ``_meta`` of the session's request, as JSON; empty for none.
    :param serves_reads: whether reads are offered.
    """

    directory: str
    prompt: str
    mode: str = ""
    meta: str = ""
    serves_reads: bool = True


class _Over(Exception):
    """There is nobody to talk to any more, or nothing more to say."""


class Conversation:
    """One session; call it with a channel, once. What came of it is :attr:`told`.

    :param note: takes lines about what the agent does.
    :param redact: takes credentials out of every message before it is looked at.
    """

    def __init__(
        self,
        session: Session,
        files: ServedFiles,
        cancellation: Cancellation,
        *,
        note: Callable[[str], None],
        redact: Callable[[bytes], bytes],
    ) -> None:
        self.told = Told()
        self._wanted, self._files, self._cancellation = session, files, cancellation
        self._note, self._redact = note, redact
        self._channel: Channel
        self._numbers = 0
        self._id = ""
        self._is_prompting = False
        self._last_words: int | None = None
        self._message: str | None = None
        self._calls: dict[str, ToolCallStart] = {}
        self._answers: Mapping[str, Callable[[Any], BaseModel]] = {
            CLIENT_METHODS["fs_read_text_file"]: self._read,
            CLIENT_METHODS["fs_write_text_file"]: self._write,
            CLIENT_METHODS["session_request_permission"]: self._permit,
        }

    def __call__(self, channel: Channel) -> None:
        """Hold the conversation."""
        self._channel = channel
        try:
            self._hold()
        except _Over:
            return
        except ValidationError as error:
            self.told.fault = ("malformed-output", f"an answer that the protocol does not know: {_first(error)}")

    def _hold(self) -> None:
        wanted = self._wanted
        offered = FileSystemCapabilities(read_text_file=wanted.serves_reads, write_text_file=self._files.is_writable)
        capabilities = ClientCapabilities(fs=offered, terminal=False)
        begin = InitializeRequest(protocol_version=PROTOCOL_VERSION, client_capabilities=capabilities)
        agent = InitializeResponse.model_validate(self._ask("initialize", begin))
        if agent.protocol_version != PROTOCOL_VERSION:
            self._fail(f"it speaks version {agent.protocol_version} of the protocol, and not {PROTOCOL_VERSION}.")
        meta = json.loads(wanted.meta) if wanted.meta else None
        made = NewSessionResponse.model_validate(
            self._ask("session_new", NewSessionRequest(cwd=wanted.directory, mcp_servers=[], field_meta=meta))
        )
        self._id = self.told.session = made.session_id
        self._set_mode(made)
        self._is_prompting = True
        block = TextContentBlock(type="text", text=wanted.prompt)
        result = self._ask("session_prompt", PromptRequest(session_id=self._id, prompt=[block]))
        self.told.result = result
        self.told.stop = PromptResponse.model_validate(result).stop_reason

    def _set_mode(self, made: NewSessionResponse) -> None:
        mode = self._wanted.mode
        if not mode or (made.modes is not None and made.modes.current_mode_id == mode):
            return
        offered = [] if made.modes is None else [one.id for one in made.modes.available_modes]
        if mode not in offered:
            self._fail(f"it has no session mode {mode!r}.")
        asked = SetSessionModeRequest(session_id=self._id, mode_id=mode)
        SetSessionModeResponse.model_validate(self._ask("session_set_mode", asked))

    def _fail(self, what: str) -> None:
        self.told.fault = ("config-error", what)
        raise _Over

    # --- messages

    def _ask(self, method: str, params: BaseModel) -> dict[str, Any]:
        """The answer to a request; what comes meanwhile is dealt with."""
        self._numbers += 1
        number = self._numbers
        self._send({"id": number, "method": AGENT_METHODS[method], "params": _plain(params)})
        while True:
            message = self._next()
            if "method" in message:
                self._hear(message)
            elif message.get("id") == number:
                return self._result(message)

    def _result(self, message: Mapping[str, Any]) -> dict[str, Any]:
        error = message.get("error")
        if error is not None:
            told = error if isinstance(error, dict) else {}
            code = told.get("code")
            text = told.get("message")
            self.told.problem = Problem(
                code if isinstance(code, int) else 0, text if isinstance(text, str) else "", told.get("data")
            )
            raise _Over
        result = message.get("result")
        return result if isinstance(result, dict) else {}

    def _send(self, message: Mapping[str, Any]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False, separators=(",", ":"))
        if not self._channel.send(line.encode("utf-8", "replace")):
            raise _Over

    def _next(self) -> dict[str, Any]:
        """The next message."""
        while True:
            self._attend()
            line = self._channel.receive(POLL_MS)
            if line is None:
                if not self._channel.is_open or self._last_words == 0:
                    raise _Over
                if self._last_words is not None:
                    self._last_words -= 1
                continue
            message = json_object(self._redact(line))
            if message is not None:
                return dict(message)
            if line.strip():
                self._say(f"no message of the protocol: {line[:MAX_NOTE].decode('utf-8', 'replace')}")

    def _attend(self) -> None:
        """Cancel the turn when the call is cancelled, and leave the agent a moment to say so."""
        if self._last_words is None and self._cancellation.is_set():
            if not self._is_prompting:
                raise _Over
            self._last_words = LAST_WORDS
            cancel = CancelNotification(session_id=self._id)
            self._send({"method": AGENT_METHODS["session_cancel"], "params": _plain(cancel)})

    def _hear(self, message: Mapping[str, Any]) -> None:
        """A request or a notification of the agent."""
        method, params = message["method"], message.get("params")
        if "id" not in message:
            if method == CLIENT_METHODS["session_update"]:
                self._update(params)
            return
        answer: dict[str, Any] = {"id": message["id"]}
        try:
            handler = self._answers.get(method) if isinstance(method, str) else None
            if handler is None:
                raise RequestError.method_not_found(str(method)[:MAX_NOTE])
            answer["result"] = _plain(handler(params))
        except ValidationError as error:
            answer["error"] = RequestError.invalid_params({"reason": _first(error)}).to_error_obj()
        except RequestError as error:
            answer["error"] = error.to_error_obj()
        self._send(answer)

    # --- what an agent may ask

    def _read(self, params: Any) -> ReadTextFileResponse:
        asked = ReadTextFileRequest.model_validate(params)
        self._verify_session(asked.session_id)
        try:
            return ReadTextFileResponse(content=self._files.read(asked.path, asked.line, asked.limit))
        except SavantError as error:
            raise self._refusal(f"read {asked.path}", asked.path, error) from error

    def _write(self, params: Any) -> WriteTextFileResponse:
        asked = WriteTextFileRequest.model_validate(params)
        self._verify_session(asked.session_id)
        if self._last_words is not None:
            raise RequestError.invalid_request({"reason": "the turn was cancelled"})
        try:
            self._files.write(asked.path, asked.content)
        except SavantError as error:
            raise self._refusal(f"write {asked.path}", asked.path, error) from error
        self._say(f"wrote {asked.path}")
        return WriteTextFileResponse()

    def _refusal(self, what: str, path: str, error: SavantError) -> RequestError:
        self._say(f"refused to {what}: {error.code}")
        if error.code == _NO_SUCH_FILE:
            return RequestError.resource_not_found(path)
        reason = error.message if isinstance(error, RefusedInput) else "it cannot be written"
        return RequestError.invalid_params({"reason": f"{reason} [{error.code}]"})

    def _permit(self, params: Any) -> RequestPermissionResponse:
        asked = RequestPermissionRequest.model_validate(params)
        self._verify_session(asked.session_id)
        if self._last_words is not None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        verdict = self._verdict(asked.tool_call)
        chosen = _choose(asked.options, verdict)
        self._say(f"{verdict}ed: {asked.tool_call.title or asked.tool_call.kind or 'a tool'}")
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    def _verdict(self, call: ToolCallUpdate) -> Verdict:
        begun = self._calls.get(call.tool_call_id)
        kind = call.kind or (None if begun is None else begun.kind)
        if kind is None or PERMISSIONS[kind] == "reject" or not (self._files.is_writable or kind in READING):
            return "reject"
        paths = _paths(call) or ([] if begun is None else _paths(begun))
        return "allow" if all(self._files.holds(path) or path == self._wanted.directory for path in paths) else "reject"

    def _verify_session(self, session: str) -> None:
        if session != self._id:
            raise RequestError.invalid_params({"reason": "there is no such session"})

    # --- what an agent tells

    def _update(self, params: Any) -> None:
        try:
            update = SessionNotification.model_validate(params).update
        except ValidationError:
            return  # a newer kind of update, or a broken one: nothing depends on it
        match update:
            case AgentMessageChunk(content=TextContentBlock(text=text), message_id=message):
                if message != self._message:
                    self._message = message
                    self.told.parts.clear()
                self.told.parts.append(text)
            case ToolCallStart():
                self.told.parts.clear()
                self._calls[update.tool_call_id] = update
                self._say(f"{update.kind or 'tool'}: {update.title}")
            case ToolCallProgress(status="failed"):
                self._say(f"failed: {update.title or update.tool_call_id}")
            case UsageUpdate(cost=cost) if cost is not None:
                self.told.cost, self.told.currency = Decimal(str(cost.amount)), cost.currency
            case _:
                return

    def _say(self, text: str) -> None:
        self._note(" ".join(text.split())[:MAX_NOTE])


def _plain(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _first(error: ValidationError) -> str:
    """The first thing that is wrong, without what was sent."""
    told = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in told['loc'])}: {told['msg']}"[:MAX_NOTE]


def _paths(call: ToolCallUpdate | ToolCallStart) -> list[str]:
    """The files that a tool call names; of a difference only an absolute path, because some show a mere name."""
    named = [location.path for location in call.locations or ()]
    edits = [part.path for part in call.content or () if isinstance(part, FileEditToolCallContent)]
    return [*named, *(path for path in edits if path.startswith("/"))]


def _choose(options: list[PermissionOption], verdict: Verdict) -> str | None:
    """The option to choose; an answer for this once before one for good."""
    for kind in _CHOICES[verdict]:
        for option in options:
            if option.kind == kind:
                return option.option_id
    return None
