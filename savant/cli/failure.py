"""How an error becomes words and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise

from savant.cli.exits import EXITS, ending_of_error
from savant.cli.render import Output
from savant.contracts.errors import InternalError, SavantError


def report_failure(error: Exception, arguments: Sequence[str]) -> int:
    """Show an error as its reader wants it: sentences, or one JSON document; the exit code."""
    as_json = _wants_json(arguments)
    output = Output(as_json=as_json)
    known = error if isinstance(error, SavantError) else _unexpected(error)
    ending = ending_of_error(known)
    code = EXITS[ending].code
    if as_json:
        output.document(
            "error",
            ending,
            code,
            {"code": known.code, "message": known.message, "untouched": known.untouched, "fix": known.fix},
        )
        return code
    lines = [f"savant: {known.message}  [{known.code}]"]
    if known.untouched:
        lines.append(f"  untouched: {known.untouched}")
    if known.fix:
        lines.append(f"  next: {known.fix}")
    Output(as_json=True).say(*lines)
    return code


def _wants_json(arguments: Sequence[str]) -> bool:
    words = list(arguments)
    return "--format=json" in words or ("--format", "json") in set(pairwise(words))


def _unexpected(error: Exception) -> SavantError:
    if os.environ.get("SAVANT_TRACEBACK") == "1":
        traceback.print_exception(error, file=sys.stderr)
    return InternalError(
        "internal.unexpected",
        f"{type(error).__name__}: {error}",
        fix="Run it again with SAVANT_TRACEBACK=1 and report what it prints.",
    )
