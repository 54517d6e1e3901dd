"""Who may acknowledge: the people of a project and their SSH keys. Pure but for pydantic, which reads it.

They stand in ``.savant/people.toml`` as committed at the base::

    [[person]]
    handle = "grace"
    teams = ["maintainers"]  # may be left out
    emails = ["grace@example.org"]  # may be left out; only where an owner of paths is written as a mail address
    keys = ["ssh-ed25519 AAAA... grace@laptop"]  # as in authorized_keys, without options

Where there is no such file nobody is listed, and the name in an acknowledgement is what its signer says.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from savant.contracts.errors import RefusedInput

if TYPE_CHECKING:
    from savant.ledger.sshkey import PublicKey

PEOPLE_PATH: Final = b".savant/people.toml"
MAX_PEOPLE_BYTES: Final = 1024 * 1024


class Person(msgspec.Struct, frozen=True):
    """One person: a handle, the teams they are in, and the keys that speak for them, in the file's order."""

    handle: str
    teams: tuple[str, ...]
    keys: tuple[PublicKey, ...]
    emails: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Everything that names this person: the handle and the fingerprint of each key."""
        return frozenset((self.handle, *(key.keyid for key in self.keys)))


class People(msgspec.Struct, frozen=True):
    """Everybody who is listed. No handle and no key is listed twice."""

    persons: tuple[Person, ...]

    def find(self, keyid: str) -> Person | None:
        """The person whose key has this fingerprint; None for a stranger's."""
        return next((person for person in self.persons for key in person.keys if key.keyid == keyid), None)

    def standing_for(self, owner: str) -> tuple[Person, ...]:
        """The people who stand for an owner of paths, in the file's order, whatever the case.

        ==================  ==========================================================
        ``@grace``          the person with that handle
        ``@org/team``       everybody in the team of that name, whatever the organisation
        ``grace@work.org``  whoever lists that address
        ==================  ==========================================================
        """
        name = owner.removeprefix("@").lower()
        if not owner.startswith("@"):
            return tuple(person for person in self.persons if name in {email.lower() for email in person.emails})
        organisation, _, team = name.rpartition("/")
        if organisation:
            return tuple(person for person in self.persons if team in {item.lower() for item in person.teams})
        return tuple(person for person in self.persons if person.handle.lower() == name)


def read_people(raw: bytes) -> People:
    """The people of a project, as committed at the base.

    :raises RefusedInput: ``refused.people`` naming file, key and fix.
    """
    import tomllib

    if len(raw) > MAX_PEOPLE_BYTES:
        raise refused_people("the file", f"has {len(raw)} bytes; {MAX_PEOPLE_BYTES} are allowed")
    try:
        data: dict[str, Any] = tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, a number of thousands of digits, deep nesting
        raise refused_people("the file", f"is not TOML: {error}") from error
    from savant.identity.people_schema import parse_people

    return People(_distinct(parse_people(data)))


def _distinct(persons: Iterable[Person]) -> tuple[Person, ...]:
    """The persons, if each handle (whatever its case) and each key is of one of them."""
    listed = tuple(persons)
    handles: set[str] = set()
    owners: dict[str, str] = {}
    for number, person in enumerate(listed):
        if person.handle.lower() in handles:
            raise refused_people(f"person.{number}.handle", f"{person.handle!r} is used twice")
        handles.add(person.handle.lower())
        for key in person.keys:
            if key.keyid in owners:
                raise refused_people(f"person.{number}.keys", f"{key.keyid} is listed for {owners[key.keyid]!r} too")
            owners[key.keyid] = person.handle
    return listed


def refused_people(key: str, problem: str) -> RefusedInput:
    """The refusal of one key of a people file."""
    return RefusedInput(
        "refused.people",
        f".savant/people.toml at the base: {key} {problem}",
        untouched="No provider was called and nothing was written.",
        fix="Correct .savant/people.toml and commit it.",
    )
