"""Hazards: what a candidate would introduce that some disk or some git takes for something else. Pure.

Only what is *new* counts. Names and links that the base already holds are listed by :func:`base_limitations`, block
nothing and stay as they are. The cost follows the change: collisions are looked for among the siblings of new names,
and links of the base are looked at again only when the candidate changes a link.

====================== ================================================================================
code                   what the candidate does
====================== ================================================================================
``reserved-path``      writes below a name that is git's own in some disguise
``bad-path``           has a name or path that is too long to be written
``case-collision``     adds a name that differs from a sibling in letter case only
``unicode-collision``  adds a name that differs from a sibling in Unicode normalisation only
``symlink-escape``     makes a link that leads out of the tree, directly or through other links
``symlink-control``    makes a link into git's own folder, or in place of a file that git reads
``symlink-loop``       makes a link that leads to itself
``symlink-bad-target`` makes a link with a target that no link can hold
``gitlink-change``     adds, moves or removes a submodule, or puts something in its place
====================== ================================================================================
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from savant.contracts.errors import RefusedInput, VerificationError
from savant.files.paths import check_path, collision_key, is_reserved, to_text
from savant.repository.manifest import Difference, Manifest, diff
from savant.repository.node import Entry, link_digest

MAX_LINKS: Final = 40
"""A resolution through more links is a loop, as it is for the kernel."""

MAX_TARGET_BYTES: Final = 4095

_READ_BY_GIT: Final = frozenset({b".gitmodules", b".gitattributes", b".gitignore", b".mailmap"})

LinkTarget: TypeAlias = Callable[[bytes, Entry], bytes]
"""Gives the target of the link at a path, for links of the base and of the candidate alike."""


class Hazard(msgspec.Struct, frozen=True):
    """One reason to refuse a candidate: a code of the table above, the raw path, and a sentence."""

    code: str
    path: bytes
    detail: str


class BaseLimitation(msgspec.Struct, frozen=True):
    """Something odd that the base already holds: a code, how often, and the first path in byte order."""

    code: str
    count: int
    example: bytes


def check_candidate(base: Manifest, final: Manifest, link_target: LinkTarget) -> list[Hazard]:
    """The hazards that the final tree has and the base has not, in the order of their paths.

    :param link_target: must give targets that fit the entries' digests.
    :raises VerificationError: ``unverified.link-target`` when it does not.
    """
    differences = diff(base, final)
    siblings = _Siblings(base, final)
    links = _Links(final, link_target)
    found: list[Hazard] = []
    for path, before, after in differences:
        if _is_gitlink(before) or _is_gitlink(after):
            found.append(Hazard("gitlink-change", path, "A submodule is added, moved, removed or replaced."))
        if after is None:
            continue
        found += _check_name(path, is_new=before is None)
        if before is None:
            found += siblings.check(path)
        if after.mode == "symlink":
            found += links.check(path, after)
    if any(_is_link(before) or _is_link(after) for _, before, after in differences):
        found += _check_old_links(base, final, link_target, differences)
    return sorted(found, key=lambda hazard: (hazard.path, hazard.code))


def base_limitations(base: Manifest) -> list[BaseLimitation]:
    """What the base already holds that would be a hazard, or hides content from us, if it were new; by code."""
    found: dict[str, list[bytes]] = {}
    seen: set[bytes] = set()

    def visit(digest: bytes, prefix: bytes) -> None:
        keys: dict[bytes, bytes] = {}
        for name, entry in base.children(digest).items():
            path = prefix + name
            first = keys.setdefault(collision_key(name), name)
            if first != name:
                found.setdefault(f"base-{_collision_code(first, name)}", []).append(path)
            if is_reserved(name):
                found.setdefault("base-reserved-path", []).append(path)
            if not _is_utf8(name):
                found.setdefault("base-name-not-utf8", []).append(path)
            if entry.mode == "gitlink":
                found.setdefault("base-submodule", []).append(path)
            if entry.mode == "tree" and entry.digest not in seen:
                seen.add(entry.digest)
                visit(entry.digest, path + b"/")

    visit(base.root, b"")
    return [BaseLimitation(code, len(paths), min(paths)) for code, paths in sorted(found.items())]


def _is_gitlink(entry: Entry | None) -> bool:
    return entry is not None and entry.mode == "gitlink"


def _is_link(entry: Entry | None) -> bool:
    return entry is not None and entry.mode == "symlink"


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_name(path: bytes, *, is_new: bool) -> Iterable[Hazard]:
    if is_reserved(path):
        yield Hazard("reserved-path", path, f"'{to_text(path)}' has a name that is git's own.")
    if is_new:
        try:
            check_path(path)
        except RefusedInput as error:
            yield Hazard("bad-path", path, error.message)


class _Siblings:
    """Looks for names that collide with a new one, reading each folder once."""

    def __init__(self, base: Manifest, final: Manifest) -> None:
        self._base = base
        self._final = final
        self._names: dict[bytes, dict[bytes, list[bytes]]] = {}

    def check(self, path: bytes) -> Iterable[Hazard]:
        names = path.split(b"/")
        for depth, name in enumerate(names):
            folder = b"/".join(names[:depth])
            place = b"/".join(names[: depth + 1])
            if self._base.get(place) is not None:
                continue
            for other in self._by_key(folder).get(collision_key(name), ()):
                if other != name:
                    beside = folder + b"/" + other if folder else other
                    code = _collision_code(name, other)
                    yield Hazard(code, path, f"'{to_text(place)}' would stand beside '{to_text(beside)}'.")

    def _by_key(self, folder: bytes) -> dict[bytes, list[bytes]]:
        known = self._names.get(folder)
        if known is None:
            known = self._names[folder] = {}
            for name in self._final.folder(folder) or ():
                known.setdefault(collision_key(name), []).append(name)
        return known


def _collision_code(one: bytes, other: bytes) -> str:
    texts = [unicodedata.normalize("NFC", name.decode("utf-8", "surrogateescape")) for name in (one, other)]
    return "unicode-collision" if texts[0] == texts[1] else "case-collision"


_DETAILS: Final = MappingProxyType(
    {
        "symlink-escape": "leads out of the tree",
        "symlink-control": "leads into git's own folder",
        "symlink-loop": "leads to itself",
        "symlink-bad-target": "has a target that no link can hold",
    }
)


class _Links:
    """Resolves links inside one tree, by names alone, as a kernel would resolve them in a checkout."""

    def __init__(self, tree: Manifest, link_target: LinkTarget) -> None:
        self._tree = tree
        self._link_target = link_target

    def check(self, path: bytes, entry: Entry) -> Iterable[Hazard]:
        name = path.rpartition(b"/")[2]
        if name.lower() in _READ_BY_GIT:
            yield Hazard("symlink-control", path, f"'{to_text(path)}' is a file that git reads; it cannot be a link.")
        code = self.problem(path, entry)
        if code is not None:
            target = to_text(self._target(path, entry)[:200])
            yield Hazard(code, path, f"The link '{to_text(path)}' to '{target}' {_DETAILS[code]}.")

    def problem(self, path: bytes, entry: Entry) -> str | None:
        """The code of what is wrong with a link, or None."""
        at = path.split(b"/")[:-1]
        target = self._target(path, entry)
        if not target or b"\0" in target or len(target) > MAX_TARGET_BYTES:
            return "symlink-bad-target"
        waiting = _steps(target)
        links = 1
        if target.startswith(b"/"):
            return "symlink-escape"
        while waiting:
            step = waiting.pop()
            if step == b"..":
                if not at:
                    return "symlink-escape"
                at.pop()
                continue
            if is_reserved(step):
                return "symlink-control"
            here = b"/".join((*at, step))
            found = self._tree.get(here)
            if found is None or found.mode != "symlink":
                at.append(step)
                continue
            links += 1
            if links > MAX_LINKS:
                return "symlink-loop"
            target = self._target(here, found)
            if target.startswith(b"/"):
                return "symlink-escape"
            waiting += _steps(target)
        return None

    def _target(self, path: bytes, entry: Entry) -> bytes:
        target = self._link_target(path, entry)
        if link_digest(target) != entry.digest:
            raise VerificationError(
                "unverified.link-target", f"The target of the link {path!r} is not what was digested."
            )
        return target


def _steps(target: bytes) -> list[bytes]:
    """The names in a target, last one first, without those that lead nowhere."""
    return [step for step in reversed(target.split(b"/")) if step not in (b"", b".")]


def _check_old_links(
    base: Manifest, final: Manifest, link_target: LinkTarget, differences: list[Difference]
) -> Iterable[Hazard]:
    """Links that were sound in the base and are not any more, because a link on their way changed."""
    changed = {path for path, _, _ in differences}
    before, after = _Links(base, link_target), _Links(final, link_target)
    for path, entry in final.walk():
        if entry.mode == "symlink" and path not in changed:
            code = after.problem(path, entry)
            if code is not None and before.problem(path, entry) is None:
                detail = f"The unchanged link '{to_text(path)}' now {_DETAILS[code]}, through a changed one."
                yield Hazard(code, path, detail)
