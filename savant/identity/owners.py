"""Who owns a path, by the CODEOWNERS file as committed at the base.

The file stands in one of three places, and the first that is there counts: ``.github/CODEOWNERS``, ``CODEOWNERS``,
``docs/CODEOWNERS``. Its lines have the syntax that code hosts share: the last pattern that matches a path decides, one
of its owners suffices, and a pattern without owners makes a path nobody's. What the hosts read differently (sections,
negation, character ranges) or would pass over (a pattern that is none, a word that is no owner) is refused by its line:
a line that is passed over would be a reviewer who is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from savant.contracts.errors import RefusedInput

if TYPE_CHECKING:
    from codeowners import CodeOwners

OWNERS_PATHS: Final = (b".github/CODEOWNERS", b"CODEOWNERS", b"docs/CODEOWNERS")
MAX_OWNERS_BYTES: Final = 3 * 1024 * 1024
"""As much as the largest host reads."""

MAX_WILDCARDS: Final = 4
"""In one pattern, ``**`` as one: what matching costs grows with the length of a path to the power of them."""

MAX_LINE_CHARACTERS: Final = 4_096


class Owners(msgspec.Struct, frozen=True):
    """A CODEOWNERS file: where it stands, and its rules."""

    path: bytes
    rules: CodeOwners

    def of(self, raw_path: bytes) -> tuple[str, ...]:
        """The owners of a path as they are written, sorted; empty for nobody's."""
        path = raw_path.decode("utf-8", "surrogateescape")
        return tuple(sorted({owner for _, owner in self.rules.of(path)}))


def read_owners(raw: bytes, path: bytes) -> Owners:
    """The rules of a CODEOWNERS file.

    :raises RefusedInput: ``refused.codeowners`` naming file, line and fix.
    """
    from codeowners import CodeOwners

    if len(raw) > MAX_OWNERS_BYTES:
        raise _refused(path, "the file", f"has {len(raw)} bytes; {MAX_OWNERS_BYTES} are allowed")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refused(path, "the file", "is not UTF-8") from error
    return Owners(path, CodeOwners("\n".join(_lines(text, path))))


def _lines(text: str, path: bytes) -> Iterator[str]:
    """The lines that say something, without comments, each one that is understood."""
    for number, line in enumerate(text.split("\n"), 1):
        words = _words(line)
        if not words:
            continue
        problem = _problem(line, words)
        if problem:
            raise _refused(path, f"line {number}", problem)
        yield " ".join(words)


def _words(line: str) -> list[str]:
    """Pattern and owners; a word that starts with ``#`` begins a comment."""
    words: list[str] = []
    for word in line.strip().replace("\\ ", "\0").split():
        if word.startswith("#"):
            break
        words.append(word.replace("\0", "\\ "))
    return words


def _problem(line: str, words: list[str]) -> str:
    """What is wrong with a line, empty for nothing."""
    from codeowners import parse_owner, path_to_regex

    pattern, *owners = words
    if "\0" in line or len(line) > MAX_LINE_CHARACTERS or len(line.strip().splitlines()) != 1:
        return f"is no line of at most {MAX_LINE_CHARACTERS} characters"
    if pattern.startswith(("!", "[", "^[")) or "[" in pattern or "]" in pattern:
        return "has a section, a negation or a character range, which code hosts read differently"
    if pattern.replace("**", "*").count("*") > MAX_WILDCARDS:
        return f"has more than {MAX_WILDCARDS} wildcards in its pattern"
    if not pattern.strip("/"):
        return "has a pattern that matches nothing"
    stray = next((owner for owner in owners if parse_owner(owner) is None), None)
    if stray is not None:
        return f"names {stray!r}, which is neither @person, @organisation/team nor a mail address"
    path_to_regex(pattern)
    return ""


def _refused(path: bytes, where: str, problem: str) -> RefusedInput:
    name = path.decode()
    return RefusedInput(
        "refused.codeowners",
        f"{name} at the base: {where} {problem}",
        untouched="No provider was called and nothing was written.",
        fix=f'Correct {name} and commit it, or set codeowners = "ignore" in .savant/policy.toml.',
    )
