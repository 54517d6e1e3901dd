"""The descriptors of one command: its three streams, and what its wrappers read and report.

The streams are files that have no name any more; in a conversation standard input and output are two pairs of sockets.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

from savant.files.tree import disk_error, temporary_name, write_all

_MAX_REPORT_BYTES: Final = 65_536


class Streams:
    """The three streams, then blobs to read, then the end of a pipe to report into.

    :param scratch: the folder in which the files are made.
    :param stdin: what is to be read from standard input; None for a conversation.
    :param blobs: what is to be read from further descriptors.
    :param has_report: whether there is a report.
    :raises PortError: ``port.disk``.

    A context manager that closes everything at its end.
    """

    def __init__(
        self, scratch: Path, stdin: bytes | None, blobs: Iterable[bytes] = (), *, has_report: bool = False
    ) -> None:
        self._fds: list[int] = []
        self._ours: list[int] = []
        self._report: int | None = None
        try:
            scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
            for number in range(3):
                if stdin is None and number < 2:
                    self._pair()
                else:
                    self._open(scratch, number)
            if stdin is not None:
                write_all(self._ours[0], stdin)
            for blob in blobs:
                self._fds.append(os.memfd_create("savant", os.MFD_CLOEXEC))
                write_all(self._fds[-1], blob)
                os.lseek(self._fds[-1], 0, os.SEEK_SET)
            if has_report:
                self._report, theirs = os.pipe()
                self._fds.append(theirs)
        except OSError as error:
            self.close()
            raise disk_error(error, "Cannot prepare the streams of a command") from error

    def _open(self, scratch: Path, number: int) -> None:
        path = scratch / os.fsdecode(temporary_name())
        ours = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._ours.append(ours)
        try:
            how = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_APPEND
            self._fds.append(os.open(path, how | os.O_NOFOLLOW | os.O_CLOEXEC))
        finally:
            path.unlink()

    def _pair(self) -> None:
        ours, theirs = socket.socketpair()
        self._ours.append(ours.detach())
        self._fds.append(theirs.detach())

    def take_sockets(self) -> tuple[socket.socket, socket.socket]:
        """Our ends of a conversation, standard input's first: the caller's to close. Theirs are closed here."""
        ours, self._ours = self._ours[:2], self._ours[2:]
        for fd in self._fds[:2]:
            os.close(fd)
        self._fds = self._fds[2:]
        return socket.socket(fileno=ours[0]), socket.socket(fileno=ours[1])

    @property
    def theirs(self) -> tuple[int, ...]:
        """The descriptors for the command and its wrappers."""
        return tuple(self._fds)

    def output(self, number: int, max_bytes: int) -> tuple[bytes, bool]:
        """The first bytes of an output that is a file, and whether there were more.

        :param number: 1 for standard output, 2 for standard error.
        """
        fd = self._ours[number - 3]
        size = os.fstat(fd).st_size
        data = bytearray()
        while len(data) < min(size, max_bytes) and (
            chunk := os.pread(fd, min(max_bytes - len(data), 1 << 20), len(data))
        ):
            data += chunk
        return bytes(data), size > max_bytes

    def report(self) -> bytes:
        """What was reported; asked once the command has ended. It never waits."""
        if self._report is None:
            return b""
        os.set_blocking(self._report, False)
        data = bytearray()
        try:
            while len(data) < _MAX_REPORT_BYTES and (chunk := os.read(self._report, 4096)):
                data += chunk
        except BlockingIOError:
            pass  # somebody who could not be ended holds it
        return bytes(data)

    def close(self) -> None:
        """Give everything back."""
        for fd in (*self._fds, *self._ours, *(() if self._report is None else (self._report,))):
            os.close(fd)
        self._fds, self._ours, self._report = [], [], None

    def __enter__(self) -> Self:
        """The streams."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close them."""
        self.close()
