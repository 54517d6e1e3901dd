"""One conformance suite for both object stores, then what only a disk can do to one."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from savant.contracts.digest import digest, to_raw
from savant.contracts.errors import PortError, RefusedInput, SavantError, Unverifiable, UsageError, VerificationError
from savant.store import FileObjectStore, MemoryObjectStore, ObjectStore

ABSENT = digest(b"absent")


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    if request.param == "memory":
        yield MemoryObjectStore()
        return
    with FileObjectStore(tmp_path / "objects") as store:
        yield store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "objects"


def path_of(root: Path, name: str) -> Path:
    hex_ = to_raw(name).hex()
    return root / hex_[:2] / hex_[2:]


class TestConformance:
    def test_what_is_put_is_got_under_its_digest(self, store: ObjectStore) -> None:
        """Bytes come back exactly, under the BLAKE3 digest that anybody can compute."""
        for raw in (b"", b"x", bytes(range(256)) * 300):
            name = store.put(raw)
            assert name == digest(raw)
            assert store.get(name) == raw
            assert store.has(name)

    def test_putting_twice_changes_nothing(self, store: ObjectStore) -> None:
        """The second put of the same bytes is accepted and adds no object."""
        assert store.put(b"twice") == store.put(b"twice")
        assert list(store.digests()) == [digest(b"twice")]

    def test_many_keep_their_order_and_repeats(self, store: ObjectStore) -> None:
        """The digests answer the items one by one, also across batches and for repeated items."""
        items = [str(i % 290).encode() for i in range(300)]
        assert store.put_many(iter(items)) == [digest(item) for item in items]
        assert list(store.digests()) == sorted({digest(item) for item in items})
        assert store.put_many([]) == []

    def test_absent_is_not_damaged(self, store: ObjectStore) -> None:
        """An object that is not there cannot be verified; that is not the same as a failed check."""
        assert not store.has(ABSENT)
        with pytest.raises(Unverifiable) as caught:
            store.get(ABSENT)
        assert caught.value.code == "unverifiable.object-missing"

    def test_a_limit_is_kept(self, store: ObjectStore) -> None:
        """An object of exactly the limit is returned, one byte more is refused."""
        name = store.put(b"12345")
        assert store.get(name, max_bytes=5) == b"12345"
        with pytest.raises(RefusedInput) as caught:
            store.get(name, max_bytes=4)
        assert caught.value.code == "refused.too-large"

    @pytest.mark.parametrize(
        "name", ["", "blake3:", "sha256:" + "0" * 64, ABSENT[:-1], ABSENT.upper(), "0" * 64, ABSENT[:-2] + "/x"]
    )
    def test_only_digests_are_names(self, store: ObjectStore, name: str) -> None:
        """Anything but a digest is the caller's mistake, in every method; a digest is accepted."""
        assert not store.has(ABSENT)
        for method in (store.get, store.has, store.remove):
            with pytest.raises(UsageError) as caught:
                method(name)
            assert caught.value.code == "usage.digest"

    def test_removing_says_what_was_there(self, store: ObjectStore) -> None:
        """Garbage collection removes one object and learns whether it existed."""
        name = store.put(b"x")
        other = store.put(b"y")
        assert store.remove(name)
        assert not store.remove(name)
        assert list(store.digests()) == [other]

    def test_threads_may_put_the_same_at_once(self, store: ObjectStore) -> None:
        """Many writers of the same and of different objects all succeed and every object is intact."""
        items = [str(i).encode() for i in range(20)]
        errors: list[SavantError] = []

        def work() -> None:
            try:
                store.put_many(items)
            except SavantError as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert [store.get(digest(item)) for item in items] == items


@given(st.lists(st.binary(max_size=64), max_size=12))
def test_the_twin_keeps_what_it_was_given(items: list[bytes]) -> None:
    """Whatever was put is got, and nothing else is listed."""
    store = MemoryObjectStore()
    names = store.put_many(items)
    assert [store.get(name) for name in names] == items
    assert set(store.digests()) == set(names)


def test_the_twin_recomputes_too() -> None:
    """A value changed behind the twin's back is found out like a changed file."""
    store = MemoryObjectStore()
    name = store.put(b"good")
    store._objects[name] = b"evil"
    for act in (lambda: store.get(name), lambda: store.put(b"good")):
        with pytest.raises(VerificationError) as caught:
            act()
        assert caught.value.code == "unverified.object"


def test_another_process_finds_it(root: Path) -> None:
    """A second store on the same folder reads what the first wrote: everything is in the files."""
    with FileObjectStore(root) as first:
        name = first.put(b"shared")
    with FileObjectStore(root) as second:
        assert second.get(name) == b"shared"
    assert path_of(root, name).read_bytes() == b"shared"
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


@pytest.mark.parametrize("evil", [b"evil", b"", b"goodness", b"goo"])
def test_tampering_is_found_on_get_and_on_put(root: Path, evil: bytes) -> None:
    """Changed content, of whatever length, is reported and neither returned, accepted nor repaired."""
    with FileObjectStore(root) as store:
        name = store.put(b"good")
        assert store.get(name) == b"good"
        file = path_of(root, name)
        file.chmod(0o600)
        file.write_bytes(evil)
        for act in (lambda: store.get(name), lambda: store.put(b"good"), lambda: store.put_many([b"other", b"good"])):
            with pytest.raises(VerificationError) as caught:
                act()
            assert caught.value.code == "unverified.object"
        assert file.read_bytes() == evil
        assert list((root / "tmp").iterdir()) == []


def test_links_and_special_files_are_not_objects(root: Path, tmp_path: Path) -> None:
    """A link to the right bytes, a FIFO and a folder under an object's name are damage, and nothing waits."""
    (tmp_path / "right").write_bytes(b"good")
    with FileObjectStore(root) as store:
        name = store.put(b"good")
        file = path_of(root, name)
        for replace in (
            lambda: file.symlink_to(tmp_path / "right"),
            lambda: os.mkfifo(file),
            file.mkdir,
        ):
            file.unlink()
            replace()
            with pytest.raises(VerificationError):
                store.get(name)
            assert not store.has(name)
            if file.is_dir():
                file.rmdir()
                file.touch()


def test_a_linked_shard_or_root_is_not_followed(root: Path, tmp_path: Path) -> None:
    """Neither the store's folder nor a folder in it may be a link; real folders are fine."""
    with FileObjectStore(root) as store:
        name = store.put(b"good")
        shard = path_of(root, name).parent
        shard.rename(tmp_path / "elsewhere")
        shard.symlink_to(tmp_path / "elsewhere")
        for act in (lambda: store.get(name), lambda: store.put(b"good"), lambda: store.has(name)):
            with pytest.raises(PortError) as caught:
                act()
            assert caught.value.code == "port.disk"
    (tmp_path / "link").symlink_to(root)
    with pytest.raises(PortError):
        FileObjectStore(tmp_path / "link")


def test_the_folder_is_pinned(root: Path, tmp_path: Path) -> None:
    """A store keeps working in the folder that it opened, wherever that was moved and whatever took its place."""
    with FileObjectStore(root) as store:
        root.rename(tmp_path / "moved")
        root.mkdir()
        name = store.put(b"x")
        assert path_of(tmp_path / "moved", name).exists()
        assert list(root.iterdir()) == []


def test_leftovers_of_dead_writers_are_removed(root: Path) -> None:
    """Cleaning removes temporary files only, and says how many."""
    with FileObjectStore(root) as store:
        name = store.put(b"x")
        (root / "tmp" / "left").write_bytes(b"half")
        assert store.remove_temporaries() == 1
        assert store.remove_temporaries() == 0
        assert store.get(name) == b"x"


def test_a_foreign_file_is_not_listed(root: Path) -> None:
    """Only names that are digests are listed."""
    with FileObjectStore(root) as store:
        name = store.put(b"x")
        (path_of(root, name).parent / "note").touch()
        (root / "README").touch()
        assert list(store.digests()) == [name]


def test_a_write_that_fails_leaves_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk refuses to sync, the error is typed, no object has appeared and no temporary file stays."""
    with FileObjectStore(root) as store:
        store.put(b"before")

        def fail(fd: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(PortError) as caught:
            store.put_many([b"a", b"b"])
        assert caught.value.code == "port.disk"
        monkeypatch.undo()
        assert list(store.digests()) == [digest(b"before")]
        assert list((root / "tmp").iterdir()) == []
