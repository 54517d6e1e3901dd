"""What a profile says about an agent's command line: data that other modules render, read and probe by.

A profile holds no code and no path of any machine. Three small languages are in it:

- *Templates*: ``{model}`` in a text is replaced by a value; see :data:`Placeholder`. A group of words, a variable or a
  settings file that names a value which is not there is left out as a whole, so the agent's own default holds.
- *Paths* into JSON: member names joined by dots, ``*`` for every member of an object or list.
- *Patterns*: regular expressions. They are searched in texts that the agent wrote about its own failure, never in what
  a model said or could have repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec

from synthesis.documents import FailureKind

Capability: TypeAlias = Literal["answer", "workspace", "acp"]
"""How an agent is driven: it answers with text, it edits a copy, or it speaks the Agent Client Protocol."""

Tier: TypeAlias = Literal["first-class", "example"]

Placeholder: TypeAlias = Literal[
    "model", "base_url", "schema", "schema_file", "answer_file", "prompt_file", "prompt", "home", "budget_usd"
]
"""``schema`` is the JSON Schema as compact text and ``schema_file`` a file that holds it; ``answer_file`` is where the
agent is told to write; ``prompt_file`` holds what standard input holds; ``prompt`` is for agents that read neither;
``home`` is the private HOME; ``budget_usd`` is what the call may cost, as a decimal. All paths are inside
the sandbox."""

Flag: TypeAlias = Literal["contained", "readable"]
"""``contained``: the sandbox holds the agent, so it may run commands and needs no sandbox of its own; ``readable``: the
working directory holds the repository's files, to be read and not to be changed (``answer``)."""

Where: TypeAlias = Literal["event", "error", "exit-status", "stderr", "stdout"]
"""What a failure rule looks at: one member of the terminal event, its error texts, the exit status, standard error, or
(only for agents that report failures nowhere else) standard output."""

RETRYABLE: Final[frozenset[FailureKind]] = frozenset(
    {"rate-limited", "overloaded", "bad-gateway", "network", "timeout"}
)
"""Kinds where the same call may succeed later; every other kind fails again or needs a person."""

OUTCOMES: Final[Mapping[FailureKind, str]] = MappingProxyType(
    {
        "rate-limited": "unavailable",
        "overloaded": "unavailable",
        "auth": "unavailable",
        "bad-request": "unavailable",
        "context-overflow": "unavailable",
        "output-too-long": "invalid-output",
        "bad-gateway": "unavailable",
        "network": "unavailable",
        "malformed-output": "invalid-output",
        "turn-limit": "unavailable",
        "budget": "unavailable",
        "denied": "unavailable",
        "no-change": "invalid-output",
        "timeout": "timed-out",
        "cancelled": "cancelled",
        "config-error": "unavailable",
        "crash": "unavailable",
    }
)
"""The outcome of a call for each failure kind."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where a credential may come from, and how it reaches the agent. Values are never part of a profile.

    :param kind: ``environment``: the variable ``name``; ``file``: the file ``name`` below the person's HOME; ``cloud``:
        the variable ``name`` switches a cloud provider on, whose credentials are ``also`` and ``files``.
    :param target: the variable, or the file below the private HOME, that the agent reads.
    :param help: the command that supplies it.
    :param also: variables that go along where they are set; likewise ``files``, below HOME.
    :param billing: ``subscription`` makes a reported cost notional.
    """

    kind: Literal["environment", "file", "cloud"]
    name: str
    target: str
    help: str
    also: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    billing: Literal["metered", "subscription"] = "metered"


class Failure(msgspec.Struct, frozen=True):
    """One failure rule; the first that matches decides.

    :param match: a pattern, which must match all of an exit status or event member, or be found in a text.
    :param path: the member of the terminal event, for ``event``.
    """

    where: Where
    match: str
    kind: FailureKind
    path: str = ""


class Words(msgspec.Struct, frozen=True):
    """Arguments that stand or go together: left out when a placeholder in one of them has no value.

    :param given: flags that must be up for them; likewise ``without``: flags that must not be.
    """

    words: tuple[str, ...]
    given: tuple[Flag, ...] = ()
    without: tuple[Flag, ...] = ()


class Setting(msgspec.Struct, frozen=True):
    """A file that an agent reads, below the private HOME; its content is a template.

    :param given: as in :class:`Words`; likewise ``without``.
    """

    path: str
    content: str
    given: tuple[Flag, ...] = ()
    without: tuple[Flag, ...] = ()


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """How a session of a protocol begins.

    :param mode: the session mode that is set; empty leaves the agent its own.
    :param meta: what its request carries for this agent alone, as JSON; empty for nothing.
    :param serves_reads: whether reads are served over the protocol; an agent that does not understand that a file is
        not there reads its working directory, which holds the same.
    :param given: as in :class:`Words`; likewise ``without``.
    """

    mode: str = ""
    meta: str = ""
    serves_reads: bool = True
    given: tuple[Flag, ...] = ()
    without: tuple[Flag, ...] = ()


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent is started for one capability. The executable is not part of ``argv``.

    :param settings: files written into the private HOME.
    :param environment: variables and templates, beside those that every command gets.
    :param stdin: ``prompt``: standard input is a regular file with the prompt; ``nothing``: it is empty; ``protocol``:
        messages go both ways.
    :param openings: for ``protocol``: the first whose flags are right is how the session begins.
    """

    argv: tuple[Words, ...]
    settings: tuple[Setting, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    stdin: Literal["prompt", "nothing", "protocol"] = "prompt"
    openings: tuple[Opening, ...] = ()


class Is(msgspec.Struct, frozen=True):
    """Whether the scalar at a path is one value, as JSON without quotes; a negated test needs the member too."""

    path: str
    value: str
    negated: bool = False


class Pick(msgspec.Struct, frozen=True):
    """A value out of a run's events: those that pass every test of ``of``, then ``path`` in them.

    :param take: the ``last`` one, all texts ``joined``, or the ``sum`` of numbers.
    """

    path: str
    of: tuple[Is, ...] = ()
    take: Literal["last", "joined", "sum"] = "last"


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """How an answer is found in what an agent wrote.

    :param form: ``json-object``: standard output is one object; ``json-lines``: one object a line; ``json-file``: the
        answer file is one object; ``text``: standard output is the answer.
    :param terminal: an event that passes one of these ends the run (``text``: see ``terminal_pattern``).
    :param required: members without which a terminal event is not well formed.
    :param failed: a terminal event that passes one of these reports a failure.
    :param errors: members of the terminal event that hold what a failure rule for ``error`` looks at.
    :param error_object: ``stderr``: a failure is reported by the last JSON object of standard error instead.
    :param tokens_in: these are added up, what was read from a cache included; likewise ``tokens_out``, ``cached`` and
        ``cost`` (US dollars).
    :param terminal_pattern: for ``text``: what must be found, in the stream ``terminal_stream``; its groups
        ``tokens_in``, ``tokens_out`` and ``answer`` are what they say.
    """

    form: Literal["json-object", "json-lines", "json-file", "text"]
    terminal: tuple[Is, ...] = ()
    required: tuple[str, ...] = ()
    failed: tuple[Is, ...] = ()
    errors: tuple[str, ...] = ()
    error_object: Literal["none", "stderr"] = "none"
    answer: Pick | None = None
    structured: Pick | None = None
    session: Pick | None = None
    tokens_in: tuple[Pick, ...] = ()
    tokens_out: tuple[Pick, ...] = ()
    cached: tuple[Pick, ...] = ()
    cost: tuple[Pick, ...] = ()
    terminal_pattern: str = ""
    terminal_stream: Literal["stdout", "stderr"] = "stdout"


class Probe(msgspec.Struct, frozen=True):
    """How an agent says its version, and which versions this profile was tested with.

    :param pattern: its group ``version`` is two or three numbers with dots; searched in standard output.
    :param tested: the release line that was tested: its first version that was, and the first one after the line. The
        golden files name the exact versions.
    :param stdin: the line that it is asked in a conversation; empty for an agent that prints its version and ends.
    :param deadline_ms: how long it may take.
    """

    argv: tuple[str, ...]
    pattern: str
    tested: tuple[str, str]
    stdin: str = ""
    deadline_ms: int = 30_000


class Native(msgspec.Struct, frozen=True):
    """The program behind an npm wrapper; started directly, because killing a wrapper leaves it alive.

    :param package: the npm package that the wrapper belongs to.
    :param binary: below a ``node_modules``: a path with ``*``, ``{os}`` (``linux``) and ``{arch}`` (``x64``).
    """

    package: str
    binary: str


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One agent.

    :param executable: the name that is looked up on the PATH.
    :param native: None where the executable itself is started.
    :param answer: None where the agent cannot do it; likewise ``workspace`` and ``acp``.
    :param own_retries: how often the agent itself repeats a request once bounded; None where it cannot be bounded.
    :param network_hosts: what it asks for by itself when no base URL is configured.
    :param install: the command that installs a tested version.
    """

    name: str
    title: str
    tier: Tier
    executable: str
    native: Native | None
    probe: Probe
    answer: Invocation | None
    workspace: Invocation | None
    acp: Invocation | None
    reader: Reader | None
    failures: tuple[Failure, ...]
    sources: tuple[Source, ...]
    network_hosts: tuple[str, ...]
    own_retries: int | None
    reports_usage: bool
    reports_cost: bool
    install: str

    @property
    def capabilities(self) -> tuple[Capability, ...]:
        """What the agent can be driven by."""
        named: tuple[tuple[Capability, Invocation | None], ...] = (
            ("answer", self.answer),
            ("workspace", self.workspace),
            ("acp", self.acp),
        )
        return tuple(name for name, invocation in named if invocation is not None)
