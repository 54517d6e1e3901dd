"""The content-addressed store on disk, and its twin in memory.

An object lives at ``<root>/ab/cdef...``: the first two hex digits of its digest, then the other 62. It is written as
a temporary file in ``<root>/tmp``, synced, and linked to its name, so that a name never stands for half an object and
never changes what it stands for. The root folder is opened once and everything is reached from that descriptor
without following a link.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from savant.contracts.digest import PREFIX, raw_digest, to_text
from savant.contracts.errors import RefusedInput
from savant.files.tree import disk_error, read_bounded, temporary_name, write_all
from savant.store.port import MAX_OBJECT_BYTES, absent, damaged, hex_of, too_large

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TEMPORARY: Final = b"tmp"
_BATCH_OBJECTS: Final = 128
_BATCH_BYTES: Final = 64 * 1024 * 1024


class FileObjectStore:
    """An :class:`~savant.store.port.ObjectStore` in a folder, which is made with mode 0700 when it is missing.

    :raises PortError: ``port.disk`` when the folder cannot be made or opened, or is a link.
    """

    def __init__(self, root: Path) -> None:
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._root = os.open(root, _DIRECTORY)
        except OSError as error:
            raise disk_error(error, f"Cannot open the object store {str(root)!r}") from error
        self._close = weakref.finalize(self, os.close, self._root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back the folder's descriptor; the store cannot be used afterwards."""
        self._close()

    def put(self, raw: bytes) -> str:
        """Keep the bytes durably; their digest."""
        return self._put_batch([raw])[0]

    def put_many(self, items: Iterable[bytes]) -> list[str]:
        """Keep many, syncing each batch of at most 128 objects or 64 MiB in one pass; their digests in order."""
        digests: list[str] = []
        batch: list[bytes] = []
        size = 0
        for raw in items:
            batch.append(raw)
            size += len(raw)
            if len(batch) >= _BATCH_OBJECTS or size >= _BATCH_BYTES:
                digests += self._put_batch(batch)
                batch, size = [], 0
        return digests + self._put_batch(batch) if batch else digests

    def get(self, digest: str, *, max_bytes: int = MAX_OBJECT_BYTES) -> bytes:
        """The bytes with this digest, recomputed."""
        hex_ = hex_of(digest)
        try:
            with self._shard(hex_, create=False) as shard:
                return _read(shard, hex_, max_bytes)
        except FileNotFoundError:
            raise absent(digest) from None
        except OSError as error:
            raise disk_error(error, f"Cannot read the object {digest}") from error

    def has(self, digest: str) -> bool:
        """Whether a regular file is stored under this digest."""
        hex_ = hex_of(digest)
        try:
            with self._shard(hex_, create=False) as shard:
                return stat.S_ISREG(os.stat(_name(hex_), dir_fd=shard, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise disk_error(error, f"Cannot look for the object {digest}") from error

    def digests(self) -> Iterator[str]:
        """Every digest that a file is stored under, in order."""
        try:
            for shard in _names(self._root):
                if len(shard) == 2 and not shard.strip("0123456789abcdef"):
                    with self._shard(shard, create=False) as fd:
                        names = _names(fd)
                    yield from (PREFIX + shard + name for name in names if _is_rest(name))
        except OSError as error:
            raise disk_error(error, "Cannot list the object store") from error

    def remove(self, digest: str) -> bool:
        """Remove an object; whether it was there."""
        hex_ = hex_of(digest)
        try:
            with self._shard(hex_, create=False) as shard:
                os.unlink(_name(hex_), dir_fd=shard)
                os.fsync(shard)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise disk_error(error, f"Cannot remove the object {digest}") from error
        return True

    def remove_temporaries(self) -> int:
        """Remove what writers that died left behind; how many. Only for a caller who holds the store's lock."""
        removed = 0
        try:
            with self._folder(_TEMPORARY, create=True) as folder:
                for name in _names(folder):
                    with suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=folder)
                        removed += 1
        except OSError as error:
            raise disk_error(error, "Cannot clean the object store") from error
        return removed

    def _put_batch(self, batch: list[bytes]) -> list[str]:
        digests = [_digest(raw) for raw in batch]
        waiting: dict[str, tuple[bytes, int]] = {}
        shards: dict[str, int] = {}
        try:
            with self._folder(_TEMPORARY, create=True) as folder:
                try:
                    for name, raw in dict(zip(digests, batch, strict=True)).items():
                        hex_ = hex_of(name)
                        if hex_[:2] not in shards:
                            shards[hex_[:2]] = self._open(hex_[:2].encode(), create=True)
                        if not _is_intact(shards[hex_[:2]], hex_, len(raw)):
                            waiting[hex_] = _write(folder, raw)
                    for _, fd in waiting.values():
                        os.fsync(fd)
                    for hex_, (working, fd) in waiting.items():
                        _link(folder, working, shards[hex_[:2]], hex_, os.fstat(fd).st_size)
                finally:
                    for working, fd in waiting.values():
                        os.close(fd)
                        with suppress(OSError):
                            os.unlink(working, dir_fd=folder)
            for shard in shards.values():
                os.fsync(shard)  # also when all was there: who linked it may have died before its sync
        except OSError as error:
            raise disk_error(error, "Cannot write to the object store") from error
        finally:
            for shard in shards.values():
                os.close(shard)
        return digests

    @contextmanager
    def _shard(self, hex_: str, *, create: bool) -> Iterator[int]:
        with self._folder(hex_[:2].encode(), create=create) as fd:
            yield fd

    @contextmanager
    def _folder(self, name: bytes, *, create: bool) -> Iterator[int]:
        fd = self._open(name, create=create)
        try:
            yield fd
        finally:
            os.close(fd)

    def _open(self, name: bytes, *, create: bool) -> int:
        try:
            return os.open(name, _DIRECTORY, dir_fd=self._root)
        except FileNotFoundError:
            if not create:
                raise
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=self._root)
            os.fsync(self._root)
        return os.open(name, _DIRECTORY, dir_fd=self._root)


def _name(hex_: str) -> bytes:
    return hex_[2:].encode()


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries)


def _is_rest(name: str) -> bool:
    return len(name) == 62 and not name.strip("0123456789abcdef")


def _read(shard: int, hex_: str, max_bytes: int) -> bytes:
    name = PREFIX + hex_
    try:
        fd = os.open(_name(hex_), _READ, dir_fd=shard)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise damaged(name, "is not a regular file") from error
        raise
    try:
        raw = read_bounded(fd, max_bytes, name)
    except RefusedInput as error:
        if error.code == "refused.too-large":
            raise too_large(name, max_bytes) from error
        raise damaged(name, "is not a regular file") from error
    finally:
        os.close(fd)
    if _digest(raw) != name:
        raise damaged(name, "has other content than its name says")
    return raw


def _is_intact(shard: int, hex_: str, size_bytes: int) -> bool:
    """Whether the object is there already.

    :raises VerificationError: ``unverified.object`` when what is there is something else.
    """
    try:
        _read(shard, hex_, size_bytes)
    except FileNotFoundError:
        return False
    except RefusedInput as error:
        raise damaged(PREFIX + hex_, "has other content than its name says") from error
    return True


def _write(folder: int, raw: bytes) -> tuple[bytes, int]:
    working = temporary_name()
    fd = os.open(working, _CREATE, 0o600, dir_fd=folder)
    try:
        write_all(fd, raw)
        os.fchmod(fd, 0o400)
    except BaseException:
        os.close(fd)
        with suppress(OSError):
            os.unlink(working, dir_fd=folder)
        raise
    return working, fd


def _link(folder: int, working: bytes, shard: int, hex_: str, size_bytes: int) -> None:
    try:
        os.link(working, _name(hex_), src_dir_fd=folder, dst_dir_fd=shard, follow_symlinks=False)
    except FileExistsError:
        if not _is_intact(shard, hex_, size_bytes):
            raise


def _digest(raw: bytes) -> str:
    return to_text(raw_digest(raw))


class MemoryObjectStore:
    """The twin of :class:`FileObjectStore` in memory: as strict, gone when the process ends."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def put(self, raw: bytes) -> str:
        """Keep the bytes; their digest."""
        name = _digest(raw)
        with self._lock:
            there = self._objects.setdefault(name, bytes(raw))
        if _digest(there) != name:
            raise damaged(name, "has other content than its name says")
        return name

    def put_many(self, items: Iterable[bytes]) -> list[str]:
        """Keep many; their digests in order."""
        return [self.put(raw) for raw in items]

    def get(self, digest: str, *, max_bytes: int = MAX_OBJECT_BYTES) -> bytes:
        """The bytes with this digest, recomputed."""
        hex_of(digest)
        raw = self._objects.get(digest)
        if raw is None:
            raise absent(digest)
        if len(raw) > max_bytes:
            raise too_large(digest, max_bytes)
        if _digest(raw) != digest:
            raise damaged(digest, "has other content than its name says")
        return raw

    def has(self, digest: str) -> bool:
        """Whether something is stored under this digest."""
        hex_of(digest)
        return digest in self._objects

    def digests(self) -> Iterator[str]:
        """Every digest that something is stored under, in order."""
        yield from sorted(self._objects)

    def remove(self, digest: str) -> bool:
        """Remove an object; whether it was there."""
        hex_of(digest)
        with self._lock:
            return self._objects.pop(digest, None) is not None
