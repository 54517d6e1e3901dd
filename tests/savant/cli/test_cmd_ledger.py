"""``ledger log``, ``show``, ``verify`` and ``replay`` on real ledgers, by their output and exit codes."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from savant.cli.app import run_command
from savant.contracts.document import digest_of
from savant.identity.pins import add_pin
from savant.ledger.sqlitestore import DATABASE_NAME, HEAD_NAME
from savant.repository.sample import create_sample
from savant.store.objects import FileObjectStore
from tests.driver.ledgerkit import RUN_A, RUN_B, make_ledger, small_run
from tests.vectors.examples import SESSION

Ask = Callable[..., tuple[int, Any]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("SAVANT_HOME", str(folder))
    return folder


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Path:
    """A repository with a pinned ledger of two runs, one of which has a large body beside the ledger."""
    repo = tmp_path / "repo"
    create_sample(repo, {"a.txt": b"a\n"}, message="one")
    directory = repo / ".git" / "savant"
    directory.mkdir()
    with FileObjectStore(directory / "objects") as objects:
        ledger = make_ledger(directory, bodies=objects)
        small_run(ledger, RUN_A)
        small_run(ledger, RUN_B, [("driver", structs.replace(SESSION, objective="x" * 60_000))])
        pin = ledger.pin
        ledger.close()
    assert pin.ledger is not None
    assert pin.root_keyid is not None
    add_pin(home / "config", repo / ".git", ledger=pin.ledger, root_keyid=pin.root_keyid)
    return repo


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run a command with JSON output: its exit code and its document."""

    def run(*arguments: object) -> tuple[int, Any]:
        capsys.readouterr()
        code = run_command([*map(str, arguments), "--format", "json"])
        return code, json.loads(capsys.readouterr().out)

    return run


def states(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()
    }


def tamper(directory: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(directory / DATABASE_NAME) as connection:
        connection.execute(statement, values)
    connection.close()


def test_a_pinned_ledger_is_intact(repo: Path, ask: Ask) -> None:
    """Every check passes, every record is covered, and nothing in the repository changed."""
    before = states(repo)
    code, said = ask("ledger", "verify", "--repo", repo)
    assert (code, said["ending"], said["outcome"], said["records"], said["covered"]) == (0, "ok", "verified", 9, 9)
    assert {check["status"] for check in said["checks"]} == {"pass"}
    assert states(repo) == before


def test_people_read_words(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict is a sentence, each check a line."""
    assert run_command(["ledger", "verify", "--repo", str(repo)]) == 0
    out = capsys.readouterr().out
    assert "RECORD INTACT" in out
    assert out.count("pass") == 11


def test_without_a_pin_a_ledger_is_not_authenticated(repo: Path, home: Path, ask: Ask) -> None:
    """Intact is not enough for exit 0: somebody must vouch, by the person's configuration or a typed pin."""
    shutil.rmtree(home / "config")
    code, said = ask("ledger", "verify", "--repo", repo)
    assert (code, said["outcome"]) == (12, "self-consistent")
    assert ask("ledger", "verify", "--repo", repo, "--pin", said["ledger_id"])[0] == 0
    assert ask("ledger", "verify", "--repo", repo, "--root", said["root_keyid"])[0] == 0
    code, said = ask("ledger", "verify", "--repo", repo, "--pin", "blake3:" + "0" * 64)
    assert (code, said["outcome"]) == (23, "failed")
    assert [c["name"] for c in said["checks"] if c["status"] == "fail"] == ["pin"]


def test_a_copied_ledger_is_verified_where_it_lies(repo: Path, tmp_path: Path, ask: Ask) -> None:
    """A copy outside any repository is intact under the person's pin of that ledger, and stays as it is."""
    copy = tmp_path / "copy"
    shutil.copytree(repo / ".git" / "savant", copy)
    before = states(copy)
    code, said = ask("ledger", "verify", "--ledger", copy)
    assert (code, said["outcome"], said["directory"]) == (0, "verified", str(copy))
    assert states(copy) == before


def test_a_copy_without_its_objects_is_not_shown_whole(repo: Path, tmp_path: Path, ask: Ask) -> None:
    """A large body that is not there cannot be checked; no folder is made for it."""
    copy = tmp_path / "copy"
    shutil.copytree(repo / ".git" / "savant", copy)
    shutil.rmtree(copy / "objects")
    code, said = ask("ledger", "verify", "--ledger", copy)
    assert (code, said["outcome"]) == (12, "incomplete")
    assert not (copy / "objects").exists()


@pytest.mark.parametrize(
    ("statement", "values", "failing"),
    [
        ("UPDATE record SET line = ? WHERE seq = 3", (b"{}",), "bytes"),
        ("DELETE FROM record WHERE seq = 4", (), "chain"),
        ("DELETE FROM record WHERE seq >= 7", (), "head"),
        ("DELETE FROM checkpoint", (), "checkpoint"),
    ],
)
def test_a_tampered_copy_is_refused(
    repo: Path, tmp_path: Path, ask: Ask, statement: str, values: tuple[object, ...], failing: str
) -> None:
    """A changed, removed or cut record and removed checkpoints are found; the untouched copy is intact."""
    copy = tmp_path / "copy"
    shutil.copytree(repo / ".git" / "savant", copy)
    assert ask("ledger", "verify", "--ledger", copy)[0] == 0
    tamper(copy, statement, *values)
    code, said = ask("ledger", "verify", "--repo", repo, "--ledger", copy)
    assert (code, said["outcome"]) == (23, "failed")
    assert failing in [c["name"] for c in said["checks"] if c["status"] == "fail"]


def test_another_ledger_in_its_place_is_found_out(repo: Path, tmp_path: Path, ask: Ask) -> None:
    """A whole ledger of somebody else is self-consistent and still not the pinned one."""
    other = tmp_path / "other"
    from savant.contracts.twins import CountingEntropy
    from savant.ledger.place import Root, create_ledger
    from savant.ledger.record import observation
    from tests.driver.ledgerkit import ROOT, SIGNERS

    create_ledger(other, SIGNERS, Root.of(ROOT), entropy=CountingEntropy(b"other"), observed=observation(0)).close()
    code, said = ask("ledger", "verify", "--repo", repo, "--ledger", other)
    assert (code, [c["name"] for c in said["checks"] if c["status"] == "fail"]) == (23, ["pin"])
    assert ask("ledger", "verify", "--ledger", other)[0] == 12


def test_a_missing_head_is_a_failure(repo: Path, ask: Ask) -> None:
    """Removing the saved head does not make a ledger look like a new one."""
    (repo / ".git" / "savant" / HEAD_NAME).unlink()
    code, said = ask("ledger", "verify", "--repo", repo)
    assert (code, said["outcome"]) == (23, "failed")


def test_a_repository_without_a_ledger_says_so(tmp_path: Path, home: Path, ask: Ask) -> None:
    """Nothing is made by looking."""
    repo = tmp_path / "bare"
    create_sample(repo, {"a.txt": b"a\n"}, message="one")
    code, said = ask("ledger", "verify", "--repo", repo)
    assert (code, said["code"]) == (24, "unverifiable.no-ledger")
    assert not (repo / ".git" / "savant").exists()


def test_the_log_lists_records_in_order(repo: Path, ask: Ask) -> None:
    """One row per record, its words, its run and digest."""
    code, said = ask("ledger", "log", "--repo", repo)
    rows = said["records"]
    assert code == 0
    assert [row["seq"] for row in rows] == list(range(9))
    assert [row["what"] for row in rows[1:6]] == [
        "ledger run open: enforce",
        "synthesis session",
        "ledger intent: provider.interpretation",
        "synthesis interpretation",
        "ledger run close: terminal-failure",
    ]
    assert rows[2]["body_digest"] == digest_of(SESSION)
    assert rows[0]["run"] is None


def test_the_log_is_limited_by_run_and_number(repo: Path, ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    """``--run`` takes a prefix, ``--limit`` keeps the newest."""
    assert [r["seq"] for r in ask("ledger", "log", "--repo", repo, "--run", "BBB")[1]["records"]] == [6, 7, 8]
    assert [r["seq"] for r in ask("ledger", "log", "--repo", repo, "--run", "a", "--limit", "2")[1]["records"]] == [
        4,
        5,
    ]
    capsys.readouterr()
    assert run_command(["ledger", "log", "--repo", str(repo), "--limit", "1"]) == 0
    assert capsys.readouterr().out.split()[:2] == ["8", "2023-11-14"]


def test_the_log_shows_what_it_cannot_read(repo: Path, tmp_path: Path, ask: Ask) -> None:
    """A damaged line is one row that says so; the others are listed."""
    copy = tmp_path / "copy"
    shutil.copytree(repo / ".git" / "savant", copy)
    tamper(copy, "UPDATE record SET line = ? WHERE seq = 2", b"\x1b[31m")
    _, said = ask("ledger", "log", "--ledger", copy)
    assert said["records"][2]["what"].startswith("UNREADABLE: refused.")
    assert len(said["records"]) == 9


def test_a_record_is_shown_by_number_and_by_digest(repo: Path, ask: Ask) -> None:
    """The whole statement, its body and its signer, by number or by a prefix of the body's digest."""
    code, by_number = ask("ledger", "show", "2", "--repo", repo)
    assert code == 0
    assert by_number["body"]["objective"] == SESSION.objective
    assert by_number["statement"]["predicate"]["role"] == "driver"
    assert by_number["keyid"].startswith("SHA256:")
    _, by_digest = ask("ledger", "show", digest_of(SESSION)[:20], "--repo", repo)
    assert by_digest == by_number


def test_a_large_body_is_shown_from_beside_the_ledger(repo: Path, ask: Ask) -> None:
    """The statement holds only its digest; the document is shown all the same."""
    _, said = ask("ledger", "show", "7", "--repo", repo)
    assert said["statement"]["predicate"]["body"] is None
    assert len(said["body"]["objective"]) == 60_000


@pytest.mark.parametrize(("record", "code"), [("99", "unknown"), ("abc", "unknown"), ("", "unknown")])
def test_a_record_that_is_not_there_is_said_to_be_unknown(repo: Path, ask: Ask, record: str, code: str) -> None:
    """A number beyond the end, a digest of nothing and nothing at all name no record."""
    status, said = ask("ledger", "show", record, "--repo", repo)
    assert (status, said["code"]) == (2, f"usage.{code}-record")


def test_a_prefix_of_several_digests_is_ambiguous(repo: Path, ask: Ask) -> None:
    """It names no record; the messages lists what it could mean."""
    _, log = ask("ledger", "log", "--repo", repo)
    digests = {row[name].partition(":")[2] for row in log["records"] for name in ("body_digest", "line_digest")}
    initial = next(d[0] for d in digests if sum(other.startswith(d[0]) for other in digests) > 1)
    prefix = initial if not initial.isdigit() else "blake3:" + initial
    status, said = ask("ledger", "show", prefix, "--repo", repo)
    assert (status, said["code"]) == (2, "usage.ambiguous-record")


def test_people_read_a_record_as_it_stands(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text shows the statement too, says where a large body lies and that nothing was checked."""
    assert run_command(["ledger", "show", "7", "--repo", str(repo)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("The body lies beside the ledger")
    assert "savant ledger verify checks it" in out
    assert '"body_kind": "savant.synthesis.session/v1"' in out
    shutil.rmtree(repo / ".git" / "savant" / "objects")
    assert run_command(["ledger", "show", "7", "--repo", str(repo)]) == 0
    assert "elsewhere and is not here" in capsys.readouterr().out


def test_a_document_that_two_runs_recorded_is_shown_once(tmp_path: Path, home: Path, ask: Ask) -> None:
    """By its digest the newest record is shown, the others are named."""
    repo = tmp_path / "twice"
    create_sample(repo, {"a.txt": b"a\n"}, message="one")
    ledger = make_ledger(repo / ".git" / "savant")
    small_run(ledger, RUN_A)
    small_run(ledger, RUN_B)
    ledger.close()
    code, said = ask("ledger", "show", digest_of(SESSION), "--repo", repo)
    assert (code, said["seq"], said["also"]) == (0, 7, [2])


def test_people_are_told_how_to_authenticate(repo: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a pin the words say that nobody vouches, and what to type."""
    shutil.rmtree(home / "config")
    assert run_command(["ledger", "verify", "--repo", str(repo)]) == 12
    out = capsys.readouterr().out
    assert "INTACT, NOT AUTHENTICATED (no pin)" in out
    assert "--pin ID" in out
    tamper(repo / ".git" / "savant", "UPDATE record SET line = ? WHERE seq = 3", b"{}")
    assert run_command(["ledger", "verify", "--repo", str(repo)]) == 23
    out = capsys.readouterr().out
    assert "REFUSED" in out
    assert "record 3: " in out
