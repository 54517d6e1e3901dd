"""The one path pattern language: scopes, policies, recipes and reports all use it.

A pattern is text. It matches a whole raw path (never a folder as such), case-sensitively, byte for byte:

=====================  ==============================================================================
``src/app.py``         a slash anywhere anchors the pattern at the root: exactly this path
``/Makefile``          the same for one name: a leading slash anchors and is not part of the name
``Makefile``           without a slash: that base name at any depth
``*.lock``             ``*``: any characters within one component, also none
``v?.txt``             ``?``: exactly one character within one component
``[a-c0-9_]``          one of these characters; ``[!...]``: one other than these; never a slash
``docs/``              a trailing slash: everything below the folder, at any depth
``docs/**``            the same
``**/test/*.py``       ``**`` as a whole component: any number of components, also none
``100%25.txt``         ``%XX``: this literal byte, as in :func:`savant.files.paths.to_text`, also ``%2A``
=====================  ==============================================================================

So the text of a path is a pattern for that path, unless it holds one of ``* ? [``, has no slash or starts with ``!``;
:func:`literal` writes those right. One *character* is one UTF-8 character, or one byte that is not valid UTF-8.

Different from gitignore: a trailing slash anchors too (``build/`` is the one at the root, ``**/build/`` is any); there
is no negation and no backslash escape, both are refused; ``**`` glued to other characters is refused; ``?`` is one
character, not one byte.

The work for one match is bounded by the length of the path times the length of the pattern: every ``*`` and every
``**`` but the last commits to its first match (atomic groups), which is exact, because what follows has a fixed length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

import msgspec

from savant.contracts.errors import RefusedInput
from savant.files.paths import to_text

MAX_PATTERN_CHARACTERS: Final = 4096

_TOKEN: Final = re.compile(
    r"(?P<escape>(?:%[0-9A-F]{2})+)"
    r"|(?P<star>\*)"
    r"|(?P<one>\?)"
    r"|\[(?P<negated>!?)(?P<members>\]?[^\]]*)\]"
    r"|(?P<literal>[^%*?\[\\]+)",
    re.DOTALL,
)
_SPECIAL: Final = re.compile(r"[*?\[]")
_MEANING: Final = re.compile(r"[*?\[%]")
_WILD: Final = re.compile(r"\*+|\?|%[0-9A-F]{2}|\[!?\]?[^\]]*\]")


def _bad(text: str, why: str, fix: str = "") -> RefusedInput:
    shown = text if len(text) <= 200 else f"{text[:200]}..."
    return RefusedInput("refused.bad-pattern", f"The path pattern {shown!r} {why}.", fix=fix)


class Pattern(msgspec.Struct, frozen=True):
    """A parsed pattern: its text and how to match it. Equal when the texts are equal."""

    text: str
    _regex: str
    _literal: str
    """Characters that every path it matches holds; most paths are refused by looking for them, without the regex."""

    def matches(self, raw_path: bytes) -> bool:
        """Whether the pattern matches the whole path, given as raw bytes."""
        path = raw_path.decode("utf-8", "surrogateescape")
        if self._literal not in path:
            return False
        if _MEANING.search(self.text) is None and not self.text.endswith("/"):
            name = self.text.removeprefix("/")
            return path == name or ("/" not in self.text and path.endswith(f"/{name}"))
        return _compiled(self._regex).fullmatch(path) is not None

    def __str__(self) -> str:
        """The text it was parsed from."""
        return self.text

    def __repr__(self) -> str:
        """The text, as a call that would parse it."""
        return f"Pattern(text={self.text!r})"


class PatternSet(msgspec.Struct, frozen=True):
    """Patterns of which any may match; keeps their order, which decides :meth:`first`."""

    patterns: tuple[Pattern, ...]

    @classmethod
    def parse(cls, texts: Iterable[str]) -> PatternSet:
        """The set of these pattern texts.

        :raises RefusedInput: ``refused.bad-pattern`` for the first that is none.
        """
        return cls(tuple(parse(text) for text in texts))

    def first(self, raw_path: bytes) -> Pattern | None:
        """The first pattern that matches the path, None if none does."""
        return next((pattern for pattern in self.patterns if pattern.matches(raw_path)), None)

    def matches(self, raw_path: bytes) -> bool:
        """Whether any pattern matches the path; False for the empty set."""
        return self.first(raw_path) is not None

    def __iter__(self) -> Iterator[Pattern]:
        """The patterns, in order."""
        return iter(self.patterns)

    def __len__(self) -> int:
        """How many patterns there are."""
        return len(self.patterns)


@lru_cache(maxsize=4096)
def parse(text: str) -> Pattern:
    """The pattern that a text stands for.

    :raises RefusedInput: ``refused.bad-pattern`` if the text is empty, longer than 4096 characters, has an empty, ``.``
        or ``..`` component, a backslash, an open ``[``, an empty or reversed range, ``[^`` or ``[:``, a lone ``%``, a
        lone surrogate, a leading ``!`` or a ``**`` that is not a whole component.
    """
    if not text or len(text) > MAX_PATTERN_CHARACTERS:
        raise _bad(text, f"is empty or longer than {MAX_PATTERN_CHARACTERS} characters")
    if text.startswith("!"):
        raise _bad(text, "starts with '!': there is no negation", "Write a literal '!' as %21.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _bad(text, "holds a lone surrogate") from error
    body = text.removeprefix("/")
    below = body.endswith("/")
    components = body.removesuffix("/").split("/")
    if "/" not in text:
        components.insert(0, "**")
    if below:
        components.append("**")
    return Pattern(text, _regex(text, components), _longest_literal(text))


def _longest_literal(text: str) -> str:
    """The longest run of the text that stands for itself; a slash at its edge may be a ``**`` of no component."""
    return max((run.strip("/") for run in _WILD.split(text)), key=len)


@lru_cache(maxsize=4096)
def _compiled(regex: str) -> re.Pattern[str]:
    """Compiled when it is first needed: most patterns of a policy hold no wildcard and never are."""
    return re.compile(regex, re.DOTALL)


def literal(raw_path: bytes) -> str:
    """The pattern text that matches exactly this path."""
    text = _SPECIAL.sub(lambda match: f"%{ord(match.group()):02X}", to_text(raw_path))
    return f"/{text}"


def _regex(text: str, components: list[str]) -> str:
    """Segments of plain components between the ``**``; each segment has a fixed number of components."""
    segments: list[list[str]] = [[]]
    for component in components:
        if component == "**":
            segments.append([])
        else:
            segments[-1].append(_component(text, component))
    first, *rest = segments
    if not rest:
        return "/".join(first)
    parts = ["".join(f"{component}/" for component in first)]
    # Each ** but the last takes the fewest components after which its segment matches, and never reconsiders.
    parts.extend(
        "(?>(?:[^/]+/)*?" + "".join(f"{component}/" for component in segment) + ")" for segment in rest[:-1] if segment
    )
    parts.append("(?:[^/]+/)*" + "/".join(rest[-1]) if rest[-1] else ".+")
    return "".join(parts)


def _component(text: str, component: str) -> str:
    """One component as an atomic group; between the stars stand runs of a fixed number of characters."""
    if component in ("", ".", ".."):
        raise _bad(text, "has an empty, '.' or '..' component")
    runs: list[str] = [""]
    position = 0
    while position < len(component):
        token = _TOKEN.match(component, position)
        if token is None:
            raise _bad(text, *_WHY[component[position]])
        position = token.end()
        if token["star"]:
            if component.startswith("*", position):
                raise _bad(text, "has '**' beside other characters in a component", "Put '**' between slashes.")
            runs.append("")
        else:
            runs[-1] += _one(text, token)
    first, *rest = runs
    if not rest:
        return f"(?>{first})"
    middle = "".join(f"(?>[^/]*?{run})" for run in rest[:-1])
    # A component is never empty, which only a pattern of stars alone could accept.
    some = "(?=[^/])" if not any(runs) else ""
    return f"(?>{some}{first}{middle}[^/]*{rest[-1]}(?![^/]))"


_WHY: Final = {
    "%": ("has a '%' without two upper-case hexadecimal digits", "Write a literal percent sign as %25."),
    "\\": ("holds a backslash", "Separate with '/', or write a literal backslash as %5C."),
    "[": ("has a '[' without its ']' in the same component", "Write a literal bracket as %5B."),
}


def _one(text: str, token: re.Match[str]) -> str:
    if token["one"]:
        return "[^/]"
    if token["literal"]:
        return _exact(token["literal"].encode())
    if token["escape"]:
        raw = bytes.fromhex(token["escape"].replace("%", ""))
        if b"/" in raw or b"\0" in raw:
            raise _bad(text, "has an escaped slash or NUL, which no name can hold")
        return _exact(raw)
    return _class(text, token["negated"], token["members"])


def _exact(raw: bytes) -> str:
    return re.escape(raw.decode("utf-8", "surrogateescape"))


def _class(text: str, negated: str, members: str) -> str:
    """A bracket expression; ``]`` first and ``-`` first or last are literal."""
    if not members or "%" in members or "\\" in members:
        raise _bad(text, "has an empty bracket expression, or '%' or a backslash in one")
    if members.startswith("^") or "[:" in members:
        raise _bad(text, "has '[^' or '[:' in it", "Negate with [!...]; list the characters of a class.")
    parts: list[str] = []
    position = 0
    while position < len(members):
        low = members[position]
        if members[position + 1 : position + 2] == "-" and position + 2 < len(members):
            high = members[position + 2]
            if high < low:
                raise _bad(text, f"has the reversed range {low}-{high}")
            parts.append(f"{re.escape(low)}-{re.escape(high)}")
            position += 3
        else:
            parts.append(re.escape(low))
            position += 1
    inside = "".join(parts)
    return f"[^/{inside}]" if negated else f"(?!/)[{inside}]"
