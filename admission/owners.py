"""Required reviewers: the changed paths by their owners at the base, and the people who stand for those. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from admission.documents import Owned, ScopeEntry
from savant.contracts.scalars import as_set
from savant.files.paths import to_raw
from savant.identity.owners import Owners
from savant.identity.people import People, Person


def owned_paths(
    scope: Iterable[ScopeEntry], owners: Owners | None, people: People | None, requester: str
) -> tuple[Owned, ...]:
    """The changed paths that somebody owns, grouped by their owners.

    :param owners: None where the base has no CODEOWNERS, or the policy ignores it.
    :param people: None where the base lists nobody: then anybody stands for an owner.
    :param requester: who asked, by a name or a fingerprint; never among the reviewers.
    """
    if owners is None:
        return ()
    groups: dict[tuple[str, ...], list[str]] = {}
    for entry in scope:
        names = owners.of(to_raw(entry.path))
        if names:
            groups.setdefault(names, []).append(entry.path)
    return as_set(
        Owned(owners=as_set(names), paths=as_set(paths), reviewers=_reviewers(names, people, requester))
        for names, paths in groups.items()
    )


def _reviewers(names: Iterable[str], people: People | None, requester: str) -> tuple[str, ...] | None:
    if people is None:
        return None
    return as_set(
        person.handle for name in names for person in people.standing_for(name) if not _is_requester(person, requester)
    )


def _is_requester(person: Person, requester: str) -> bool:
    return bool(requester) and requester in person.names
