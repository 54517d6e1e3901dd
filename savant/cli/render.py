"""How endings are shown: JSON for programs on stdout, sentences for people, everything else on stderr.

Text from a repository, a provider or a tool is never trusted: control characters are escaped before it reaches a
terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, TextIO

FORMAT_VERSION: Final = "savant.cli/v1"


def safe(text: str) -> str:
    """The text with control characters (escape sequences, bidirectional overrides) made visible."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c == "\t" or c.isprintable() else f"\\x{ord(c):02x}" for c in text)


class Output:
    """One command's output. ``document`` is printed once: as JSON, or as the sentences given to :meth:`say`."""

    def __init__(
        self, *, as_json: bool, quiet: bool = False, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self._out = out or sys.stdout
        self._err = err or sys.stderr

    def say(self, *lines: str) -> None:
        """Sentences for a person: on stdout, or on stderr when stdout carries JSON."""
        stream = self._err if self.as_json else self._out
        for line in lines:
            print(safe(line), file=stream)

    def progress(self, line: str) -> None:
        """What is going on, on stderr."""
        if not self.quiet:
            print(safe(line), file=self._err, flush=True)

    def raw(self, data: bytes) -> None:
        """Exact bytes on stdout (a patch, a document)."""
        self._out.flush()
        self._out.buffer.write(data)
        self._out.buffer.flush()

    def document(self, kind: str, ending: str, exit_code: int, members: Mapping[str, Any]) -> None:
        """The one JSON document of the command; nothing when a person is reading."""
        if self.as_json:
            body = {"format": FORMAT_VERSION, "command": kind, "ending": ending, "exit_code": exit_code, **members}
            print(json.dumps(body, indent=2, sort_keys=True, ensure_ascii=True), file=self._out)


def table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Rows as aligned columns."""
    cells = [tuple(safe(cell) for cell in row) for row in rows]
    if not cells:
        return []
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def short(digest: str) -> str:
    """The first twelve hex digits of a digest or git id."""
    return digest.partition(":")[2][:12] or digest[:12]
