"""A model on loopback that says what a test's script tells it to, in the protocols of four vendors.

Real agents are driven against it, so it answers as the services do: plain or streamed, errors in each vendor's own
envelope, the probes an agent makes beside its questions. It knows nothing of the agents.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self, assert_never, cast

from tests.agents.protocols.adapter import MODEL, Adapter, Reply, encode
from tests.agents.protocols.anthropic import ANTHROPIC
from tests.agents.protocols.chat import CHAT
from tests.agents.protocols.gemini import GEMINI
from tests.agents.protocols.responses import RESPONSES
from tests.agents.script import (
    Asked,
    Fail,
    Garbled,
    Overflow,
    Planned,
    Say,
    Script,
    Silent,
    Slow,
    Structured,
    Truncated,
    Use,
)
from tests.agents.toolbox import named

ADAPTERS: Final[tuple[Adapter, ...]] = (ANTHROPIC, RESPONSES, CHAT, GEMINI)
STRUCTURED_TOOL: Final = "StructuredOutput"
"""Where Claude Code wants an answer that has to fit a schema."""

_MODEL: Final = re.compile(r"/models/([^:/]+):")
_PLACE: Final = re.compile(r"/s/([^/]+)(/[^?]*)?")


def _model_in(path: str) -> str:
    found = _MODEL.search(path)
    return found[1] if found else MODEL


class ModelServer:
    """The server; a context manager. Scripts are added at any time, from any thread."""

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = {}
        self.closing = threading.Event()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def origin(self) -> str:
        """The scheme, address and port."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def script(
        self,
        name: str,
        steps: Sequence[Planned],
        *,
        forever: bool = False,
        aside: Callable[[Asked], bool] = lambda _: False,
    ) -> Script:
        """Add a script; its questions come to :meth:`url`."""
        added = Script(name, steps, forever=forever, aside=aside)
        self.scripts[name] = added
        return added

    def url(self, script: Script) -> str:
        """The base of a script, without a slash at the end and without a version."""
        return f"{self.origin}/s/{script.name}"

    @property
    def problems(self) -> list[str]:
        """What went wrong in all scripts."""
        return [problem for script in self.scripts.values() for problem in script.problems]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    owner: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An agent that was ended leaves in the middle of an answer; that is no error of ours."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _owner(self) -> ModelServer:
        return cast(_Server, self.server).owner

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Say nothing; the scripts keep the log."""

    def do_HEAD(self) -> None:
        self._probe()

    def do_GET(self) -> None:
        self._probe()

    def do_POST(self) -> None:
        raw = self._body()
        script, path = self._place()
        adapter = next((a for a in ADAPTERS if path.endswith(a.ending)), None)
        if script is None or adapter is None:
            self._probe()
            return
        try:
            body = json.loads(raw)
        except ValueError:
            script.problem(f"{self.path}: a body that is no JSON")
            self._send(HTTPStatus.BAD_REQUEST, adapter.error(Fail(400, "invalid_request_error", "no JSON")))
            return
        asked = Asked(
            protocol=adapter.name,
            path=self.path,
            headers=dict(self.headers.items()),
            model=str(body.get("model") or _model_in(path)),
            stream=bool(body.get("stream")) or path.endswith(":streamGenerateContent"),
            tools=adapter.tools(body),
            body=body,
        )
        self._perform(script, adapter, asked)

    def _perform(self, script: Script, adapter: Adapter, asked: Asked) -> None:
        step = script.take(asked)
        match step:
            case Say(text, stop):
                self._answer(adapter, asked, Reply(text=text, stop=stop))
            case Structured(value) if STRUCTURED_TOOL in asked.tools:
                self._answer(adapter, asked, Reply(call=(STRUCTURED_TOOL, value), call_id=self._call_id(script)))
            case Structured(value):
                self._answer(adapter, asked, Reply(text=json.dumps(value)))
            case Use(tool, text):
                call = named(tool, asked.tools)
                if call is None:
                    script.problem(f"no tool for {tool} among {sorted(asked.tools)}")
                    self._send(400, adapter.error(Fail(400, "invalid_request_error", "no such tool on offer")))
                    return
                self._answer(adapter, asked, Reply(text=text, call=call, call_id=self._call_id(script)))
            case Fail(status, _, _):
                self._send(status, adapter.error(step))
            case Overflow():
                self._send(adapter.overflow.status, adapter.error(adapter.overflow))
            case Truncated(text, breaks):
                parts = self._parts(adapter, asked, Reply(text=text))
                whole = b"".join(parts)
                self._chunks(asked, [whole[: len(whole) // 2]], ended=breaks == "body")
            case Garbled(body):
                self._send(200, body.encode("utf-8"), "text/event-stream" if asked.stream else "text/html")
            case Slow(text, pause_s, pieces):
                whole = b"".join(self._parts(adapter, asked, Reply(text=text)))
                size = max(1, -(-len(whole) // pieces))
                self._chunks(asked, [whole[at : at + size] for at in range(0, len(whole), size)], pause_s=pause_s)
            case Silent():
                self._owner.closing.wait()
                self.close_connection = True
            case _:
                assert_never(step)

    @staticmethod
    def _call_id(script: Script) -> str:
        return f"call_{len(script.requests)}"

    @staticmethod
    def _parts(adapter: Adapter, asked: Asked, reply: Reply) -> list[bytes]:
        return adapter.events(asked, reply) if asked.stream else [adapter.plain(asked, reply)]

    def _answer(self, adapter: Adapter, asked: Asked, reply: Reply) -> None:
        if asked.stream:
            self._chunks(asked, adapter.events(asked, reply))
        else:
            self._send(200, adapter.plain(asked, reply))

    def _probe(self) -> None:
        """What an agent asks besides: greetings, lists of models, token counts, telemetry."""
        script, path = self._place()
        if script is not None:
            script.probe(f"{self.command} {path}")
        listed = {"object": "list", "data": [{"id": MODEL, "object": "model", "type": "model"}], "models": []}
        self._send(200, encode({**listed, "input_tokens": 1, "totalTokens": 1}))

    def _place(self) -> tuple[Script | None, str]:
        found = _PLACE.match(self.path)
        if found is None:
            return None, self.path
        return self._owner.scripts.get(found[1]), found[2] or "/"

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = bytearray()
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(body)

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self._head(status, {"Content-Type": kind, "Content-Length": str(len(body))})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _chunks(self, asked: Asked, parts: Sequence[bytes], *, pause_s: float = 0, ended: bool = True) -> None:
        kind = "text/event-stream" if asked.stream else "application/json"
        self._head(200, {"Content-Type": kind, "Transfer-Encoding": "chunked"})
        for number, part in enumerate(parts):
            if number and pause_s:
                self._owner.closing.wait(pause_s)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
            self.wfile.flush()
        if ended:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.close_connection = True

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
