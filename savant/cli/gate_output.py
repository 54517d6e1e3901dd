"""The answers of the gate in the forms that others read: SARIF, JUnit, annotations of a forge, a summary. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

import msgspec

from savant.cli.render import safe, short

MAX_TEXT: Final = 4_000


class Line(msgspec.Struct, frozen=True):
    """One commit as it is shown: its answer, whether it is stopped, and why, as ``(code, sentence, detail)``."""

    commit: str
    base: str
    answer: str
    is_stopped: bool
    reasons: tuple[tuple[str, str, str], ...]

    @property
    def words(self) -> str:
        """The reasons in sentences, each with its code."""
        return " ".join(f"{sentence} [{code}] {detail}".strip() for code, sentence, detail in self.reasons)[:MAX_TEXT]


def sarif(lines: Sequence[Line], version: str) -> str:
    """A SARIF 2.1.0 log with one result for each commit that is not let through, or would not be."""
    rules = sorted({(code, sentence) for line in lines for code, sentence, _ in line.reasons})
    results = [
        {
            "ruleId": line.reasons[0][0] if line.reasons else "gate",
            "level": "error" if line.is_stopped else "warning",
            "message": {"text": f"{short(line.commit)}: {line.words}"},
            "partialFingerprints": {"savantCommit/v1": line.commit},
        }
        for line in lines
        if line.answer != "governed"
    ]
    driver = {
        "name": "savant gate",
        "version": version,
        "rules": [{"id": code, "shortDescription": {"text": sentence}} for code, sentence in rules],
    }
    run = {"tool": {"driver": driver}, "results": results, "invocations": [{"executionSuccessful": True}]}
    log = {"version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, sort_keys=True) + "\n"


def junit(lines: Sequence[Line], version: str) -> str:
    """A JUnit report with one case for each commit; what is reported and not stopped is skipped."""
    del version
    stopped = sum(line.is_stopped for line in lines)
    skipped = sum(not line.is_stopped and line.answer != "governed" for line in lines)
    head = f'<testsuite name="savant gate" tests="{len(lines)}" failures="{stopped}" errors="0" skipped="{skipped}">'
    cases = "\n".join(_case(line) for line in lines)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n{head}\n{cases}\n</testsuite>\n</testsuites>\n'


def _case(line: Line) -> str:
    words = _printable(line.words)
    inner = ""
    if line.is_stopped:
        inner = f"<failure message={quoteattr(words[:300])}>{escape(words)}</failure>"
    elif line.answer != "governed":
        inner = f"<skipped message={quoteattr(words[:300])}/>"
    return f'<testcase classname="savant.gate" name={quoteattr(_printable(line.commit))}>{inner}</testcase>'


def github(lines: Sequence[Line], version: str) -> str:
    """Workflow commands of GitHub, one for each commit that is not governed."""
    del version
    return "".join(
        f"::{'error' if line.is_stopped else 'warning'} title=savant {short(line.commit)}::{_command(line.words)}\n"
        for line in lines
        if line.answer != "governed"
    )


def _command(text: str) -> str:
    """A message that cannot begin another command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def summary(lines: Iterable[Line], verdict: str) -> str:
    """A table in Markdown; nothing that others wrote can be markup in it."""
    return "\n".join(_summary(lines, verdict)) + "\n"


def _summary(lines: Iterable[Line], verdict: str) -> Iterator[str]:
    yield f"### savant gate: {verdict}"
    yield ""
    yield "| Commit | Answer | Why |"
    yield "|---|---|---|"
    for line in lines:
        yield f"| `{short(line.commit)}` | {line.answer} | {_markdown(line.words)} |"


def _markdown(text: str) -> str:
    """Text of others as plain text in a cell."""
    plain = safe(text).replace("\n", " ")
    return "".join(f"&#{ord(c)};" if c in "&<>|`*_[]()!#@\\" else c for c in plain)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


FORMS: Final[Mapping[str, Callable[[Sequence[Line], str], Any]]] = MappingProxyType(
    {"sarif": sarif, "junit": junit, "github": github}
)
"""The forms beside text and JSON."""
