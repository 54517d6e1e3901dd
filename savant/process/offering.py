"""What sandbox levels this system can have, found out by running a command at them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from savant.contracts.errors import PortError
from savant.contracts.scalars import as_set
from savant.process.host import Circumstances, explain, obstacle
from savant.process.port import Command, Ended, Level, Limits, Missing, Offer, Sandbox
from savant.process.sandbox import LEVELS, Host

PROBE: Final = ("/bin/sh", "-c", "exit 0")
_LIMITS: Final = Limits(wall_ms=30_000, stdout_bytes=4096, stderr_bytes=4096, grace_ms=0)

Run: TypeAlias = Callable[[Command], Ended]
"""Runs a command at the level it demands, without asking whether it is offered."""


def try_level(level: Level, run: Run, host: Host, around: Callable[[], Circumstances]) -> Ended | Missing:
    """Run a command at a level: how it ended if it ran contained, else what is missing.

    :param around: asked only when there is something to explain.
    :raises PortError: as ``run`` does.
    """
    if level != "S0" and (known := obstacle(level, host, around())):
        return known
    ended = run(
        Command(argv=PROBE, cwd=Path("/"), env=(), limits=_LIMITS, sandbox=Sandbox(level=level, network=level == "S0"))
    )
    if ended.is_success and (level == "S0" or "subreaper" in ended.layers):
        return ended
    told = ended.detail or ended.stderr.decode("utf-8", "replace").strip() or f"it ended as {ended.verdict}"
    if ended.is_success:
        told = "this system has no subreaper, so not every process of a command could be found"
    return explain(level, told, host, around())


def find_offer(at_most: Level, attempt: Callable[[Level], Ended | Missing]) -> Offer:
    """The strongest level that works, and what keeps it from more.

    :raises PortError: ``port.spawn`` if not even S0 works.
    """
    missing: list[Missing] = []
    for level in LEVELS:
        if level > at_most:
            continue
        tried = attempt(level)
        if isinstance(tried, Ended):
            return Offer(level, as_set(tried.layers), tuple(missing))
        if tried not in missing:
            missing.append(tried)
    raise PortError("port.spawn", f"No command can be run here: {missing[-1].why}", fix=missing[-1].fix)
