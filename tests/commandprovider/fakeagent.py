"""A coding agent of a few lines that behaves like Claude Code's headless mode: version, JSON envelope, tools.

It is written to a folder as ``claude`` with ``script.json`` beside it, and keeps no state: what it does depends on what
it is asked. The script maps a situation to an act. Situations: ``interpretation``, ``planning``, ``generation``,
``audit``, ``examination``, and
``generation-again`` and ``planning-again`` where the prompt holds findings (without such an act, the plain one).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VERSION = "2.1.332"

PROGRAM = r"""
import json, os, pathlib, subprocess, sys, time

here = pathlib.Path(__file__).resolve().parent
script = json.loads((here / "script.json").read_text())
words = sys.argv[1:]
if words == ["--version"]:
    print(script.get("version", "2.1.332") + " (Claude Code)")
    sys.exit(script.get("version-status", 0))

prompt = sys.stdin.read()
for text in script.get("forbidden", ()):
    if text in prompt:
        sys.stderr.write("the prompt holds " + text + "\n")
        sys.exit(9)
for text in script.get("demanded", ()):
    if text not in prompt:
        sys.stderr.write("the prompt does not hold " + text + "\n")
        sys.exit(8)

if "# The findings of the first auditor" in prompt:
    situation = "examination"
elif "# The change, as unified diffs" in prompt:
    situation = "audit"
elif "# The plan that was accepted" in prompt:
    situation = "generation"
elif "Say what the task means" in prompt:
    situation = "interpretation"
else:
    situation = "planning"
again = situation + "-again"
act = script.get(again if "# What failed before" in prompt and again in script else situation, {})

for told in act.get("demanded", ()):
    if told not in prompt:
        sys.stderr.write("the prompt does not hold " + told + "\n")
        sys.exit(8)
for name, text in act.get("write", {}).items():
    path = pathlib.Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
for name in act.get("delete", ()):
    pathlib.Path(name).unlink()
for name in act.get("need", ()):
    if not pathlib.Path(name).exists():
        sys.stderr.write(name + " is not there\n")
        sys.exit(7)
for name in act.get("absent", ()):
    if pathlib.Path(name).exists():
        sys.stderr.write(name + " is there\n")
        sys.exit(6)
if "shell" in act:
    subprocess.run(act["shell"], shell=True, check=True)
if "sleep" in act:
    time.sleep(act["sleep"])

text = act.get("text", "Done.").replace("{cwd}", os.getcwd())
if "answer" in act:
    text = json.dumps(act["answer"])
envelope = {
    "total_cost_usd": 0.000184,
    "usage": {"input_tokens": 11, "output_tokens": 7},
    "modelUsage": {"m": {"inputTokens": 11, "outputTokens": 7, "cacheReadInputTokens": 0}},
    "permission_denials": [], "terminal_reason": "completed", "is_error": False, "num_turns": 1,
    "subtype": "success", "api_error_status": None, "result": text, "stop_reason": "end_turn",
    "session_id": "00000000-0000-4000-8000-000000000000", "type": "result",
}
if "structured" in act:
    envelope["structured_output"] = act["structured"]
for name in act.get("without", ()):
    del envelope[name]
envelope.update(act.get("envelope", {}))
sys.stdout.write(act["raw"] if "raw" in act else json.dumps(envelope) + "\n")
sys.exit(act.get("status", 0))
"""


def install(folder: Path, script: Mapping[str, Any], *, name: str = "claude") -> Path:
    """Write the agent and its script into a folder of its own; the path of the executable."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.json").write_text(json.dumps(script))
    program = folder / name
    program.write_text(f"#!{sys.executable} -IB\n{PROGRAM}")
    program.chmod(0o755)
    return program


def step(pattern: str, *operations: str, id_: str = "step-1", description: str = "Do it") -> dict[str, Any]:
    """A plan of one step, as the wire has it."""
    return {
        "steps": [
            {
                "id": id_,
                "description": description,
                "intended_changes": [{"pattern": pattern, "operations": list(operations or ("modify",))}],
            }
        ]
    }
