"""The pydantic model of a governance record file. Imported only when a base has one."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from savant.contracts.errors import RefusedInput
from savant.files.patterns import PatternSet
from savant.identity.closure import refused_record
from savant.identity.documents import RecordKind

Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]


class Record(BaseModel):
    """One ``[[record]]`` table."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    id: Identifier
    kind: RecordKind
    text: Annotated[str, Field(min_length=1, max_length=4_000)]
    applies_to: list[Annotated[str, Field(min_length=1, max_length=4_096)]] = []
    evidence: Identifier | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.evidence is not None and self.kind != "proof-obligation":
            raise ValueError("evidence belongs to a proof-obligation")
        return self


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    record: list[Record]


def parse_records(source: str, data: dict[str, Any]) -> list[Record]:
    """The records of parsed TOML.

    :raises RefusedInput: ``refused.record`` naming the first wrong key.
    """
    try:
        rows = _File.model_validate(data).record
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "the top level"
        raise refused_record(source, key, first["msg"]) from error
    for number, row in enumerate(rows):
        try:
            PatternSet.parse(row.applies_to)
        except RefusedInput as error:
            raise refused_record(source, f"record.{number}.applies_to", f"{error} {error.fix}".rstrip()) from error
    return rows
