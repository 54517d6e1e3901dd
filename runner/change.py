"""The proposed change: from two manifests to a change set, from a change set to labelled operations, and back. Pure.

A change set says, for each path that differs, what stood there before and what stands there after. It names no base,
so the same change on a moved base has the same digest. A label is derived from it and adds nothing:

=================  ====================================  ===========================================================
kind               before -> after                       note
=================  ====================================  ===========================================================
gitlink-change     a submodule on either side            unsupported downstream, kept so that it can be refused
create             nothing -> file                       unless it is a rename or a copy
rename             nothing -> file                       a file with this mode and content was deleted elsewhere
copy               nothing -> file                       the base holds a file with this mode and content
delete             file or link -> nothing               also the delete under a rename: an operation of its own
symlink-change     nothing or link -> link               a new link is never a mere ``create``
type-change        file -> link, link -> file
modify             file -> file, other content           the mode may differ too, see :func:`required_kinds`
mode-change        file -> file, same content            the executable bit alone
=================  ====================================  ===========================================================

Rename and copy are given to regular and executable files that are not empty. A deleted path is the source of at most
one rename, the creates being taken in path order; the source is the smallest path with equal mode and content among
the deleted ones still free, else, for a copy, among all paths of the base.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from runner.documents import CandidateOperation, ChangeSet, FileState, Mode, PathChange
from savant.contracts.digest import to_raw as digest_bytes
from savant.contracts.digest import to_text as digest_text
from savant.contracts.errors import InternalError, VerificationError
from savant.files.paths import collision_key, to_raw, to_text
from savant.repository.manifest import Difference, Manifest
from savant.repository.node import Entry
from synthesis.documents import OperationKind

CONTROL_FOLDER: Final = b".savant"
"""Where a repository keeps its rules; a change below it is a policy change."""

FILES: Final = frozenset({"regular", "executable"})

SizeOf: TypeAlias = Callable[[bytes], int]
"""The size in bytes of what stands at a path; never asked for a submodule, whose size is 0."""

_Key: TypeAlias = tuple[Mode, str]


def change_set(differences: Iterable[Difference], size_before: SizeOf, size_after: SizeOf) -> ChangeSet:
    """The change set of two manifests' differences (:func:`savant.repository.manifest.diff`)."""
    return ChangeSet(
        changes=tuple(
            PathChange(path=to_text(path), before=_state(path, old, size_before), after=_state(path, new, size_after))
            for path, old, new in differences
        )
    )


def _state(path: bytes, entry: Entry | None, size_of: SizeOf) -> FileState | None:
    if entry is None:
        return None
    if entry.mode == "tree":
        raise InternalError("internal.tree-entry", f"{path!r} is a folder, which has no state of its own.")
    size = 0 if entry.mode == "gitlink" else size_of(path)
    return FileState(mode=entry.mode, content_digest=digest_text(entry.digest), size_bytes=size)


def entry_of(state: FileState | None) -> Entry | None:
    """The manifest entry of a file state."""
    return None if state is None else Entry(state.mode, digest_bytes(state.content_digest))


def apply_change(base: Manifest, change: ChangeSet) -> Manifest:
    """The tree that the change makes of a base.

    :raises VerificationError: ``unverified.change-base`` when the base does not hold what a path's ``before`` says;
        ``unverified.change-order`` when the paths are not in byte order, repeat, or change nothing.
    :raises RefusedInput: ``refused.bad-path``, and as :meth:`~savant.repository.manifest.Manifest.with_changes`.
    """
    changes: dict[bytes, Entry | None] = {}
    previous: bytes | None = None
    for item in change.changes:
        path = to_raw(item.path)
        if item.before == item.after or (previous is not None and path <= previous):
            raise VerificationError("unverified.change-order", f"The change of '{item.path}' is none or out of order.")
        stands = base.get(path)
        if (None if stands is not None and stands.mode == "tree" else stands) != entry_of(item.before):
            raise VerificationError(
                "unverified.change-base", f"The base does not hold at '{item.path}' what the change starts from."
            )
        changes[path] = entry_of(item.after)
        previous = path
    return base.with_changes(changes)


def operations(change: ChangeSet, base: Manifest) -> tuple[CandidateOperation, ...]:
    """The labelled operations of a change to a base, in the change set's order."""
    renames = _rename_sources(change)
    copies = _copy_sources(change, base, renames)
    return tuple(_operation(item, renames.get(item.path), copies.get(item.path)) for item in change.changes)


def _operation(change: PathChange, renamed: str | None, copied: str | None) -> CandidateOperation:
    kind = _plain_kind(change.before, change.after)
    if renamed is not None:
        kind = "rename"
    elif copied is not None:
        kind = "copy"
    return CandidateOperation(
        path=change.path,
        kind=kind,
        source=renamed if renamed is not None else copied,
        before=change.before,
        after=change.after,
        policy_change=is_policy_path(to_raw(change.path)),
    )


def is_policy_path(path: bytes) -> bool:
    """Whether the path is, or is below, ``.savant`` on some file system."""
    return collision_key(path.partition(b"/")[0]) == CONTROL_FOLDER


def _plain_kind(before: FileState | None, after: FileState | None) -> OperationKind:
    modes = [state.mode for state in (before, after) if state is not None]
    if "gitlink" in modes:
        return "gitlink-change"
    if after is None:
        return "delete"
    if before is None:
        return "symlink-change" if after.mode == "symlink" else "create"
    if before.mode == after.mode == "symlink":
        return "symlink-change"
    if "symlink" in modes:
        return "type-change"
    return "mode-change" if before.content_digest == after.content_digest else "modify"


def required_kinds(operation: CandidateOperation) -> tuple[OperationKind, ...]:
    """What an envelope must allow at the operation's own path: the label, and what the label stands on.

    A rename or copy needs ``create`` or its own name at its path (the delete of a rename's source is an operation of
    its own); content and executable bit changed together need ``modify`` and ``mode-change``. Each kind returned must
    be allowed; for a rename or copy that is ``create``, which either name satisfies.
    """
    match operation.kind:
        case "rename" | "copy":
            return ("create",)
        case "modify" if operation.before is not None and operation.after is not None:
            return ("modify", "mode-change") if operation.before.mode != operation.after.mode else ("modify",)
        case kind:
            return (kind,)


def _labelled(state: FileState | None) -> _Key | None:
    """The key by which a file may be recognised elsewhere; None for what is never a rename or copy."""
    if state is None or state.mode not in FILES or state.size_bytes == 0:
        return None
    return state.mode, state.content_digest


def _created(change: ChangeSet) -> list[tuple[str, _Key]]:
    keys = ((item.path, _labelled(item.after)) for item in change.changes if item.before is None)
    return [(path, key) for path, key in keys if key is not None]


def _rename_sources(change: ChangeSet) -> dict[str, str]:
    free: dict[_Key, list[str]] = defaultdict(list)
    for item in reversed(change.changes):
        key = _labelled(item.before) if item.after is None else None
        if key is not None:
            free[key].append(item.path)
    return {path: free[key].pop() for path, key in _created(change) if free.get(key)}


def _copy_sources(change: ChangeSet, base: Manifest, renames: Mapping[str, str]) -> dict[str, str]:
    wanted = {path: key for path, key in _created(change) if path not in renames}
    missing = {Entry(key[0], digest_bytes(key[1])): key for key in wanted.values()}
    found: dict[_Key, str] = {}
    if missing:
        for path, entry in base.walk():
            key = missing.pop(entry, None)
            if key is not None:
                found[key] = to_text(path)
                if not missing:
                    break
    return {path: found[key] for path, key in wanted.items() if key in found}
