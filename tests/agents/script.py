"""What a test makes the model say: steps, taken one for each request, and the log of what was asked.

A script lives under ``/s/<name>/`` of the server, so any number of agents can be served at once and no test changes
what another one hears. A step may also be a function of the request.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from tests.agents.toolbox import Tool

Stop: TypeAlias = Literal["end", "length"]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request for an answer.

    :param protocol: the adapter's name: ``anthropic``, ``responses``, ``chat`` or ``gemini``.
    :param tools: the tools on offer, each with the names of its parameters; None for a tool that takes plain text.
    :param body: the whole request.
    """

    protocol: str
    path: str
    headers: Mapping[str, str]
    model: str
    stream: bool
    tools: Mapping[str, tuple[str, ...] | None]
    body: Mapping[str, Any]

    @property
    def prompt(self) -> str:
        """Everything the model would read, in order: instructions, messages, results of tools."""
        return "\n".join(_texts(self.body))


_READ: Final = ("system", "systemInstruction", "instructions", "messages", "input", "contents")
_TEXT: Final = frozenset({"text", "content", "output", "instructions", "system"})


def _texts(body: Mapping[str, Any]) -> Iterable[str]:
    for name in _READ:
        yield from _walk(name, body.get(name))


def _walk(name: str, value: object) -> Iterable[str]:
    match value:
        case str() if name in _TEXT or name == "input":
            yield value
        case list():
            for item in value:
                yield from _walk(name, item)
        case dict():
            for key, item in value.items():
                yield from _walk(key, item)
        case _:
            return


class Say(msgspec.Struct, frozen=True):
    """The model says this; ``length`` cuts it off at the token limit."""

    text: str
    stop: Stop = "end"


class Structured(msgspec.Struct, frozen=True):
    """The model answers with a JSON value: through the tool an agent offers for that, else as text."""

    value: Any


class Use(msgspec.Struct, frozen=True):
    """The model uses a tool, under the name and with the parameters that the agent offers it."""

    tool: Tool
    text: str = ""


class Fail(msgspec.Struct, frozen=True):
    """The service answers with an HTTP error in the protocol's own envelope."""

    status: int
    kind: str
    message: str


class Overflow(msgspec.Struct, frozen=True):
    """The service says that the prompt does not fit, in the protocol's own words."""


class Truncated(msgspec.Struct, frozen=True):
    """Half of an answer comes: then the ``connection`` breaks, or the ``body`` ends as if that were all."""

    text: str
    breaks: Literal["connection", "body"] = "connection"


class Garbled(msgspec.Struct, frozen=True):
    """Status 200 with a body that is none."""

    body: str = "<html>a proxy had something to say</html>"


class Slow(msgspec.Struct, frozen=True):
    """The answer comes in pieces, ``pause_s`` apart."""

    text: str
    pause_s: float = 0.05
    pieces: int = 8


class Silent(msgspec.Struct, frozen=True):
    """Nothing comes, and the connection stays open."""


Step: TypeAlias = Say | Structured | Use | Fail | Overflow | Truncated | Garbled | Slow | Silent
Planned: TypeAlias = Step | Callable[[Asked], Step]


class Script:
    """The steps of one conversation and the log of its requests.

    :param steps: taken in order; the last one is repeated when ``forever``, else another request is a problem.
    :param aside: which requests are not part of the conversation, such as one for its title; they take no step.

    Thread-safe.
    """

    def __init__(
        self,
        name: str,
        steps: Sequence[Planned],
        *,
        forever: bool = False,
        aside: Callable[[Asked], bool] = lambda _: False,
    ) -> None:
        self.name = name
        self.requests: list[Asked] = []
        self.probes: list[str] = []
        self.problems: list[str] = []
        self._steps = deque(steps)
        self._forever = forever
        self._aside = aside
        self._changed = threading.Condition()

    def take(self, asked: Asked) -> Step:
        """Log a request; the step it gets."""
        if self._aside(asked):
            self.probe(f"{asked.protocol} aside")
            return Say("An aside")
        with self._changed:
            self.requests.append(asked)
            self._changed.notify_all()
            if not self._steps:
                self.problem(f"request {len(self.requests)} came after the last step")
                return Fail(400, "invalid_request_error", "the script is at its end")
            planned = self._steps[0] if self._forever and len(self._steps) == 1 else self._steps.popleft()
        return planned(asked) if callable(planned) else planned

    def probe(self, line: str) -> None:
        """Log a request that asks for no answer."""
        self.probes.append(line)

    def problem(self, text: str) -> None:
        """Log what the script cannot do; a test fails by it."""
        self.problems.append(f"{self.name}: {text}")

    def wait_for(self, count: int, timeout_s: float) -> bool:
        """Whether so many requests have come in time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.requests) >= count, timeout_s)

    @property
    def left(self) -> int:
        """Steps that nobody asked for; the one that is repeated does not count."""
        return len(self._steps) - (1 if self._forever else 0)
