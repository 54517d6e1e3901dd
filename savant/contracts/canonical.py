r"""Canonical bytes: RFC 8785 (JCS) restricted until every simple encoder agrees.

The profile: member names are ASCII; values are strings of Unicode scalars, integers with ``|n| < 2**53``, booleans,
null, lists and objects. No floats: durations are milliseconds, money is micro-units, ratios are parts per million.
Members are sorted by name, there is no white space, and only ``"``, ``\\`` and control characters are escaped.
Inside this profile ``msgspec``'s sorted encoder and RFC 8785 give the same bytes (``tests/compat`` holds the oracle).

Worked example::

    >>> encode({"b": 1, "a": ["x", None, True]})
    b'{"a":["x",null,true],"b":1}'
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from savant.contracts.errors import InternalError, RefusedInput

T = TypeVar("T")

MAX_INTEGER: Final = 2**53 - 1
"""The largest integer a document may hold (inclusive); its negative is the smallest."""

_encoder: Final = msgspec.json.Encoder(order="sorted")

_UNENCODABLE: Final = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
"""What the encoder raises for a value that JSON cannot hold (``UnicodeEncodeError`` is a ``ValueError``)."""


def encode(value: object) -> bytes:
    """Canonical bytes of builtins or a struct.

    :raises InternalError: ``internal.not-canonical`` when the value leaves the profile.
    """
    try:
        _check_profile(msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else value)
    except _UNENCODABLE as error:
        raise InternalError("internal.not-canonical", f"The value has no canonical form: {error}") from error
    return encode_struct(value)


def encode_struct(value: object) -> bytes:
    """Canonical bytes of a struct whose *types* already keep the profile (no floats, bounded integers, ASCII names).

    The profile is proven once per type by :func:`savant.contracts.document.check_type`; this is the fast path.

    :raises InternalError: ``internal.not-canonical`` for what JSON cannot hold at all: a lone surrogate in a string,
        an object of a foreign type, an integer beyond 64 bits.
    """
    try:
        return _encoder.encode(value)
    except _UNENCODABLE as error:
        raise InternalError("internal.not-canonical", f"The value has no canonical form: {error}") from error


def decode(raw: bytes, type_: type[T]) -> T:
    """The value of canonical bytes: strict decode, then ``encode(decoded) == raw``.

    That one comparison catches duplicate members, other spellings of numbers and strings, white space, a byte order
    mark and trailing data. What is not a struct (whose type keeps the profile) is checked against the profile too.

    :raises RefusedInput: ``refused.malformed`` when it does not parse as ``type_``, ``refused.not-canonical`` when it
        parses but is spelt differently or leaves the profile.
    """
    value = decode_any_spelling(raw, type_)
    try:
        same = (encode_struct(value) if isinstance(value, msgspec.Struct) else encode(value)) == raw
    except InternalError as error:
        raise RefusedInput(
            "refused.not-canonical", f"The bytes leave the canonical profile: {error.message}"
        ) from error
    if not same:
        raise RefusedInput("refused.not-canonical", "The bytes are valid JSON but not the canonical spelling.")
    return value


def decode_any_spelling(raw: bytes, type_: type[T]) -> T:
    """The value of JSON bytes in any spelling, strictly typed (no coercion, no unknown members).

    :raises RefusedInput: ``refused.malformed``.
    """
    try:
        return msgspec.json.decode(raw, type=type_, strict=True)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedInput("refused.malformed", f"Not a valid document: {error}") from error


def _check_profile(value: object) -> None:
    match value:
        case None | bool():
            return
        case str():
            if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
                raise InternalError("internal.not-canonical", "A string holds a lone surrogate.")
        case int():
            if abs(value) > MAX_INTEGER:
                raise InternalError("internal.not-canonical", f"An integer is outside 2**53: {value}")
        case list() | tuple():
            for item in value:
                _check_profile(item)
        case dict():
            for key, item in value.items():
                if not isinstance(key, str) or not key.isascii():
                    raise InternalError("internal.not-canonical", f"A member name is not ASCII: {key!r}")
                _check_profile(item)
        case _:
            raise InternalError("internal.not-canonical", f"{type(value).__name__} has no canonical form.")
