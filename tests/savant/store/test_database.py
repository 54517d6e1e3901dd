"""The index of runs: found by prefix, newest first, and thrown away without loss."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from savant.contracts.errors import PortError, UsageError
from savant.store.database import RunDatabase, RunRow
from savant.store.rows import (
    ClaimRow,
    ConfigurationRow,
    MessageRow,
    PlanRow,
    Position,
    SessionRow,
    TemplateRow,
    UsageRow,
)

CALL = UsageRow(
    seq=3,
    run_id="run",
    request_digest="request",
    capabilities_digest="claim",
    operation="generation",
    at_ms=7,
    duration_ms=8,
    outcome="completed",
    failure_kind=None,
    tokens_in=1,
    tokens_out=2,
    tokens_cached=0,
    cost_microunits=3,
    priced_microunits=4,
    is_notional=True,
)
PLAN = PlanRow("run", "plan", 2, 1, "draft", "{}")
RUN = RunRow("run", 1, "fix it", "sha1:0", "admitted", "blake3:3", 1, 9, "session", "succeeded", "a", "b", "{}")
EVERYTHING = (
    TemplateRow("agent/claude@1", "agent", "claude", "blake3:4"),
    ConfigurationRow("config", "agent/claude@1", "claude", "agent", "large", '{"a":1}'),
    ClaimRow("claim", "config", "claude", "agent", "large", True),
    SessionRow("session", "config", "example.org/shop", "sha1:0", "fix it", "{}"),
    RUN,
    PLAN,
    CALL,
    MessageRow(3, 1, "thinking"),
)
"""One row of each kind, in an order in which they can be put."""


def fill(database: RunDatabase) -> None:
    with database.writing() as writer:
        writer.put(*EVERYTHING)
        writer.set_position(Position("blake3:1", 4, "blake3:0"))
        writer.set_position(Position("blake3:1", 5, "blake3:2"))


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


def test_everything_can_be_forgotten(database: RunDatabase) -> None:
    """Clearing empties every table and the position in the ledger, to be read again from its start."""
    fill(database)
    assert all(database.rows(type(kind)) for kind in EVERYTHING)
    database.clear()
    assert not any(database.rows(type(kind)) for kind in EVERYTHING)
    assert database.position() is None


def test_every_kind_of_row_comes_back_as_it_was(database: RunDatabase, path: Path) -> None:
    """What is put is read, member for member, also by another process; under its name it is replaced."""
    fill(database)
    with RunDatabase(path) as other:
        for kind in EVERYTHING:
            assert other.rows(type(kind)) == (kind,)
        assert other.position() == Position("blake3:1", 5, "blake3:2")
        assert other.calls("run") == (CALL,)
        assert other.calls("another") == ()
    fill(database)
    assert database.rows(UsageRow) == (CALL,)


def test_rows_are_got_by_their_names(database: RunDatabase) -> None:
    """A row is got by its whole name, in the order of its columns; another name gets nothing."""
    fill(database)
    with database.writing() as writer:
        assert writer.get(PlanRow, "run", "plan") == PLAN
        assert writer.get(PlanRow, "plan", "run") is None
        assert writer.get(MessageRow, 3, 1) == MessageRow(3, 1, "thinking")
        assert writer.open_call("run", "request") is None
        writer.put(replace(CALL, seq=4, outcome=None), replace(CALL, seq=7, outcome=None))
        begun = writer.open_call("run", "request")
        assert begun is not None
        assert begun.seq == 7
        assert writer.open_call("run", "another") is None


def test_a_failed_write_changes_nothing(database: RunDatabase) -> None:
    """One row that cannot be stored keeps the others of its transaction out; so does an error of the caller."""
    database.upsert(row("a"))
    for broken in (
        replace(row("c"), objective=None),
        replace(row("c"), started_at_ms="soon"),
        replace(row("c"), session_digest="of nobody"),
        replace(row("c"), accounting="{"),
        replace(CALL, run_id="a", tokens_in=-1, capabilities_digest=None),
    ):
        with pytest.raises(PortError) as caught:
            database.upsert(row("b"), broken)
        assert caught.value.code == "port.run-database"
    with pytest.raises(ZeroDivisionError), database.writing() as writer:
        writer.put(row("b"), row(f"run-{1 // 0}"))
    assert [run.run_id for run in database.list()] == ["a"]
    database.upsert(row("b"), replace(CALL, run_id="a", tokens_in=0, capabilities_digest=None))
    assert len(database.list()) == 2


def test_rows_of_a_run_go_with_it(database: RunDatabase) -> None:
    """Foreign keys are on: no call without its run, and none is left behind."""
    fill(database)
    database.select("delete from runs")
    assert [database.rows(kind) for kind in (UsageRow, MessageRow, PlanRow)] == [(), (), ()]
    with pytest.raises(PortError):
        database.select("delete from provider_templates")


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to be looked at" * 20, None])
def test_a_file_that_cannot_be_used(path: Path, content: bytes | None) -> None:
    """A damaged file or a folder in its place is a typed error that says what to do."""
    path.parent.mkdir()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(PortError) as caught:
            RunDatabase(path)
        assert caught.value.code == "port.run-database"
        assert "elete" in caught.value.fix
        assert path.is_dir() if content is None else path.read_bytes() == content


def test_a_database_whose_pages_are_damaged(path: Path) -> None:
    """Damage inside is an error when it is met, and the file is left as it is for whoever looks at it."""
    with RunDatabase(path) as database:
        database.upsert(*(row(f"run-{n}") for n in range(2_000)))
    raw = bytearray(path.read_bytes())
    raw[8_192:] = b"x" * (len(raw) - 8_192)
    path.write_bytes(raw)
    with pytest.raises(PortError) as caught, RunDatabase(path) as damaged:
        damaged.list(limit=5_000)
    assert "Delete" in caught.value.fix
    assert path.read_bytes() == bytes(raw)
    path.unlink()
    with RunDatabase(path) as fresh:
        assert fresh.list() == ()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A link in the file's place is refused; what it points at is not made and not opened."""
    (tmp_path / "runs.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PortError) as caught:
        RunDatabase(tmp_path / "runs.db")
    assert "link" in caught.value.message
    assert not (tmp_path / "elsewhere").exists()


@pytest.fixture
def somebody() -> Iterator[Path]:
    """A folder that another user may enter, and the rights of such a user where the test has more."""
    folder = Path(tempfile.mkdtemp(prefix="runs-"))
    mine = os.geteuid()
    try:
        yield folder
    finally:
        if mine == 0:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_a_folder_that_may_not_be_written(somebody: Path) -> None:
    """Without the right to write, the error says where it is missing, whether the file is there or not."""
    path = somebody / "runs.db"
    with RunDatabase(path) as database:
        database.upsert(row("a"))
    path.chmod(0o444)
    somebody.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)
    for name in ("runs.db", "another.db"):
        with pytest.raises(PortError) as caught, RunDatabase(somebody / name) as database:
            database.upsert(row("b"))
        assert caught.value.code == "port.run-database"
        assert str(somebody) in caught.value.fix
        assert not caught.value.retryable


def test_a_database_that_is_held(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer is waited for, and said to be one when it takes too long: trying again may help."""
    monkeypatch.setattr("savant.store.database._WAIT_S", 0.01)
    with RunDatabase(path) as one, RunDatabase(path) as two:
        with one.writing() as writer:
            writer.put(row("a"))
            with pytest.raises(PortError) as caught:
                two.upsert(row("b"))
        assert caught.value.retryable
        two.upsert(row("c"))
        assert [run.run_id for run in one.list()] == ["c", "a"]


def test_a_full_disk(database: RunDatabase) -> None:
    """A database that may not grow says so, keeps what it has, and goes on when there is room."""
    database.upsert(row("a"))
    (pages,) = database.select("pragma page_count")
    database.select(f"pragma max_page_count = {pages[0]}")
    with pytest.raises(PortError) as caught:
        database.upsert(*(row(f"{n:0100}") for n in range(1_000)))
    assert "room" in caught.value.fix
    assert [run.run_id for run in database.list()] == ["a"]


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


def test_finding_is_what_it_says(database: RunDatabase) -> None:
    """Found is the exact id or the only one that begins so; everything else is refused."""

    @given(st.sets(IDS, max_size=8), IDS)
    def check(ids: set[str], prefix: str) -> None:
        database.clear()
        database.upsert(*map(row, ids))
        matches = [run_id for run_id in ids if run_id.startswith(prefix)]
        if prefix in ids or len(matches) == 1:
            assert database.find(prefix).run_id == (prefix if prefix in ids else matches[0])
        else:
            with pytest.raises(UsageError):
                database.find(prefix)

    check()
