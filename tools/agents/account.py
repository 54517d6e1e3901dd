"""Whether the agents that are installed were driven, by a report of pytest in JUnit's form.

A test that drives a real agent says so by the property ``agent``. For each agent the account counts the tests that
ran and those that were skipped; an agent that is installed and was not driven by every one of its tests fails it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

STATE: Final = Path(__file__).resolve().parent.parent.parent / ".agents" / "state.json"


def driven(report: Path) -> tuple[Counter[str], Counter[str]]:
    """How many tests drove each agent, and how many would have."""
    ran: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - see the import
        names = {p.get("value", "") for p in case.iterfind("properties/property") if p.get("name") == "agent"}
        (ran if case.find("skipped") is None else skipped).update(names)
    return ran, skipped


def judge(
    state: Mapping[str, Mapping[str, Any]], suites: Sequence[str], ran: Counter[str], skipped: Counter[str]
) -> tuple[list[str], bool]:
    """A line for each agent of the suites, and whether all is well."""
    groups = [told for told in state.values() if told["suite"] in suites]
    if {told["suite"] for told in groups} != set(suites):
        return ["agents: make agents did not run"], False
    lines: list[str] = []
    fine = True
    for name, word in ((name, word) for told in groups for name, word in told.get("missing", {}).items()):
        lines.append(f"agents: {name}: {skipped[name]} skipped, not installed: {word}")
    for name, here in ((name, here) for told in groups for name, here in told.get("installed", {}).items()):
        good = ran[name] > 0 and not skipped[name]
        fine = fine and good
        lines.append(
            f"agents: {name} ({here['version']}): {ran[name]} ran, {skipped[name]} skipped"
            f"{'' if good else ': it is installed, and not driven by each of its tests'}"
        )
    return lines, fine


def main(words: Sequence[str]) -> int:
    """Print the account; 1 if it is not well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--examples", action="store_true", help="the agents of make test-agents too")
    parser.add_argument("--state", type=Path, default=STATE, help="what make agents wrote")
    given = parser.parse_args(words)
    state = json.loads(given.state.read_text("utf-8")) if given.state.exists() else {}
    suites = ("default", "examples") if given.examples else ("default",)
    lines, fine = judge(state, suites, *driven(given.report))
    print("\n".join(lines))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
