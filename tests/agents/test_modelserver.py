"""The model server says what the script says, in each protocol, and keeps what it was asked."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.agents.modelserver import ADAPTERS, ModelServer
from tests.agents.script import (
    Asked,
    Fail,
    Garbled,
    Overflow,
    Say,
    Script,
    Silent,
    Slow,
    Step,
    Structured,
    Truncated,
    Use,
)
from tests.agents.toolbox import Edit, Read, Shell, Tool, Write, named

PATHS = {
    "anthropic": "/v1/messages?beta=true",
    "responses": "/v1/responses",
    "chat": "/v1/chat/completions",
    "gemini": "/v1beta/models/m:generateContent",
}
TOOL_SCHEMA = {"type": "object", "properties": {"file_path": {}, "content": {}}}
TOOLS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [{"name": "Write", "input_schema": TOOL_SCHEMA}],
    "responses": [{"type": "function", "name": "Write", "parameters": TOOL_SCHEMA}, {"type": "web_search"}],
    "chat": [{"type": "function", "function": {"name": "Write", "parameters": TOOL_SCHEMA}}],
    "gemini": [{"functionDeclarations": [{"name": "Write", "parametersJsonSchema": TOOL_SCHEMA}]}],
}
PROMPTS: dict[str, dict[str, Any]] = {
    "anthropic": {"system": [{"type": "text", "text": "be good"}], "messages": [{"role": "user", "content": "do it"}]},
    "responses": {
        "instructions": "be good",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "do it"}]}],
    },
    "chat": {"messages": [{"role": "system", "content": "be good"}, {"role": "user", "content": "do it"}]},
    "gemini": {
        "systemInstruction": {"parts": [{"text": "be good"}]},
        "contents": [{"role": "user", "parts": [{"text": "do it"}]}],
    },
}
PROTOCOLS = tuple(adapter.name for adapter in ADAPTERS)
PATCH = "*** Begin Patch\n***"
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
every_form = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])


class Client:
    """An agent without intelligence."""

    def __init__(self, server: ModelServer) -> None:
        where = urlsplit(server.origin)
        self._connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=10)

    def ask(self, script: Script, protocol: str, *, stream: bool = False, tools: bool = False) -> tuple[int, bytes]:
        """The status and body of one question."""
        path = PATHS[protocol]
        body: dict[str, Any] = {**PROMPTS[protocol], **({"tools": TOOLS[protocol]} if tools else {})}
        if protocol == "gemini":
            path = path.replace(":generate", ":streamGenerate") if stream else path
        else:
            body.update(model="m", stream=stream)
        return self.send("POST", f"/s/{script.name}{path}", json.dumps(body).encode())

    def send(self, method: str, path: str, body: bytes = b"", *, chunked: bool = False) -> tuple[int, bytes]:
        """The status and body of any request."""
        self._connection.request(method, path, iter([body[:3], body[3:]]) if chunked else body, encode_chunked=chunked)
        response = self._connection.getresponse()
        return response.status, response.read()

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


@pytest.fixture
def client(model_server: ModelServer) -> Iterator[Client]:
    """A client of the server."""
    one = Client(model_server)
    yield one
    one.close()


def events(raw: bytes) -> list[dict[str, Any]]:
    """The data of complete server-sent events."""
    blocks = raw.decode().split("\n\n")[:-1]
    data = [line[6:] for block in blocks for line in block.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in data if line != "[DONE]"]


def text_of(protocol: str, raw: bytes, *, stream: bool) -> str:
    """The answer's text, as a client of that protocol puts it together."""
    told = events(raw) if stream else [json.loads(raw)]
    match protocol, stream:
        case "anthropic", True:
            return "".join(e["delta"].get("text", "") for e in told if e["type"] == "content_block_delta")
        case "anthropic", False:
            return "".join(block["text"] for block in told[0]["content"])
        case "responses", True:
            assert told[-1]["type"] == "response.completed"
            return str(told[-1]["response"]["output"][0]["content"][0]["text"])
        case "responses", False:
            return str(told[0]["output"][0]["content"][0]["text"])
        case "chat", True:
            return "".join(e["choices"][0]["delta"].get("content", "") for e in told)
        case "chat", False:
            return str(told[0]["choices"][0]["message"]["content"])
        case _:
            return "".join(part["text"] for e in told for part in e["candidates"][0]["content"]["parts"])


@every_protocol
@every_form
@pytest.mark.parametrize("text", ["", '{"a": "ü"}', "x" * 200_000], ids=["empty", "json", "200 KB"])
def test_a_text_arrives_whole(
    client: Client, script: Callable[..., Script], protocol: str, stream: bool, text: str
) -> None:
    """What the script says is what a client reads, plain and streamed, in order."""
    one = script(Say(text), Say("second"))
    assert text_of(protocol, client.ask(one, protocol, stream=stream)[1], stream=stream) == text
    assert text_of(protocol, client.ask(one, protocol, stream=stream)[1], stream=stream) == "second"


@every_protocol
@every_form
def test_a_request_is_kept(client: Client, script: Callable[..., Script], protocol: str, stream: bool) -> None:
    """The log holds protocol, tools, form and everything the model would read."""
    one = script(Say("yes"))
    client.ask(one, protocol, stream=stream, tools=True)
    (asked,) = one.requests
    assert (asked.protocol, asked.stream, dict(asked.tools)) == (protocol, stream, {"Write": ("file_path", "content")})
    assert asked.prompt.split("\n") == ["be good", "do it"]
    assert one.wait_for(1, 0)
    assert not one.wait_for(2, 0)


@every_protocol
@every_form
def test_a_tool_is_used_as_it_is_offered(
    client: Client, script: Callable[..., Script], protocol: str, stream: bool
) -> None:
    """The answer names the offered tool and its parameters."""
    one = script(Use(Write("a.txt", "one\n")))
    raw = client.ask(one, protocol, stream=stream, tools=True)[1].decode().replace("\\", "")
    assert '"name": "Write"' in raw
    assert '"file_path": "a.txt"' in raw
    assert '"content": "one' in raw


@every_protocol
def test_a_tool_that_is_not_offered_is_a_problem(model_server: ModelServer, client: Client, protocol: str) -> None:
    """The script does not invent a tool; the test that wanted it fails."""
    one = model_server.script(f"no-tool-{protocol}", [Use(Write("a.txt", "one\n"))])
    assert client.ask(one, protocol)[0] == 400
    assert len(one.problems) == 1
    assert model_server.problems[-1] == one.problems[0]


@every_protocol
@every_form
def test_errors_have_the_protocols_envelope(
    client: Client, script: Callable[..., Script], protocol: str, stream: bool
) -> None:
    """Status and words are where a client of that vendor looks."""
    one = script(Fail(429, "rate_limit_error", "too many"), Overflow())
    status, raw = client.ask(one, protocol, stream=stream)
    assert (status, json.loads(raw)["error"]["message"]) == (429, "too many")
    status, raw = client.ask(one, protocol, stream=stream)
    assert status == 400
    assert "maximum" in json.loads(raw)["error"]["message"]


@every_protocol
@every_form
def test_half_of_an_answer(client: Client, script: Callable[..., Script], protocol: str, stream: bool) -> None:
    """Half of the answer comes; the end of the body comes with it or does not, as the script wants."""
    one = script(Say("a long answer"), Truncated("a long answer", "body"), Truncated("a long answer"))
    whole, half = (client.ask(one, protocol, stream=stream)[1] for _ in range(2))
    assert half == whole[: len(half)]
    assert 0 < len(half) < len(whole)
    with pytest.raises(http.client.IncompleteRead) as caught:
        client.ask(one, protocol, stream=stream)
    assert caught.value.partial == half


@every_protocol
def test_a_body_that_is_none(client: Client, script: Callable[..., Script], protocol: str) -> None:
    """Status 200 and no JSON."""
    status, raw = client.ask(script(Garbled()), protocol)
    assert (status, raw[:6]) == (200, b"<html>")


@every_form
def test_a_slow_answer_is_whole_in_the_end(client: Client, script: Callable[..., Script], stream: bool) -> None:
    """Pieces come with pauses and add up."""
    one = script(Slow("bit by bit", pause_s=0.001))
    assert text_of("chat", client.ask(one, "chat", stream=stream)[1], stream=stream) == "bit by bit"


def test_silence_ends_with_the_server() -> None:
    """A silent answer holds the connection, also against a stop of the server, and never says anything."""
    with ModelServer() as server:
        one = server.script("silent", [Silent()])
        patient = Client(server)
        patient._connection.request("POST", "/s/silent/v1/messages", b"{}")
        assert one.wait_for(1, 10)
    with pytest.raises(http.client.RemoteDisconnected):
        patient._connection.getresponse()
    patient.close()


@every_protocol
def test_a_structured_answer_takes_the_tool_for_it(
    client: Client, script: Callable[..., Script], protocol: str
) -> None:
    """Text where no tool for it is offered, the tool's arguments where one is."""
    one = script(Structured({"a": 1}), Structured({"a": 1}))
    assert json.loads(text_of(protocol, client.ask(one, protocol)[1], stream=False)) == {"a": 1}
    offered = {"name": "StructuredOutput", "input_schema": {}}
    body = json.dumps({"messages": [], "tools": [offered]}).encode()
    told = json.loads(client.send("POST", f"/s/{one.name}/v1/messages", body)[1])
    assert told["content"] == [
        {"type": "tool_use", "id": "toolu_call_2", "name": "StructuredOutput", "input": {"a": 1}}
    ]


def test_a_step_may_depend_on_the_request(client: Client, script: Callable[..., Script]) -> None:
    """A function of the request decides the step."""

    def echo(asked: Asked) -> Step:
        return Say(asked.prompt.upper())

    assert text_of("chat", client.ask(script(echo), "chat")[1], stream=False) == "BE GOOD\nDO IT"


def test_the_last_step_can_be_repeated(client: Client, script: Callable[..., Script]) -> None:
    """Agents try again; what fails for good does so each time."""
    one = script(Say("once"), Fail(500, "api_error", "down"), forever=True)
    assert [client.ask(one, "chat")[0] for _ in range(4)] == [200, 500, 500, 500]
    assert one.left == 0


def test_an_aside_takes_no_step(client: Client, script: Callable[..., Script]) -> None:
    """What is not part of the conversation is answered and kept apart."""
    one = script(Say("yes"), aside=lambda asked: not asked.tools)
    assert text_of("chat", client.ask(one, "chat")[1], stream=False) == "An aside"
    assert text_of("chat", client.ask(one, "chat", tools=True)[1], stream=False) == "yes"
    assert (one.probes, len(one.requests)) == (["chat aside"], 1)


def test_a_request_too_many_is_a_problem(model_server: ModelServer, client: Client) -> None:
    """After the last step nothing is made up, and a step that nobody wanted is counted."""
    one = model_server.script("short", [Say("only")])
    assert one.left == 1
    assert [client.ask(one, "chat")[0] for _ in range(2)] == [200, 400]
    assert (one.left, len(one.problems)) == (0, 1)


@pytest.mark.parametrize(
    ("method", "path"),
    [("HEAD", ""), ("GET", "/api/hello"), ("GET", "/v1/models"), ("POST", "/v1/messages/count_tokens")],
)
def test_probes_are_answered_and_take_no_step(
    client: Client, script: Callable[..., Script], method: str, path: str
) -> None:
    """Greetings, lists and counts get a friendly answer and are kept apart."""
    one = script()
    assert client.send(method, f"/s/{one.name}{path}", b"{}" if method == "POST" else b"")[0] == 200
    assert one.probes == [f"{method} {path or '/'}"]
    assert one.requests == []


def test_a_body_in_chunks_is_read(client: Client, script: Callable[..., Script]) -> None:
    """Some agents stream their requests."""
    one = script(Say("yes"))
    body = json.dumps(PROMPTS["chat"]).encode()
    assert client.send("POST", f"/s/{one.name}/v1/chat/completions", body, chunked=True)[0] == 200
    assert one.requests[0].prompt == "be good\ndo it"


def test_a_body_that_is_no_json_is_a_problem(model_server: ModelServer, client: Client) -> None:
    """A request nobody could answer is refused and kept."""
    one = model_server.script("no-json", [])
    assert client.send("POST", "/s/no-json/v1/messages", b"{")[0] == 400
    assert one.problems == ["no-json: /s/no-json/v1/messages: a body that is no JSON"]


def test_an_unknown_script_gets_no_answer_from_another(client: Client, script: Callable[..., Script]) -> None:
    """A stray request reaches no test's script."""
    one = script()
    client.send("POST", "/s/elsewhere/v1/messages", b"{}")
    assert (one.requests, one.probes) == ([], [])


@pytest.mark.parametrize(
    ("tool", "offered", "call"),
    [
        (Read("a"), {"read_file": ("absolute_path",)}, ("read_file", {"absolute_path": "a"})),
        (Read("a b"), {"exec_command": ("cmd",)}, ("exec_command", {"cmd": "cat 'a b'"})),
        (
            Write("a", "1\n"),
            {"apply_patch": None},
            ("apply_patch", "*** Begin Patch\n*** Add File: a\n+1\n*** End Patch"),
        ),
        (
            Edit("a", "1", "2"),
            {"apply_patch": ("input",)},
            ("apply_patch", {"input": f"{PATCH} Update File: a\n@@\n-1\n+2\n*** End Patch"}),
        ),
        (
            Edit("a", "1", "2"),
            {"replace": ("file_path", "instruction", "old_string", "new_string")},
            ("replace", {"file_path": "a", "old_string": "1", "new_string": "2", "instruction": "as planned"}),
        ),
        (
            Edit("a", "1", "2"),
            {"edit": ("filePath", "oldString", "newString")},
            ("edit", {"filePath": "a", "oldString": "1", "newString": "2"}),
        ),
        (Shell("ls"), {"shell": ("command",)}, ("shell", {"command": ["bash", "-lc", "ls"]})),
        (
            Shell("ls"),
            {"Bash": ("command", "description")},
            ("Bash", {"command": "ls", "description": "a step of the plan"}),
        ),
        (Shell("ls"), {"Write": ("file_path", "content")}, None),
    ],
)
def test_tools_are_called_by_what_is_offered(
    tool: Tool, offered: dict[str, tuple[str, ...] | None], call: tuple[str, Any] | None
) -> None:
    """Names and parameters are the agent's; where it has no tool for a file, its shell is used."""
    assert named(tool, offered) == call
