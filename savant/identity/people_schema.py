"""The pydantic model of ``.savant/people.toml``. Imported only when a base has one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from savant.contracts.errors import RefusedInput
from savant.identity.people import Person, refused_people
from savant.ledger.sshkey import PublicKey, parse_public_line

Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]
KeyLine = Annotated[str, Field(min_length=1, max_length=4_096)]
Email = Annotated[str, Field(pattern=r"^[^\s@]{1,64}@[^\s@]{1,255}$")]


class _Person(BaseModel):
    """One ``[[person]]`` table."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    handle: Identifier
    teams: list[Identifier] = []
    emails: list[Email] = []
    keys: Annotated[list[KeyLine], Field(min_length=1)]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    person: list[_Person]


def parse_people(data: dict[str, Any]) -> Iterator[Person]:
    """The persons of parsed TOML, in the file's order.

    :raises RefusedInput: ``refused.people`` naming the first wrong key.
    """
    try:
        rows = _File.model_validate(data).person
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "the top level"
        raise refused_people(key, f"has a wrong value: {first['msg']}") from error
    for number, row in enumerate(rows):
        keys = tuple(_key(f"person.{number}.keys.{place}", line) for place, line in enumerate(row.keys))
        yield Person(row.handle, tuple(row.teams), keys, tuple(row.emails))


def _key(where: str, line: str) -> PublicKey:
    try:
        return parse_public_line(line)
    except RefusedInput as error:
        raise refused_people(where, f"has a wrong value: {error} {error.fix}".rstrip()) from error
