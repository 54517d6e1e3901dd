"""Evidence that travels: a ledger up to its last checkpoint and the objects that a run needs, as files or one archive.

::

    ledger.intoto.jsonl       one record a line, from the genesis on
    checkpoint                the signed note over exactly these lines
    head.json                 the saved head
    objects/<2 hex>/<62 hex>  bodies and blobs, each by its own digest

Whoever opens one has it from somebody else: it is copied into a private folder first, and only what has one of these
names, is a regular file, and, for an object, has the content that its name says. Nothing in it vouches for itself.
"""

from __future__ import annotations

import os
import re
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Final

import msgspec

from savant.contracts.digest import PREFIX, digest
from savant.contracts.errors import Conflict, PortError, RefusedInput
from savant.files.atomic import fsync_directory, remove_tree

LINES: Final = "ledger.intoto.jsonl"
CHECKPOINT: Final = "checkpoint"
HEAD: Final = "head.json"
NAMES: Final = frozenset({LINES, CHECKPOINT, HEAD})
OBJECTS: Final = "objects"
ARCHIVE_SUFFIX: Final = ".tar"

MAX_FILES: Final = 200_000
MAX_BYTES: Final = 1024 * 1024 * 1024
MAX_FILE_BYTES: Final = 256 * 1024 * 1024
MAX_SMALL_BYTES: Final = 128 * 1024
"""The largest checkpoint or head, and the largest extended header of an archive."""

_BLOCK: Final = 512

_OBJECT: Final = re.compile(r"objects/([0-9a-f]{2})/([0-9a-f]{62})")
_FOLDER: Final = re.compile(r"objects(/[0-9a-f]{2})?")
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Member(msgspec.Struct, frozen=True):
    """One file of a bundle as somebody says it is: its name, size in bytes, and a way to read it."""

    name: str
    size: int
    open: Callable[[], IO[bytes]]


def is_bundle(path: Path) -> bool:
    """Whether a path looks like a bundle and not like a ledger's folder. Opening it says whether it is one."""
    return path.is_file() or (path / LINES).is_file()


def object_name(object_digest: str) -> str:
    """Where an object is in a bundle."""
    hex_ = object_digest.removeprefix(PREFIX)
    return f"{OBJECTS}/{hex_[:2]}/{hex_[2:]}"


def write_files(target: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Make a folder, or an archive where the name ends in ``.tar``; whole or not at all. Equal files, equal bytes.

    :param files: names and contents, sorted by name.
    :raises Conflict: ``conflict.bundle-exists``.
    :raises PortError: ``port.disk``.
    """
    if target.exists() or target.is_symlink():
        raise _exists(target)
    try:
        place = Path(tempfile.mkdtemp(prefix=".bundle-", dir=target.parent))
        try:
            made = place / "bundle"
            (_archive if target.suffix == ARCHIVE_SUFFIX else _folder)(made, files)
            if target.suffix == ARCHIVE_SUFFIX:
                os.link(made, target)
            else:
                made.rename(target)
            fsync_directory(target.parent)
        finally:
            remove_tree(place)
    except FileExistsError as error:
        raise _exists(target) from error
    except OSError as error:
        raise PortError(
            "port.disk", f"The bundle {target} cannot be written: {error.strerror}", untouched="Nothing is left of it."
        ) from error


def _folder(made: Path, files: Iterable[tuple[str, bytes]]) -> None:
    made.mkdir()
    for name, data in files:
        path = made / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _archive(made: Path, files: Iterable[tuple[str, bytes]]) -> None:
    with tarfile.open(made, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            archive.addfile(info, BytesIO(data))


def _exists(target: Path) -> Conflict:
    return Conflict(
        "conflict.bundle-exists",
        f"There is something at {target} already.",
        untouched="It was left as it is.",
        fix="Remove it, or name another place.",
    )


def unpack(source: Path, place: Path) -> None:
    """Copy a bundle of somebody else's into an empty private folder, as far as it is one.

    :raises RefusedInput: ``refused.bundle`` naming the file and what is wrong with it.
    :raises PortError: ``port.bundle`` when it cannot be read.
    """
    seen: set[str] = set()
    total = 0
    try:
        with _members(source) as members:
            for member in members:
                total += member.size
                if len(seen) >= MAX_FILES or total > MAX_BYTES:
                    raise refused(member.name, f"is beyond {MAX_FILES} files or {MAX_BYTES} bytes")
                if member.name in seen:
                    raise refused(member.name, "is there twice")
                seen.add(member.name)
                _take(member, place)
    except (tarfile.TarError, EOFError) as error:
        raise refused(source.name, f"is no archive of files: {error}") from error
    except OSError as error:
        raise PortError(
            "port.bundle",
            f"The bundle {source} cannot be read: {error.strerror or error}",
            untouched="Nothing of it was used.",
            fix="Name the folder or the archive that savant bundle wrote.",
        ) from error
    for name in sorted(NAMES - seen):
        raise refused(name, "is missing")


def _take(member: Member, place: Path) -> None:
    found = _OBJECT.fullmatch(member.name)
    if found is None and member.name not in NAMES:
        raise refused(member.name, "is no part of a bundle")
    limit = MAX_SMALL_BYTES if member.name in (CHECKPOINT, HEAD) else MAX_FILE_BYTES
    if member.size > limit:
        raise refused(member.name, f"has {member.size} bytes; {limit} are allowed")
    with member.open() as stream:
        data = stream.read(member.size + 1)
    if len(data) != member.size:
        raise refused(member.name, "has another size than it is said to have")
    if found is not None and digest(data) != PREFIX + found.group(1) + found.group(2):
        raise refused(member.name, "has other content than its name says")
    path = place / member.name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(data)


@contextmanager
def _members(source: Path) -> Iterator[Iterator[Member]]:
    if source.is_dir():
        root = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield _of_folder(root, "")
        finally:
            os.close(root)
        return
    fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:  # noqa: PTH123 - a descriptor, opened so that nothing waits
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise refused(source.name, "is neither a folder nor a file")
        _verify_headers(file, source.name)
        file.seek(0)
        with tarfile.open(fileobj=file, mode="r:") as archive:
            yield _of_archive(archive)


def _verify_headers(file: IO[bytes], name: str) -> None:
    """Return if no header makes a reader of archives take more into memory than a small header is."""
    count = 0
    while len(header := file.read(_BLOCK)) == _BLOCK and header.strip(b"\0"):
        count += 1
        kind, digits = header[156:157], header[124:136].strip(b"\0 ")
        if digits.strip(b"01234567") or count > 2 * MAX_FILES:
            raise refused(name, "has a header that is none, or too many")
        size = int(digits or b"0", 8)
        if kind not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE) and size > MAX_SMALL_BYTES:
            raise refused(name, f"has a header of {size} bytes; {MAX_SMALL_BYTES} are allowed")
        file.seek(-(-size // _BLOCK) * _BLOCK, os.SEEK_CUR)


def _of_folder(folder: int, prefix: str) -> Iterator[Member]:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        path = prefix + name
        mode = os.lstat(name, dir_fd=folder).st_mode
        if stat.S_ISDIR(mode) and _FOLDER.fullmatch(path):
            inner = os.open(name, _DIRECTORY, dir_fd=folder)
            try:
                yield from _of_folder(inner, path + "/")
            finally:
                os.close(inner)
        elif stat.S_ISREG(mode):
            yield _file(folder, name, path)
        else:
            raise refused(path, "is no regular file")


def _file(folder: int, name: str, path: str) -> Member:
    def opened() -> IO[bytes]:
        return os.fdopen(os.open(name, _READ, dir_fd=folder), "rb")

    return Member(path, os.stat(name, dir_fd=folder, follow_symlinks=False).st_size, opened)


def _of_archive(archive: tarfile.TarFile) -> Iterator[Member]:
    for info in archive:
        if info.type == tarfile.DIRTYPE and _FOLDER.fullmatch(info.name):
            continue
        if info.type != tarfile.REGTYPE or info.issparse() or info.size < 0:
            raise refused(info.name, "is no regular file")
        yield _packed(archive, info)


def _packed(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    def opened() -> IO[bytes]:
        stream = archive.extractfile(info)
        assert stream is not None
        return stream

    return Member(info.name, info.size, opened)


def refused(name: str, why: str) -> RefusedInput:
    """The refusal of a bundle for one of its files."""
    with suppress(UnicodeError):
        name = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return RefusedInput(
        "refused.bundle",
        f"The bundle is refused: {name[:200]!r} {why}.",
        untouched="Nothing of it was used.",
        fix="Make it anew with savant bundle, where the run was recorded.",
    )
