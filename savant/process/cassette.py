"""Recording what commands did, and playing it again without starting anything: two runners of the process port.

:class:`Recorder` runs each command with another runner and keeps what was asked and what came of it. :class:`Player`
answers the same calls in the same order. Two calls are the same when these parts are:

===============  =========================================================================================
``argv``         the program by the name and digest that the configuration gives it, and the other arguments
``files``        the files below HOME that an argument names (a prompt, a schema), by their content
``stdin``        the bytes on standard input
``environment``  the names of the variables, without those that came from the person
``tree``         every path below the working directory: kind, content, the executable bit, a link's target
===============  =========================================================================================

A conversation's ``stdin`` is all that both sides said, in its order (:mod:`savant.process.conversation`): whoever plays
it answers line by line and compares what the host says.

The working directory and the private HOME have random names; in arguments, input, streams and files of HOME they stand
as ``{cwd}`` and ``{home}``, and a call that is played gets its own again. A file below HOME that an argument names and
the command writes (an agent's answer, say) is kept as the working directory's changes are; the rest of HOME is not.

Nothing is kept that the redaction changes: a part that held a credential is kept without it, and says so. Standard
output and files may become the candidate, so there a name alone gives nothing away unless it is that of a variable that
came from the person; everywhere else every name that says "secret" does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import asdict, replace

from savant.contracts.digest import digest
from savant.contracts.effects import Cancellation
from savant.contracts.errors import PortError, RefusedInput, UsageError
from savant.contracts.scalars import as_set
from savant.files.tree import open_root, read_file_at, readlink_at
from savant.process.asked import Asked, Call, Cleaner, Programs, Redaction, ask, differing, holds_credential, name_text
from savant.process.cassettefolder import MAX_BLOB_BYTES, CassetteReader, CassetteWriter, changed_path, changes_of
from savant.process.conversation import Listener, Replay
from savant.process.difference import Change, apply, difference, read_tree, tree_digest, written_alike
from savant.process.documents import AnsweredCall, ChangedPath, KeptPart, Place, RecordedCall
from savant.process.port import (
    Command,
    Ended,
    Level,
    Limits,
    Offer,
    ProcessRunner,
    Talk,
    cancelled_before_start,
    refuse_input,
    refuse_level,
)

_MAX_DETAIL: Final = 2_000
_NO_PROGRAMS: Final[Programs] = MappingProxyType({})


class Recorder:
    """Runs commands with another runner and keeps them; a :class:`~savant.process.port.ProcessRunner`.

    Until :meth:`describe` was called, commands are run and not kept: they find out what the configuration is.

    :param inner: runs the commands. It is not closed with the recorder.
    :param folder: where they are kept; made when the recorder is described.
    """

    def __init__(self, inner: ProcessRunner, folder: Path) -> None:
        self._inner = inner
        self._folder = folder
        self._described: _Described | None = None
        self._turn = threading.Lock()
        self._failed = False
        self._closed = False

    def describe(
        self, programs: Programs, *, personal: Iterable[str], attachments: Mapping[str, bytes], redaction: Redaction
    ) -> None:
        """Say what the run's commands are; from here on every call is kept.

        :param personal: names of the variables that come from the person.
        :param attachments: bytes to keep beside the calls, by name.
        :raises RefusedInput: ``refused.cassette-secret`` when an attachment holds a credential.
        :raises UsageError: ``usage.cassette-exists`` when something is in the folder.
        :raises PortError: ``port.disk``, ``port.not-found``.
        """
        names = as_set(map(name_text, personal))
        for name, data in attachments.items():
            if redaction.redact_values(data) != data:
                raise holds_credential(f"the {name}")
        writer = CassetteWriter(self._folder)
        writer.describe(names, attachments)
        self._described = _Described(programs, Cleaner(redaction, names), writer)

    @property
    def level(self) -> Level:
        """That of the runner inside."""
        return self._inner.level

    def offer(self) -> Offer:
        """That of the runner inside."""
        return self._inner.offer()

    def run(self, command: Command, cancellation: Cancellation | None = None) -> Ended:
        """Run the command and keep it; the contract is :meth:`ProcessRunner.run`'s.

        :raises PortError: also ``port.cassette-tree`` when the working directory cannot be kept.
        :raises RefusedInput: ``refused.cassette-secret`` when a path holds a credential, ``refused.cassette-size``.
        """
        return self._keep(command, None, cancellation)

    def converse(self, command: Command, talk: Talk, cancellation: Cancellation | None = None) -> Ended:
        """Talk to the command and keep what is said; the contract is :meth:`ProcessRunner.converse`'s.

        :raises PortError: also as :meth:`run`. Likewise RefusedInput.
        """
        refuse_input(command)
        return self._keep(command, talk, cancellation)

    def _keep(self, command: Command, talk: Talk | None, cancellation: Cancellation | None) -> Ended:
        with self._turn:
            if self._closed:
                raise UsageError("usage.runner-closed", "The process runner is closed.")
            if self._described is None:
                return _started(self._inner, command, talk, cancellation)
            if cancellation is not None and cancellation.is_set():
                return cancelled_before_start(self.level)
            try:
                return self._described.keep(self._inner, Call(command), talk, cancellation)
            except BaseException:
                self._failed = True
                raise

    def finish(self) -> bool:
        """Say that the run is over; whether the cassette is complete: every call ended and could be kept."""
        if not self._turn.acquire(blocking=False):
            return False
        try:
            if self._described is None:
                self._failed = True
            elif not self._failed and not self._closed:
                self._described.writer.complete()
            self._closed = True
        finally:
            self._turn.release()
        return not self._failed

    def close(self) -> None:
        """Refuse every later command; idempotent. A cassette that was not finished stays incomplete."""
        self._closed = True


class _Described(msgspec.Struct, frozen=True):
    """What a recorder was told, and the folder it writes into."""

    programs: Programs
    cleaner: Cleaner
    writer: CassetteWriter

    def keep(self, inner: ProcessRunner, call: Call, talk: Talk | None, cancellation: Cancellation | None) -> Ended:
        """Run the command of a call and keep both."""
        listener = Listener()
        with open_root(call.directory) as root:
            before, at_home = read_tree(root), call.named_files()
            asked = ask(call, self.programs, self.cleaner, tree_digest(before.nodes), at_home)
            heard = None if talk is None else listener.listening(talk)
            ended = _started(inner, call.command, heard, cancellation)
            after = read_tree(root) if ended.is_quiescent else before
            redacted = set(asked.redacted)
            kept = set()
            for change in (*difference(before.nodes, after.nodes), *written_alike(before, after)):
                kept.add(self._changed("directory", change, _content(root, change), redacted))
        for path, (node, data) in call.named_files().items():
            if path not in at_home or at_home[path][0] != node:
                kept.add(self._changed("home", Change(path, node), call.spelt(data), redacted))
        if talk is not None:
            asked = self._talked(asked, call, listener)
            redacted |= asked.redacted
        spelt = replace(ended, stdout=call.spelt(ended.stdout), stderr=call.spelt(ended.stderr))
        answered = self._answered(spelt, call.command.limits, redacted)
        self.writer.keep(asked.stdin)
        self.writer.add(
            RecordedCall(asked=asked.document, answered=answered, changes=as_set(kept), redacted=as_set(redacted))
        )
        return ended

    def _talked(self, asked: Asked, call: Call, listener: Listener) -> Asked:
        """A call with what was said as its input."""
        whole = listener.transcript(call.spelt, call.spelt)
        clean = listener.transcript(
            lambda line: self.cleaner.said(call.spelt(line)), lambda line: self.cleaner.own(call.spelt(line))
        )
        redacted = asked.redacted if clean == whole else asked.redacted | {"stdin"}
        return replace(
            asked, document=replace(asked.document, stdin_digest=digest(clean)), stdin=clean, redacted=redacted
        )

    def _changed(self, place: Place, change: Change, data: bytes | None, redacted: set[KeptPart]) -> ChangedPath:
        changed = changed_path(place, self.cleaner.path(change.path), change.node)
        if data is None:
            return changed
        clean = self.cleaner.own(data)
        if clean != data:
            redacted.add("files")
        return replace(changed, content_digest=self.writer.keep(clean))

    def _answered(self, ended: Ended, limits: Limits, redacted: set[KeptPart]) -> AnsweredCall:
        said = ended.detail.encode("utf-8", "replace")
        clean: dict[KeptPart, tuple[bytes, bytes]] = {
            "stdout": (ended.stdout, self.cleaner.own(ended.stdout, truncated=ended.stdout_truncated)),
            "stderr": (ended.stderr, self.cleaner.said(ended.stderr, truncated=ended.stderr_truncated)),
            "detail": (said, self.cleaner.said(said)),
        }
        redacted |= {part for part, (before, after) in clean.items() if before != after}
        plain = {name: value for name, value in asdict(ended).items() if name in AnsweredCall.__struct_fields__}
        plain["detail"] = clean["detail"][1].decode("utf-8", "replace")[:_MAX_DETAIL]
        return AnsweredCall(
            stdout_digest=self.writer.keep(clean["stdout"][1][: limits.stdout_bytes]),
            stderr_digest=self.writer.keep(clean["stderr"][1][: limits.stderr_bytes]),
            **plain,
        )


class Player:
    """Answers calls from a cassette and starts nothing; a :class:`~savant.process.port.ProcessRunner`.

    It offers the level that every recorded command had, so that whoever demands more refuses it as they would have
    refused the recorded run.

    ``missed`` is the first call that the cassette did not hold. Every call after it is missed too.

    :raises RefusedInput: ``refused.bad-path`` for a name in the cassette that is not spelt as documents spell it.
    """

    def __init__(self, cassette: CassetteReader, redaction: Redaction) -> None:
        self.missed: PortError | None = None
        self._cassette = cassette
        self._calls = cassette.sealed.document.calls
        self._cleaner = Cleaner(redaction, cassette.sealed.document.personal)
        self._programs: Programs = _NO_PROGRAMS
        self._played = 0
        self._turn = threading.Lock()
        self._closed = False

    def describe(self, programs: Programs) -> None:
        """Say what the run's commands are, as :meth:`Recorder.describe` does."""
        self._programs = programs

    @property
    def level(self) -> Level:
        """The lowest level that a recorded command had; S3 where there was none."""
        levels: list[Level] = ["S3", *(call.answered.level for call in self._calls)]
        return min(levels)

    def offer(self) -> Offer:
        """That level; no layer is active here and none could be added."""
        return Offer(self.level, (), ())

    @property
    def left(self) -> int:
        """How many recorded calls were not asked for yet."""
        return len(self._calls) - self._played

    @property
    def redacted(self) -> Mapping[int, tuple[KeptPart, ...]]:
        """The calls, by number from 1, that were kept without a credential, and the parts it was taken from."""
        return {number: call.redacted for number, call in enumerate(self._calls, 1) if call.redacted}

    def run(self, command: Command, cancellation: Cancellation | None = None) -> Ended:
        """Answer the next call and make its changes; the contract is :meth:`ProcessRunner.run`'s.

        :raises PortError: ``port.cassette-miss`` when the call is not the recorded one; nothing was then changed.
            ``port.sandbox-level`` when it demands more than the recorded commands had.
        :raises VerificationError: ``unverified.cassette`` when a part was changed since the cassette was opened.
        :raises RefusedInput: ``refused.cassette-size`` for more output than the command may write.
        """
        return self._play(command, None, cancellation)

    def converse(self, command: Command, talk: Talk, cancellation: Cancellation | None = None) -> Ended:
        """Answer what is said from the recorded conversation; the contract is :meth:`ProcessRunner.converse`'s.

        :raises PortError: as :meth:`run`; ``port.cassette-miss`` also in the midst of a conversation that becomes
            another one. Likewise VerificationError and RefusedInput.
        """
        refuse_input(command)
        return self._play(command, talk, cancellation)

    def _play(self, command: Command, talk: Talk | None, cancellation: Cancellation | None) -> Ended:
        refuse_level(command.sandbox.level, self.level)
        with self._turn:
            if self._closed:
                raise UsageError("usage.runner-closed", "The process runner is closed.")
            if cancellation is not None and cancellation.is_set():
                return cancelled_before_start(self.level)
            call = Call(command)
            with open_root(call.directory) as root:
                recorded = self._recorded(call, root, has_input=talk is None)
                ended = self._ended(recorded, call)
                if talk is not None:
                    self._replay(recorded, call, talk)
                self._played += 1
                apply(root, changes_of(recorded, "directory"), self._cassette.read)
            at_home = changes_of(recorded, "home")
            if at_home and call.home is not None:
                with open_root(call.home) as root:
                    apply(root, at_home, lambda named: call.said(self._cassette.read(named)))
            return ended

    def _replay(self, recorded: RecordedCall, call: Call, talk: Talk) -> None:
        number = self._played + 1

        def missed(what: str) -> PortError:
            self.missed = _missed(f"Call {number} is not the recorded one: {what}.")
            return self.missed

        replay = Replay(
            self._cassette.read(recorded.asked.stdin_digest),
            lambda line: self._cleaner.said(call.spelt(line)),
            call.said,
            missed,
        )
        if not replay.is_one:
            raise missed("nothing was said in it")
        talk(replay)
        if replay.left:
            raise missed("more was said in it")

    def _recorded(self, call: Call, root: int, *, has_input: bool) -> RecordedCall:
        number = self._played + 1
        if self.missed is None and not self.left:
            self.missed = _missed(f"Call {number} is not in the cassette, which ends before it.")
        if self.missed is not None:
            raise self.missed
        recorded = self._calls[self._played]
        tree = tree_digest(read_tree(root).nodes)
        asked = ask(call, self._programs, self._cleaner, tree, call.named_files())
        document = asked.document
        if not has_input:
            document = replace(document, stdin_digest=recorded.asked.stdin_digest)
        parts = differing(recorded.asked, document)
        if parts:
            words = "; ".join(f"{part} ({what})" for part, what in parts.items())
            self.missed = _missed(f"Call {number} is not the recorded one. Different: {words}.")
            raise self.missed
        return recorded

    def _ended(self, recorded: RecordedCall, call: Call) -> Ended:
        answered, limits = recorded.answered, call.command.limits
        stdout, stderr = self._cassette.read(answered.stdout_digest), self._cassette.read(answered.stderr_digest)
        if len(stdout) > limits.stdout_bytes or len(stderr) > limits.stderr_bytes:
            raise RefusedInput("refused.cassette-size", "The cassette answers with more output than is allowed.")
        plain = {name: value for name, value in asdict(answered).items() if not name.endswith("_digest")}
        return Ended(
            stdout=call.said(stdout)[: limits.stdout_bytes], stderr=call.said(stderr)[: limits.stderr_bytes], **plain
        )

    def close(self) -> None:
        """Refuse every later command; idempotent."""
        self._closed = True


def _started(inner: ProcessRunner, command: Command, talk: Talk | None, cancellation: Cancellation | None) -> Ended:
    return inner.run(command, cancellation) if talk is None else inner.converse(command, talk, cancellation)


def _content(root: int, change: Change) -> bytes | None:
    if change.node is None or change.node.content_digest is None:
        return None
    if change.node.kind == "symlink":
        return readlink_at(root, change.path)
    return read_file_at(root, change.path, max_bytes=MAX_BLOB_BYTES)


def _missed(what: str) -> PortError:
    return PortError(
        "port.cassette-miss",
        what,
        untouched="Nothing of the cassette was applied for this call, and nothing was started.",
        fix="Play it with the task, the base, the rules and the checks that it was recorded with, or record it anew.",
    )
