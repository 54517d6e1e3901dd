"""Anthropic Messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tests.agents.protocols.adapter import Adapter, Reply, encode, event, parameters
from tests.agents.script import Asked, Fail
from tests.agents.toolbox import Offered


def _tools(body: Mapping[str, Any]) -> Offered:
    return {tool["name"]: parameters(tool.get("input_schema")) for tool in body.get("tools") or ()}


def _blocks(reply: Reply) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    if reply.call is not None:
        blocks.append(
            {"type": "tool_use", "id": f"toolu_{reply.call_id}", "name": reply.call[0], "input": reply.call[1]}
        )
    return blocks


def _stop(reply: Reply) -> str:
    if reply.call is not None:
        return "tool_use"
    return {"end": "end_turn", "length": "max_tokens"}[reply.stop]


def _message(asked: Asked, reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": _blocks(reply),
        "stop_reason": _stop(reply),
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.tokens_in - usage.cached,
            "cache_read_input_tokens": usage.cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": usage.tokens_out,
        },
    }


def _events(asked: Asked, reply: Reply) -> list[bytes]:
    message = _message(asked, reply)
    start = {**message, "content": [], "stop_reason": None}
    told: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        told += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    told += [
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": reply.usage.tokens_out}},
        {"type": "message_stop"},
    ]
    return [event(item, item["type"]) for item in told]


def _error(fail: Fail) -> bytes:
    return encode(
        {"type": "error", "error": {"type": fail.kind, "message": fail.message}, "request_id": "req_1"},
    )


ANTHROPIC: Final = Adapter(
    name="anthropic",
    ending=("/messages",),
    tools=_tools,
    plain=lambda asked, reply: encode(_message(asked, reply)),
    events=_events,
    error=_error,
    overflow=Fail(400, "invalid_request_error", "prompt is too long: 212345 tokens > 200000 maximum"),
)
