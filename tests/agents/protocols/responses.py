"""OpenAI Responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.agents.protocols.adapter import Adapter, Reply, arguments_text, encode, event, parameters
from tests.agents.script import Asked, Fail
from tests.agents.toolbox import Offered


def _tools(body: Mapping[str, Any]) -> Offered:
    return {
        tool["name"]: None if tool.get("type") == "custom" else parameters(tool.get("parameters"))
        for tool in body.get("tools") or ()
        if "name" in tool
    }


def _item(reply: Reply) -> dict[str, Any]:
    if reply.call is None:
        return {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": reply.text, "annotations": []}],
        }
    common = {"call_id": reply.call_id, "name": reply.call[0], "status": "completed"}
    if isinstance(reply.call[1], str):
        return {"type": "custom_tool_call", "id": "ctc_1", "input": reply.call[1], **common}
    return {"type": "function_call", "id": "fc_1", "arguments": arguments_text(reply.call), **common}


def _response(asked: Asked, reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_767_225_600,
        "model": asked.model,
        "status": "incomplete" if reply.stop == "length" else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if reply.stop == "length" else None,
        "output": [_item(reply)],
        "usage": {
            "input_tokens": usage.tokens_in,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.tokens_out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.tokens_in + usage.tokens_out,
        },
    }


def _events(asked: Asked, reply: Reply) -> list[bytes]:
    response = _response(asked, reply)
    item = response["output"][0]
    begun = {**response, "status": "in_progress", "output": [], "incomplete_details": None, "usage": None}
    opened = {**item, "content": []} if reply.call is None else item
    told: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": opened},
    ]
    if reply.call is None:
        where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        told.append({"type": "response.output_text.delta", "delta": reply.text, **where})
    told += [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": f"response.{response['status']}", "response": response},
    ]
    return [event({**item, "sequence_number": number}, item["type"]) for number, item in enumerate(told)]


def openai_error(fail: Fail) -> bytes:
    """The envelope of both OpenAI protocols."""
    return encode({"error": {"message": fail.message, "type": fail.kind, "param": None, "code": fail.kind}})


OVERFLOW: Final = Fail(
    400,
    "context_length_exceeded",
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 212345 tokens.",
)

RESPONSES: Final = Adapter(
    name="responses",
    ending=("/responses",),
    tools=_tools,
    plain=lambda asked, reply: encode(_response(asked, reply)),
    events=_events,
    error=openai_error,
    overflow=OVERFLOW,
)
