"""An agent of a few lines that speaks the Agent Client Protocol over the standard library alone.

It is written to a folder as ``claude-agent-acp`` with ``script.json`` beside it. The script maps a situation, as in
:mod:`tests.commandprovider.fakeagent`, to the steps of a turn; each is an object with one member:

``read``/``write``/``ask``  over the protocol; the answer is a line on standard error, so a note of the call
``disk``                    writes a file by itself, without asking
``call``                    any request: method and parameters
``raw``                     any line
``say``/``tool``/``update`` tells something
``wait``                    for ``cancel``, then ends the turn as cancelled; ``deaf``: for ever, hearing nothing
``exit``                    leaves in the midst of the turn
``error``/``stop``          how the turn ends; without them it ends well

Beside the situations: ``initialize`` and ``session`` change these answers, ``result`` adds to that of a turn, and
``lingers`` makes it stay when its input has ended.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PROGRAM = r"""
import json, os, pathlib, sys, time

here = pathlib.Path(__file__).resolve().parent
script = json.loads((here / "script.json").read_text())
cwd = session = None
numbers = iter(range(1000, 10**6))

def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")) + "\n")
    sys.stdout.flush()

def receive():
    line = sys.stdin.readline()
    if not line:
        while script.get("lingers"):
            time.sleep(60)
        sys.exit(0)
    return json.loads(line)

def note(*words):
    sys.stderr.write(" ".join(str(word) for word in words) + "\n")
    sys.stderr.flush()

def request(method, params):
    number = next(numbers)
    send(id=number, method=method, params=params)
    while True:
        answer = receive()
        if answer.get("id") == number and "method" not in answer:
            return answer

def place(name):
    return name if name.startswith("/") else cwd + "/" + name

def told(what, answer):
    if "error" in answer:
        error = answer["error"]
        note(what, "refused", error["code"], error["message"], json.dumps(error.get("data")))
    else:
        note(what, json.dumps(answer["result"]))

def update(**members):
    send(method="session/update", params={"sessionId": session, "update": members})

def act(step):
    (kind, value), = step.items()
    if kind == "read":
        value = {"path": value} if isinstance(value, str) else value
        told("read", request("fs/read_text_file", {"sessionId": session, **value, "path": place(value["path"])}))
    elif kind == "write":
        name, text = value
        told("write", request("fs/write_text_file", {"sessionId": session, "path": place(name), "content": text}))
    elif kind == "ask":
        kinds = value.pop("options", ("allow_once", "reject_once"))
        options = [{"optionId": "id-" + kind, "kind": kind, "name": kind} for kind in kinds]
        for where in value.get("locations", ()):
            where["path"] = place(where["path"])
        told("ask", request("session/request_permission",
             {"sessionId": session, "options": options, "toolCall": {"toolCallId": "t1", **value}}))
    elif kind == "disk":
        path = pathlib.Path(place(value[0]))
        for where in (pathlib.Path(cwd), path):
            if where.exists():
                where.chmod(0o755)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value[1])
    elif kind == "call":
        told("call", request(*value))
    elif kind == "raw":
        sys.stdout.write(value + "\n")
        sys.stdout.flush()
    elif kind == "say":
        update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": value})
    elif kind == "tool":
        update(sessionUpdate="tool_call", toolCallId="t1", title="a tool", status="pending", **value)
    elif kind == "update":
        update(**value)
    elif kind == "cwd":
        note("cwd", sorted(os.listdir(cwd)))
    elif kind == "wait":
        while receive().get("method") != "session/cancel":
            pass
        note("cancelled")
        return {"stopReason": "cancelled"}
    elif kind == "deaf":
        note("deaf")
        while True:
            time.sleep(60)
    elif kind == "exit":
        sys.exit(value)
    elif kind == "stop":
        return {"stopReason": value}
    elif kind == "error":
        return {"error": value}

def turn(params):
    prompt = params["prompt"][0]["text"]
    for text in script.get("forbidden", ()):
        if text in prompt:
            note("the prompt holds", text)
            sys.exit(9)
    if "# The plan that was accepted" in prompt:
        situation = "generation"
    elif "Say what the task means" in prompt:
        situation = "interpretation"
    else:
        situation = "planning"
    again = situation + "-again"
    name = again if "# What failed before" in prompt and again in script else situation
    for step in script.get(name, ()):
        ended = act(step)
        if ended is not None:
            return ended
    return {"stopReason": "end_turn", **script.get("result", {})}

while True:
    message = receive()
    method, answer = message.get("method"), None
    if method == "initialize":
        answer = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "fake", "version": "0.49.0"},
                  **script.get("initialize", {})}
        note("offered", json.dumps(message["params"]["clientCapabilities"]["fs"]))
    elif method == "session/new":
        cwd, session = message["params"]["cwd"], "s1"
        answer = {"sessionId": session, **script.get("session", {})}
        note("meta", json.dumps(message["params"].get("_meta")))
    elif method == "session/set_mode":
        note("mode", message["params"]["modeId"])
        answer = {}
    elif method == "session/prompt":
        answer = turn(message["params"])
    if answer is not None and "error" in answer:
        send(id=message["id"], error=answer["error"])
    elif answer is not None:
        send(id=message["id"], result=answer)
"""


def install_acp(folder: Path, script: Mapping[str, Any], *, name: str = "claude-agent-acp") -> Path:
    """Write the agent and its script into a folder of its own; the path of the executable."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.json").write_text(json.dumps(script))
    program = folder / name
    program.write_text(f"#!{sys.executable} -IB\n{PROGRAM}")
    program.chmod(0o755)
    return program


def planned(text: str) -> list[dict[str, Any]]:
    """The steps of a turn that answers with this text after a word in between."""
    return [{"say": "Let me look."}, {"tool": {"kind": "read"}}, {"say": text}]
