"""Where a ledger lives, how it begins on disk, and two processes that share it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from savant.contracts.errors import Conflict, PortError, RefusedInput, SavantError
from savant.contracts.twins import CountingEntropy
from savant.ledger import Ledger, SqliteStore, create_ledger, is_ledger, ledger_directory, open_ledger, verify_store
from savant.ledger import place as module
from savant.ledger.documents import Continues
from savant.ledger.sqlitestore import DATABASE_NAME, HEAD_NAME


def create(kit: Any, directory: Path, **options: Any) -> Ledger:
    return create_ledger(
        directory,
        options.pop("signers", None) or kit.signers(),
        kit.root(),
        entropy=CountingEntropy(),
        observed=kit.observed,
        **options,
    )


def test_a_ledger_is_begun_and_opened_again(kit: Any, tmp_path: Path) -> None:
    """In the common git directory; nothing but its files is left."""
    directory = ledger_directory(tmp_path / ".git")
    assert directory == tmp_path / ".git" / "savant"
    assert not is_ledger(directory)
    ledger = create(kit, directory)
    assert is_ledger(directory)
    kit.fill(ledger, 3)
    ledger.checkpoint()
    ledger.close()
    assert {path.name for path in directory.iterdir()} == {DATABASE_NAME, HEAD_NAME}
    again = open_ledger(directory, kit.signers(), pin=ledger.pin)
    report = again.verify(kit.registry, ledger.pin)
    assert (report.outcome, report.records) == ("verified", 4)
    again.close()


def test_a_ledger_is_begun_once(kit: Any, tmp_path: Path) -> None:
    """Also when two begin at the same moment: the second finds the first one's, unharmed."""
    ledger = create(kit, tmp_path)
    for _ in range(2):
        with pytest.raises(Conflict) as caught:
            create(kit, tmp_path)
        assert caught.value.code == "conflict.ledger-exists"
    assert open_ledger(tmp_path, kit.signers()).ledger_id == ledger.ledger_id


def test_the_slower_of_two_beginners_changes_nothing(kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looked before the first one was done."""
    first = create(kit, tmp_path)
    monkeypatch.setattr(module, "is_ledger", lambda _: False)
    with pytest.raises(Conflict):
        create(kit, tmp_path)
    assert sorted(path.name.partition("-")[0] for path in tmp_path.iterdir() if path.name.startswith(".new")) == []
    assert open_ledger(tmp_path, kit.signers()).ledger_id == first.ledger_id


def test_a_failed_beginning_leaves_no_ledger(kit: Any, tmp_path: Path) -> None:
    """One key in two roles is refused, and the next try works."""
    signers = kit.signers()
    with pytest.raises(RefusedInput):
        create(kit, tmp_path, signers={**signers, "driver": signers["runner"]})
    assert not is_ledger(tmp_path)
    assert list(tmp_path.iterdir()) == []
    create(kit, tmp_path)


def test_a_crash_between_the_two_files_is_healed(kit: Any, tmp_path: Path) -> None:
    """The database is there and the head is not yet."""
    create(kit, tmp_path).close()
    (tmp_path / HEAD_NAME).unlink()
    ledger = open_ledger(tmp_path, kit.signers())
    kit.fill(ledger, 2)
    assert (tmp_path / HEAD_NAME).exists()


def test_a_place_that_cannot_be_written_is_an_error(kit: Any, tmp_path: Path) -> None:
    """A file stands where the folder should be; there is no fallback."""
    (tmp_path / "file").touch()
    with pytest.raises(PortError):
        create(kit, tmp_path / "file" / "savant")


def test_opening_what_is_not_there_begins_nothing(kit: Any, tmp_path: Path) -> None:
    """Neither a missing folder nor an empty one."""
    for directory in (tmp_path, tmp_path / "none"):
        with pytest.raises(SavantError) as caught:
            open_ledger(directory, kit.signers())
        assert caught.value.code == "unverifiable.no-ledger"
    assert list(tmp_path.iterdir()) == []


def test_a_closed_store_is_let_go_after_a_refusal(kit: Any, tmp_path: Path) -> None:
    """A wrong pin leaves no open database behind: closing removes the write-ahead log."""
    create(kit, tmp_path).close()
    other, pin = kit.sample(nonce=b"another")
    with pytest.raises(Conflict):
        open_ledger(tmp_path, kit.signers(), pin=pin)
    assert {path.name for path in tmp_path.iterdir()} == {DATABASE_NAME, HEAD_NAME}
    assert other.lines


def test_a_ledger_may_continue_another(kit: Any, tmp_path: Path) -> None:
    """The genesis names the id, size and root of the old one."""
    continues = Continues(ledger="blake3:" + "1" * 64, size=4, root="2" * 64)
    assert create(kit, tmp_path, continues=continues).authority.genesis.continues == continues


APPENDER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from conftest import Kit
from savant.ledger import open_ledger
kit = Kit()
ledger = open_ledger(Path(sys.argv[1]), kit.signers())
print("ready", flush=True)
sys.stdin.readline()
for number in range(60):
    ledger.append("driver", kit.note(f"{sys.argv[2]} {number}"), run=None, observed=kit.observed)
    if number % 20 == 7:
        ledger.checkpoint()
ledger.close()
"""


def test_two_processes_keep_one_chain(kit: Any, tmp_path: Path) -> None:
    """Both append and sign checkpoints at the same time: no number is lost and the whole verifies."""
    pin = create(kit, tmp_path).pin
    command = [sys.executable, "-c", APPENDER, str(tmp_path)]
    here = str(Path(__file__).parent)
    writers = [
        subprocess.Popen([*command, name, here], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in ("one", "two")
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.communicate("go\n", timeout=60)
        assert writer.returncode == 0
    ledger = open_ledger(tmp_path, kit.signers(), pin=pin)
    ledger.checkpoint()
    report = ledger.verify(kit.registry, pin)
    assert (report.outcome, report.records) == ("verified", 121)
    texts = [kit.payload(line)["predicate"]["body"]["text"] for line in SqliteStore(tmp_path).lines(1, 121)]
    for name in ("one", "two"):
        assert [text for text in texts if text.startswith(name)] == [f"{name} {number}" for number in range(60)]


def test_a_killed_writer_leaves_a_whole_ledger(kit: Any, tmp_path: Path) -> None:
    """After SIGKILL in the middle, what is there verifies and the next one goes on."""
    pin = create(kit, tmp_path).pin
    code = APPENDER.replace("range(60)", "range(100000)").replace(
        "ledger.append", "print(number, flush=True); ledger.append"
    )
    here = str(Path(__file__).parent)
    for round_ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), f"round {round_}", here],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
        for line in writer.stdout:
            if line == f"{17 + round_}\n":
                break
        writer.kill()
        writer.communicate()
        ledger = open_ledger(tmp_path, kit.signers(), pin=pin)
        kit.fill(ledger, 1)
        ledger.checkpoint()
        report = ledger.verify(kit.registry, pin)
        assert report.outcome == "verified"
        assert report.records >= 18 * (round_ + 1)
        ledger.close()


def test_a_store_is_verified_without_any_key(kit: Any, tmp_path: Path) -> None:
    """Reading needs no signer."""
    pin = create(kit, tmp_path).pin
    store = SqliteStore(tmp_path)
    assert verify_store(store, kit.registry, pin, verifier=kit.verifier).outcome == "verified"
    store.close()
