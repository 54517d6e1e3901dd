r"""Secrets in added lines: well-known forms of credentials, private keys, and random values under telling names. Pure.

A finding never holds the value: it says where it is, what it looks like, and its first characters. Every expression
has bounded repeats, so the time is in proportion to the text.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

import msgspec

from evaluator.checks.change import ChangedFile, bad, below, case_of
from evaluator.compare import Case
from evaluator.documents import EvaluatorConfig

MAX_LINE: Final = 10_000
"""Bytes of a line that are looked at; a window that overlaps moves over longer ones."""
_OVERLAP: Final = 600
_SHOWN: Final = 4
_LEAST_ENTROPY: Final = 3.3
"""Bits for each character: random letters and digits have more, words and numbers less."""

_FORMS: Final = (
    ("private key", rb"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"),
    ("AWS access key", rb"(?<![A-Z0-9])(?:AKIA|ASIA)[0-9A-Z]{16}(?![A-Z0-9])"),
    ("GitHub token", rb"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})"),
    ("GitLab token", rb"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{20,100}"),
    ("Slack token", rb"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,200}"),
    ("Google API key", rb"(?<![A-Za-z0-9])AIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])"),
    ("Stripe key", rb"(?<![A-Za-z0-9])[rs]k_live_[0-9A-Za-z]{16,200}"),
    ("Anthropic key", rb"(?<![A-Za-z0-9])sk-ant-[A-Za-z0-9_-]{20,200}"),
    ("OpenAI key", rb"(?<![A-Za-z0-9])sk-(?:proj-)?[A-Za-z0-9]{20,200}"),
    ("PyPI token", rb"pypi-AgE[A-Za-z0-9_-]{50,400}"),
    ("npm token", rb"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    ("web token", rb"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{10,500}\.eyJ[A-Za-z0-9_-]{10,500}\.[A-Za-z0-9_-]{10,500}"),
)
_KNOWN: Final = re.compile(b"|".join(b"(" + form + b")" for _, form in _FORMS))
_ASSIGNED: Final = re.compile(
    rb"(?i)(?P<name>(?:passw(?:or)?d|secret|token|api[_-]?key|access[_-]?key|credential)"
    rb"[A-Za-z0-9_-]{0,20})[\"']?[ \t]{0,8}(?::=|=>|[:=])[ \t]{0,8}[\"']?(?P<value>[A-Za-z0-9+/_=.~-]{16,200})"
)
_MARKS: Final = (
    *(b"private key", b"akia", b"asia", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_", b"glpat-", b"xox"),
    *(b"aiza", b"k_live_", b"sk-", b"pypi-age", b"npm_", b"eyj"),
    *(b"passw", b"secret", b"token", b"apikey", b"api_key", b"api-key"),
    *(b"accesskey", b"access_key", b"access-key", b"credential"),
)
"""One of these, whatever its case, is in everything that an expression finds: most lines have none."""
_PLACEHOLDER: Final = re.compile(rb"(?i)example|sample|placeholder|change.?me|dummy|redacted|your|x{6}|0{8}|1234567")


class Secret(msgspec.Struct, frozen=True):
    """Something that looks like a secret: its line, what it looks like, its first characters."""

    line: int
    form: str
    masked: str


def find_secrets(lines: Iterable[tuple[int, bytes]]) -> tuple[Secret, ...]:
    """What looks like a secret in numbered lines, at most one of each form on a line, in order."""
    numbered = list(lines)
    marked = _marked([line for _, line in numbered])
    return tuple(found for place in marked for found in _in_line(*numbered[place]))


def _marked(lines: Sequence[bytes]) -> list[int]:
    """The places of the lines that hold a mark, found in all of them at once, which is much faster than in each."""
    text = b"\n".join(lines).lower()
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    places: set[int] = set()
    for mark in _MARKS:
        at = text.find(mark)
        while at >= 0:
            place = bisect_right(starts, at) - 1
            places.add(place)
            at = text.find(mark, starts[place + 1])
    return sorted(places)


def check_secrets(config: EvaluatorConfig, files: Iterable[ChangedFile]) -> Case:
    """No added line holds what looks like a secret; paths that the patterns name are not looked at."""
    return case_of(
        bad(config.id, file.path, secret.line, f"looks like a secret: {secret.form} ({secret.masked})")
        for file in files
        if not below(config.patterns, file.path)
        for secret in find_secrets(file.added())
    )


def _in_line(number: int, line: bytes) -> Iterator[Secret]:
    seen: set[str] = set()
    for start in range(0, max(len(line), 1), MAX_LINE - _OVERLAP):
        for form, value in _in_text(line[start : start + MAX_LINE]):
            if form not in seen and not _PLACEHOLDER.search(value):
                seen.add(form)
                yield Secret(number, form, f"{value[:_SHOWN].decode('ascii', 'replace')}…")


def _in_text(text: bytes) -> Iterator[tuple[str, bytes]]:
    for match in _KNOWN.finditer(text):
        yield _FORMS[(match.lastindex or 1) - 1][0], match[0]
    for match in _ASSIGNED.finditer(text):
        if _is_random(match["value"]):
            yield f"value of {match['name'].decode('ascii', 'replace')}", match["value"]


def _is_random(value: bytes) -> bool:
    """Whether a value is more like a random one than like a name, a path or a number."""
    has_both = re.search(rb"[0-9]", value) and re.search(rb"[A-Za-z]", value)
    if not has_both or value.count(b".") > 1 or value.count(b"/") > len(value) // 8:
        return False
    counts = Counter(value).values()
    entropy = -sum(count / len(value) * math.log2(count / len(value)) for count in counts)
    return entropy >= _LEAST_ENTROPY
