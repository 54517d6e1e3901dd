"""The document of this package: a cassette, the recorded commands of one run (:mod:`savant.process.cassette`)."""

from typing import Final, Literal, TypeAlias

from savant.contracts.document import Document, Part
from savant.contracts.scalars import Bytes, Count, Digest, Milliseconds, Name, NonEmptyText, PathText, Set, Text
from savant.process.port import Level, Verdict

Place: TypeAlias = Literal["directory", "home"]
"""Where a path is: below the command's working directory, or below its private HOME."""

ChangeKind: TypeAlias = Literal["regular", "executable", "symlink", "folder", "special"]
"""What stands at a path. ``folder``: an empty one, or one that no tree of ours may hold (``.git``) and that was not
looked into; ``special``: a FIFO, socket or device, played as a FIFO."""

KeptPart: TypeAlias = Literal["arguments", "stdin", "stdout", "stderr", "detail", "files"]
"""A part of a recorded call that may have held a credential."""


class Program(Part, frozen=True, kw_only=True):
    """An executable as the configuration names it; the digest is null for one that it does not name."""

    name: NonEmptyText
    content_digest: Digest | None


class NamedFile(Part, frozen=True, kw_only=True):
    """A file below the private HOME that an argument names; its content without private paths and credentials."""

    path: PathText
    content_digest: Digest


class AskedCall(Part, frozen=True, kw_only=True):
    """What identifies a call; no private path of the machine is in it.

    ``arguments`` are those after the program, odd bytes as ``%XX``; one that is very long is ``%`` and its digest.
    ``tree_digest`` is that of the working directory before the call.
    """

    program: Program
    arguments: tuple[Text, ...]
    files: Set[NamedFile]
    stdin_digest: Digest
    environment: Set[NonEmptyText]
    tree_digest: Digest


class AnsweredCall(Part, frozen=True, kw_only=True):
    """How the command ended, member by member as in :class:`savant.process.port.Ended`."""

    verdict: Verdict
    exit_status: Count | None
    signal: Count | None
    stdout_digest: Digest
    stderr_digest: Digest
    stdout_truncated: bool
    stderr_truncated: bool
    duration_ms: Milliseconds
    cpu_ms: Milliseconds
    max_rss_bytes: Bytes
    survivors: Count
    remaining: Count
    level: Level
    layers: tuple[NonEmptyText, ...]
    detail: Text


class ChangedPath(Part, frozen=True, kw_only=True):
    """One path after the call. ``kind`` null: gone. ``content_digest``: of a file's bytes or a link's target."""

    place: Place
    path: PathText
    kind: ChangeKind | None
    content_digest: Digest | None


class RecordedCall(Part, frozen=True, kw_only=True):
    """One call: what was asked, what was answered, what it changed. ``redacted`` parts are not what they were."""

    asked: AskedCall
    answered: AnsweredCall
    changes: Set[ChangedPath]
    redacted: Set[KeptPart]


class Kept(Part, frozen=True, kw_only=True):
    """Bytes beside the calls, by name: the provider's configuration."""

    name: Name
    digest: Digest


class Cassette(Document, frozen=True, kw_only=True, tag="savant.process.cassette/v1"):
    """The calls of one run in their order. Every digest names a file in the folder ``blobs`` beside it.

    ``personal`` are the variables that came from the person (credentials, allowlisted names): whether they are there
    when the cassette is played is not part of a call's identity. ``complete``: every call of the run is here.
    """

    calls: tuple[RecordedCall, ...]
    personal: Set[NonEmptyText]
    attachments: Set[Kept]
    complete: bool


DOCUMENTS: Final[tuple[type[Document], ...]] = (Cassette,)
