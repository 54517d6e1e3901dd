"""What an agent told over the Agent Client Protocol, and what it means. Pure.

A turn has an end that the agent names (``stopReason``) or an error of the protocol; only ``end_turn`` is a success, and
message text is an answer only then. An agent that ends without either is judged by how its process ended. One that
named the end of its turn has done its part: that it then lingers, and how it goes, is no failure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NoReturn

import msgspec

from commandprovider.envelopes import count_of, microunits_of, scalar_text, values_at
from commandprovider.profiles.model import OUTCOMES, Profile
from commandprovider.reading import LAST_STDERR_BYTES, MAX_DETAIL, Said, classify, refuse_verdict
from providerport.port import ProviderFailure, Usage
from savant.process.port import Ended
from synthesis.documents import FailureKind

STOPS: Final[Mapping[str, FailureKind | None]] = MappingProxyType(
    {
        "end_turn": None,
        "max_tokens": "output-too-long",
        "max_turn_requests": "turn-limit",
        "refusal": "denied",
        "cancelled": "cancelled",
    }
)
"""The ways in which a turn ends, and the kind of failure that each is; None for none."""

TOKENS_IN: Final = (
    ("usage.inputTokens", "usage.cachedReadTokens", "usage.cachedWriteTokens"),
    ("_meta.quota.token_count.input_tokens",),
)
"""Members of the answer to a prompt; the first group of which one is there is added up."""

TOKENS_OUT: Final = (
    ("usage.outputTokens", "usage.thoughtTokens"),
    ("_meta.quota.token_count.output_tokens",),
)
CACHED: Final = (("usage.cachedReadTokens",),)


class Problem(msgspec.Struct, frozen=True):
    """An error of the protocol, as the agent sent it. ``data`` is decoded JSON."""

    code: int
    message: str
    data: Any


class Told(msgspec.Struct):
    """What was told in a conversation so far.

    :param stop: the reason that the agent named for the end of the turn, None before it did.
    :param problem: the error that it answered with.
    :param fault: what it said that the protocol does not allow, with the kind of failure that this is.
    :param parts: the text of the last message of the turn.
    :param result: its answer to the prompt, decoded.
    :param cost: what it says the session cost, decoded; ``currency`` tells of what.
    """

    stop: str | None = None
    problem: Problem | None = None
    fault: tuple[FailureKind, str] | None = None
    parts: list[str] = msgspec.field(default_factory=list)
    session: str | None = None
    result: Mapping[str, Any] = MappingProxyType({})
    cost: object = None
    currency: str = ""

    @property
    def text(self) -> str:
        """The last message of the turn; an answer only when the turn ended well."""
        return "".join(self.parts)

    def usage(self) -> Usage:
        """What the turn used, None for what is not told."""
        return Usage(
            tokens_in=_added(self.result, TOKENS_IN),
            tokens_out=_added(self.result, TOKENS_OUT),
            cost_microunits=microunits_of(self.cost) if self.currency == "USD" else None,
            tokens_cached=_added(self.result, CACHED),
        )


def _added(result: Mapping[str, Any], groups: tuple[tuple[str, ...], ...]) -> int | None:
    for group in groups:
        found = [
            number for path in group for value in values_at(result, path) if (number := count_of(value)) is not None
        ]
        if found:
            return sum(found)
    return None


def read_told(profile: Profile, told: Told, ended: Ended) -> Said:
    """What the agent said in a turn that ended well.

    :raises ProviderFailure: with outcome and failure kind, for everything else.
    """
    if told.stop is None or ended.verdict not in {"exited", "signaled"}:
        _refuse_verdict(profile, told, ended)
    if told.problem is not None:
        _refuse(_kind_of(profile, told.problem), profile, _words(told.problem), ended)
    if told.fault is not None:
        _refuse(told.fault[0], profile, told.fault[1], ended)
    if told.stop is None:
        _refuse_silence(profile, ended)
    kind = STOPS.get(told.stop, "malformed-output")
    if kind is not None:
        _refuse(kind, profile, f"its turn ended with {told.stop!r}.", ended)
    usage = told.usage()
    return Said(
        text=told.text,
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        cached=usage.tokens_cached,
        cost_microunits=usage.cost_microunits,
        session=told.session,
    )


def _refuse_verdict(profile: Profile, told: Told, ended: Ended) -> None:
    """Refuse by the supervisor's verdict; the end of a process that had told its failure is no other one."""
    if ended.verdict == "signaled" and (told.problem is not None or told.fault is not None):
        return
    refuse_verdict(profile, ended)


def _refuse_silence(profile: Profile, ended: Ended) -> NoReturn:
    """Refuse an agent that ended before it named the end of its turn."""
    said = ended.stderr.decode("utf-8", "replace")
    for rule in profile.failures:
        is_status = rule.where == "exit-status" and re.fullmatch(rule.match, str(ended.exit_status))
        if is_status or (rule.where == "stderr" and re.search(rule.match, said, re.MULTILINE)):
            _refuse(rule.kind, profile, f"it ended with exit status {ended.exit_status}.", ended)
    if ended.exit_status == 0:
        _refuse("malformed-output", profile, "exit status 0, and its turn was not ended.", ended)
    _refuse("crash", profile, f"it ended with exit status {ended.exit_status} in the midst of its turn.", ended)


def _kind_of(profile: Profile, problem: Problem) -> FailureKind:
    """The kind by the error's members and its texts; some agents put the telling one into its data."""
    error = {"code": problem.code, "message": problem.message, "data": problem.data}
    event = {**error, "error": error}  # some agents report the same error where they speak no protocol
    members = {}
    for rule in profile.failures:
        if rule.where == "event":
            for value in values_at(event, rule.path):
                members[rule.path] = _name(value)
    inner = _inner(problem)
    text = f"{problem.message}\n{inner}" if inner else problem.message
    return classify(profile, text, members)


def _name(value: object) -> str:
    """A scalar as text; of an object with one member, which is how some name a variant with details, that name."""
    if isinstance(value, dict) and len(value) == 1:
        return str(next(iter(value)))
    return scalar_text(value) or ""


def _inner(problem: Problem) -> str:
    text = problem.data.get("message") if isinstance(problem.data, dict) else None
    return text if isinstance(text, str) else ""


def _words(problem: Problem) -> str:
    inner = _inner(problem)
    more = f": {inner}" if inner and inner not in problem.message else ""
    return f"it answered with error {problem.code}: {problem.message}{more}"


def _refuse(kind: FailureKind, profile: Profile, what: str, ended: Ended) -> NoReturn:
    detail = f"{profile.title}: {what}"[:MAX_DETAIL]
    if kind == "crash":
        last = ended.stderr[-LAST_STDERR_BYTES:].decode("utf-8", "replace").strip()
        detail = f"{detail}\n{last}" if last else detail
    raise ProviderFailure(OUTCOMES[kind], kind, detail)
