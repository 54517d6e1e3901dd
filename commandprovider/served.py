"""The files that an agent reads and writes over a protocol: served by the workspace, never by the file system.

The agent names files by absolute paths below its working directory; what lies elsewhere is refused. What it writes goes
into the candidate through the workspace's own rules, and into its working directory as well, so that its tools that
look there see it. Instruction files that were not disclosed are not there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from providerport.port import BaseReader, Workspace
from savant.contracts.errors import RefusedInput
from savant.files.paths import check_path, is_reserved, parents, to_text
from savant.files.tree import mkdirs_at, open_root, write_file_at

MAX_READ_BYTES: Final = 8 * 1024 * 1024
_SHOWN: Final = 200


class ServedFiles:
    """What is served to one session.

    :param directory: the session's working directory, as the agent knows it.
    :param reader: what is read; the workspace itself where there is one, None for nothing.
    :param workspace: what is written to; None where nothing may be written.
    :param copy: the working directory on the host, with the candidate's files; used with a workspace.
    :param is_hidden: whether a path of the repository is not shown.
    """

    def __init__(
        self,
        directory: Path,
        reader: BaseReader | None,
        *,
        workspace: Workspace | None = None,
        copy: Path | None = None,
        is_hidden: Callable[[bytes], bool] = lambda _: False,
    ) -> None:
        self._roots = tuple(dict.fromkeys((str(directory), os.path.realpath(directory))))
        self._reader = reader
        self._workspace = workspace
        self._copy = copy
        self._is_hidden = is_hidden

    @property
    def is_writable(self) -> bool:
        """Whether something may be written."""
        return self._workspace is not None

    def holds(self, path: str) -> bool:
        """Whether a path that the agent named is one of these files', there or not."""
        try:
            self._relative(path)
        except RefusedInput:
            return False
        return True

    def read(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """The text of a file, or some lines of it.

        :param line: the first line, from 1. :param limit: how many lines.
        :raises RefusedInput: ``refused.outside-session``, ``refused.no-such-path``, ``refused.not-text``,
            ``refused.too-large``; the path rules' codes.
        """
        raw = self._relative(path)
        reader = None if self._is_hidden(raw) else self._reader
        mode = None if reader is None else reader.mode(raw)
        if reader is None or mode is None or mode == "gitlink":
            raise RefusedInput("refused.no-such-path", f"There is no file {_shown(raw)}.")
        if mode == "symlink":
            raise RefusedInput("refused.not-text", f"{_shown(raw)} is a symbolic link; links are not followed.")
        data = reader.read(raw)
        if len(data) > MAX_READ_BYTES:
            raise RefusedInput("refused.too-large", f"{_shown(raw)} has more than {MAX_READ_BYTES} bytes.")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise RefusedInput("refused.not-text", f"{_shown(raw)} is no text in UTF-8.") from error
        if line is None and limit is None:
            return text
        first = max((line or 1) - 1, 0)
        lines = text.split("\n")
        kept = lines[first:] if limit is None else lines[first : first + limit]
        return "\n".join(kept) + ("\n" if first + len(kept) < len(lines) and kept else "")

    def write(self, path: str, content: str) -> None:
        """Create or replace a file; what it already holds is not written again.

        :raises RefusedInput: ``refused.outside-session``, ``refused.read-only``, ``refused.not-text`` for what cannot
            be written in UTF-8; what the workspace refuses.
        :raises Conflict, PortError: when the working directory cannot take it.
        """
        raw = self._relative(path)
        workspace = self._workspace
        if workspace is None:
            raise RefusedInput("refused.read-only", "Nothing may be written here.")
        try:
            data = content.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RefusedInput("refused.not-text", f"The content of {_shown(raw)} cannot be UTF-8.") from error
        if workspace.mode(raw) in ("regular", "executable") and workspace.read(raw) == data:
            return
        workspace.write(raw, data)
        if self._copy is not None:
            with open_root(self._copy) as root:
                above = parents(raw)
                if above:
                    mkdirs_at(root, above[-1], sync=False)
                write_file_at(root, raw, data, executable=workspace.mode(raw) == "executable", sync=False)

    def _relative(self, path: str) -> bytes:
        """The path in the repository.

        :raises RefusedInput: ``refused.outside-session``, and the path rules' codes.
        """
        for root in self._roots:
            if path.startswith(root + "/"):
                try:
                    raw = path[len(root) + 1 :].encode("utf-8")
                except UnicodeEncodeError as error:
                    raise RefusedInput("refused.bad-path", "A path cannot be written in UTF-8.") from error
                check_path(raw)
                if is_reserved(raw):
                    raise RefusedInput("refused.control-path", f"{_shown(raw)} is git's own.")
                return raw
        raise RefusedInput(
            "refused.outside-session",
            f"{path[:_SHOWN]!r} is no absolute path below the session's working directory.",
            untouched="Nothing was read and nothing was written.",
        )


def _shown(raw: bytes) -> str:
    return repr(to_text(raw)[:_SHOWN])
