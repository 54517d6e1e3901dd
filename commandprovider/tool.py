"""Running one foreign command for a provider: private HOME and TMPDIR, an allowlisted environment, limits, the truth
about what was left behind. Success is decided in this order: supervisor verdict, exit status, and only then output.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final, assert_never

import msgspec
from msgspec.structs import replace

from commandprovider.config import ResolvedConfig, verify_executables
from commandprovider.redaction import Redactor
from commandprovider.secrets import NO_SECRETS, Secrets, write_files
from providerport.port import Call, ProviderFailure
from savant.contracts.containment import Demand
from savant.contracts.errors import SavantError
from savant.files.atomic import remove_tree
from savant.process.environment import allowed_environment
from savant.process.port import Command, Ended, Limits, ProcessRunner, Sandbox, Talk
from savant.process.view import Sight, at_their_paths, confined, containment_of

MAX_STDERR_LINE: Final = 2_000
MAX_PATH: Final = 4_096
GRACE_MS: Final = 500
MAX_FILE_BYTES: Final = 1024 * 1024 * 1024
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""The longest message of a protocol: a file that it writes is in one."""
NO_CACHES: Final = MappingProxyType({"RUFF_NO_CACHE": "true", "MYPY_CACHE_DIR": "/dev/null"})
"""Tools that would leave a cache in the working directory, where it would become part of the candidate."""


class ToolHost(msgspec.Struct, frozen=True):
    """What a provider may use of the machine.

    :param scratch: a private directory outside the repository, for homes and empty working directories.
    :param ambient: the person's environment; only the names that the configuration lists are taken from it.
    :param search_path: the PATH a command gets, folders separated by colons.
    :param secrets: what a call gets of the person's credentials; nothing for tools that call nobody.
    :param redactor: takes these, and whatever a name says is a secret, out of everything that a command wrote.
    :param sight: what commands see of the person's machine. :param demanded: the least containment they run with.
    """

    processes: ProcessRunner
    scratch: Path
    ambient: Mapping[str, str]
    search_path: str
    secrets: Secrets = NO_SECRETS
    redactor: Redactor = msgspec.field(default_factory=Redactor)
    sight: Sight = Sight()
    demanded: Demand = Demand()

    @contextmanager
    def private_directory(self, prefix: str) -> Iterator[Path]:
        """A fresh directory that is gone afterwards."""
        self.scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory = Path(tempfile.mkdtemp(prefix=prefix, dir=self.scratch))
        try:
            yield directory
        finally:
            remove_tree(directory)


def run_tool(
    host: ToolHost, config: ResolvedConfig, call: Call, argv: Sequence[str], *, cwd: Path, stdin: bytes = b""
) -> Ended:
    """Run one command of the configuration to its end, with a home that is gone afterwards.

    :raises ProviderFailure: when it did not end by itself with an exit status: ``timed-out``, ``cancelled``,
        ``invalid-output`` (too much output) or ``unavailable`` (crash, not started, or something of it is still alive).
    """
    with new_home(host) as home:
        ended = run_at_home(host, config, call, config_command(config, argv), cwd=cwd, home=home, stdin=stdin)
    _refuse_verdict(ended, argv[0])
    return ended


@contextmanager
def new_home(host: ToolHost) -> Iterator[Path]:
    """A private HOME with the call's login files and a folder ``tmp`` for TMPDIR; gone afterwards.

    :raises ProviderFailure: ``unavailable``/``config-error`` when none can be made.
    """
    with ExitStack() as stack:
        try:
            home = stack.enter_context(host.private_directory("home-"))
            (home / "tmp").mkdir(mode=0o700)
            write_files(host.secrets, home)
        except (SavantError, OSError) as error:
            raise ProviderFailure("unavailable", "config-error", f"No private home can be made: {error}") from error
        yield home


def config_command(config: ResolvedConfig, argv: Sequence[str]) -> tuple[str, ...]:
    """The argv with the absolute path of an executable that still is what was hashed when the run began.

    :raises ProviderFailure: ``unavailable``/``config-error``.
    """
    try:
        verify_executables(config)
        return config.command(argv)
    except SavantError as error:
        raise ProviderFailure("unavailable", "config-error", str(error)) from error


def run_at_home(
    host: ToolHost,
    config: ResolvedConfig,
    call: Call,
    argv: Sequence[str],
    *,
    cwd: Path,
    home: Path,
    stdin: bytes = b"",
    extra: Mapping[str, str] = MappingProxyType({}),
    reads: bool = False,
    talk: Talk | None = None,
) -> Ended:
    """Run one command, its executable resolved, in a home of the caller's; how it ended is the caller's to judge.

    :param home: a private folder with a folder ``tmp`` in it.
    :param extra: variables beside those that every command gets.
    :param reads: whether it may only read ``cwd``.
    :param talk: holds a conversation with it, instead of an input.
    :raises ProviderFailure: ``unavailable`` when it could not be run at all, or when something of it is still alive.
    """
    document = config.sealed.document
    try:
        sandbox = _sandbox(host, config, argv, cwd, home, reads=reads)
        command = Command(
            argv=tuple(argv),
            cwd=cwd,
            sandbox=sandbox,
            env=allowed_environment(
                host.ambient,
                document.environment,
                home,
                home / "tmp",
                {
                    **NO_CACHES,
                    "PATH": host.search_path,
                    "GIT_CEILING_DIRECTORIES": str(cwd.parent),
                    **extra,
                    **dict(host.secrets.variables),
                },
            ),
            limits=Limits(
                wall_ms=call.request.document.deadline_ms,
                stdout_bytes=document.max_stdout_bytes,
                stderr_bytes=document.max_stderr_bytes,
                grace_ms=GRACE_MS,
                file_bytes=MAX_FILE_BYTES,
                line_bytes=None if talk is None else MAX_LINE_BYTES,
            ),
            stdin=stdin,
        )
        if talk is None:
            ended = host.processes.run(command, call.cancellation)
        else:
            ended = host.processes.converse(command, talk, call.cancellation)
    except SavantError as error:
        raise ProviderFailure("unavailable", "config-error", str(error)) from error
    ended = replace(
        ended, stdout=by_short_names(ended.stdout, cwd, home), stderr=by_short_names(ended.stderr, cwd, home)
    )
    ended = redacted(host, ended)
    call.observer.processes(
        survivors=ended.survivors,
        remaining=ended.remaining,
        containment=containment_of(ended, network=sandbox.network),
    )
    for line in ended.stderr.decode("utf-8", "replace").splitlines():
        call.observer.note(line[:MAX_STDERR_LINE])
    if not ended.is_quiescent:
        raise ProviderFailure(
            "unavailable",
            "crash",
            f"{ended.remaining} processes of {Path(argv[0]).name} could not be ended; nothing can be sealed.",
        )
    return ended


def _sandbox(
    host: ToolHost, config: ResolvedConfig, argv: Sequence[str], cwd: Path, home: Path, *, reads: bool
) -> Sandbox:
    """The best containment that can be had: it may change its directory and its home, and sees what its tools need."""
    if config.played:
        return Sandbox(network=config.sealed.document.network == "open")
    return confined(
        host.processes.level,
        host.demanded.minimum,
        network=config.sealed.document.network == "open",
        writable=at_their_paths(*(() if reads else (cwd,)), home),
        executables=(Path(argv[0]), *config.executables.values(), *_named_files(config)),
        read_only=(*host.sight.read_only, cwd) if reads else host.sight.read_only,
        search_path=host.search_path,
        hidden=host.sight.hidden,
    )


def _named_files(config: ResolvedConfig) -> Iterator[Path]:
    """The files that the person named by absolute paths in the configuration's commands: scripts of an interpreter."""
    document = config.sealed.document
    steps = (*(step.argv for step in document.steps), *(step.argv for step in document.on_failure))
    for argv in (document.argv, *steps):
        for word in argv[1:]:
            if word.startswith("/") and "\0" not in word and len(word) < MAX_PATH and Path(word).is_file():
                yield Path(word)


def by_short_names(data: bytes, cwd: Path, home: Path) -> bytes:
    """What a command said, its private directories called ``.`` and ``~``.

    Their real names are random and are gone afterwards: the same work must say the same.
    """
    names = {str(path): short for base, short in ((cwd, b"."), (home, b"~")) for path in (base, base.resolve())}
    for name in sorted(names, key=len, reverse=True):
        spelt = os.fsencode(name)
        if spelt in data:
            data = re.sub(re.escape(spelt) + rb"(?![\w.-])", names[name], data)
    return data


def redacted(host: ToolHost, ended: Ended) -> Ended:
    """How a command ended, without what it got to know of the person's credentials.

    Standard output is an answer, and what a name says in it is the author's own text: there only values are taken out.
    """
    return replace(
        ended,
        stdout=host.redactor.redact_values(ended.stdout, truncated=ended.stdout_truncated),
        stderr=host.redactor.redact(ended.stderr, truncated=ended.stderr_truncated),
        detail=host.redactor.redact_text(ended.detail),
    )


def _refuse_verdict(ended: Ended, name: str) -> None:
    match ended.verdict:
        case "exited":
            return
        case "timed-out":
            raise ProviderFailure("timed-out", "timeout", f"{name} did not end before its deadline.")
        case "cancelled":
            raise ProviderFailure("cancelled", "cancelled", f"{name} was cancelled.")
        case "output-limit":
            raise ProviderFailure("invalid-output", "output-too-long", f"{name} wrote more than it may.")
        case "signaled":
            raise ProviderFailure("unavailable", "crash", f"{name} was ended by signal {ended.signal}.")
        case "spawn-error":
            raise ProviderFailure("unavailable", "config-error", f"{name} could not be started: {ended.detail}")
        case _:
            assert_never(ended.verdict)


def require_status(ended: Ended, name: str, accepted: Sequence[int]) -> None:
    """Refuse an exit status that is a failure.

    :raises ProviderFailure: ``unavailable``/``crash``.
    """
    if ended.exit_status not in accepted:
        last = ended.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        said = f": {last[0][:300]}" if last else ""
        raise ProviderFailure("unavailable", "crash", f"{name} exited with status {ended.exit_status}{said}")
