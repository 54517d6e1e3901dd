"""Processes: the port that runs foreign commands, its supervisor, its twin and its cassettes.

It owns limits, deadlines, cancellation, output bounds, the end of every descendant and the proof of it. It never uses
a shell, never passes on the ambient environment or a descriptor, and never decides what an exit status means.
"""

from __future__ import annotations

from savant.process.environment import allowed_environment, resolve_executable
from savant.process.port import (
    Channel,
    Command,
    Ended,
    Level,
    Limits,
    Missing,
    Mount,
    Offer,
    ProcessRunner,
    Sandbox,
    Talk,
    Verdict,
)

__all__ = [
    "Channel",
    "Command",
    "Ended",
    "Level",
    "Limits",
    "Missing",
    "Mount",
    "Offer",
    "ProcessRunner",
    "Sandbox",
    "Talk",
    "Verdict",
    "allowed_environment",
    "resolve_executable",
]
