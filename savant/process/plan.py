"""What the supervisor does for one command, as a value made by :mod:`savant.process.sandbox`."""

from __future__ import annotations

from typing import Any

import msgspec


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What the supervisor does for one command.

    :param argv: to execute; a number stands for the descriptor at that place among those sent, streams first.
    :param env: of what is executed.
    :param contain: for :mod:`savant.process.contain`; None at S0 and S3.
    :param blobs: contents to send as descriptors 3 and on; after them comes that of the report, if there is one.
    :param has_report: whether the end of the command is told in a report.
    :param wrappers: how many processes of ours stand between the supervisor and the command.
    :param layers: what will be active beside the supervisor's own layers, by name.
    """

    argv: tuple[str | int, ...]
    env: tuple[tuple[str, str], ...]
    cwd: str
    contain: dict[str, Any] | None = None
    blobs: tuple[bytes, ...] = ()
    has_report: bool = False
    wrappers: int = 0
    layers: tuple[str, ...] = ()
