"""The registry of document kinds: kind to type, and the published schema of each.

It is built explicitly from the ``DOCUMENTS`` tuples of the packages; there is no registration by import.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from savant.contracts import canonical
from savant.contracts.document import Document, Sealed, accept, check_size, check_type, kind_of
from savant.contracts.errors import InternalError, RefusedInput

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Kind(msgspec.Struct, frozen=True):
    kind: str


class Registry:
    """An immutable map of kinds.

    :param types: the document types; :meth:`check` proves them.
    :raises InternalError: ``internal.kind`` for a kind that is misspelt or declared twice.
    """

    def __init__(self, types: Iterable[type[Document]]) -> None:
        table: dict[str, type[Document]] = {}
        for type_ in types:
            if kind_of(type_) in table:
                raise InternalError("internal.kind", f"{kind_of(type_)} is declared twice.")
            table[kind_of(type_)] = type_
        self._table: Mapping[str, type[Document]] = MappingProxyType(dict(sorted(table.items())))

    def check(self) -> None:
        """Prove that every type is closed and canonical: a test of ours, because types do not change at run time.

        :raises InternalError: ``internal.open-type`` or ``internal.recursive-type``.
        """
        for type_ in self._table.values():
            check_type(type_)

    def __iter__(self) -> Iterator[str]:
        """The kinds, sorted."""
        return iter(self._table)

    def __len__(self) -> int:
        """How many kinds there are."""
        return len(self._table)

    def __getitem__(self, kind: str) -> type[Document]:
        """The type of a kind.

        :raises RefusedInput: ``refused.unknown-kind``.
        """
        try:
            return self._table[kind]
        except KeyError:
            raise RefusedInput("refused.unknown-kind", f"{kind!r} is not a document kind of this version.") from None

    def accept(self, raw: bytes, *, declared_digest: str | None = None) -> Sealed[Document]:
        """Accept bytes whose kind is named inside them.

        :raises RefusedInput: ``refused.unknown-kind``, and what :func:`savant.contracts.document.accept` raises.
        :raises VerificationError: ``unverified.digest``.
        """
        check_size(raw)
        kind = canonical.decode_any_spelling(raw, _Kind).kind
        return accept(raw, self[kind], declared_digest=declared_digest)

    def schema(self, kind: str) -> dict[str, Any]:
        """The closed JSON Schema (Draft 2020-12) of a kind.

        The order inside a set and the canonical spelling are beyond what a schema can say; acceptance checks them.

        :raises RefusedInput: ``refused.unknown-kind``.
        """
        (top,), parts = msgspec.json.schema_components([self[kind]], ref_template="#/$defs/{name}")
        name = top["$ref"].rpartition("/")[2]
        body = parts.pop(name)
        schema: dict[str, Any] = {"$schema": SCHEMA_DIALECT, "$id": kind, **body}
        if parts:
            schema["$defs"] = dict(sorted(parts.items()))
        return schema
