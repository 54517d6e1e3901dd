"""Real agents, asked for an answer: what the model's service does becomes the right failure kind, or the answer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Final

import msgspec
import pytest

from commandprovider.reading import document_in
from providerport.port import ProviderFailure
from savant.process.effects import ThreadCancellation
from synthesis.documents import FailureKind
from tests.agents.installed import in_full
from tests.agents.modelserver import ModelServer
from tests.agents.protocols.adapter import Usage
from tests.agents.rawkit import Driver
from tests.agents.script import Fail, Garbled, Overflow, Say, Script, Silent, Slow, Step, Structured, Truncated

pytestmark = pytest.mark.slow

FIRST: Final = ("claude", "codex")
EVERY: Final = (*FIRST, "gemini")
PROMPT: Final = "Say what is asked for.\n"
ANSWER: Final = '{"steps": [{"id": "one"}]}'
LONG: Final = json.dumps({"words": [f"word {number}" for number in range(15_200)]})


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What the service does, and the kind that it is.

    :param otherwise: where an agent tells it differently. :param slow: agents that only ``make test-agents`` asks;
        the default suite asks them through the product.
    """

    name: str
    step: Step
    kind: FailureKind
    otherwise: dict[str, FailureKind] = {}
    agents: tuple[str, ...] = EVERY
    slow: tuple[str, ...] = ("gemini",)


FAILURES: Final = (
    Case(name="429", step=Fail(429, "rate_limit_error", "slow down"), kind="rate-limited", slow=EVERY),
    Case(name="500", step=Fail(500, "api_error", "it broke"), kind="overloaded", slow=EVERY),
    Case(name="529", step=Fail(529, "overloaded_error", "Overloaded"), kind="overloaded", slow=EVERY),
    Case(name="401", step=Fail(401, "authentication_error", "no such key"), kind="auth", slow=EVERY),
    Case(name="403", step=Fail(403, "permission_error", "not for you"), kind="auth", slow=EVERY),
    Case(name="400", step=Fail(400, "invalid_request_error", "what is that"), kind="bad-request"),
    Case(name="overflow", step=Overflow(), kind="context-overflow", slow=EVERY),
    Case(name="length", step=Say("half of an ans", "length"), kind="output-too-long", agents=FIRST),
    Case(name="empty", step=Say(""), kind="malformed-output", slow=EVERY),
    Case(name="no-json", step=Garbled(), kind="bad-gateway"),
    Case(name="truncated", step=Truncated(LONG, "body"), kind="bad-gateway", slow=EVERY),
    Case(
        name="broken",
        step=Truncated(LONG),
        kind="bad-gateway",
        otherwise={"claude": "network", "gemini": "network"},
    ),
)
for_each_failure = pytest.mark.parametrize(
    ("agent", "case"),
    [
        pytest.param(name, case, id=f"{name}-{case.name}", marks=in_full if name in case.slow else ())
        for case in FAILURES
        for name in case.agents
    ],
    indirect=["agent"],
)
first = pytest.mark.parametrize("agent", FIRST, indirect=True)
every = pytest.mark.parametrize("agent", EVERY, indirect=True)


def fails(kind: FailureKind, driver: Driver, url: str, **how: object) -> ProviderFailure:
    """The failure of a run, which is of that kind."""
    run = driver.run(url, PROMPT, **how)  # type: ignore[arg-type]
    assert run.ended.is_quiescent
    with pytest.raises(ProviderFailure) as caught:
        run.said()
    assert caught.value.failure_kind == kind, (caught.value.detail, run.ended.stdout[-2000:], run.ended.stderr[-2000:])
    return caught.value


@every
def test_an_answer_and_what_it_cost(driver: Driver, model_server: ModelServer, script: Callable[..., Script]) -> None:
    """The agent asks once, offers no tool that changes anything, and its answer and usage are read."""
    one = script(Say(ANSWER))
    said = driver.run(model_server.url(one), PROMPT).said()
    told = Usage()
    assert document_in(said) == ANSWER.encode()
    assert (said.tokens_in, said.tokens_out, said.cached) == (told.tokens_in, told.tokens_out, told.cached)
    assert (said.cost_microunits is not None) is driver.profile.reports_cost
    assert said.session
    (asked,) = one.requests
    assert PROMPT.strip() in asked.prompt
    assert set(asked.tools) <= {"DeferredToolPlaceholder", "request_user_input"}


@for_each_failure
def test_a_failure_gets_its_kind(
    driver: Driver, case: Case, model_server: ModelServer, script: Callable[..., Script]
) -> None:
    """What the service does for as long as the agent asks is told by kind, and the agent soon stops asking."""
    one = script(case.step, forever=True)
    fails(case.otherwise.get(driver.profile.name, case.kind), driver, model_server.url(one))
    assert 1 <= len(one.requests) <= 6


@first
def test_an_agent_gets_over_one_failure(
    driver: Driver, model_server: ModelServer, script: Callable[..., Script]
) -> None:
    """The one repetition that is left to the agent is enough for a hiccup."""
    one = script(Fail(500, "api_error", "it broke"), Say(ANSWER))
    assert driver.run(model_server.url(one), PROMPT).said().text == ANSWER


@first
def test_nobody_listens(driver: Driver) -> None:
    """A refused connection is the network's failure."""
    with socket.socket() as mine:
        mine.bind(("127.0.0.1", 0))
        fails("network", driver, f"http://127.0.0.1:{mine.getsockname()[1]}/s/nobody")


@first
def test_a_fence_is_taken_off_and_prose_is_not(
    driver: Driver, model_server: ModelServer, script: Callable[..., Script]
) -> None:
    """One fence around the JSON is no harm; words around it are no answer."""
    fenced = script(Say(f"```json\n{ANSWER}\n```"))
    assert document_in(driver.run(model_server.url(fenced), PROMPT).said()) == ANSWER.encode()
    prose = script(Say(f"Here you are:\n```json\n{ANSWER}\n```\nCheers."))
    said = driver.run(model_server.url(prose), PROMPT).said()
    with pytest.raises(ProviderFailure) as caught:
        document_in(said)
    assert (caught.value.outcome, caught.value.failure_kind) == ("invalid-output", "malformed-output")


@in_full
@first
def test_a_long_answer_is_whole(driver: Driver, model_server: ModelServer, script: Callable[..., Script]) -> None:
    """More than a pipe holds arrives to the last byte."""
    assert len(LONG) > 200_000
    one = script(Say(LONG))
    assert driver.run(model_server.url(one), PROMPT).said().text == LONG


@first
def test_a_slow_answer_is_whole(driver: Driver, model_server: ModelServer, script: Callable[..., Script]) -> None:
    """Pieces that come one by one are one answer."""
    one = script(Slow(ANSWER))
    assert driver.run(model_server.url(one), PROMPT).said().text == ANSWER


@first
def test_a_schema_reaches_the_model(driver: Driver, model_server: ModelServer, script: Callable[..., Script]) -> None:
    """The schema is in the request, in the agent's own way; a model that ignores it is found out by the product."""
    schema = {
        "type": "object",
        "properties": {"colour": {"type": "string"}},
        "required": ["colour"],
        "additionalProperties": False,
    }
    one = script(Structured({"colour": "red"}))
    said = driver.run(model_server.url(one), PROMPT, schema=json.dumps(schema)).said()
    assert json.loads(document_in(said)) == {"colour": "red"}
    assert "colour" in json.dumps([one.requests[0].body.get("tools"), one.requests[0].body.get("text")])


@in_full
@first
def test_a_silent_service_ends_at_the_deadline(
    driver: Driver, model_server: ModelServer, script: Callable[..., Script]
) -> None:
    """The product's own deadline ends an agent that waits; nothing of it is left."""
    one = script(Silent(), forever=True)
    failure = fails("timeout", driver, model_server.url(one), wall_ms=3000)
    assert failure.outcome == "timed-out"


@first
def test_a_cancelled_answer_leaves_nothing(
    driver: Driver, model_server: ModelServer, script: Callable[..., Script]
) -> None:
    """Somebody who no longer wants the answer gets no process for it."""
    one = script(Silent(), forever=True)
    cancellation = ThreadCancellation()

    def cancel() -> None:
        one.wait_for(1, 60)
        cancellation.set()

    waiting = threading.Thread(target=cancel)
    waiting.start()
    failure = fails("cancelled", driver, model_server.url(one), cancellation=cancellation)
    waiting.join()
    assert failure.outcome == "cancelled"
