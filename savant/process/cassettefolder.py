"""A cassette on disk: ``cassette.json``, the closed document in canonical bytes, and ``blobs/<64 hex digits>``.

A blob's name is the BLAKE3 of its bytes. Writing replaces the document as a whole after each call, so that a cassette
whose run was killed is one that says it is not complete. What is read is untrusted: no link is followed, every size is
bounded, every digest and every path is checked before the first call is played.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from savant.contracts.digest import PREFIX, digest
from savant.contracts.document import Sealed, accept, seal
from savant.contracts.errors import RefusedInput, UsageError, VerificationError
from savant.contracts.scalars import as_set
from savant.files.atomic import create_only, write_atomic
from savant.files.paths import to_raw
from savant.files.tree import disk_error, open_root, read_file_at
from savant.process.difference import Change, Node, check_changes
from savant.process.documents import Cassette, ChangedPath, Kept, Place, RecordedCall

DOCUMENT: Final = "cassette.json"
BLOBS: Final = "blobs"
MAX_DOCUMENT_BYTES: Final = 32 * 1024 * 1024
MAX_BLOB_BYTES: Final = 64 * 1024 * 1024
"""As much as one file of a candidate may have."""
MAX_TOTAL_BYTES: Final = 2 * 1024 * 1024 * 1024
MAX_CALLS: Final = 10_000
PLACES: Final[tuple[Place, ...]] = ("directory", "home")


class CassetteWriter:
    """Records into a new folder.

    :raises UsageError: ``usage.cassette-exists`` when something is there already.
    :raises PortError: ``port.disk``, ``port.not-found``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._calls: list[RecordedCall] = []
        self._personal: tuple[str, ...] = ()
        self._attachments: dict[str, str] = {}
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            if next(folder.iterdir(), None) is not None:
                raise UsageError(
                    "usage.cassette-exists",
                    f"{str(folder)!r} is not an empty folder.",
                    untouched="Nothing was recorded there, and nothing was called.",
                    fix="Name a folder that does not exist yet.",
                )
            (folder / BLOBS).mkdir(mode=0o700)
        except OSError as error:
            raise disk_error(error, f"Cannot make the cassette {str(folder)!r}") from error
        self._write(complete=False)

    def keep(self, data: bytes) -> str:
        """Keep bytes; their digest.

        :raises RefusedInput: ``refused.cassette-size`` when they are more than a blob may have.
        """
        if len(data) > MAX_BLOB_BYTES:
            raise RefusedInput(
                "refused.cassette-size",
                f"A cassette holds no {len(data)} bytes in one piece; {MAX_BLOB_BYTES} are allowed.",
            )
        named = digest(data)
        create_only(self._folder / BLOBS / named.removeprefix(PREFIX), data)
        return named

    def describe(self, personal: Iterable[str], attachments: Mapping[str, bytes]) -> None:
        """Say which variables are the person's, and keep what lies beside the calls."""
        self._personal = as_set(personal)
        self._attachments = {name: self.keep(data) for name, data in attachments.items()}
        self._write(complete=False)

    def add(self, call: RecordedCall) -> None:
        """Add a call, durably."""
        self._calls.append(call)
        self._write(complete=False)

    def complete(self) -> None:
        """Say that every call of the run is there."""
        self._write(complete=True)

    def _write(self, *, complete: bool) -> None:
        document = Cassette(
            calls=tuple(self._calls),
            personal=self._personal,
            attachments=as_set(Kept(name=name, digest=named) for name, named in self._attachments.items()),
            complete=complete,
        )
        write_atomic(self._folder / DOCUMENT, seal(document).raw)


class CassetteReader(msgspec.Struct, frozen=True):
    """A cassette whose every byte was checked when it was opened, and is again when it is read."""

    folder: Path
    sealed: Sealed[Cassette]
    attachments: Mapping[str, str]

    def read(self, named: str) -> bytes:
        """The bytes of a digest.

        :raises VerificationError: ``unverified.cassette`` when they are others.
        :raises RefusedInput: ``refused.not-regular``, ``refused.too-large``.
        :raises PortError: ``port.not-found``, ``port.disk``.
        """
        with open_root(self.folder) as root:
            return _read(root, named)

    def attachment(self, name: str) -> bytes:
        """The bytes that were kept under a name.

        :raises RefusedInput: ``refused.cassette`` when there are none.
        """
        if name not in self.attachments:
            raise RefusedInput("refused.cassette", f"The cassette holds no {name}.")
        return self.read(self.attachments[name])


def open_cassette(folder: Path) -> CassetteReader:
    """A cassette, checked as a whole.

    :raises RefusedInput: ``refused.malformed`` and the other codes of a document that is none, ``refused.cassette``,
        ``refused.cassette-incomplete``, ``refused.cassette-size``, the path rules' codes.
    :raises VerificationError: ``unverified.cassette`` when a blob is not what its name says.
    :raises PortError: ``port.not-found``, ``port.disk``.
    """
    with open_root(folder) as root:
        sealed = accept(read_file_at(root, DOCUMENT.encode(), max_bytes=MAX_DOCUMENT_BYTES), Cassette)
        document = sealed.document
        if not document.complete:
            raise RefusedInput(
                "refused.cassette-incomplete",
                f"The cassette {str(folder)!r} was not recorded to its end.",
                untouched="Nothing was called.",
                fix="Record the run again.",
            )
        if len(document.calls) > MAX_CALLS:
            raise RefusedInput("refused.cassette-size", f"The cassette has more than {MAX_CALLS} calls.")
        attachments = {kept.name: kept.digest for kept in document.attachments}
        if len(attachments) != len(document.attachments):
            raise RefusedInput("refused.cassette", "The cassette keeps two things under one name.")
        named = set(attachments.values())
        for call in document.calls:
            _check_call(call)
            named |= {call.asked.stdin_digest, call.answered.stdout_digest, call.answered.stderr_digest}
            named |= {change.content_digest for change in call.changes if change.content_digest is not None}
        total_bytes = 0
        for one in sorted(named):
            total_bytes += len(_read(root, one))
            if total_bytes > MAX_TOTAL_BYTES:
                raise RefusedInput("refused.cassette-size", f"The cassette holds more than {MAX_TOTAL_BYTES} bytes.")
    return CassetteReader(folder, sealed, MappingProxyType(attachments))


def _check_call(call: RecordedCall) -> None:
    for place in PLACES:
        check_changes(changes_of(call, place))
    for change in call.changes:
        if change.kind is None and change.content_digest is not None:
            raise RefusedInput("refused.cassette", f"The cassette says what {change.path!r} holds, which is gone.")
        if change.place == "home" and change.kind not in {"regular", "executable"}:
            raise RefusedInput("refused.cassette", "The cassette leaves something else than a file in a HOME.")


def changes_of(call: RecordedCall, place: Place) -> tuple[Change, ...]:
    """What a call changed at a place.

    :raises RefusedInput: ``refused.bad-path`` for a path that is not spelt as documents spell it.
    """
    return tuple(
        Change(to_raw(change.path), None if change.kind is None else Node(change.kind, change.content_digest))
        for change in call.changes
        if change.place == place
    )


def changed_path(place: Place, path: str, node: Node | None) -> ChangedPath:
    """One change as the document holds it."""
    return ChangedPath(
        place=place,
        path=path,
        kind=None if node is None else node.kind,
        content_digest=None if node is None else node.content_digest,
    )


def _read(root: int, named: str) -> bytes:
    data = read_file_at(root, f"{BLOBS}/{named.removeprefix(PREFIX)}".encode(), max_bytes=MAX_BLOB_BYTES)
    if digest(data) != named:
        raise VerificationError(
            "unverified.cassette",
            f"A part of the cassette is not what its name says: {named}.",
            untouched="Nothing was called and nothing was written.",
            fix="Get the cassette again from where it was recorded.",
        )
    return data
