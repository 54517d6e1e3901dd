"""Options that many commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

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
