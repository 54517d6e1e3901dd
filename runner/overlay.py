"""The candidate as a value: what differs from a pinned base, by path, in memory. Pure.

An overlay holds the whole content of each path that was touched and nothing else, so its cost follows the change. It
keeps the rules that make every tree of it one that git could hold: safe paths, no control path, no file below a file
or a link, bounded sizes. What only the finished candidate can be judged for (collisions, where a link leads) is
:mod:`runner.seal`'s business.

A submodule of the base is kept as it is. Its path can be deleted, replaced, pointed elsewhere or written below; the
change is then labelled ``gitlink-change``, which nothing downstream supports. It is never made to look like something
else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

import msgspec

from providerport.port import BaseReader, FileMode
from savant.contracts.digest import raw_digest
from savant.contracts.errors import RefusedInput
from savant.files.paths import check_path, is_reserved, parents, to_text
from savant.repository.manifest import MAX_DEPTH, Manifest
from savant.repository.node import Entry

_COMMIT: Final = re.compile(r"((?P<format>sha1|sha256):)?(?P<hex>[0-9a-f]{40}|[0-9a-f]{64})")

MAX_LINK_BYTES: Final = 4095
"""The longest link target that Linux can hold."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a candidate may hold at most.

    :param file_bytes: one file.
    :param total_bytes: the content of all touched paths together.
    :param paths: touched paths, and paths that a materialised copy may hold beyond the base's.
    """

    file_bytes: int = 64 * 1024 * 1024
    total_bytes: int = 512 * 1024 * 1024
    paths: int = 100_000


class Content(msgspec.Struct, frozen=True):
    """What stands at one path: a mode, and the file's bytes, the link's target or the submodule's ``GitId``."""

    mode: FileMode
    data: bytes

    @property
    def entry(self) -> Entry:
        """Its manifest entry."""
        return Entry(self.mode, raw_digest(self.data))


class Base(BaseReader, Protocol):
    """A pinned tree: the reader, and the manifest that says what it reads."""

    @property
    def manifest(self) -> Manifest:
        """The tree's manifest."""
        ...


class Overlay:
    """A candidate over a base. Not safe between threads; :class:`runner.workspace.CandidateWorkspace` is.

    Every method refuses with :class:`~savant.contracts.errors.RefusedInput`: the codes of
    :func:`savant.files.paths.check_path`, ``refused.too-deep``, ``refused.reserved-path``,
    ``refused.write-through-symlink``, and what its docstring names. After a refusal the overlay is what it was.
    """

    def __init__(self, base: Base, limits: Limits | None = None) -> None:
        self.base = base
        self.limits = limits or Limits()
        self._changes: dict[bytes, Content | None] = {}
        self._below: Counter[bytes] = Counter()
        self._total_bytes = 0
        self.unsynced: set[bytes] = set()
        """Paths changed since somebody last cleared this set: what a materialised copy does not show yet."""

    @property
    def changes(self) -> Mapping[bytes, Content | None]:
        """Every touched path with what stands there now; None where nothing does. Equal to the base in places."""
        return MappingProxyType(self._changes)

    def mode(self, path: bytes) -> FileMode | None:
        """The mode of what stands at a path; None for nothing, and for a folder."""
        self._check(path)
        return self._mode(path)

    def read(self, path: bytes) -> bytes:
        """The content of a file, or the target of a link.

        :raises RefusedInput: ``refused.no-such-path``.
        """
        self._check(path)
        return self._content(path).data

    def read_base(self, path: bytes) -> bytes:
        """The base's content of a path.

        :raises RefusedInput: ``refused.no-such-path``.
        """
        check_candidate_path(path)
        return self.base.read(path)

    def paths(self) -> list[bytes]:
        """Every path that is not a folder, in byte order."""
        found = [path for path in self.base.paths() if path not in self._changes]
        found += [path for path, content in self._changes.items() if content is not None]
        return sorted(found)

    def write(self, path: bytes, data: bytes, *, executable: bool | None = None) -> None:
        """Create or replace a file; None keeps the executable bit it has. A link is replaced, not followed.

        :raises RefusedInput: ``refused.size-limit``, ``refused.file-directory-conflict``.
        """
        self._check(path)
        if executable is None:
            executable = self._mode(path) == "executable"
        self._put(path, Content("executable" if executable else "regular", bytes(data)))

    def edit(self, path: bytes, old: bytes, new: bytes) -> None:
        """Replace the one occurrence of ``old`` in a file.

        :raises RefusedInput: ``refused.no-such-path``, ``refused.not-regular``, ``refused.edit-not-unique``,
            ``refused.size-limit``.
        """
        self._check(path)
        content = self._regular(path)
        at = content.data.find(old) if old else -1
        if at < 0 or content.data.find(old, at + 1) >= 0:
            raise RefusedInput(
                "refused.edit-not-unique",
                f"The text to replace occurs {'more than once' if at >= 0 else 'nowhere'} in '{to_text(path)}'.",
                untouched="The file was not changed.",
                fix="Give a text that occurs exactly once.",
            )
        self._put(path, Content(content.mode, content.data[:at] + new + content.data[at + len(old) :]))

    def delete(self, path: bytes) -> None:
        """Remove a file or link; nothing there is fine.

        :raises RefusedInput: ``refused.is-a-folder``.
        """
        self._check(path)
        if self._is_folder(path):
            raise _is_a_folder(path)
        if self._mode(path) is not None:
            self._set(path, None)

    def rename(self, source: bytes, destination: bytes) -> None:
        """Move a file or link, replacing what is at the destination.

        :raises RefusedInput: ``refused.no-such-path``, ``refused.gitlink-change``,
            ``refused.file-directory-conflict``.
        """
        self._check(source)
        self._check(destination)
        if self._mode(source) == "gitlink":
            raise RefusedInput("refused.gitlink-change", f"The submodule '{to_text(source)}' cannot be moved.")
        content = self._content(source)
        if source != destination:
            self._put(destination, content, moving=len(content.data) if source in self._changes else 0)
            self._set(source, None)

    def set_mode(self, path: bytes, *, executable: bool) -> None:
        """Set or clear the executable bit of a file.

        :raises RefusedInput: ``refused.no-such-path``, ``refused.not-regular``.
        """
        self._check(path)
        content = self._regular(path)
        mode: FileMode = "executable" if executable else "regular"
        if mode != content.mode:
            self._put(path, Content(mode, content.data))

    def symlink(self, path: bytes, target: bytes) -> None:
        """Create or replace a link; the target is kept verbatim.

        :raises RefusedInput: ``refused.bad-link-target`` for one that no link can hold;
            ``refused.file-directory-conflict``.
        """
        self._check(path)
        self._put(path, Content("symlink", bytes(target)))

    def set_gitlink(self, path: bytes, commit: str) -> None:
        """Point a submodule at a commit (hex, or a ``GitId``): nothing downstream supports it, and it stays what it is.

        :raises RefusedInput: ``refused.object-id``; ``refused.file-directory-conflict``.
        """
        self._check(path)
        match = _COMMIT.fullmatch(commit)
        if match is None:
            raise RefusedInput("refused.object-id", f"{commit[:100]!r} is not a full commit id.")
        format_ = "sha1" if len(match["hex"]) == 40 else "sha256"
        if match["format"] not in (None, format_):
            raise RefusedInput("refused.object-id", f"{commit!r} is not an id of its object format.")
        self._put(path, Content("gitlink", f"{format_}:{match['hex']}".encode()))

    def apply(self, changes: Mapping[bytes, Content | None]) -> None:
        """All of these at once, removals first; after a refusal none of them."""
        saved = dict(self._changes), Counter(self._below), self._total_bytes, set(self.unsynced)
        try:
            for path, content in changes.items():
                if content is None:
                    self._check(path)
                    self._set(path, None)
            for path, content in sorted(changes.items()):
                if content is not None:
                    self._check(path)
                    self._put(path, content)
        except RefusedInput:
            self._changes, self._below, self._total_bytes, self.unsynced = saved
            raise

    def _check(self, path: bytes) -> None:
        check_candidate_path(path)
        for above in parents(path):
            if self._mode(above) == "symlink":
                raise RefusedInput(
                    "refused.write-through-symlink",
                    f"The folder '{to_text(above)}' is a symbolic link, which is never followed.",
                    untouched="Nothing was read or written beyond it.",
                )

    def _mode(self, path: bytes) -> FileMode | None:
        if path in self._changes:
            content = self._changes[path]
            return None if content is None else content.mode
        return self.base.mode(path)

    def _content(self, path: bytes) -> Content:
        if path in self._changes:
            content = self._changes[path]
            if content is None or content.mode == "gitlink":
                raise no_such_path(path)
            return content
        mode = self.base.mode(path)
        if mode is None:
            raise no_such_path(path)
        return Content(mode, self.base.read(path))

    def _regular(self, path: bytes) -> Content:
        if self._mode(path) in ("symlink", "gitlink"):
            raise RefusedInput("refused.not-regular", f"'{to_text(path)}' is not a regular file.")
        return self._content(path)

    def _is_folder(self, path: bytes) -> bool:
        if self._below[path] > 0:
            return True
        manifest = self.base.manifest
        entry = manifest.get(path)
        if entry is None or entry.mode != "tree":
            return False
        return any(below not in self._changes for below, _ in manifest.walk_below(entry.digest, path + b"/"))

    def _put(self, path: bytes, content: Content, *, moving: int = 0) -> None:
        size = len(content.data)
        if content.mode == "symlink" and (not content.data or b"\0" in content.data or size > MAX_LINK_BYTES):
            raise RefusedInput(
                "refused.bad-link-target", f"'{to_text(path)}' would have a target that no link can hold."
            )
        if self._is_folder(path):
            raise _conflict(path, path)
        replaced = self._links_on_the_way(path)
        before = self._changes.get(path)
        total = self._total_bytes + size - (0 if before is None else len(before.data))
        if size > self.limits.file_bytes:
            raise size_limit(f"'{to_text(path)}' has {size} bytes; {self.limits.file_bytes} are allowed.")
        if total - moving > self.limits.total_bytes:
            raise size_limit(f"The candidate changes more than {self.limits.total_bytes} bytes.")
        if len(self._changes) >= self.limits.paths and path not in self._changes:
            raise size_limit(f"The candidate changes more than {self.limits.paths} paths.")
        for link in replaced:
            self._set(link, None)
        self._set(path, content)

    def _links_on_the_way(self, path: bytes) -> list[bytes]:
        """The submodules that a file at this path would lie in.

        :raises RefusedInput: ``refused.file-directory-conflict`` when it would lie below a file.
        """
        links: list[bytes] = []
        for above in parents(path):
            mode = self._mode(above)
            if mode == "gitlink":
                links.append(above)
            elif mode is not None:
                raise _conflict(path, above)
        return links

    def _set(self, path: bytes, content: Content | None) -> None:
        before = self._changes.get(path)
        if before is not None:
            self._total_bytes -= len(before.data)
            self._below.subtract(parents(path))
        if content is not None:
            self._total_bytes += len(content.data)
            self._below.update(parents(path))
        self._changes[path] = content
        self.unsynced.add(path)


def check_candidate_path(path: bytes) -> None:
    """Refuse what no candidate may name.

    :raises RefusedInput: as :func:`savant.files.paths.check_path`; ``refused.too-deep``, ``refused.reserved-path``.
    """
    check_path(path)
    if path.count(b"/") >= MAX_DEPTH:
        raise RefusedInput("refused.too-deep", f"'{to_text(path[:200])}...' has more than {MAX_DEPTH} names.")
    if is_reserved(path):
        raise RefusedInput(
            "refused.reserved-path",
            f"'{to_text(path)}' is, or is inside, git's own folder on some file system.",
            untouched="Nothing was read or written there.",
        )


def no_such_path(path: bytes) -> RefusedInput:
    """The error for a path where there is no file."""
    return RefusedInput("refused.no-such-path", f"There is no file '{to_text(path)}'.")


def size_limit(what: str) -> RefusedInput:
    """The error for a candidate that grew beyond its limits."""
    return RefusedInput("refused.size-limit", what, untouched="The candidate was not changed.")


def _conflict(path: bytes, file: bytes) -> RefusedInput:
    return RefusedInput(
        "refused.file-directory-conflict",
        f"'{to_text(path)}' cannot be written: '{to_text(file)}' would be a file and a folder at once.",
        untouched="The candidate was not changed.",
        fix="Delete what is in the way first.",
    )


def _is_a_folder(path: bytes) -> RefusedInput:
    return RefusedInput(
        "refused.is-a-folder", f"'{to_text(path)}' is a folder.", fix="Delete the files in it one by one."
    )
