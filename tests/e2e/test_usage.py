"""What calls used and cost, from a provider that says so to the table that a person reads."""

from __future__ import annotations

import json
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from driver.index import Lines, follow
from savant.cli.kinds import registry
from savant.ledger.sqlitestore import SqliteStore
from savant.store.database import RunDatabase
from savant.store.objects import FileObjectStore
from savant.store.rows import ClaimRow, ConfigurationRow, MessageRow, PlanRow, RunRow, SessionRow, TemplateRow, UsageRow
from tests.e2e.conftest import Shop

KINDS = (RunRow, SessionRow, TemplateRow, ConfigurationRow, ClaimRow, PlanRow, UsageRow, MessageRow)
PRICES = '[prices."command"]\ninput_per_mtok = "3.00"\ncached_per_mtok = "0.30"\noutput_per_mtok = "15.00"\n'
LIMITS = 'domain = "shop"\n[budgets]\ncall_tokens_in = 1_000\ncall_tokens_out = 100\n'
PROGRAM = """
import json, sys
asked = json.load(sys.stdin)
sys.stderr.write("thinking\\n")
said = {"wire": asked["wire"], "request_digest": asked["request_digest"], "usage": USAGE}
match asked["request"]["operation"]:
    case "planning":
        said["plan"] = {"steps": [{"id": "one", "intended_changes": [{"pattern": "**", "operations": ["modify"]}]}]}
    case "generation":
        number = (asked["request"]["prior"] or {}).get("attempt_digest") or "first"
        said["generation"] = {"edits": [{"op": "write", "path": "README.txt", "text": f"more {number}\\n"}]}
print(json.dumps(said))
"""


@pytest.fixture
def wire() -> Callable[..., tuple[str, ...]]:
    """The flags of a provider that plans and generates, and says that each call used so much."""

    def flags(usage: dict[str, Any] | None, *, claims: bool = True) -> tuple[str, ...]:
        program = PROGRAM.replace("USAGE", repr(usage))
        words = shlex.join((sys.executable, "-I", "-c", program))
        named = ("--provider", words, "--provider-operation", "planning", "--provider-operation", "generation")
        return (*named, *(("--reports-usage",) if claims else ()))

    return flags


def person(shop: Shop, text: str) -> None:
    path = shop.root / "home/config/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def usage(shop: Shop, *flags: str) -> dict[str, Any]:
    ended = shop.savant("usage", *flags, "--format", "json")
    assert ended.code == 0, (ended.out, ended.err)
    return ended.json


def table(shop: Shop, *flags: str) -> list[list[str]]:
    ended = shop.savant("usage", *flags)
    assert ended.code == 0, (ended.out, ended.err)
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in ended.out.splitlines()]


def database_of(shop: Shop) -> Path:
    return shop.path / ".git/savant/runs.db"


def rows_of(path: Path) -> dict[type, tuple[Any, ...]]:
    with RunDatabase(path) as database:
        return {kind: database.rows(kind) for kind in KINDS}


def test_usage_from_the_answer_to_the_table(shop: Shop, wire: Callable[..., tuple[str, ...]]) -> None:
    """What each call said is recorded, added up, priced, and shown with the run; nothing is invented for the others."""
    person(shop, PRICES)
    used = {"tokens_in": 1_200, "tokens_out": 300, "tokens_cached": 1_000, "cost_microunits": 4_200}
    ended = shop.savant("run", "Change", *wire(used), "--must-pass", "/bin/true", "--quiet")
    assert "  usage: tokens in 2,400, out 600; cost 0.0084\n" in ended.out
    first = shop.savant("runs", "--format", "json").json["runs"][0]["run"]
    second = shop.admitted()
    said = usage(shop)
    assert (said["by"], said["since"]) == ("run", None)
    assert [(row["key"], row["calls"], row["tokens_in"]) for row in said["rows"]] == [
        (second, 3, None),
        (first, 3, 2_400),
    ]
    row = said["rows"][1]
    assert (row["tokens_out"], row["tokens_cached"], row["cost_microunits"]) == (600, 2_000, 8_400)
    assert row["priced_microunits"] == 2 * (200 * 3 + 300 + 300 * 15)
    assert (row["unknown_in"], said["rows"][0]["unknown_in"], said["total"]["unknown_in"]) == (0, 3, 3)
    assert said["total"]["cost_microunits"] == 8_400
    assert table(shop)[1:] == [
        [second[:12], "3", "unknown", "unknown", "unknown", "unknown", "unknown"],
        [first[:12], "3", "2,400", "2,000", "600", "0.0084", "0.0108"],
        ["total", "6", *(f"{known} + 3 unknown" for known in ("2,400", "2,000", "600", "0.0084", "0.0108"))],
    ]
    assert [row["key"] for row in usage(shop, "--by", "provider")["rows"]] == ["command", "recipe"]
    assert [row["key"] for row in usage(shop, "--by", "model")["rows"]] == [None]
    assert table(shop, "--by", "model")[1][0] == "(not named)"
    (day,) = usage(shop, "--by", "day")["rows"]
    assert usage(shop, "--since", day["key"])["total"]["calls"] == 6
    assert usage(shop, "--since", "2999-01-01") == {**said, "since": "2999-01-01", "rows": [], "total": None}
    assert shop.savant("usage", "--since", "2999-01-01").out == "No provider call since then.\n"
    assert shop.savant("usage", "--since", "yesterday").code == 2
    shown = shop.savant("show", first, "--format", "json").json["calls"]
    assert [(call["operation"], call["tokens_in"], call["cost_microunits"]) for call in shown] == [
        ("interpretation", 0, 0),
        ("planning", 1_200, 4_200),
        ("generation", 1_200, 4_200),
    ]
    assert "call generation: completed; tokens in 1,200, out 300; cost 0.0042" in shop.savant("show", first).out
    assert "call generation: completed; usage unknown" in shop.savant("show", second).out


def test_what_a_subscription_pays_is_marked(shop: Shop, wire: Callable[..., tuple[str, ...]]) -> None:
    """Notional costs stand apart, reported or by price, in the table and for programs."""
    person(shop, PRICES)
    used = {"tokens_in": 1_000, "tokens_out": 0, "cost_microunits": 4_200, "notional": True}
    run = shop.run("Change", *wire(used), "--must-pass", "/bin/true").json["run"]
    (row,) = usage(shop)["rows"]
    assert (row["cost_microunits"], row["notional_microunits"], row["notional_priced_microunits"]) == (0, 8_400, 6_000)
    assert table(shop)[1][5:] == ["0.0084 notional", "0.006 notional"]
    assert "cost 0.0042 notional" in shop.savant("show", run).out
    del used["cost_microunits"]
    run = shop.run("Change again", *wire(used), "--must-pass", "/bin/true").json["run"]
    assert "cost 0.003 notional by price" in shop.savant("show", run).out
    assert table(shop)[1][5:] == ["0.00 + 2 unknown", "0.006 notional"]


KILLED = """
import os, sys
from commandprovider.recipe import RecipeProvider
execute = RecipeProvider.execute
def die(self, call):
    if call.request.document.operation == "generation":
        os._exit(137)
    return execute(self, call)
RecipeProvider.execute = die
from savant.cli.app import run_command
run_command(sys.argv[1:])
"""


def test_a_run_that_was_killed_is_listed_with_the_call_that_never_ended(shop: Shop) -> None:
    """Nobody could write its rows when it died: the next command reads them from its records, and knows no end."""
    words = ("run", "Change", "--recipe", "true", "--repo", str(shop.path))
    died = subprocess.run([sys.executable, "-P", "-c", KILLED, *words], check=False, capture_output=True, cwd=shop.root)
    assert died.returncode == 137, died.stderr
    (killed,) = shop.savant("runs", "--format", "json").json["runs"]
    assert killed["disposition"] is None
    calls = shop.savant("show", killed["run"], "--format", "json").json["calls"]
    assert [(call["operation"], call["outcome"]) for call in calls] == [
        ("interpretation", "completed"),
        ("planning", "completed"),
        ("generation", None),
    ]
    assert "call generation: never ended; usage unknown" in shop.savant("show", killed["run"]).out
    shop.admitted()
    assert [(row["key"], row["calls"], row["unknown_in"]) for row in usage(shop, "--by", "provider")["rows"]] == [
        ("recipe", 6, 6)
    ]


def test_no_call_is_no_usage(shop: Shop) -> None:
    """Before the first run there is nothing to add up, and nothing is written to find that out."""
    assert usage(shop) == usage(shop, "--by", "run")
    assert usage(shop)["total"] is None
    assert shop.savant("usage").out == "No provider call yet.\n"
    assert not database_of(shop).exists()


@pytest.mark.parametrize(
    ("flags", "most", "reason"),
    [
        (("--tokens", "2_199"), "", "token-budget-exhausted"),
        (("--tokens", "2200"), "", None),
        ((), "tokens = 2_199\n", "token-budget-exhausted"),
        (("--tokens", "999_999"), "tokens = 2_199\n", "token-budget-exhausted"),
        (("--cost", "0.008999"), "", "cost-budget-exhausted"),
        (("--cost", "0.009"), "", None),
        (("--cost", "999"), "cost_microunits = 8_999\n", "cost-budget-exhausted"),
    ],
)
def test_a_call_that_could_exceed_a_budget_is_not_made(
    shop: Shop,
    wire: Callable[..., tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    most: str,
    reason: str | None,
) -> None:
    """The plan used the worst case; the generation runs when as much is left, and the program is not started if not."""
    person(shop, PRICES)
    shop.write(".savant/config.toml", LIMITS + most)
    shop.commit("limits")
    used = {"tokens_in": 1_000, "tokens_out": 100}
    words = tuple(flag.replace("_", "") for flag in flags)
    ended = shop.run("Change", *wire(used), "--must-pass", "/bin/true", *words)
    assert ended.json["reason"] == (reason or "candidate-ready-for-admission")
    calls = shop.savant("show", ended.json["run"], "--format", "json").json["calls"]
    assert [call["operation"] for call in calls] == ["interpretation", "planning", "generation"][: 2 if reason else 3]
    assert ("was not made" in ended.err) is ("was not made" in ended.json["detail"]) is (reason is not None)
    assert usage(shop)["total"]["tokens_in"] == (1_000 if reason else 2_000)


def test_a_budget_that_holds_no_call_is_not_ready(shop: Shop, wire: Callable[..., tuple[str, ...]]) -> None:
    """Nothing is called and nothing recorded; each problem has its fix. What nobody measures cannot be limited."""
    used = {"tokens_in": 1, "tokens_out": 1}

    def problems(*flags: str, claims: bool = True) -> list[str]:
        ended = shop.run("Change", *wire(used, claims=claims), "--must-pass", "/bin/true", *flags)
        assert ended.code == 40, (ended.out, ended.err)
        return [item["code"] for item in ended.json["items"] if not item["ready"]]

    assert problems("--tokens", "231999") == ["driver.budget-too-small"]
    assert problems("--cost", "1") == ["driver.price-missing"]
    person(shop, PRICES)
    assert problems("--cost", "1") == ["driver.budget-too-small"]
    assert problems("--tokens", "999999", claims=False) == ["driver.usage-unreported"]
    assert not (shop.path / ".git/savant/ledger.sqlite3").exists()
    assert shop.run("Change", *wire(used), "--must-pass", "/bin/true", "--tokens", "696000", "--cost", "9").code == 0
    for amount in ("-1", "1e3", "lots"):
        ended = shop.run("Change", *wire(used), "--cost", amount)
        assert (ended.code, ended.json["code"]) == (2, "usage.amount")


def test_the_database_is_what_the_ledger_says(shop: Shop, wire: Callable[..., tuple[str, ...]], tmp_path: Path) -> None:
    """Runs, an application, an undo: the rows that were written are the rows that reading the ledger again gives."""
    used = {"tokens_in": 3, "tokens_out": 4}
    run = shop.run("Change", *wire(used), "--must-pass", "/bin/true").json["run"]
    target = tmp_path / "target"
    assert shop.savant("apply", run, str(target)).code == 0
    shop.run("Fail", *wire(used, claims=False), "--must-pass", "/bin/false", "--retries", "1")
    assert shop.savant("undo", str(target)).code == 0
    listed = {row["run"]: row["disposition"] for row in shop.savant("runs", "--format", "json").json["runs"]}
    assert listed[run] == "applied-compliant"
    assert sorted(listed.values()) == ["applied-compliant", "terminal-failure"]
    written = rows_of(database_of(shop))
    assert len(written[UsageRow]) == 3 + 4
    assert {row.text for row in written[MessageRow]} == {"thinking"}
    directory = shop.path / ".git/savant"
    store = SqliteStore(directory)
    with RunDatabase(tmp_path / "again.db") as again, FileObjectStore(directory / "objects") as objects:
        follow(again, Lines(store.tail().size, store.lines), registry(), objects)
    store.close()
    assert rows_of(tmp_path / "again.db") == written
    for name in ("runs.db", "runs.db-wal", "runs.db-shm"):
        (directory / name).unlink(missing_ok=True)
    assert {row["run"]: row["disposition"] for row in shop.savant("runs", "--format", "json").json["runs"]} == listed
    assert rows_of(database_of(shop)) == written


def test_a_database_of_the_first_version_goes_on(shop: Shop) -> None:
    """A file that an earlier Savant left is migrated, completed from the ledger, and used."""
    run = shop.admitted()
    assert shop.savant("runs").code == 0
    written = rows_of(database_of(shop))
    database_of(shop).unlink()
    with closing(sqlite3.connect(database_of(shop))) as old, old:
        old.executescript(
            "create table run (run_id text primary key, started_at_ms integer not null, objective text not null, "
            "base_commit text not null, disposition text, candidate_digest text, ledger_first_seq integer not null, "
            "ledger_last_seq integer) without rowid; pragma user_version = 1;"
        )
        old.execute("insert into run values (?, 1, 'x', 'y', null, null, 1, null)", (run,))
    assert shop.savant("runs").code == 0
    assert rows_of(database_of(shop)) == written


def test_a_database_that_cannot_be_used_is_said_by_what_reads_it(shop: Shop) -> None:
    """A run needs none, it is in the ledger. What reads it refuses; deleting the file is the whole cure."""
    shop.admitted()
    database_of(shop).write_bytes(b"no database " * 1_000)
    run = shop.admitted()
    for command in ("runs", "usage", "show"):
        refused = shop.savant(command, "--format", "json")
        assert (refused.code, refused.json["code"]) == (42, "port.run-database")
        assert str(database_of(shop)) in refused.json["fix"]
    assert database_of(shop).read_bytes() == b"no database " * 1_000
    assert shop.savant("ledger", "verify").code == 0
    database_of(shop).unlink()
    assert json.loads(shop.savant("runs", "--format", "json").out)["runs"][0]["run"] == run
