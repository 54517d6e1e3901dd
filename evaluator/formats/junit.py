"""JUnit XML, read defensively: no document type, bounded size, depth and count; repeated cases keep the worst."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from savant.contracts.errors import RefusedInput
from synthesis.documents import CheckStatus

MAX_REPORT_BYTES: Final = 32 * 1024 * 1024
MAX_CASES: Final = 200_000
MAX_DEPTH: Final = 50
MAX_TEXT: Final = 20_000
_SEVERITY: Final[Mapping[CheckStatus, int]] = MappingProxyType({"failed": 2, "skipped": 1, "passed": 0})
_OUTCOMES: Final[Mapping[str, CheckStatus]] = MappingProxyType(
    {"failure": "failed", "error": "failed", "skipped": "skipped"}
)


@dataclass(frozen=True, slots=True)
class TestCase:
    """One test: where it belongs, its name, how it ended, and the words of its failure."""

    __test__ = False

    classname: str
    name: str
    status: CheckStatus
    message: str
    text: str


def parse_junit(raw: bytes) -> tuple[TestCase, ...]:
    """The test cases of a report, in order of first appearance; a case told several times keeps its worst outcome.

    :raises RefusedInput: ``refused.junit`` for anything but a plain, bounded JUnit document.
    """
    if len(raw) > MAX_REPORT_BYTES:
        raise _refused(f"it has {len(raw)} bytes")
    if b"<!DOCTYPE" in raw or b"<!ENTITY" in raw:
        raise _refused("it declares a document type")
    import xml.etree.ElementTree as ET

    cases: dict[tuple[str, str], TestCase] = {}
    try:
        for case in _cases(ET.iterparse(io.BytesIO(raw), events=("start", "end"))):  # noqa: S314
            key = (case.classname, case.name)
            known = cases.get(key)
            if known is None or _SEVERITY[case.status] > _SEVERITY[known.status]:
                cases[key] = case
            if len(cases) > MAX_CASES:
                raise _refused(f"it has more than {MAX_CASES} cases")
    except (ET.ParseError, ValueError, LookupError) as error:
        raise _refused(f"it is not XML: {error}") from error
    return tuple(cases.values())


def _cases(events: object) -> Iterator[TestCase]:
    depth = 0
    root_seen = False
    for event, element in events:  # type: ignore[attr-defined]
        if event == "start":
            depth += 1
            if depth > MAX_DEPTH:
                raise _refused("it is nested too deeply")
            if not root_seen:
                root_seen = True
                if element.tag not in ("testsuites", "testsuite"):
                    raise _refused(f"its root is {element.tag!r}")
            continue
        depth -= 1
        if element.tag == "testcase":
            yield _case(element)
            element.clear()


def _case(element: object) -> TestCase:
    status: CheckStatus = "passed"
    message = text = ""
    for child in element:  # type: ignore[attr-defined]
        outcome = _OUTCOMES.get(child.tag)
        if outcome is not None and _SEVERITY[outcome] > _SEVERITY[status]:
            status = outcome
            message, text = (child.get("message") or "")[:MAX_TEXT], (child.text or "")[-MAX_TEXT:]
    get = element.get  # type: ignore[attr-defined]
    return TestCase((get("classname") or "")[:1_000], (get("name") or "")[:1_000], status, message, text)


def _refused(why: str) -> RefusedInput:
    return RefusedInput("refused.junit", f"The JUnit report is refused: {why}.")
