"""The JSON that agents wrap their answers in: lenient about what is in it, strict about being JSON. Pure.

Paths are member names joined by dots; ``*`` stands for every member of an object or list. Numbers with a fraction are
decimals, so that a price keeps the value it was written with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final, NoReturn, TypeAlias

Event: TypeAlias = Mapping[str, Any]

MAX_NUMBER: Final = 2**53 - 1
MAX_TRIES: Final = 50
"""How many places of a log are tried as the beginning of an object: each costs at most one pass."""

_COUNT: Final = re.compile(r"[0-9]{1,3}(,[0-9]{3})*|[0-9]{1,16}")
_OPENED: Final = re.compile(r"^\{", re.MULTILINE)


def json_value(text: str) -> Any:
    """The JSON value that a text is.

    :raises ValueError: it is none. :raises RecursionError: it is nested too deeply.
    """
    return json.loads(text, parse_float=Decimal, parse_constant=_no_number)


def json_object(raw: bytes) -> Event | None:
    """The JSON object that these bytes are, or None."""
    try:
        value = json_value(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def json_text(value: object) -> str:
    """A decoded value as JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=float)


def last_object(text: str, members: Sequence[str]) -> Event | None:
    """The last JSON object in a text that begins a line and has one of the members, or None."""
    decoder = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_number)
    starts = [match.start() for match in _OPENED.finditer(text)]
    for start in reversed(starts[-MAX_TRIES:]):
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if any(True for path in members for _ in values_at(value, path)):
            return dict(value)
    return None


def values_at(value: object, path: str) -> Iterator[object]:
    """Every value at a path; none where a member is missing."""
    name, _, rest = path.partition(".")
    if name == "*":
        found = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    else:
        found = [value[name]] if isinstance(value, dict) and name in value else []
    for inner in found:
        if rest:
            yield from values_at(inner, rest)
        else:
            yield inner


def scalar_text(value: object) -> str | None:
    """A scalar as JSON without quotes; None for an object or list."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str() | int() | Decimal():
            return str(value)
        case _:
            return None


def count_of(value: object) -> int | None:
    """A count, written as a number or as digits with commas; None for everything else."""
    match value:
        case bool():
            return None
        case int() if 0 <= value <= MAX_NUMBER:
            return value
        case str() if _COUNT.fullmatch(value):
            return int(value.replace(",", ""))
        case _:
            return None


def microunits_of(value: object) -> int | None:
    """An amount of money in millionths, rounded up; None for everything that is no amount."""
    match value:
        case bool():
            return None
        case int() | Decimal() if 0 <= value <= MAX_NUMBER // 1_000_000:
            return int((Decimal(value) * 1_000_000).quantize(Decimal(1), rounding=ROUND_CEILING))
        case _:
            return None


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")
