r"""The scalar types that documents are made of, each with its range in the type.

Patterns end in ``(?!\n)$`` because a bare ``$`` accepts a trailing newline in Python; the form means the same in
ECMA 262, so the published JSON Schemas carry it unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from msgspec import Meta

from savant.contracts.canonical import MAX_INTEGER, encode_struct

S = TypeVar("S")

SET_MARK: Final = "savant-set"
"""Key in ``Meta.extra`` that marks a tuple as a set: sorted by canonical bytes, unique."""

Digest: TypeAlias = Annotated[str, Meta(pattern=r"^blake3:[0-9a-f]{64}(?!\n)$", description="BLAKE3-256")]
Sha256: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}(?!\n)$", description="SHA-256, hex")]
GitId: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^(sha1:[0-9a-f]{40}|sha256:[0-9a-f]{64})(?!\n)$", description="<object format>:<hex>"),
]
Name: TypeAlias = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,199}(?!\n)$", description="an identifier")
]
Code: TypeAlias = Annotated[
    str, Meta(pattern=r"^[a-z][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)*(?!\n)$", max_length=120, description="dotted code")
]
Text: TypeAlias = Annotated[str, Meta(max_length=65_536, description="text for a person; may be empty")]
NonEmptyText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=65_536, description="text, not empty")]
PathText: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=16_384, description="a repository path; odd bytes as %XX")
]
PatternText: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=4_096, description="a path pattern, see savant.files.patterns")
]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_INTEGER, description="a count")]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_INTEGER, description="a count of at least one")]
Milliseconds: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_INTEGER, description="milliseconds")]
Bytes: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_INTEGER, description="a size in bytes")]
Date: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])(?!\n)$", description="YYYY-MM-DD"),
]

Set: TypeAlias = Annotated[
    tuple[S, ...], Meta(extra={SET_MARK: True}, extra_json_schema={"uniqueItems": True, "$comment": "sorted set"})
]
"""``Set[Name]``: a tuple in order of its elements' canonical bytes, without repeats."""


def set_key(item: Any) -> bytes:
    """The sort key of a set element: its canonical bytes.

    :raises InternalError: ``internal.not-canonical`` when it has none.
    """
    return encode_struct(item)


def as_set(items: Iterable[S]) -> tuple[S, ...]:
    """The items as a set value: sorted by canonical bytes, repeats removed."""
    unique = {set_key(item): item for item in items}
    return tuple(unique[key] for key in sorted(unique))
