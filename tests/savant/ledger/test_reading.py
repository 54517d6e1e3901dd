"""Reading a ledger without leaving a trace."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from savant.cli.kinds import registry
from savant.contracts.errors import PortError, RefusedInput, SavantError, Unverifiable
from savant.ledger import reading
from savant.ledger.ed25519 import Ed25519Verifier
from savant.ledger.log import verify_store
from savant.ledger.reading import open_copy
from savant.ledger.sqlitestore import DATABASE_NAME, HEAD_NAME
from tests.driver.ledgerkit import RUN_A, make_ledger, small_run


def states(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(folder.iterdir())}


def test_the_copy_is_read_and_the_original_stays_as_it_is(tmp_path: Path) -> None:
    """Every record is there, the report is what it would be in place, no file appears or changes, the copy vanishes."""
    directory, scratch = tmp_path / "ledger", tmp_path / "scratch"
    scratch.mkdir()
    ledger = make_ledger(directory)
    small_run(ledger, RUN_A)
    in_place = ledger.verify(registry(), ledger.pin)
    ledger.close()
    before = states(directory)
    with open_copy(directory, scratch) as store:
        assert verify_store(store, registry(), ledger.pin, verifier=Ed25519Verifier()) == in_place
    assert in_place.outcome == "verified"
    assert states(directory) == before
    assert list(scratch.iterdir()) == []


def test_records_that_are_still_in_the_write_ahead_log_are_read(tmp_path: Path) -> None:
    """While a writer has the ledger open, what it committed is in the copy and its files are not touched."""
    directory = tmp_path / "ledger"
    ledger = make_ledger(directory)
    small_run(ledger, RUN_A)
    assert (directory / (DATABASE_NAME + "-wal")).stat().st_size
    before = states(directory)
    with open_copy(directory, tmp_path) as store:
        assert store.tail().size == 6
    assert states(directory) == before
    ledger.close()


def test_a_read_only_folder_can_be_read(tmp_path: Path) -> None:
    """A ledger on a medium that cannot be written is read all the same."""
    directory = tmp_path / "ledger"
    ledger = make_ledger(directory)
    small_run(ledger, RUN_A)
    ledger.close()
    directory.chmod(0o500)
    try:
        with open_copy(directory, tmp_path) as store:
            assert store.tail().size == 6
    finally:
        directory.chmod(0o700)


@pytest.mark.parametrize("name", [DATABASE_NAME, HEAD_NAME])
@pytest.mark.parametrize("make", [lambda path, other: path.symlink_to(other), lambda path, _: os.mkfifo(path)])
def test_a_ledger_file_that_is_no_regular_file_is_refused(
    tmp_path: Path, name: str, make: Callable[[Path, Path], None]
) -> None:
    """A link or a FIFO in its place is refused before anything is read."""
    directory = tmp_path / "ledger"
    ledger = make_ledger(directory)
    ledger.close()
    elsewhere = (directory / name).rename(tmp_path / "elsewhere")
    make(directory / name, elsewhere)
    with pytest.raises(RefusedInput) as caught, open_copy(directory, tmp_path):
        pass
    assert caught.value.code == "refused.ledger-link"


def test_no_ledger_is_said_to_be_none(tmp_path: Path) -> None:
    """An empty folder holds no ledger, and none is made."""
    folder = tmp_path / "empty"
    folder.mkdir()
    with pytest.raises(Unverifiable) as caught, open_copy(folder, tmp_path):
        pass
    assert caught.value.code == "unverifiable.no-ledger"
    assert list(folder.iterdir()) == []


def test_a_ledger_that_never_stands_still_is_not_read_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that a writer changed meanwhile is made again; a writer that never pauses is reported as busy."""
    directory = tmp_path / "ledger"
    ledger = make_ledger(directory)
    small_run(ledger, RUN_A)
    copy_file = reading._copy_file
    disturbances = [3]

    def disturbed(source: Path, target: Path) -> None:
        copy_file(source, target)
        if disturbances[0] > 0 and source.name == DATABASE_NAME:
            disturbances[0] -= 1
            small_run(ledger, f"{disturbances[0]:032x}")

    monkeypatch.setattr(reading, "_copy_file", disturbed)
    with open_copy(directory, tmp_path) as store:
        assert store.tail().size == 6 + 3 * 5
    disturbances[0] = 1_000
    with pytest.raises(SavantError) as caught, open_copy(directory, tmp_path):
        pass
    assert isinstance(caught.value, PortError)
    assert (caught.value.code, caught.value.retryable) == ("port.ledger-busy", True)
    ledger.close()
