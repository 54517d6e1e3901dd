"""Both stores keep the same promises."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from savant.contracts.errors import Conflict, PortError, RefusedInput, Unverifiable
from savant.ledger import MemoryStore, SqliteStore
from savant.ledger import sqlitestore as module
from savant.ledger.port import Store, Tail
from savant.ledger.sqlitestore import DATABASE_NAME, HEAD_NAME, file_system_of, verify_local_disk


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "a" / "b", create=True)
    yield made
    made.close()


def fill(store: Store, count: int) -> None:
    with store.transaction() as transaction:
        for seq in range(count):
            transaction.insert(seq, b"line %d" % seq, is_authority=seq % 3 == 0)


class TestConformance:
    def test_an_empty_store_has_nothing(self, store: Store) -> None:
        """No line, no checkpoint, no head."""
        with store.transaction() as transaction:
            assert transaction.tail() == Tail(0, b"")
            assert transaction.line(0) is None
            assert transaction.last_checkpoint() is None
            assert transaction.read_head() is None
        assert list(store.lines(0, 10)) == []
        assert list(store.checkpoints()) == []

    def test_lines_come_back_in_order(self, store: Store) -> None:
        """Any range, more than a batch."""
        fill(store, 600)
        lines = [b"line %d" % seq for seq in range(600)]
        assert list(store.lines(0, 600)) == lines
        assert list(store.lines(255, 513)) == lines[255:513]
        assert list(store.lines(590, 900)) == lines[590:]
        assert list(store.lines(5, 5)) == []
        with store.transaction() as transaction:
            assert transaction.tail() == Tail(600, b"line 599")
            assert transaction.line(7) == b"line 7"
        assert store.authority_records(590) == (591, 594, 597)

    def test_an_exception_undoes_the_transaction(self, store: Store) -> None:
        """All of it."""
        fill(store, 3)

        def failing() -> None:
            with store.transaction() as transaction:
                transaction.insert(3, b"three", is_authority=True)
                transaction.insert_checkpoint(4, "note")
                raise RuntimeError

        with pytest.raises(RuntimeError):
            failing()
        with store.transaction() as transaction:
            assert transaction.tail().size == 3
            assert transaction.last_checkpoint() is None
        assert store.authority_records(0) == (0,)

    @pytest.mark.parametrize(("seq", "line"), [(1, b"another"), (3, b"line 1")])
    def test_a_record_is_never_replaced_nor_repeated(self, store: Store, seq: int, line: bytes) -> None:
        """Neither its place nor its bytes."""
        fill(store, 3)
        with pytest.raises(Conflict) as caught, store.transaction() as transaction:
            transaction.insert(seq, line, is_authority=False)
        assert caught.value.code == "conflict.record-exists"
        assert list(store.lines(0, 9)) == [b"line 0", b"line 1", b"line 2"]

    def test_checkpoints_are_kept_by_size(self, store: Store) -> None:
        """The same again is fine, another of that size is not; the largest is the last."""
        with store.transaction() as transaction:
            for size in (300, 2, *range(3, 290)):
                transaction.insert_checkpoint(size, f"note {size}")
            transaction.insert_checkpoint(2, "note 2")
            assert transaction.last_checkpoint() == (300, "note 300")
            with pytest.raises(Conflict):
                transaction.insert_checkpoint(2, "other")
            transaction.void_checkpoint(300)
            transaction.void_checkpoint(4000)
        assert list(store.checkpoints()) == [(size, f"note {size}") for size in range(2, 290)]

    def test_the_head_is_replaced_as_a_whole(self, store: Store) -> None:
        """It stands apart from the transaction's records."""
        with store.transaction() as transaction:
            transaction.write_head(b"one")
            transaction.write_head(b"two")
        with store.transaction() as transaction:
            assert transaction.read_head() == b"two"

    def test_one_transaction_at_a_time(self, store: Store) -> None:
        """Threads wait for each other: no number is given twice."""

        def count() -> None:
            for _ in range(20):
                with store.transaction() as transaction:
                    size = transaction.tail().size
                    transaction.insert(size, b"%d" % size, is_authority=False)

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert list(store.lines(0, 100)) == [b"%d" % seq for seq in range(80)]

    def test_closing_twice_is_fine(self, store: Store) -> None:
        """It is idempotent."""
        store.close()
        store.close()


def test_pragmas_are_what_durability_needs(tmp_path: Path) -> None:
    """Write-ahead log and a sync at each commit, as SQLite itself says."""
    store = SqliteStore(tmp_path, create=True)
    read = {name: store._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}
    assert read == {"journal_mode": "wal", "synchronous": 2}
    store.close()


def test_a_pragma_that_does_not_take_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite ignores what it does not know; the store does not."""
    monkeypatch.setattr(module, "_PRAGMAS", {"synchronous": ("full", 3)})
    with pytest.raises(PortError) as caught:
        SqliteStore(tmp_path, create=True)
    assert caught.value.code == "port.ledger-pragma"


def test_what_was_committed_is_there_after_opening_again(tmp_path: Path) -> None:
    """Also when the first one was never closed."""
    first = SqliteStore(tmp_path, create=True)
    fill(first, 5)
    second = SqliteStore(tmp_path)
    assert len(list(second.lines(0, 9))) == 5
    again = SqliteStore(tmp_path, create=True)
    assert len(list(again.lines(0, 9))) == 5
    for store in (first, second, again):
        store.close()


def test_a_missing_or_foreign_ledger_is_not_opened(tmp_path: Path) -> None:
    """No database, a database of another version, a file that is none: errors, and no new ledger."""
    with pytest.raises(Unverifiable) as missing:
        SqliteStore(tmp_path)
    assert missing.value.code == "unverifiable.no-ledger"
    assert list(tmp_path.iterdir()) == []
    SqliteStore(tmp_path, create=True).close()
    connection = sqlite3.connect(tmp_path / DATABASE_NAME)
    connection.execute("PRAGMA user_version=2")
    connection.close()
    for create in (False, True):
        with pytest.raises(Unverifiable) as version:
            SqliteStore(tmp_path, create=create)
        assert version.value.code == "unverifiable.ledger-version"
    (tmp_path / DATABASE_NAME).write_bytes(b"no database at all" * 100)
    with pytest.raises(PortError) as damaged:
        SqliteStore(tmp_path)
    assert damaged.value.code == "port.ledger"


@pytest.mark.parametrize("name", [DATABASE_NAME, HEAD_NAME])
def test_links_are_refused(tmp_path: Path, name: str) -> None:
    """Neither file may stand elsewhere."""
    SqliteStore(tmp_path / "real", create=True).close()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / name).symlink_to(tmp_path / "real" / name)
    with pytest.raises(RefusedInput) as caught:
        SqliteStore(tmp_path / "other", create=True)
    assert caught.value.code == "refused.ledger-link"


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """A file stands in the way."""
    (tmp_path / "file").touch()
    with pytest.raises(PortError) as caught:
        SqliteStore(tmp_path / "file" / "ledger", create=True)
    assert caught.value.code == "port.ledger"


def test_a_ledger_held_by_another_process_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retryable, and nothing was written."""
    monkeypatch.setattr(module, "BUSY_TIMEOUT_MS", 1)
    first, second = SqliteStore(tmp_path, create=True), SqliteStore(tmp_path)
    with first.transaction(), pytest.raises(PortError) as caught, second.transaction():
        pytest.fail("two transactions at once")
    assert (caught.value.code, caught.value.retryable) == ("port.ledger-busy", True)
    with second.transaction() as transaction:
        assert transaction.tail().size == 0
    first.close()
    second.close()


def test_a_closed_store_fails(tmp_path: Path) -> None:
    """As a port error, not as one of SQLite's."""
    store = SqliteStore(tmp_path, create=True)
    store.close()
    with pytest.raises(PortError), store.transaction():
        pytest.fail("a closed store began a transaction")


def test_a_disk_that_stays_full_is_an_error_and_keeps_the_old_records(tmp_path: Path) -> None:
    """SQLite is given no more pages."""
    store = SqliteStore(tmp_path, create=True)
    fill(store, 2)
    store._connection.execute("PRAGMA max_page_count=8")
    with pytest.raises(PortError) as caught, store.transaction() as transaction:
        transaction.insert(2, b"x" * 400_000, is_authority=False)
    assert caught.value.code == "port.ledger"
    assert len(list(store.lines(0, 9))) == 2
    store.close()


TABLE = (
    "sysfs /sys sysfs rw 0 0\n/dev/sda1 / ext4 rw 0 0\nshort\n"
    "host:/export /home/a\\040b nfs4 rw 0 0\n/dev/sdb1 /home/a\\040b/local ext4 rw 0 0\n"
    "/dev/sdc / xfs rw 0 0\n"
)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/x", "xfs"),
        ("/home/a b/repo", "nfs4"),
        ("/home/a b", "nfs4"),
        ("/home/a b/local/r", "ext4"),
        ("/", "xfs"),
    ],
)
def test_the_file_system_is_the_one_of_the_longest_and_last_mount(path: str, kind: str) -> None:
    """Escapes are undone; a later mount covers an earlier one."""
    assert file_system_of(TABLE, Path(path)) == kind
    assert file_system_of("", Path(path)) == ""


def test_a_network_disk_is_refused(tmp_path: Path) -> None:
    """By the mount table; a system without one is not judged."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"host:/x {tmp_path.resolve()} nfs rw 0 0\n")
    with pytest.raises(RefusedInput) as caught:
        verify_local_disk(tmp_path, mounts)
    assert caught.value.code == "refused.network-disk"
    mounts.write_text(f"/dev/sda {tmp_path.resolve()} ext4 rw 0 0\n")
    verify_local_disk(tmp_path, mounts)
    verify_local_disk(tmp_path, tmp_path / "none")


def test_the_files_are_the_owners_alone_where_it_matters(tmp_path: Path) -> None:
    """The head can be replaced by its owner only."""
    store = SqliteStore(tmp_path, create=True)
    with store.transaction() as transaction:
        transaction.write_head(b"x")
    assert (tmp_path / HEAD_NAME).stat().st_mode & 0o022 == 0
    store.close()
