"""Real files and the index of them: complete, private, and no change that an equal time stamp could hide."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from providerport.port import FileMode
from runner.materialize import StatKey, materialise_tree, safe_key, stat_key
from runner.overlay import Content, Limits
from runner.scan import scan
from runner.snapshot import BaseSnapshot
from savant.contracts.errors import InternalError, PortError, RefusedInput
from tests.runner.kit import FILES, DictBase

LIMITS = Limits()


def make(tmp_path: Path, name: str = "copy") -> Path:
    folder = tmp_path / name
    folder.mkdir(mode=0o700)
    return folder


def test_memory_and_repository_give_the_same_tree(snapshot: BaseSnapshot, tmp_path: Path) -> None:
    """A base in memory and the same one in git are materialised into equal files with equal entries."""
    one, two = make(tmp_path, "one"), make(tmp_path, "two")
    indexes = [materialise_tree(reader, folder) for reader, folder in ((DictBase(FILES), one), (snapshot, two))]
    assert indexes[0].entries == indexes[1].entries
    assert indexes[0].gitlinks == indexes[1].gitlinks == {b"vendor/sub"}
    entries = {path: entry for path, entry in snapshot.manifest.walk() if entry.mode != "gitlink"}
    assert indexes[1].entries == entries
    for folder, index in zip((one, two), indexes, strict=True):
        assert scan(folder, index, LIMITS).changes == {}


def test_it_fills_an_empty_folder_only(tmp_path: Path) -> None:
    """A folder that holds something, is missing or is a link is not written into."""
    folder = make(tmp_path)
    (tmp_path / "link").symlink_to(folder)
    for place in (tmp_path / "missing", tmp_path / "link"):
        with pytest.raises(PortError):
            materialise_tree(DictBase(FILES), place)
    materialise_tree(DictBase(FILES), folder)
    with pytest.raises(InternalError) as caught:
        materialise_tree(DictBase(FILES), folder)
    assert caught.value.code == "internal.not-empty"


def test_a_reader_that_contradicts_itself_is_our_bug(tmp_path: Path) -> None:
    """A path that is listed and not there, and one that is not given, are told."""

    class Listing(DictBase):
        def mode(self, path: bytes) -> FileMode | None:
            return None

    class Giving(DictBase):
        def read_many(self, paths: object) -> Iterator[tuple[bytes, bytes]]:
            return iter([])

    for reader in (Listing({b"a": Content("regular", b"")}), Giving({b"a": Content("regular", b"")})):
        with pytest.raises(InternalError):
            materialise_tree(reader, make(tmp_path, type(reader).__name__))


def test_a_disk_that_refuses_is_a_port_error(tmp_path: Path) -> None:
    """A name that this disk cannot hold is a typed disk error."""
    with pytest.raises(PortError) as caught:
        materialise_tree(DictBase({b"n" * 300: Content("regular", b"")}), make(tmp_path))
    assert caught.value.code == "port.disk"


def key(ctime_ns: int) -> StatKey:
    return (1, 2, 3, 4, ctime_ns, 6)


@pytest.mark.parametrize(
    ("ctime_ns", "stamp_ns", "is_safe"),
    [
        (1_000_000_001, 1_030_000_000, True),
        (1_000_000_001, 1_010_000_000, False),
        (1_000_000_001, 1_000_000_001, False),
        (1_000_000_000, 2_000_000_000, False),
        (1_000_000_000, 3_000_000_000, True),
        (1_000_000_000, 1_500_000_000, True),
        (9_000_000_001, 1_000_000_000, False),
    ],
)
def test_a_key_is_kept_only_when_a_later_change_must_show(ctime_ns: int, stamp_ns: int, is_safe: bool) -> None:
    """A file stamped within a tick of the hand-over, or in the same whole second of a coarse disk, is always read."""
    assert (safe_key(key(ctime_ns), stamp_ns) is not None) is is_safe


def test_a_change_of_the_same_size_at_once_is_found(tmp_path: Path) -> None:
    """However soon after the copy was made a file is rewritten in place with equal size, the scan finds it."""
    files = {b"%d" % number: Content("regular", b"old") for number in range(50)}
    folder = make(tmp_path)
    index = materialise_tree(DictBase(files), folder)
    for name in files:
        with (folder / os.fsdecode(name)).open("r+b") as file:
            file.write(b"new")
    scanned = scan(folder, index, LIMITS)
    assert scanned.changes == dict.fromkeys(files, Content("regular", b"new"))
    for name in files:
        with (folder / os.fsdecode(name)).open("r+b") as file:
            file.write(b"NEW")
    assert len(scan(folder, scanned.index, LIMITS).changes) == 50


def test_no_more_than_the_total_is_read(tmp_path: Path) -> None:
    """The content of all changed files together is bounded while it is read: at the limit it is taken, beyond not."""
    folder = make(tmp_path)
    index = materialise_tree(DictBase({}), folder)
    for number in range(3):
        (folder / str(number)).write_bytes(b"1234")
    assert len(scan(folder, index, Limits(total_bytes=12)).changes) == 3
    with pytest.raises(RefusedInput) as caught:
        scan(folder, index, Limits(total_bytes=11))
    assert caught.value.code == "refused.size-limit"


def test_only_touched_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose key is unchanged is not opened, one whose key changed is read once."""
    import runner.scan as module

    folder = make(tmp_path)
    index = materialise_tree(DictBase({b"a": Content("regular", b"a"), b"b": Content("regular", b"b")}), folder)
    for path, recorded in index.files.items():
        found = stat_key((folder / os.fsdecode(path)).lstat())
        index.files[path] = type(recorded)(found, recorded.entry)
    (folder / "b").write_bytes(b"bb")
    opened: list[bytes] = []
    read = module._Scan._read

    def counted(self: module._Scan, fd: int, name: bytes, path: bytes, facts: os.stat_result) -> bytes:
        opened.append(path)
        return read(self, fd, name, path, facts)

    monkeypatch.setattr(module._Scan, "_read", counted)
    assert scan(folder, index, LIMITS).changes == {b"b": Content("regular", b"bb")}
    assert opened == [b"b"]


@pytest.mark.parametrize("change", ["grow", "swap", "vanish"])
def test_a_file_that_changes_while_it_is_read_is_unstable(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content that moves under the reader, a file swapped for a link or gone between look and open, is refused."""
    import runner.scan as module

    folder = make(tmp_path)
    index = materialise_tree(DictBase({}), folder)
    place = folder / "a"
    place.write_bytes(b"a")
    read = module._Scan._read

    def racing(self: module._Scan, fd: int, name: bytes, path: bytes, facts: os.stat_result) -> bytes:
        if change == "grow":
            place.write_bytes(b"more")
        else:
            place.unlink()
        if change == "swap":
            place.symlink_to("/etc/passwd")
        return read(self, fd, name, path, facts)

    monkeypatch.setattr(module._Scan, "_read", racing)
    with pytest.raises(RefusedInput) as caught:
        scan(folder, index, LIMITS)
    assert caught.value.code == "refused.unstable"
    monkeypatch.undo()
    if change == "grow":
        assert scan(folder, index, LIMITS).changes == {b"a": Content("regular", b"more")}


def test_a_copy_that_is_gone_is_a_port_error(tmp_path: Path) -> None:
    """A removed or replaced folder is not an empty candidate."""
    folder = make(tmp_path)
    index = materialise_tree(DictBase(FILES), folder)
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(PortError):
        scan(folder, index, LIMITS)
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PortError):
        scan(folder, index, LIMITS)
    assert scan(tmp_path / "elsewhere", index, LIMITS).changes == {}


def test_a_link_inside_is_never_followed(tmp_path: Path) -> None:
    """A folder swapped for a link to one with equal files counts as a link, and nothing behind it is seen."""
    folder = make(tmp_path)
    index = materialise_tree(DictBase({b"d/f": Content("regular", b"f")}), folder)
    (folder / "d").rename(tmp_path / "outside")
    (folder / "d").symlink_to(tmp_path / "outside")
    changes = scan(folder, index, LIMITS).changes
    assert changes[b"d/f"] is None
    assert changes[b"d"] == Content("symlink", os.fsencode(tmp_path / "outside"))
    assert stat.S_ISLNK((folder / "d").lstat().st_mode)
