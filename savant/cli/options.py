"""Options that many commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

GATE_MODES: Final = ("report", "declared", "all")
"""What the gate stops, from the one that stops least."""


class _Day(click.ParamType[str]):
    """A day of the calendar, as YYYY-MM-DD."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The day as it stands in documents, if it is one."""
        import datetime as dt

        try:
            day = dt.date.fromisoformat(value).isoformat()
        except ValueError:
            day = ""
        if day != value:
            self.fail(f"{value!r} is no day as YYYY-MM-DD.", param, ctx)
        return day


DAY = _Day()


def today() -> str:
    """The day it is, in UTC."""
    import datetime as dt

    return dt.datetime.now(dt.UTC).date().isoformat()


F = TypeVar("F", bound=Callable[..., Any])


def format_option(function: F) -> F:
    """``--format text|json``: one JSON document on stdout, or sentences."""
    return click.option(
        "--format", "format_", type=click.Choice(["text", "json"]), default="text", help="How to print the result."
    )(function)


def repository_option(function: F) -> F:
    """``--repo PATH``: the repository; the current folder's by default."""
    return click.option(
        "--repo",
        "repo",
        type=click.Path(exists=True, file_okay=False),
        default=".",
        help="The repository (default: the one of the current folder).",
    )(function)


def run_argument(function: F) -> F:
    """``RUN``: a unique prefix of a run id; the latest run by default."""
    return click.argument("run", metavar="[RUN]", default="latest")(function)


def evidence_option(function: F) -> F:
    """``--evidence BUNDLE``, which may be given several times."""
    words = "Look into this bundle of savant bundle instead of a ledger; may be repeated."
    return click.option("--evidence", multiple=True, type=click.Path(), metavar="BUNDLE", help=words)(function)
