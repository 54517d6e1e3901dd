"""The migrations: an old file becomes a new one, a new one is what its tables promise, nothing else is touched."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from savant.contracts.errors import PortError
from savant.store.database import RunDatabase
from savant.store.rows import RunRow
from savant.store.schema import MIGRATIONS, TABLES, VERSION

OLD = (
    ("a" * 32, 5, "fix it", "sha1:" + "0" * 40, "admitted", "blake3:" + "1" * 64, 3, 60),
    ("b" * 32, 6, "null", "sha1:" + "0" * 40, None, None, 61, None),
)


FIRST = """
create table run (
    run_id text primary key, started_at_ms integer not null, objective text not null, base_commit text not null,
    disposition text, candidate_digest text, ledger_first_seq integer not null, ledger_last_seq integer
) without rowid;
create index run_by_start on run (started_at_ms, run_id);
pragma user_version = 1;
"""
"""What version 1 was; written out, because it does not change any more."""


def first_file(path: Path, rows: Sequence[tuple[object, ...]]) -> None:
    """A file as the first Savant left it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.executescript(FIRST)
        database.executemany("insert into run values (?, ?, ?, ?, ?, ?, ?, ?)", rows)


def shape(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("select name, sql from sqlite_schema where sql is not null order by name").fetchall()


def test_every_version_has_its_row() -> None:
    """Versions count from one without a gap."""
    assert list(MIGRATIONS) == list(range(1, VERSION + 1))


def test_the_first_file_migrates(tmp_path: Path) -> None:
    """The runs of a version 1 file are listed after it was opened; the position is unknown, so the ledger is read."""
    path = tmp_path / "runs.db"
    first_file(path, OLD)
    for _ in range(2):
        with RunDatabase(path) as database:
            assert database.list() == (RunRow(*OLD[1]), RunRow(*OLD[0]))
            assert database.position() is None
    with RunDatabase(tmp_path / "fresh.db"):
        pass
    assert shape(path) == shape(tmp_path / "fresh.db")


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    """A file that cannot be migrated stays what it was, for the version that made it."""
    path = tmp_path / "runs.db"
    first_file(path, [(*OLD[0][:2], b"bytes are no text", *OLD[0][3:])])
    before = shape(path)
    for _ in range(2):
        with pytest.raises(PortError):
            RunDatabase(path)
    assert shape(path) == before
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("pragma user_version").fetchone() == (1,)
        assert database.execute("select count(*) from run").fetchone() == (1,)


@pytest.mark.parametrize("version", [-1, VERSION + 1])
def test_a_version_that_is_not_ours(tmp_path: Path, version: int) -> None:
    """Another version is refused, not guessed at, and stays."""
    path = tmp_path / "runs.db"
    with RunDatabase(path):
        pass
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"pragma user_version = {version}")
    with pytest.raises(PortError) as caught:
        RunDatabase(path)
    assert str(version) in caught.value.message
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("pragma user_version").fetchone() == (version,)


def test_what_the_file_promises(tmp_path: Path) -> None:
    """Write-ahead log, foreign keys, typed tables, and every foreign key with an index to follow it back."""
    with RunDatabase(tmp_path / "runs.db") as database:
        assert database.select("pragma journal_mode") == [("wal",)]
        assert database.select("pragma foreign_keys") == [(1,)]
        tables = {name: strict for _, name, _, _, _, strict in database.select("pragma table_list") if name in TABLES}
        assert tables == dict.fromkeys(TABLES, 1)
        for table in TABLES:
            indexed = {
                columns[0][2]
                for (_, index, *_) in database.select(f"pragma index_list({table})")
                if (columns := database.select(f"pragma index_info({index})"))
            }
            keys = {name for _, name, _, _, _, place in database.select(f"pragma table_info({table})") if place == 1}
            for _, _, _, column, *_ in database.select(f"pragma foreign_key_list({table})"):
                assert column in indexed | keys, (table, column)


def test_tables_can_be_emptied_in_their_order(tmp_path: Path) -> None:
    """Every table of the file is in the list, and no table stands before one that names its rows."""
    with RunDatabase(tmp_path / "runs.db") as database:
        found = {name for (name,) in database.select("select name from sqlite_schema where type = 'table'")}
        assert found == set(TABLES)
        for place, table in enumerate(TABLES):
            named = {row[2] for row in database.select(f"pragma foreign_key_list({table})")}
            assert named <= set(TABLES[place + 1 :])
