"""SARIF 2.1.0, read defensively: every result of level error or warning is a failed case. Pure.

A case's name is its rule and its path with what tells two results of one rule in one file apart: the fingerprint that
the tool gives, else its words without their numbers. Lines are no part of it, because a change above a result moves
them. A result that is none (``kind`` other than ``fail``, or one that its tool knows from before and did not find), a
note, and one that the tool says is suppressed do not fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from evaluator.formats.cases import MAX_CASES, MAX_NAME, MAX_TEXT, Clean, TestCase, check_report, refused_report
from savant.contracts.digest import digest
from savant.contracts.errors import RefusedInput

_FAILING: Final = frozenset({"error", "warning"})
_SUPPRESSED: Final = frozenset({"accepted", None})
_QUOTED: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_NUMBER: Final = re.compile(r"[0-9]+")


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a log: what is not named here is not read."""


class _Message(_Part, frozen=True, rename="camel"):
    text: str = ""
    markdown: str = ""
    id: str = ""
    arguments: list[str] | None = None

    @property
    def words(self) -> str:
        """What it says; the name of a text that is kept elsewhere, with what belongs into it."""
        return self.text or self.markdown or " ".join((self.id, *(self.arguments or ())))


class _Configuration(_Part, frozen=True, rename="camel"):
    level: str = "warning"


class _Rule(_Part, frozen=True, rename="camel"):
    id: str = ""
    default_configuration: _Configuration | None = None


class _Component(_Part, frozen=True, rename="camel"):
    name: str = ""
    rules: list[_Rule] | None = None


class _Tool(_Part, frozen=True, rename="camel"):
    driver: _Component
    extensions: list[_Component] | None = None


class _Artifact(_Part, frozen=True, rename="camel"):
    uri: str = ""
    index: int = -1


class _ArtifactEntry(_Part, frozen=True, rename="camel"):
    location: _Artifact | None = None


class _Region(_Part, frozen=True, rename="camel"):
    start_line: int = 0


class _Physical(_Part, frozen=True, rename="camel"):
    artifact_location: _Artifact | None = None
    region: _Region | None = None


class _Location(_Part, frozen=True, rename="camel"):
    physical_location: _Physical | None = None


class _ComponentReference(_Part, frozen=True, rename="camel"):
    index: int = -1


class _RuleReference(_Part, frozen=True, rename="camel"):
    id: str = ""
    index: int = -1
    tool_component: _ComponentReference | None = None


class _Suppression(_Part, frozen=True, rename="camel"):
    status: str | None = None


class _Result(_Part, frozen=True, rename="camel"):
    message: _Message
    rule_id: str = ""
    rule_index: int = -1
    rule: _RuleReference | None = None
    level: str | None = None
    kind: str = "fail"
    baseline_state: str = ""
    locations: list[_Location] | None = None
    partial_fingerprints: dict[str, str] | None = None
    fingerprints: dict[str, str] | None = None
    suppressions: list[_Suppression] | None = None


class _Notification(_Part, frozen=True, rename="camel"):
    message: _Message
    level: str = "warning"


class _Invocation(_Part, frozen=True, rename="camel"):
    execution_successful: bool = True
    tool_execution_notifications: list[_Notification] | None = None
    tool_configuration_notifications: list[_Notification] | None = None


class _Run(_Part, frozen=True, rename="camel"):
    tool: _Tool
    results: list[_Result] | None = None
    invocations: list[_Invocation] | None = None
    artifacts: list[_ArtifactEntry] | None = None


class _Log(_Part, frozen=True, rename="camel"):
    version: str
    runs: list[_Run]


def parse_sarif(raw: bytes, clean: Clean = str) -> tuple[TestCase, ...]:
    """A failed case for each result that is an error or a warning; none for a run that found nothing.

    :param clean: what words go through before they become part of a name.

    :raises RefusedInput: ``refused.sarif`` for anything but a bounded log of version 2.1 with a run that took place:
        one that says that it failed, or has no results because it did not look, says nothing about the tree.
    """
    check_report("sarif", "SARIF", raw)
    try:
        log = msgspec.json.decode(raw.removeprefix(b"\xef\xbb\xbf"), type=_Log)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refused(f"it is no SARIF log: {error}") from error
    if not log.version.startswith("2.1"):
        raise _refused(f"its version is {log.version[:20]!r}")
    if not log.runs:
        raise _refused("it holds no run")
    cases: list[TestCase] = []
    for run in log.runs:
        _verify_ran(run)
        for result in run.results or ():
            cases.extend(_case(run, result, clean))
            if len(cases) > MAX_CASES:
                raise _refused(f"it has more than {MAX_CASES} results")
    return tuple(cases)


def _verify_ran(run: _Run) -> None:
    name = run.tool.driver.name[:80]
    if run.results is None:
        raise _refused(f"{name} has no results: it did not look")
    for invocation in run.invocations or ():
        if not invocation.execution_successful:
            raise _refused(f"{name} says that its run failed")
        notifications = (
            *(invocation.tool_execution_notifications or ()),
            *(invocation.tool_configuration_notifications or ()),
        )
        for notification in notifications:
            if notification.level == "error":
                raise _refused(f"{name} had an error: {notification.message.words[:200]}")


def _case(run: _Run, result: _Result, clean: Clean) -> Iterator[TestCase]:
    rule, configured = _rule(run.tool, result)
    level = result.level or configured
    suppressions = result.suppressions or ()
    is_suppressed = bool(suppressions) and all(item.status in _SUPPRESSED for item in suppressions)
    if result.kind != "fail" or result.baseline_state == "absent" or level not in _FAILING or is_suppressed:
        return
    place, line = _place(run, result)
    path, words = clean(place), result.message.words[:MAX_TEXT]
    prints = result.partial_fingerprints or result.fingerprints
    told = (f"{key}={value}" for key, value in sorted(prints.items())) if prints else (_NUMBER.sub("0", clean(words)),)
    mark = digest(",".join(told).encode("utf-8", "replace"))[7:19]
    at = f"{path}:{line}: " if line else f"{path}: " if path else ""
    name = f"{path[: MAX_NAME - len(mark) - 1]}@{mark}"
    yield TestCase(rule[:MAX_NAME], name, "failed", words, f"{at}{words}"[:MAX_TEXT])


def _rule(tool: _Tool, result: _Result) -> tuple[str, str]:
    """The id and the configured level of a result's rule."""
    reference = result.rule or _RuleReference()
    index = result.rule_index if result.rule_index >= 0 else reference.index
    id_ = result.rule_id or reference.id
    component, extensions = reference.tool_component, tool.extensions or []
    is_extended = component is not None and 0 <= component.index < len(extensions)
    rules = (extensions[component.index] if component is not None and is_extended else tool.driver).rules or []
    found = rules[index] if 0 <= index < len(rules) else next((rule for rule in rules if id_ and rule.id == id_), None)
    if found is not None and id_ and not id_.startswith(found.id):
        found = None  # not the rule that it says it is
    level = "warning"
    if found is not None and found.default_configuration is not None:
        level = found.default_configuration.level
    return id_ or (found.id if found is not None else "") or "result", level


def _place(run: _Run, result: _Result) -> tuple[str, int]:
    """The path and the line of the first location; empty and 0 where there is none."""
    physical = result.locations[0].physical_location if result.locations else None
    if physical is None or physical.artifact_location is None:
        return "", 0
    artifact, known = physical.artifact_location, run.artifacts or []
    if not artifact.uri and 0 <= artifact.index < len(known):
        artifact = known[artifact.index].location or artifact
    path = _unquoted(artifact.uri[:MAX_TEXT].removeprefix("file:").removeprefix("//")).removeprefix("./")
    return path, max(physical.region.start_line, 0) if physical.region is not None else 0


def _unquoted(text: str) -> str:
    """The text without percent-encoding."""
    raw = _QUOTED.sub(lambda match: bytes.fromhex(match[1].decode("ascii")), text.encode("utf-8", "replace"))
    return raw.decode("utf-8", "replace")


def _refused(why: str) -> RefusedInput:
    return refused_report("sarif", "SARIF", why)
