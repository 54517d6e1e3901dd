"""Closed documents: one declaration gives strict decode, canonical bytes, the digest and the JSON Schema.

A document is declared as::

    class Session(Document, frozen=True, kw_only=True, tag="savant.synthesis.session/v1"): ...

``tag`` is the kind and is written as the member ``kind``. Parts of documents subclass :class:`Part`. There are no
optional members: a nullable one is written as ``null``. A document's name is the digest of its canonical bytes, so a
document never contains its own digest. A published v1 never changes.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from savant.contracts import canonical
from savant.contracts.canonical import MAX_INTEGER
from savant.contracts.digest import digest
from savant.contracts.errors import InternalError, RefusedInput, VerificationError
from savant.contracts.scalars import SET_MARK, set_key

if TYPE_CHECKING:
    from msgspec import inspect

MAX_DOCUMENT_BYTES: Final = 64 * 1024 * 1024
"""Acceptance refuses larger inputs before it parses them."""


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A nested object of a document."""


class Document(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="savant.document/v0"
):
    """The base of every closed document."""


D = TypeVar("D", bound=Document)
D_co = TypeVar("D_co", bound=Document, covariant=True)

_KIND: Final = re.compile(r"savant(\.[a-z][a-z0-9-]*)+/v[1-9][0-9]*")


class Sealed(msgspec.Struct, Generic[D_co], frozen=True):
    """A document with its exact canonical bytes and their digest. Made only by :func:`seal` and :func:`accept`."""

    document: D_co
    raw: bytes
    digest: str


def kind_of(type_: type[Document] | Document) -> str:
    """The kind, e.g. ``savant.synthesis.session/v1``.

    :raises InternalError: ``internal.kind`` when the class was declared without a tag of that form.
    """
    tag = type_.__struct_config__.tag
    if not isinstance(tag, str) or _KIND.fullmatch(tag) is None:
        raise InternalError("internal.kind", f"{type_!r} has no kind of the form savant.<package>.<name>/v<number>.")
    return tag


def seal(document: D) -> Sealed[D]:
    """The document with its bytes and digest, proven to survive its own acceptance.

    :raises InternalError: ``internal.unsealable`` when our own value breaks its declared type: our bug.
    """
    raw = canonical.encode_struct(document)
    try:
        again = accept(raw, type(document))
    except (RefusedInput, VerificationError) as error:
        raise InternalError("internal.unsealable", f"{kind_of(document)} breaks its own type: {error}") from error
    if again.document != document:  # a list where the type says tuple is written the same and is not the same
        raise InternalError("internal.unsealable", f"{kind_of(document)} does not survive its own encoding.")
    return again


def digest_of(document: Document) -> str:
    """The digest of the document's canonical bytes."""
    return digest(canonical.encode_struct(document))


def accept(raw: bytes, type_: type[D], *, declared_digest: str | None = None) -> Sealed[D]:
    """Untrusted bytes as a document: strict decode, re-encode and compare, ranges, sets, declared digest.

    :raises RefusedInput: ``refused.too-large``, ``refused.malformed``, ``refused.not-canonical`` or
        ``refused.set-order``.
    :raises VerificationError: ``unverified.digest`` when a declared digest is not the computed one.
    """
    check_size(raw)
    value = canonical.decode(raw, type_)
    check = set_check(type_)
    if check is not None:
        check(value)
    computed = digest(raw)
    if declared_digest is not None and declared_digest != computed:
        raise VerificationError(
            "unverified.digest", f"{kind_of(type_)} was declared as {declared_digest} but its bytes are {computed}."
        )
    return Sealed(value, raw, computed)


def check_size(raw: bytes) -> None:
    """Return if the bytes may be parsed at all.

    :raises RefusedInput: ``refused.too-large``.
    """
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise RefusedInput("refused.too-large", f"The document has {len(raw)} bytes; {MAX_DOCUMENT_BYTES} are allowed.")


Check = Callable[[Any], None]
"""Returns if a value's sets are sets.

:raises RefusedInput: ``refused.set-order``.
"""


@functools.cache
def set_check(type_: type[msgspec.Struct]) -> Check | None:
    """The check of every set in values of this type, or None when the type holds none.

    :raises InternalError: ``internal.recursive-type``, ``internal.union``.
    """
    return _struct_check(type_, ())


_struct_checks: Final[dict[type, Check | None]] = {}
"""By class, because most parts stand in many documents."""


def _struct_check(type_: type, above: tuple[type, ...]) -> Check | None:
    if type_ in above:
        raise InternalError("internal.recursive-type", f"{type_.__name__} contains itself.")
    if type_ not in _struct_checks:
        hints = get_type_hints(type_, include_extras=True)
        checks = {
            name: check
            for name in type_.__struct_fields__  # type: ignore[attr-defined]
            if (check := _check_of(hints[name], (*above, type_))) is not None
        }
        _struct_checks[type_] = functools.partial(_fields, checks) if checks else None
    return _struct_checks[type_]


def _check_of(hint: Any, above: tuple[type, ...]) -> Check | None:
    """The check of one annotation; only what can hold a set or a struct is looked into."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _struct_check(hint, above)
    origin = get_origin(hint)
    if origin is Annotated:
        inner = _check_of(hint.__origin__, above)
        is_set = any(isinstance(meta, msgspec.Meta) and (meta.extra or {}).get(SET_MARK) for meta in hint.__metadata__)
        return _both(inner, _is_set) if is_set else inner
    if origin is tuple or origin is list:
        item = _check_of(get_args(hint)[0], above)
        return None if item is None else functools.partial(_each, item)
    if origin is Union or origin is UnionType:
        members = get_args(hint)
        checks = [(member, check) for member in members if (check := _check_of(member, above)) is not None]
        if not checks:
            return None
        if all(member is checks[0][0] or member is NoneType for member in members):
            return functools.partial(_unless_none, checks[0][1])
        return functools.partial(_by_class, {_struct_class(member): check for member, check in checks})
    return None


def _struct_class(hint: Any) -> type:
    while get_origin(hint) is Annotated:
        hint = hint.__origin__
    if not (isinstance(hint, type) and issubclass(hint, msgspec.Struct)):
        raise InternalError("internal.union", "A union of sets must be a union of structs.")
    return hint


def _both(first: Check | None, second: Check) -> Check:
    def check(value: Any) -> None:
        if first is not None:
            first(value)
        second(value)

    return check


def _is_set(value: tuple[Any, ...]) -> None:
    keys = [set_key(item) for item in value]
    if any(a >= b for a, b in itertools.pairwise(keys)):
        raise RefusedInput("refused.set-order", "A set is not sorted by canonical bytes, or repeats an element.")


def _each(check: Check, value: tuple[Any, ...]) -> None:
    for item in value:
        check(item)


def _unless_none(check: Check, value: Any) -> None:
    if value is not None:
        check(value)


def _by_class(checks: dict[type, Check], value: Any) -> None:
    check = checks.get(type(value))
    if check is not None:
        check(value)


def _fields(checks: dict[str, Check], value: Any) -> None:
    for name, check in checks.items():
        check(getattr(value, name))


def check_type(type_: type[msgspec.Struct]) -> None:
    """Prove that every value of this type stays inside the canonical profile.

    :raises InternalError: ``internal.open-type`` naming the member: a float, an unbounded integer, a default, a
        mapping, a non-ASCII name, an object that accepts unknown members or is written as an array;
        ``internal.recursive-type`` for a type that contains itself; ``internal.union`` for a set in a union with
        anything but null or structs.
    """
    from msgspec import inspect

    set_check(type_)  # also proves that no type contains itself, so that the walk below ends
    try:
        info = inspect.type_info(type_)
    except TypeError as error:
        raise InternalError("internal.open-type", f"{type_.__name__}: {error}") from error
    for where, problem in _problems(info, type_.__name__):
        raise InternalError("internal.open-type", f"{where}: {problem}")


def _problems(info: inspect.Type, where: str) -> Iterator[tuple[str, str]]:
    from msgspec import inspect

    match info:
        case inspect.Metadata():
            yield from _problems(info.type, where)
        case inspect.StructType():
            yield from _struct_problems(info, where)
        case inspect.VarTupleType():
            yield from _problems(info.item_type, where + "[]")
        case inspect.UnionType():
            for item in info.types:
                yield from _problems(item, where)
        case inspect.LiteralType():
            yield from _value_problems(info.values, where)
        case inspect.EnumType():
            yield from _value_problems([member.value for member in info.cls], where)
        case inspect.IntType():
            if info.ge is None or info.le is None or info.ge < -MAX_INTEGER or info.le > MAX_INTEGER:
                yield where, "is an integer without a range inside 2**53"
        case inspect.StrType() | inspect.BoolType() | inspect.NoneType():
            return
        case _:
            yield where, f"{type(info).__name__} has no canonical form"


def _struct_problems(info: inspect.StructType, where: str) -> Iterator[tuple[str, str]]:
    if info.array_like:
        yield where, "is written as an array"
    if not info.forbid_unknown_fields:
        yield where, "accepts unknown members"
    for field in info.fields:
        name = f"{where}.{field.encode_name}"
        if not field.encode_name.isascii():
            yield name, "is not an ASCII name"
        if not field.required:
            yield name, "has a default; write null instead"
        yield from _problems(field.type, name)


def _value_problems(values: Iterable[object], where: str) -> Iterator[tuple[str, str]]:
    for value in values:
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            yield where, f"{value} is outside 2**53"
