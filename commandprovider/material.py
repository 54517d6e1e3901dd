"""What of the repository an agent is shown: decided by the host, within limits, the same for the same work.

A repository's own instruction files for agents are never shown unless the person disclosed them: whoever can commit one
would otherwise instruct the agent of everybody who runs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from commandprovider.prompts import Shown
from providerport.documents import Prior
from providerport.port import BaseReader, FileMode
from savant.contracts.errors import RefusedInput
from savant.files.paths import to_text
from savant.files.patterns import PatternSet

INSTRUCTION_FILES: Final = (
    *("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "AGENTS.override.md", "AGENT.md", "GEMINI.md", "QWEN.md"),
    *(".cursorrules", ".windsurfrules", ".clinerules", ".goosehints", ".aider.conf.yml", ".mcp.json", "opencode.json"),
    *("**/.claude/**", "**/.codex/**", "**/.gemini/**", "**/.cursor/**", "**/.opencode/**", "**/.clinerules/**"),
    *(".github/copilot-instructions.md", ".github/instructions/**", "**/.windsurf/**", "**/.continue/**"),
)
"""What agents read by themselves as instructions or configuration."""

MAX_LISTING_SHARE: Final = 4
"""The path list may take one part in so many of the room there is."""

MAX_FILE_BYTES: Final = 64 * 1024
MAX_READS: Final = 400
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{2,}")
_COMMON: Final = frozenset(
    ("the", "and", "for", "with", "not", "are", "that", "this", "from", "into", "when", "must", "should", "all")
) | {"any", "add", "fix", "make", "use", "new", "file", "files", "test", "tests", "src", "lib", "init", "main", "task"}


class Disclosure(msgspec.Struct, frozen=True):
    """Which instruction files are shown: those that match a pattern, and no other.

    :param patterns: of the person's configuration; empty for none.
    """

    patterns: tuple[str, ...] = ()

    def is_hidden(self, path: bytes) -> bool:
        """Whether a path is an instruction file that was not disclosed."""
        return _INSTRUCTIONS.matches(path) and not self.is_disclosed(path)

    def is_disclosed(self, path: bytes) -> bool:
        """Whether a path is an instruction file that was disclosed."""
        return bool(self.patterns) and _INSTRUCTIONS.matches(path) and PatternSet.parse(self.patterns).matches(path)


_INSTRUCTIONS: Final = PatternSet.parse(INSTRUCTION_FILES)


class DisclosedBase:
    """A base without the instruction files that stay hidden; a :class:`~providerport.port.BaseReader`."""

    def __init__(self, base: BaseReader, disclosure: Disclosure) -> None:
        self._base = base
        self._disclosure = disclosure

    def mode(self, path: bytes) -> FileMode | None:
        """The mode of a path, None for what is not there or hidden."""
        return None if self._disclosure.is_hidden(path) else self._base.mode(path)

    def read(self, path: bytes) -> bytes:
        """The content of a file that is shown.

        :raises RefusedInput: ``refused.no-such-path``.
        """
        if self._disclosure.is_hidden(path):
            raise RefusedInput("refused.no-such-path", f"{to_text(path)!r} is not shown.")
        return self._base.read(path)

    def read_many(self, paths: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The content of each path, in bulk where the base can."""
        wanted = [path for path in paths if not self._disclosure.is_hidden(path)]
        in_bulk = getattr(self._base, "read_many", None)
        if in_bulk is None:
            yield from ((path, self._base.read(path)) for path in wanted)
        else:
            yield from in_bulk(wanted)

    def paths(self) -> Iterator[bytes]:
        """The paths that are shown, in byte order."""
        return (path for path in self._base.paths() if not self._disclosure.is_hidden(path))


class Selection(msgspec.Struct, frozen=True):
    """What fitted: paths, contents, and what did not."""

    listing: tuple[str, ...]
    unlisted: int
    files: tuple[Shown, ...]
    left_out: tuple[str, ...]


def select(
    base: BaseReader, *, wanted: Sequence[str], about: Iterable[str], prior: Prior | None, max_bytes: int
) -> Selection:
    """The path list and the contents of the files that matter most, within a limit of bytes.

    First what the findings name, then what ``about`` names (a path, then a file name, then a word of it), then what
    else matches ``wanted``. Files that are no text or larger than :data:`MAX_FILE_BYTES` are named and left out.

    :param wanted: path patterns of what is to be changed; empty for anywhere.
    :param about: texts of the task or the plan.
    """
    paths = list(base.paths())
    listing, unlisted = _listed(paths, max_bytes // MAX_LISTING_SHARE)
    left = max_bytes - sum(len(text.encode()) + 1 for text in listing)
    found = {finding.path for finding in prior.findings} if prior is not None else set()
    ranked = _ranked(paths, wanted, " ".join(about), {path for path in found if path is not None})
    files: list[Shown] = []
    left_out: list[str] = []
    for path in ranked[:MAX_READS]:
        shown = _shown(base, path)
        cost = 0 if shown is None else len(shown.text.encode()) + len(shown.path.encode()) + _FENCE_BYTES
        if shown is None or cost > left:
            left_out.append(to_text(path))
            continue
        files.append(shown)
        left -= cost
    named = [text for text in left_out[:_MAX_NAMED] if (left := left - len(text.encode()) - 1) >= 0]
    return Selection(tuple(listing), unlisted, tuple(files), tuple(sorted(named)))


_FENCE_BYTES: Final = 100
_MAX_NAMED: Final = 50


def instructions(base: BaseReader, disclosure: Disclosure) -> tuple[Shown, ...]:
    """The instruction files that were disclosed, as far as they are text."""
    if not disclosure.patterns:
        return ()
    disclosed = (path for path in base.paths() if disclosure.is_disclosed(path))
    return tuple(shown for path in disclosed if (shown := _shown(base, path)) is not None)


def _listed(paths: Sequence[bytes], max_bytes: int) -> tuple[list[str], int]:
    listed: list[str] = []
    left = max_bytes
    for path in paths:
        text = to_text(path)
        left -= len(text.encode()) + 1
        if left < 0:
            break
        listed.append(text)
    return listed, len(paths) - len(listed)


def _ranked(paths: Sequence[bytes], wanted: Sequence[str], about: str, found: set[str]) -> list[bytes]:
    patterns = PatternSet.parse(wanted) if wanted else None
    words = {word.lower() for word in _WORD.findall(about)} - _COMMON
    scored = []
    for path in paths:
        rank = _rank(to_text(path), about, words, found)
        is_wanted = patterns is None or patterns.matches(path)
        if is_wanted or rank <= _NAMED:
            scored.append((rank, not is_wanted, path))
    return [path for _, _, path in sorted(scored)]


_NAMED: Final = 2


def _rank(path: str, about: str, words: set[str], found: set[str]) -> int:
    """0 for what findings name, 1 for a path in the text, 2 for a file name, 3 for a word in common, 4 for the rest."""
    name = path.rpartition("/")[2]
    if path in found:
        return 0
    if "/" in path and path in about:
        return 1
    if "." in name and name in about:
        return _NAMED
    if words & {word.lower() for word in _WORD.findall(path)}:
        return 3
    return 4


def _shown(base: BaseReader, path: bytes) -> Shown | None:
    """A file as it can be shown, None for what is no text, too large, or no file."""
    if base.mode(path) not in ("regular", "executable"):
        return None
    data = base.read(path)
    if len(data) > MAX_FILE_BYTES or b"\0" in data:
        return None
    try:
        return Shown(to_text(path), data.decode("utf-8"))
    except UnicodeDecodeError:
        return None
