"""The machine, drawn from its table: a Mermaid state diagram and Markdown tables. Nothing here is written by hand."""

from __future__ import annotations

from collections.abc import Iterator

from synthesis.table import PHASES, REFUSALS, TABLE, TERMINAL_PHASES, Arrow

_COMMON = frozenset({"TripBreaker", "Escalate", "Abort", "Resume"})
"""Legal in every phase that is not terminal: one note in the diagram instead of an arrow from everywhere."""


def mermaid() -> str:
    """The diagram, as the body of a Mermaid block, with a newline at its end."""
    lines = ["stateDiagram-v2", "    [*] --> created"]
    for phase in PHASES:
        for command, words in TABLE[phase].items():
            if command in _COMMON:
                continue
            for word, arrow in words.items():
                lines.extend(_edges(phase, command, word, arrow))
    lines += [f"    {phase} --> [*]" for phase in PHASES if phase in TERMINAL_PHASES]
    lines += [
        "    note right of failed",
        f"        {', '.join(sorted(_COMMON - {'Resume'}))} and a drifted Resume",
        "        lead here from every phase that is not terminal",
        "    end note",
    ]
    return "\n".join(lines) + "\n"


def _edges(phase: str, command: str, word: str, arrow: Arrow) -> Iterator[str]:
    label = f"{command} {word}".rstrip()
    yield f"    {phase} --> {arrow.target or phase}: {label}"
    if arrow.otherwise is not None:
        yield f"    {phase} --> failed: {label}, {_exception(arrow)}"


def _exception(arrow: Arrow) -> str:
    return f"not retryable or no {arrow.consumes} left" if arrow.listed else f"no {arrow.consumes} left"


def markdown_table() -> str:
    """Every arrow of the machine as a Markdown table, with a newline at its end."""
    lines = ["| Phase | Command | Word | Leads to | Reason | Events |", "|---|---|---|---|---|---|"]
    for phase in PHASES:
        if not TABLE[phase]:
            lines.append(f"| `{phase}` | none | | | | |")
        for command, words in TABLE[phase].items():
            for word, arrow in words.items():
                lines.append(_line(phase, command, word, arrow))
    return "\n".join(lines) + "\n"


def _line(phase: str, command: str, word: str, arrow: Arrow) -> str:
    target = "unchanged" if arrow.target is None else f"`{arrow.target}`"
    reason = "" if arrow.reason is None else f"`{arrow.reason}`"
    if arrow.otherwise is not None:
        target += f", one {arrow.consumes} consumed; `failed` when {_exception(arrow)}"
        reason = f"`{arrow.otherwise}` when failed"
    events = ", ".join(f"`{event}`" for event in arrow.events)
    return f"| `{phase}` | {command} | {f'`{word}`' if word else ''} | {target} | {reason} | {events} |"


def refusal_table() -> str:
    """Every refusal code and its sentence as a Markdown table, with a newline at its end."""
    lines = ["| Code | Meaning |", "|---|---|"]
    lines += [f"| `{code}` | {meaning} |" for code, meaning in REFUSALS.items()]
    return "\n".join(lines) + "\n"
