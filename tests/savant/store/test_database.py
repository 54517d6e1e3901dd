"""The index of runs: found by prefix, newest first, and thrown away without loss."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from savant.contracts.errors import PortError, UsageError
from savant.store.database import RunDatabase, RunRow


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "runs.sqlite"


@pytest.fixture
def database(path: Path) -> Iterator[RunDatabase]:
    with RunDatabase(path) as database:
        yield database


def row(run_id: str, started_at_ms: int = 1000) -> RunRow:
    return RunRow(
        run_id=run_id,
        started_at_ms=started_at_ms,
        objective="fix it",
        base_commit="sha1:" + "0" * 40,
        disposition=None,
        candidate_digest=None,
        ledger_first_seq=1,
        ledger_last_seq=None,
    )


def test_newest_first(database: RunDatabase, path: Path) -> None:
    """Runs are listed by start, newest first, as many as asked for; another process sees the same."""
    database.upsert(row("a", 1), row("b", 3), row("c", 2), row("d", 3))
    assert [run.run_id for run in database.list()] == ["d", "b", "c", "a"]
    assert [run.run_id for run in database.list(limit=2)] == ["d", "b"]
    assert database.latest() == row("d", 3)
    with RunDatabase(path) as other:
        assert other.list() == database.list()


def test_a_run_is_updated_in_place(database: RunDatabase) -> None:
    """The second word about a run replaces the first, in every column."""
    database.upsert(row("a"), row("b", 5))
    ended = replace(row("a"), disposition="verified", candidate_digest="blake3:" + "1" * 64, ledger_last_seq=9)
    database.upsert(ended)
    assert database.find("a") == ended
    assert len(database.list()) == 2


def test_prefixes(database: RunDatabase) -> None:
    """A unique prefix is enough, an exact id wins, anything else is the caller's mistake by name."""
    database.upsert(row("run-a1"), row("run-a12"), row("run-b"), row("x%"), row("x_"))
    assert database.find("run-b").run_id == "run-b"
    assert database.find("run-a1").run_id == "run-a1"
    assert database.find("run-a12").run_id == "run-a12"
    assert database.find("x%").run_id == "x%"
    for prefix, code in (
        ("run-a", "usage.ambiguous-run"),
        ("", "usage.unknown-run"),
        ("RUN", "usage.unknown-run"),
        ("%", "usage.unknown-run"),
        ("run-a13", "usage.unknown-run"),
    ):
        with pytest.raises(UsageError) as caught:
            database.find(prefix)
        assert caught.value.code == code
    with pytest.raises(UsageError) as caught:
        database.find("run-a")
    assert "run-a1, run-a12" in caught.value.message


def test_an_empty_prefix_finds_nothing_among_one(database: RunDatabase) -> None:
    """No text is no name, also when there is only one run."""
    database.upsert(row("only"))
    with pytest.raises(UsageError):
        database.find("")
    assert database.find("o").run_id == "only"


def test_nothing_yet(database: RunDatabase) -> None:
    """Without runs there is no latest one."""
    assert database.list() == ()
    with pytest.raises(UsageError) as caught:
        database.latest()
    assert caught.value.code == "usage.no-run"


def test_it_can_be_rebuilt(database: RunDatabase) -> None:
    """Clearing forgets everything, rebuilding replaces everything."""
    database.upsert(row("a"), row("b"))
    database.rebuild([row("c")])
    assert [run.run_id for run in database.list()] == ["c"]
    database.clear()
    assert database.list() == ()


def test_a_failed_write_changes_nothing(database: RunDatabase) -> None:
    """One row that cannot be stored keeps the others of its transaction out."""
    database.upsert(row("a"))
    broken = replace(row("c"), objective=None)  # type: ignore[arg-type]
    for act in (lambda: database.upsert(row("b"), broken), lambda: database.rebuild([row("b"), broken])):
        with pytest.raises(PortError) as caught:
            act()
        assert caught.value.code == "port.run-database"
    assert [run.run_id for run in database.list()] == ["a"]


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to be looked at" * 20, None])
def test_a_file_that_cannot_be_used(path: Path, content: bytes | None) -> None:
    """A damaged file or a folder in its place is a typed error that says what to do."""
    path.parent.mkdir()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(PortError) as caught:
        RunDatabase(path)
    assert caught.value.code == "port.run-database"
    assert "Delete" in caught.value.fix


def test_a_file_from_the_future(path: Path) -> None:
    """A version that we do not know is not guessed at."""
    with RunDatabase(path):
        pass
    with sqlite3.connect(path) as raw:
        raw.execute("pragma user_version = 99")
    raw.close()
    with pytest.raises(PortError) as caught:
        RunDatabase(path)
    assert "99" in caught.value.message


def test_a_place_that_cannot_be_made(tmp_path: Path) -> None:
    """A file where the folder should be is a typed error."""
    (tmp_path / "file").touch()
    with pytest.raises(PortError):
        RunDatabase(tmp_path / "file" / "runs.sqlite")


def test_many_threads_and_handles(path: Path) -> None:
    """Writers in several threads and through several handles lose nothing."""
    errors: list[Exception] = []

    def work(number: int) -> None:
        try:
            with RunDatabase(path) as database:
                for i in range(10):
                    database.upsert(row(f"{number}-{i}"))
        except PortError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with RunDatabase(path) as database:
        assert len(database.list()) == 40


IDS = st.text(st.sampled_from("ab%_"), min_size=1, max_size=4)


@given(st.sets(IDS, max_size=8), IDS)
def test_finding_is_what_it_says(tmp_path_factory: pytest.TempPathFactory, ids: set[str], prefix: str) -> None:
    """Found is the exact id or the only one that begins so; everything else is refused."""
    with RunDatabase(tmp_path_factory.mktemp("runs") / "runs.sqlite") as database:
        database.upsert(*map(row, ids))
        matches = [run_id for run_id in ids if run_id.startswith(prefix)]
        if prefix in ids or len(matches) == 1:
            assert database.find(prefix).run_id == (prefix if prefix in ids else matches[0])
        else:
            with pytest.raises(UsageError):
                database.find(prefix)
