"""OpenAI Chat Completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.agents.protocols.adapter import Adapter, Reply, arguments_text, encode, event, parameters
from tests.agents.protocols.responses import OVERFLOW, openai_error
from tests.agents.script import Asked
from tests.agents.toolbox import Offered


def _tools(body: Mapping[str, Any]) -> Offered:
    functions = [tool["function"] for tool in body.get("tools") or () if "function" in tool]
    return {function["name"]: parameters(function.get("parameters")) for function in functions}


def _said(reply: Reply) -> dict[str, Any]:
    if reply.call is None:
        return {"role": "assistant", "content": reply.text}
    function = {"name": reply.call[0], "arguments": arguments_text(reply.call)}
    calls = [{"index": 0, "id": reply.call_id, "type": "function", "function": function}]
    return {"role": "assistant", "content": reply.text or None, "tool_calls": calls}


def _reason(reply: Reply) -> str:
    if reply.call is not None:
        return "tool_calls"
    return {"end": "stop", "length": "length"}[reply.stop]


def _usage(reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    return {
        "prompt_tokens": usage.tokens_in,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens": usage.tokens_out,
        "total_tokens": usage.tokens_in + usage.tokens_out,
    }


def _frame(asked: Asked, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": "chatcmpl_1", "object": kind, "created": 1_767_225_600, "model": asked.model, "choices": choices}


def _plain(asked: Asked, reply: Reply) -> bytes:
    choice = {"index": 0, "message": _said(reply), "finish_reason": _reason(reply)}
    return encode({**_frame(asked, "chat.completion", [choice]), "usage": _usage(reply)})


def _events(asked: Asked, reply: Reply) -> list[bytes]:
    kind = "chat.completion.chunk"
    body = _frame(asked, kind, [{"index": 0, "delta": _said(reply), "finish_reason": None}])
    end = _frame(asked, kind, [{"index": 0, "delta": {}, "finish_reason": _reason(reply)}])
    return [event(body), event({**end, "usage": _usage(reply)}), event("[DONE]")]


CHAT: Final = Adapter(
    name="chat",
    ending=("/chat/completions",),
    tools=_tools,
    plain=_plain,
    events=_events,
    error=openai_error,
    overflow=OVERFLOW,
)
