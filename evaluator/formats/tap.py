"""The Test Anything Protocol, versions 12 to 14, read defensively: one case for each test point. Pure.

``# SKIP`` is skipped; ``# TODO`` is expected to fail and is skipped when it does. Subtests are named after the test
point that closes them, which is the line that follows them. What stands in a diagnostic block explains the point above
it and is nothing else, whatever it looks like. A plan that does not fit, a block that nothing ends, or a bail out says
nothing about the tree and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from evaluator.formats.cases import MAX_CASES, MAX_NAME, MAX_TEXT, TestCase, check_report, refused_report
from savant.contracts.errors import RefusedInput
from synthesis.documents import CheckStatus

MAX_DEPTH: Final = 10
INDENT: Final = 4
_LINE: Final = re.compile(rb"[^\n]+")
_POINT: Final = re.compile(r"^(?P<not>not )?ok\b(?:[ \t]+(?P<number>\d{1,9}))?[ \t]*(?:- )?(?P<rest>.*)$")
_PLAN: Final = re.compile(r"^1\.\.(?P<count>\d{1,9})[ \t]*(?:#.*)?$")
_DIRECTIVE: Final = re.compile(r"(?:^|[ \t])#[ \t]*(?P<word>skip|todo)\b", re.IGNORECASE)
_MESSAGES: Final = frozenset({"message", "error"})
_FOLDED: Final = frozenset({"|-", "|", ">", ">-"})
_VERSIONS: Final = frozenset({"12", "13", "14"})
_VERSION: Final = re.compile(r"^TAP version (?P<version>\d{1,3})[ \t]*$", re.IGNORECASE)


class _Level(msgspec.Struct):
    """One document: the whole stream, or a subtest."""

    planned: int | None = None
    seen: int = 0
    points: list[TestCase] = []
    words: list[str] = []
    size: int = 0

    def explain(self, text: str) -> None:
        """A line after a test point that failed is part of its words."""
        if self.points and self.points[-1].status == "failed" and self.size < MAX_TEXT:
            self.words.append(text)
            self.size += len(text) + 1

    def settle(self) -> None:
        """No more words are said about the last test point."""
        if self.words:
            text = "\n".join(self.words)[:MAX_TEXT]
            self.points[-1] = replace(self.points[-1], text=text, message=_message(self.words)[:MAX_TEXT])
            self.words, self.size = [], 0


class _Reader:
    """The levels that are open, from the stream itself to the deepest subtest, and the point that was told last."""

    def __init__(self) -> None:
        self.levels = [_Level()]
        self._last: _Level | None = None
        self._block = ""

    def line(self, line: str) -> None:
        """Read one line."""
        text = line.strip()
        if self._block:
            if line.rstrip() == self._block:
                self._block = ""
            elif self._last is not None and text:
                self._last.explain(text)
            return
        if text.lower().startswith("bail out!"):
            raise _refused(f"it bailed out: {text[9:].strip()[:200]}")
        version = _VERSION.match(text)
        if version is not None and version["version"] not in _VERSIONS:
            raise _refused(f"its version is {version['version']}")
        depth = (len(line) - len(line.lstrip(" "))) // INDENT
        plan, point = _PLAN.match(text), _POINT.match(text)
        if plan is not None:
            _plan(self._level(depth), int(plan["count"]))
        elif point is not None:
            level = self._level(depth)
            _add(level, self._closed(depth), point)
            self._last = level
        elif text == "---" and self._last is not None and line.startswith(" "):
            self._block = line.rstrip()[:-3] + "..."
        elif text and self._last is not None:
            self._last.explain(text.removeprefix("# "))

    def cases(self) -> tuple[TestCase, ...]:
        """Everything that was told."""
        if self._block:
            raise _refused("a diagnostic block has no end: it may have been cut off")
        self._fold(1)
        return tuple(_whole(self.levels[0]))

    def _level(self, depth: int) -> _Level:
        if depth >= MAX_DEPTH:
            raise _refused("it is nested too deeply")
        while len(self.levels) <= depth:
            self.levels.append(_Level())
        self._fold(depth + 2)
        return self.levels[depth]

    def _closed(self, depth: int) -> _Level | None:
        """The subtest that a point of this depth closes."""
        return self.levels.pop() if len(self.levels) > depth + 1 else None

    def _fold(self, count: int) -> None:
        """Points of a deeper level that no test point closed belong to the level above, as they are."""
        while len(self.levels) > count:
            inner = self.levels.pop()
            self.levels[-1].settle()
            self.levels[-1].points.extend(_whole(inner))


def parse_tap(raw: bytes) -> tuple[TestCase, ...]:
    """The test points of a stream, in order; the points of a subtest carry the names above them.

    :raises RefusedInput: ``refused.tap`` for anything but a whole, bounded stream; no test point at all is no case.
    """
    check_report("tap", "TAP", raw)
    reader = _Reader()
    for line in _LINE.finditer(raw):
        reader.line(line[0].decode("utf-8", "replace").rstrip("\r"))
    return reader.cases()


def _add(level: _Level, inner: _Level | None, point: re.Match[str]) -> None:
    """Keep a test point, and before it the subtest that it closes."""
    level.settle()
    level.seen += 1
    number = point["number"]
    if number is not None and int(number) != level.seen:
        raise _refused(f"test point {number} comes at place {level.seen}")
    directive = _DIRECTIVE.search(point["rest"])
    name = (point["rest"] if directive is None else point["rest"][: directive.start()]).strip()
    name = name[:MAX_NAME] or f"test {level.seen}"
    if inner is not None:
        level.points.extend(replace(case, classname=_joined(name, case.classname)) for case in _whole(inner))
    status: CheckStatus = "failed" if point["not"] else "passed"
    if directive is not None and (directive["word"].lower() == "skip" or status == "failed"):
        status = "skipped"
    level.points.append(TestCase("", name, status, "", ""))
    if len(level.points) > MAX_CASES:
        raise _refused(f"it has more than {MAX_CASES} test points")


def _message(words: list[str]) -> str:
    """The first thing that was said; where a diagnostic block has a message, that."""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        key, colon, value = word.partition(":")
        if colon and key in _MESSAGES:
            said = (after if value.strip() in _FOLDED else value).strip().strip("'\"")
            return said or words[0]
    return words[0]


def _plan(level: _Level, count: int) -> None:
    if level.planned is not None:
        raise _refused("it has two plans")
    level.planned = count


def _whole(level: _Level) -> Iterator[TestCase]:
    if level.planned is None:
        raise _refused("it has no plan: it may have been cut off")
    if level.planned != level.seen:
        raise _refused(f"{level.planned} tests were planned and {level.seen} told")
    level.settle()
    yield from level.points


def _joined(name: str, classname: str) -> str:
    return f"{name}::{classname}"[:MAX_NAME] if classname else name


def _refused(why: str) -> RefusedInput:
    return refused_report("tap", "TAP", why)
