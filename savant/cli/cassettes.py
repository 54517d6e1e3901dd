"""Cassettes at the command line: provider calls as they are, recorded into a folder, or played from one.

Only calls of the provider go through a cassette. Evaluators and formatters run for real, so that a replay measures its
candidate anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from commandprovider import CommandProvider, RecipeProvider, ResolvedConfig, ToolHost
from commandprovider.config import played_config
from commandprovider.documents import Config
from commandprovider.redaction import Redactor
from driver.recorder import PLAYED
from savant.cli.provision import ProviderFlags, Provision
from savant.contracts.document import Sealed, accept
from savant.contracts.errors import UsageError
from savant.process.cassette import Player, Recorder
from savant.process.cassettefolder import open_cassette
from savant.process.documents import Program

if TYPE_CHECKING:
    from providerport.port import Provider
    from savant.cli.agents import AgentFlags
    from savant.cli.workbench import Workbench
    from savant.process.port import ProcessRunner

CONFIG: Final = "provider-config"
OBJECTIVE: Final = "objective"


class TapeEnd(msgspec.Struct, frozen=True):
    """What became of a cassette: members for programs (None for no cassette), lines for a person, whether it is bad."""

    members: Mapping[str, Any] | None = None
    lines: tuple[str, ...] = ()
    failed: bool = False


class Tape:
    """Provider calls as they are: nothing is recorded and nothing is played."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench

    @property
    def processes(self) -> ProcessRunner:
        """What the provider's commands run with."""
        return self._bench.processes

    @property
    def recorded(self) -> Sealed[Config] | None:
        """The configuration that is played, None when none is."""
        return None

    @property
    def objective(self) -> str:
        """The task that is played, empty when none is."""
        return ""

    @property
    def remark(self) -> str:
        """What every record of the provider's host must say about the calls; empty for calls as they are."""
        return ""

    def describe(self, provision: Provision, objective: str) -> None:
        """Take what the run is about, before its first call."""

    def guard(self, factory: Callable[[], Provider]) -> Callable[[], Provider]:
        """The factory as the run uses it."""
        return factory

    def lines(self) -> Iterator[str]:
        """What the first screen says."""
        yield from ()

    def end(self) -> TapeEnd:
        """The run is over."""
        return TapeEnd()


class Recording(Tape):
    """Provider calls recorded into a new folder."""

    def __init__(self, bench: Workbench, folder: Path) -> None:
        super().__init__(bench)
        self._folder = folder
        self._recorder = Recorder(bench.processes, folder)

    @property
    def processes(self) -> ProcessRunner:
        """The recorder."""
        return self._recorder

    def describe(self, provision: Provision, objective: str) -> None:
        """Take the configuration and the task into the cassette."""
        self._recorder.describe(
            programs_of(provision.config),
            personal=personal_names(provision.config.sealed.document),
            attachments={CONFIG: provision.config.sealed.raw, OBJECTIVE: objective.encode("utf-8", "replace")},
            redaction=provision.redactor,
        )

    def lines(self) -> Iterator[str]:
        """Where the calls go."""
        yield f"recording every provider call into {self._folder}, without credentials"

    def end(self) -> TapeEnd:
        """Complete the cassette, unless a call could not be kept."""
        complete = self._recorder.finish()
        line = (
            f"recorded in the cassette {self._folder}"
            if complete
            else f"the cassette {self._folder} is NOT complete: a call could not be kept; it cannot be played"
        )
        return TapeEnd({"mode": "recorded", "folder": str(self._folder), "complete": complete}, (line,))


class Playing(Tape):
    """Provider calls answered from a cassette: no program of the provider is started."""

    def __init__(self, bench: Workbench, folder: Path) -> None:
        super().__init__(bench)
        self._folder = folder
        self._cassette = open_cassette(folder)
        self._player = Player(self._cassette, Redactor())
        self._recorded = accept(self._cassette.attachment(CONFIG), Config)

    @property
    def processes(self) -> ProcessRunner:
        """The player."""
        return self._player

    @property
    def recorded(self) -> Sealed[Config]:
        """The configuration that the cassette holds."""
        return self._recorded

    @property
    def objective(self) -> str:
        """The task that the cassette holds."""
        return self._cassette.attachment(OBJECTIVE).decode("utf-8", "replace")

    @property
    def remark(self) -> str:
        """That nothing was called."""
        return f"{PLAYED} ({self._cassette.sealed.digest})"

    def describe(self, provision: Provision, objective: str) -> None:  # noqa: ARG002 - the calls tell whether it fits
        """Take the configuration; the task is judged by the calls that it leads to."""
        self._player.describe(programs_of(provision.config))

    def guard(self, factory: Callable[[], Provider]) -> Callable[[], Provider]:
        """Providers behind the last door where a credential was taken out of the cassette: its mark is no content."""
        if not self._player.redacted:
            return factory
        from commandprovider.guard import GuardedProvider

        return lambda: GuardedProvider(factory(), Redactor())

    def lines(self) -> Iterator[str]:
        """That nothing is called, and what the cassette cannot give back."""
        yield f"provider: {PLAYED} ({self._folder})"
        for number, parts in self._player.redacted.items():
            yield f"WARNING: call {number} was recorded without a credential that stood in: {', '.join(parts)}"

    def end(self) -> TapeEnd:
        """What was not played."""
        missed, left = self._player.missed, self._player.left
        lines = []
        if missed is not None:
            lines += [f"THE CASSETTE DOES NOT FIT: {missed.message}", f"  {missed.untouched}", f"  next: {missed.fix}"]
        elif left:
            lines.append(f"the run ended before the cassette did: {left} recorded calls were not asked for")
        members = {
            "mode": "played",
            "folder": str(self._folder),
            "digest": self._cassette.sealed.digest,
            "missed": None if missed is None else missed.message,
            "left": left,
        }
        return TapeEnd(members, tuple(lines), missed is not None)


def tape_of(bench: Workbench, *, record: str | None, play: str | None) -> Tape:
    """The tape that the flags ask for.

    :raises UsageError: ``usage.cassette-both``, ``usage.cassette-exists``.
    :raises SavantError: for a cassette that cannot be played; nothing was called then.
    """
    if record is not None and play is not None:
        raise UsageError(
            "usage.cassette-both",
            "A run is recorded or played, not both.",
            untouched="Nothing was called.",
            fix="Leave --record-cassette or --cassette out.",
        )
    if record is not None:
        return Recording(bench, Path(record).absolute())
    if play is not None:
        return Playing(bench, Path(play).absolute())
    return Tape(bench)


def programs_of(config: ResolvedConfig) -> Mapping[str, Program]:
    """The configuration's executables as a cassette names them, by the path that is started."""
    return {
        str(config.executables[executable.name]): Program(
            name=executable.name, content_digest=executable.content_digest
        )
        for executable in config.sealed.document.executables
    }


def personal_names(config: Config) -> frozenset[str]:
    """The variables of a provider call that come from the person."""
    names = set(config.environment)
    if config.agent is not None:
        from commandprovider.profiles import PROFILES

        for source in PROFILES[config.agent.profile].sources:
            names |= {*source.also} if source.kind == "file" else {source.name, source.target, *source.also}
    return frozenset(names)


def provide_played(flags: ProviderFlags, host: ToolHost, recorded: Sealed[Config]) -> Provision:
    """The provider that a cassette holds, where the person named none, or an agent, which is not looked for.

    :raises UsageError: ``usage.cassette-config``, ``usage.cassette-agent``; ``usage.cassette-import`` for an import,
        whose change is not in the cassette.
    """
    document = recorded.document
    if flags.agent is not None:
        verify_agent_flags(flags.agent, document)
    config = played_config(recorded)
    words = " ".join(dict.fromkeys((document.provider_kind, document.provider)))
    match document.provider_kind:
        case "recipe":
            return Provision(config, lambda: RecipeProvider(config, host), None, words)
        case "command":
            return Provision(config, lambda: CommandProvider(config, host), None, words)
        case "agent":
            from commandprovider.bridge import AgentProvider
            from commandprovider.played import played_agent
            from savant.cli.agents import agent_warnings, agent_words

            agent = played_agent(recorded)
            return Provision(
                agent.config,
                lambda: AgentProvider(agent, host),
                None,
                agent_words(agent),
                warnings=agent_warnings(agent),
            )
        case _:
            raise UsageError(
                "usage.cassette-import",
                "The cassette was recorded with an import, and does not hold the change.",
                untouched="Nothing was called.",
                fix="Name the change too: --from-commit or --patch.",
            )


def verify_agent_flags(flags: AgentFlags, recorded: Config) -> None:
    """Refuse another agent, mode or model than the recorded one; what was not typed is as it was.

    :raises UsageError: ``usage.cassette-config``.
    """
    agent = recorded.agent
    asked = {"agent": flags.name, "mode": flags.mode, "model": flags.model}
    known = {} if agent is None else {"agent": agent.profile, "mode": agent.capability, "model": agent.model}
    _refuse_other([name for name, value in asked.items() if value is not None and value != known.get(name)])


def verify_recorded(made: Config, recorded: Config) -> None:
    """Refuse a provider that differs from the recorded one.

    :raises UsageError: ``usage.cassette-config``.
    """
    _refuse_other([name for name in made.__struct_fields__ if getattr(made, name) != getattr(recorded, name)])


def _refuse_other(names: list[str]) -> None:
    if names:
        raise UsageError(
            "usage.cassette-config",
            f"The provider is not the one in the cassette; different: {', '.join(names)}.",
            untouched="Nothing was called and nothing was recorded.",
            fix="Leave the provider's flags out, or write them as they were.",
        )
