"""A provider that does what it is told to, a small test suite, and the checks in what ``savant show`` tells."""

from __future__ import annotations

import shlex
import sys
from typing import Any

PYTEST = f"{sys.executable} -m pytest -q -p no:cacheprovider -p no:hypothesispytest -p no:timeout -p no:pytest_cov"
EVERY = ["create", "modify", "delete", "rename", "copy", "mode-change", "symlink-change", "type-change"]
HONEST = "def total(amount):\n    return 2 * amount\n"
WRONG = "def total(amount):\n    return 3 * amount\n"
TEST = "from shop.totals import total\n\n\ndef test_total():\n    assert total(2) == 4\n"
PROGRAM = """
import json, sys
asked = json.load(sys.stdin)
said = {"wire": asked["wire"], "request_digest": asked["request_digest"]}
match asked["request"]["operation"]:
    case "planning":
        said["plan"] = PLAN
    case "generation":
        said["generation"] = {"edits": EDITS}
print(json.dumps(said))
"""


def provider(actions: dict[str, Any], *, declares: bool) -> tuple[str, ...]:
    """A provider that promises everything, declares as told, and then does what it is told to."""
    step = {
        "id": "all",
        "intended_changes": [{"pattern": "**", "operations": EVERY}],
        "declares_gate_changes": declares,
    }
    edits = [
        *({"op": "delete", "path": path} for path in actions.get("delete", ())),
        *({"op": "write", "path": path, "text": text} for path, text in actions.get("write", {}).items()),
        *({"op": "symlink", "path": path, "to": target} for path, target in actions.get("link", {}).items()),
    ]
    program = PROGRAM.replace("PLAN", repr({"steps": [step]})).replace("EDITS", repr(edits))
    words = shlex.join((sys.executable, "-I", "-c", program))
    return ("--provider", words, "--provider-operation", "planning", "--provider-operation", "generation")


def checks_in(shown: Any) -> list[dict[str, Any]]:
    """Every check in a JSON answer, wherever it stands."""
    if isinstance(shown, dict):
        own = [shown] if {"check", "base_status", "comparison"} <= set(shown) else []
        return [*own, *(item for value in shown.values() for item in checks_in(value))]
    return [item for value in shown for item in checks_in(value)] if isinstance(shown, list) else []
