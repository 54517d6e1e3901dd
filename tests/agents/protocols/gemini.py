"""Gemini generateContent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.agents.protocols.adapter import Adapter, Reply, encode, event, parameters
from tests.agents.script import Asked, Fail
from tests.agents.toolbox import Offered

_STATUS: Final = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}


def _tools(body: Mapping[str, Any]) -> Offered:
    functions = [function for tool in body.get("tools") or () for function in tool.get("functionDeclarations") or ()]
    return {
        function["name"]: parameters(function.get("parametersJsonSchema") or function.get("parameters"))
        for function in functions
    }


def _response(asked: Asked, reply: Reply) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": reply.text}] if reply.text or reply.call is None else []
    if reply.call is not None:
        parts.append({"functionCall": {"name": reply.call[0], "args": reply.call[1]}})
    usage = reply.usage
    candidate = {
        "index": 0,
        "content": {"role": "model", "parts": parts},
        "finishReason": {"end": "STOP", "length": "MAX_TOKENS"}[reply.stop],
    }
    return {
        "candidates": [candidate],
        "modelVersion": asked.model,
        "usageMetadata": {
            "promptTokenCount": usage.tokens_in,
            "cachedContentTokenCount": usage.cached,
            "candidatesTokenCount": usage.tokens_out,
            "totalTokenCount": usage.tokens_in + usage.tokens_out,
        },
    }


def _error(fail: Fail) -> bytes:
    status = _STATUS.get(fail.status, "INVALID_ARGUMENT")
    return encode({"error": {"code": fail.status, "message": fail.message, "status": status}})


def _plain(asked: Asked, reply: Reply) -> bytes:
    return encode(_response(asked, reply))


def _events(asked: Asked, reply: Reply) -> list[bytes]:
    return [event(_response(asked, reply))]


GEMINI: Final = Adapter(
    name="gemini",
    ending=(":generateContent", ":streamGenerateContent"),
    tools=_tools,
    plain=_plain,
    events=_events,
    error=_error,
    overflow=Fail(
        400,
        "INVALID_ARGUMENT",
        "The input token count (1112345) exceeds the maximum number of tokens allowed (1048576).",
    ),
)
