"""What a protocol adapter is: how one vendor's requests are read and its answers are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from tests.agents.script import Asked, Fail, Stop
from tests.agents.toolbox import Named, Offered

MODEL: Final = "test-model"


class Usage(msgspec.Struct, frozen=True):
    """What the service says an answer cost; ``tokens_in`` includes ``cached``."""

    tokens_in: int = 140
    tokens_out: int = 23
    cached: int = 40


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, before a protocol gives it its form."""

    text: str = ""
    call: Named | None = None
    call_id: str = "call_1"
    stop: Stop = "end"
    usage: Usage = Usage()


class Adapter(msgspec.Struct, frozen=True, kw_only=True):
    """One protocol.

    :param ending: what the path of a request for an answer ends with.
    :param tools: the tools a request offers.
    :param plain: a whole answer as one JSON body.
    :param events: an answer as server-sent events, each complete.
    :param error: the body of an HTTP error.
    :param overflow: the error for a prompt that is too long.
    """

    name: str
    ending: tuple[str, ...]
    tools: Callable[[Mapping[str, Any]], Offered]
    plain: Callable[[Asked, Reply], bytes]
    events: Callable[[Asked, Reply], list[bytes]]
    error: Callable[[Fail], bytes]
    overflow: Fail


def encode(value: object) -> bytes:
    """A JSON body."""
    return json.dumps(value).encode("utf-8")


def event(value: object, name: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n".encode("ascii") if name else b""
    data = value.encode("ascii") if isinstance(value, str) else encode(value)
    return head + b"data: " + data + b"\n\n"


def parameters(schema: object) -> tuple[str, ...]:
    """The names in a JSON Schema of an object."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return tuple(properties) if isinstance(properties, dict) else ()


def arguments_text(call: Named) -> str:
    """A call's arguments as text."""
    return call[1] if isinstance(call[1], str) else json.dumps(call[1])
