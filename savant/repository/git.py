"""A git repository as a source of immutable objects: hermetic, read-only, few processes.

:meth:`Repository.open` finds the git directory of exactly the given folder (it never climbs), lets git itself say
whether it understands the format, and pins it. Commits, trees and point reads then share one ``cat-file --batch``
process, so that opening, resolving and reading a known manifest takes two git processes.

Object ids are text: ``sha1:<hex>`` or ``sha256:<hex>`` where a commit or tree is named to the outside (``GitId``), bare
hex inside listings. Every method that takes an id accepts both. Paths are raw bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from savant.contracts.errors import InternalError, PortError, RefusedInput
from savant.repository.launch import Git, find_git, said
from savant.repository.objects import (
    Commit,
    ObjectFormat,
    TreeEntry,
    check_revision,
    hex_of,
    is_hex,
    mode_of,
    parse_commit,
    require_type,
    unborn_head,
    unknown_revision,
)
from savant.repository.reader import MAX_OBJECT_BYTES, BulkRead, GitObject, ObjectReader, missing

MAX_TREE_BYTES: Final = 256 * 1024 * 1024
"""The largest commit or tree object that is read."""


class Repository:
    """One repository on disk, opened read-only. A context manager; :meth:`close` ends its git process."""

    def __init__(self, git: Git, common_dir: Path, top_level: Path | None, object_format: ObjectFormat) -> None:
        self.git = git
        self.git_dir = git.git_dir
        """The absolute git directory: ``.git``, the bare repository, or ``.git/worktrees/<name>``."""
        self.common_dir = common_dir
        """The git directory that holds objects and refs, shared by linked worktrees."""
        self.top_level = top_level
        """The folder with the checkout, or None for a bare repository."""
        self._format: ObjectFormat = object_format
        self._reader = ObjectReader(git, object_format)

    @classmethod
    def open(cls, path: Path, *, git: Path | None = None, trust_owner: bool = False) -> Repository:
        """Open the repository whose checkout or bare directory is exactly this folder.

        :param git: the git executable; looked up in fixed folders when None.
        :param trust_owner: the caller vouches for a repository that another user owns.
        :raises RefusedInput: ``refused.not-a-repository``, ``refused.foreign-ownership``,
            ``refused.unsupported-repository``.
        :raises PortError: ``port.git-missing``, ``port.git-start``.
        """
        top_level, git_dir = _locate(path)
        if not trust_owner:
            _check_owner(path, git_dir)
        runner = Git(git if git is not None else find_git(), git_dir)
        done = runner.run(["rev-parse", "--path-format=absolute", "--git-common-dir", "--show-object-format"])
        lines = done.stdout.rsplit(b"\n", 2)
        if done.returncode != 0 or len(lines) != 3:
            raise RefusedInput(
                "refused.unsupported-repository", f"git cannot read the repository {git_dir}: {said(done.stderr)}"
            )
        match lines[1]:
            case b"sha1":
                return cls(runner, Path(os.fsdecode(lines[0])), top_level, "sha1")
            case b"sha256":
                return cls(runner, Path(os.fsdecode(lines[0])), top_level, "sha256")
            case other:
                raise RefusedInput("refused.unsupported-repository", f"Unknown object format {other!r} in {git_dir}.")

    @classmethod
    def discover(cls, path: Path, *, git: Path | None = None, trust_owner: bool = False) -> Repository:
        """Open the repository that this folder lies in: the nearest one, going up. Errors as :meth:`open`."""
        start = path.absolute()
        for folder in (start, *start.parents):
            if _is_candidate(folder):
                return cls.open(folder, git=git, trust_owner=trust_owner)
        raise _not_a_repository(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the reading process. The repository stays usable: the next read starts another one."""
        self._reader.close()

    @property
    def object_format(self) -> ObjectFormat:
        """``sha1`` or ``sha256``."""
        return self._format

    @property
    def git_starts(self) -> int:
        """How many git processes this object has started."""
        return self.git.starts

    def git_id(self, hex_: str) -> str:
        """The ``GitId`` of a hex id of this repository."""
        return f"{self._format}:{hex_}"

    def hex_id(self, oid: str) -> str:
        """The bare hex of a ``GitId`` or hex id, checked against this repository's object format.

        :raises RefusedInput: ``refused.object-id``.
        """
        return hex_of(self._format, oid)

    def resolve_commit(self, rev: str) -> str:
        """The commit that a revision names, as a ``GitId``. A full id wins over a branch of the same name.

        :raises RefusedInput: ``refused.unknown-revision``, ``refused.unborn-head``.
        :raises PortError: ``port.missing-object`` when the name is known but its object is not there.
        """
        check_revision(rev)
        prefix, _, rest = rev.partition(":")
        name = rest if prefix == self._format and is_hex(self._format, rest) else rev
        found = self._reader.find(f"{name}^{{commit}}", max_bytes=MAX_TREE_BYTES)
        if found is not None and found.type == "commit":
            return self.git_id(found.oid)
        raise self._unresolved(name)

    def _unresolved(self, name: str) -> RefusedInput | PortError:
        if not is_hex(self._format, name):
            done = self.git.run(["rev-parse", "--verify", "--quiet", name])
            oid = done.stdout.strip().decode("ascii", "replace")
            if done.returncode == 0 and is_hex(self._format, oid) and self._reader.find(oid) is None:
                return missing(oid)
            if done.returncode != 0 and name in ("HEAD", "@"):
                return unborn_head()
        return unknown_revision(name)

    def commit(self, oid: str) -> Commit:
        """A commit's tree and parents, from its raw object: grafts and replacements change nothing.

        :raises RefusedInput: ``refused.unknown-revision`` when the object is no commit; ``refused.malformed-object``.
        :raises PortError: ``port.missing-object``.
        """
        found = self._reader.read(self.hex_id(oid), max_bytes=MAX_TREE_BYTES)
        if found.type != "commit":
            raise unknown_revision(oid)
        return parse_commit(self._format, found.data)

    def tree_of(self, commit: str) -> str:
        """The tree of a commit, as a ``GitId``. Errors as :meth:`commit`."""
        return self.commit(commit).tree

    def parents(self, commit: str) -> tuple[str, ...]:
        """The parents of a commit in order, as ``GitId``. Errors as :meth:`commit`."""
        return self.commit(commit).parents

    def list_tree(self, tree: str, *, trees: bool = False, sizes: bool = False) -> list[TreeEntry]:
        """Every entry below a tree with its whole path, in git's order; with ``trees`` also the trees themselves.

        :raises RefusedInput: ``refused.malformed-object`` for a mode that git does not know.
        :raises PortError: ``port.missing-object`` when a tree is not there.
        """
        return [_parse_listing(record) for record in self.listing(tree, trees=trees, sizes=sizes)]

    def listing(self, tree: str, *, trees: bool = False, sizes: bool = False) -> list[bytes]:
        """As :meth:`list_tree`, each entry as git wrote it: ``<mode> SP <type> SP <hex id>[ SP <size>] TAB <path>``."""
        options = ["-r", "-z", "--full-tree", *(["-t"] if trees else []), *(["-l"] if sizes else [])]
        done = self.git.run(["ls-tree", *options, self.hex_id(tree)])
        if done.returncode != 0:
            raise PortError("port.missing-object", f"git cannot list tree {tree}: {said(done.stderr)}")
        records = done.stdout.split(b"\0")
        records.pop()
        return records

    def find(self, name: str, *, max_bytes: int = MAX_OBJECT_BYTES) -> GitObject | None:
        """The object that git's revision syntax names (``<tree>:<path>``), or None. Never pass it input."""
        return self._reader.find(name, max_bytes=max_bytes)

    def read_objects(self, oids: Iterable[str], *, max_bytes: int = MAX_OBJECT_BYTES) -> Iterator[GitObject]:
        """Commits, trees or blobs by id in the order asked for, each checked against its id."""
        return self._reader.read_many([self.hex_id(oid) for oid in oids], max_bytes=max_bytes)

    def read_blob(self, oid: str, *, max_bytes: int = MAX_OBJECT_BYTES) -> bytes:
        """The content of one blob, checked against its id.

        :raises RefusedInput: ``refused.size-limit``; ``refused.malformed-object`` when the object is no blob.
        :raises PortError: ``port.missing-object``.
        """
        found = self._reader.read(self.hex_id(oid), max_bytes=max_bytes)
        require_type(oid, found.type, "blob")
        return found.data

    def read_blobs(self, oids: Iterable[str], *, max_bytes: int = MAX_OBJECT_BYTES) -> Iterator[tuple[str, bytes]]:
        """The contents of many blobs as ``(hex id, content)`` in the order asked for, by one git process.

        Contents are not checked against git's ids here: whoever asks for many digests them.
        """
        with self.bulk([self.hex_id(oid).encode() for oid in oids]) as read:
            for oid, _, chunks in read.chunks(max_bytes=max_bytes):
                yield oid.decode(), b"".join(chunks)

    def bulk(self, oids: Iterable[bytes]) -> BulkRead:
        """Start reading many blobs by ASCII hex id: a context manager that gives digests, or contents in chunks."""
        return BulkRead(self.git, oids)


def _parse_listing(record: bytes) -> TreeEntry:
    meta, _, path = record.partition(b"\t")
    fields = meta.split()
    git_mode = int(fields[0], 8)
    size = int(fields[3]) if len(fields) > 3 and fields[3] != b"-" else None
    return TreeEntry(path, mode_of(git_mode), fields[2].decode(), git_mode, size)


def _locate(path: Path) -> tuple[Path | None, Path]:
    folder = path.absolute()
    dot_git = folder / ".git"
    try:
        if dot_git.is_dir():
            return folder, dot_git.resolve()
        if dot_git.is_file():
            with dot_git.open("rb") as file:
                text = file.read(16_384).rstrip(b"\r\n")
            if text.startswith(b"gitdir: "):
                target = folder / os.fsdecode(text[len(b"gitdir: ") :])
                if _looks_like_git_dir(target):
                    return folder, target.resolve()
        elif _looks_like_git_dir(folder):
            return None, folder.resolve()
    except OSError as error:
        raise PortError("port.unreadable", f"Cannot read {path}: {error.strerror}.") from error
    raise _not_a_repository(path)


def _is_candidate(folder: Path) -> bool:
    return os.path.lexists(folder / ".git") or _looks_like_git_dir(folder)


def _looks_like_git_dir(folder: Path) -> bool:
    return os.path.lexists(folder / "HEAD") and ((folder / "objects").is_dir() or (folder / "commondir").is_file())


def _check_owner(path: Path, git_dir: Path) -> None:
    user = os.geteuid()
    for place in {path.absolute(), git_dir}:
        if place.stat().st_uid != user:
            raise RefusedInput(
                "refused.foreign-ownership",
                f"{place} belongs to another user, who could have prepared it.",
                untouched="Nothing was read from it.",
                fix="Run as its owner, change its owner with chown, or clone it and work in the clone.",
            )


def _not_a_repository(path: Path) -> RefusedInput:
    return RefusedInput(
        "refused.not-a-repository", f"{path} is not a git repository.", fix="Go to a git repository, or run `git init`."
    )


def require_top_level(repository: Repository) -> Path:
    """The checkout folder of a repository that has one.

    :raises InternalError: ``internal.bare`` when the caller did not check for a bare repository.
    """
    if repository.top_level is None:
        raise InternalError("internal.bare", f"{repository.git_dir} has no checkout.")
    return repository.top_level
