"""The client of the protocol message by message, without a process: what it says, and when it stops listening."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from commandprovider.acp import LAST_WORDS, Conversation, Session
from commandprovider.served import ServedFiles
from runner.workspace import CandidateWorkspace
from savant.process.effects import ThreadCancellation

Reaction = Callable[[dict[str, Any]], list[dict[str, Any]]]


class Lines:
    """A channel to an agent that reacts to each message with messages, at once, and is silent else."""

    def __init__(self, reactions: Mapping[str, Reaction], *, takes: int = 1000) -> None:
        self.sent: list[dict[str, Any]] = []
        self.waits = 0
        self._reactions = reactions
        self._takes = takes
        self._lines: deque[bytes] = deque()

    @property
    def is_open(self) -> bool:
        return bool(self._lines) or len(self.sent) < self._takes

    def send(self, line: bytes) -> bool:
        if len(self.sent) >= self._takes:
            return False
        message = json.loads(line)
        self.sent.append(message)
        for answer in self._reactions.get(message.get("method", "answer"), lambda _: [])(message):
            self._lines.append(json.dumps(answer).encode())
        return True

    def receive(self, timeout_ms: int) -> bytes | None:
        self.waits += not self._lines
        return self._lines.popleft() if self._lines else None


def begun(**reactions: Reaction) -> dict[str, Reaction]:
    """An agent that begins as it should."""
    return {
        "initialize": lambda asked: [{"id": asked["id"], "result": {"protocolVersion": 1}}],
        "session/new": lambda asked: [{"id": asked["id"], "result": {"sessionId": "s"}}],
        **{name.replace("_", "/"): reaction for name, reaction in reactions.items()},
    }


class Desk:
    """A workspace that is served, and a cancellation."""

    def __init__(self, workspace: CandidateWorkspace) -> None:
        self.workspace = workspace
        self.directory = workspace.materialise()
        self.cancellation = ThreadCancellation()
        self.notes: list[str] = []

    def talk(self, lines: Lines, **session: Any) -> Conversation:
        made = Conversation(
            Session(directory=str(self.directory), prompt="Go", **session),
            ServedFiles(self.directory, self.workspace, workspace=self.workspace, copy=self.directory),
            self.cancellation,
            note=self.notes.append,
            redact=lambda line: line,
        )
        made(lines)
        return made

    def write(self, number: int) -> dict[str, Any]:
        """A request to write a file."""
        params = {"sessionId": "s", "path": f"{self.directory}/a.txt", "content": "late"}
        return {"id": number, "method": "fs/write_text_file", "params": params}


@pytest.fixture
def desk(workspace: CandidateWorkspace) -> Desk:
    return Desk(workspace)


def test_after_a_cancellation_nothing_is_served_any_more(desk: Desk) -> None:
    """The agent is told once; what it still wants is refused; that its turn was cancelled is heard."""
    ask = {
        "id": 8,
        "method": "session/request_permission",
        "params": {
            "sessionId": "s",
            "toolCall": {"toolCallId": "t", "kind": "edit"},
            "options": [{"optionId": "y", "name": "y", "kind": "allow_once"}],
        },
    }

    def prompted(_: dict[str, Any]) -> list[dict[str, Any]]:
        desk.cancellation.set()
        return []

    def cancelled(_: dict[str, Any]) -> list[dict[str, Any]]:
        return [desk.write(7), ask, {"id": 3, "result": {"stopReason": "cancelled"}}]

    lines = Lines(begun(session_prompt=prompted, session_cancel=cancelled))
    assert desk.talk(lines).told.stop == "cancelled"
    assert [message.get("method", message.get("id")) for message in lines.sent[2:]] == [
        "session/prompt",
        "session/cancel",
        7,
        8,
    ]
    assert lines.sent[4]["error"]["code"] == -32600
    assert lines.sent[5]["result"] == {"outcome": {"outcome": "cancelled"}}
    assert desk.workspace.changed() == ()


def test_an_agent_that_hears_no_cancellation_is_left(desk: Desk) -> None:
    """It has so many polls and no more; before a prompt there is nothing to cancel."""
    lines = Lines(begun())
    desk.cancellation.set()
    assert desk.talk(lines).told.stop is None
    assert (len(lines.sent), lines.waits) == (1, 0)

    def prompted(_: dict[str, Any]) -> list[dict[str, Any]]:
        desk.cancellation.set()
        return []

    desk.cancellation = ThreadCancellation()
    lines = Lines(begun(session_prompt=prompted))
    assert desk.talk(lines).told.stop is None
    assert (lines.sent[-1]["method"], lines.waits) == ("session/cancel", LAST_WORDS + 1)


@pytest.mark.parametrize("takes", range(4))
def test_an_agent_that_is_gone_ends_the_conversation(desk: Desk, takes: int) -> None:
    """At whatever message it takes no more."""
    lines = Lines(begun(session_prompt=lambda _: [desk.write(7)]), takes=takes)
    told = desk.talk(lines).told
    assert (told.stop, told.problem, told.fault) == (None, None, None)
    assert len(lines.sent) == takes


def test_reads_are_offered_as_the_session_says(desk: Desk) -> None:
    """An agent that cannot do with them is not offered any, and its mode is set only where it differs."""
    modes = {"currentModeId": "m", "availableModes": [{"id": "m", "name": "m"}]}
    reactions = begun(
        session_new=lambda asked: [{"id": asked["id"], "result": {"sessionId": "s", "modes": modes}}],
        session_prompt=lambda asked: [{"id": asked["id"], "result": {"stopReason": "end_turn"}}],
    )
    lines = Lines(reactions)
    assert desk.talk(lines, serves_reads=False, mode="m", meta='{"a":1}').told.stop == "end_turn"
    offered = lines.sent[0]["params"]["clientCapabilities"]
    assert (offered["fs"], offered["terminal"]) == ({"readTextFile": False, "writeTextFile": True}, False)
    assert lines.sent[1]["params"] == {"cwd": str(desk.directory), "mcpServers": [], "_meta": {"a": 1}}
    assert [message["method"] for message in lines.sent] == ["initialize", "session/new", "session/prompt"]


def test_messages_by_their_ids(desk: Desk) -> None:
    """Where an agent numbers its messages, a new number begins a new one; thoughts are none."""

    def update(kind: str, text: str, message: str) -> dict[str, Any]:
        content = {"sessionUpdate": kind, "content": {"type": "text", "text": text}, "messageId": message}
        return {"method": "session/update", "params": {"sessionId": "s", "update": content}}

    chunks = [("agent_message_chunk", "a", "1"), ("agent_message_chunk", "b", "2"), ("agent_thought_chunk", "t", "2")]
    updates = [*(update(*chunk) for chunk in chunks), update("agent_message_chunk", "c", "2")]
    end = {"id": 3, "result": {"stopReason": "end_turn"}}
    lines = Lines(begun(session_prompt=lambda _: [*updates, end]))
    assert desk.talk(lines).told.text == "bc"


def test_only_the_working_directory_of_the_machine_is_told(desk: Desk, tmp_path: Path) -> None:
    """Of everything that is sent, one member names a place of the machine."""
    lines = Lines(begun(session_prompt=lambda asked: [{"id": asked["id"], "result": {"stopReason": "end_turn"}}]))
    desk.talk(lines)
    told = json.dumps(lines.sent)
    assert told.count(str(desk.directory)) == 1
    assert str(tmp_path) not in told.replace(str(desk.directory), "")
