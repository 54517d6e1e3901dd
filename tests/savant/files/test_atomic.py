"""Durable files: whole or not at all, created once, read with limits, locked, removed without following a link."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from savant.contracts.errors import Conflict, PortError, RefusedInput
from savant.files import atomic


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_write_atomic_replaces_the_whole_file(umask: int, tmp_path: Path) -> None:
    """The new content has exactly the mode that was asked for, in a new inode, and nothing else is left."""
    path = tmp_path / "a"
    before = os.umask(umask)
    try:
        atomic.write_atomic(path, b"old")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        first = path.stat().st_ino
        (tmp_path / "twin").hardlink_to(path)
        atomic.write_atomic(path, memoryview(b"new"), mode=0o644)
    finally:
        os.umask(before)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert path.stat().st_ino != first
    assert (tmp_path / "twin").read_bytes() == b"old"
    assert names(tmp_path) == ["a", "twin"]


def test_write_atomic_replaces_a_link_and_not_its_target(tmp_path: Path) -> None:
    """The target of a link at the path keeps its content."""
    (tmp_path / "target").write_bytes(b"target")
    (tmp_path / "link").symlink_to("target")
    atomic.write_atomic(tmp_path / "link", b"new")
    assert (tmp_path / "target").read_bytes() == b"target"
    assert (tmp_path / "link").read_bytes() == b"new"
    assert not (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("step", ["write", "fsync", "rename"])
def test_a_failed_write_changes_nothing(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever step fails, the old content stays and no temporary file is left."""
    path = tmp_path / "a"
    atomic.write_atomic(path, b"old")

    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path if step == "rename" else os, step, fail)
    with pytest.raises(PortError) as caught:
        atomic.write_atomic(path, b"new")
    assert (caught.value.code, caught.value.retryable) == ("port.disk", True)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_write_atomic_syncs_the_file_before_the_rename_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of the steps is what makes the write durable."""
    steps: list[str] = []
    sync, rename = os.fsync, Path.rename

    def noted_sync(fd: int) -> None:
        steps.append("sync-folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "sync-file")
        sync(fd)

    def noted_rename(self: Path, target: Path) -> Path:
        steps.append("rename")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "rename", noted_rename)
    atomic.write_atomic(tmp_path / "a", b"x")
    assert steps == ["sync-file", "rename", "sync-folder"]


def test_create_only_creates_once(tmp_path: Path) -> None:
    """The same content again is fine and reported, other content is a conflict and changes nothing."""
    path = tmp_path / "a"
    assert atomic.create_only(path, b"one", 0o444)
    inode = path.stat().st_ino
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert not atomic.create_only(path, b"one")
    for other in (b"two", b"on", b"one more"):
        with pytest.raises(Conflict) as caught:
            atomic.create_only(path, other)
        assert caught.value.code == "conflict.exists"
    assert path.read_bytes() == b"one"
    assert path.stat().st_ino == inode
    assert names(tmp_path) == ["a"]


def test_create_only_takes_no_link_or_folder_for_the_file(tmp_path: Path) -> None:
    """A link to equal content is not that content."""
    (tmp_path / "target").write_bytes(b"one")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "folder").mkdir()
    for name in ("link", "folder"):
        with pytest.raises(Conflict):
            atomic.create_only(tmp_path / name, b"one")
    assert atomic.create_only(tmp_path / "fresh", b"one")


def test_of_many_creators_one_wins(tmp_path: Path) -> None:
    """Threads that create at once agree on one content; equal ones see exactly one creation."""
    created: list[bool] = []
    conflicts: list[Conflict] = []
    gate = threading.Barrier(8)

    def create(number: int) -> None:
        gate.wait()
        created.append(atomic.create_only(tmp_path / "same", b"same"))
        try:
            atomic.create_only(tmp_path / "differ", str(number).encode())
        except Conflict as conflict:
            conflicts.append(conflict)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(created) == [False] * 7 + [True]
    assert len(conflicts) == 7
    assert names(tmp_path) == ["differ", "same"]


def test_a_race_lost_after_the_look_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the file appears between looking and linking, it is compared again."""
    path = tmp_path / "a"
    link = Path.hardlink_to

    def late(self: Path, target: Path) -> None:
        self.write_bytes(b"theirs")
        link(self, target)

    monkeypatch.setattr(Path, "hardlink_to", late)
    assert not atomic.create_only(path, b"theirs")
    path.unlink()
    with pytest.raises(Conflict):
        atomic.create_only(path, b"ours")
    assert path.read_bytes() == b"theirs"
    assert names(tmp_path) == ["a"]


def test_read_regular_reads_only_regular_files_within_the_limit(tmp_path: Path) -> None:
    """A link, a folder, a FIFO without writer and a file too large are refused without waiting."""
    (tmp_path / "a").write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "fifo")
    assert atomic.read_regular(tmp_path / "a", max_bytes=10) == b"0123456789"
    with pytest.raises(RefusedInput) as caught:
        atomic.read_regular(tmp_path / "a", max_bytes=9)
    assert caught.value.code == "refused.too-large"
    for name in ("link", "fifo", "."):
        with pytest.raises(RefusedInput) as caught:
            atomic.read_regular(tmp_path / name, max_bytes=10)
        assert caught.value.code == "refused.not-regular"
    with pytest.raises(PortError) as missing:
        atomic.read_regular(tmp_path / "none", max_bytes=10)
    assert missing.value.code == "port.not-found"


def test_a_file_that_lies_about_its_size_is_still_bounded() -> None:
    """A file whose size reads as zero is read, and measured by what came."""
    path = Path("/proc/self/status")
    assert b"Name" in atomic.read_regular(path, max_bytes=100_000)
    with pytest.raises(RefusedInput) as caught:
        atomic.read_regular(path, max_bytes=100)
    assert caught.value.code == "refused.too-large"


def test_read_optional_tells_nothing_from_trouble(tmp_path: Path) -> None:
    """A missing file is None; any other failure stays an error."""
    assert atomic.read_optional(tmp_path / "none", max_bytes=1) is None
    (tmp_path / "a").write_bytes(b"x")
    assert atomic.read_optional(tmp_path / "a", max_bytes=1) == b"x"
    with pytest.raises(PortError) as caught:
        atomic.read_optional(tmp_path / "a" / "b", max_bytes=1)
    assert caught.value.code == "port.disk"


@pytest.mark.parametrize("call", ["write", "create", "sync", "lock"])
def test_a_missing_folder_is_typed(call: str, tmp_path: Path) -> None:
    """Nothing makes folders on the way."""
    path = tmp_path / "none" / "a"
    calls: dict[str, Callable[[], object]] = {
        "write": lambda: atomic.write_atomic(path, b""),
        "create": lambda: atomic.create_only(path, b""),
        "sync": lambda: atomic.fsync_directory(path),
        "lock": lambda: atomic.lock(path).__enter__(),
    }
    with pytest.raises(PortError) as caught:
        calls[call]()
    assert caught.value.code == "port.not-found"


def test_the_lock_excludes_threads_and_is_released(tmp_path: Path) -> None:
    """A second holder is refused while the first holds it, and not after."""
    path = tmp_path / "lock"
    with atomic.lock(path, blocking=False):
        with pytest.raises(Conflict) as caught, atomic.lock(path, blocking=False):
            pass
        assert caught.value.code == "conflict.locked"
    with atomic.lock(path, blocking=False):
        pass
    assert path.exists()


def test_a_shared_lock_excludes_only_who_does_not_share(tmp_path: Path) -> None:
    """Several share it; an exclusive one waits for all of them, and keeps them out."""
    path = tmp_path / "lock"
    with (
        atomic.lock(path, shared=True),
        atomic.lock(path, blocking=False, shared=True),
        pytest.raises(Conflict),
        atomic.lock(path, blocking=False),
    ):
        pass
    with atomic.lock(path, blocking=False), pytest.raises(Conflict), atomic.lock(path, blocking=False, shared=True):
        pass


def test_the_lock_excludes_processes_and_dies_with_them(tmp_path: Path) -> None:
    """A process that is killed gives the lock back."""
    path = tmp_path / "lock"
    code = (
        "import sys, pathlib; from savant.files.atomic import lock\n"
        "with lock(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Conflict), atomic.lock(path, blocking=False):
            pass
        holder.kill()
        holder.wait()
    with atomic.lock(path, blocking=False):
        pass


def test_a_waiter_takes_the_lock_that_is_at_the_path(tmp_path: Path) -> None:
    """If the lock file is replaced while one waits, the waiter ends up with the new file."""
    path = tmp_path / "lock"
    entered = threading.Event()

    def wait() -> None:
        with atomic.lock(path):
            entered.set()

    with atomic.lock(path):
        thread = threading.Thread(target=wait)
        thread.start()
        path.unlink()
        path.touch()
        inode = path.stat().st_ino
    thread.join(30)
    assert entered.is_set()
    assert path.stat().st_ino == inode


def test_remove_tree_follows_no_link(tmp_path: Path) -> None:
    """Links go, what they point to stays; a second call finds nothing to do."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/keep").write_bytes(b"")
    top = tmp_path / "top"
    (top / "a/b").mkdir(parents=True)
    (top / "a/file").write_bytes(b"")
    (top / "a/link").symlink_to(tmp_path / "outside")
    (top / "dangling").symlink_to("nowhere")
    os.mkfifo(top / "fifo")
    atomic.remove_tree(top)
    assert names(tmp_path) == ["outside"]
    assert (tmp_path / "outside/keep").exists()
    atomic.remove_tree(top)
    atomic.remove_tree(tmp_path / "none/none")
    (tmp_path / "link").symlink_to("outside")
    atomic.remove_tree(tmp_path / "link")
    assert names(tmp_path) == ["outside"]
    assert (tmp_path / "outside/keep").exists()


def test_remove_tree_deeper_than_descriptors_and_path_limits(tmp_path: Path) -> None:
    """A tree a thousand folders deep goes without running out of anything."""
    top = tmp_path / "top"
    top.mkdir()
    fd = os.open(top, os.O_RDONLY)
    for _ in range(1000):
        os.mkdir("folder-with-a-name", dir_fd=fd)
        deeper = os.open("folder-with-a-name", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(fd)
    atomic.remove_tree(top)
    assert names(tmp_path) == []


REMOVE_AS_USER = """
import os, pathlib, sys
top = pathlib.Path(sys.argv[1]) / "top"
if os.getuid() == 0:
    os.chown(top.parent, 65534, 65534)
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
(top / "a/b").mkdir(parents=True)
(top / "a/b/file").write_bytes(b"")
for folder, mode in ((top / "a/b", 0o000), (top / "a", 0o500), (top, 0o555)):
    folder.chmod(mode)
try:
    os.listdir(top / "a/b")
except PermissionError:
    pass
else:
    sys.exit("the folder was readable: nothing is tested")
remove_tree(top)
sys.exit(0 if os.listdir(top.parent) == [] else "something is left")
"""


def test_remove_tree_opens_up_read_only_folders(tmp_path: Path) -> None:
    """As an ordinary user, folders without permissions are removed as well."""
    place = Path(f"/tmp/savant-test-{os.getpid()}")  # an ordinary user cannot reach pytest's folder
    place.mkdir()
    try:
        # Imported before the change of user, who may not be allowed to read this checkout.
        code = "from savant.files.atomic import remove_tree\n" + REMOVE_AS_USER
        ended = subprocess.run([sys.executable, "-c", code, str(place)], capture_output=True, check=False)
        assert ended.stderr == b""
        assert ended.returncode == 0
    finally:
        place.rmdir()


def test_remove_tree_refuses_a_mount_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder on another device is not entered."""
    top = tmp_path / "top"
    (top / "mounted").mkdir(parents=True)
    (top / "mounted/keep").write_bytes(b"")
    real = os.stat

    def elsewhere(path: str, **options: object) -> os.stat_result:
        facts = real(path, **options)  # type: ignore[arg-type]
        if path != "mounted":
            return facts
        return os.stat_result((*facts[:2], facts.st_dev + 1, *facts[3:10]))

    monkeypatch.setattr(os, "stat", elsewhere)
    with pytest.raises(PortError) as caught:
        atomic.remove_tree(top)
    assert caught.value.code == "port.mount-point"
    assert (top / "mounted/keep").exists()
