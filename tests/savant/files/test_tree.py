"""Work inside a tree: no link is followed, inodes are new, modes are exact, errors are typed."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from savant.contracts.errors import Conflict, PortError, RefusedInput, SavantError
from savant.files import tree


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "top"
    folder.mkdir()
    return folder


@pytest.fixture
def root(top: Path) -> Iterator[int]:
    with tree.open_root(top) as fd:
        yield fd


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(b"secret")
    return folder


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(SavantError) as caught:
        call()
    return caught.value.code


def write(root: int, raw: bytes, data: bytes = b"new", *, executable: bool = False, exclusive: bool = False) -> None:
    tree.write_file_at(root, raw, data, executable=executable, sync=True, exclusive=exclusive)


EVERY: dict[str, Callable[[int, bytes], object]] = {
    "lstat": tree.lstat_at,
    "read": lambda root, raw: tree.read_file_at(root, raw, max_bytes=10),
    "readlink": tree.readlink_at,
    "write": write,
    "create": lambda root, raw: write(root, raw, exclusive=True),
    "symlink": lambda root, raw: tree.symlink_at(root, raw, b"x", sync=True),
    "unlink": lambda root, raw: tree.unlink_at(root, raw, sync=True),
    "unlink-missing-ok": lambda root, raw: tree.unlink_at(root, raw, sync=True, missing_ok=True),
    "mkdirs": lambda root, raw: tree.mkdirs_at(root, raw, sync=True),
    "prune": lambda root, raw: tree.prune_empty_parents_at(root, raw + b"/x", sync=True),
}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("raw", [b"link/secret", b"real/link/secret"])
def test_no_function_walks_through_a_link(name: str, raw: bytes, top: Path, root: int, outside: Path) -> None:
    """A parent that is a link is refused by every function, and what it points to stays as it was."""
    (top / "real").mkdir()
    for place in (top, top / "real"):
        (place / "link").symlink_to(outside)
    assert code_of(lambda: EVERY[name](root, raw)) == "refused.write-through-symlink"
    assert names(outside) == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    ("raw", "code"),
    [(b"../outside/secret", "refused.path-traversal"), (b"/x", "refused.absolute-path"), (b"a//b", "refused.bad-path")],
)
def test_every_function_checks_the_path(name: str, raw: bytes, code: str, root: int, outside: Path) -> None:
    """A path that leads out is refused before the file system is asked."""
    assert code_of(lambda: EVERY[name](root, raw)) == code


@pytest.mark.parametrize("name", ["read", "readlink", "write", "create", "symlink", "unlink", "mkdirs"])
def test_a_file_as_parent_is_a_conflict(name: str, top: Path, root: int) -> None:
    """A file where a folder is needed is named as that."""
    (top / "file").write_bytes(b"")
    assert code_of(lambda: EVERY[name](root, b"file/x")) == "conflict.not-a-directory"
    assert (top / "file").read_bytes() == b""


@pytest.mark.parametrize("name", ["read", "readlink", "write", "create", "symlink", "unlink"])
def test_a_missing_parent_is_not_found(name: str, top: Path, root: int) -> None:
    """No function but mkdirs makes a folder."""
    assert code_of(lambda: EVERY[name](root, b"none/x")) == "port.not-found"
    assert names(top) == []


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("exclusive", [False, True])
def test_modes_are_exact(umask: int, exclusive: bool, top: Path, root: int) -> None:
    """0644 or 0755, and 0755 for folders, whatever the umask is."""
    before = os.umask(umask)
    try:
        assert tree.mkdirs_at(root, b"a/b", sync=True) == (b"a", b"a/b")
        write(root, b"a/plain", exclusive=exclusive)
        write(root, b"a/b/tool", executable=True, exclusive=exclusive)
    finally:
        os.umask(before)
    assert stat.S_IMODE((top / "a/plain").stat().st_mode) == 0o644
    assert stat.S_IMODE((top / "a/b/tool").stat().st_mode) == 0o755
    assert stat.S_IMODE((top / "a").stat().st_mode) == 0o755
    assert stat.S_IMODE((top / "a/b").stat().st_mode) == 0o755


def test_a_write_makes_a_new_inode(top: Path, root: int) -> None:
    """A hard link to the old content keeps the old content."""
    (top / "a").write_bytes(b"old")
    (top / "twin").hardlink_to(top / "a")
    write(root, b"a")
    assert (top / "a").read_bytes() == b"new"
    assert (top / "twin").read_bytes() == b"old"
    assert names(top) == ["a", "twin"]


def test_a_write_replaces_a_link_itself(top: Path, root: int, outside: Path) -> None:
    """The last component is a link: the link is replaced, its target untouched."""
    (top / "a").symlink_to(outside / "secret")
    write(root, b"a")
    assert not (top / "a").is_symlink()
    assert (outside / "secret").read_bytes() == b"secret"


@pytest.mark.parametrize("name", ["write", "create", "symlink", "unlink"])
def test_a_folder_in_the_way_is_a_conflict(name: str, top: Path, root: int) -> None:
    """A folder is never replaced or removed by a function for files."""
    (top / "a").mkdir()
    assert code_of(lambda: EVERY[name](root, b"a")) in {"conflict.is-a-directory", "conflict.exists"}
    assert names(top) == ["a"]
    assert (top / "a").is_dir()


@pytest.mark.parametrize("make", [lambda p: p.write_bytes(b"old"), lambda p: p.symlink_to("nowhere")])
def test_exclusive_replaces_nothing(make: Callable[[Path], None], top: Path, root: int) -> None:
    """With exclusive, whatever stands there stays."""
    make(top / "a")
    before = os.lstat(top / "a")
    assert code_of(lambda: write(root, b"a", exclusive=True)) == "conflict.exists"
    assert os.lstat(top / "a").st_ino == before.st_ino
    write(root, b"b", exclusive=True)
    assert (top / "b").read_bytes() == b"new"


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_full_disk_leaves_nothing_half_written(
    exclusive: bool, top: Path, root: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is typed and retryable, the old content is there, and no temporary file stays."""
    (top / "old").write_bytes(b"old")
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if len(data) > 2:
            return real(fd, data[:2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(PortError) as caught:
        write(root, b"new" if exclusive else b"old", b"long content", exclusive=exclusive)
    assert (caught.value.code, caught.value.retryable) == ("port.disk", True)
    assert names(top) == ["old"]
    assert (top / "old").read_bytes() == b"old"


def test_reading(top: Path, root: int, outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a regular file within the limit is read."""
    (top / "a").write_bytes(b"0123456789")
    (top / "link").symlink_to(outside / "secret")
    (top / "folder").mkdir()
    os.mkfifo(top / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(top)
        server.bind("socket")  # the system bounds the length of a socket's path
        assert tree.read_file_at(root, b"a", max_bytes=10) == b"0123456789"
        assert code_of(lambda: tree.read_file_at(root, b"a", max_bytes=9)) == "refused.too-large"
        for raw in (b"link", b"folder", b"fifo", b"socket"):
            assert code_of(partial(tree.read_file_at, root, raw, max_bytes=10)) == "refused.not-regular"
    assert code_of(lambda: tree.read_file_at(root, b"none", max_bytes=10)) == "port.not-found"


def test_links_hold_raw_bytes(top: Path, root: int) -> None:
    """Any target text a link can hold comes back as it was, and replaces what stood there."""
    for target in (b"a", b"../../x", b"/abs", b"bokm\xe5l", b"a\nb", b"x" * 4095):
        tree.symlink_at(root, b"link", target, sync=True)
        assert tree.readlink_at(root, b"link") == target
    assert names(top) == ["link"]
    for target in (b"", b"a\0b", b"x" * 4096):
        assert code_of(partial(tree.symlink_at, root, b"other", target, sync=True)) == ("refused.bad-link-target")
    (top / "file").write_bytes(b"")
    assert code_of(lambda: tree.readlink_at(root, b"file")) == "refused.not-a-symlink"
    tree.symlink_at(root, b"file", b"x", sync=False)
    assert tree.readlink_at(root, b"file") == b"x"


def test_lstat_is_none_for_nothing(top: Path, root: int) -> None:
    """A link is itself; a missing path, parent or a file as parent is nothing."""
    (top / "link").symlink_to("nowhere")
    (top / "file").write_bytes(b"abc")
    link = tree.lstat_at(root, b"link")
    assert link is not None
    assert stat.S_ISLNK(link.st_mode)
    found = tree.lstat_at(root, b"file")
    assert found is not None
    assert found.st_size == 3
    for raw in (b"none", b"none/x", b"file/x"):
        assert tree.lstat_at(root, raw) is None


def test_unlink(top: Path, root: int, outside: Path) -> None:
    """A file or a link itself goes; whether it was there is told, or refused."""
    (top / "a").write_bytes(b"")
    (top / "link").symlink_to(outside / "secret")
    assert tree.unlink_at(root, b"a", sync=True)
    assert tree.unlink_at(root, b"link", sync=False)
    assert (outside / "secret").exists()
    assert not tree.unlink_at(root, b"a", sync=True, missing_ok=True)
    assert not tree.unlink_at(root, b"none/a", sync=True, missing_ok=True)
    assert code_of(lambda: tree.unlink_at(root, b"a", sync=True)) == "port.not-found"


def test_mkdirs_makes_only_what_is_missing(top: Path, root: int) -> None:
    """Folders that are there keep their mode and are not reported."""
    (top / "a").mkdir(mode=0o700)
    assert tree.mkdirs_at(root, b"a/b/c", sync=True) == (b"a/b", b"a/b/c")
    assert tree.mkdirs_at(root, b"a/b/c", sync=False) == ()
    assert stat.S_IMODE((top / "a").stat().st_mode) == 0o700
    (top / "file").write_bytes(b"")
    assert code_of(lambda: tree.mkdirs_at(root, b"file", sync=True)) == "conflict.not-a-directory"
    (top / "link").symlink_to("a")
    assert code_of(lambda: tree.mkdirs_at(root, b"link", sync=True)) == "refused.write-through-symlink"


def test_prune_stops_at_the_first_folder_in_use(top: Path, root: int) -> None:
    """Empty folders above go, innermost first; a folder with content and the root stay."""
    (top / "a/b/c/d").mkdir(parents=True)
    (top / "a/keep").write_bytes(b"")
    assert tree.prune_empty_parents_at(root, b"a/b/c/d/gone", sync=True) == (b"a/b/c/d", b"a/b/c", b"a/b")
    assert tree.prune_empty_parents_at(root, b"a/b/c/d/gone", sync=True) == ()
    (top / "a/keep").unlink()
    assert tree.prune_empty_parents_at(root, b"a/b/c/gone", sync=False) == (b"a",)
    assert tree.prune_empty_parents_at(root, b"gone", sync=True) == ()
    assert top.is_dir()


def test_the_root_itself_must_be_a_folder(top: Path, tmp_path: Path) -> None:
    """A link, a file and nothing are no root."""
    (tmp_path / "link").symlink_to(top)
    (tmp_path / "file").write_bytes(b"")
    with tree.open_root(top) as fd:
        write(fd, b"a")
    for name, code in (("link", "port.disk"), ("file", "port.disk"), ("none", "port.not-found")):
        with pytest.raises(PortError) as caught, tree.open_root(tmp_path / name):
            pass
        assert caught.value.code == code


def test_no_descriptor_is_left_open(top: Path, root: int, outside: Path) -> None:
    """After successes and refusals alike, this process has the descriptors it had."""
    (top / "link").symlink_to(outside)
    before = names(Path("/proc/self/fd"))
    for call in EVERY.values():
        for raw in (b"ok/x", b"link/x", b"x"):
            try:
                call(root, raw)
            except (RefusedInput, Conflict, PortError):
                continue
    assert names(Path("/proc/self/fd")) == before
