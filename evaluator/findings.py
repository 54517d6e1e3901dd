"""Findings: what a person and the next request read, normalised so that one failure always says the same. Pure.

What is normalised is untrusted and may be megabytes: every expression here takes time in proportion to the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from savant.contracts.canonical import encode_struct
from savant.contracts.digest import digest
from synthesis.documents import CheckStatus, Finding

SURFACE: Final = "<surface>"
MAX_MESSAGE_CHARACTERS: Final = 400
MAX_EXCERPT_CHARACTERS: Final = 1_500
MAX_NAME_CHARACTERS: Final = 180

_VOLATILE: Final = (
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), ""),
    (re.compile(r"\b0x[0-9a-fA-F]{4,}\b"), "0x…"),
    (re.compile(r"\bpytest-of-[^\s/]+"), "pytest-of-<user>"),
    (re.compile(r"/(?:var/)?tmp/[^\s'\":,)\]]+"), "<tmp>"),
)
_TIMES: Final = (
    (re.compile(r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(Z|[+-]\d{2}:?\d{2})?"), "<time>"),
    (re.compile(r"\b\d{1,2}:\d{2}:\d{2}([.,]\d+)?\b"), "<time>"),
    (re.compile(r"\b\d+[.,]\d+\s?(ns|µs|us|ms|s|sec|secs|seconds|minutes)\b"), "<duration>"),
    (re.compile(r"\b(in|after|took) \d+\s?(ns|µs|us|ms|s|sec|secs|seconds|minutes)\b"), r"\1 <duration>"),
    (re.compile(r"\bpid[ =:]\d+\b"), "pid <n>"),
)
_LOCATION: Final = re.compile(
    r"(?<![A-Za-z0-9_.+@/-])(?P<path>(?:[A-Za-z0-9_.+@-]+/)*[A-Za-z0-9_.+@-]+\.[A-Za-z0-9]{1,8})"
    r":(?P<line>[1-9]\d{0,6})\b"
)
_NAME: Final = re.compile(r"[^A-Za-z0-9._:@/+-]")


def normalise(text: str, surfaces: Iterable[str]) -> str:
    """The text without times, durations, addresses, colours and the places of disposable copies.

    A duration is taken out where it is a measurement (``0.12s``, ``in 3 ms``), not where it could be a value that a
    test is about (``3s``).
    """
    text = normalise_name(text.replace("\r\n", "\n"), surfaces)
    for pattern, words in _TIMES:
        text = pattern.sub(words, text)
    return "\n".join(line if line.isprintable() else _printable(line) for line in text.split("\n"))


def normalise_name(text: str, surfaces: Iterable[str]) -> str:
    """A test's name without addresses and places; times stay, because they may be all that sets two tests apart."""
    for surface in sorted(set(surfaces), key=len, reverse=True):
        text = text.replace(surface + "/", "").replace(surface, SURFACE)
    for pattern, words in _VOLATILE:
        text = pattern.sub(words, text)
    return text


def _printable(line: str) -> str:
    return "".join(c if c == "\t" or c.isprintable() else "?" for c in line)


def check_name(evaluator: str, *parts: str) -> str:
    """A check's name: the evaluator, a colon, the parts; a digest keeps names apart that had to be cut or cleaned."""
    full = ":".join((evaluator, "::".join(part for part in parts if part)))
    clean = _NAME.sub("_", full)
    if clean == full and len(clean) <= MAX_NAME_CHARACTERS:
        return clean
    return f"{clean[: MAX_NAME_CHARACTERS - 14]}-{digest(full.encode('utf-8', 'replace'))[7:19]}"


def make_finding(check: str, status: CheckStatus, message: str, output: str, *, paths: frozenset[str]) -> Finding:
    """A finding from a message and the output around it, both normalised.

    :param paths: the candidate's paths: the last ``path:line`` of the output that names one of them is the place.
    """
    path, line = _place(f"{output}\n{message}", paths)
    excerpt = output.strip()
    if len(excerpt) > MAX_EXCERPT_CHARACTERS:
        excerpt = "…" + excerpt[-MAX_EXCERPT_CHARACTERS:]
    return Finding(
        check=check,
        status=status,
        path=path,
        line=line,
        message=message.strip()[:MAX_MESSAGE_CHARACTERS] or status,
        excerpt=excerpt,
    )


def located_findings(check: str, output: str, *, paths: frozenset[str], limit: int) -> tuple[Finding, ...]:
    """One finding per output line that begins with a place in the candidate, as linters write them."""
    return tuple(_located(check, output, paths, limit))


def _located(check: str, output: str, paths: frozenset[str], limit: int) -> Iterator[Finding]:
    count = 0
    for line in output.splitlines():
        match = _LOCATION.match(line.strip())
        path = None if match is None else _path(match)
        if match is None or path not in paths:
            continue
        if count == limit:
            return
        count += 1
        yield Finding(
            check=check,
            status="failed",
            path=path,
            line=int(match["line"]),
            message=line.strip()[:MAX_MESSAGE_CHARACTERS],
            excerpt="",
        )


def _place(text: str, paths: frozenset[str]) -> tuple[str | None, int | None]:
    found = [(_path(m), int(m["line"])) for m in _LOCATION.finditer(text) if _path(m) in paths]
    return found[-1] if found else (None, None)


def _path(match: re.Match[str]) -> str:
    return match["path"].removeprefix("./")


def size_of(finding: Finding) -> int:
    """The size of a finding in bytes, as it is counted against a limit."""
    return len(encode_struct(finding))


def bound(findings: Iterable[Finding], *, max_findings: int, max_bytes: int) -> tuple[Finding, ...]:
    """As many findings as fit, in order; one that does not fit is tried without its excerpt."""
    kept: list[Finding] = []
    left = max_bytes
    for finding in findings:
        if len(kept) >= max_findings:
            break
        for form in (finding, replace(finding, excerpt="")):
            size = size_of(form)
            if size <= left:
                kept.append(form)
                left -= size
                break
    return tuple(kept)
