"""Reading git objects through ``cat-file --batch``: one long-lived process for point reads, one buffered run for many.

Point reads recompute git's own object id over what arrives, so a damaged or swapped loose object is found out. Bulk
reads do not: their callers digest the content anyway. A requester never writes more than fits into an empty pipe before
it reads, and a bulk run takes its requests from a file, so neither side can wait for the other for ever.
"""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Final, Self

import msgspec

from savant.contracts.digest import new_hasher, raw_digest
from savant.contracts.errors import InternalError, PortError, RefusedInput, VerificationError
from savant.repository.launch import Git
from savant.repository.objects import ObjectFormat, object_id, require_type

MAX_OBJECT_BYTES: Final = 1 << 30
"""The largest object that is read into memory unless the caller says otherwise."""

_PIPELINE: Final = 400
"""Requests in flight: 400 lines of at most 82 bytes fit into an empty pipe of 64 KiB."""

_CHUNK: Final = 1 << 18

_BUFFER: Final = 1 << 20
"""What a bulk read holds at once; larger than the header and content of every blob that is held whole."""

_NEWLINE: Final = 0x0A


class GitObject(msgspec.Struct, frozen=True):
    """One object: its id in hex, its type (``commit``, ``tree``, ``blob``, ``tag``) and its raw content."""

    oid: str
    type: str
    data: bytes


class ObjectReader:
    """Point reads from one ``cat-file --batch`` process, started on first use. Safe to share between threads."""

    def __init__(self, git: Git, format_: ObjectFormat) -> None:
        self._git = git
        self._format: ObjectFormat = format_
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._finalizer: weakref.finalize[..., ObjectReader] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process; a later read starts a new one."""
        with self._lock:
            self._stop()

    def find(self, name: str, *, max_bytes: int = MAX_OBJECT_BYTES) -> GitObject | None:
        """The object that git's revision syntax names, or None when it is missing or ambiguous.

        :raises RefusedInput: ``refused.size-limit``.
        :raises PortError: ``port.git-failed`` when the process breaks off.
        :raises VerificationError: ``unverified.git-object`` when the content is not what its id says.
        """
        return next(iter(self._request([name], max_bytes)))

    def read(self, oid: str, *, max_bytes: int = MAX_OBJECT_BYTES) -> GitObject:
        """The object with this id.

        :raises PortError: ``port.missing-object``; and as :meth:`find`.
        """
        return next(iter(self.read_many([oid], max_bytes=max_bytes)))

    def read_many(self, oids: Sequence[str], *, max_bytes: int = MAX_OBJECT_BYTES) -> Iterator[GitObject]:
        """The objects with these ids, in this order, requests and answers overlapping. Errors as :meth:`read`."""
        for start in range(0, len(oids), _PIPELINE):
            part = oids[start : start + _PIPELINE]
            for oid, found in zip(part, self._request(part, max_bytes), strict=True):
                if found is None or found.oid != oid:
                    raise missing(oid)
                yield found

    def _request(self, names: Sequence[str], max_bytes: int) -> list[GitObject | None]:
        with self._lock:
            try:
                stdin, stdout = self._pipes()
                stdin.write(b"".join(name.encode("utf-8", "surrogateescape") + b"\n" for name in names))
                stdin.flush()
                return [self._answer(stdout, name, max_bytes) for name in names]
            except BaseException as error:  # the conversation is out of step: end it, whatever happened
                self._stop()
                if isinstance(error, OSError):
                    raise _broken_off() from error
                raise

    def _answer(self, stdout: IO[bytes], name: str, max_bytes: int) -> GitObject | None:
        header = stdout.readline()
        if not header.endswith(b"\n"):
            # git ends itself when an object should come from a promisor remote and no transport is allowed
            raise missing(name)
        fields = header.split()
        if fields[-1] in (b"missing", b"ambiguous"):
            return None
        oid, type_, size = fields[0].decode(), fields[1].decode(), int(fields[2])
        if size > max_bytes:
            raise too_large(oid, size, max_bytes)
        data = stdout.read(size + 1)
        if len(data) != size + 1:
            raise _broken_off()
        data = data[:-1]
        if object_id(self._format, type_, data) != oid:
            raise VerificationError(
                "unverified.git-object", f"The content of git object {oid} is not what its id says."
            )
        return GitObject(oid, type_, data)

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._process is None:
            self._process = self._git.start(["cat-file", "--batch"], stdin=subprocess.PIPE)
            self._finalizer = weakref.finalize(self, stop, self._process)
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        return process.stdin, process.stdout

    def _stop(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
        self._process = self._finalizer = None


class BulkRead:
    """Many blobs by one ``cat-file --batch --buffer`` that starts at once and works ahead of its reader.

    A context manager: leaving it ends the process. Read it once, by :meth:`each_digest` or by :meth:`chunks`.
    Both raise ``PortError`` ``port.missing-object`` or ``port.git-failed``, and ``RefusedInput``
    ``refused.malformed-object`` when an object is no blob.
    """

    def __init__(self, git: Git, oids: Iterable[bytes]) -> None:
        self._oids = list(oids)
        self._process: subprocess.Popen[bytes] | None = None
        if self._oids:
            with tempfile.TemporaryFile() as requests:
                requests.write(b"\n".join(self._oids) + b"\n")
                requests.seek(0)
                self._process = git.start(["cat-file", "--batch", "--buffer"], stdin=requests)
            _widen(self._stdout())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            stop(self._process)
            self._process = None

    def each_digest(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Each blob as ``(hex id, BLAKE3 digest, size)`` in the order asked for; a large one is never held whole."""
        if not self._oids:
            return
        stdout = self._stdout()
        buffer = bytearray(_BUFFER)
        view = memoryview(buffer)
        start = end = 0
        for oid in self._oids:
            while (line := buffer.find(b"\n", start, end)) < 0:
                start, end = _fill(stdout, view, start, end)
            is_plain = buffer.startswith(oid + b" blob ", start)
            size = int(buffer[start + len(oid) + 6 : line]) if is_plain else _size(bytes(buffer[start:line]), oid)
            start = line + 1
            if size < _CHUNK:
                while end - start <= size:
                    start, end = _fill(stdout, view, start, end)
                yield oid, raw_digest(view[start : start + size]), size
            else:
                hasher = new_hasher()
                left = size
                while left:
                    if start == end:
                        start, end = _fill(stdout, view, start, end)
                    part = view[start : min(end, start + left)]
                    hasher.update(part)
                    start, left = start + len(part), left - len(part)
                while start == end:
                    start, end = _fill(stdout, view, start, end)
                yield oid, hasher.digest(), size
                size = 0
            if buffer[start + size] != _NEWLINE:
                raise _broken_off()
            start += size + 1

    def chunks(self, *, max_bytes: int = MAX_OBJECT_BYTES) -> Iterator[tuple[bytes, int, Iterator[bytes]]]:
        """Each blob as ``(hex id, size, chunks)``; the chunks must be read before the next blob is asked for.

        :raises RefusedInput: also ``refused.size-limit``, before the content is read.
        """
        for oid in self._oids:
            stdout = self._stdout()
            size = _size(stdout.readline(), oid)
            if size > max_bytes:
                raise too_large(oid.decode(), size, max_bytes)
            yield oid, size, _chunks(stdout, size)

    def _stdout(self) -> IO[bytes]:
        if self._process is None or self._process.stdout is None:
            raise InternalError("internal.bulk-read", "A bulk read was used after its end.")
        return self._process.stdout


def _size(header: bytes, oid: bytes) -> int:
    fields = header.split()
    if len(fields) != 3 or fields[0] != oid:
        raise missing(oid.decode())
    require_type(oid.decode(), fields[1].decode(), "blob")
    return int(fields[2])


def _fill(stdout: IO[bytes], view: memoryview, start: int, end: int) -> tuple[int, int]:
    """Move what is held to the front and read on behind it; where it begins and ends then."""
    held = end - start
    view[:held] = view[start:end]
    count = stdout.readinto1(view[held:])  # type: ignore[attr-defined]  # a BufferedReader, as its start asked for
    if not count:
        raise _broken_off()
    return 0, held + count


def _chunks(stdout: IO[bytes], size: int) -> Iterator[bytes]:
    left = size
    while left:
        data = stdout.read(min(left, _CHUNK))
        if not data:
            raise _broken_off()
        left -= len(data)
        yield data
    if stdout.read(1) != b"\n":
        raise _broken_off()


def _widen(pipe: IO[bytes]) -> None:
    """Let git work ahead by up to a mebibyte where the system allows it."""
    set_size = getattr(fcntl, "F_SETPIPE_SZ", None)
    if set_size is not None:
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe.fileno(), set_size, 1 << 20)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a git process that we started, close our ends of its pipes and reap it."""
    with contextlib.suppress(OSError):
        process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()


def missing(name: str) -> PortError:
    """The error for an object that the store does not hold: a partial or shallow clone, or damage."""
    return PortError(
        "port.missing-object",
        f"Git object {name} is not in this repository.",
        fix="Fetch the missing objects (a partial or shallow clone lacks some), then try again.",
    )


def too_large(oid: str, size: int, limit: int) -> RefusedInput:
    """The error for an object above the caller's limit; it was not read."""
    return RefusedInput("refused.size-limit", f"Git object {oid} has {size} bytes; {limit} are allowed.")


def _broken_off() -> PortError:
    return PortError("port.git-failed", "git cat-file ended in the middle of an answer.", retryable=True)
