"""JUnit XML, read defensively: no document type, bounded size, depth and count; repeated cases keep the worst.

The report is read as a stream: what is not a test case is dropped as it comes, and a declared document type ends the
reading before any entity of it is seen, whatever the encoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from evaluator.formats.cases import (
    MAX_CASES,
    MAX_NAME,
    MAX_TEXT,
    TestCase,
    check_report,
    is_worse,
    refused_report,
)
from savant.contracts.errors import RefusedInput
from synthesis.documents import CheckStatus

MAX_DEPTH: Final = 50
_ROOTS: Final = frozenset({"testsuites", "testsuite"})
_NOT_RUN: Final = frozenset({"notrun", "skipped", "disabled"})
_OUTCOMES: Final[Mapping[str, CheckStatus]] = MappingProxyType(
    {"failure": "failed", "error": "failed", "skipped": "skipped"}
)


def parse_junit(raw: bytes) -> tuple[TestCase, ...]:
    """The test cases of a report, in order of first appearance; a case told several times keeps its worst outcome.

    :raises RefusedInput: ``refused.junit`` for anything but a plain, bounded JUnit document.
    """
    check_report("junit", "JUnit", raw)
    import xml.etree.ElementTree as ET

    reader = _Reader()
    parser = ET.XMLParser(target=reader)  # noqa: S314 - a document type ends it, see _Reader.doctype
    try:
        parser.feed(raw)
        parser.close()
    except (ET.ParseError, ValueError, LookupError) as error:
        raise _refused(f"it is not XML: {error}") from error
    return tuple(reader.cases.values())


class _Reader:
    """The events of the XML parser, in document order."""

    def __init__(self) -> None:
        self.cases: dict[tuple[str, str], TestCase] = {}
        self._open: list[str] = []
        self._case: TestCase | None = None
        self._outcome: CheckStatus | None = None
        self._message = ""
        self._text: list[str] = []

    def doctype(self, *_: str | None) -> None:
        raise _refused("it declares a document type")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._open.append(tag)
        if len(self._open) > MAX_DEPTH:
            raise _refused("it is nested too deeply")
        if len(self._open) == 1 and tag not in _ROOTS:
            raise _refused(f"its root is {tag[:40]!r}")
        if tag == "testcase":
            if self._case is not None:
                raise _refused("it has a test case inside a test case")
            status: CheckStatus = "skipped" if attributes.get("status") in _NOT_RUN else "passed"
            classname, name = attributes.get("classname", ""), attributes.get("name", "")
            self._case = TestCase(classname[:MAX_NAME], name[:MAX_NAME], status, "", "")
        elif self._case is not None and self._open[-2] == "testcase" and tag in _OUTCOMES:
            self._outcome = _OUTCOMES[tag]
            self._message, self._text = attributes.get("message", "")[:MAX_TEXT], []

    def data(self, text: str) -> None:
        if self._outcome is not None:
            self._text.append(text)

    def end(self, tag: str) -> None:
        self._open.pop()
        case = self._case
        if case is None:
            return
        if self._outcome is not None and self._open[-1] == "testcase":
            if is_worse(self._outcome, case.status):
                text = "".join(self._text)[-MAX_TEXT:]
                self._case = TestCase(case.classname, case.name, self._outcome, self._message, text)
            self._outcome = None
        elif tag == "testcase":
            self._keep(case)
            self._case = None

    def close(self) -> None:
        """Nothing is left to do at the end of the document."""

    def _keep(self, case: TestCase) -> None:
        key = (case.classname, case.name)
        known = self.cases.get(key)
        if known is None or is_worse(case.status, known.status):
            self.cases[key] = case
        if len(self.cases) > MAX_CASES:
            raise _refused(f"it has more than {MAX_CASES} cases")


def _refused(why: str) -> RefusedInput:
    return refused_report("junit", "JUnit", why)
